//! Elements of XHTML as text.
use crate::plot::escape;

/// A document that is being written. Whatever is put in is escaped, but for [`Html::raw`].
#[derive(Debug)]
pub struct Html {
    text: String,
    open: Vec<&'static str>,
}

/// Attributes of an element, by name.
type Attributes<'a> = &'a [(&'a str, &'a str)];

impl Html {
    /// The beginning of a document, up to its head.
    pub(super) fn document(title: &str) -> Self {
        let mut html = Self { text: "<!DOCTYPE html>\n".to_owned(), open: Vec::new() };
        html.open("html", &[("xmlns", "http://www.w3.org/1999/xhtml"), ("lang", "en")]);
        html.open("head", &[]);
        html.text.push_str("<meta charset=\"utf-8\"/>\n");
        html.text.push_str(
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
        );
        html.leaf("title", &[], title);
        html
    }

    /// A style sheet, which has nothing that would be markup.
    pub(super) fn style(&mut self, css: &str) {
        self.text.push_str(&format!("<style>\n{css}</style>\n"));
    }

    /// A script, which has nothing that would be markup.
    pub(super) fn script(&mut self, script: &str) {
        self.text.push_str(&format!("<script>\n{script}</script>\n"));
    }

    /// Ends the head and begins the body.
    pub(super) fn body(&mut self) {
        self.close();
        self.open("body", &[]);
    }

    /// Opens an element; [`Html::close`] closes it.
    pub(crate) fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.start(name, attributes);
        self.text.push('\n');
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub(crate) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.text.push_str(&format!("</{name}>\n"));
        }
    }

    /// An element with nothing but text in it.
    pub(crate) fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.start(name, attributes);
        self.text.push_str(&format!("{}</{name}>\n", escape(text)));
    }

    /// Markup as it is.
    pub(super) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// A table; a column whose heading begins with `>` has numbers. Columns without anything in them
    /// are left out.
    pub(crate) fn table(&mut self, caption: &str, headings: &[&str], rows: &[Vec<String>]) {
        let is_used = |column: &usize| {
            let mut cells = rows.iter().filter_map(|row| row.get(*column));
            cells.any(|cell| !cell.is_empty() && cell != "-")
        };
        let columns: Vec<_> = (0..headings.len()).filter(is_used).collect();
        let class = |index: usize| match headings.get(index) {
            Some(heading) if heading.starts_with('>') => "n",
            _ => "t",
        };
        self.open("div", &[("class", "scroll")]);
        self.open("table", &[]);
        self.leaf("caption", &[], caption);
        self.open("thead", &[]);
        self.open("tr", &[]);
        for &index in &columns {
            let heading = headings[index];
            self.leaf(
                "th",
                &[("scope", "col"), ("class", class(index))],
                heading.trim_start_matches('>'),
            );
        }
        self.close();
        self.close();
        self.open("tbody", &[]);
        for row in rows {
            self.open("tr", &[]);
            for &index in columns.iter().filter(|index| **index < row.len()) {
                self.leaf("td", &[("class", class(index))], &row[index]);
            }
            self.close();
        }
        (0..3).for_each(|_| self.close());
    }

    /// Names and what they stand for.
    pub(crate) fn list(&mut self, entries: &[(String, String)]) {
        self.open("dl", &[]);
        for (name, value) in entries {
            self.leaf("dt", &[], name);
            self.leaf("dd", &[], value);
        }
        self.close();
    }

    /// The document, all elements closed.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn start(&mut self, name: &str, attributes: Attributes<'_>) {
        self.text.push_str(&format!("<{name}"));
        for (name, value) in attributes {
            self.text.push_str(&format!(" {name}=\"{}\"", escape(value)));
        }
        self.text.push('>');
    }
}
