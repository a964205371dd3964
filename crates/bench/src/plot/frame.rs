//! The place of one panel: its axes, their labels and the grid.
use super::chart::{Axis, Chart, Panel};
use super::scale::{Scale, short};
use super::svg::Svg;

/// Room around the place where values are drawn.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 14.0;
const ABOVE: f64 = 26.0;
const BELOW: f64 = 50.0;
/// Labels nearer than this would run into each other: a letter's width, and the gap.
const LETTER: f64 = 6.6;
const GAP: f64 = 8.0;

/// A panel with its scales.
pub(super) struct Frame<'c> {
    chart: &'c Chart,
    /// What is drawn.
    pub(super) panel: &'c Panel,
    y_ticks: Vec<f64>,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl<'c> Frame<'c> {
    pub(super) fn new(
        chart: &'c Chart,
        panel: &'c Panel,
        y_ticks: Vec<f64>,
        (left, top): (f64, f64),
        (width, height): (f64, f64),
    ) -> Self {
        let (left, right) = (left + LEFT, left + width - RIGHT);
        Self { chart, panel, y_ticks, left, right, top: top + ABOVE, bottom: top + height - BELOW }
    }

    /// Places of values on the vertical axis.
    pub(super) fn y(&self) -> Scale {
        let greatest = self.y_ticks.last().copied().unwrap_or(1.0);
        Scale::linear((0.0, greatest), (self.bottom, self.top))
    }

    /// Places of values on the horizontal axis; those of categories are the middles of their bands.
    pub(super) fn x(&self) -> Scale {
        match &self.chart.x {
            Axis::Categories(names) => {
                let half = self.band() / 2.0;
                let last = names.len().saturating_sub(1) as f64;
                Scale::linear((0.0, last), (self.left + half, self.right - half))
            }
            Axis::Values { ticks, log } => {
                let first = ticks.first().map_or(0.0, |tick| tick.0);
                let last = ticks.last().map_or(1.0, |tick| tick.0);
                let places = (self.left + 16.0, self.right - 16.0);
                match log {
                    true => Scale::log((first, last), places),
                    false => Scale::linear((first, last), places),
                }
            }
        }
    }

    /// Width of the band of a category.
    pub(super) fn band(&self) -> f64 {
        match &self.chart.x {
            Axis::Categories(names) => (self.right - self.left) / names.len().max(1) as f64,
            Axis::Values { .. } => 0.0,
        }
    }

    /// The place of 0.
    pub(super) fn bottom(&self) -> f64 {
        self.bottom
    }

    /// Grid, axes and labels.
    pub(super) fn draw_axes(&self, svg: &mut Svg) {
        let y = self.y();
        for &tick in &self.y_ticks {
            let place = y.place(tick);
            svg.line("grid", (self.left, place), (self.right, place));
            svg.words(self.left - 7.0, place + 4.0, "end", &short(tick));
        }
        svg.line("axis", (self.left, self.bottom), (self.right, self.bottom));
        self.draw_x_labels(svg);
        let middle = (self.left + self.right) / 2.0;
        svg.words(middle, self.bottom + 38.0, "middle", &self.chart.x_label);
        svg.words_with(
            self.left,
            self.top - 12.0,
            "start",
            &self.panel.title,
            &[("font-weight", &"600")],
        );
        self.draw_y_label(svg);
    }

    fn draw_y_label(&self, svg: &mut Svg) {
        let (x, y) = (self.left - 50.0, (self.top + self.bottom) / 2.0);
        let turn = format!("rotate(-90 {x:.1} {y:.1})");
        svg.words_with(x, y, "middle", &self.chart.y_label, &[("transform", &turn)]);
    }

    fn draw_x_labels(&self, svg: &mut Svg) {
        let scale = self.x();
        let mut free_from = f64::NEG_INFINITY;
        for (value, label) in self.x_labels() {
            let (place, half) = (scale.place(value), label.chars().count() as f64 * LETTER / 2.0);
            if matches!(self.chart.x, Axis::Values { .. }) {
                svg.line("axis", (place, self.bottom), (place, self.bottom + 4.0));
            }
            if place - half >= free_from {
                svg.words(place, self.bottom + 18.0, "middle", &label);
                free_from = place + half + GAP;
            }
        }
    }

    fn x_labels(&self) -> Vec<(f64, String)> {
        match &self.chart.x {
            Axis::Values { ticks, .. } => ticks.clone(),
            Axis::Categories(names) => {
                let numbered = names.iter().enumerate();
                numbered.map(|(index, name)| (index as f64, name.clone())).collect()
            }
        }
    }
}
