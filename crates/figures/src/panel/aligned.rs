//! Tables as plain text, for a terminal.

use super::Table;

impl Table {
    /// Returns the table as lines of text with aligned columns: words on the left, numbers on the right.
    pub fn to_text(&self) -> String {
        let numeric = self.numeric_columns();
        let lines = || std::iter::once(self.header()).chain(self.rows().iter().map(Vec::as_slice));
        let widths: Vec<usize> =
            (0..numeric.len()).map(|column| lines().map(|cells| wide(&cells[column])).max().unwrap_or(0)).collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).zip(&numeric).map(|((cell, &width), &is_number)| {
                let gap = " ".repeat(width - wide(cell));
                if is_number { gap + cell } else { cell.clone() + &gap }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string() + "\n"
        };
        lines().map(line).collect()
    }
}

/// Returns the width of a cell in terminal columns. A combining accent takes none.
fn wide(cell: &str) -> usize {
    cell.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_on_the_right() {
        let table = Table::new(["what", "n²"]).row(["a", "10"]).row(["long name", "1.5"]);
        assert_eq!(table.to_text(), "what        n²\na           10\nlong name  1.5\n");
        assert_eq!(Table::new(["c̃"]).row(["10"]).to_text(), " c̃\n10\n");
    }
}
