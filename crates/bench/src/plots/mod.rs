//! Pages and figures of benchmark results. Their only source is the JSON that `esker bench ... --json FILE` writes:
//! this module measures nothing and opens no store.
//!
//! [`results`] reads report files. A [`Figure`] is an SVG chart with a sentence on what it shows. [`sweep`] chooses the
//! charts for the measurements, [`offsets`] and [`timeline`] show when processes did I/O. A [`page::Page`] is one HTML
//! file that needs no network. `plotters` draws, `minijinja` fills the page's template
//! (docs/decisions/0032-drawing.md).
mod applications;
pub mod chart;
pub mod finding;
mod growth;
pub mod offsets;
pub mod page;
pub mod paper;
pub mod posix;
pub mod results;
mod rules;
pub mod sweep;
pub mod tensors;
pub mod timeline;
pub mod words;

use chart::{Chart, Palette};
use esker_types::Result;
use results::Results;
use serde::Serialize;
use std::collections::BTreeSet;

/// A chart and what it shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name for files and links.
    pub id: String,
    /// Title of the chart.
    pub title: String,
    /// The chart as a whole SVG document.
    pub svg: String,
    /// Description of the figure, in one or two sentences.
    pub sentence: String,
}

/// Draws the figures of one page, which share numbers.
#[derive(Debug, Default)]
pub struct Figures {
    palette: Palette,
    count: usize,
}

impl Figures {
    /// All figures for which these files have the numbers.
    ///
    /// # Errors
    /// If the traces beside a file cannot be read or are not traces of `esker bench`.
    pub fn draw_all(&mut self, files: &[Results]) -> Result<Vec<Figure>> {
        let samples = sweep::samples(files);
        let mut figures = Vec::new();
        for file in files {
            figures.extend(self.growth(file)?);
        }
        for sweep in &sweep::SWEEPS {
            figures.extend(self.sweep(sweep, &samples)?);
        }
        if figures.is_empty() {
            figures.extend(self.sweep(&sweep::OVERVIEW, &samples)?);
        }
        figures.extend(self.offsets(files)?);
        for file in files {
            figures.extend(self.timelines(file)?);
        }
        Ok(figures)
    }

    /// A name that no other figure of the page has.
    fn next_id(&mut self, stem: &str) -> String {
        self.count += 1;
        format!("fig{:02}-{stem}", self.count)
    }

    /// The figure of a chart.
    fn figure(&mut self, stem: &str, chart: Chart, sentence: String) -> Result<Figure> {
        let (id, svg) = (self.next_id(stem), chart.svg()?);
        Ok(Figure { id, svg, title: chart.title, sentence })
    }
}

/// Each item once, in order of appearance.
fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// Ticks of an axis at these numbers.
fn ticks_at(numbers: impl IntoIterator<Item = u32>) -> Vec<(f64, String)> {
    let numbers: BTreeSet<u32> = numbers.into_iter().collect();
    numbers.into_iter().map(|number| (f64::from(number), number.to_string())).collect()
}

/// Ticks of an axis of categories.
fn ticks_of(names: impl IntoIterator<Item = String>) -> Vec<(f64, String)> {
    names.into_iter().enumerate().map(|(place, name)| (place as f64, name)).collect()
}

#[cfg(test)]
mod tests;
