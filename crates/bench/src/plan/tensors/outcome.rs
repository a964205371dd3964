//! Measurements by array, phase, system and iteration.
use super::{Part, Times};
use crate::job::WARM_UP;
use crate::latency::Histogram;
use crate::measure::Tally;
use crate::metrics::Statistics;
use crate::plan::lines::{Line, Sample};
use crate::report::{Run, RunName};
use esker_cli::units::Bytes;
use esker_types::Result;
use std::time::Duration;

/// Indexes of the compared systems: the store, the layouts of parallel HDF5, a new plain file, and the medium.
pub(super) const ESKER: usize = 0;
pub(super) const HDF5: usize = 1;
pub(super) const FILE: usize = 4;
pub(super) const MEDIUM: usize = 5;
const SYSTEMS: usize = 6;

/// Names of the systems after the store.
const NAMES: [&str; SYSTEMS - 1] =
    ["hdf5-filled", "hdf5-unfilled", "hdf5-contiguous", "file", "medium"];

pub(super) const HEADINGS: &str = "scaling|>size|>procs|phase|>x filled|>x unfilled|>x contiguous|>x file|>of medium|>MiB/s|>least|>most";

pub(super) const LEGEND: &str = "\
x: how many times as fast the tensor store is as parallel HDF5 with chunks that it fills by default, with chunks that it \
never fills and without chunks, and as pwrite or pread of a new plain file, each one file that all processes share. of \
medium: share of the rate of pwrite and pread of a file that was written before. All are medians of the ratios of the \
iterations. MiB/s: the tensor store, median, least and most. size: of each process (weak), of the array (strong).";

/// Phases, and those of the medium.
const PHASES: [(&str, &str); 2] = [("put", "pwrite"), ("get", "pread")];

/// Quantity that stays the same as the number of processes grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    /// The bytes of each process.
    Weak(u64),
    /// The bytes of all processes.
    Strong(u64),
}

impl Scaling {
    /// Name of the scaling in tables, and the number of bytes that stays the same: of each process, or of the whole
    /// array.
    fn parts(self) -> (&'static str, u64) {
        match self {
            Self::Weak(bytes) => ("weak", bytes),
            Self::Strong(bytes) => ("strong", bytes),
        }
    }
}

/// The measurements of one array.
pub(super) struct Case {
    /// Series of the case.
    pub(super) scaling: Scaling,
    /// Size of the tensor, and the processes that stored it.
    pub(super) part: Part,
    /// PUT and GET.
    pub(super) lines: Lines,
}

/// PUT and GET, by system.
#[derive(Clone, Debug)]
pub(super) struct Lines([Line; 2]);

impl Default for Lines {
    fn default() -> Self {
        Self(PHASES.map(|(phase, _)| Line::new(phase, SYSTEMS)))
    }
}

impl Lines {
    /// Adds the times of PUT and GET of an array. Ignores times of warm-ups.
    pub(super) fn add(
        &mut self,
        system: usize,
        round: u32,
        part: Part,
        times: [Times; 2],
    ) -> Result<()> {
        if round == WARM_UP {
            return Ok(());
        }
        for (line, times) in self.0.iter_mut().zip(times) {
            line.samples[system].push(sample(round, part.array_bytes(), times)?);
        }
        Ok(())
    }

    /// The lines of the report: PUT and GET.
    pub(super) fn each(&self) -> impl Iterator<Item = &Line> {
        self.0.iter()
    }
}

/// The sample of one array, which counts as one operation of `bytes` bytes, from its times in seconds.
fn sample(iteration: u32, bytes: u64, [begin, opened, moved, closed]: Times) -> Result<Sample> {
    let seconds = (closed - begin).max(0.0);
    let mut latency = Histogram::default();
    latency.record(Duration::try_from_secs_f64(seconds).unwrap_or_default())?;
    let parts = [opened - begin, moved - opened, closed - moved].map(|part| part.max(0.0));
    Ok(Sample { iteration, tally: Tally { ops: 1, bytes, seconds, latency }, parts: Some(parts) })
}

impl Case {
    /// One run for each phase and system; `store` is the name of the tensor store.
    pub(super) fn runs(&self, store: &str) -> Vec<Run> {
        let (scaling, size_bytes) = self.scaling.parts();
        let (workload, procs) = (format!("tensors-{scaling}"), self.part.procs);
        let names = [&[store][..], &NAMES].concat();
        let runs = self.lines.each().zip(PHASES).flat_map(|(line, (phase, limit))| {
            let name = RunName { store, workload: &workload, phase, procs, size_bytes };
            line.runs(&names, &name, Some((MEDIUM, limit)))
        });
        runs.collect()
    }

    /// Row of a phase in the table.
    pub(super) fn row(&self, line: &Line) -> Vec<String> {
        let rates = Statistics::from_values(&line.rates(ESKER));
        let (scaling, size) = self.scaling.parts();
        let named = [
            scaling.to_owned(),
            Bytes(size).to_string(),
            self.part.procs.to_string(),
            line.title.clone(),
        ];
        let others = [HDF5, HDF5 + 1, HDF5 + 2, FILE, MEDIUM].map(|other| ratio(line, other));
        let rates = [rates.median, rates.min, rates.max].map(|rate| format!("{rate:.0}"));
        named.into_iter().chain(others).chain(rates).collect()
    }
}

fn ratio(line: &Line, other: usize) -> String {
    line.ratio(ESKER, other).map_or_else(|| "absent".to_owned(), |times| format!("{times:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_one_operation_and_has_parts() {
        let mut lines = Lines::default();
        let part = Part { rows: 256, procs: 2 };
        let times = [[1.0, 1.25, 1.75, 2.0], [5.0, 5.0, 5.5, 5.5]];
        lines.add(ESKER, WARM_UP, part, times).unwrap();
        lines.add(ESKER, 1, part, times).unwrap();
        lines.add(MEDIUM, 1, part, [times[1], times[1]]).unwrap();
        let rates: Vec<_> = lines.each().map(|line| line.rates(ESKER)).collect();
        assert_eq!(rates, [[2.0], [4.0]]);
        let put = lines.each().next().unwrap();
        assert_eq!(put.samples[ESKER][0].parts, Some([0.25, 0.5, 0.25]));
        assert_eq!((put.ratio(ESKER, MEDIUM), put.ratio(ESKER, HDF5)), (Some(0.5), None));
    }
}
