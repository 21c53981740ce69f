//! Property test of the layout: for random figures, the rasteriser finds nothing outside the picture and no overlapping texts.

use std::sync::Arc;

use proptest::prelude::*;
use regard_figures::{
    Axis, Bars, CellNumbers, Colour, Figure, Heatmap, LabelledPoint, LineStyle, Lines, Links, Nodes, PanelKind,
    Pictures, ScaleBar, Scatter, Series, Table, Text, Tile, confusion_matrix,
};
use resvg::tiny_skia::Rect;
use resvg::usvg::{Group, Node, Options, Tree, fontdb};

/// Allowed difference between our text measurements and those of the rasteriser, in pixels.
const TOLERANCE: f32 = 0.6;

fn fonts() -> Arc<fontdb::Database> {
    let mut fonts = fontdb::Database::new();
    for data in [dejavu::sans::regular(), dejavu::sans_mono::regular()] {
        fonts.load_font_source(fontdb::Source::Binary(Arc::new(data)));
    }
    Arc::new(fonts)
}

/// Collects the bounding boxes of all shapes, and of all texts with their content.
fn boxes(group: &Group, shapes: &mut Vec<Rect>, texts: &mut Vec<(Rect, String)>) {
    for node in group.children() {
        match node {
            Node::Group(group) => boxes(group, shapes, texts),
            Node::Text(text) => {
                let said = text.chunks().iter().map(|chunk| chunk.text()).collect();
                texts.push((text.flattened().abs_bounding_box(), said));
            }
            other => shapes.push(other.abs_bounding_box()),
        }
    }
}

/// Checks that everything is inside the picture and that no texts overlap.
fn check(figure: &Figure) -> Result<(), TestCaseError> {
    let svg = figure.to_svg();
    let options = Options { fontdb: fonts(), ..Options::default() };
    let tree = Tree::from_str(&svg, &options).expect("the drawing must be well formed");
    let (mut shapes, mut texts) = (Vec::new(), Vec::new());
    boxes(tree.root(), &mut shapes, &mut texts);
    prop_assert!(!texts.is_empty() || figure.panels.is_empty(), "the drawing has no text");
    let (width, height) = (tree.size().width(), tree.size().height());
    let is_inside = |b: &Rect| {
        b.left() >= -TOLERANCE
            && b.top() >= -TOLERANCE
            && b.right() <= width + TOLERANCE
            && b.bottom() <= height + TOLERANCE
    };
    for shape in &shapes {
        prop_assert!(is_inside(shape), "{shape:?} is outside of {width} × {height}");
    }
    for (at, said) in &texts {
        prop_assert!(is_inside(at), "{said} at {at:?} is outside of {width} × {height}");
    }
    for (index, (a, said)) in texts.iter().enumerate() {
        for (b, other) in &texts[index + 1..] {
            let over_x = a.right().min(b.right()) - a.left().max(b.left());
            let over_y = a.bottom().min(b.bottom()) - a.top().max(b.top());
            prop_assert!(over_x < TOLERANCE || over_y < TOLERANCE, "{said} at {a:?} overlaps {other} at {b:?}");
        }
    }
    Ok(())
}

fn words(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof!["[a-zA-Z <&]{0,12}", "[a-z]{20,60}", "[α-ωЖ-Я√ᵀ→0-9]{0,9}"];
    prop::collection::vec(word, count)
}

fn value() -> impl Strategy<Value = f32> {
    prop_oneof![8 => -2.0..2.0_f32, 1 => Just(f32::NAN), 1 => -1e9..1e9_f32, 1 => Just(f32::INFINITY)]
}

fn heatmap() -> impl Strategy<Value = PanelKind> {
    let size = prop_oneof![
        (0..6usize, 0..6usize),
        (1..40usize, 1..40usize),
        (1..3usize, 1..150usize),
        (1..130usize, 1..3usize)
    ];
    size.prop_flat_map(|(rows, columns)| {
        let labels = |n: usize| prop_oneof![words(0..=0), words(n), words(0..=n)];
        (
            prop::collection::vec(value(), rows * columns),
            labels(rows),
            labels(columns),
            words(3),
            40..700u32,
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(move |(values, row_labels, column_labels, names, side, has_numbers, has_bar)| {
                let bar = if has_bar { ScaleBar::Shown } else { ScaleBar::Hidden };
                let numbers = if has_numbers { CellNumbers::WhereTheyFit } else { CellNumbers::Hidden };
                let map = Heatmap::new(rows, columns, values).unwrap();
                let map = map.row_labels(row_labels).column_labels(column_labels).axes(&names[0], &names[1]);
                map.side(side).numbers(numbers).absent(&names[2]).scale_bar(bar).into()
            })
    })
}

fn axis() -> impl Strategy<Value = Axis> {
    (words(1), any::<bool>(), prop::option::of(-1.0..1.0)).prop_map(|(name, is_log, include)| {
        let axis = if is_log { Axis::log(&name[0]) } else { Axis::linear(&name[0]) };
        include.into_iter().fold(axis, Axis::including)
    })
}

fn coordinate() -> impl Strategy<Value = f64> {
    let power = (-1.0..1.0, -12..12i32).prop_map(|(m, e)| m * 10f64.powi(e));
    prop_oneof![4 => -3.0..3.0, 3 => 0.0..1e4, 2 => power, 1 => prop::num::f64::ANY]
}

fn lines() -> impl Strategy<Value = PanelKind> {
    let style = prop_oneof![
        Just(LineStyle::Solid),
        Just(LineStyle::Dashed),
        Just(LineStyle::Markers),
        Just(LineStyle::MarkedLine)
    ];
    let deviations = prop::collection::vec(coordinate(), 0..8);
    let series = (words(1), prop::collection::vec((coordinate(), coordinate()), 0..20), style, deviations);
    let series = series.prop_map(|(name, points, style, deviations)| {
        Series::new(&name[0], points).style(style).deviations(deviations)
    });
    (axis(), axis(), prop::collection::vec(series, 0..6))
        .prop_map(|(x, y, series)| series.into_iter().fold(Lines::new(x, y), Lines::series).into())
}

fn bars() -> impl Strategy<Value = PanelKind> {
    let values = (words(1), prop::collection::vec((coordinate(), coordinate()), 0..6));
    (axis(), words(0..6), prop::collection::vec(values, 0..4)).prop_map(|(axis, groups, series)| {
        let bars = Bars::new(axis, groups);
        series
            .into_iter()
            .fold(bars, |bars, (name, values)| bars.series_with_deviations(&name[0], values).unwrap())
            .into()
    })
}

fn table() -> impl Strategy<Value = PanelKind> {
    (words(0..5), prop::collection::vec(words(0..6), 0..6))
        .prop_map(|(header, rows)| rows.into_iter().fold(Table::new(header), Table::row).into())
}

fn text() -> impl Strategy<Value = PanelKind> {
    words(0..30).prop_map(|words| Text::new(&words.join(" \n")).into())
}

fn links() -> impl Strategy<Value = PanelKind> {
    (0..9usize, 0..9usize).prop_flat_map(|(left, right)| {
        (words(left), words(right), prop::collection::vec(value(), left * right), words(2)).prop_map(
            |(left, right, weights, names)| {
                Links::new(left, right, weights).unwrap().names(&names[0], &names[1]).into()
            },
        )
    })
}

fn scatter() -> impl Strategy<Value = PanelKind> {
    let point = (coordinate(), coordinate(), words(1)).prop_map(|(x, y, label)| LabelledPoint::new(x, y, &label[0]));
    let close = (-0.1..0.1, -0.1..0.1, words(1)).prop_map(|(x, y, label)| LabelledPoint::new(x, y, &label[0]));
    let group = (words(1), prop::collection::vec(prop_oneof![point, close], 0..40));
    (axis(), axis(), prop::collection::vec(group, 0..4)).prop_map(|(x, y, groups)| {
        let scatter = Scatter::new(x, y);
        groups.into_iter().fold(scatter, |scatter, (name, points)| scatter.group(&name[0], points).unwrap()).into()
    })
}

fn nodes() -> impl Strategy<Value = PanelKind> {
    (1..9usize).prop_flat_map(|count| {
        let edges = prop::collection::vec((0..count, 0..count), 0..30);
        (words(count), edges).prop_map(move |(names, edges)| {
            let angle = |node: usize| node as f64 / count as f64 * std::f64::consts::TAU;
            let place = |node| (0.5 + angle(node).cos() / 2.0, 0.5 + angle(node).sin() / 2.0);
            let nodes = names.into_iter().enumerate().map(|(node, name)| (name, place(node)));
            Nodes::new(nodes, edges).unwrap().into()
        })
    })
}

fn pictures() -> impl Strategy<Value = PanelKind> {
    let tile = (1..9usize, 1..40usize, words(1)).prop_map(|(rows, columns, caption)| {
        Tile::new(rows, columns, vec![Colour(9, 99, 199); rows * columns]).unwrap().caption(&caption[0])
    });
    (prop::collection::vec(tile, 0..12), 1..9usize, 30..200u32)
        .prop_map(|(tiles, columns, side)| Pictures::new(tiles).unwrap().columns(columns).side(side).into())
}

fn confusion() -> impl Strategy<Value = PanelKind> {
    (0..20usize).prop_flat_map(|classes| {
        let count = prop_oneof![Just(0), 0..10u64, 0..100_000_000_000u64];
        (words(classes), prop::collection::vec(count, classes * classes))
            .prop_map(|(classes, counts)| confusion_matrix(classes, &counts).unwrap().into())
    })
}

fn figure() -> impl Strategy<Value = Figure> {
    let kind = prop_oneof![4 => heatmap(), 3 => lines(), 3 => bars(), 1 => table(), 1 => text(), 1 => links(), 2 => scatter(), 1 => nodes(), 1 => pictures(), 1 => confusion()];
    let panels = prop::collection::vec((words(1), kind), 0..5);
    (words(0..12), words(0..8), panels, prop::option::of(0..4usize)).prop_map(|(title, note, panels, columns)| {
        let mut figure = Figure::new(title.join(" ")).note(note.join(" "));
        panels.into_iter().for_each(|(title, kind)| figure.push(&title[0], kind));
        columns.into_iter().fold(figure, Figure::columns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_cut_off_and_no_texts_overlap(figure in figure()) {
        check(&figure)?;
    }
}
