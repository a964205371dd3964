//! Charts of lines or bars: one or more panels side by side with one vertical axis.
use crate::metrics::Statistics;
use crate::plots::grouped_by;
use crate::plots::style::{LIMIT, Palette, Style};
use crate::plots::words::{capital, short};

/// Half the number of letters that fit below the axes of all panels. Longer names are replaced by numbers.
const NAMES_MAX: usize = 50;

/// One measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Place on the horizontal axis: a value, or the number of a category.
    pub(crate) x: f64,
    /// The measured value.
    pub(crate) y: f64,
    /// The least of several measurements.
    pub(crate) low: f64,
    /// The greatest of several measurements.
    pub(crate) high: f64,
}

impl Point {
    /// A value that was measured once.
    pub(crate) fn single(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }

    /// The median of several measurements, with their range.
    pub(crate) fn median(x: f64, of: &Statistics) -> Self {
        Self { x, y: of.median, low: of.min, high: of.max }
    }
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Title of the panel that it is in.
    pub(crate) panel: String,
    /// Name in the legend.
    pub(crate) label: String,
    /// Colour, markers and lines.
    pub(crate) style: Style,
    /// Values from left to right.
    pub(crate) points: Vec<Point>,
}

/// The kind of horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Numbers on a linear scale: markers joined by lines.
    Linear,
    /// Numbers on a logarithmic scale: markers joined by lines.
    Log,
    /// Names: bars beside each other.
    Categories,
}

/// A chart. The vertical axis is the same for all panels. It begins at 0, or is logarithmic if values are far apart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Title.
    pub(crate) title: String,
    /// Label of the horizontal axis.
    pub(crate) x_label: String,
    /// The kind of horizontal axis.
    pub(crate) axis: Axis,
    /// Label of the vertical axis, with its unit.
    pub(crate) y_label: String,
    /// Positions on the horizontal axis and their labels, in rising order. Categories are numbered from 0.
    pub(crate) ticks: Vec<(f64, String)>,
    /// All series of all panels.
    pub(crate) series: Vec<Series>,
    palette: Palette,
}

impl Chart {
    /// A chart without values. `y_label` includes the unit.
    pub(crate) fn new(title: &str, (x_label, axis): (&str, Axis), y_label: &str) -> Self {
        Self {
            title: capital(title),
            x_label: x_label.to_owned(),
            axis,
            y_label: y_label.to_owned(),
            ticks: Vec::new(),
            series: Vec::new(),
            palette: Palette::default(),
        }
    }

    /// Adds a value to the series of this label in a panel. Both are created if needed. The series has a colour of the
    /// system that its label begins with.
    pub(crate) fn add(&mut self, panel: &str, label: &str, point: Point) {
        let style = self.style(label, label);
        self.add_styled(panel, label, style, point);
    }

    /// Adds a point to the series `label` of a panel. A new series is drawn in `style`.
    pub(crate) fn add_styled(&mut self, panel: &str, label: &str, style: Style, point: Point) {
        if self.axis != Axis::Categories {
            self.tick(point.x, &short(point.x));
        }
        let known = self.series.iter().position(|one| one.panel == panel && one.label == label);
        let index = known.unwrap_or(self.series.len());
        if known.is_none() {
            let (panel, label) = (panel.to_owned(), label.to_owned());
            self.series.push(Series { panel, label, style, points: Vec::new() });
        }
        let points = &mut self.series[index].points;
        points.insert(points.partition_point(|before| before.x <= point.x), point);
    }

    /// The style of a label of a system.
    pub(crate) fn style(&mut self, system: &str, label: &str) -> Style {
        self.palette.style(system, label)
    }

    /// Labels a number on the horizontal axis, unless it has a label.
    pub(crate) fn tick(&mut self, x: f64, label: &str) {
        let place = self.ticks.partition_point(|(before, _)| *before < x);
        if self.ticks.get(place).is_none_or(|(next, _)| *next != x) {
            self.ticks.insert(place, (x, label.to_owned()));
        }
    }

    /// Place of a category, which is added if needed.
    pub(crate) fn category(&mut self, name: &str) -> f64 {
        let known = self.ticks.iter().find(|(_, known)| known == name).map(|(place, _)| *place);
        known.unwrap_or_else(|| {
            let place = self.ticks.len() as f64;
            self.ticks.push((place, name.to_owned()));
            place
        })
    }

    /// Sentences about the highest value of each panel, and its change along the axis. `phrase` names a tick.
    pub(crate) fn highest(&self, unit: &str, phrase: impl Fn(&str) -> String) -> Vec<String> {
        let name = |point: &Point| {
            let tick = self.ticks.iter().find(|(place, _)| *place == point.x);
            tick.map_or(String::new(), |(_, name)| phrase(name))
        };
        let sentence = |(title, series): &(&str, Vec<&Series>)| {
            let measured = series.iter().filter(|series| series.style != LIMIT);
            let points = measured.flat_map(|one| one.points.iter().map(move |point| (one, point)));
            let (series, best) = points.max_by(|one, other| one.1.y.total_cmp(&other.1.y))?;
            let (title, value, at) = (capital(title), short(best.y), name(best));
            let text = format!("{title}: highest {value} {unit} ({}, {at})", series.label);
            let (first, last) = (series.points.first()?, series.points.last()?);
            if self.axis == Axis::Categories || first.x == last.x || first.y <= 0.0 {
                return Some(format!("{text}."));
            }
            let (times, from, to) = (last.y / first.y, name(first), name(last));
            Some(format!("{text}; {times:.2} times as much at {to} as at {from}."))
        };
        self.panels().iter().filter_map(sentence).collect()
    }

    /// Replaces names that would not fit below the axis by numbers. Returns the sentence that explains them.
    pub(crate) fn number_long_names(&mut self) -> String {
        let length: usize = self.ticks.iter().map(|(_, name)| name.chars().count()).sum();
        match self.axis == Axis::Categories && length * self.panels().len() > 2 * NAMES_MAX {
            true => self.number_names(),
            false => String::new(),
        }
    }

    /// Replaces all names below the axis by numbers. Returns the sentence that explains them.
    pub(crate) fn number_names(&mut self) -> String {
        let label = |(index, (_, name)): (usize, &mut (f64, String))| {
            let number = (index + 1).to_string();
            format!("{number} {}", std::mem::replace(name, number.clone()))
        };
        let labels: Vec<_> = self.ticks.iter_mut().enumerate().map(label).collect();
        format!(" {}: {}.", capital(&self.x_label), labels.join("; "))
    }

    /// Titles of the panels from left to right, and their series.
    pub(crate) fn panels(&self) -> Vec<(&str, Vec<&Series>)> {
        grouped_by(&self.series, |series| series.panel.as_str())
    }
}
