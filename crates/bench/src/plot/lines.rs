//! Markers joined by lines, with whiskers from the least to the greatest measurement.
use super::chart::{Point, Series};
use super::frame::Frame;
use super::style::LIMIT;
use super::svg::{Svg, number};

/// Whiskers shorter than this are hidden by their marker.
const WHISKER_MIN: f64 = 4.0;

/// Draws all series of a panel, the first one on top.
pub(super) fn draw(svg: &mut Svg, frame: &Frame<'_>) {
    for series in frame.panel.series.iter().rev() {
        draw_line(svg, frame, series);
        for point in &series.points {
            draw_whisker(svg, frame, series, point);
            series.style.marker(svg, place(frame, point));
        }
    }
}

fn place(frame: &Frame<'_>, point: &Point) -> (f64, f64) {
    (frame.x().place(point.x), frame.y().place(point.y))
}

fn draw_line(svg: &mut Svg, frame: &Frame<'_>, series: &Series) {
    let places = series.points.iter().map(|point| place(frame, point));
    let path = path(places);
    if path.is_empty() {
        return;
    }
    let class = format!("{} stroke", series.style.class());
    let width = if series.style == LIMIT { "1.5" } else { "2" };
    svg.element(
        "path",
        &[
            ("class", &class),
            ("d", &path),
            ("fill", &"none"),
            ("stroke", &series.style.colour()),
            ("stroke-width", &width),
            ("stroke-dasharray", &series.style.dashes()),
        ],
    );
}

/// The path through these places; empty where there are none.
pub(super) fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let steps = places.enumerate().map(|(index, (x, y))| {
        let letter = if index == 0 { 'M' } else { 'L' };
        format!("{letter}{} {}", number(x), number(y))
    });
    steps.collect()
}

fn draw_whisker(svg: &mut Svg, frame: &Frame<'_>, series: &Series, point: &Point) {
    let (x, scale) = (frame.x().place(point.x), frame.y());
    let (low, high) = (scale.place(point.low), scale.place(point.high));
    if low - high < WHISKER_MIN || series.style == LIMIT {
        return;
    }
    whisker(svg, &series.style.class(), series.style.colour(), (x, low, high));
}

/// A line between two heights, with a short line across each end.
pub(super) fn whisker(svg: &mut Svg, class: &str, colour: &str, (x, low, high): (f64, f64, f64)) {
    let class = format!("{class} stroke");
    let [left, right] = [x - 4.0, x + 4.0].map(number);
    let [x, low, high] = [x, low, high].map(number);
    let path =
        format!("M{x} {low}L{x} {high}M{left} {low}L{right} {low}M{left} {high}L{right} {high}");
    svg.element("path", &[("class", &class), ("d", &path), ("fill", &"none"), ("stroke", &colour)]);
}
