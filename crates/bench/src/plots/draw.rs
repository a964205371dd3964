//! Drawing of charts as SVG by `plotters`.
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::plots::style::{GRID, INK, LIMIT, Style};
use crate::plots::words::short;
use esker_types::{Error, ErrorKind, Result};
use minijinja::HtmlEscape;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Width of every figure in pixels.
pub(crate) const WIDTH: u32 = 860;

/// Size of text, which `plotters` multiplies by 1.24 to get pixels.
pub(crate) const TEXT: f64 = 15.0;
const TITLE_TEXT: f64 = 18.0;
const TITLE_HEIGHT: u32 = 30;
const PANEL_HEIGHT: u32 = 300;
/// Width of a letter, to keep labels from overlapping.
const LETTER: f64 = 6.7;
const LEGEND_ROW: i32 = 20;
const LEGEND_KEY: i32 = 34;
/// Share of a category that its bars take, and the widest bar in pixels.
const FILLED: f64 = 0.8;
const BAR_WIDTH_MAX: f64 = 46.0;
/// Size of numbers above bars, as a share of other text.
const NUMBER_SIZE: f64 = 0.85;
/// Pixels between a bar and its number.
const NUMBER_RISE: i32 = 3;
/// If the least value is below this share of the greatest, the vertical axis is logarithmic: on a linear one, the point
/// would lie at zero.
const LINEAR_MIN: f64 = 0.04;
/// Approximate number of labels of the vertical axis.
const LABELS: f64 = 6.0;
/// Text stays legible where a line crosses it.
const HALO: &str =
    "<style>text{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}</style>";

pub(crate) type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
pub(crate) type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Plane<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Scale, Scale>>;

/// An axis that is labelled at given values.
pub(crate) struct Scale {
    /// Lowest and highest value.
    pub(crate) range: Range<f64>,
    /// Labelled values.
    pub(crate) ticks: Vec<f64>,
    /// True for a logarithmic axis.
    pub(crate) is_log: bool,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let place = |value: f64| if self.is_log { value.max(self.range.start).ln() } else { value };
        let (low, high) = (place(self.range.start), place(self.range.end));
        from + ((place(*value) - low) / (high - low) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl Scale {
    /// Vertical axis that shows all these values: logarithmic if the smallest is far below the largest, otherwise
    /// linear from zero. Values that are not positive are ignored.
    fn for_values(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let ends = positive.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = ends.unwrap_or((1.0, 1.0));
        match low < LINEAR_MIN * high {
            true => {
                let range = low / 2.0..high * 1.8;
                Self { ticks: log_ticks(&range), range, is_log: true }
            }
            false => {
                let range = 0.0..high * 1.1;
                Self { ticks: linear_ticks(range.end), range, is_log: false }
            }
        }
    }

    /// The horizontal axis of a chart, with half a category or a little room at either end.
    fn horizontal(chart: &Chart) -> Self {
        let is_log = chart.axis == Axis::Log;
        let place = |x: f64| if is_log { x.ln() } else { x };
        let value = |place: f64| if is_log { place.exp() } else { place };
        let end = |tick: Option<&(f64, String)>| place(tick.map_or(1.0, |(x, _)| *x));
        let (first, last) = (end(chart.ticks.first()), end(chart.ticks.last()));
        let is_wide = chart.axis == Axis::Categories || first == last;
        let room = if is_wide { 0.5 } else { (last - first) * 0.04 };
        let ticks = chart.ticks.iter().map(|(x, _)| *x).collect();
        Self { range: value(first - room)..value(last + room), ticks, is_log }
    }
}

/// The greatest power of ten that is not above `number`.
fn power_below(number: f64) -> f64 {
    10f64.powf(number.log10().floor())
}

/// Marks of a linear axis from 0 to `high`: multiples of 1, 2 or 5 times a power of ten, about [`LABELS`] of them.
fn linear_ticks(high: f64) -> Vec<f64> {
    let rough = high / LABELS;
    let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power_below(rough));
    let step = round.into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..).map(|index| f64::from(index) * step).take_while(|at| *at <= high).collect()
}

/// Marks of a logarithmic axis: 1, 2 and 5 times each power of ten, or only the powers if there are many.
fn log_ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = (range.end / range.start).log10();
    let factors: &[f64] = if decades > LABELS / 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let lowest = power_below(range.start);
    let powers = (0..=decades.ceil() as i32).map(|index| lowest * 10f64.powi(index));
    let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
    all.filter(|value| range.contains(value)).collect()
}

impl Chart {
    /// The chart as an SVG document.
    pub(crate) fn svg(&self) -> Result<String> {
        let legend = self.legend();
        let legend_height = legend.last().map_or(0, |(_, (_, y))| y + LEGEND_ROW + 6);
        let height = TITLE_HEIGHT + legend_height.unsigned_abs() + PANEL_HEIGHT;
        svg(&self.title, height, |area| {
            let (keys, rest) = area.split_vertically(legend_height);
            for (series, place) in legend {
                self.draw_key(&keys, series, place)?;
            }
            let mut panels = self.panels();
            if panels.is_empty() {
                panels.push(("", Vec::new()));
            }
            let areas = rest.split_evenly((1, panels.len()));
            let mut panels = areas.iter().zip(&panels);
            panels.try_for_each(|(area, (title, series))| self.draw_panel(area, title, series))
        })
    }

    /// Entries of the legend, one for each label, with the position of each in pixels. A row that reaches the width of
    /// the figure is continued in the next one.
    fn legend(&self) -> Vec<(&Series, (i32, i32))> {
        let mut entries: Vec<(&Series, (i32, i32))> = Vec::new();
        let (mut x, mut y) = (12, 0);
        for series in &self.series {
            if entries.iter().any(|(known, _)| known.label == series.label) {
                continue;
            }
            let width = LEGEND_KEY + text_width(&series.label) as i32 + 22;
            if x > 12 && x + width > WIDTH as i32 {
                (x, y) = (12, y + LEGEND_ROW);
            }
            entries.push((series, (x, y)));
            x += width;
        }
        entries
    }

    /// Draws the entry of a series in the legend, and its name.
    fn draw_key(&self, area: &Area<'_>, series: &Series, (x, y): (i32, i32)) -> Drawn {
        let (middle, style) = (y + LEGEND_ROW / 2, series.style);
        if self.axis == Axis::Categories && style != LIMIT {
            let corners = [(x + 6, middle - 6), (x + 28, middle + 6)];
            bar(corners, style).iter().try_for_each(|part| area.draw(part))?;
        } else {
            area.draw(&line(vec![(x, middle), (x + 28, middle)], style))?;
            area.draw(&(EmptyElement::at((x + 14, middle)) + marker(style)))?;
        }
        let text = text_style(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        Ok(area.draw(&Text::new(series.label.clone(), (x + LEGEND_KEY, middle), text))?)
    }

    /// Draws a panel: axes, then each series.
    fn draw_panel(&self, area: &Area<'_>, title: &str, series: &[&Series]) -> Drawn {
        let x_axis = Scale::horizontal(self);
        let width = area.dim_in_pixel().0.saturating_sub(80);
        let names = self.labels_that_fit(&x_axis, width);
        let name = |x: &f64| {
            let tick = self.ticks.iter().position(|(tick, _)| tick == x);
            tick.map_or(String::new(), |index| names[index].clone())
        };
        let points = self.series.iter().flat_map(|series| &series.points);
        let y_axis = Scale::for_values(points.flat_map(|point| [point.y, point.high]));
        let category = f64::from(width) / (x_axis.range.end - x_axis.range.start);
        let mut plane = ChartBuilder::on(area)
            .caption(title, text_style(TEXT))
            .margin_right(14)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(x_axis, y_axis)?;
        plane
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .label_style(text_style(TEXT))
            .axis_desc_style(text_style(TEXT))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(&name)
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        match self.axis {
            Axis::Categories => draw_bars(&mut plane, series, category),
            _ => series.iter().rev().try_for_each(|series| draw_line(&mut plane, series)),
        }
    }

    /// Labels of the horizontal axis. A label that would overlap the one before it is blank.
    fn labels_that_fit(&self, axis: &Scale, width: u32) -> Vec<String> {
        let mut free_from = f64::NEG_INFINITY;
        let label = |(x, name): &(f64, String)| {
            let place = f64::from(axis.map(x, (0, width as i32)));
            let half = text_width(name) / 2.0;
            if place - half < free_from {
                return String::new();
            }
            free_from = place + half + LETTER;
            name.clone()
        };
        self.ticks.iter().map(label).collect()
    }
}

/// Draws a series as a line with markers and whiskers.
fn draw_line(plane: &mut Plane<'_, '_>, series: &Series) -> Drawn {
    let (style, points) = (series.style, &series.points);
    plane.draw_series([line(points.iter().map(|point| (point.x, point.y)).collect(), style)])?;
    let spread = points.iter().filter(|point| style != LIMIT && point.high > point.low);
    plane.draw_series(spread.map(|point| whisker(point.x, point, style.colour)))?;
    let at = |point: &Point| EmptyElement::at((point.x, point.y)) + marker(style);
    plane.draw_series(points.iter().map(at))?;
    Ok(())
}

/// Bars of all series of a panel; the limit is a line across each category. Numbers are above all of them, if they fit,
/// and above the line where it would cross them.
/// `category` is the width of a category in pixels.
fn draw_bars(plane: &mut Plane<'_, '_>, series: &[&Series], category: f64) -> Drawn {
    let (bars, limits): (Vec<&Series>, Vec<&Series>) =
        series.iter().partition(|one| one.style != LIMIT);
    let width = (FILLED / bars.len().max(1) as f64).min(BAR_WIDTH_MAX / category);
    let floor = plane.y_range().start;
    let mut numbers = Vec::new();
    for (index, series) in bars.iter().enumerate() {
        let beside = (index as f64 + 0.5 - bars.len() as f64 / 2.0) * width;
        for point in &series.points {
            let (middle, half) = (point.x + beside, width * 0.46);
            plane.draw_series(bar(
                [(middle - half, floor), (middle + half, point.y)],
                series.style,
            ))?;
            if point.high > point.low {
                plane.draw_series([whisker(middle, point, INK)])?;
            }
            numbers.push(((middle, point.high.max(point.y)), short(point.y)));
        }
    }
    let across =
        |point: &Point| line(vec![(point.x - 0.46, point.y), (point.x + 0.46, point.y)], LIMIT);
    plane.draw_series(limits.iter().flat_map(|series| &series.points).map(across))?;
    if numbers.iter().all(|(_, text)| text_width(text) * NUMBER_SIZE <= width * category) {
        let style = text_style(TEXT * NUMBER_SIZE).pos(Pos::new(HPos::Center, VPos::Bottom));
        let limits: Vec<&Point> = limits.iter().flat_map(|series| &series.points).collect();
        let rises: Vec<i32> =
            numbers.iter().map(|(place, _)| above_lines(plane, *place, &limits)).collect();
        let labels = numbers.into_iter().zip(rises).map(|((place, text), rise)| {
            EmptyElement::at(place) + Text::new(text, (0, -rise), style.clone())
        });
        plane.draw_series(labels)?;
    }
    Ok(())
}

/// Pixels by which the number of a bar is raised above the bar's end, so that no line of a limit crosses the number.
fn above_lines(plane: &Plane<'_, '_>, place: (f64, f64), limits: &[&Point]) -> i32 {
    let height = (TEXT * NUMBER_SIZE) as i32 + NUMBER_RISE;
    let over = |point: &&&Point| {
        plane.backend_coord(&place).1 - plane.backend_coord(&(point.x, point.y)).1
    };
    let crosses = |rise: &i32| (0..=height).contains(rise);
    let beside = |point: &&&Point| (point.x - place.0).abs() < 0.5;
    let highest = limits.iter().filter(beside).map(|point| over(&point)).filter(crosses).max();
    highest.unwrap_or(0) + NUMBER_RISE
}

/// A bar: its filling and its outline.
fn bar<P: Copy>(corners: [P; 2], style: Style) -> [Rectangle<P>; 2] {
    let filling = style.colour.mix(style.density()).filled();
    [Rectangle::new(corners, filling), Rectangle::new(corners, style.colour)]
}

/// A line in the style of a series.
fn line<P: Copy>(places: Vec<P>, style: Style) -> DashedPathElement<std::vec::IntoIter<P>, u32> {
    let (dash, gap) = style.dashes();
    // A solid line is one dash, longer than any line of the figure.
    let (dash, gap) = if dash == 0 { (100 * WIDTH, 1) } else { (dash, gap) };
    DashedPathElement::new(places, dash, gap, style.colour.stroke_width(2))
}

fn marker(style: Style) -> Polygon<(i32, i32)> {
    Polygon::new(style.marker(), style.colour.filled())
}

/// The range of a point as a vertical line.
fn whisker(
    x: f64,
    point: &Point,
    colour: RGBColor,
) -> ErrorBar<f64, f64, plotters::element::ErrorBarOrientV<f64, f64>> {
    ErrorBar::new_vertical(x, point.low, point.y, point.high, colour, 8)
}

pub(crate) fn text_style(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// Estimated width of a text in pixels.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// An SVG document of this height with its title; `draw` draws below the title.
pub(crate) fn svg(
    title: &str,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String> {
    let mut text = String::new();
    drawn(&mut text, title, height, draw)
        .map_err(|error| Error::new(ErrorKind::Invalid, format!("drawing {title:?}: {error}")))?;
    // The first `>` ends the start tag of the document: the title for screen readers follows it.
    let named = format!(" role=\"img\"><title>{}</title>{HALO}", HtmlEscape(title));
    Ok(crate::plots::page::legible(&text.replacen('>', &named, 1)))
}

/// Draws a figure with its title above.
fn drawn(
    text: &mut String,
    title: &str,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Drawn {
    let whole = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    whole.fill(&WHITE)?;
    let (top, rest) = whole.split_vertically(TITLE_HEIGHT);
    // The greatest size at which the title fits, by the mean width of a letter.
    let fitting = f64::from(WIDTH - 24) / (title.chars().count().max(1) as f64 * 0.57) * 1.24;
    let style = text_style(fitting.clamp(TEXT * 0.7, TITLE_TEXT));
    top.draw(&Text::new(title.to_owned(), (12, 8), style))?;
    draw(&rest)?;
    Ok(whole.present()?)
}
