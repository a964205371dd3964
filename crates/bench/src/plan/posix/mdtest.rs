//! `esker bench mdtest`: many small operations on names.
use super::super::Note;
use super::{FileSystems, Line, Outcome, Sample, Setting, WARM_UP, Workers};
use crate::measure::Measured;
use crate::posix::mdtest::{Kind, MdtestStep, Options, Phase};
use crate::posix::worker::{Done, Load, PosixStep};
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde_json::Value;

/// Plan of `esker bench mdtest`.
#[derive(Clone, Debug)]
pub struct MdtestPlan {
    /// Settings of both benchmarks.
    pub setting: Setting,
    /// Options of the work.
    pub options: Options,
    /// Kinds of items, in the order of measurement.
    pub kinds: Vec<Kind>,
    /// Create items.
    pub create: bool,
    /// Examine items.
    pub stat: bool,
    /// List directories.
    pub list: bool,
    /// Read files.
    pub read: bool,
    /// Remove items.
    pub remove: bool,
    /// All options, for the report.
    pub told: Value,
}

/// The state between phases.
struct Run<'p> {
    plan: &'p MdtestPlan,
    workers: Workers,
    lines: Vec<Line>,
    /// Files of each process, by system: fewer than wanted after a stonewall.
    files: Vec<u64>,
    systems: &'p FileSystems,
    /// Maximum number of files in the container, and the size of the pool's index at that time.
    index: Option<(u64, u64)>,
}

impl MdtestPlan {
    /// Measures all systems.
    ///
    /// # Errors
    /// If an option is invalid; errors of the file systems; with [`Options::verify`], [`ErrorKind::Corrupt`] if the
    /// data read is not that written.
    pub fn run(&self, systems: &FileSystems, note: Note<'_>) -> Result<Outcome> {
        self.setting.check()?;
        self.options.check()?;
        let workers =
            Workers::start(&self.setting, &systems.all, &Load::Mdtest(self.options.clone()))?;
        let files = vec![self.options.items(); systems.all.len()];
        let lines = self.titles(systems.all.len());
        let mut run = Run { plan: self, workers, lines, files, systems, index: None };
        let warm_up = self.create && self.remove;
        self.setting.iterate(warm_up, |iteration| run.iteration(iteration, note))?;
        let Run { workers, lines, index, .. } = run;
        let work = ("mdtest", self.options.write_bytes.max(self.options.read_bytes));
        let outcome = self.setting.outcome(work, systems, lines, &self.told);
        Ok(Outcome { notes: notes(systems, &workers, index), ..outcome })
    }

    /// The phases in the order of mdtest's table, which ends with the tree.
    fn titles(&self, systems: usize) -> Vec<Line> {
        let of_items = |phase: &Phase| !matches!(phase, Phase::TreeCreate | Phase::TreeRemove);
        let mut phases: Vec<_> = self.phases().into_iter().filter(of_items).collect();
        if let Some(at) = phases.iter().position(|phase| *phase == Phase::Create(Kind::File)) {
            phases.insert(at + 1, Phase::Create(Kind::File));
        }
        phases.extend([Phase::TreeCreate, Phase::TreeRemove]);
        let mut lines: Vec<Line> = Vec::new();
        for phase in phases {
            let again = lines.iter().any(|line| line.title == phase.title());
            let (title, name) = match again {
                true => {
                    (format!("{}{STONEWALL}", phase.title()), format!("{}-stonewall", phase.name()))
                }
                false => (phase.title().to_owned(), phase.name()),
            };
            lines.push(Line::new(&title, &name, systems));
        }
        lines
    }

    fn phases(&self) -> Vec<Phase> {
        let mut phases = Vec::new();
        phases.extend(self.create.then_some(Phase::TreeCreate));
        for &kind in &self.kinds {
            phases.extend(self.create.then_some(Phase::Create(kind)));
            phases.extend(self.stat.then_some(Phase::Stat(kind)));
            phases.extend(self.list.then_some(Phase::List(kind)));
            phases.extend((self.read && kind == Kind::File).then_some(Phase::Read));
            phases.extend(self.remove.then_some(Phase::Remove(kind)));
        }
        phases.extend(self.remove.then_some(Phase::TreeRemove));
        phases
    }

    /// Number of files and directories of all processes.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let each = self.options.items().saturating_mul(self.kinds.len() as u64);
        let trees = if self.options.unique { u64::from(self.setting.procs) } else { 1 };
        let directories = self.options.tree.directories().unwrap_or(0).saturating_mul(trees);
        each.saturating_mul(u64::from(self.setting.procs)).saturating_add(directories)
    }

    /// Bytes in the files of all processes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let files = self.options.items().saturating_mul(u64::from(self.setting.procs));
        files.saturating_mul(self.options.write_bytes)
    }
}

fn notes(systems: &FileSystems, workers: &Workers, index: Option<(u64, u64)>) -> Vec<String> {
    let memory = systems.all.iter().zip(workers.memory());
    let said = memory.map(|(system, (peak, own))| {
        let (own, peak) = (Bytes(*own), Bytes(*peak));
        format!("{} {own} private, {peak} peak with shared memory", system.name)
    });
    let mut notes = vec![format!("memory of a process: {}", said.collect::<Vec<_>>().join("; "))];
    notes.extend(index.map(|(files, bytes)| {
        let each = bytes / files.max(1);
        format!("index of the pool with {files} files: {} ({each} bytes each)", Bytes(bytes))
    }));
    notes
}

const STONEWALL: &str = " (stonewall)";

impl Run<'_> {
    /// The systems alternate in each phase.
    fn iteration(&mut self, iteration: u32, note: Note<'_>) -> Result<()> {
        let systems = self.files.len();
        self.top(iteration, Phase::TopCreate, self.plan.create)?;
        for phase in self.plan.phases() {
            self.plan.setting.report_progress(iteration, phase.title(), note);
            for system in 0..systems {
                self.phase(system, iteration, phase)?;
            }
        }
        self.top(iteration, Phase::TopRemove, self.plan.remove)
    }

    fn top(&mut self, iteration: u32, phase: Phase, wanted: bool) -> Result<()> {
        let step = MdtestStep { phase, iteration, first: 0, end: 0, seconds: None };
        let mut systems = 0..if wanted { self.files.len() } else { 0 };
        systems.try_for_each(|system| self.workers.all(system, PosixStep::Mdtest(step)).map(|_| ()))
    }

    fn phase(&mut self, system: usize, iteration: u32, phase: Phase) -> Result<()> {
        let is_walled = phase == Phase::Create(Kind::File);
        let seconds = self.plan.setting.stonewall_s.filter(|_| is_walled);
        let end = if phase.kind() == Kind::File && !is_walled {
            self.files[system]
        } else {
            self.plan.options.items()
        };
        let step = MdtestStep { phase, iteration, first: 0, end, seconds };
        let done = measured(self.workers.all(system, PosixStep::Mdtest(step))?);
        let rounds = match seconds {
            Some(_) => self.wear_out(system, &step, done)?,
            None => vec![done],
        };
        let sample = Sample::from_rounds(iteration, &rounds);
        if let Phase::List(kind) = phase {
            self.check_listed(system, kind, sample.tally.ops)?;
        }
        if let Some(bytes) = self.systems.index_bytes().filter(|_| is_walled && system == 0) {
            self.index = Some((sample.tally.ops, bytes));
        }
        self.note(system, phase.title(), sample);
        Ok(())
    }

    /// After the stonewall, all processes continue until they have created as many files as the fastest.
    fn wear_out(
        &mut self,
        system: usize,
        step: &MdtestStep,
        done: Vec<Measured>,
    ) -> Result<Vec<Vec<Measured>>> {
        let title = format!("{}{STONEWALL}", step.phase.title());
        self.note(system, &title, Sample::from_rounds(step.iteration, std::slice::from_ref(&done)));
        let most = done.iter().map(|one| one.ops).max().unwrap_or(0);
        self.files[system] = most;
        let rest = |one: &Measured| {
            PosixStep::Mdtest(MdtestStep { first: one.ops, end: most, seconds: None, ..*step })
        };
        let rest = self.workers.each(system, &done.iter().map(rest).collect::<Vec<_>>())?;
        Ok(vec![done, measured(rest)])
    }

    /// The warm-up is not recorded.
    fn note(&mut self, system: usize, title: &str, sample: Sample) {
        let line = self.lines.iter_mut().find(|line| line.title == title);
        if let Some(line) = line.filter(|_| sample.iteration != WARM_UP) {
            line.samples[system].push(sample);
        }
    }

    /// Each directory except the root of a tree is an entry of another one.
    fn check_listed(&self, system: usize, kind: Kind, found: u64) -> Result<()> {
        let Options { tree, unique, .. } = &self.plan.options;
        let trees = if *unique { u64::from(self.plan.setting.procs) } else { 1 };
        let each = if kind == Kind::File { self.files[system] } else { self.plan.options.items() };
        let inner = tree.directories().unwrap_or(1).saturating_sub(1);
        let expected = each * u64::from(self.plan.setting.procs) + trees * inner;
        match found == expected {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                format!("listing found {found} of {expected} names"),
            )),
        }
    }
}

fn measured(done: Vec<Done>) -> Vec<Measured> {
    done.into_iter().flat_map(|one| one.parts).collect()
}
