//! The interactive page of attention maps. A script draws them on canvases, so that 250,000 cells are as fast as a few.

use std::fmt::Write;
use std::sync::LazyLock;

use regard_figures::{FigureError, Interactive, visible};
use serde::Serialize;

use crate::attention::{AttentionView, HeadMap, MapGroup};
use crate::error::InspectError;

/// Largest number of weights in a page, about 60 MB, which a browser still opens.
const MOST_WEIGHTS: usize = 20_000_000;

const STYLE: &str = include_str!("page/attention.css");

/// Modules that draw attention, each before those that import it.
const MODULES: [(&str, &str); 9] = [
    ("weights.js", include_str!("page/weights.js")),
    ("elements.js", include_str!("page/elements.js")),
    ("canvas.js", include_str!("page/canvas.js")),
    ("drawing.js", include_str!("page/drawing.js")),
    ("map.js", include_str!("page/map.js")),
    ("lines.js", include_str!("page/lines.js")),
    ("tokens.js", include_str!("page/tokens.js")),
    ("overview.js", include_str!("page/overview.js")),
    ("view.js", include_str!("page/view.js")),
];

/// Script that sets up the views of a page from the data in it.
const MOUNT: &str = include_str!("page/mount.js");

/// Returns the style and the JavaScript modules that draw attention, by file name, for a server whose pages import them.
pub fn page_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODULES.into_iter().chain([("attention.css", STYLE)])
}

/// All modules as one script, for pages that fetch nothing.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let mut script = "(function () {\n\"use strict\";\n".to_string();
    for line in MODULES.iter().map(|(_, text)| *text).chain([MOUNT]).flat_map(str::lines) {
        // A module is one scope with the others here, so nothing is imported or exported.
        if !line.starts_with("import ") && !line.starts_with("export ") {
            script.push_str(line);
            script.push('\n');
        }
    }
    script + "})();\n"
});

impl AttentionView {
    /// Returns the maps as a part of a report.
    pub fn to_interactive(&self) -> Result<Interactive, InspectError> {
        let weights = self.weights();
        if weights > MOST_WEIGHTS {
            return Err(FigureError::TooLarge { what: "weights of a page", limit: MOST_WEIGHTS, got: weights }.into());
        }
        let data = PageData { title: &self.title, groups: self.groups.iter().map(PageGroup::new).collect() };
        let json = serde_json::to_string(&data).map_err(|error| InspectError::Encode { why: error.to_string() })?;
        let body = format!(
            "<div class=\"attention\">\n<noscript>The maps are drawn by JavaScript, which is turned off here.</noscript>\n\
             <script type=\"application/json\">{}</script>\n</div>\n",
            for_script(&json)
        );
        Ok(Interactive { title: self.title.clone(), body, style: STYLE, script: SCRIPT.as_str() })
    }
}

#[derive(Serialize)]
struct PageData<'a> {
    title: &'a str,
    groups: Vec<PageGroup<'a>>,
}

#[derive(Serialize)]
struct PageGroup<'a> {
    input: &'a str,
    name: String,
    queries: Vec<String>,
    keys: Vec<String>,
    heads: Vec<PageHead>,
}

/// A head with weights in ten-thousandths: `12` takes a third of the space of `0.0012`. Zeros at the end of a row are omitted.
#[derive(Serialize)]
struct PageHead {
    head: usize,
    name: String,
    rows: Vec<Vec<Option<i64>>>,
}

impl<'a> PageGroup<'a> {
    fn new(group: &'a MapGroup) -> Self {
        let shown = |tokens: &[String]| tokens.iter().map(|token| visible(token)).collect();
        Self {
            input: &group.input,
            name: group.label(),
            queries: shown(&group.queries),
            keys: shown(&group.keys),
            heads: group.heads.iter().map(|head| PageHead::new(group, head)).collect(),
        }
    }
}

impl PageHead {
    fn new(group: &MapGroup, head: &HeadMap) -> Self {
        let rows = head.weights(group).map(|row| {
            let mut row: Vec<Option<i64>> = row.into_iter().map(ten_thousandths).collect();
            let used = row.iter().rposition(|weight| *weight != Some(0)).map_or(0, |last| last + 1);
            row.truncate(used);
            row
        });
        Self { head: head.head, name: group.head_name(head.head), rows: rows.collect() }
    }
}

fn ten_thousandths(weight: f32) -> Option<i64> {
    weight.is_finite().then(|| (f64::from(weight) * 1e4).round() as i64)
}

/// Escapes JSON for a script element, so that nothing in it ends the element or begins a comment.
fn for_script(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(safe, "\\u{:04x}", c as u32);
            }
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_figures::ColourMap;

    #[test]
    fn the_script_has_the_colours_of_the_drawings() {
        let stops = ColourMap::Blues.stops().iter().map(|c| format!("[{}, {}, {}]", c.0, c.1, c.2));
        let list = stops.collect::<Vec<_>>().join(", ");
        let start = SCRIPT.find("const LIGHT = [").expect("the script has colours");
        let found = &SCRIPT[start..start + SCRIPT[start..].find("];").expect("a list ends")];
        let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(found, format!("const LIGHT = [ {list},"));
    }

    #[test]
    fn nothing_in_a_script_ends_it() {
        assert!(!SCRIPT.contains("</") && !SCRIPT.contains("<!--") && !STYLE.contains("</"));
        let odd = "</script><!-- & \u{2028}\u{2029} \u{1f600}";
        let json = for_script(&serde_json::to_string(odd).expect("a string is JSON"));
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).expect("still JSON"), odd);
    }

    #[test]
    fn the_script_needs_no_modules() {
        let word = |line: &str| line.trim_start().starts_with("import ") || line.trim_start().starts_with("export ");
        assert!(!SCRIPT.lines().any(word));
        for (name, text) in MODULES.into_iter().chain([("mount.js", MOUNT)]) {
            // What a module imports comes before it, so that the joined script runs in order.
            let before = MODULES.iter().take_while(|(known, _)| *known != name).map(|(known, _)| *known);
            let before: Vec<&str> = before.collect();
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let from = line.split("\"./").nth(1).and_then(|rest| rest.strip_suffix("\";"));
                assert!(from.is_some_and(|from| before.contains(&from)), "{name}: {line}");
            }
        }
    }

    #[test]
    fn weights_are_ten_thousandths() {
        let cases =
            [(0.0, Some(0)), (1.0, Some(10_000)), (0.00004, Some(0)), (0.43216, Some(4322)), (-0.5, Some(-5000))];
        for (weight, expected) in cases {
            assert_eq!(ten_thousandths(weight), expected, "{weight}");
        }
        for weight in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(ten_thousandths(weight), None);
        }
    }
}
