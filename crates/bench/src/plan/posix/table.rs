//! `esker bench posix`: one table of all work on files, for all file systems of this machine.
use super::super::{Benchmark, Measurement, Note, parse_procs, parse_size};
use super::{
    Baselines, DfsSubject, FileSystems, IorPlan, Line, MdtestPlan, Outcome, Peer, Setting, Subject,
};
use crate::errors::{ensure, ensure_valid};
use crate::pin::Pin;
use crate::plan::OwnPool;
use crate::posix::ior::Options as IorOptions;
use crate::posix::mdtest::{Options as MdtestOptions, Tree};
use crate::report::{Report, Settings};
use crate::table::new_table;
use clap::Args;
use dfs::NewDfs;
use esker_cli::DurabilityArg;
use esker_cli::units::{Bytes, rounded};
use esker_types::{ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Measure file operations on a container, on tmpfs and on a disk
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/posix.txt").trim_end())]
pub struct TablePlan {
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
    #[arg(value_parser = parse_procs)]
    pub procs: u32,
    /// Number of iterations
    #[arg(short = 'i', value_name = "N", default_value_t = 5)]
    pub iterations: u32,
    /// Number of files of each process
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub files: u64,
    /// Bytes that each process writes in transfers of 8 KiB
    #[arg(long = "small", value_name = "SIZE", default_value = "256MiB")]
    #[arg(value_parser = parse_size)]
    pub small_bytes: u64,
    /// Bytes that each process writes in transfers of 1 MiB
    #[arg(long = "large", value_name = "SIZE", default_value = "512MiB")]
    #[arg(value_parser = parse_size)]
    pub large_bytes: u64,
    /// Reach the pool through one engine only, over TCP on loopback, as from another node; omit esker mount
    #[arg(long, conflicts_with = "no_write_buffer")]
    pub engine: bool,
    /// Omit esker run and esker mount
    #[arg(long)]
    pub only_dfs: bool,
    /// Durability of the temporary pool [default: process in memory, commit on block media]
    #[arg(long, value_name = "LEVEL", conflicts_with = "engine")]
    pub durability: Option<DurabilityArg>,
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
    /// The file systems it is compared with.
    #[command(flatten)]
    pub beside: Baselines,
    /// A file system of another project.
    #[command(flatten)]
    pub peer: Peer,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pub pin: Pin,
}

impl Benchmark for TablePlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let table = self.measure(note)?;
        Ok(Measurement { report: table.report(), text: table.to_string() })
    }
}

/// The complete table.
#[derive(Clone, Debug)]
struct TableResults {
    /// By [`RATES`] and [`LATENCIES`].
    outcomes: Vec<Outcome>,
    rows: Vec<Row>,
    settings: Settings,
    engine: bool,
}

const SMALL: u64 = 8 << 10;
const LARGE: u64 = 1 << 20;

impl TablePlan {
    /// Runs all benchmarks: metadata, small transfers to own files and to a shared file, large transfers; then metadata
    /// and small transfers of one process.
    fn measure(&self, note: Note<'_>) -> Result<TableResults> {
        self.check()?;
        let mut systems = FileSystems::new(&self.subject(), &self.beside, note)?;
        let has_base = systems.all.iter().any(|system| system.name == BASE);
        ensure(
            has_base,
            ErrorKind::NotFound,
            || "ratios need a tmpfs: name a directory on one by --tmpfs",
        )?;
        if !self.only_dfs {
            systems.add_programs(!self.engine);
        }
        systems.add_peer(&self.peer)?;
        let (all, one) = (self.setting(self.procs), self.setting(1));
        let outcomes = vec![
            self.names().run(&all, &systems, note)?,
            self.transfers(SMALL, true).run(&all, &systems, note)?,
            self.transfers(SMALL, false).run(&all, &systems, note)?,
            self.transfers(LARGE, true).run(&all, &systems, note)?,
            self.names().run(&one, &systems, note)?,
            self.transfers(SMALL, true).run(&one, &systems, note)?,
        ];
        let rows = all_rows(&outcomes, self.engine);
        let options = json!({
            "procs": self.procs, "iterations": self.iterations, "files": self.files,
            "small_bytes": self.small_bytes, "large_bytes": self.large_bytes, "engine": self.engine,
        });
        let settings = systems.settings(self.seed, &options);
        Ok(TableResults { outcomes, rows, settings, engine: self.engine })
    }

    /// Checks the options of all benchmarks, before the first of them runs.
    fn check(&self) -> Result<()> {
        self.setting(self.procs).check()?;
        self.names().options.check()?;
        [(SMALL, "--small", self.small_bytes), (LARGE, "--large", self.large_bytes)]
            .into_iter()
            .try_for_each(|(transfer, option, bytes)| {
                ensure_valid(bytes >= transfer, || {
                    let (bytes, transfer) = (Bytes(bytes), Bytes(transfer));
                    format!("{option} {bytes} is less than one transfer: give at least {transfer}")
                })
            })
    }

    /// The container that is measured by way of DFS.
    fn subject(&self) -> Subject {
        let each = self.small_bytes.max(self.large_bytes);
        // Each way to the container has its own files: DFS, `esker run` and `esker mount`.
        let through = if self.only_dfs { 1 } else { 3 };
        Subject::Dfs(DfsSubject {
            pool: None,
            container: None,
            folder: "dfs".to_owned(),
            cleared: true,
            new: NewDfs::default(),
            own: OwnPool { durability: self.durability.map(Into::into), ..self.own.clone() },
            nodes: self.engine.then_some(1),
            bytes: each.saturating_mul(u64::from(self.procs) * through),
            entries: self.files.saturating_mul(u64::from(self.procs) * through),
        })
    }

    fn setting(&self, procs: u32) -> Setting {
        let Self { iterations, seed, pin, .. } = *self;
        Setting { procs, iterations, delay_s: 0, stonewall_s: 0, seed, pin }
    }

    /// Plan of the operations on names.
    fn names(&self) -> MdtestPlan {
        let tree = Tree { branch: 1, ..Tree::default() };
        let items_per_dir = Some(self.files);
        let options = MdtestOptions { items_per_dir, tree, stride: 1, ..MdtestOptions::default() };
        let (create, stat, remove) = (true, true, true);
        MdtestPlan { options, files_only: true, create, stat, remove, ..MdtestPlan::default() }
    }

    /// The plan that writes and reads a file in transfers of this size.
    fn transfers(&self, transfer_bytes: u64, file_per_process: bool) -> IorPlan {
        let bytes = if transfer_bytes == SMALL { self.small_bytes } else { self.large_bytes };
        let options = IorOptions {
            file: "file".into(),
            block_bytes: bytes / transfer_bytes * transfer_bytes,
            transfer_bytes,
            segments: 1,
            file_per_process,
            reorder: true,
            distance: 1,
            ..IorOptions::default()
        };
        IorPlan { options, write: true, read: true, check_read: true, ..IorPlan::default() }
    }
}

impl TableResults {
    /// One JSON report with the runs of all outcomes, and the rows of the table as the member `table`.
    fn report(&self) -> Value {
        let reports: Vec<_> = self.outcomes.iter().map(Outcome::report).collect();
        let runs = reports.iter().flat_map(|report| report.runs.clone()).collect();
        let Some(first) = reports.first() else { return Value::Null };
        let settings = self.settings.clone();
        let mut report = json!(Report { runs, settings, ..first.clone() });
        report["table"] = json!(self.rows);
        report
    }
}

pub(crate) const ABOUT: &str = "\
Ratios are to tmpfs: medians of the ratios of the iterations. For one process, values are median times of an operation. A \
goal that is missed is marked with !.";

const ABOUT_ENGINE: &str = "\nThe pool is reached through one engine over TCP on loopback.";

impl fmt::Display for TableResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.outcomes.first() else { return Ok(()) };
        first.print_head(f)?;
        writeln!(f, "{} processes\n", first.procs)?;
        let (headings, rows) = cells(&self.rows, &self.systems());
        let mut table = new_table(&headings.join("|"));
        rows.into_iter().for_each(|row| table.row(row));
        let engine = if self.engine { ABOUT_ENGINE } else { "" };
        write!(f, "{}\n{ABOUT}{engine}", table.text())
    }
}

impl TableResults {
    /// The systems other than the base, in order.
    fn systems(&self) -> Vec<&str> {
        let systems = self.outcomes.first().map_or(&[][..], |outcome| &outcome.systems);
        systems.iter().map(|system| system.name.as_str()).filter(|name| *name != BASE).collect()
    }
}

/// Headings and cells of a table with a column for each of these systems. A system for which any row has a goal gets a
/// second column, for the goals.
pub(crate) fn cells(rows: &[Row], systems: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
    let has_goal = |system: &str| rows.iter().any(|row| row.goals.contains_key(system));
    let mut headings: Vec<String> = ["work", ">tmpfs", "unit"].map(str::to_owned).to_vec();
    for system in systems {
        headings.push(format!(">{system}"));
        headings.extend(has_goal(system).then(|| ">goal".to_owned()));
    }
    let row = |row: &Row| {
        let mut cells = row.first_cells().to_vec();
        for system in systems {
            cells.push(row.cell(system));
            let goal = row.goals.get(*system).map_or(String::new(), f64::to_string);
            cells.extend(has_goal(system).then_some(goal));
        }
        cells
    };
    (headings, rows.iter().map(row).collect())
}

impl Row {
    /// The work, and the value of [`BASE`] with its unit.
    fn first_cells(&self) -> [String; 3] {
        let places = if self.base < 100.0 { 2 } else { 0 };
        [self.work.clone(), format!("{:.places$}", self.base), self.unit.clone()]
    }

    /// The cell of a system; `!` marks a goal that is missed.
    fn cell(&self, system: &str) -> String {
        let Some(value) = self.systems.get(system) else { return "-".to_owned() };
        let missed = self.goals.get(system).is_some_and(|goal| match self.below {
            true => value > goal,
            false => value < goal,
        });
        format!("{value:.2}{}", if missed { "!" } else { "" })
    }
}

/// The base of ratios.
const BASE: &str = "tmpfs";

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The work.
    pub(crate) work: String,
    /// Unit of `base`.
    pub(crate) unit: String,
    /// Value of [`BASE`].
    pub(crate) base: f64,
    /// Value of each system: a multiple of `base`, or the value itself, depending on the unit.
    #[serde(rename = "sites")]
    pub(crate) systems: BTreeMap<String, f64>,
    /// Goals by system.
    pub(crate) goals: BTreeMap<String, f64>,
    /// True if values should be below the goals.
    pub(crate) below: bool,
}

/// Work that is compared by its rate: its name, the outcome and phase it is in, and the goals for `DFS` and `run`.
const RATES: [(&str, usize, &str, [f64; 2]); 8] = [
    ("create, one directory", 0, "file-creation", [0.5, 0.25]),
    ("stat", 0, "file-stat", [0.5, 0.3]),
    ("remove", 0, "file-removal", [0.5, 0.25]),
    ("8 KiB write, own file", 1, "write", [0.8, 0.6]),
    ("8 KiB read, own file", 1, "read", [0.9, 0.7]),
    ("8 KiB write, shared file", 2, "write", [1.0, 0.8]),
    ("1 MiB write, own file", 3, "write", [1.5, 1.5]),
    ("1 MiB read, own file", 3, "read", [2.5, 2.5]),
];

/// Work of one process: its name, the outcome and phase it is in.
const LATENCIES: [(&str, usize, &str); 5] = [
    ("create, 1 process", 4, "file-creation"),
    ("stat, 1 process", 4, "file-stat"),
    ("remove, 1 process", 4, "file-removal"),
    ("8 KiB write, 1 process", 5, "write"),
    ("8 KiB read, 1 process", 5, "read"),
];

/// Goal for the median latency of one process.
const LATENCY_GOAL_US: f64 = 10.0;

/// Goal for a shared file: its rate over that of one file per process.
const SHARED_GOAL: f64 = 0.9;

/// Builds all rows. There are goals for local pools only: with `engine`, clients accessed the pool through an engine.
fn all_rows(outcomes: &[Outcome], engine: bool) -> Vec<Row> {
    let rates = RATES
        .iter()
        .filter_map(|&(work, at, phase, goals)| rate(work, outcomes.get(at)?, phase, goals));
    let latencies =
        LATENCIES.iter().filter_map(|&(work, at, phase)| latency(work, outcomes.get(at)?, phase));
    let mut rows: Vec<_> = rates.chain(shared(outcomes)).chain(latencies).collect();
    rows.iter_mut().filter(|_| engine).for_each(|row| row.goals.clear());
    rows
}

fn line<'o>(outcome: &'o Outcome, phase: &str) -> Option<&'o Line> {
    outcome.lines.iter().find(|line| line.phase == phase)
}

/// A row of the table, where `value` returns the value of a system by its position. `None` if the base has no value.
fn row(
    work: &str,
    unit: &str,
    outcome: &Outcome,
    value: impl Fn(usize) -> Option<f64>,
    goals: [f64; 2],
) -> Option<Row> {
    let systems = outcome.systems.iter().enumerate();
    let mut systems: BTreeMap<_, _> = systems
        .filter_map(|(at, system)| Some((system.name.clone(), rounded(value(at)?))))
        .collect();
    Some(Row {
        work: work.to_owned(),
        unit: unit.to_owned(),
        base: systems.remove(BASE)?,
        systems,
        goals: ["DFS", "run"].map(str::to_owned).into_iter().zip(goals).collect(),
        below: false,
    })
}

/// A row with the rate of each system in a phase, divided by the rate of the base. The base shows its median rate.
/// `None` if the phase or the base was not measured.
fn rate(work: &str, outcome: &Outcome, phase: &str, goals: [f64; 2]) -> Option<Row> {
    let line = line(outcome, phase)?;
    let base = outcome.systems.iter().position(|system| system.name == BASE)?;
    let unit = if outcome.workload == "ior" { "MiB/s" } else { "/s" };
    let row = row(work, unit, outcome, |system| line.ratio(system, base), goals)?;
    Some(Row { base: rounded(line.median(base)), ..row })
}

/// A row with the rate of writing one shared file, divided by the rate of writing one file per process, for each
/// system. `None` if one of them was not measured.
fn shared(outcomes: &[Outcome]) -> Option<Row> {
    let (own, common) = (line(outcomes.get(1)?, "write")?, line(outcomes.get(2)?, "write")?);
    let share = |system| {
        let own = own.median(system);
        (own > 0.0).then(|| common.median(system) / own)
    };
    let work = "shared file over own files, 8 KiB write";
    row(work, "ratio", outcomes.get(2)?, share, [SHARED_GOAL; 2])
}

/// A row with the median latency of each system in a phase, in microseconds. `None` if the phase or the base was not
/// measured.
fn latency(work: &str, outcome: &Outcome, phase: &str) -> Option<Row> {
    let line = line(outcome, phase)?;
    let median = |system| Some(line.tally(system).latency.percentile_us(50.0));
    let row = row(work, "us", outcome, median, [LATENCY_GOAL_US; 2])?;
    Some(Row { below: true, ..row })
}
