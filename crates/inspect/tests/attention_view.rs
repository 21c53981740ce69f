//! Tests of attention views in each format: they contain the captured weights, and no token breaks a page.

use proptest::prelude::*;
use regard_figures::{FigureError, Report, Section};
use regard_inspect::{AttentionView, HeadMap, InspectError, MapGroup, ViewFormat};
use regard_nn::{AttentionKind, AttentionMap, Side, Site};
use regard_system::SaveError;
use serde_json::Value;

fn site(side: Side, kind: AttentionKind) -> Site {
    Site { side: Some(side), layer: 0, kind }
}

fn view() -> AttentionView {
    let source = ["the", " cat", "sat"];
    let target = ["le", "chat"];
    let own = MapGroup::of(site(Side::Encoder, AttentionKind::SelfAttention), source, source)
        .head(HeadMap { head: 0, rows: vec![vec![1.0, 0.0, 0.0], vec![0.25, 0.75], vec![0.12344, 0.12346, 0.7531]] })
        .head(HeadMap { head: 1, rows: vec![vec![0.5, f32::NAN, 0.5]] });
    let cross = MapGroup::of(site(Side::Decoder, AttentionKind::Cross), target, source)
        .head(HeadMap { head: 0, rows: vec![vec![0.1, 0.2, 0.7, 99.0], vec![0.3, 0.3, 0.4], vec![9.0]] });
    AttentionView::new("the cat sat").group(own).group(cross)
}

/// Returns the JSON that the page's script reads, one value per view.
fn embedded(page: &str) -> Vec<Value> {
    let parts = page.split("<script type=\"application/json\">").skip(1);
    let jsons = parts.map(|part| &part[..part.find("</script>").expect("the element ends")]);
    jsons.map(|json| serde_json::from_str(json).expect("the data are JSON")).collect()
}

#[test]
fn a_page_holds_the_weights() {
    let page = view().to_html().unwrap();
    let data = embedded(&page);
    assert_eq!(data.len(), 1);
    let own = &data[0]["groups"][0];
    assert_eq!(data[0]["title"], "the cat sat");
    assert_eq!(own["keys"], serde_json::json!(["the", "␣cat", "sat"]));
    let rows = serde_json::json!([[10_000], [2500, 7500], [1234, 1235, 7531]]);
    assert_eq!(own["heads"][0]["rows"], rows, "ten-thousandths, without zeros at the end");
    assert_eq!(own["heads"][1]["rows"], serde_json::json!([[5000, null, 5000], [], []]));
    let cross = &data[0]["groups"][1];
    assert_eq!(cross["heads"][0]["rows"], serde_json::json!([[1000, 2000, 7000], [3000, 3000, 4000]]));
}

#[test]
fn a_page_is_self_contained() {
    let page = view().to_html().unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<title>the cat sat</title>"));
    for elsewhere in ["http:", "https:", "src=", "<link", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    assert_eq!(page.matches("<script").count(), 2, "data and code");
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn views_of_a_report_have_their_own_data_and_one_script() {
    let part = |title: &str| AttentionView { title: title.to_string(), ..view() }.to_interactive().unwrap();
    let section = Section::new("Attention").content(part("one")).content(part("two </script>"));
    let page = Report::new("views").section(section).to_html();
    assert_eq!(page.matches("<div class=\"attention\">").count(), 2);
    assert_eq!(embedded(&page).len(), 2);
    assert_eq!(page.matches("(function () {").count(), 1);
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    assert!(page.contains(r"two \u003c/script\u003e"));
    assert!(!page.contains("http") && !page.contains("<link") && !page.contains("@import"));
}

#[test]
fn json_has_layers_heads_and_tokens() {
    let json = view().to_json();
    assert_eq!(json["input"], "the cat sat");
    assert_eq!(json["tokens"], serde_json::json!(["the", " cat", "sat"]));
    let maps = json["maps"].as_array().unwrap();
    assert_eq!(maps.len(), 3);
    assert_eq!((&maps[1]["name"], &maps[1]["layer"], &maps[1]["head"]), (&"encoder.0.1".into(), &0.into(), &1.into()));
    assert_eq!((&maps[2]["name"], &maps[2]["kind"]), (&"decoder.0.cross.0".into(), &"cross".into()));
    assert_eq!(maps[1]["weights"], serde_json::json!([[0.5, null, 0.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]));
    assert_eq!(maps[2]["queries"], serde_json::json!(["le", "chat"]));
    assert_eq!(maps[2]["keys"], serde_json::json!(["the", " cat", "sat"]));
    assert!(json.to_string().contains("0.1234,0.1235,0.7531"), "four decimals, no more");
    let nothing = AttentionView::new("x").to_json();
    assert_eq!(nothing, serde_json::json!({"input": "x", "tokens": [], "maps": []}));
}

#[test]
fn several_inputs_stay_apart() {
    let group =
        |token: &str| MapGroup::new("layer 1", [token], [token]).head(HeadMap { head: 0, rows: vec![vec![1.0]] });
    let joined = AttentionView::new("one").group(group("a")).join(AttentionView::new("two").group(group("b")));
    let json = joined.to_json();
    let inputs: Vec<_> = json.as_array().unwrap().iter().map(|one| (&one["input"], &one["tokens"][0])).collect();
    assert_eq!(inputs, [(&"one".into(), &"a".into()), (&"two".into(), &"b".into())]);
    let data = embedded(&joined.to_html().unwrap());
    assert_eq!((&data[0]["groups"][0]["input"], &data[0]["groups"][1]["input"]), (&"one".into(), &"two".into()));
    let svg = joined.to_figure().unwrap().to_svg();
    assert!(svg.contains("one: layer 1") && svg.contains("two: layer 1"));
}

#[test]
fn a_drawing_has_one_panel_per_head() {
    let figure = view().to_figure().unwrap();
    let titles: Vec<&str> = figure.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["encoder.0.0", "encoder.0.1", "decoder.0.cross.0"]);
    assert!(figure.notes[0].ends_with("Names count layers and heads from 0, as encoder.0.1."), "{}", figure.notes[0]);
    let svg = figure.to_svg();
    roxmltree::Document::parse(&svg).unwrap();
    assert!(svg.contains(">chat</text>") && svg.contains(">␣cat</text>"));
    assert_eq!(svg.matches("url(#regard-blues)").count(), 1, "one bar for all maps");
    AttentionView::new("").to_figure().unwrap().to_png().unwrap();
}

#[test]
fn a_few_large_weights_do_not_make_all_others_pale() {
    let tokens: Vec<String> = (0..20).map(|i| i.to_string()).collect();
    let rows = (0..20).map(|query| if query == 0 { vec![1.0] } else { vec![0.1; 10] }).collect();
    let group = MapGroup::new("l", tokens.clone(), tokens).head(HeadMap { head: 0, rows });
    let figure = AttentionView::new("").group(group).to_figure().unwrap();
    let svg = figure.to_svg();
    assert!(svg.contains("fill=\"#08285c\"><title>1 → 9: 0.1</title>"), "0.1 is the 90th percentile");
    assert!(figure.notes[0].ends_with("Weights above 0.1, up to 1, have the darkest colour."));
}

#[test]
fn large_views_are_small_enough_or_refused() {
    let words: Vec<String> = (0..512).map(|i| format!("token{i}")).collect();
    let rows = |i: usize| (0..=i).map(|_| 1.0 / (i + 1) as f32).collect();
    let head = |head| HeadMap { head, rows: (0..512).map(rows).collect() };
    let mut group = MapGroup::new("layer 1", words.clone(), words);
    (0..4).for_each(|index| group.heads.push(head(index)));
    let long = AttentionView::new("long").group(group.clone());
    let page = long.to_html().unwrap();
    assert!(page.len() < 4_000_000, "{}", page.len());
    let svg = long.to_figure().unwrap().to_svg();
    assert_eq!(svg.matches("<image").count(), 4);
    group.heads = (0..80).map(|head| HeadMap { head, rows: Vec::new() }).collect();
    let refused = AttentionView::new("too long").group(group).to_html().unwrap_err();
    assert!(
        matches!(refused, InspectError::Figure(FigureError::TooLarge { limit: 20_000_000, got: 20_971_520, .. })),
        "{refused}"
    );
    let mut many = MapGroup::new("l", ["a"], ["a"]);
    many.heads = (0..1025).map(|head| HeadMap { head, rows: vec![vec![1.0]] }).collect();
    assert!(matches!(
        AttentionView::new("").group(many).to_figure(),
        Err(InspectError::Figure(FigureError::TooLarge { .. }))
    ));
}

#[test]
fn the_extension_chooses_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let starts = [("a.html", "<!DOCTYPE"), ("b.svg", "<svg"), ("c.PNG", "\u{89}PNG"), ("d.json", "{\"input\"")];
    for (name, start) in starts {
        let path = folder.path().join(name);
        AttentionView::check_path(&path).unwrap();
        assert_eq!(view().save(&path).unwrap().note(), None);
        let start: Vec<u8> = start.chars().map(|c| c as u8).collect();
        assert!(std::fs::read(&path).unwrap().starts_with(&start), "{name}");
    }
    assert_eq!(ViewFormat::of("x.JSON").unwrap(), ViewFormat::Json);
    for name in ["a.txt", "json", ".json"] {
        let error = AttentionView::check_path(folder.path().join(name)).unwrap_err();
        assert!(error.to_string().contains(".html, .svg, .png or .json"), "{error}");
        assert!(view().save(folder.path().join(name)).is_err());
    }
    let nowhere = AttentionView::check_path(folder.path().join("no").join("a.json"));
    assert!(matches!(nowhere, Err(InspectError::Save(SaveError::Folder { .. }))));
}

fn map(layer: usize, sequence: usize, head: usize, first_row: usize, rows: Vec<Vec<f32>>) -> AttentionMap {
    let site = Site { side: Some(Side::Decoder), layer, kind: AttentionKind::SelfAttention };
    AttentionMap { site, sequence, head, first_row, rows, keys: None }
}

#[test]
fn captured_maps_become_groups() {
    let maps = [
        map(0, 0, 0, 0, vec![vec![1.0], vec![0.4, 0.6]]),
        map(0, 0, 1, 0, vec![vec![1.0], vec![0.5, 0.5]]),
        map(9, 0, 0, 0, vec![vec![1.0]]),
        map(0, 1, 0, 0, vec![vec![1.0]]),
        // Decoding continues after something else, and one row is captured again.
        map(0, 0, 0, 2, vec![vec![0.1, 0.2, 0.7]]),
        map(0, 0, 1, 1, vec![vec![0.0, 1.0]]),
    ];
    let tokens = ["a", "b", "c"];
    let described = |map: &AttentionMap| {
        let group = MapGroup::new(format!("{} of {}", map.site, map.sequence), tokens, tokens);
        (map.site.layer != 9).then(|| group.input(format!("input {}", map.sequence)))
    };
    let view = AttentionView::from_maps("t", &maps, described).unwrap();
    let names: Vec<&str> = view.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["decoder.0 of 0", "decoder.0 of 1"]);
    let first = &view.groups[0].heads;
    assert_eq!(first[0].rows, [vec![1.0, 0.0, 0.0], vec![0.4, 0.6, 0.0], vec![0.1, 0.2, 0.7]]);
    assert_eq!(first[1].rows, [vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0], vec![0.0; 3]]);
    assert_eq!((first[1].head, view.groups[1].heads.len()), (1, 1));
}

#[test]
fn padding_is_left_out_and_a_wrong_token_list_refused() {
    let described = |_: &AttentionMap| Some(MapGroup::new("l", ["a", "b"], ["a", "b"]));
    let padded = [map(0, 0, 0, 0, vec![vec![0.5, 0.5, 0.0], vec![0.1, 0.9, 0.0], vec![0.2, 0.2, 0.6]])];
    let view = AttentionView::from_maps("", &padded, described).unwrap();
    assert_eq!(view.groups[0].heads[0].rows, [vec![0.5, 0.5], vec![0.1, 0.9]]);
    let wrong = [map(3, 0, 0, 0, vec![vec![0.5, 0.25, 0.25]])];
    let error = AttentionView::from_maps("", &wrong, described).unwrap_err().to_string();
    assert!(error.contains("decoder.3.0") && error.contains("2 keys"), "{error}");
}

#[test]
fn edges_of_a_graph_find_their_keys() {
    let keys = Some(vec![vec![2, 0], vec![]]);
    let maps = [AttentionMap { keys, ..map(0, 0, 0, 0, vec![vec![0.25, 0.75], vec![]]) }];
    let describe = |_: &AttentionMap| Some(MapGroup::new("graph", ["a", "b"], ["x", "y", "z"]));
    let view = AttentionView::from_maps("", &maps, describe).unwrap();
    assert_eq!(view.groups[0].heads[0].rows, [vec![0.75, 0.0, 0.25], vec![0.0; 3]]);
}

/// Any text, and texts that are likely to break pages.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>&'\"/!\\-\\\\a-z]{0,12}",
        Just("</script>".to_string()),
        Just("<!--<script>".to_string()),
        Just("\u{2028}]]>\u{0}".to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_token_breaks_a_page_and_all_weights_come_back(
        title in token(),
        name in token(),
        tokens in prop::collection::vec(token(), 0..5),
        weights in prop::collection::vec(0.0..1.0_f32, 25),
    ) {
        let rows: Vec<Vec<f32>> = weights.chunks(5).map(<[f32]>::to_vec).collect();
        let group = MapGroup::new(name.as_str(), tokens.clone(), tokens.clone()).head(HeadMap { head: 3, rows });
        let view = AttentionView::new(title.as_str()).group(group);
        let page = view.to_html().unwrap();
        prop_assert_eq!(page.matches("<script").count(), 2);
        prop_assert_eq!(page.matches("</script").count(), 2);
        prop_assert!(!page.contains("<!--"));
        let data = embedded(&page);
        prop_assert_eq!(data[0]["title"].as_str(), Some(title.as_str()));
        prop_assert_eq!(data[0]["groups"][0]["name"].as_str(), Some(name.as_str()));
        for row in 0..tokens.len() {
            for column in 0..tokens.len() {
                let came = data[0]["groups"][0]["heads"][0]["rows"][row].get(column).map_or(0, |w| w.as_i64().unwrap());
                let weight = weights[row * 5 + column];
                prop_assert!((came as f32 / 1e4 - weight).abs() <= 0.5001e-4, "{} became {}", weight, came);
            }
        }
        let json: Value = serde_json::from_str(&view.to_json().to_string()).unwrap();
        prop_assert_eq!(json["tokens"].as_array().unwrap().len(), tokens.len());
        let svg = view.to_figure().unwrap().to_svg();
        prop_assert!(roxmltree::Document::parse(&svg).is_ok());
    }
}
