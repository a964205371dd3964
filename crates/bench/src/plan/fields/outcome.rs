//! Measurements of the field benchmark, by phase, system and repeat, and their table.
use crate::fields::Phase;
use crate::measure::Tally;
use crate::metrics::Statistics;
use crate::names::Named;
use crate::plan::lines::{Line, Sample};
use crate::report::{Run, RunName};
use crate::table::{Table, new_table, or_dash};

pub(super) const LEGEND: &str = "\
fields/s: median of the repeats, +- its standard deviation. of medium: share of the rate of pwrite or pread of the same \
blocks. files: one plain file per field, and the ratio of the store to it (median of the ratios of the repeats). pyfdb: \
the same for a real FDB. Latencies of list and axes are of one call. Those of watch run from the start of a flush until \
a reader sees a field of it.";

/// Indexes of the compared systems: the store, one plain file for each field, the medium, a real FDB (the peer).
pub(super) const ESKER: usize = 0;
pub(super) const FILES: usize = 1;
pub(super) const MEDIUM: usize = 2;
pub(super) const PEER: usize = 3;
pub(super) const SYSTEMS: usize = 4;

/// The measurements with one number of processes.
pub(super) struct Case<'n> {
    /// Processes that archived and retrieved.
    pub(super) procs: u32,
    /// The phases.
    pub(super) lines: Lines,
    /// Bytes of a field.
    pub(super) size_bytes: u64,
    /// Every write waited for the medium.
    pub(super) durable: bool,
    /// Name of the store: the scheme of its URL.
    pub(super) store: &'n str,
}

/// Phases in the order of measurement. A line also has the measurements of the medium and of plain files to compare
/// with.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Vec<(Phase, Line)>);

/// The phase whose line has the measurements of the medium and of plain files with which `phase` is compared. `None` if
/// it is not compared with any.
fn base(phase: Phase) -> Option<Phase> {
    match phase {
        Phase::Archive | Phase::FileWrite | Phase::Pwrite | Phase::PwriteSync => {
            Some(Phase::Archive)
        }
        Phase::Retrieve
        | Phase::FileRead
        | Phase::Pread
        | Phase::Request
        | Phase::InOrder
        | Phase::Scattered
        | Phase::PythonRetrieve
        | Phase::PythonRequest
        | Phase::PythonViews => Some(Phase::Retrieve),
        Phase::ArchiveGrib | Phase::GribFiles => Some(Phase::ArchiveGrib),
        _ => None,
    }
}

impl Lines {
    /// Adds a measurement of a system.
    pub(super) fn add(&mut self, system: usize, phase: Phase, sample: Sample) {
        let compared = [FILES, MEDIUM].contains(&system).then(|| base(phase)).flatten();
        self.line(compared.unwrap_or(phase)).samples[system].push(sample);
    }

    /// The line of a phase in the report; adds an empty one if there is none.
    fn line(&mut self, phase: Phase) -> &mut Line {
        let at = self.0.iter().position(|(known, _)| *known == phase).unwrap_or_else(|| {
            self.0.push((phase, Line::new(&phase.name(), SYSTEMS)));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Each phase of the store, with the corresponding measurements of the other systems.
    pub(super) fn compared(&self) -> impl Iterator<Item = (Phase, Line)> {
        self.0.iter().map(|(phase, line)| {
            let mut line = line.clone();
            let find = |wanted| self.0.iter().find(|(known, _)| *known == wanted);
            if let Some((_, base)) = base(*phase).and_then(find) {
                line.samples[FILES].clone_from(&base.samples[FILES]);
                line.samples[MEDIUM].clone_from(&base.samples[MEDIUM]);
            }
            if let Some((_, same)) = phase.from_python().and_then(find) {
                line.samples[PEER].clone_from(&same.samples[PEER]);
            }
            (*phase, line)
        })
    }

    /// Ratio of scattered reads to reads in order.
    pub(super) fn scattered(&self) -> Option<f64> {
        let find = |wanted| self.0.iter().find(|(phase, _)| *phase == wanted).map(|(_, line)| line);
        // `Line::ratio` compares two systems of one line. So the reads in order are put where the files would be.
        let mut both = find(Phase::Scattered)?.clone();
        both.samples[FILES].clone_from(&find(Phase::InOrder)?.samples[ESKER]);
        both.ratio(ESKER, FILES)
    }
}

impl Case<'_> {
    /// One run for each phase and system.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for (phase, line) in self.lines.compared() {
            let own = base(phase) == Some(phase);
            let systems = [MEDIUM, FILES, ESKER, PEER].into_iter().filter(|&system| {
                let compared = match system {
                    ESKER => true,
                    PEER => phase.from_python().is_none(),
                    _ => own,
                };
                compared && !line.samples_of(system).is_empty()
            });
            runs.extend(systems.map(|system| self.run(phase, &line, system)));
        }
        runs
    }

    /// The run of a system in a phase. The run of the medium has the name of the phase that measured it: `pwrite`,
    /// `pwrite+sync` or `pread`.
    fn run(&self, phase: Phase, line: &Line, system: usize) -> Run {
        let limit_phase = match (phase, self.durable) {
            (Phase::Archive, true) => Phase::PwriteSync,
            (Phase::Archive, false) => Phase::Pwrite,
            _ => Phase::Pread,
        };
        let name = RunName {
            store: self.store,
            workload: "fields",
            phase: &if system == MEDIUM { limit_phase } else { phase }.name(),
            procs: self.procs,
            // Messages of a GRIB file differ in length. This is the mean.
            size_bytes: match phase {
                Phase::ArchiveGrib => line.tally(system).bytes / line.tally(system).ops.max(1),
                _ => self.size_bytes,
            },
        };
        let limit = Some(line.tally(MEDIUM)).filter(|_| system != MEDIUM);
        line.run(&[self.store, "files", "medium", "pyfdb"], &name, system, limit.as_ref())
    }
}

/// The table of all cases, with the columns of the peer if there is one.
pub(super) fn table(cases: &[Case<'_>]) -> Table {
    let lines =
        || cases.iter().flat_map(|case| case.lines.compared().map(move |line| (case.procs, line)));
    let peer = lines().any(|(_, (_, line))| !line.rates(PEER).is_empty());
    let pyfdb = if peer { "|>pyfdb|>x pyfdb" } else { "" };
    let mut table = new_table(&format!("{OF_STORE}{pyfdb}|>p50 us|>p99 us"));
    lines().for_each(|(procs, (phase, line))| table.row(row(procs, phase, &line, peer)));
    table
}

const OF_STORE: &str = "phase|>procs|>fields/s|>+-|>MiB/s|>of medium|>files|>x files";

/// A row of the table.
fn row(procs: u32, phase: Phase, line: &Line, peer: bool) -> Vec<String> {
    let (rates, tally) = (Statistics::rounded(&line.rates(ESKER)), line.tally(ESKER));
    let mut row = vec![
        phase.name(),
        procs.to_string(),
        format!("{:.0}", rates.median),
        format!("{:.0}", rates.stddev),
        or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))),
        or_dash(share(&tally, &line.tally(MEDIUM)).map(|share| format!("{share:.2}"))),
    ];
    row.extend(other_system(line, FILES));
    row.extend(peer.then(|| other_system(line, PEER)).into_iter().flatten());
    row.extend([50.0, 99.0].map(|percent| format!("{:.1}", tally.latency.percentile_us(percent))));
    row
}

/// The rate of another system, and the ratio of the store to it.
fn other_system(line: &Line, other: usize) -> [String; 2] {
    let rate = Some(line.median(other)).filter(|rate| *rate > 0.0);
    let times = line.ratio(ESKER, other).map(|times| format!("{times:.2}"));
    [or_dash(rate.map(|rate| format!("{rate:.0}"))), or_dash(times)]
}

/// Bandwidth of a system as a share of that of the medium (`limit`), over all repeats. `None` if the medium was not
/// measured, or the phase transfers no data.
fn share(tally: &Tally, limit: &Tally) -> Option<f64> {
    let limit = limit.bandwidth_mib_s();
    (limit > 0.0 && tally.bytes > 0).then(|| tally.bandwidth_mib_s() / limit)
}
