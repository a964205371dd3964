//! How series are told apart: by colour, by dashes and by markers, each enough by itself.
use super::svg::{Svg, number};
use std::fmt::Write;

/// The colours of Okabe and Ito, which people of every sort of colour vision tell apart; yellow is
/// left out, for it cannot be seen on paper. Light and dark.
const COLOURS: [(&str, &str); 7] = [
    ("#0072b2", "#4fb0ee"),
    ("#d55e00", "#ff8a3d"),
    ("#009e73", "#2ecfa0"),
    ("#cc79a7", "#e6a3c8"),
    ("#e69f00", "#f0b840"),
    ("#56b4e9", "#9bd6f7"),
    ("#1a1a1a", "#f2f2f2"),
];
const DASHES: [&str; 7] = ["none", "8 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2", "1 2"];
const GREY: (&str, &str) = ("#6b6b6b", "#a8a8a8");

/// How one series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style(usize);

/// That of what the medium gives: a grey line without markers.
pub const LIMIT: Style = Style(usize::MAX);

impl Style {
    /// The style of the how many-th series, from 0. Beyond seven colours come again with other
    /// dashes and markers.
    #[must_use]
    pub fn of(index: usize) -> Self {
        Self(index % (COLOURS.len() * COLOURS.len()))
    }

    /// Class that a page may give another colour.
    #[must_use]
    pub fn class(self) -> String {
        if self == LIMIT { "limit".to_owned() } else { format!("s{}", self.0 % COLOURS.len()) }
    }

    /// Colour on white paper.
    #[must_use]
    pub fn colour(self) -> &'static str {
        if self == LIMIT { GREY.0 } else { COLOURS[self.0 % COLOURS.len()].0 }
    }

    /// Dashes of a line.
    #[must_use]
    pub fn dashes(self) -> &'static str {
        if self == LIMIT { "4 4" } else { DASHES[self.turned()] }
    }

    fn turned(self) -> usize {
        (self.0 + self.0 / COLOURS.len()) % DASHES.len()
    }

    /// Draws its marker around a place.
    pub(super) fn marker(self, svg: &mut Svg, (x, y): (f64, f64)) {
        if self == LIMIT {
            return;
        }
        let (class, colour) = (self.class(), self.colour());
        let path = marker_path(self.turned(), x, y);
        svg.element(
            "path",
            &[("class", &format!("{class} mark")), ("fill", &colour), ("d", &path)],
        );
    }
}

/// Circle, square, triangle, diamond, triangle on its head, cross, star of four.
fn marker_path(shape: usize, x: f64, y: f64) -> String {
    const R: f64 = 4.2;
    let polygon = |corners: &[(f64, f64)]| {
        let mut path = String::new();
        for (index, (dx, dy)) in corners.iter().enumerate() {
            let letter = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", number(x + dx * R), number(y + dy * R));
        }
        path + "Z"
    };
    match shape {
        0 => format!(
            "M{} {}a{R} {R} 0 1 0 {} 0a{R} {R} 0 1 0 {} 0Z",
            number(x - R),
            number(y),
            2.0 * R,
            -2.0 * R
        ),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.15), (1.1, 0.9), (-1.1, 0.9)]),
        3 => polygon(&[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)]),
        4 => polygon(&[(0.0, 1.15), (1.1, -0.9), (-1.1, -0.9)]),
        5 => polygon(&PLUS),
        _ => polygon(&[
            (0.0, -1.4),
            (0.35, -0.35),
            (1.4, 0.0),
            (0.35, 0.35),
            (0.0, 1.4),
            (-0.35, 0.35),
            (-1.4, 0.0),
            (-0.35, -0.35),
        ]),
    }
}

const PLUS: [(f64, f64); 12] = [
    (-0.4, -1.2),
    (0.4, -1.2),
    (0.4, -0.4),
    (1.2, -0.4),
    (1.2, 0.4),
    (0.4, 0.4),
    (0.4, 1.2),
    (-0.4, 1.2),
    (-0.4, 0.4),
    (-1.2, 0.4),
    (-1.2, -0.4),
    (-0.4, -0.4),
];

/// Gives each label a style of its own, the same in all plots.
#[derive(Clone, Debug, Default)]
pub struct Palette(Vec<String>);

impl Palette {
    /// The style of a label.
    pub fn style(&mut self, label: &str) -> Style {
        let known = self.0.iter().position(|name| name == label);
        Style::of(known.unwrap_or_else(|| {
            self.0.push(label.to_owned());
            self.0.len() - 1
        }))
    }
}

/// Rules of a style sheet for dark surroundings; each selector begins with `scope`.
#[must_use]
pub fn css(scope: &str) -> String {
    let mut css = String::new();
    let mut rule = |class: &str, property: &str, colour: &str| {
        let _ = writeln!(css, "{scope} .{class} {{ {property}: {colour}; }}");
    };
    rule("paper", "fill", "#161a1f");
    rule("ink", "fill", "#e8e8e8");
    rule("axis", "stroke", "#b0b0b0");
    rule("grid", "stroke", "#363c44");
    rule("gap", "stroke", "#161a1f");
    let limit = ("limit".to_owned(), GREY.1);
    let colours = COLOURS.iter().enumerate().map(|(index, (_, dark))| (format!("s{index}"), *dark));
    for (class, colour) in colours.chain([limit]) {
        rule(&format!("{class}.mark"), "fill", colour);
        rule(&format!("{class}.stroke"), "stroke", colour);
    }
    css
}
