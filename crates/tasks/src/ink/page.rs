//! Lines of handwriting as an SVG picture, and as a page that writes them stroke by stroke.

use std::fmt::Write;

use super::Ink;

/// Height of a line on the page, in pixels.
const LINE: f64 = 64.0;
/// Space between lines and around them, as a share of the height of a line.
const GAP: f64 = 0.45;
/// Width of the pen, as a share of the height of a line.
const PEN: f64 = 0.035;
/// Seconds in which the pen goes the height of a line.
const SECONDS: f64 = 0.18;

/// Draws lines below each other as an SVG document.
pub fn to_svg(lines: &[Ink]) -> String {
    let page = Page::new(lines);
    let paths: String = page.strokes.iter().map(|stroke| format!("<path d=\"{}\"/>\n", stroke.path)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.1} {1:.1}\">\n\
         <title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <g fill=\"none\" stroke=\"#1b2a49\" stroke-width=\"{3:.2}\" stroke-linecap=\"round\" stroke-linejoin=\"round\">\n\
         {paths}</g>\n</svg>\n",
        page.width,
        page.height,
        escaped(&titles(lines)),
        PEN * LINE
    )
}

/// Returns a page that writes the lines stroke by stroke, at the speed of a pen. It fetches nothing.
pub fn to_html(lines: &[Ink]) -> String {
    let page = Page::new(lines);
    let mut paths = String::new();
    for Drawn { path, begin, seconds } in &page.strokes {
        let _ = writeln!(
            paths,
            "<path pathLength=\"1\" style=\"animation-delay:{begin:.2}s;animation-duration:{seconds:.2}s\" d=\"{path}\"/>"
        );
    }
    let title = escaped(&titles(lines));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <h1>{title}</h1>\n<svg viewBox=\"0 0 {0:.1} {1:.1}\" style=\"max-width:{0:.0}px\" role=\"img\" \
         aria-label=\"{title}\">\n<g id=\"ink\" stroke-width=\"{2:.2}\">\n{paths}</g>\n</svg>\n\
         <p><button onclick=\"const g=document.getElementById('ink');g.replaceWith(g.cloneNode(true))\">Write again</button></p>\n\
         </html>\n",
        page.width,
        page.height,
        PEN * LINE
    )
}

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; padding: 0 1.25rem; max-width: 1200px; color: #222; background: #fafafa; }
h1 { font-size: 1.1rem; font-weight: 600; white-space: pre-wrap; }
svg { width: 100%; background: #fff; border: 1px solid #8884; border-radius: 4px; }
path { fill: none; stroke: #1b2a49; stroke-linecap: round; stroke-linejoin: round; stroke-dasharray: 1 2; stroke-dashoffset: 1.01;
  animation: write linear forwards; }
@keyframes write { to { stroke-dashoffset: 0; } }
@media (prefers-reduced-motion: reduce) { path { animation: none; stroke-dashoffset: 0; } }
";

/// A stroke on the page.
struct Drawn {
    path: String,
    /// Seconds before the pen goes down.
    begin: f64,
    /// Seconds until the pen is lifted.
    seconds: f64,
}

struct Page {
    width: f64,
    height: f64,
    strokes: Vec<Drawn>,
}

impl Page {
    fn new(lines: &[Ink]) -> Self {
        let size = |line: &Ink| {
            let [left, top, right, bottom] = line.bounds();
            [right - left, bottom - top]
        };
        // All lines have the same scale: their mean height is that of a line.
        let heights: Vec<f64> = lines.iter().map(|line| size(line)[1]).filter(|height| *height > 0.0).collect();
        let mean = heights.iter().sum::<f64>() / heights.len().max(1) as f64;
        let scale = if mean > 0.0 && mean.is_finite() { LINE / mean } else { 1.0 };
        let margin = GAP * LINE;
        let mut page = Self { width: 0.0, height: margin, strokes: Vec::new() };
        let (mut clock, mut pen): (f64, Option<[f64; 2]>) = (0.0, None);
        for line in lines {
            let [left, top, ..] = line.bounds();
            let [width, height] = size(line).map(|side| side * scale);
            for stroke in &line.strokes {
                let place =
                    |point: &[f64; 2]| [margin + (point[0] - left) * scale, page.height + (point[1] - top) * scale];
                let points: Vec<[f64; 2]> = stroke.iter().map(place).collect();
                let (Some(&start), Some(&end)) = (points.first(), points.last()) else { continue };
                // The pen also takes time to go through the air.
                clock += pen.map_or(0.0, |pen| (distance(pen, start) / LINE * SECONDS).min(0.5));
                let length: f64 = points.windows(2).map(|ends| distance(ends[0], ends[1])).sum();
                let seconds = (length / LINE * SECONDS).max(0.03);
                page.strokes.push(Drawn { path: smooth(&points), begin: clock, seconds });
                clock += seconds;
                pen = Some(end);
            }
            page.width = page.width.max(width + 2.0 * margin);
            page.height += height + margin;
        }
        page.width = page.width.max(2.0 * margin);
        page
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// Returns the path through points as curves that meet halfway between neighbours.
fn smooth(points: &[[f64; 2]]) -> String {
    let mut path = String::new();
    let Some(([x, y], rest)) = points.split_first() else { return path };
    let _ = write!(path, "M{x:.1} {y:.1}");
    match rest {
        // A dot has the width of the pen.
        [] => path.push_str("h0.01"),
        [[x, y]] => {
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
        _ => {
            for ends in rest.windows(2) {
                let ([ax, ay], [bx, by]) = (ends[0], ends[1]);
                let _ = write!(path, "Q{ax:.1} {ay:.1} {:.1} {:.1}", (ax + bx) / 2.0, (ay + by) / 2.0);
            }
            let [x, y] = rest[rest.len() - 1];
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
    }
    path
}

/// Returns the texts of the lines, without those that repeat the line before.
fn titles(lines: &[Ink]) -> String {
    let mut texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    if texts.is_empty() { "Handwriting".to_string() } else { texts.join("\n") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, strokes: Vec<Vec<[f64; 2]>>) -> Ink {
        Ink { text: text.to_string(), strokes, ..Ink::default() }
    }

    #[test]
    fn every_stroke_is_a_path_after_the_one_before() {
        let lines = [
            line("a<b", vec![vec![[0.0, 0.0], [1.0, 2.0], [2.0, 0.0]], vec![[3.0, 1.0]]]),
            line("c", vec![vec![[5.0, 5.0], [6.0, 7.0]]]),
        ];
        let page = Page::new(&lines);
        assert_eq!(page.strokes.len(), 3);
        assert!(page.strokes.windows(2).all(|two| two[0].begin + two[0].seconds <= two[1].begin));
        let html = to_html(&lines);
        assert_eq!(html.matches("<path ").count(), 3);
        assert!(html.contains("a&lt;b") && !html.contains("http"), "{html}");
        let svg = to_svg(&lines);
        assert!(svg.contains("a&lt;b") && svg.matches("<path ").count() == 3);
    }

    #[test]
    fn anything_can_be_drawn() {
        for strokes in [vec![], vec![vec![]], vec![vec![[0.0, 0.0]]], vec![vec![[1e38, 0.0], [-1e38, 0.0]]]] {
            for page in [to_svg(&[line("", strokes.clone())]), to_html(&[line("", strokes)])] {
                assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
            }
        }
    }
}
