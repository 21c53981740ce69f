//! Draws every kind of panel: `cargo run --release -p regard-inspect --example gallery -- FOLDER`. All numbers are invented.

use std::path::PathBuf;

use regard_figures::{
    Axis, Bars, CellNumbers, ColourScale, Content, Figure, FigureError, Heatmap, LabelledPoint, LineStyle, Lines,
    Links, Report, Saved, Scatter, Section, Series, Table, Text, ValueRange, confusion_matrix,
};
use regard_inspect::{AttentionView, HeadMap, InspectError, MapGroup};

fn main() -> Result<(), InspectError> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_string()));
    for (name, figure) in [
        ("attention", attention()?),
        ("heads", heads()?),
        ("large", large()?),
        ("curves", curves()?),
        ("odd", odd()?),
        ("scores", scores()?),
        ("words", words()?),
    ] {
        for extension in ["svg", "png", "html"] {
            tell(&figure.save(folder.join(format!("{name}.{extension}")))?);
        }
    }
    for (name, view) in [("view", view(2, 4, 8)), ("view-large", view(12, 12, 48)), ("view-long", view(1, 2, 512))] {
        for extension in ["svg", "png", "html", "json"] {
            tell(&view.save(folder.join(format!("{name}.{extension}")))?);
        }
    }
    Ok(report()?.save(folder.join("report.html"))?)
}

/// Prints which characters of a picture no font has, if there are any.
fn tell(saved: &Saved) {
    if let Some(note) = saved.note() {
        println!("note: {note}");
    }
}

const TOKENS: [&str; 8] = ["<s>", " the", " cat", " sat", " on", " the", " mat", "."];

/// Returns causal weights that fall off with the distance.
fn weights(length: usize, fall: f32) -> Vec<f32> {
    let mut weights = vec![f32::NAN; length * length];
    for query in 0..length {
        let score = |key: usize| (-(fall * (query - key) as f32) + 1.5 * (key as f32 * 1.7).sin()).exp();
        let sum: f32 = (0..=query).map(score).sum();
        (0..=query).for_each(|key| weights[query * length + key] = score(key) / sum);
    }
    weights
}

fn attention() -> Result<Figure, FigureError> {
    let map = Heatmap::new(8, 8, weights(8, 0.3))?
        .row_labels(TOKENS)
        .column_labels(TOKENS)
        .axes("query", "key")
        .absent("masked")
        .numbers(CellNumbers::WhereTheyFit);
    let links = Links::new(TOKENS, TOKENS, weights(8, 0.3))?.names("query", "key");
    Ok(Figure::new("What each token attends to: softmax(QKᵀ / √d) of layer 1, head 3")
        .panel("weights", map)
        .panel("the same as links", links)
        .note("A query sees itself and earlier tokens; hatched cells are masked. Rows add up to 1."))
}

fn heads() -> Result<Figure, FigureError> {
    let words: Vec<String> = (0..24).map(|i| format!("token{i}")).collect();
    let mut figure = Figure::new("All heads of layer 2").columns(4);
    for head in 0..8 {
        let map = Heatmap::new(24, 24, weights(24, 0.05 * head as f32))?
            .row_labels(words.clone())
            .column_labels(words.clone())
            .absent("masked")
            .side(240);
        figure.push(format!("head {}", head + 1), map);
    }
    Ok(figure)
}

fn large() -> Result<Figure, FigureError> {
    let wave = |row: usize, column: usize| {
        let angle = row as f32 / 10_000f32.powf((column / 2 * 2) as f32 / 64.0);
        if column.is_multiple_of(2) { angle.sin() } else { angle.cos() }
    };
    let values = |rows: usize| (0..rows * 64).map(|i| wave(i / 64, i % 64)).collect();
    let positions = Heatmap::new(128, 64, values(128))?
        .axes("position", "dimension")
        .scale(ColourScale::diverging(ValueRange::Data));
    let image =
        Heatmap::new(512, 512, weights(512, 0.02))?.axes("query", "key").scale(ColourScale::viridis(ValueRange::Data));
    Ok(Figure::new("Sinusoidal positions, and a map with 262,144 cells")
        .panel("128 × 64, as in Vaswani et al.", positions)
        .panel("512 × 512", image))
}

fn curves() -> Result<Figure, FigureError> {
    let law = |n: f64| 2.6 * n.powf(-0.5);
    let sizes = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
    let scaling = Lines::new(Axis::log("contexts per task"), Axis::log("generalisation error"))
        .series(Series::new("trained", sizes.map(|n| (n, law(n) * (1.0 + 0.1 * n.sin())))).style(LineStyle::Markers))
        .series(Series::new("theory, slope −½", sizes.map(|n| (n, law(n)))).style(LineStyle::Dashed).colour(0))
        .series(Series::new("no memory", sizes.map(|n| (n, 0.7))).style(LineStyle::MarkedLine));
    let loss = |step: u32| 4.0 * (-f64::from(step) / 3_000.0).exp() + 1.2 + 0.1 * f64::from(step).sin();
    let training = Lines::new(Axis::linear("step"), Axis::linear("loss, nats").including(0.0))
        .series(Series::new("train", (0..20_000).map(|step| (f64::from(step), loss(step)))))
        .series(
            Series::new("dev", (0..20).map(|i| (f64::from(i) * 1000.0, loss(i * 1000) + 0.2)))
                .style(LineStyle::MarkedLine),
        );
    let bars = Bars::new(Axis::linear("training step, ms"), ["4-layer GPT, batch 16 × 256", "tiny model", "LSTM"])
        .series("PyTorch", [1160.0, 395.0, 220.5])?
        .series("Regard", [780.0, 77.0, 180.25])?;
    let signed =
        Bars::new(Axis::linear("change of logit"), [" the", " cat", " sat"]).series("", [0.8, -0.35, f64::NAN])?;
    let table = Table::new(["mechanism", "parameters", "time", "note"])
        .row(["dot product", "0", "1.00×", "no weights of its own"])
        .row(["additive (Bahdanau)", "33,024", "3.4×", "tanh(Wq + Uk) · v"])
        .row(["bilinear", "16,384", "1.2×", ""]);
    let text =
        Text::new("scores = Q · Kᵀ / √d\nweights = softmax(scores)\n\noutput = weights · V      # [seq, d_head]");
    Ok(Figure::new("Curves, bars, a table and text")
        .panel("Scaling, log-log", scaling)
        .panel("Training", training)
        .panel("Speed", bars)
        .panel("Signed", signed)
        .panel("Mechanisms", table)
        .panel("Formula", text)
        .columns(2)
        .note("A long note, to show that notes are wrapped into several lines if the figure is narrower than the sentence, as happens with sentences that explain what can be seen in the panels above."))
}

/// Draws what is hard to draw: panels without data, values that are not finite, and labels that are too long.
fn odd() -> Result<Figure, FigureError> {
    let long = ["a label that is much longer than any cell of the map could ever be", "短い", "naïve <b>&", "→\n"];
    let mixed = vec![
        1.0,
        f32::NAN,
        -2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        3.5,
        1e-7,
        12.0,
        -1e9,
        0.1,
        5.0,
        1.0,
        2.0,
        3.0,
        4.0,
    ];
    Ok(Figure::new("Odd data")
        .panel(
            "mixed, long labels",
            Heatmap::new(4, 4, mixed)?
                .row_labels(long)
                .column_labels(long)
                .scale(ColourScale::diverging(ValueRange::Fixed { low: -4.0, high: 4.0 }))
                .numbers(CellNumbers::WhereTheyFit),
        )
        .panel("1 × 1", Heatmap::new(1, 1, vec![0.5])?.axes("a rather long row name", "a rather long column name"))
        .panel("constant", Heatmap::new(3, 5, vec![0.2; 15])?.scale(ColourScale::viridis(ValueRange::Data)))
        .panel("only NaN", Heatmap::new(2, 6, vec![f32::NAN; 12])?)
        .panel("1 × 100", Heatmap::new(1, 100, (0..100).map(|i| i as f32).collect())?)
        .panel("empty", Heatmap::new(0, 3, vec![])?)
        .panel(
            "no points",
            Lines::new(Axis::log("x"), Axis::linear("y")).series(Series::new("s", [(0.0, 1.0), (-1.0, 2.0)])),
        )
        .panel("one point", Lines::new(Axis::log("x"), Axis::log("y")).series(Series::new("s", [(3.0, 1e-9)])))
        .panel("no bars", Bars::new(Axis::linear(""), [""; 0]))
        .panel("no rows", Table::new(["a", "b"])))
}

/// Returns a view whose layers and heads attend back over different distances.
fn view(layers: usize, heads: usize, length: usize) -> AttentionView {
    let token = |index: usize| match TOKENS.get(index) {
        Some(token) => token.to_string(),
        None => format!("{}{index}", ["word", " a", " considerably"][index % 3]),
    };
    let tokens: Vec<String> = (0..length).map(token).collect();
    let mut view = AttentionView::new(format!("{layers} layers, {heads} heads, {length} tokens"));
    for layer in 0..layers {
        let mut group = MapGroup::new(format!("decoder layer {}", layer + 1), tokens.clone(), tokens.clone());
        for head in 0..heads {
            let weights = weights(length, 0.04 * ((layer + 1) * (head + 1)) as f32);
            let rows = weights.chunks(length).enumerate().map(|(query, row)| row[..=query].to_vec()).collect();
            group.heads.push(HeadMap { head, rows });
        }
        view.groups.push(group);
    }
    view
}

fn scores() -> Result<Figure, FigureError> {
    let tags = ["ADJ", "ADP", "ADV", "AUX", "DET", "NOUN", "PRON", "PUNCT", "VERB", "a rather long class"];
    let count = |true_: usize, taken: usize| match true_.abs_diff(taken) {
        _ if true_ == 9 => 0,
        0 => 1800 / (true_ as u64 + 1),
        far => (37 / (far * far) as u64) % 23,
    };
    let counts: Vec<u64> = (0..100).map(|i| count(i / 10, i % 10)).collect();
    let names = ["none", "sinusoidal", "learned", "relative", "rope", "alibi"];
    let bars = Bars::new(Axis::linear("exact sentences, mean ± deviation of 3 seeds"), names)
        .series_with_deviations(
            "as long as trained on",
            names.map(|n| (0.9 + 0.01 * n.len() as f64, 0.004 * n.len() as f64)),
        )?
        .series_with_deviations("twice as long", names.map(|n| (0.1 * n.len() as f64, 0.05)))?;
    let mut lines = Lines::new(Axis::linear("length"), Axis::linear("accuracy").including(0.0).including(1.0));
    for (index, name) in names.iter().take(3).enumerate() {
        let points = (1..8).map(|l| (f64::from(l * 8), 0.98 - 0.015 * f64::from(l * l) / (index + 1) as f64));
        let deviations = (1..8).map(|l| 0.005 * f64::from(l));
        lines = lines.series(Series::new(*name, points).style(LineStyle::MarkedLine).deviations(deviations));
    }
    Ok(Figure::new("Scores")
        .panel("Confusion", confusion_matrix(tags, &counts)?)
        .panel("Variants", bars)
        .panel("Longer inputs", lines)
        .columns(2))
}

fn words() -> Result<Figure, FigureError> {
    let words = "king queen man woman prince princess boy girl father mother son daughter uncle aunt brother sister \
                 cat dog horse cow sheep goat pig hen duck goose bird fish wolf fox bear lion tiger mouse \
                 one two three four five six seven eight nine ten eleven twelve thirteen hundred thousand million";
    let mut scatter = Scatter::new(Axis::linear("first component"), Axis::linear("second component"));
    for (group, (name, range)) in [("people", 0..16), ("animals", 16..34), ("numbers", 34..50)].into_iter().enumerate()
    {
        let points = words.split_whitespace().skip(range.start).take(range.len()).enumerate().map(|(i, word)| {
            let (angle, far) = (group as f64 * 2.1 + 0.8 * (i as f64 * 2.4).sin(), 1.0 + 0.5 * (i as f64 * 1.7).cos());
            LabelledPoint::new(angle.cos() * far, angle.sin() * far, word)
        });
        scatter = scatter.group(name, points)?;
    }
    let crowd = (0..400).map(|i| {
        let t = f64::from(i) * 0.37;
        LabelledPoint::new(t.sin() * (t * 0.31).cos(), (t * 1.3).cos() * (t * 0.17).sin(), format!("word{i}"))
    });
    let crowded = Scatter::new(Axis::linear(""), Axis::linear("")).group("", crowd)?;
    Ok(Figure::new("Words by their vectors").panel("few", scatter).panel("many", crowded).columns(1))
}

fn report() -> Result<Report, InspectError> {
    Ok(Report::new("translate: English to French")
        .fact("model", "Transformer, 2 + 2 layers, 4 heads, d_model 128")
        .fact("exact sentences", "96.3 %")
        .section(Section::new("Curves").text("Loss and score while training.").content(curves()?))
        .section(Section::new("Sample predictions").content(Table::new(["source", "translation", ""]).row([
            "I saw a saw",
            "j'ai vu une scie",
            "✓",
        ])))
        .section(
            Section::new("Attention")
                .content(view(2, 4, 8).to_interactive()?)
                .content(view(1, 1, 20).to_interactive()?),
        )
        .section(Section::new("Confusion").content(scores()?))
        .section(Section::new("Configuration").content(Content::Code("[model]\nd_model = 128".to_string()))))
}
