//! What the lines and bars of a chart stand for.
use super::WIDTH;
use super::bars::pattern_id;
use super::chart::Mark;
use super::style::{LIMIT, Style};
use super::svg::{Svg, number};

const ROW: f64 = 20.0;
const LETTER: f64 = 6.7;
const KEY: f64 = 34.0;
const GAP: f64 = 22.0;
const LEFT: f64 = 12.0;

/// Height of the legend; labels that do not fit go on in another row.
pub(super) fn height(labels: &[(String, Style)]) -> f64 {
    let last = places(labels).last().map_or(0.0, |(_, y)| *y);
    if labels.is_empty() { 0.0 } else { last + ROW + 6.0 }
}

fn places(labels: &[(String, Style)]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, 0.0);
    let mut places = Vec::with_capacity(labels.len());
    for (label, _) in labels {
        let width = KEY + label.chars().count() as f64 * LETTER + GAP;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + ROW);
        }
        places.push((x, y));
        x += width;
    }
    places
}

/// Draws the legend below `top`.
pub(super) fn draw(svg: &mut Svg, top: f64, labels: &[(String, Style)], mark: Mark, id: &str) {
    let placed = labels.iter().zip(places(labels));
    for (index, ((label, style), (x, y))) in placed.enumerate() {
        let middle = top + y + 10.0;
        match mark {
            Mark::Bars if *style != LIMIT => {
                swatch(svg, (x, middle), &pattern_id(id, index), *style)
            }
            _ => stroke(svg, (x, middle), *style),
        }
        svg.words(x + KEY, middle + 4.0, "start", label);
    }
}

fn stroke(svg: &mut Svg, (x, y): (f64, f64), style: Style) {
    svg.element(
        "line",
        &[
            ("class", &format!("{} stroke", style.class())),
            ("x1", &number(x)),
            ("x2", &number(x + KEY - 6.0)),
            ("y1", &number(y)),
            ("y2", &number(y)),
            ("stroke", &style.colour()),
            ("stroke-width", &"2"),
            ("stroke-dasharray", &style.dashes()),
        ],
    );
    style.marker(svg, (x + KEY / 2.0 - 3.0, y));
}

fn swatch(svg: &mut Svg, (x, y): (f64, f64), pattern: &str, style: Style) {
    svg.element(
        "rect",
        &[
            ("class", &format!("{} stroke", style.class())),
            ("x", &number(x + 6.0)),
            ("y", &number(y - 6.0)),
            ("width", &"22"),
            ("height", &"12"),
            ("fill", &format!("url(#{pattern})")),
            ("stroke", &style.colour()),
        ],
    );
}
