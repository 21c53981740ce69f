//! Tests of the content of figures in every format, for ordinary and for unusual data.

use regard_figures::{
    Axis, Bars, CellNumbers, Colour, ColourScale, Figure, FigureError, Heatmap, LabelledPoint, LineStyle, Lines, Links,
    Nodes, PanelKind, Pictures, Scatter, Series, Table, Text, Tile, ValueRange, confusion_matrix,
};
use regard_system::SaveError;

/// Parses a document. Panics unless it is well formed.
fn parse(svg: &str) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"))
}

fn one(panel: impl Into<PanelKind>) -> Figure {
    Figure::new("").panel("", panel)
}

fn texts(svg: &str) -> Vec<String> {
    let document = parse(svg);
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.map(|node| node.children().filter_map(|c| c.is_text().then(|| c.text()).flatten()).collect()).collect()
}

fn titles(svg: &str) -> Vec<String> {
    let document = parse(svg);
    document.descendants().filter(|n| n.has_tag_name("title")).map(|n| n.text().unwrap_or("").to_string()).collect()
}

fn count(svg: &str, part: &str) -> usize {
    svg.matches(part).count()
}

fn map(rows: usize, columns: usize, value: f32) -> Heatmap {
    Heatmap::new(rows, columns, vec![value; rows * columns]).unwrap()
}

#[test]
fn every_text_is_drawn() {
    let figure = Figure::new("Title ≈ √d")
        .note("A note.")
        .panel("map", map(2, 2, 0.5).row_labels(["r0", "r1"]).column_labels(["c0", "c1"]).axes("query", "key"))
        .panel("lines", Lines::new(Axis::linear("steps"), Axis::log("loss")).series(Series::new("train", [(1.0, 2.0)])))
        .panel("bars", Bars::new(Axis::linear("ms"), ["group"]).series("ours", [3.0]).unwrap())
        .panel("table", Table::new(["head"]).row(["12.5"]))
        .panel("text", Text::new("line one\nline two"))
        .panel("links", Links::new(["from"], ["to"], vec![0.5]).unwrap().names("left", "right"));
    let said = texts(&figure.to_svg());
    for word in [
        "Title ≈ √d",
        "A note.",
        "map",
        "r0",
        "r1",
        "c0",
        "c1",
        "query",
        "key",
        "lines",
        "steps",
        "loss",
        "train",
        "bars",
        "ms",
        "group",
        "ours",
        "table",
        "head",
        "12.5",
        "text",
        "line one",
        "line two",
        "links",
        "from",
        "to",
        "left",
        "right",
    ] {
        assert!(said.iter().any(|text| text == word), "{word} is missing from {said:?}");
    }
}

#[test]
fn markup_in_labels_is_text() {
    let bad = "<script>alert(\"&'1')</script>\u{1}";
    let figure = Figure::new(bad)
        .note(bad)
        .panel(bad, map(1, 1, 1.0).row_labels([bad]).column_labels([bad]).axes(bad, bad).absent(bad))
        .panel(
            bad,
            Lines::new(Axis::linear(bad), Axis::linear(bad))
                .series(Series::new(bad, [(0.0, 0.0)]).style(LineStyle::Markers)),
        )
        .panel(bad, Bars::new(Axis::linear(bad), [bad]).series(bad, [1.0]).unwrap())
        .panel(bad, Table::new([bad]).row([bad]))
        .panel(bad, Text::new(bad))
        .panel(bad, Links::new([bad], [bad], vec![1.0]).unwrap());
    parse(&figure.to_svg());
    let page = figure.to_html();
    assert!(!figure.to_svg().contains("<script") && !page.contains("<script"));
    assert!(page.contains("&lt;script&gt;alert(&quot;&amp;&#39;1&#39;)&lt;/script&gt;�"));
    figure.to_png().unwrap();
}

#[test]
fn absent_cells_are_hatched_and_explained() {
    let values = vec![0.0, f32::NAN, f32::NEG_INFINITY, f32::INFINITY];
    let svg = one(Heatmap::new(2, 2, values).unwrap().absent("masked")).to_svg();
    // Two cells, and the swatch below the colour bar.
    assert_eq!(count(&svg, "fill=\"url(#regard-hatch)\""), 3);
    assert!(texts(&svg).contains(&"masked".to_string()));
    assert!(titles(&svg).contains(&"0 → 1: masked".to_string()), "{:?}", titles(&svg));
    assert!(titles(&svg).contains(&"1 → 1: ∞".to_string()));
    let svg = one(map(2, 2, 0.0)).to_svg();
    assert_eq!(count(&svg, "regard-hatch"), 0, "zero is a value");
}

#[test]
fn unusual_maps_are_drawn() {
    let scales = [
        ColourScale::sequential(ValueRange::FromZero),
        ColourScale::viridis(ValueRange::Data),
        ColourScale::diverging(ValueRange::Data),
        ColourScale::diverging(ValueRange::Fixed { low: 1.0, high: f32::NAN }),
        ColourScale::sequential(ValueRange::Fixed { low: 1.0, high: -1.0 }),
    ];
    let values = [0.0, -0.0, 0.3, -7.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-45];
    for scale in scales {
        for value in values {
            for (rows, columns) in [(0, 0), (0, 3), (1, 1), (3, 2), (1, 500), (400, 1)] {
                let map = map(rows, columns, value).scale(scale).numbers(CellNumbers::WhereTheyFit);
                let svg = one(map).to_svg();
                parse(&svg);
                assert!(!svg.contains("=\"NaN") && !svg.contains("=\"inf"), "{value} {scale:?}");
            }
        }
        let both = Heatmap::new(1, 2, vec![f32::MIN, f32::MAX]).unwrap().scale(scale);
        assert!(!one(both).to_svg().contains("=\"NaN"));
    }
}

#[test]
fn zero_is_white_on_a_diverging_scale() {
    let map = Heatmap::new(1, 3, vec![-1.0, 0.0, 5.0]).unwrap().scale(ColourScale::diverging(ValueRange::Data));
    let svg = one(map).to_svg();
    assert!(svg.contains("fill=\"#ffffff\"><title>0 → 1: 0</title>"), "{svg}");
    assert!(svg.contains("fill=\"#a11d2e\"><title>0 → 2: 5</title>"));
}

#[test]
fn large_maps_become_images() {
    let small = one(map(100, 100, 0.5)).to_svg();
    assert_eq!((count(&small, "<image"), count(&small, "<title>")), (0, 10_000));
    let middle = one(map(150, 150, 0.5)).to_svg();
    assert_eq!((count(&middle, "<image"), count(&middle, "<title>")), (0, 0));
    let large = one(map(1000, 1000, 0.5)).to_svg();
    assert_eq!((count(&large, "<image"), count(&large, "<title>")), (1, 0));
    assert!(large.len() < 100_000, "{}", large.len());
    parse(&large);
}

#[test]
fn an_image_is_drawn_in_the_png() {
    let pixels = |figure: &Figure| resvg::tiny_skia::Pixmap::decode_png(&figure.to_png().unwrap()).unwrap();
    let picture = pixels(&one(map(300, 300, 1.0)));
    let middle = picture.pixel(picture.width() / 2, picture.height() / 2).unwrap();
    assert_eq!((middle.red(), middle.green(), middle.blue()), (0x08, 0x28, 0x5c));
}

#[test]
fn wrong_shapes_and_too_large_figures_are_refused() {
    let shape = Heatmap::new(2, 3, vec![0.0; 5]).unwrap_err();
    assert_eq!(shape.to_string(), "heat map: expected 2 × 3 values, got 5");
    assert!(matches!(Heatmap::new(usize::MAX, 2, vec![]), Err(FigureError::Shape { .. })));
    assert!(matches!(Heatmap::new(2001, 2000, vec![0.0; 4_002_000]), Err(FigureError::TooLarge { .. })));
    assert!(matches!(Heatmap::new(1, 5000, vec![0.0; 5000]), Err(FigureError::TooLarge { limit: 4096, .. })));
    assert!(matches!(Links::new(vec!["a"; 200], ["b"], vec![0.0; 200]), Err(FigureError::TooLarge { .. })));
    assert!(matches!(Links::new(["a"], ["b"], vec![]), Err(FigureError::Shape { .. })));
    let bars = Bars::new(Axis::linear(""), vec!["group"; 3000]).series("", vec![1.0; 3000]);
    assert!(matches!(bars, Err(FigureError::TooLarge { .. })));
    // Four rows, each with a wide map beside a high one.
    let mut figure = Figure::new("").columns(2);
    (0..8).for_each(|i| figure.push("", if i % 2 == 0 { map(1, 4096, 0.0) } else { map(4096, 1, 0.0) }));
    assert!(matches!(figure.to_png(), Err(FigureError::TooLarge { .. })));
}

#[test]
fn points_that_an_axis_cannot_show_are_left_out() {
    let series = Series::new("s", [(0.0, 1.0), (1.0, -1.0), (1.0, 1.0), (10.0, f64::NAN), (100.0, 5.0)]);
    let lines = Lines::new(Axis::log("x"), Axis::log("y")).series(series.style(LineStyle::Markers));
    let svg = one(lines).to_svg();
    assert_eq!(titles(&svg), ["s (1, 1)", "s (100, 5)"]);
    let nothing = Lines::new(Axis::log("x"), Axis::log("y")).series(Series::new("s", [(0.0, 1.0)]));
    assert!(texts(&one(nothing).to_svg()).contains(&"no points".to_string()));
}

#[test]
fn gaps_break_lines_and_long_lines_keep_their_peaks() {
    let series = Series::new("", [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)]);
    assert_eq!(count(&one(Lines::new(Axis::linear(""), Axis::linear("")).series(series)).to_svg(), "<polyline"), 2);
    let points = (0..1_000_000).map(|i| (f64::from(i), if i == 777_777 { 9.0 } else { 1.0 }));
    let lines = Lines::new(Axis::linear(""), Axis::linear("")).series(Series::new("", points));
    let svg = one(lines).to_svg();
    assert!(svg.len() < 100_000);
    let document = parse(&svg);
    let line = document.descendants().find(|n| n.has_tag_name("polyline")).unwrap().attribute("points").unwrap();
    let heights = line.split(' ').map(|p| p.split_once(',').unwrap().1.parse::<f64>().unwrap());
    let (low, high) = heights.fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(y), h.max(y)));
    assert!(high - low > 100.0, "the peak is lost");
}

#[test]
fn long_labels_are_shortened_and_have_tooltips() {
    let long = "a".repeat(300);
    let svg = one(map(1, 1, 1.0).row_labels([long.as_str()]).column_labels([long.as_str()])).to_svg();
    assert!(texts(&svg).iter().filter(|t| t.ends_with('…')).count() == 2);
    assert!(titles(&svg).iter().filter(|t| **t == long).count() == 2);
}

#[test]
fn missing_labels_and_cells_are_blank() {
    let svg = one(map(3, 3, 1.0).row_labels(["only"]).column_labels(["x", "y", "z", "too many"])).to_svg();
    assert!(texts(&svg).contains(&"only".to_string()));
    let table = Table::new(["a"]).row(["1", "2"]).row(["3"]);
    assert_eq!(table.header(), ["a", ""]);
    assert_eq!(table.rows()[1], ["3", ""]);
    let bars = Bars::new(Axis::log(""), ["a", "b"]).series("", [1.0]).unwrap().series("", [0.0, 2.0, 3.0]).unwrap();
    parse(&one(bars).to_svg());
}

#[test]
fn long_tables_say_how_many_rows_are_left_out() {
    let mut table = Table::new(["n"]);
    (0..1000).for_each(|n| table.push([n.to_string()]));
    let figure = one(table);
    assert!(texts(&figure.to_svg()).contains(&"… and 800 more rows".to_string()));
    assert!(figure.to_html().contains(">999</td>"));
}

#[test]
fn a_page_has_html_tables_and_fetches_nothing() {
    let figure =
        Figure::new("T").note("N").panel("map", map(2, 2, 1.0)).panel("tab", Table::new(["a", "b"]).row(["x", "1"]));
    let page = figure.to_html();
    assert!(page.contains("<td>x</td><td class=\"number\">1</td>"));
    assert!(page.contains("<p>N</p>") && page.contains("<h1>T</h1>") && page.contains("<h2>tab</h2>"));
    assert_eq!(count(&page, "<svg"), 1);
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http") && !elsewhere.contains("<link") && !elsewhere.contains("@import"));
    let start = page.find("<svg").unwrap();
    parse(&page[start..page.find("</svg>").unwrap() + 6]);
}

#[test]
fn an_empty_figure_can_be_drawn() {
    let figure = Figure::new("");
    parse(&figure.to_svg());
    figure.to_png().unwrap();
    figure.to_html();
}

#[test]
fn the_extension_chooses_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let figure = one(map(2, 2, 1.0));
    for (name, start) in [("a.svg", "<svg"), ("b.PNG", "\u{89}PNG"), ("c.html", "<!DOCTYPE html>")] {
        let path = folder.path().join(name);
        std::fs::write(&path, "old").unwrap();
        assert_eq!(figure.save(&path).unwrap().note(), None);
        let content = std::fs::read(&path).unwrap();
        let start: Vec<u8> = start.chars().map(|c| c as u8).collect();
        assert!(content.starts_with(&start), "{name}");
    }
    for name in ["d.pdf", "e", ".svg", "f.svg.txt"] {
        let error = figure.save(folder.path().join(name)).unwrap_err();
        assert!(matches!(error, FigureError::Extension { .. }));
        assert!(error.to_string().contains(".svg, .png or .html"), "{error}");
    }
    assert!(matches!(
        figure.save(folder.path().join("no/such/folder.svg")),
        Err(FigureError::Save(SaveError::Write { .. }))
    ));
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.svg", "b.PNG", "c.html"], "a temporary file is left");
}

#[test]
fn a_path_is_checked_before_there_is_a_figure() {
    use regard_figures::Format;
    let folder = tempfile::tempdir().unwrap();
    for (name, format) in [("a.svg", Format::Svg), ("a.PNG", Format::Png), ("a.html", Format::Html)] {
        assert_eq!(Format::of(name).unwrap(), format);
        Figure::check_path(folder.path().join(name)).unwrap();
        Figure::check_path(name).unwrap();
        let nowhere = folder.path().join("missing").join(name);
        assert!(matches!(Figure::check_path(nowhere), Err(FigureError::Save(SaveError::Folder { .. }))));
    }
    for wrong in ["a.pdf", "svg", "a.", ".png"] {
        assert!(matches!(Figure::check_path(folder.path().join(wrong)), Err(FigureError::Extension { .. })), "{wrong}");
    }
}

#[test]
fn a_confusion_matrix_counts_and_colours_by_row() {
    let matrix = confusion_matrix(["noun", "verb", "never"], &[90, 10, 0, 5, 5, 0, 0, 0, 0]).unwrap();
    let svg = one(matrix).to_svg();
    let said = texts(&svg);
    for word in ["noun", "verb", "never", "true", "predicted", "90", "10", "5", "never occurs"] {
        assert!(said.iter().any(|text| text == word), "{word} is missing: {said:?}");
    }
    let tips = titles(&svg);
    for tip in ["noun → noun: 90 (0.9)", "verb → noun: 5 (0.5)", "noun → never: 0", "never → noun: never occurs"]
    {
        assert!(tips.iter().any(|text| text == tip), "{tip} is missing: {tips:?}");
    }
    let fill = |tip: &str| {
        let document = parse(&svg);
        let title = document.descendants().find(|n| n.has_tag_name("title") && n.text() == Some(tip)).unwrap();
        title.parent().unwrap().attribute("fill").unwrap().to_string()
    };
    assert_eq!(fill("verb → noun: 5 (0.5)"), fill("verb → verb: 5 (0.5)"));
    assert_ne!(fill("noun → noun: 90 (0.9)"), fill("verb → verb: 5 (0.5)"));
    assert!(matches!(confusion_matrix(["a", "b"], &[1, 2, 3]), Err(FigureError::Shape { rows: 2, got: 3, .. })));
    one(confusion_matrix([""; 0], &[]).unwrap()).to_svg();
}

#[test]
fn deviations_are_drawn_and_printed() {
    let series = Series::new("s", [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).deviations([0.5, 0.0]);
    let svg = one(Lines::new(Axis::linear(""), Axis::linear("")).series(series)).to_svg();
    assert_eq!(titles(&svg), ["1.00 ± 0.50"], "a zero and a missing deviation have no error bar");
    let bars = Bars::new(Axis::linear("accuracy"), ["rope", "none"]);
    let bars = bars.series_with_deviations("", [(0.934_56, 0.012_34), (0.7, f64::NAN)]).unwrap();
    let said = texts(&one(bars).to_svg());
    assert!(said.contains(&"0.935 ± 0.012".to_string()) && said.contains(&"0.7".to_string()), "{said:?}");
    // If a logarithmic axis cannot show the lower end, the error bar reaches to the edge of the plot.
    let series = Series::new("s", [(1.0, 1.0), (2.0, 10.0)]).deviations([2.0, 1.0]);
    let svg = one(Lines::new(Axis::linear(""), Axis::log("")).series(series)).to_svg();
    assert_eq!(titles(&svg).len(), 2);
    assert!(!svg.contains("NaN"));
}

#[test]
fn point_names_without_room_are_counted() {
    let crowd = (0..300).map(|i| LabelledPoint::new(f64::from(i % 3) * 1e-3, f64::from(i) * 1e-6, format!("word{i}")));
    let far = [LabelledPoint::new(1.0, 1.0, "alone"), LabelledPoint::new(f64::NAN, 0.0, "nowhere")];
    let scatter = Scatter::new(Axis::linear("x"), Axis::linear("y")).group("far", far).unwrap();
    let svg = one(scatter.group("crowd", crowd).unwrap()).to_svg();
    let (said, tips) = (texts(&svg), titles(&svg));
    assert!(said.contains(&"alone".to_string()) && !said.contains(&"nowhere".to_string()));
    let left_out = said.iter().find_map(|text| text.strip_suffix(" of 301 names found no room")).unwrap();
    let shown = said.iter().filter(|text| text.starts_with("word")).count();
    assert_eq!(left_out.parse::<usize>().unwrap() + shown + 1, 301);
    assert!(tips.contains(&"alone far (1, 1)".to_string()) && tips.len() == 301);
    let many = (0..5001).map(|_| LabelledPoint::new(0.0, 0.0, ""));
    let refused = Scatter::new(Axis::linear(""), Axis::linear("")).group("", many);
    assert!(matches!(refused, Err(FigureError::TooLarge { limit: 5000, .. })));
    let empty = one(Scatter::new(Axis::linear(""), Axis::linear("")));
    assert!(texts(&empty.to_svg()).contains(&"no points".to_string()));
}

#[test]
fn a_graph_has_circles_lines_and_arrows() {
    let nodes = || [("a", (0.0, 0.0)), ("b", (1.0, 0.0)), ("c", (f64::NAN, 1.0))];
    // Both ways, one way, twice the same, and a self-loop.
    let svg = one(Nodes::new(nodes(), [(0, 1), (1, 0), (1, 2), (1, 2), (2, 2)]).unwrap()).to_svg();
    assert_eq!((count(&svg, "<circle"), count(&svg, "<line"), count(&svg, "<polygon")), (3, 2, 1));
    assert!(!svg.contains("NaN"));
    for name in ["a", "b", "c"] {
        assert!(texts(&svg).contains(&name.to_string()));
    }
    let refused = Nodes::new(nodes(), [(0, 3)]).unwrap_err().to_string();
    assert_eq!(refused, "edge 0 → 3: expected nodes below 3, the number of nodes");
    let many = Nodes::new((0..201).map(|i| (i.to_string(), (0.0, 0.0))), []);
    assert!(matches!(many, Err(FigureError::TooLarge { limit: 200, .. })));
    let empty = one(Nodes::new(Vec::<(String, (f64, f64))>::new(), []).unwrap());
    assert!(texts(&empty.to_svg()).contains(&"no nodes".to_string()));
}

#[test]
fn pictures_have_captions_and_weights() {
    let tile = || Tile::new(2, 3, vec![Colour(250, 200, 0); 6]).unwrap();
    let weighed = tile().weights(1, 2, vec![f32::NAN, 0.5]).unwrap();
    let plain = one(Pictures::new([tile().caption("first\nline"), tile().caption("second")]).unwrap()).to_svg();
    assert_eq!(count(&plain, "<image"), 2);
    for word in ["first", "line", "second"] {
        assert!(texts(&plain).contains(&word.to_string()), "{word}");
    }
    assert_ne!(one(Pictures::new([weighed.clone()]).unwrap()).to_svg(), one(Pictures::new([tile()]).unwrap()).to_svg());
    // Two in a row need more height than one, not more width than a row holds.
    let long = "word ".repeat(100);
    let rows = one(Pictures::new(vec![weighed.caption(long); 5]).unwrap().columns(2).side(64));
    assert!(rows.to_png().is_ok() && !rows.to_svg().contains("NaN"));
    let refused = Tile::new(2, 2, vec![Colour(0, 0, 0); 3]).unwrap_err().to_string();
    assert_eq!(refused, "picture: expected 2 × 2 values, got 3");
    assert!(Tile::new(0, 5, Vec::new()).is_err() && tile().weights(0, 0, Vec::new()).is_err());
    let wide = Tile::new(1, 3000, vec![Colour(0, 0, 0); 3000]);
    assert!(matches!(wide, Err(FigureError::TooLarge { limit: 2048, .. })));
    let empty = one(Pictures::new([]).unwrap());
    assert!(texts(&empty.to_svg()).contains(&"no pictures".to_string()));
}
