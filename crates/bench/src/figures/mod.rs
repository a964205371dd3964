//! The papers' figures, made from whatever result files there are.
mod dims;
mod offsets;
mod sentence;
mod sweep;
mod trace;

pub use dims::{Dim, Sample};
pub(crate) use offsets::label;
pub use sweep::{SWEEPS, Sweep};

use crate::plot::Palette;
use crate::results::Results;
use esker_types::Result;

/// A plot and what it shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name for files and links.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// The plot.
    pub svg: String,
    /// What it shows, in a sentence or two.
    pub sentence: String,
}

/// Figures of several files: they share names and colours.
#[derive(Debug, Default)]
pub struct Figures {
    palette: Palette,
    count: usize,
}

impl Figures {
    /// Every figure that these files have the numbers for.
    ///
    /// # Errors
    /// Where traces beside a file cannot be read or are no traces.
    pub fn of(&mut self, files: &[Results]) -> Result<Vec<Figure>> {
        let samples = samples(files);
        let mut figures: Vec<_> =
            SWEEPS.iter().flat_map(|sweep| self.sweep(sweep, &samples)).collect();
        if figures.is_empty() {
            figures.extend(self.sweep(&sweep::OVERVIEW, &samples));
        }
        figures.extend(self.offsets(files));
        for file in files {
            figures.extend(self.timelines(file)?);
        }
        Ok(figures)
    }

    /// A name that no other figure has.
    fn next_id(&mut self, stem: &str) -> String {
        self.count += 1;
        format!("fig{:02}-{stem}", self.count)
    }
}

/// All measurements of files, with sums of patterns that write and read at once.
#[must_use]
pub fn samples(files: &[Results]) -> Vec<Sample> {
    let runs = files.iter().flat_map(|file| &file.runs);
    let samples: Vec<_> = runs.filter_map(Sample::of).collect();
    let sums: Vec<_> = samples.iter().filter_map(|write| write.sum(&samples)).collect();
    [samples, sums].concat()
}

#[cfg(test)]
mod tests;
