//! Tables as text.

/// Rows of cells under headings. Columns are as wide as their widest cell.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings, which `|` separates. A column whose heading begins with `>` is aligned right.
    #[must_use]
    pub fn new(headings: &str) -> Self {
        let right = headings.split('|').map(|heading| heading.starts_with('>')).collect();
        let bare = headings.split('|').map(|heading| heading.trim_start_matches('>').to_owned());
        Self { rows: vec![bare.collect()], right }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// True if the table has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, &width))| {
            match self.right.get(column) {
                Some(true) => format!("{cell:>width$}"),
                _ => format!("{cell:<width$}"),
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let widths: Vec<_> = (0..self.right.len()).map(|column| self.width(column)).collect();
        let lines = self.rows.iter().map(|row| self.line(row, &widths));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The text of a cell, `-` for an empty one.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("name|>size");
        assert!(table.is_empty());
        table.row(["a".to_owned(), "10".to_owned()]);
        table.row(["longer".to_owned(), "1000000".to_owned()]);
        assert_eq!(table.to_string(), "name       size\na            10\nlonger  1000000");
    }
}
