//! `esker bench ior`: transfers to and from files.
use super::super::{Benchmark, Measurement, Note, parse_procs};
use super::command::{Common, Original, Refused, Work};
use super::{FileSystems, Line, Outcome, Sample, Setting, WARM_UP, Workers};
use crate::measure::Tally;
use crate::posix::Done;
use crate::posix::ior::{Access, IorStep, Options};
use crate::processes::WorkerKind;
use clap::Args;
use esker_types::Result;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

/// Measure transfers to one file per process or to a shared file, as ior does
#[derive(Args)]
#[command(after_long_help = include_str!("../../help/ior.txt").trim_end())]
pub struct Ior {
    #[command(flatten)]
    plan: IorPlan,
    /// Number of processes
    #[arg(short = 'N', long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    #[arg(value_parser = parse_procs)]
    procs: u32,
    /// Stonewall: end writing, and reading, after this time
    #[arg(short = 'D', value_name = "SECONDS", default_value_t = 0)]
    stonewall: u32,
    /// Pause before each iteration
    #[arg(short = 'd', value_name = "SECONDS", default_value_t = 0)]
    delay: u32,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    _refused: Refused<Ior>,
}

impl Original for Ior {
    const NAME: &'static str = "ior";
    const REFUSED: &'static str = include_str!("../../help/ior-refused.txt");
}

impl Benchmark for Ior {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let Self { plan, common, .. } = self;
        let setting = common.setting(self.procs, self.delay, self.stonewall);
        let folder = plan.options.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let work = Work {
            genuine: ("ior", plan.genuine(&setting)),
            folder: folder.unwrap_or(Path::new(".")).to_owned(),
            cleared: plan.writes() && !plan.keep && !plan.existing,
            bytes: plan.options.bytes(setting.procs),
            entries: u64::from(setting.procs),
        };
        common.run(&work, |systems, note| plan.run(&setting, systems, note), note)
    }
}

/// Plan of `esker bench ior`.
#[derive(Clone, Debug, Default, Args)]
pub struct IorPlan {
    /// Options of the work.
    #[command(flatten)]
    pub options: Options,
    /// Write; without -w and -r, both are measured
    #[arg(short = 'w')]
    pub write: bool,
    /// Read
    #[arg(short = 'r')]
    pub read: bool,
    /// Read back and compare after writing
    #[arg(short = 'W')]
    pub check_write: bool,
    /// Compare what is read
    #[arg(short = 'R')]
    pub check_read: bool,
    /// Synchronize all processes between open, transfers and close
    #[arg(short = 'g')]
    pub barriers: bool,
    /// Do not remove an existing file before writing
    #[arg(short = 'E')]
    pub existing: bool,
    /// Keep the files
    #[arg(short = 'k')]
    pub keep: bool,
    /// Directives: with stoneWallingWearOut=1, all processes write the same amount after the stonewall
    #[arg(short = 'O', value_name = "NAME=VALUE", value_delimiter = ',', value_parser = parse_directive)]
    pub wear_out: Vec<bool>,
}

/// The value of the only directive of ior that is supported.
fn parse_directive(text: &str) -> std::result::Result<bool, String> {
    match text.split_once('=') {
        Some(("stoneWallingWearOut", "1")) => Ok(true),
        Some(("stoneWallingWearOut", "0")) => Ok(false),
        _ => Err("only stoneWallingWearOut=0 and =1 are supported".to_owned()),
    }
}

struct Run<'p> {
    plan: &'p IorPlan,
    setting: &'p Setting,
    workers: Workers<IorStep>,
    lines: [Line; 2],
    /// Transfers that each process wrote, by system.
    written: Vec<Vec<u64>>,
}

impl IorPlan {
    /// Measures all systems.
    pub fn run(&self, setting: &Setting, systems: &FileSystems, note: Note<'_>) -> Result<Outcome> {
        setting.check()?;
        self.options.check()?;
        let workers = Workers::start(WorkerKind::Ior, setting, &systems.all, &self.options)?;
        let count = systems.all.len();
        let lines = ["write", "read"].map(|title| Line::new(title, count));
        let all = vec![self.options.transfers(); setting.procs as usize];
        let mut run = Run { plan: self, setting, workers, lines, written: vec![all; count] };
        let warm_up = self.writes() && !self.keep;
        setting.iterate(warm_up, |iteration| run.measure_iteration(iteration, note))?;
        let work = ("ior", self.options.transfer_bytes);
        Ok(setting.outcome(work, systems, run.lines, &self.options_json(setting)))
    }

    /// True if files are written.
    pub fn writes(&self) -> bool {
        self.write || !self.read
    }

    pub(super) fn reads(&self) -> bool {
        self.read || !self.write
    }

    /// True for stoneWallingWearOut: after the time limit, slower processes continue until all have written as much as
    /// the fastest. The last directive counts.
    pub(super) fn wears_out(&self) -> bool {
        self.wear_out.last() == Some(&true)
    }

    /// All options, in the JSON report.
    fn options_json(&self, setting: &Setting) -> Value {
        let work = &self.options;
        json!({
            "file": work.file.display().to_string(), "block_bytes": work.block_bytes,
            "transfer_bytes": work.transfer_bytes, "segments": work.segments,
            "file_per_process": work.file_per_process, "reordered": work.reorder,
            "sync": work.sync, "sync_each": work.sync_each, "random": work.random,
            "barriers": self.barriers, "verified": self.check_write || self.check_read,
            "stonewall_s": setting.stonewall_s,
        })
    }

    /// Number from which the content of files is generated. It is the iteration, but 1 for files that are kept or only
    /// read, because a later run does not know the iteration that wrote them.
    fn round(&self, iteration: u32) -> u32 {
        if self.keep || !self.writes() { 1 } else { iteration }
    }
}

impl Run<'_> {
    /// Measures one iteration. Within each phase all systems have their turn, so that a change of the machine's speed
    /// affects all.
    fn measure_iteration(&mut self, iteration: u32, note: Note<'_>) -> Result<()> {
        let plan = self.plan;
        let phases = [
            (plan.writes() && !plan.existing, Access::Remove, "removing old files"),
            (plan.writes(), Access::Write, "write"),
            (plan.check_write, Access::Check, "checking what was written"),
            (plan.reads(), Access::Read, "read"),
            (plan.check_read, Access::Check, "checking what is read"),
            (!plan.keep && plan.writes(), Access::Remove, "removing files"),
        ];
        for (_, access, what) in phases.into_iter().filter(|(wanted, ..)| *wanted) {
            self.setting.report_progress(iteration, what, note);
            for system in 0..self.written.len() {
                self.measure_phase(system, iteration, access)?;
            }
        }
        Ok(())
    }

    /// Measures one phase on one system.
    fn measure_phase(&mut self, system: usize, iteration: u32, access: Access) -> Result<()> {
        let seconds = self.setting.stonewall();
        let seconds = seconds.filter(|_| matches!(access, Access::Write | Access::Read));
        let round = self.plan.round(iteration);
        let total = IorStep { access, round, open: true, first: 0, end: 0, seconds, close: true };
        let parted = self.plan.barriers || (seconds.is_some() && self.plan.wears_out());
        let done = match parted && access != Access::Remove {
            true => self.in_parts(system, &total)?,
            false => vec![self.workers.each(system, &self.ends(system, &total))?],
        };
        if access == Access::Write {
            self.written[system] = moved_by_process(&done);
        }
        let line = match access {
            Access::Write => &mut self.lines[0],
            Access::Read => &mut self.lines[1],
            Access::Check | Access::Remove => return Ok(()),
        };
        if iteration != WARM_UP {
            line.samples[system].push(sample(iteration, &done));
        }
        Ok(())
    }

    /// The step of each process, limited to the transfers that exist.
    fn ends(&self, system: usize, step: &IorStep) -> Vec<IorStep> {
        // A process reads the data of the process that is `offset` ranks after it.
        let offset = match step.access {
            Access::Read | Access::Check => self.plan.options.task_offset() as usize,
            Access::Write | Access::Remove => 0,
        };
        let written = &self.written[system];
        let all = self.plan.options.transfers();
        let end = |rank: usize| match step.access {
            Access::Write => all,
            _ => written.get((rank + offset) % written.len().max(1)).copied().unwrap_or(all),
        };
        (0..written.len()).map(|rank| IorStep { end: end(rank), ..*step }).collect()
    }

    /// Runs open, transfers, transfers after the stonewall, and close, with barriers in between.
    fn in_parts(&mut self, system: usize, total: &IorStep) -> Result<Vec<Vec<Done>>> {
        let nothing = IorStep { open: false, close: false, seconds: None, ..*total };
        let all = self.ends(system, total);
        let same = |step: IorStep| vec![step; all.len()];
        let opened = self.workers.each(system, &same(IorStep { open: true, ..nothing }))?;
        let walled = |step: &IorStep| IorStep { end: step.end, seconds: total.seconds, ..nothing };
        let walled: Vec<_> = all.iter().map(walled).collect();
        let moved = self.workers.each(system, &walled)?;
        let mut done = vec![opened, moved];
        if total.seconds.is_some() && self.plan.wears_out() {
            let counts = moved_by_process(&done);
            let most = counts.iter().copied().max().unwrap_or(0);
            let rest = |(&first, step): (&u64, &IorStep)| IorStep {
                first,
                end: most.min(step.end),
                ..nothing
            };
            let rest: Vec<_> = counts.iter().zip(&all).map(rest).collect();
            done.push(self.workers.each(system, &rest)?);
        }
        done.push(self.workers.each(system, &same(IorStep { close: true, ..nothing }))?);
        Ok(done)
    }
}

/// Transfers of each process, over the parts of a phase.
fn moved_by_process(done: &[Vec<Done>]) -> Vec<u64> {
    let count = done.first().map_or(0, Vec::len);
    // The measured parts of a step are open, transfers and close.
    let transfers_of = |rank: usize| {
        let parts = done.iter().filter_map(|round| round.get(rank)?.parts.get(1));
        parts.map(|moved| moved.ops).sum()
    };
    (0..count).map(transfers_of).collect()
}

/// Times of open, transfers, close and the total. Each is the sum over the parts of a phase, so that it does not include
/// the pauses in which the processes are told to begin the next part.
fn sample(iteration: u32, done: &[Vec<Done>]) -> Sample {
    let over_parts = |wanted: Range<usize>| {
        let mut tally = Tally::default();
        for round in done {
            let measured =
                round.iter().flat_map(|one| one.parts.get(wanted.clone()).unwrap_or(&[]));
            let measured = measured.filter(|one| one.ops > 0 || one.seconds() > 0.0);
            tally.add_round(&measured.cloned().collect::<Vec<_>>());
        }
        tally
    };
    let parts = [over_parts(0..1), over_parts(1..2), over_parts(2..3)];
    let parts_s = parts.each_ref().map(|part| part.seconds);
    let [_, moved, _] = parts;
    let tally = Tally { seconds: over_parts(0..3).seconds, ..moved };
    Sample { iteration, tally, parts: Some(parts_s) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measured;

    fn measured(ops: u64, start_s: f64, end_s: f64) -> Measured {
        Measured { ops, bytes: ops << 20, start_s, end_s, ..Measured::default() }
    }

    /// Reply of one process: its open, transfers and close.
    fn reply_of(parts: [Measured; 3]) -> Vec<Done> {
        vec![Done { parts: parts.to_vec(), ..Done::default() }]
    }

    #[test]
    fn pauses_between_parts_do_not_count() {
        let nothing = |at| measured(0, at, at);
        let opened = reply_of([measured(1, 0.0, 1.0), nothing(1.0), nothing(1.0)]);
        let moved = reply_of([nothing(11.0), measured(8, 11.0, 13.0), nothing(13.0)]);
        let closed = reply_of([nothing(23.0), nothing(23.0), measured(1, 23.0, 24.0)]);
        let sample = sample(1, &[opened, moved, closed]);
        assert_eq!(sample.parts, Some([1.0, 2.0, 1.0]));
        assert_eq!((sample.tally.ops, sample.tally.seconds, sample.rate()), (8, 4.0, 2.0));
    }

    #[test]
    fn undivided_phase_lasts_from_first_open_to_last_close() {
        let one = [measured(1, 0.0, 1.0), measured(4, 1.0, 3.0), measured(1, 3.0, 4.0)];
        let other = [measured(1, 0.0, 2.0), measured(4, 2.0, 6.0), measured(1, 6.0, 8.0)];
        let sample = sample(1, &[[reply_of(one), reply_of(other)].concat()]);
        assert_eq!(sample.parts, Some([2.0, 5.0, 5.0]));
        assert_eq!((sample.tally.ops, sample.tally.seconds), (8, 8.0));
    }
}
