//! Elements of SVG as text.
use std::fmt::{Display, Write};

/// Attributes of an element, by name.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

/// A document that is being written. Whatever is put in is escaped.
#[derive(Clone, Debug, Default)]
pub struct Svg {
    text: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// A document of this size, with a title for those who cannot see it.
    #[must_use]
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self::default();
        let view = format!("0 0 {} {}", number(width), number(height));
        svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("class", &"plot"),
                ("viewBox", &view),
                ("width", &number(width)),
                ("height", &number(height)),
                ("role", &"img"),
                ("font-family", &"system-ui, Helvetica, Arial, sans-serif"),
                ("font-size", &"12"),
            ],
        );
        svg.open("title", &[]);
        svg.text.push_str(&escape(title));
        svg.close();
        let (width, height) = (number(width), number(height));
        svg.element(
            "rect",
            &[("class", &"paper"), ("width", &width), ("height", &height), ("fill", &"#ffffff")],
        );
        svg
    }

    /// An element without content.
    pub fn element(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.start(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Opens an element; [`Svg::close`] closes it.
    pub fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.start(name, attributes);
        self.text.push('>');
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            let _ = writeln!(self.text, "</{name}>");
        }
    }

    /// The heading of a plot of this width, in letters that let it fit.
    pub(super) fn heading(&mut self, width: f64, heading: &str) {
        let fitting = (width - 24.0) / (heading.chars().count().max(1) as f64 * 0.57);
        let size = number(fitting.clamp(9.0, 15.0));
        self.words_with(
            12.0,
            20.0,
            "start",
            heading,
            &[("font-size", &size), ("font-weight", &"600")],
        );
    }

    /// Words at a place; `anchor` is `start`, `middle` or `end`.
    pub fn words(&mut self, x: f64, y: f64, anchor: &str, words: &str) {
        self.words_with(x, y, anchor, words, &[]);
    }

    /// The same with more attributes.
    pub fn words_with(&mut self, x: f64, y: f64, anchor: &str, words: &str, more: Attributes<'_>) {
        let (x, y) = (number(x), number(y));
        let mut attributes: Vec<(&str, &dyn Display)> =
            vec![("class", &"ink"), ("fill", &"#1a1a1a"), ("x", &x), ("y", &y)];
        attributes.push(("text-anchor", &anchor));
        attributes.extend_from_slice(more);
        self.open("text", &attributes);
        self.text.push_str(&escape(words));
        self.close();
    }

    /// A straight line of class `class`.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let colour = if class == "grid" { "#dddddd" } else { "#1a1a1a" };
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        self.element(
            "line",
            &[
                ("class", &class),
                ("stroke", &colour),
                ("x1", &x1),
                ("y1", &y1),
                ("x2", &x2),
                ("y2", &y2),
            ],
        );
    }

    /// The document, all elements closed.
    #[must_use]
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn start(&mut self, name: &str, attributes: Attributes<'_>) {
        let _ = write!(self.text, "<{name}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"{}\"", escape(&value.to_string()));
        }
    }
}

/// Text that XML and HTML take as it is: markup escaped, characters that XML forbids replaced.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A coordinate with at most two places, which is finer than any screen.
pub(super) fn number(value: f64) -> String {
    let text = format!("{:.2}", if value.is_finite() { value } else { 0.0 });
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
