//! Measurements by phase, system and repeat.
use crate::fields::Phase;
use crate::host::Host;
use crate::measure::Tally;
use crate::plan::posix::{Line, Sample};
use crate::report::{Report, Run, RunName, Settings};

/// Indexes of the compared systems: the store, one plain file for each field, the medium, a real FDB.
pub(super) const ESKER: usize = 0;
pub(super) const FILES: usize = 1;
pub(super) const MEDIUM: usize = 2;
pub(super) const PEER: usize = 3;
pub(super) const SYSTEMS: usize = 4;

/// All measurements of one call.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By number of processes.
    pub cases: Vec<Case>,
    /// Bytes of a field.
    pub size_bytes: u64,
    /// Every write waited for the medium.
    pub durable: bool,
    /// The machine.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
    /// Name of the store: the scheme of its URL.
    pub store: String,
    /// Reasons for omitted measurements, and other remarks.
    pub notes: Vec<String>,
}

/// The measurements with one number of processes.
#[derive(Clone, Debug)]
pub struct Case {
    /// Processes that archived and retrieved.
    pub procs: u32,
    /// The phases.
    pub lines: Lines,
}

/// Phases in the order of measurement. A line also has the measurements of the medium and of plain files to compare
/// with.
#[derive(Clone, Debug, Default)]
pub struct Lines(Vec<(Phase, Line)>);

/// The phase whose line has the measurements of the medium and of plain files for `phase`.
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
        let line = self.line(compared.unwrap_or(phase));
        if let Some(samples) = line.samples.get_mut(system) {
            samples.push(sample);
        }
    }

    fn line(&mut self, phase: Phase) -> &mut Line {
        let at = self.0.iter().position(|(known, _)| *known == phase).unwrap_or_else(|| {
            self.0.push((phase, Line::new(phase.name(), phase.name(), SYSTEMS)));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Each phase of the store, with the corresponding measurements of the other systems.
    pub(super) fn compared(&self) -> impl Iterator<Item = (Phase, Line)> {
        self.0.iter().map(|(phase, line)| {
            let mut line = line.clone();
            let of = |wanted| self.0.iter().find(|(known, _)| *known == wanted);
            if let Some((_, base)) = base(*phase).and_then(of) {
                line.samples[FILES].clone_from(&base.samples[FILES]);
                line.samples[MEDIUM].clone_from(&base.samples[MEDIUM]);
            }
            if let Some((_, same)) = phase.from_python().and_then(of) {
                line.samples[PEER].clone_from(&same.samples[PEER]);
            }
            (*phase, line)
        })
    }

    /// Ratio of scattered reads to reads in order.
    pub(super) fn scattered(&self) -> Option<f64> {
        let of = |wanted| self.0.iter().find(|(phase, _)| *phase == wanted).map(|(_, line)| line);
        let mut both = of(Phase::Scattered)?.clone();
        both.samples[FILES].clone_from(&of(Phase::InOrder)?.samples[ESKER]);
        both.ratio(ESKER, FILES)
    }
}

impl Outcome {
    /// One run for each phase and system.
    #[must_use]
    pub fn report(&self) -> Report {
        let runs = self.cases.iter().flat_map(|case| self.runs(case)).collect();
        Report::new(self.host.clone(), self.settings.clone(), runs)
    }

    fn runs(&self, case: &Case) -> Vec<Run> {
        let mut runs = Vec::new();
        for (phase, line) in case.lines.compared() {
            let own = base(phase) == Some(phase);
            let systems = [MEDIUM, FILES, ESKER, PEER].into_iter();
            let systems = systems.filter(|&system| own || [ESKER, PEER].contains(&system));
            let systems =
                systems.filter(|&system| system == ESKER || phase.from_python().is_none());
            let systems = systems.filter(|&system| !line.rates(system).is_empty());
            runs.extend(systems.map(|system| self.run(case.procs, phase, &line, system)));
        }
        runs
    }

    fn run(&self, procs: u32, phase: Phase, line: &Line, system: usize) -> Run {
        let name = RunName {
            store: self.name(system),
            workload: "fields",
            phase: if system == MEDIUM { self.limit_name(phase) } else { phase.name() },
            procs,
            // Messages of a file differ in length: this is the mean.
            size_bytes: match phase {
                Phase::ArchiveGrib => line.tally(system).bytes / line.tally(system).ops.max(1),
                _ => self.size_bytes,
            },
        };
        let limit = Some(line.tally(MEDIUM)).filter(|_| system != MEDIUM);
        line.run(&name, |system| self.name(system), system, limit.as_ref())
    }

    pub(super) fn name(&self, system: usize) -> &str {
        match system {
            ESKER => &self.store,
            FILES => "files",
            MEDIUM => "medium",
            _ => "pyfdb",
        }
    }

    fn limit_name(&self, phase: Phase) -> &'static str {
        match (phase, self.durable) {
            (Phase::Archive, true) => Phase::PwriteSync.name(),
            (Phase::Archive, false) => Phase::Pwrite.name(),
            _ => Phase::Pread.name(),
        }
    }
}

/// The share of the limit, over all repeats.
pub(super) fn share(tally: &Tally, limit: &Tally) -> Option<f64> {
    let limit = limit.bandwidth_mib_s();
    (limit > 0.0 && tally.bytes > 0).then(|| tally.bandwidth_mib_s() / limit)
}
