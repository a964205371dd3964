//! `esker bench posix`: one table of all work on files, for all file systems of this machine.
mod rows;

pub(crate) use rows::Row;

use super::super::{Benchmark, Measurement, Note, parse_size};
use super::{Baselines, DfsSubject, FileSystems, IorPlan, MdtestPlan, Outcome, Setting, Subject};
use crate::errors::ensure;
use crate::pin::Pin;
use crate::plan::OwnPool;
use crate::posix::ior::Options as IorOptions;
use crate::posix::mdtest::{Options as MdtestOptions, Tree};
use crate::report::{Report, Settings};
use crate::table::new_table;
use clap::Args;
use dfs::NewDfs;
use esker_cli::DurabilityArg;
use esker_types::{ErrorKind, Result};
use rows::BASE;
use serde_json::{Value, json};
use std::fmt;

/// Measure file operations on a container, on tmpfs and on a disk
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../../help/posix.txt").trim_end())]
pub struct TablePlan {
    /// Number of processes
    #[arg(long, visible_alias = "np", value_name = "N", default_value_t = 2)]
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
    /// By [`rows::ROWS`] and [`rows::LATENCIES`].
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
        let (all, one) = (self.setting(self.procs), self.setting(1));
        let outcomes = vec![
            self.names().run(&all, &systems, note)?,
            self.transfers(SMALL, true).run(&all, &systems, note)?,
            self.transfers(SMALL, false).run(&all, &systems, note)?,
            self.transfers(LARGE, true).run(&all, &systems, note)?,
            self.names().run(&one, &systems, note)?,
            self.transfers(SMALL, true).run(&one, &systems, note)?,
        ];
        let rows = rows::all_rows(&outcomes, self.engine);
        let options = json!({
            "procs": self.procs, "iterations": self.iterations, "files": self.files,
            "small_bytes": self.small_bytes, "large_bytes": self.large_bytes, "engine": self.engine,
        });
        let settings = systems.settings(self.seed, &options);
        Ok(TableResults { outcomes, rows, settings, engine: self.engine })
    }

    fn subject(&self) -> Subject {
        let each = self.small_bytes.max(self.large_bytes);
        let through = if self.only_dfs { 1 } else { 3 };
        Subject::Dfs(DfsSubject {
            pool: None,
            container: None,
            folder: "dfs".to_owned(),
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

    fn names(&self) -> MdtestPlan {
        let tree = Tree { branch: 1, ..Tree::default() };
        let items_per_dir = Some(self.files);
        let options = MdtestOptions { items_per_dir, tree, stride: 1, ..MdtestOptions::default() };
        let (create, stat, remove) = (true, true, true);
        MdtestPlan { options, files_only: true, create, stat, remove, ..MdtestPlan::default() }
    }

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
    /// All runs in one report, with the table as `table`.
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

const ABOUT: &str = "\
Ratios are to tmpfs: medians of the ratios of the iterations. For one process, values are median times of an operation. A \
goal that is missed is marked with !.";

const ABOUT_ENGINE: &str = "\nThe pool is reached through one engine over TCP on loopback.";

impl fmt::Display for TableResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.outcomes.first() else { return Ok(()) };
        first.head(f)?;
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

/// Headings and cells of the table of these systems.
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
