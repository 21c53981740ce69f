//! Tables and figures of class scores, for reports.

use regard_figures::{Content, Figure, FigureError, Table, confusion_matrix, number};

use super::{Confusion, Score};

/// Maximum number of classes in a confusion matrix.
const MOST_SHOWN: usize = 40;

/// Builds a table with the scores of each class; `what` names a class, such as `tag`.
pub fn score_table<'n>(what: &str, rows: impl IntoIterator<Item = (&'n str, Score)>) -> Content {
    let mut table = Table::new([what, "precision", "recall", "F1", "number"]);
    for (name, score) in rows {
        let [precision, recall, f1] = [score.precision, score.recall, score.f1].map(|value| number(value, 4));
        table.push([name.to_string(), precision, recall, f1, score.support.to_string()]);
    }
    Content::Table(table)
}

/// Draws the confusion matrix of the most frequent classes; `what` names them, such as `tags`.
pub fn confusion_figure(what: &str, confusion: &Confusion, names: &[&str]) -> Result<Content, FigureError> {
    let totals = confusion.totals();
    let mut shown: Vec<usize> = (0..names.len()).filter(|&class| totals[class] > 0).collect();
    shown.sort_by_key(|&class| std::cmp::Reverse(totals[class]));
    let left_out = shown.len().saturating_sub(MOST_SHOWN);
    shown.truncate(MOST_SHOWN);
    shown.sort_unstable();
    let cells: Vec<u64> =
        shown.iter().flat_map(|&row| shown.iter().map(move |&column| confusion.count(row, column))).collect();
    let panel = confusion_matrix(shown.iter().map(|&class| names[class]), &cells)?;
    let figure = Figure::new(format!("Confusion matrix of {what}")).panel("", panel);
    Ok(Content::Figure(match left_out {
        0 => figure,
        _ => figure.note(format!("The {MOST_SHOWN} most frequent {what}; {left_out} others are in the table.")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_of_many_classes_says_how_many_it_leaves_out() {
        let names: Vec<String> = (0..60).map(|tag| format!("T{tag}")).collect();
        let mut confusion = Confusion::new(60);
        (0..60).for_each(|tag| confusion.add(tag, tag));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let Content::Figure(figure) = confusion_figure("tags", &confusion, &names).unwrap() else { panic!("a figure") };
        assert!(figure.to_svg().contains("20 others"));
    }
}
