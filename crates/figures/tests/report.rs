//! Tests of reports: one page with all parts, several interactive ones among them.

use regard_figures::{Axis, Content, Figure, Interactive, Lines, Report, Section, Series, Table, confusion_matrix};

fn part(title: &str) -> Interactive {
    let body = "<div class=\"attention\"></div>\n".to_string();
    Interactive { title: title.to_string(), body, style: ".attention {}\n", script: "(function () {})();\n" }
}

fn report() -> Report {
    let loss =
        Lines::new(Axis::linear("step"), Axis::linear("loss")).series(Series::new("train", [(0.0, 2.0), (1.0, 1.0)]));
    let confusion = confusion_matrix(["yes", "no"], &[3, 1, 0, 4]).unwrap();
    Report::new("Tagging <EWT>")
        .fact("model", "Transformer & CRF")
        .fact("accuracy", "95.1 %")
        .section(
            Section::new("Training")
                .text("First paragraph\ngoes on.\n\n\nSecond <b>paragraph</b>.")
                .content(Figure::new("Loss").panel("", loss).note("A note."))
                .content(Table::new(["step", "loss"]).row(["1", "2.0"])),
        )
        .section(Section::new("Attention").content(part("one")).content(part("two </script>")))
        .section(
            Section::new("Errors")
                .content(Figure::new("").panel("Confusion", confusion))
                .content(Content::Text("Plain.".to_string()))
                .content(Content::Code("regard look run \"I saw a saw\" | <less>".to_string())),
        )
}

#[test]
fn a_report_has_its_parts_in_order() {
    let page = report().to_html();
    let parts = [
        "<title>Tagging &lt;EWT&gt;</title>",
        "<h1>Tagging &lt;EWT&gt;</h1>",
        "<dt>model</dt><dd>Transformer &amp; CRF</dd>",
        "<dt>accuracy</dt><dd>95.1 %</dd>",
        "<a href=\"#part-1\">Training</a>",
        "<a href=\"#part-3\">Errors</a>",
        "<h2 id=\"part-1\">Training</h2>",
        "<p>First paragraph\ngoes on.</p>\n<p>Second &lt;b&gt;paragraph&lt;/b&gt;.</p>",
        "<h3>Loss</h3>",
        "<svg",
        "<p>A note.</p>",
        "<td class=\"number\">2.0</td>",
        "<h2 id=\"part-2\">Attention</h2>",
        "<h3>one</h3>",
        "<div class=\"attention\">",
        "<h3>two &lt;/script&gt;</h3>",
        "<div class=\"attention\">",
        "<h2 id=\"part-3\">Errors</h2>",
        "<svg",
        "<p>Plain.</p>",
        "<pre>regard look run &quot;I saw a saw&quot; | &lt;less&gt;</pre>",
        "<script>\n(function",
        "</html>",
    ];
    let mut from = 0;
    for part in parts {
        let found = page[from..].find(part);
        from += found.unwrap_or_else(|| panic!("{part} is missing or out of order")) + part.len();
    }
}

#[test]
fn interactive_parts_share_one_style_and_script() {
    let page = report().to_html();
    assert_eq!(page.matches("<div class=\"attention\">").count(), 2);
    assert_eq!((page.matches(".attention {}").count(), page.matches("(function () {").count()), (1, 1));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http") && !elsewhere.contains("<link") && !elsewhere.contains("@import"));
    assert!(page.contains("@media print"));
}

#[test]
fn a_report_without_interactive_parts_has_no_script() {
    let page = Report::new("Bare").section(Section::new("Only")).to_html();
    assert!(
        !page.contains("<script") && !page.contains("<nav") && !page.contains("<dl>") && !page.contains(".attention")
    );
}

#[test]
fn a_report_replaces_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    std::fs::write(&path, "old").unwrap();
    report().save(&path).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file is left");
    assert!(report().save(folder.path().join("no/report.html")).is_err());
}
