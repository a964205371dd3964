//! `esker bench mdtest`: many small operations on names.
use super::super::Note;
use super::{Crew, Line, Outcome, Sample, Setting, Sites};
use crate::measure::Measured;
use crate::posix::mdtest::{Kind, MdtestStep, Options, Phase};
use crate::posix::worker::{Done, Load, PosixStep};
use crate::report::Settings;
use crate::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// What to measure.
#[derive(Clone, Debug)]
pub struct MdtestPlan {
    /// What both benchmarks are told.
    pub setting: Setting,
    /// The work.
    pub options: Options,
    /// Items that are measured, in this order.
    pub kinds: Vec<Kind>,
    /// Items are made.
    pub create: bool,
    /// Items are looked at.
    pub stat: bool,
    /// Directories are listed.
    pub list: bool,
    /// Files are read.
    pub read: bool,
    /// Items are removed.
    pub remove: bool,
    /// All options, for the report.
    pub told: Map<String, Value>,
}

/// What goes on from phase to phase.
struct Run<'p> {
    plan: &'p MdtestPlan,
    crew: Crew,
    lines: Vec<Line>,
    /// Files of each process, by site: fewer than wanted where the stonewall came first.
    files: Vec<u64>,
    sites: &'p Sites,
    /// Most files there were in the container, and bytes of its pool's index then.
    index: Option<(u64, u64)>,
}

const WARM_UP: u32 = 0;

impl MdtestPlan {
    /// Measures all sites.
    ///
    /// # Errors
    /// Where a number makes no sense, what the file systems meet, and with [`Options::verify`]
    /// [`ErrorKind::Corrupt`] where something else was read than was written.
    pub fn run(&self, sites: &Sites, note: Note<'_>) -> Result<Outcome> {
        self.setting.check()?;
        self.options.check()?;
        let crew = Crew::start(&self.setting, &sites.all, &Load::Mdtest(self.options.clone()))?;
        let files = vec![self.options.items(); sites.all.len()];
        let lines = self.titles(sites.all.len());
        let mut run = Run { plan: self, crew, lines, files, sites, index: None };
        let first = if self.create && self.remove { WARM_UP } else { 1 };
        for iteration in first..=self.setting.iterations {
            self.setting.pause()?;
            run.iteration(iteration, note)?;
        }
        let Run { crew, lines, index, .. } = run;
        Ok(Outcome {
            workload: "mdtest",
            procs: self.setting.procs,
            size_bytes: self.options.write_bytes.max(self.options.read_bytes),
            notes: notes(sites, &crew, index),
            sites: sites.all.clone(),
            missing: sites.missing.clone(),
            host: sites.host.clone(),
            settings: Settings::new(self.setting.seed, self.told.clone()),
            lines: lines.into_iter().filter(|line| !line.rates(0).is_empty()).collect(),
        })
    }

    /// Each phase where the table has it: that of mdtest ends with the tree.
    fn titles(&self, sites: usize) -> Vec<Line> {
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
            lines.push(Line::new(&title, &name, sites));
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

    /// What the file systems must have room for: files and directories of all processes.
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

fn notes(sites: &Sites, crew: &Crew, index: Option<(u64, u64)>) -> Vec<String> {
    let memory = sites.all.iter().zip(crew.memory());
    let said = memory.map(|(site, (peak, own))| {
        let (own, peak) = (Bytes(*own), Bytes(*peak));
        format!("{} {own} of its own, {peak} at most with what is shared", site.name)
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
    /// All sites take turns in each phase.
    fn iteration(&mut self, iteration: u32, note: Note<'_>) -> Result<()> {
        let sites = self.files.len();
        let of = self.plan.setting.iterations;
        self.top(iteration, Phase::TopCreate, self.plan.create)?;
        for phase in self.plan.phases() {
            match iteration {
                WARM_UP => note(&format!("warming up: {}", phase.title())),
                _ => note(&format!("iteration {iteration} of {of}: {}", phase.title())),
            }
            for site in 0..sites {
                self.phase(site, iteration, phase)?;
            }
        }
        self.top(iteration, Phase::TopRemove, self.plan.remove)
    }

    fn top(&mut self, iteration: u32, phase: Phase, wanted: bool) -> Result<()> {
        let step = MdtestStep { phase, iteration, first: 0, end: 0, seconds: None };
        let mut sites = 0..if wanted { self.files.len() } else { 0 };
        sites.try_for_each(|site| self.crew.all(site, PosixStep::Mdtest(step)).map(|_| ()))
    }

    fn phase(&mut self, site: usize, iteration: u32, phase: Phase) -> Result<()> {
        let is_walled = phase == Phase::Create(Kind::File);
        let seconds = self.plan.setting.stonewall_s.filter(|_| is_walled);
        let end = if phase.kind() == Kind::File && !is_walled {
            self.files[site]
        } else {
            self.plan.options.items()
        };
        let step = MdtestStep { phase, iteration, first: 0, end, seconds };
        let done = measured(self.crew.all(site, PosixStep::Mdtest(step))?);
        let rounds = match seconds {
            Some(_) => self.wear_out(site, &step, done)?,
            None => vec![done],
        };
        let sample = Sample::of(iteration, &rounds);
        if let Phase::List(kind) = phase {
            self.check_listed(site, kind, sample.tally.ops)?;
        }
        if let Some(bytes) = self.sites.index_bytes().filter(|_| is_walled && site == 0) {
            self.index = Some((sample.tally.ops, bytes));
        }
        self.note(site, phase.title(), sample);
        Ok(())
    }

    /// When the stonewall has come, all processes go on until they have made as many files as the one
    /// that made most.
    fn wear_out(
        &mut self,
        site: usize,
        step: &MdtestStep,
        done: Vec<Measured>,
    ) -> Result<Vec<Vec<Measured>>> {
        let title = format!("{}{STONEWALL}", step.phase.title());
        self.note(site, &title, Sample::of(step.iteration, std::slice::from_ref(&done)));
        let most = done.iter().map(|one| one.ops).max().unwrap_or(0);
        self.files[site] = most;
        let rest = |one: &Measured| {
            PosixStep::Mdtest(MdtestStep { first: one.ops, end: most, seconds: None, ..*step })
        };
        let rest = self.crew.each(site, &done.iter().map(rest).collect::<Vec<_>>())?;
        Ok(vec![done, measured(rest)])
    }

    /// What the warm-up took is not noted.
    fn note(&mut self, site: usize, title: &str, sample: Sample) {
        let line = self.lines.iter_mut().find(|line| line.title == title);
        if let Some(line) = line.filter(|_| sample.iteration != WARM_UP) {
            line.samples[site].push(sample);
        }
    }

    /// Each directory but the root of a tree is a name in another one.
    fn check_listed(&self, site: usize, kind: Kind, found: u64) -> Result<()> {
        let Options { tree, unique, .. } = &self.plan.options;
        let trees = if *unique { u64::from(self.plan.setting.procs) } else { 1 };
        let each = if kind == Kind::File { self.files[site] } else { self.plan.options.items() };
        let inner = tree.directories().unwrap_or(1).saturating_sub(1);
        let expected = each * u64::from(self.plan.setting.procs) + trees * inner;
        match found == expected {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                format!("listing found {found} names where there are {expected}"),
            )),
        }
    }
}

fn measured(done: Vec<Done>) -> Vec<Measured> {
    done.into_iter().flat_map(|one| one.parts).collect()
}
