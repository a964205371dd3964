//! Measurements by processes, size, phase, store and iteration.
use crate::plan::posix::Line;
use crate::report::{Run, RunName};
use crate::table::or_dash;
use crate::zarr::Store;
use esker_cli::units::Bytes;

/// The stores, and their indexes.
pub(super) const SYSTEMS: [Store; 2] = [Store::Esker, Store::Local];
const ESKER: usize = 0;
const LOCAL: usize = 1;
const NAMES: [&str; SYSTEMS.len()] = ["esker", "local"];

pub(super) const HEADINGS: &str = "chunks|>procs|phase|>esker|>local|>x local|>least|>most|>MiB/s";

pub(super) const LEGEND: &str = "\
esker, local: esker.zarr.Store and zarr's LocalStore in a directory on the same medium, median of the iterations: chunks \
written and read per second, keys listed per second, and commits per second; a LocalStore has no commits, its chunks are \
replaced one by one. x local: the median of the ratios of the iterations, the least and the most of them. MiB/s: \
esker.zarr.Store.";

/// The measurements with one number of processes and one size.
pub(super) struct Case {
    /// Processes, each with an array of its own.
    pub(super) procs: u32,
    /// Bytes of a chunk.
    pub(super) size_bytes: u64,
    /// The phases.
    pub(super) lines: Vec<Line>,
}

impl Case {
    /// One run for each phase and store.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        let systems = 0..SYSTEMS.len();
        self.lines.iter().flat_map(move |line| systems.clone().map(|system| self.run(line, system)))
    }

    fn run(&self, line: &Line, system: usize) -> Run {
        let name = RunName {
            store: NAMES[system],
            workload: "zarr",
            phase: &line.phase,
            procs: self.procs,
            size_bytes: self.size_bytes,
        };
        line.run(&name, |system| NAMES[system], system, None)
    }

    /// Row of a phase in the table.
    pub(super) fn row(&self, line: &Line) -> Vec<String> {
        let mut row = vec![
            Bytes(self.size_bytes).to_string(),
            self.procs.to_string(),
            line.title.clone(),
            format!("{:.0}", line.median(ESKER)),
            format!("{:.0}", line.median(LOCAL)),
        ];
        let ratios = line.spread(ESKER, LOCAL);
        row.extend(ratios.map(|ratio| or_dash(ratio.map(|ratio| format!("{ratio:.2}")))));
        let tally = line.tally(ESKER);
        row.push(or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))));
        row
    }
}
