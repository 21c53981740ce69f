//! `regard look`: writes the attention maps of inputs, or the positions of a model.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use regard_inspect::show::Shown;
use regard_inspect::{AttentionView, ViewFormat};
use regard_nn::{Ablation, Inventory, Pass, Site, Wanted};
use regard_tasks::input::Given;
use regard_tasks::task::{Looked, Picture};
use regard_tasks::{Opened, TaskError};

use super::{Without, dev_or, opened};
use crate::failure::failure;
use crate::print::{print, tell, tell_note};
use crate::value::{from_one, from_zero};

/// The arguments of `regard look`.
#[derive(Args)]
pub struct Look {
    /// A model folder written by `regard train`
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Inputs to look at; by default an example that the task chooses
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// The file to write, ending in .html, .svg, .png or .json; look.html by default, no file with --json
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
    /// Draw the positions that the model has learned, instead of attention maps
    #[arg(long, conflicts_with_all = ["inputs", "layer", "head", "without", "data"])]
    positions: bool,
    /// Number of positions to draw, 2 to 512; 64 by default, fewer if the model takes fewer tokens
    #[arg(long, value_name = "N", requires = "positions", value_parser = from_one::<usize>)]
    length: Option<usize>,
    /// Only layers whose name contains this, such as encoder, decoder.1, cross or "decoder layer 2"; all by default
    #[arg(long, value_name = "NAME")]
    layer: Option<String>,
    /// Only this head of each layer, counted from 0; all by default
    #[arg(long, value_name = "N", value_parser = from_zero::<usize>)]
    head: Option<usize>,
    #[command(flatten)]
    without: Without,
    /// Compute the means for --without NAME=mean from this file; from the model's dev split by default
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
}

impl Look {
    /// Writes the maps.
    pub fn run(self) -> Result<()> {
        let out = self.out.clone().or((!self.json).then(|| PathBuf::from("look.html")));
        if let Some(out) = &out {
            AttentionView::check_path(out).map_err(failure)?;
        }
        let model = opened(&self.model)?;
        if self.positions {
            let Shown { text, json, figure } = model.positions(self.length).map_err(failure)?;
            return self.give(&Picture { figure, data: json }.into(), &format!("{text}\n"), out.as_deref());
        }
        let wanted = self.wanted(model.as_ref())?;
        let ablation = self.without.ablation(model.as_ref(), dev_or(self.data.as_deref()))?;
        let inputs = self.inputs.iter().map(|input| Given::argument(input, model.input_kind()).map(Some));
        let mut inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(failure)?;
        if inputs.is_empty() {
            inputs.push(None);
        }
        let mut all: Option<Looked> = None;
        for (input, number) in inputs.iter().zip(1..) {
            for seen in self.looked(model.as_ref(), input.as_ref(), &wanted, ablation.as_ref())? {
                let seen = if inputs.len() > 1 { seen.numbered(number) } else { seen };
                all = Some(match all {
                    Some(before) => before.join(seen),
                    None => seen,
                });
            }
        }
        let Some(all) = all else { return Ok(()) };
        self.give(&all, "", out.as_deref())
    }

    /// Writes the file, if there is one to write, and prints what was asked for: JSON, or `text` and the name of the file.
    fn give(&self, looked: &Looked, text: &str, out: Option<&Path>) -> Result<()> {
        let mut said = if self.json { format!("{}\n", looked.to_json()) } else { text.to_string() };
        if let Some(out) = out {
            tell_note(&looked.save(out).map_err(failure)?);
            let format = ViewFormat::of(out).map_err(failure)?;
            let what = looked.maps_in(format).map_or(String::new(), |view| {
                let heads: usize = view.groups.iter().map(|group| group.heads.len()).sum();
                format!(": {heads} maps in {} layers", view.groups.len())
            });
            let wrote = format!("wrote {}{what}", out.display());
            if self.json { tell!("{wrote}") } else { said += &format!("{wrote}\n") }
        }
        print(&said)
    }

    /// Looks at an input with the whole model and, with `--without`, once more without the named parts.
    fn looked(
        &self,
        model: &dyn Opened,
        input: Option<&Given>,
        wanted: &Wanted,
        ablation: Option<&Ablation>,
    ) -> Result<Vec<Looked>> {
        let pass = Pass::inference();
        let mut seen = vec![model.look(input, wanted.clone(), &pass).map_err(failure)?];
        if let Some(ablation) = ablation {
            let less = model.look(input, wanted.clone(), &pass.with_ablation(ablation)).map_err(failure)?;
            seen.push(less.titled(&format!("without {}", self.without.names())));
        }
        Ok(seen)
    }

    /// Returns the layers and heads that `--layer` and `--head` ask for, or an error if the model has none of them.
    fn wanted(&self, model: &dyn Opened) -> Result<Wanted> {
        let inventory = model.inventory();
        if inventory.layers.is_empty() && (self.layer.is_some() || self.head.is_some()) {
            return Err(no_such_layer("this model has no attention"));
        }
        let is_asked = |site: &Site| self.layer.as_ref().is_none_or(|layer| is_called(site, layer));
        let has_head = |n_heads: usize| self.head.is_none_or(|head| head < n_heads);
        let layers: Vec<Site> =
            inventory.layers.iter().filter(|(site, n)| is_asked(site) && has_head(*n)).map(|(site, _)| *site).collect();
        if layers.is_empty() && !inventory.layers.is_empty() {
            let layers = Inventory { positions: false, ..inventory.clone() };
            return Err(no_such_layer(&format!("there are {}", layers.list())));
        }
        Ok(Wanted { layers: Some(layers), heads: self.head.map(|head| vec![head]), ..Wanted::default() })
    }
}

/// Returns whether `asked` names a layer: by consecutive parts of its name (`encoder`, `decoder.1`, `cross`) or by its words
/// (`decoder layer 2`).
fn is_called(site: &Site, asked: &str) -> bool {
    let (name, words) = (site.to_string(), site.words());
    let (parts, wanted): (Vec<&str>, Vec<&str>) = (name.split('.').collect(), asked.split('.').collect());
    parts.windows(wanted.len()).any(|some| some == wanted)
        || words == asked
        || words.split(", ").any(|part| part == asked)
}

fn no_such_layer(there_are: &str) -> anyhow::Error {
    let problem = format!("no layer or head matches; {there_are}");
    failure(TaskError::Settings { place: "--layer, --head".to_string(), problem })
}

#[cfg(test)]
mod tests {
    use regard_nn::{AttentionKind, Side};

    use super::*;

    #[test]
    fn layers_are_asked_for_by_parts_of_their_names() {
        let site = |side, layer, kind| Site { side, layer, kind };
        let own = site(None, 1, AttentionKind::SelfAttention);
        assert!(is_called(&own, "1") && is_called(&own, "layer 2"));
        assert!(!is_called(&own, "0") && !is_called(&own, "layer 1") && !is_called(&own, ""));
        assert!(!is_called(&site(None, 10, AttentionKind::SelfAttention), "1"));
        let cross = site(Some(Side::Decoder), 1, AttentionKind::Cross);
        for asked in ["decoder", "decoder.1", "1.cross", "cross", "1", "decoder layer 2", "cross-attention"] {
            assert!(is_called(&cross, asked), "{asked}");
        }
        assert!(!is_called(&cross, "encoder") && !is_called(&cross, "decoder.cross"));
    }
}
