//! Charts of lines or bars: one or more panels side by side with one vertical axis, drawn by `plotters`.
use crate::plots::words::short;
use esker_types::{Error, ErrorKind, Result};
use minijinja::HtmlEscape;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Width of every figure in pixels.
pub const WIDTH: u32 = 860;

/// The colours of Okabe and Ito, which are distinguishable with any colour vision, without yellow, which is hard to see
/// on paper. The page's style sheet maps them to lighter ones for dark screens.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x1a, 0x1a, 0x1b),
];
pub(crate) const GREY: RGBColor = RGBColor(0x6b, 0x6b, 0x6b);
const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Corners of the markers: disc, square, triangle, diamond, triangle on its head, cross, hourglass.
const MARKERS: [&[(i32, i32)]; 7] = [
    &[(-4, -2), (-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
    &[
        (-2, -5),
        (2, -5),
        (2, -2),
        (5, -2),
        (5, 2),
        (2, 2),
        (2, 5),
        (-2, 5),
        (-2, 2),
        (-5, 2),
        (-5, -2),
        (-2, -2),
    ],
    &[(-5, -5), (5, -5), (-5, 5), (5, 5)],
];
/// Length of a dash and of the gap after it; none for a solid line.
const DASHES: [(u32, u32); 7] = [(0, 0), (8, 4), (2, 3), (14, 4), (5, 2), (3, 6), (10, 8)];
/// How densely bars are filled.
const DENSITIES: [f64; 3] = [1.0, 0.25, 0.6];

/// `plotters` multiplies the size of letters by 1.24.
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
/// Numbers above bars need this much width.
const NUMBER_WIDTH: f64 = 28.0;

pub(crate) type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
pub(crate) type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;
type Plane<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Ticked, RangedCoordf64>>;

/// A range of numbers that is labelled at given places.
pub(crate) struct Ticked {
    /// Lowest and highest value.
    pub(crate) range: Range<f64>,
    /// Positions of labels.
    pub(crate) ticks: Vec<f64>,
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Style of a series. The limit of the medium is a dashed grey line without markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    index: Option<usize>,
}

/// The style of the limit of the medium.
pub const LIMIT: Style = Style { index: None };

impl Style {
    /// The style of the n-th series, from 0. Beyond seven, colours return with other dashes and markers.
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self { index: Some(index) }
    }

    pub(crate) fn colour(self) -> RGBColor {
        self.index.map_or(GREY, |index| COLOURS[index % COLOURS.len()])
    }

    fn dashes(self) -> (u32, u32) {
        self.index.map_or((4, 4), |index| DASHES[turned(index)])
    }

    fn marker(self) -> &'static [(i32, i32)] {
        self.index.map_or(&[], |index| MARKERS[turned(index)])
    }

    fn density(self) -> f64 {
        self.index.map_or(0.0, |index| DENSITIES[turned(index) % DENSITIES.len()])
    }
}

fn turned(index: usize) -> usize {
    (index + index / COLOURS.len()) % COLOURS.len()
}

/// Gives each label a style of its own, the same in all charts.
#[derive(Clone, Debug, Default)]
pub struct Palette(Vec<String>);

impl Palette {
    /// The style of a label.
    pub fn style(&mut self, label: &str) -> Style {
        let known = self.0.iter().position(|name| name == label);
        Style::from_index(known.unwrap_or_else(|| {
            self.0.push(label.to_owned());
            self.0.len() - 1
        }))
    }
}

/// One measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Place on the horizontal axis: a value, or the number of a category.
    pub x: f64,
    /// The measured value.
    pub y: f64,
    /// The least of several measurements.
    pub low: f64,
    /// The greatest of several measurements.
    pub high: f64,
}

impl Point {
    /// A value that was measured once.
    #[must_use]
    pub fn single(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub label: String,
    /// Colour, markers and lines.
    pub style: Style,
    /// Values from left to right.
    pub points: Vec<Point>,
}

/// One pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Title above it.
    pub title: String,
    /// The series in it.
    pub series: Vec<Series>,
}

/// The kind of horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Numbers on a linear scale: markers joined by lines.
    Linear,
    /// Numbers on a logarithmic scale: markers joined by lines.
    Log,
    /// Names: bars beside each other.
    Categories,
}

/// A chart. The vertical axis begins at 0 and is the same for all panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Label of the vertical axis, with its unit.
    pub y_label: String,
    /// The kind of horizontal axis.
    pub axis: Axis,
    /// Positions on the horizontal axis and their labels, in rising order. Categories are numbered from 0.
    pub ticks: Vec<(f64, String)>,
    /// Panels from left to right.
    pub panels: Vec<Panel>,
}

impl Chart {
    /// The chart as an SVG document.
    ///
    /// # Errors
    /// If `plotters` refuses to draw it.
    pub fn svg(&self) -> Result<String> {
        let legend = self.legend();
        let legend_height = legend.last().map_or(0, |(_, _, (_, y))| y + LEGEND_ROW + 6);
        let height = TITLE_HEIGHT + legend_height.unsigned_abs() + PANEL_HEIGHT;
        svg(&self.title, height, |area| {
            let (keys, panels) = area.split_vertically(legend_height);
            for (label, style, place) in legend {
                self.draw_key(&keys, &label, style, place)?;
            }
            let areas = panels.split_evenly((1, self.panels.len().max(1)));
            areas
                .iter()
                .zip(&self.panels)
                .try_for_each(|(area, panel)| self.draw_panel(area, panel))
        })
    }

    /// All series of all panels.
    pub(crate) fn series(&self) -> impl Iterator<Item = &Series> {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    /// Each label once, with its place in rows that are as wide as the figure.
    fn legend(&self) -> Vec<(String, Style, (i32, i32))> {
        let mut entries: Vec<(String, Style, (i32, i32))> = Vec::new();
        let (mut x, mut y) = (12, 0);
        for series in self.series() {
            if entries.iter().any(|(label, ..)| *label == series.label) {
                continue;
            }
            let width = LEGEND_KEY + text_width(&series.label) as i32 + 22;
            if x > 12 && x + width > WIDTH as i32 {
                (x, y) = (12, y + LEGEND_ROW);
            }
            entries.push((series.label.clone(), series.style, (x, y)));
            x += width;
        }
        entries
    }

    fn draw_key(&self, area: &Area<'_>, label: &str, style: Style, (x, y): (i32, i32)) -> Drawn {
        let middle = y + LEGEND_ROW / 2;
        if self.axis == Axis::Categories && style != LIMIT {
            let corners = [(x + 6, middle - 6), (x + 28, middle + 6)];
            area.draw(&Rectangle::new(corners, style.colour().mix(style.density()).filled()))?;
            area.draw(&Rectangle::new(corners, style.colour()))?;
        } else {
            area.draw(&line(vec![(x, middle), (x + 28, middle)], style))?;
            area.draw(&(EmptyElement::at((x + 14, middle)) + marker(style)))?;
        }
        let text = text_style(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
        Ok(area.draw(&Text::new(label.to_owned(), (x + LEGEND_KEY, middle), text))?)
    }

    fn draw_panel(&self, area: &Area<'_>, panel: &Panel) -> Drawn {
        let (left, right) = self.range();
        let width = f64::from(area.dim_in_pixel().0) - 80.0;
        let ticks = self.labels_that_fit(width / (right - left));
        let places = ticks.iter().map(|(place, _)| *place).collect();
        let name = |place: &f64| {
            ticks
                .iter()
                .find(|(tick, _)| tick == place)
                .map_or(String::new(), |(_, name)| name.clone())
        };
        let mut plane = ChartBuilder::on(area)
            .caption(&panel.title, text_style(TEXT))
            .margin_right(14)
            .x_label_area_size(50)
            .y_label_area_size(66)
            .build_cartesian_2d(
                Ticked { range: left..right, ticks: places },
                0.0..self.greatest() * 1.08,
            )?;
        plane
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .y_labels(7)
            .label_style(text_style(TEXT))
            .axis_desc_style(text_style(TEXT))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_label_formatter(&name)
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        match self.axis {
            Axis::Categories => draw_bars(&mut plane, panel, width / (right - left)),
            _ => {
                panel.series.iter().rev().try_for_each(|series| self.draw_line(&mut plane, series))
            }
        }
    }

    fn greatest(&self) -> f64 {
        let points = self.series().flat_map(|series| &series.points);
        let greatest = points
            .map(|point| point.high.max(point.y))
            .filter(|y| y.is_finite())
            .fold(0.0, f64::max);
        if greatest > 0.0 { greatest } else { 1.0 }
    }

    /// Place of a value on the horizontal axis.
    fn place(&self, x: f64) -> f64 {
        if self.axis == Axis::Log { x.max(f64::MIN_POSITIVE).ln() } else { x }
    }

    /// Half a category, or a little room, at either end.
    fn range(&self) -> (f64, f64) {
        let end = |tick: Option<&(f64, String)>| tick.map_or(0.0, |(x, _)| self.place(*x));
        let (first, last) = (end(self.ticks.first()), end(self.ticks.last()));
        let room = if self.axis == Axis::Categories || first == last {
            0.5
        } else {
            (last - first) * 0.04
        };
        (first - room, last + room)
    }

    /// Labels of the horizontal axis. A label that would overlap the one before it is blank.
    fn labels_that_fit(&self, pixels: f64) -> Vec<(f64, String)> {
        let mut free_from = f64::NEG_INFINITY;
        let label = |(x, name): &(f64, String)| {
            let (place, half) = (self.place(*x), text_width(name) / 2.0);
            let fits = place * pixels - half >= free_from;
            free_from = if fits { place * pixels + half + LETTER } else { free_from };
            (place, if fits { name.clone() } else { String::new() })
        };
        self.ticks.iter().map(label).collect()
    }

    fn draw_line(&self, plane: &mut Plane<'_, '_>, series: &Series) -> Drawn {
        let style = series.style;
        let place = |point: &Point| (self.place(point.x), point.y);
        plane.draw_series([line(series.points.iter().map(place).collect(), style)])?;
        let spread = series.points.iter().filter(|point| style != LIMIT && point.high > point.low);
        plane
            .draw_series(spread.map(|point| whisker(self.place(point.x), point, style.colour())))?;
        plane.draw_series(
            series.points.iter().map(|point| EmptyElement::at(place(point)) + marker(style)),
        )?;
        Ok(())
    }
}

/// Bars of all series of a panel; the limit is a line across each category.
fn draw_bars(plane: &mut Plane<'_, '_>, panel: &Panel, pixels: f64) -> Drawn {
    let (bars, limits): (Vec<_>, Vec<_>) =
        panel.series.iter().partition(|series| series.style != LIMIT);
    let width = (FILLED / bars.len().max(1) as f64).min(BAR_WIDTH_MAX / pixels);
    for (index, series) in bars.iter().enumerate() {
        let shift = (index as f64 - bars.len() as f64 / 2.0) * width;
        for point in &series.points {
            draw_bar(
                plane,
                series.style,
                point,
                (point.x + shift, width),
                width * pixels >= NUMBER_WIDTH,
            )?;
        }
    }
    let across =
        |point: &Point| line(vec![(point.x - 0.46, point.y), (point.x + 0.46, point.y)], LIMIT);
    plane.draw_series(limits.iter().flat_map(|series| &series.points).map(across))?;
    Ok(())
}

fn draw_bar(
    plane: &mut Plane<'_, '_>,
    style: Style,
    point: &Point,
    (left, width): (f64, f64),
    has_number: bool,
) -> Drawn {
    let corners = [(left + width * 0.04, 0.0), (left + width * 0.96, point.y)];
    let filling = style.colour().mix(style.density()).filled();
    plane
        .draw_series([Rectangle::new(corners, filling), Rectangle::new(corners, style.colour())])?;
    let middle = left + width / 2.0;
    if point.high > point.low {
        plane.draw_series([whisker(middle, point, INK)])?;
    }
    if has_number {
        let text = text_style(TEXT * 0.85).pos(Pos::new(HPos::Center, VPos::Bottom));
        let number = Text::new(short(point.y), (0, -3), text);
        plane.draw_series([EmptyElement::at((middle, point.high.max(point.y))) + number])?;
    }
    Ok(())
}

fn line<P: Copy>(places: Vec<P>, style: Style) -> DashedPathElement<std::vec::IntoIter<P>, u32> {
    let (dash, gap) = style.dashes();
    let (dash, gap) = if dash == 0 { (100 * WIDTH, 1) } else { (dash, gap) };
    DashedPathElement::new(places, dash, gap, style.colour().stroke_width(2))
}

fn marker(style: Style) -> Polygon<(i32, i32)> {
    Polygon::new(style.marker(), style.colour().filled())
}

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
    let named = format!(" role=\"img\"><title>{}</title>", HtmlEscape(title));
    Ok(crate::plots::page::legible(&text.replacen('>', &named, 1)))
}

fn drawn(
    text: &mut String,
    title: &str,
    height: u32,
    draw: impl FnOnce(&Area<'_>) -> Drawn,
) -> Drawn {
    let whole = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    whole.fill(&WHITE)?;
    let (top, rest) = whole.split_vertically(TITLE_HEIGHT);
    let fitting = f64::from(WIDTH - 24) / (title.chars().count().max(1) as f64 * 0.57) * 1.24;
    top.draw(&Text::new(
        title.to_owned(),
        (12, 8),
        text_style(fitting.clamp(TEXT * 0.7, TITLE_TEXT)),
    ))?;
    draw(&rest)?;
    Ok(whole.present()?)
}
