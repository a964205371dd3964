//! `esker bench mdtest`: many small operations on names.
use super::super::{Benchmark, Measurement, Note, parse_procs};
use super::command::{Common, Original, Refused, Work};
use super::{FileSystems, Line, Outcome, Sample, Setting, WARM_UP, Workers};
use crate::errors::ensure_intact;
use crate::measure::Measured;
use crate::posix::Done;
use crate::posix::mdtest::{Kind, MdtestStep, Options, Phase};
use crate::processes::WorkerKind;
use clap::Args;
use esker_cli::units::Bytes;
use esker_types::Result;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Measure metadata: create, examine, read and remove directories and files, as mdtest does
#[derive(Args)]
#[command(after_long_help = include_str!("../../help/mdtest.txt").trim_end())]
pub struct Mdtest {
    /// Directory of the test tree
    #[arg(short = 'd', value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    plan: MdtestPlan,
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    #[arg(value_parser = parse_procs)]
    procs: u32,
    /// Stonewall: end the creation of files after this time
    #[arg(short = 'W', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Pause before each iteration
    #[arg(short = 'p', value_name = "SECONDS", default_value_t = 0)]
    delay: u32,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    _refused: Refused<Mdtest>,
}

impl Original for Mdtest {
    const NAME: &'static str = "mdtest";
    const REFUSED: &'static str = include_str!("../../help/mdtest-refused.txt");
}

impl Benchmark for Mdtest {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let Self { plan, common, folder, .. } = self;
        let setting = common.setting(self.procs, self.delay, self.stonewall);
        let work = Work {
            genuine: ("mdtest", plan.genuine(&setting)),
            folder: folder.clone(),
            cleared: plan.clears(),
            bytes: plan.bytes(setting.procs),
            entries: plan.entries(setting.procs),
        };
        let measure = |systems: &FileSystems, note: Note<'_>| {
            let mut outcome = plan.run(&setting, systems, note)?;
            let folder = json!(folder.display().to_string());
            outcome.settings.options.insert("folder".to_owned(), folder);
            Ok(outcome)
        };
        common.run(&work, measure, note)
    }
}

/// Plan of `esker bench mdtest`.
#[derive(Clone, Debug, Default, Args)]
pub struct MdtestPlan {
    /// Options of the work.
    #[command(flatten)]
    pub options: Options,
    /// Files only
    #[arg(short = 'F')]
    pub files_only: bool,
    /// Directories only
    #[arg(short = 'D', conflicts_with = "files_only")]
    pub directories_only: bool,
    /// Create; with any of -C, -T, -E and -r, only these phases are measured
    #[arg(short = 'C')]
    pub create: bool,
    /// Examine (stat)
    #[arg(short = 'T')]
    pub stat: bool,
    /// Open, read and close files
    #[arg(short = 'E')]
    pub read: bool,
    /// Remove
    #[arg(short = 'r')]
    pub remove: bool,
    /// List the directories too, after -T; rates are names per second
    #[arg(long)]
    pub list: bool,
}

/// The state between phases.
struct Run<'p> {
    plan: &'p MdtestPlan,
    setting: &'p Setting,
    workers: Workers<MdtestStep>,
    lines: Vec<Line>,
    /// Files of each process, by system: fewer than wanted after a stonewall.
    files: Vec<u64>,
    systems: &'p FileSystems,
    /// Maximum number of files in the container, and the size of the pool's index at that time.
    index: Option<(u64, u64)>,
}

impl MdtestPlan {
    /// Measures all systems.
    pub fn run(&self, setting: &Setting, systems: &FileSystems, note: Note<'_>) -> Result<Outcome> {
        setting.check()?;
        self.options.check()?;
        let workers = Workers::start(WorkerKind::Mdtest, setting, &systems.all, &self.options)?;
        let files = vec![self.options.items(); systems.all.len()];
        let lines = self.titles(systems.all.len());
        let mut run = Run { plan: self, setting, workers, lines, files, systems, index: None };
        let warm_up = self.clears();
        setting.iterate(warm_up, |iteration| run.measure_iteration(iteration, note))?;
        let Run { workers, lines, index, .. } = run;
        let work = ("mdtest", self.options.write_bytes.max(self.options.read_bytes));
        let outcome = setting.outcome(work, systems, lines, &self.options_json(setting));
        Ok(Outcome { notes: notes(systems, &workers, index), ..outcome })
    }

    /// The phases in the order of mdtest's table, which ends with the tree.
    fn titles(&self, systems: usize) -> Vec<Line> {
        let mut titles = Vec::new();
        let is_tree = |phase: &Phase| matches!(phase, Phase::TreeCreate | Phase::TreeRemove);
        for phase in self.phases().into_iter().filter(|phase| !is_tree(phase)) {
            titles.push(phase.title().to_owned());
            titles.extend((phase == Phase::Create(Kind::File)).then(|| walled_title(phase)));
        }
        titles.extend([Phase::TreeCreate, Phase::TreeRemove].map(|phase| phase.title().to_owned()));
        titles.iter().map(|title| Line::new(title, systems)).collect()
    }

    /// True if a phase is measured: its option is `given`, or no option selects phases, so that all are measured.
    pub(super) fn measures(&self, given: bool) -> bool {
        given || !(self.create || self.stat || self.read || self.remove)
    }

    /// True if everything is created and removed again.
    pub fn clears(&self) -> bool {
        self.measures(self.create) && self.measures(self.remove)
    }

    /// Kinds of items, in the order of measurement.
    fn kinds(&self) -> &'static [Kind] {
        match (self.files_only, self.directories_only) {
            (true, _) => &[Kind::File],
            (_, true) => &[Kind::Directory],
            _ => &[Kind::Directory, Kind::File],
        }
    }

    /// The phases that were asked for, in order.
    fn phases(&self) -> Vec<Phase> {
        let [create, stat, read, remove] =
            [self.create, self.stat, self.read, self.remove].map(|given| self.measures(given));
        let mut phases = Vec::new();
        phases.extend(create.then_some(Phase::TreeCreate));
        for &kind in self.kinds() {
            phases.extend(create.then_some(Phase::Create(kind)));
            phases.extend(stat.then_some(Phase::Stat(kind)));
            phases.extend(self.list.then_some(Phase::List(kind)));
            phases.extend((read && kind == Kind::File).then_some(Phase::Read));
            phases.extend(remove.then_some(Phase::Remove(kind)));
        }
        phases.extend(remove.then_some(Phase::TreeRemove));
        phases
    }

    /// All options, for the report. The directory is that of the command.
    fn options_json(&self, setting: &Setting) -> Value {
        let work = &self.options;
        json!({
            "items": work.items(), "depth": work.tree.depth, "branch": work.tree.branch,
            "leaf_only": work.tree.leaf_only, "unique": work.unique, "stride": work.stride,
            "write_bytes": work.write_bytes, "read_bytes": work.read_bytes, "sync": work.sync,
            "verified": work.verify, "random_stat": work.random_stat,
            "stonewall_s": setting.stonewall_s,
        })
    }

    /// Number of files and directories of `procs` processes.
    pub fn entries(&self, procs: u32) -> u64 {
        let each = self.options.items().saturating_mul(self.kinds().len() as u64);
        let trees = if self.options.unique { u64::from(procs) } else { 1 };
        let directories = self.options.tree.directories().unwrap_or(0).saturating_mul(trees);
        each.saturating_mul(u64::from(procs)).saturating_add(directories)
    }

    /// Bytes in the files of `procs` processes.
    pub fn bytes(&self, procs: u32) -> u64 {
        let files = self.options.items().saturating_mul(u64::from(procs));
        files.saturating_mul(self.options.write_bytes)
    }
}

/// Remarks for the report: memory of the processes, and growth of the index.
fn notes(
    systems: &FileSystems,
    workers: &Workers<MdtestStep>,
    index: Option<(u64, u64)>,
) -> Vec<String> {
    let memory = systems.all.iter().zip(&workers.memory);
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

/// Title of the rates up to the stonewall.
fn walled_title(phase: Phase) -> String {
    format!("{} (stonewall)", phase.title())
}

impl Run<'_> {
    /// Measures one iteration. Within each phase all systems have their turn, so that a change of the machine's speed
    /// affects all.
    fn measure_iteration(&mut self, iteration: u32, note: Note<'_>) -> Result<()> {
        let systems = self.files.len();
        self.change_top_directories(
            iteration,
            Phase::TopCreate,
            self.plan.measures(self.plan.create),
        )?;
        for phase in self.plan.phases() {
            self.setting.report_progress(iteration, phase.title(), note);
            for system in 0..systems {
                self.measure_phase(system, iteration, phase)?;
            }
        }
        self.change_top_directories(
            iteration,
            Phase::TopRemove,
            self.plan.measures(self.plan.remove),
        )
    }

    /// Creates or removes the top directories on all systems.
    fn change_top_directories(&mut self, iteration: u32, phase: Phase, wanted: bool) -> Result<()> {
        let step = MdtestStep { phase, iteration, first: 0, end: 0, seconds: None };
        let mut systems = 0..if wanted { self.files.len() } else { 0 };
        systems.try_for_each(|system| self.workers.all(system, step).map(drop))
    }

    /// Measures one phase on one system.
    fn measure_phase(&mut self, system: usize, iteration: u32, phase: Phase) -> Result<()> {
        let is_walled = phase == Phase::Create(Kind::File);
        let seconds = self.setting.stonewall().filter(|_| is_walled);
        let end = if phase.kind() == Kind::File && !is_walled {
            self.files[system]
        } else {
            self.plan.options.items()
        };
        let step = MdtestStep { phase, iteration, first: 0, end, seconds };
        let done = measured(self.workers.all(system, step)?);
        let mut sample = Sample::new(iteration, &done);
        if seconds.is_some() {
            self.note(system, &walled_title(phase), sample.clone());
            sample.tally.add_round(&self.wear_out(system, &step, &done)?);
        }
        if let Phase::List(kind) = phase {
            self.check_listed(system, kind, sample.tally.ops)?;
        }
        if let Some(bytes) = self.systems.index_bytes().filter(|_| is_walled && system == 0) {
            self.index = Some((sample.tally.ops, bytes));
        }
        self.note(system, phase.title(), sample);
        Ok(())
    }

    /// After the time limit, makes slower processes continue until all have created as many files as the fastest one.
    /// Returns the times of this second part, which is empty if all processes have created the same number.
    fn wear_out(
        &mut self,
        system: usize,
        step: &MdtestStep,
        done: &[Measured],
    ) -> Result<Vec<Measured>> {
        let most = done.iter().map(|one| one.ops).max().unwrap_or(0);
        self.files[system] = most;
        if done.iter().all(|one| one.ops == most) {
            return Ok(Vec::new());
        }
        let rest =
            |one: &Measured| MdtestStep { first: one.ops, end: most, seconds: None, ..*step };
        let rest: Vec<_> = done.iter().map(rest).collect();
        let rest = measured(self.workers.each(system, &rest)?);
        Ok(rest.into_iter().filter(|one| one.ops > 0).collect())
    }

    /// Records a sample. Those of the warm-up are dropped.
    fn note(&mut self, system: usize, title: &str, sample: Sample) {
        let line = self.lines.iter_mut().find(|line| line.title == title);
        if let Some(line) = line.filter(|_| sample.iteration != WARM_UP) {
            line.samples[system].push(sample);
        }
    }

    /// Checks the number of listed names: all items, and each directory of a tree except its root.
    fn check_listed(&self, system: usize, kind: Kind, found: u64) -> Result<()> {
        let Options { tree, unique, .. } = &self.plan.options;
        let trees = if *unique { u64::from(self.setting.procs) } else { 1 };
        let each = if kind == Kind::File { self.files[system] } else { self.plan.options.items() };
        let inner = tree.directories().unwrap_or(1).saturating_sub(1);
        let expected = each * u64::from(self.setting.procs) + trees * inner;
        ensure_intact(found == expected, || format!("listing found {found} of {expected} names"))
    }
}

fn measured(done: Vec<Done>) -> Vec<Measured> {
    done.into_iter().flat_map(|one| one.parts).collect()
}
