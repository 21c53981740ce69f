//! Figures of position encodings: all kinds side by side, or one in detail.

use regard_figures::{
    Axis, ColourScale, Figure, FigureError, Heatmap, Lines, PanelKind, Series, Text, ValueRange, number,
};

use super::by_hand::ByHand;
use super::view::View;
use super::{Position, Seen, Shift};
use crate::show::matrix::Matrix;

const COLUMNS: usize = 3;
pub(super) const SIDE: u32 = 320;

/// A panel with its title.
pub(super) type Titled = (String, PanelKind);

/// Draws an image of each kind, and below it how it falls off with the distance.
pub(super) fn overview(
    position: &Position,
    seen: &[Seen],
    shift: Option<&Shift>,
    by_hand: &ByHand,
) -> Result<Figure, FigureError> {
    let mut items: Vec<(Titled, Titled)> = Vec::new();
    for Seen { name, view } in seen {
        let image = match view {
            View::Nothing => continue,
            View::Added { table } => (format!("{name}: added to the tokens"), image(table, "dimension")?),
            View::Turned { angles, .. } => {
                (format!("{name}: cos of the angle"), image(&cosines(angles), "pair of features")?)
            }
            View::Biased { by_head } => (format!("{name}: added to the scores, head 0"), bias(&by_head[0])?),
        };
        items.push(((image.0, image.1.into()), (decay_title(view, name), decay(view).into())));
    }
    if let Some(shift) = shift {
        let words = format!(
            "PE(p) R = PE(p + {})\n\nfor every p: each pair of features\nrotates by its own angle.\n\nlargest difference: {}",
            shift.by,
            number(shift.difference, 2)
        );
        items.push((
            (shift_title(shift), rotation(shift)?.into()),
            ("the rotation".to_string(), Text::new(&words).into()),
        ));
    }
    for Seen { name, view } in seen {
        if let View::Turned { example, .. } = view {
            let words = "R(p) rotates each pair of features\nby its own angle: fast in the first\nblocks, slowly in the last.\n\n\
                         q at position p, k at p + n:\nR(p) q · R(p + n) k = q · R(n) k\n\nR(0) is the identity.";
            items.push((block_matrix(name, example)?, ("the blocks".to_string(), Text::new(words).into())));
        }
    }
    let mut figure =
        Figure::new(format!("Positions: {} of them, d_model {}", position.length, position.d_model)).columns(COLUMNS);
    let nothing = || (String::new(), PanelKind::from(Text::new("")));
    for row in items.chunks(COLUMNS) {
        let missing = || (row.len()..COLUMNS).map(|_| nothing());
        let images = row.iter().map(|item| item.0.clone()).chain(missing());
        let plots = row.iter().map(|item| item.1.clone()).chain(missing());
        images.chain(plots).for_each(|(title, panel)| figure.push(title, panel));
    }
    by_hand.panels(1..3)?.into_iter().for_each(|(title, panel)| figure.push(title, panel));
    Ok(notes(figure, seen))
}

/// Draws one kind in detail.
pub(super) fn detail(
    position: &Position,
    seen: &Seen,
    shift: Option<&Shift>,
    by_hand: &ByHand,
) -> Result<Figure, FigureError> {
    let Seen { name, view } = seen;
    let title = format!("Positions: {name}, {} of them, d_model {}", position.length, position.d_model);
    let mut figure = Figure::new(title);
    match view {
        View::Nothing => figure.push("", Text::new("No positions: attention does not see the order of the tokens.")),
        View::Added { table } => {
            figure.push("added to the tokens", image(table, "dimension")?);
            let products = Matrix::of(table.tensor::<2>().matmul(table.tensor::<2>().transpose()));
            let map = products.heatmap()?.axes("p", "q").scale(ColourScale::diverging(ValueRange::Data)).side(SIDE);
            figure.push("PE(p) · PE(q)", map);
        }
        View::Turned { angles, example, .. } => {
            let turn = std::f64::consts::TAU;
            let within = angles.map(|_, _, angle| angle.rem_euclid(turn) / turn);
            let map = within.heatmap()?.axes("position", "pair of features").side(SIDE);
            figure.push(
                "angle in turns, modulo 1",
                map.scale(ColourScale::viridis(ValueRange::Fixed { low: 0.0, high: 1.0 })),
            );
            figure.push("cos of the angle", image(&cosines(angles), "pair of features")?);
            figure.push("sin of the angle", image(&angles.map(|_, _, angle| angle.sin()), "pair of features")?);
            let (title, map) = block_matrix(name, example)?;
            figure.push(title, map);
        }
        View::Biased { by_head } => {
            for (head, matrix) in by_head.iter().enumerate() {
                figure.push(format!("head {head}: added to the scores"), bias(matrix)?);
            }
        }
    }
    if !matches!(view, View::Nothing) {
        figure.push(decay_title(view, name), decay(view));
    }
    if let Some(shift) = shift {
        figure.push(shift_title(shift), rotation(shift)?);
        figure = figure.note(format!(
            "PE(p) R = PE(p + {}) for every p, with a largest difference of {}: R rotates each feature pair by its own angle.",
            shift.by, number(shift.difference, 2)
        ));
    }
    by_hand.panels(0..3)?.into_iter().for_each(|(title, panel)| figure.push(title, panel));
    Ok(notes(figure, std::slice::from_ref(seen)))
}

/// Draws the block-diagonal matrix of a rotation at one position.
pub(super) fn block_matrix(name: &str, (p, matrix): &(usize, Matrix)) -> Result<Titled, FigureError> {
    let scale = ColourScale::diverging(ValueRange::Fixed { low: -1.0, high: 1.0 });
    let map = matrix.heatmap()?.axes("rotated feature", "feature").scale(scale).side(SIDE);
    Ok((format!("{name}: the matrix R({p}), blocks of 2 × 2"), map.into()))
}

fn notes(mut figure: Figure, seen: &[Seen]) -> Figure {
    let has = |name: &str| seen.iter().any(|seen| seen.name == name);
    if has("sinusoidal") || has("rope") {
        figure = figure.note("Sinusoids and RoPE rotate fast in the first features and slowly in the last. Near positions are similar, and the similarity falls in waves with the distance, independently of the starting point.");
    }
    if has("learned") {
        figure = figure.note("Learned vectors are shown before training: they are random, so any two are dissimilar.");
    }
    if has("relative") {
        figure = figure.note("The relative table starts at zero; it is shown with example values such as training could find: heads that attend to the previous token, the next, those around, and further back. Distances beyond 16 are clipped.");
    }
    if has("alibi") {
        figure =
            figure.note("ALiBi lowers the score in proportion to the distance, with a different slope in each head.");
    }
    figure
}

pub(super) fn image(values: &Matrix, columns: &str) -> Result<Heatmap, FigureError> {
    let scale = ColourScale::diverging(ValueRange::Data);
    Ok(values.heatmap()?.axes("position", columns).scale(scale).side(SIDE))
}

fn bias(values: &Matrix) -> Result<Heatmap, FigureError> {
    let scale = ColourScale::diverging(ValueRange::Data);
    Ok(values.heatmap()?.axes("query", "key").scale(scale).side(SIDE))
}

fn rotation(shift: &Shift) -> Result<Heatmap, FigureError> {
    let scale = ColourScale::diverging(ValueRange::Fixed { low: -1.0, high: 1.0 });
    Ok(shift
        .matrix
        .heatmap()?
        .axes("dimension of PE(p)", format!("dimension of PE(p + {})", shift.by))
        .scale(scale)
        .side(SIDE))
}

fn shift_title(shift: &Shift) -> String {
    format!("R, which moves a sinusoid by {}", shift.by)
}

pub(super) fn cosines(angles: &Matrix) -> Matrix {
    angles.map(|_, _, angle| angle.cos())
}

pub(super) fn decay_title(view: &View, name: &str) -> String {
    match view {
        View::Biased { .. } => format!("{name}: bias over the distance"),
        _ => format!("{name}: similarity over the distance"),
    }
}

pub(super) fn decay(view: &View) -> Lines {
    let (x, y) = match view {
        View::Nothing | View::Added { .. } => ("distance k", Axis::linear("PE(p)·PE(p+k) / |PE|²")),
        View::Turned { .. } => ("distance k", Axis::linear("q·k / |q|²")),
        View::Biased { .. } => ("key − query", Axis::linear("bias")),
    };
    let curves = view.curves();
    let is_alone = curves.len() == 1;
    curves.into_iter().fold(Lines::new(Axis::linear(x), y.including(0.0)), |lines, curve| {
        lines.series(Series::new(if is_alone { String::new() } else { curve.name }, curve.points))
    })
}
