//! The rows of the table: work, values by system, and goals.
use super::super::{Line, Outcome};
use esker_cli::units::rounded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The base of ratios.
pub(super) const BASE: &str = "tmpfs";

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
pub(super) fn all_rows(outcomes: &[Outcome], engine: bool) -> Vec<Row> {
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

/// A row with the value of each system, among them the base.
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

/// Rates of the systems over that of the base.
fn rate(work: &str, outcome: &Outcome, phase: &str, goals: [f64; 2]) -> Option<Row> {
    let line = line(outcome, phase)?;
    let base = outcome.systems.iter().position(|system| system.name == BASE)?;
    let unit = if outcome.workload == "ior" { "MiB/s" } else { "/s" };
    let row = row(work, unit, outcome, |system| line.ratio(system, base), goals)?;
    Some(Row { base: rounded(line.median(base)), ..row })
}

/// Rate of a shared file over the rate of one file per process, by system.
fn shared(outcomes: &[Outcome]) -> Option<Row> {
    let (own, common) = (line(outcomes.get(1)?, "write")?, line(outcomes.get(2)?, "write")?);
    let share = |system| {
        let own = own.median(system);
        (own > 0.0).then(|| common.median(system) / own)
    };
    let work = "shared file over own files, 8 KiB write";
    row(work, "ratio", outcomes.get(2)?, share, [SHARED_GOAL; 2])
}

/// Median latencies of the systems.
fn latency(work: &str, outcome: &Outcome, phase: &str) -> Option<Row> {
    let line = line(outcome, phase)?;
    let median = |system| Some(line.tally(system).latency.percentile_us(50.0));
    let row = row(work, "us", outcome, median, [LATENCY_GOAL_US; 2])?;
    Some(Row { below: true, ..row })
}
