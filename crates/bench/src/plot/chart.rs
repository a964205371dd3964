//! A chart: one or more panels side by side over the same axes.
use super::frame::Frame;
use super::legend;
use super::scale::nice_ticks;
use super::style::Style;
use super::svg::Svg;
use super::{WIDTH, bars, lines};

/// One measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where on the horizontal axis: a value, or the number of a category.
    pub x: f64,
    /// What was measured.
    pub y: f64,
    /// The least of several measurements.
    pub low: f64,
    /// The greatest of several measurements.
    pub high: f64,
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What they are called.
    pub label: String,
    /// How they are drawn.
    pub style: Style,
    /// From left to right.
    pub points: Vec<Point>,
}

/// One pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// What is drawn in it.
    pub series: Vec<Series>,
}

/// The horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Numbers, labelled where something was measured.
    Values {
        /// Places and their labels, rising.
        ticks: Vec<(f64, String)>,
        /// Equal ratios are equally far apart.
        log: bool,
    },
    /// Names.
    Categories(Vec<String>),
}

/// What the values are drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Markers joined by lines.
    Lines,
    /// Bars beside each other.
    Bars,
}

/// A chart. The vertical axis begins at 0 and is the same for all panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Begins every id in it, so that several charts can be on one page.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What the horizontal axis is.
    pub x_label: String,
    /// What the vertical axis is, with its unit.
    pub y_label: String,
    /// The horizontal axis.
    pub x: Axis,
    /// What the values are drawn as.
    pub mark: Mark,
    /// From left to right.
    pub panels: Vec<Panel>,
}

const PANEL_HEIGHT: f64 = 300.0;
const TITLE_HEIGHT: f64 = 30.0;

impl Chart {
    /// The chart as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let labels = self.labels();
        let legend_height = legend::height(&labels);
        let height = TITLE_HEIGHT + legend_height + PANEL_HEIGHT;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.heading(WIDTH, &self.title);
        if self.mark == Mark::Bars {
            bars::patterns(&mut svg, &self.id, &labels);
        }
        legend::draw(&mut svg, TITLE_HEIGHT, &labels, self.mark, &self.id);
        for frame in self.frames(TITLE_HEIGHT + legend_height) {
            frame.draw_axes(&mut svg);
            match self.mark {
                Mark::Lines => lines::draw(&mut svg, &frame),
                Mark::Bars => bars::draw(&mut svg, &frame, &self.id),
            }
        }
        svg.finish()
    }

    fn frames(&self, top: f64) -> impl Iterator<Item = Frame<'_>> {
        let ticks = nice_ticks(self.greatest(), 5);
        let count = self.panels.len().max(1) as f64;
        let width = WIDTH / count;
        self.panels.iter().enumerate().map(move |(index, panel)| {
            let left = index as f64 * width;
            Frame::new(self, panel, ticks.clone(), (left, top), (width, PANEL_HEIGHT))
        })
    }

    fn greatest(&self) -> f64 {
        let series = self.panels.iter().flat_map(|panel| &panel.series);
        series
            .flat_map(|series| &series.points)
            .map(|point| point.high.max(point.y))
            .fold(0.0, f64::max)
    }

    /// Each label once, in order of appearance.
    fn labels(&self) -> Vec<(String, Style)> {
        let mut labels: Vec<(String, Style)> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !labels.iter().any(|(label, _)| *label == series.label) {
                labels.push((series.label.clone(), series.style));
            }
        }
        labels
    }
}
