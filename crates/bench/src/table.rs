//! Tables as text.
pub(crate) use esker_cli::output::Table;

/// A table with these headings, which `|` separates. A column whose heading begins with `>` is aligned right.
pub(crate) fn new_table(headings: &str) -> Table {
    Table::new(&headings.split('|').collect::<Vec<_>>())
}

/// The text of a cell, `-` for an empty one.
pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}
