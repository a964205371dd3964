//! Bars beside each other, told apart by colour and by hatching.
use super::chart::Point;
use super::frame::Frame;
use super::lines::whisker;
use super::scale::short;
use super::style::{LIMIT, Style};
use super::svg::{Svg, number};

/// Share of a band that its bars take.
const FILLED: f64 = 0.8;
const BAR_WIDTH_MAX: f64 = 46.0;
/// Figures above bars need this much width.
const FIGURE_WIDTH: f64 = 26.0;

/// Name under which the filling of a series is defined.
pub(super) fn pattern_id(id: &str, index: usize) -> String {
    format!("{id}-fill{index}")
}

/// Defines the filling of each label.
pub(super) fn patterns(svg: &mut Svg, id: &str, labels: &[(String, Style)]) {
    svg.open("defs", &[]);
    for (index, (_, style)) in labels.iter().enumerate() {
        pattern(svg, &pattern_id(id, index), *style, index);
    }
    svg.close();
}

fn pattern(svg: &mut Svg, id: &str, style: Style, index: usize) {
    let turn = format!("rotate({})", [0, 45, -45, 90, 0, 45, 90][index % 7]);
    svg.open(
        "pattern",
        &[
            ("id", &id),
            ("width", &"7"),
            ("height", &"7"),
            ("patternUnits", &"userSpaceOnUse"),
            ("patternTransform", &turn),
        ],
    );
    let class = format!("{} mark", style.class());
    svg.element(
        "rect",
        &[("class", &class), ("width", &"7"), ("height", &"7"), ("fill", &style.colour())],
    );
    if !index.is_multiple_of(7) {
        svg.element(
            "line",
            &[
                ("class", &"gap"),
                ("x1", &"0"),
                ("y1", &"0"),
                ("x2", &"0"),
                ("y2", &"7"),
                ("stroke", &"#ffffff"),
                ("stroke-width", &"2.4"),
            ],
        );
    }
    svg.close();
}

/// Draws all series of a panel.
pub(super) fn draw(svg: &mut Svg, frame: &Frame<'_>, id: &str) {
    let bars: Vec<_> =
        frame.panel.series.iter().filter(|series| series.style != LIMIT).enumerate().collect();
    let width = (frame.band() * FILLED / bars.len().max(1) as f64).min(BAR_WIDTH_MAX);
    for (index, series) in &bars {
        let shift = (*index as f64 - bars.len() as f64 / 2.0) * width;
        for point in &series.points {
            let left = frame.x().place(point.x) + shift;
            bar(svg, frame, point, (left, width), &pattern_id(id, *index), series.style);
        }
    }
    limits(svg, frame);
}

fn bar(
    svg: &mut Svg,
    frame: &Frame<'_>,
    point: &Point,
    (left, width): (f64, f64),
    pattern: &str,
    style: Style,
) {
    let top = frame.y().place(point.y);
    let inner = (width - 2.0).max(1.0);
    svg.element(
        "rect",
        &[
            ("class", &format!("{} stroke", style.class())),
            ("x", &number(left + 1.0)),
            ("y", &number(top)),
            ("width", &number(inner)),
            ("height", &number((frame.bottom() - top).max(0.0))),
            ("fill", &format!("url(#{pattern})")),
            ("stroke", &style.colour()),
        ],
    );
    let (low, high) = (frame.y().place(point.low), frame.y().place(point.high));
    let middle = left + width / 2.0;
    if low - high > 2.0 {
        whisker(svg, "axis", "#1a1a1a", (middle, low, high));
    }
    if width >= FIGURE_WIDTH {
        let above = top.min(high) - 5.0;
        svg.words_with(middle, above, "middle", &short(point.y), &[("font-size", &"10.5")]);
    }
}

/// The limit is a line across the band.
fn limits(svg: &mut Svg, frame: &Frame<'_>) {
    let limits = frame.panel.series.iter().filter(|series| series.style == LIMIT);
    for point in limits.flat_map(|series| &series.points) {
        let (x, y) = (frame.x().place(point.x), frame.y().place(point.y));
        let half = frame.band() * 0.46;
        svg.element(
            "line",
            &[
                ("class", &"limit stroke"),
                ("x1", &number(x - half)),
                ("x2", &number(x + half)),
                ("y1", &number(y)),
                ("y2", &number(y)),
                ("stroke", &LIMIT.colour()),
                ("stroke-width", &"1.8"),
                ("stroke-dasharray", &LIMIT.dashes()),
            ],
        );
    }
}
