//! Pages and figures of benchmark results. Their only source is the JSON that `esker bench ... --json FILE` writes:
//! this module measures nothing and opens no store.
//!
//! [`results`] reads report files. A [`Figure`] is an SVG chart with a sentence on what it shows: a `chart::Chart` is
//! filled value by value and drawn by `draw`. `sweep` chooses the charts for the measurements, `timeline`
//! shows when processes did I/O. A [`page::Page`] is one HTML file that needs no network. `plotters` draws, `minijinja`
//! fills the page's template (docs/decisions/0032-drawing.md).
mod chart;
mod draw;
pub mod files;
mod finding;
mod growth;
pub mod page;
pub mod paper;
pub mod results;
mod rules;
mod style;
mod sweep;
mod tensors;
mod timeline;
mod words;

use chart::Chart;
use esker_types::Result;
use results::Results;
use serde::Serialize;

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

/// Draws the figures of one page, and numbers them.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    count: usize,
}

impl Figures {
    /// All figures for which these files have the numbers.
    fn draw_all(&mut self, files: &[Results]) -> Result<Vec<Figure>> {
        let samples = sweep::samples(files);
        let mut figures = Vec::new();
        for file in files {
            figures.extend(self.growth(file)?);
        }
        for sweep in sweep::sweeps()? {
            // The overview is the last kind, and is drawn only if there is no other figure.
            if sweep.stem != sweep::OVERVIEW || figures.is_empty() {
                figures.extend(self.sweep(&sweep, &samples)?);
            }
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

    /// The figure of a chart; none if it has no values.
    fn figure(&mut self, stem: &str, chart: Chart, sentence: String) -> Result<Option<Figure>> {
        if chart.series.is_empty() {
            return Ok(None);
        }
        let (id, svg) = (self.next_id(stem), chart.svg()?);
        Ok(Some(Figure { id, svg, title: chart.title, sentence }))
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

/// Items with the same key, in order of appearance.
fn grouped_by<'s, T, K: PartialEq>(
    items: impl IntoIterator<Item = &'s T>,
    key: impl Fn(&'s T) -> K,
) -> Vec<(K, Vec<&'s T>)> {
    let mut groups: Vec<(K, Vec<&'s T>)> = Vec::new();
    for item in items {
        let key = key(item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
