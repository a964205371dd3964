//! Charts of lines or bars: one or more panels side by side with one vertical axis, drawn by `plotters`.
use crate::plots::words::{capital, short};
use esker_types::{Error, ErrorKind, Result};
use minijinja::HtmlEscape;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// Width of every figure in pixels.
pub const WIDTH: u32 = 860;

/// Colours of a system.
const SHADES: usize = 3;

/// Colours of systems, each with a lighter and a darker shade, from those of Okabe and Ito, which are distinguishable with
/// any colour vision. Labels that begin with a name have the colours of its system. The page's style sheet maps them to
/// lighter ones for dark screens.
const SYSTEMS: [(&str, [RGBColor; SHADES]); 5] = [
    (
        "esker native nodes DFS tensor run mount rados daos",
        [RGBColor(0x00, 0x72, 0xb2), RGBColor(0x56, 0xb4, 0xe9), RGBColor(0x00, 0x3d, 0x66)],
    ),
    ("posix", [RGBColor(0xd5, 0x5e, 0x00), RGBColor(0xf2, 0xa0, 0x5f), RGBColor(0x80, 0x38, 0x00)]),
    (
        "tmpfs new files file",
        [RGBColor(0x00, 0x9e, 0x73), RGBColor(0x66, 0xcc, 0xb0), RGBColor(0x00, 0x55, 0x3e)],
    ),
    (
        "ext4 xfs btrfs zfs overlay ext4-2 xfs-2",
        [RGBColor(0xcc, 0x79, 0xa7), RGBColor(0xe8, 0xbb, 0xd3), RGBColor(0x80, 0x3c, 0x60)],
    ),
    ("HDF5", [RGBColor(0xe6, 0x9f, 0x00), RGBColor(0xf5, 0xcf, 0x7a), RGBColor(0x8a, 0x60, 0x00)]),
];
/// Colours of everything else.
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x1a, 0x1a, 0x1b),
    RGBColor(0x8a, 0x5f, 0xbf),
    RGBColor(0x7d, 0x7a, 0x1f),
    RGBColor(0x4d, 0x8a, 0x99),
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
/// Size of numbers above bars, as a share of other text.
const NUMBER_SIZE: f64 = 0.85;
/// If the least value is below this share of the greatest, the vertical axis is logarithmic: on a linear one, the point
/// would lie at zero.
const LINEAR_MIN: f64 = 0.04;
/// About as many labels has the vertical axis.
const LABELS: f64 = 6.0;
/// Names below an axis that are longer than this together are replaced by numbers.
const NAMES_MAX: usize = 50;
/// Text stays legible where a line crosses it.
const HALO: &str =
    "<style>text{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}</style>";

pub(crate) type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;
pub(crate) type Drawn<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;
type Plane<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Ticked, Ticked>>;

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
    /// Its system, if it has one, and its number among the series of this system.
    place: Option<(Option<usize>, usize)>,
}

/// The style of the limit of the medium.
pub const LIMIT: Style = Style { place: None };

impl Style {
    /// The style of the n-th series that belongs to no system, from 0.
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        Self { place: Some((None, index)) }
    }

    pub(crate) fn colour(self) -> RGBColor {
        match self.place {
            None => GREY,
            Some((None, index)) => COLOURS[index % COLOURS.len()],
            Some((Some(system), index)) => SYSTEMS[system].1[index % SHADES],
        }
    }

    /// Number of the dashes and of the marker. They change when colours return.
    fn turned(self) -> Option<usize> {
        let (_, index) = self.place?;
        Some((index + index / DASHES.len()) % DASHES.len())
    }

    fn dashes(self) -> (u32, u32) {
        self.turned().map_or((4, 4), |index| DASHES[index])
    }

    fn marker(self) -> &'static [(i32, i32)] {
        self.turned().map_or(&[], |index| MARKERS[index])
    }

    fn density(self) -> f64 {
        let (_, index) = self.place.unwrap_or_default();
        DENSITIES[index / SHADES % DENSITIES.len()]
    }
}

/// Gives each label of a chart a style of its own. All labels of a system have its colour, in all charts.
#[derive(Clone, Debug, Default)]
pub struct Palette(Vec<(Option<usize>, String)>);

impl Palette {
    /// The style of a label that names its system, if it has one.
    pub fn style(&mut self, label: &str) -> Style {
        self.style_of(label, label)
    }

    /// The style of a label of a system.
    pub fn style_of(&mut self, system: &str, label: &str) -> Style {
        let name = system.trim_start_matches("times ").split([' ', ',']).next().unwrap_or_default();
        let system = SYSTEMS.iter().position(|(names, _)| names.split(' ').any(|one| one == name));
        let key = (system, label.to_owned());
        if !self.0.contains(&key) {
            self.0.push(key.clone());
        }
        let mut same = self.0.iter().filter(|(other, _)| *other == system);
        Style { place: Some((system, same.position(|one| *one == key).unwrap_or(0))) }
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

/// A chart. The vertical axis is the same for all panels. It begins at 0, or is logarithmic if values are far apart.
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

/// The vertical axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// The axis for these values.
    fn for_values(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| value.is_finite() && *value > 0.0);
        let ends = positive.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = ends.unwrap_or((1.0, 1.0));
        match low < LINEAR_MIN * high {
            true => Self { low: low / 2.0, high: high * 1.8, is_log: true },
            false => Self { low: 0.0, high: high * 1.1, is_log: false },
        }
    }

    /// Place of a value.
    fn place(self, value: f64) -> f64 {
        if self.is_log { value.max(self.low).ln() } else { value }
    }

    fn value(self, place: f64) -> f64 {
        if self.is_log { place.exp() } else { place }
    }

    /// Round numbers on the axis: multiples of one, or 1, 2 and 5 of each power of ten.
    fn ticks(self) -> Vec<f64> {
        let power = |number: f64| 10f64.powf(number.log10().floor());
        if !self.is_log {
            let rough = self.high / LABELS;
            let factors = [1.0, 2.0, 5.0, 10.0];
            let round = factors.map(|factor| factor * power(rough));
            let step = round.into_iter().find(|step| *step >= rough).unwrap_or(rough);
            return (0..)
                .map(|index| f64::from(index) * step)
                .take_while(|at| *at <= self.high)
                .collect();
        }
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades > LABELS / 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (0..=decades.ceil() as i32).map(|index| power(self.low) * 10f64.powi(index));
        let all = powers.flat_map(|power| factors.iter().map(move |factor| factor * power));
        all.filter(|value| (self.low..=self.high).contains(value)).collect()
    }

    fn axis(self) -> Ticked {
        let ticks = self.ticks().into_iter().map(|value| self.place(value)).collect();
        Ticked { range: self.place(self.low)..self.place(self.high), ticks }
    }
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

    /// Replaces names that would not fit below the axis by numbers. Returns the sentence that explains them.
    pub(crate) fn number_long_names(&mut self) -> String {
        let length: usize = self.ticks.iter().map(|(_, name)| name.chars().count()).sum();
        if self.axis != Axis::Categories || length * self.panels.len() <= 2 * NAMES_MAX {
            return String::new();
        }
        let label = |(index, (_, name)): (usize, &mut (f64, String))| {
            let number = (index + 1).to_string();
            format!("{number} {}", std::mem::replace(name, number.clone()))
        };
        let labels: Vec<_> = self.ticks.iter_mut().enumerate().map(label).collect();
        format!(" {}: {}.", capital(&self.x_label), labels.join("; "))
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
        let scale = self.scale();
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
            .build_cartesian_2d(Ticked { range: left..right, ticks: places }, scale.axis())?;
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
            .y_label_formatter(&|place| short(scale.value(*place)))
            .draw()?;
        match self.axis {
            Axis::Categories => draw_bars(&mut plane, panel, scale, width / (right - left)),
            _ => {
                panel.series.iter().rev().try_for_each(|series| self.draw_line(&mut plane, series))
            }
        }
    }

    fn scale(&self) -> Scale {
        let points = self.series().flat_map(|series| &series.points);
        Scale::for_values(points.flat_map(|point| [point.y, point.high]))
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
        let (style, scale) = (series.style, self.scale());
        let place = |point: &Point| (self.place(point.x), scale.place(point.y));
        plane.draw_series([line(series.points.iter().map(place).collect(), style)])?;
        let spread = series.points.iter().filter(|point| style != LIMIT && point.high > point.low);
        plane.draw_series(
            spread.map(|point| whisker(self.place(point.x), point, scale, style.colour())),
        )?;
        plane.draw_series(
            series.points.iter().map(|point| EmptyElement::at(place(point)) + marker(style)),
        )?;
        Ok(())
    }
}

/// Bars of all series of a panel; the limit is a line across each category. Numbers are above all of them, if they fit.
fn draw_bars(plane: &mut Plane<'_, '_>, panel: &Panel, scale: Scale, pixels: f64) -> Drawn {
    let (bars, limits): (Vec<_>, Vec<_>) =
        panel.series.iter().partition(|series| series.style != LIMIT);
    let width = (FILLED / bars.len().max(1) as f64).min(BAR_WIDTH_MAX / pixels);
    let middle = |index: usize| (index as f64 + 0.5 - bars.len() as f64 / 2.0) * width;
    for (index, series) in bars.iter().enumerate() {
        for point in &series.points {
            draw_bar(plane, series.style, point, (point.x + middle(index), width), scale)?;
        }
    }
    let across = |point: &Point| {
        let y = scale.place(point.y);
        line(vec![(point.x - 0.46, y), (point.x + 0.46, y)], LIMIT)
    };
    plane.draw_series(limits.iter().flat_map(|series| &series.points).map(across))?;
    let points = bars.iter().enumerate().flat_map(|(index, series)| {
        series.points.iter().map(move |point| (point.x + middle(index), point))
    });
    let widest = points.clone().map(|(_, point)| text_width(&short(point.y))).fold(0.0, f64::max);
    if widest * NUMBER_SIZE > width * pixels {
        return Ok(());
    }
    let text = text_style(TEXT * NUMBER_SIZE).pos(Pos::new(HPos::Center, VPos::Bottom));
    let number = |(x, point): (f64, &Point)| {
        let number = Text::new(short(point.y), (0, -3), text.clone());
        EmptyElement::at((x, scale.place(point.high.max(point.y)))) + number
    };
    plane.draw_series(points.map(number))?;
    Ok(())
}

fn draw_bar(
    plane: &mut Plane<'_, '_>,
    style: Style,
    point: &Point,
    (middle, width): (f64, f64),
    scale: Scale,
) -> Drawn {
    let half = width * 0.46;
    let corners = [(middle - half, scale.place(scale.low)), (middle + half, scale.place(point.y))];
    let filling = style.colour().mix(style.density()).filled();
    plane
        .draw_series([Rectangle::new(corners, filling), Rectangle::new(corners, style.colour())])?;
    if point.high > point.low {
        plane.draw_series([whisker(middle, point, scale, INK)])?;
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
    scale: Scale,
    colour: RGBColor,
) -> ErrorBar<f64, f64, plotters::element::ErrorBarOrientV<f64, f64>> {
    let [low, y, high] = [point.low, point.y, point.high].map(|value| scale.place(value));
    ErrorBar::new_vertical(x, low, y, high, colour, 8)
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
    let named = format!(" role=\"img\"><title>{}</title>{HALO}", HtmlEscape(title));
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
