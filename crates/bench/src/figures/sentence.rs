//! What a chart shows, in words.
use super::sweep::{Unit, with_unit};
use crate::plot::{Chart, LIMIT, Mark, Panel, Point, Series};

/// Whiskers are spoken of where they are at least this share of a value.
const SPREAD_MIN: f64 = 0.02;

/// Where each panel is highest, how that line went, and how to read it. `places` are the names of
/// places on the horizontal axis.
pub(super) fn of(chart: &Chart, unit: Unit, places: &[(f64, String)]) -> String {
    let mut sentences: Vec<_> =
        chart.panels.iter().filter_map(|panel| highest(chart, panel, unit, places)).collect();
    if series(chart).any(|series| series.style != LIMIT && series.points.iter().any(has_spread)) {
        sentences.push("Values are means; whiskers go from the least to the greatest.".to_owned());
    }
    if series(chart).any(|series| series.style == LIMIT) {
        sentences
            .push("The dashed grey line is what the medium gave the same processes.".to_owned());
    }
    sentences.join(" ")
}

fn series(chart: &Chart) -> impl Iterator<Item = &Series> {
    chart.panels.iter().flat_map(|panel| &panel.series)
}

fn has_spread(point: &Point) -> bool {
    point.high - point.low > SPREAD_MIN * point.y
}

fn highest(chart: &Chart, panel: &Panel, unit: Unit, places: &[(f64, String)]) -> Option<String> {
    let measured = panel.series.iter().filter(|series| series.style != LIMIT);
    let points = measured.flat_map(|series| series.points.iter().map(move |point| (series, point)));
    let (series, best) = points.max_by(|one, other| one.1.y.total_cmp(&other.1.y))?;
    let name = |point: &Point| {
        places.iter().find(|(place, _)| *place == point.x).map_or("", |(_, name)| name.as_str())
    };
    let title = capital(&panel.title);
    let at =
        format!("{title}: highest {} ({}, {})", with_unit(best.y, unit), series.label, name(best));
    let (first, last) = (series.points.first()?, series.points.last()?);
    if chart.mark == Mark::Bars || first.x == last.x || first.y <= 0.0 {
        return Some(format!("{at}."));
    }
    let times = last.y / first.y;
    Some(format!("{at}; {times:.2} times as much at {} as at {}.", name(last), name(first)))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
