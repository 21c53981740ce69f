//! Where a network looks in a picture: its attention laid over the pixels, and the filters of its first layer.

use burn::tensor::Tensor;
use regard_data::{Image, ImageSize};
use regard_figures::{Axis, Bars, Content, Figure, FigureError, Heatmap, Pictures, Tile};
use regard_inspect::{AttentionView, MapGroup, rollout};
use regard_nn::models::image::vision_transformer::{PatchPooling, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifier, ImageShape, Network, NetworkConfig};
use regard_nn::{AttentionKind, AttentionMap};
use serde_json::{Value, json};

use crate::error::TaskError;
use crate::pictures::tile;
use crate::task::Picture;

/// Largest number of labels whose probabilities are drawn.
const LABELS_SHOWN: usize = 10;
/// Largest number of filters that are drawn.
const FILTERS_SHOWN: usize = 64;
/// Length of a picture's side under weights.
const SIDE: u32 = 112;

/// A picture with the model's answer, and how the tokens of the attention layers lie in it.
#[derive(Debug, Clone)]
pub(super) struct Gaze {
    image: Image,
    /// Probability of each label.
    probabilities: Vec<(String, f32)>,
    tokens: Tokens,
}

/// How the tokens of attention layers lie in the picture.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tokens {
    /// Patches in rows and columns, perhaps after a class token.
    Patches { grid: [usize; 2], class_token: bool, layers: usize, heads: usize },
    /// Positions of feature maps, halved after each stage but the first, and channels.
    Positions { image: [usize; 2] },
}

impl Tokens {
    /// Rows and columns of the tokens of a layer.
    fn grid(&self, layer: usize) -> [usize; 2] {
        match self {
            Self::Patches { grid, .. } => *grid,
            Self::Positions { image } => image.map(|size| (0..layer).fold(size, |size, _| size.div_ceil(2))),
        }
    }

    /// The names of queries and keys of a map, and the name of its layer.
    pub fn of(&self, map: &AttentionMap, answer: &str) -> (Vec<String>, Vec<String>, String) {
        let words = map.site.words();
        if map.site.kind == AttentionKind::Channels {
            let channels: Vec<String> = (0..map.rows.len()).map(|channel| format!("channel {channel}")).collect();
            return (channels.clone(), channels, words);
        }
        let [rows, columns] = self.grid(map.site.layer);
        let class = matches!(self, Self::Patches { class_token: true, .. }).then(|| "class".to_string());
        let places = (0..rows * columns).map(|at| format!("{},{}", at / columns, at % columns));
        let keys: Vec<String> = class.into_iter().chain(places).collect();
        match map.site.kind {
            AttentionKind::Pooling => (vec![answer.to_string()], keys, words),
            _ => (keys.clone(), keys, words),
        }
    }
}

/// Weights over the cells of a picture.
struct Weights {
    name: String,
    grid: [usize; 2],
    cells: Vec<f32>,
}

impl Gaze {
    pub fn new(image: Image, probabilities: Vec<(String, f32)>, network: &NetworkConfig) -> Self {
        let ImageSize { channels, height, width } = image.size;
        let tokens = match network {
            NetworkConfig::Vit(config) => patches(config, ImageShape { channels, height, width }),
            NetworkConfig::Cnn(_) | NetworkConfig::Dnn(_) => Tokens::Positions { image: [height, width] },
        };
        Self { image, probabilities, tokens }
    }

    pub fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Draws the picture, the answer, and where the maps of `view` look.
    pub fn picture(&self, view: &AttentionView) -> Result<Picture, TaskError> {
        let mut figure = Figure::new(view.title.as_str())
            .panel("the picture", Pictures::new([tile(&self.image)?])?.side(2 * SIDE))
            .panel("probabilities", self.bars()?);
        let rolled = self.rolled(view);
        if let Some(weights) = &rolled {
            figure.push("attention of all layers, rolled out", Pictures::new([self.over(weights)?])?.side(2 * SIDE));
        }
        let mut heads = Vec::new();
        for group in &view.groups {
            let Some(site) = group.site else { continue };
            if site.kind == AttentionKind::Channels {
                for head in &group.heads {
                    figure.push(format!("{}: channels looked at, by channel", site), channels(&head.rows)?);
                }
                continue;
            }
            let weights: Vec<Weights> = group.heads.iter().flat_map(|head| self.weights(group, head.head)).collect();
            let tiles = weights.iter().map(|weights| self.over(weights)).collect::<Result<Vec<_>, _>>()?;
            let columns = tiles.len().clamp(1, 4);
            figure.push(group.name.as_str(), Pictures::new(tiles)?.columns(columns).side(SIDE));
            heads.extend(weights);
        }
        figure = self.noted(figure.columns(3), view);
        Ok(Picture { figure, data: self.data(rolled.as_ref(), &heads) })
    }

    fn noted(&self, figure: Figure, view: &AttentionView) -> Figure {
        if view.groups.is_empty() {
            return figure;
        }
        let figure = figure.note("The strongest colour of each picture is its own largest weight.");
        match self.tokens {
            Tokens::Patches { class_token: true, .. } => figure.note(
                "Weights of the class token, from which the answer is read, by head. Rolled out: the product over layers of the mean of the heads, half and half with the identity.",
            ),
            Tokens::Patches { .. } => figure.note(
                "Mean weights of all patches, by head. Rolled out: the product over layers of the mean of the heads, half and half with the identity.",
            ),
            Tokens::Positions { .. } => figure
                .note("Attention between positions: the mean over all positions, and where two of them look."),
        }
    }

    /// Draws the picture under weights.
    fn over(&self, weights: &Weights) -> Result<Tile, FigureError> {
        let [rows, columns] = weights.grid;
        tile(&self.image)?.caption(weights.name.as_str()).weights(rows, columns, weights.cells.clone())
    }

    fn bars(&self) -> Result<Bars, FigureError> {
        let mut sorted = self.probabilities.clone();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        sorted.truncate(LABELS_SHOWN);
        let names = sorted.iter().map(|(name, _)| name.as_str());
        let axis = Axis::linear("probability").including(0.0).including(1.0);
        Bars::new(axis, names).series("", sorted.iter().map(|(_, probability)| f64::from(*probability)))
    }

    /// The weights that a head gives to the cells: of the class token, of all patches, or of positions.
    fn weights(&self, group: &MapGroup, head: usize) -> Vec<Weights> {
        let Some(site) = group.site else { return Vec::new() };
        let grid @ [height, width] = self.tokens.grid(site.layer);
        let Some(map) = group.heads.iter().find(|map| map.head == head) else { return Vec::new() };
        let name = group.head_name(head);
        let weights = |name: String, cells: Vec<f32>| Weights { name, grid, cells };
        match self.tokens {
            Tokens::Patches { class_token, .. } => vec![weights(name, read_from(&map.rows, class_token))],
            Tokens::Positions { .. } => {
                let mean = mean(&map.rows);
                let most = (0..mean.len()).max_by(|&a, &b| mean[a].total_cmp(&mean[b])).unwrap_or(0);
                let centre = height / 2 * width + width / 2;
                let row = |at: usize| map.rows.get(at).cloned().unwrap_or_else(|| vec![0.0; mean.len()]);
                let place = |at: usize| format!("row {}, column {}", at / width, at % width);
                vec![
                    weights(format!("{name}: all positions"), mean.clone()),
                    weights(format!("{name}: from the centre, {}", place(centre)), row(centre)),
                    weights(format!("{name}: from the one looked at most, {}", place(most)), row(most)),
                ]
            }
        }
    }

    /// The rollout of all layers, if all their heads are in the view.
    fn rolled(&self, view: &AttentionView) -> Option<Weights> {
        let Tokens::Patches { grid, class_token, layers, heads } = self.tokens else { return None };
        let is_layer = |group: &&MapGroup| group.site.is_some_and(|site| site.kind == AttentionKind::SelfAttention);
        let found: Vec<&MapGroup> = view.groups.iter().filter(is_layer).collect();
        let is_whole = found.len() == layers && found.iter().all(|group| group.heads.len() == heads);
        let rows = rollout(found).filter(|_| is_whole)?;
        let name = if class_token { "as seen by the class token" } else { "mean over patches" };
        Some(Weights { name: name.to_string(), grid, cells: read_from(&rows, class_token) })
    }

    fn data(&self, rolled: Option<&Weights>, heads: &[Weights]) -> Value {
        let rows = |weights: &Weights| -> Vec<Vec<f32>> {
            weights.cells.chunks(weights.grid[1]).map(<[f32]>::to_vec).collect()
        };
        let probabilities: serde_json::Map<String, Value> =
            self.probabilities.iter().map(|(name, probability)| (name.clone(), json!(probability))).collect();
        let heads: Vec<Value> =
            heads.iter().map(|weights| json!({ "name": weights.name, "weights": rows(weights) })).collect();
        json!({ "probabilities": probabilities, "rollout": rolled.map(rows), "heads": heads })
    }
}

fn patches(config: &VisionTransformerConfig, image: ImageShape) -> Tokens {
    let class_token = config.pooling == PatchPooling::ClassToken;
    Tokens::Patches { grid: config.grid(image), class_token, layers: config.n_layers, heads: config.n_heads }
}

/// Weights over patches: those of the class token without its weight on itself, or the mean over all queries.
fn read_from(rows: &[Vec<f32>], class_token: bool) -> Vec<f32> {
    match (class_token, rows.first()) {
        (true, Some(row)) => row.iter().skip(1).copied().collect(),
        _ => mean(rows),
    }
}

fn mean(rows: &[Vec<f32>]) -> Vec<f32> {
    let mut mean = vec![0.0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        mean.iter_mut().zip(row).for_each(|(sum, weight)| *sum += weight / rows.len() as f32);
    }
    mean
}

/// Draws the attention between channels.
fn channels(rows: &[Vec<f32>]) -> Result<Heatmap, FigureError> {
    let map = Heatmap::new(rows.len(), rows.first().map_or(0, Vec::len), rows.concat())?;
    Ok(map.axes("channel", "channel looked at").side(2 * SIDE))
}

/// Draws the filters of the first layer: what a feature of a patch, or the first convolution, responds to.
pub(super) fn filters(model: &ImageClassifier, config: &NetworkConfig) -> Result<Option<Content>, TaskError> {
    let (title, filters, [channels, side]) = match (&model.network, config) {
        (Network::Vit(network), NetworkConfig::Vit(config)) => {
            let weight = network.embedding.weight.val();
            let [inputs, _] = weight.dims();
            let side = config.patch;
            ("Features of a patch", weight.swap_dims(0, 1), [inputs / (side * side), side])
        }
        (Network::Cnn(network), _) => {
            let weight: Tensor<4> = network.stem.convolution.weight.val();
            let [filters, channels, height, width] = weight.dims();
            ("First convolution", weight.reshape([filters, channels * height * width]), [channels, height])
        }
        _ => return Ok(None),
    };
    let [count, values] = filters.dims();
    let numbers: Vec<f32> = filters.into_data().iter().collect();
    let tiles = numbers.chunks(values).take(FILTERS_SHOWN).map(|filter| {
        let most = filter.iter().fold(f32::MIN_POSITIVE, |most, weight| most.max(weight.abs()));
        let pixel = |weight: &f32| (127.5 + 127.5 * weight / most) as u8;
        let size = ImageSize { channels, height: side, width: side };
        tile(&Image { size, pixels: filter.iter().map(pixel).collect() })
    });
    let tiles = tiles.collect::<Result<Vec<_>, _>>()?;
    let title = match tiles.len() < count {
        true => format!("{title}: the first {} of {count}", tiles.len()),
        false => title.to_string(),
    };
    let note = "Grey is 0; the largest weight of each filter is white or black, or a full colour.";
    Ok(Some(Content::Figure(Figure::new(title).panel("", Pictures::new(tiles)?.columns(16).side(40)).note(note))))
}
