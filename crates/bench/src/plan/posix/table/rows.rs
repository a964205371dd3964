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

/// Work that is compared by its rate: its name, the outcome and phase it is in, and the goals.
struct Rate(&'static str, usize, &'static str, Goals);

/// Goals for `DFS` and `run`.
type Goals = [f64; 2];

const RATES: [Rate; 8] = [
    Rate("create, one directory", 0, "file-creation", [0.5, 0.25]),
    Rate("stat", 0, "file-stat", [0.5, 0.3]),
    Rate("remove", 0, "file-removal", [0.5, 0.25]),
    Rate("8 KiB write, own file", 1, "write", [0.8, 0.6]),
    Rate("8 KiB read, own file", 1, "read", [0.9, 0.7]),
    Rate("8 KiB write, shared file", 2, "write", [1.0, 0.8]),
    Rate("1 MiB write, own file", 3, "write", [1.5, 1.5]),
    Rate("1 MiB read, own file", 3, "read", [2.5, 2.5]),
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
    let rates = RATES.iter().filter_map(|rate| rate.row(outcomes));
    let latencies = LATENCIES
        .iter()
        .filter_map(|&(work, outcome, phase)| latency(work, outcomes.get(outcome)?, phase));
    let mut rows: Vec<_> = rates.chain(shared(outcomes)).chain(latencies).collect();
    rows.iter_mut().filter(|_| engine).for_each(|row| row.goals.clear());
    rows
}

fn line<'o>(outcome: &'o Outcome, phase: &str) -> Option<&'o Line> {
    outcome.lines.iter().find(|line| line.phase == phase)
}

fn base_of(outcome: &Outcome) -> Option<usize> {
    outcome.systems.iter().position(|system| system.name == BASE)
}

fn goals(of: Goals) -> BTreeMap<String, f64> {
    ["DFS", "run"].map(str::to_owned).into_iter().zip(of).collect()
}

/// A number for each system.
fn by_system(outcome: &Outcome, of: impl Fn(usize) -> Option<f64>) -> BTreeMap<String, f64> {
    let systems = outcome.systems.iter().enumerate();
    systems.filter_map(|(index, system)| Some((system.name.clone(), rounded(of(index)?)))).collect()
}

impl Rate {
    fn row(&self, outcomes: &[Outcome]) -> Option<Row> {
        let Self(work, outcome, phase, aims) = *self;
        let outcome = outcomes.get(outcome)?;
        let (line, base) = (line(outcome, phase)?, base_of(outcome)?);
        let mut systems = by_system(outcome, |system| line.ratio(system, base));
        systems.remove(BASE);
        Some(Row {
            work: work.to_owned(),
            unit: if outcome.workload == "ior" { "MiB/s" } else { "/s" }.to_owned(),
            base: rounded(line.median(base)),
            systems,
            goals: goals(aims),
            below: false,
        })
    }
}

/// Rate of a shared file over the rate of one file per process, by system.
fn shared(outcomes: &[Outcome]) -> Option<Row> {
    let (own, common) = (outcomes.get(1)?, outcomes.get(2)?);
    let (own_line, common_line) = (line(own, "write")?, line(common, "write")?);
    let share = |system| {
        let own = own_line.median(system);
        (own > 0.0).then(|| common_line.median(system) / own)
    };
    let mut systems = by_system(common, share);
    Some(Row {
        work: "shared file over own files, 8 KiB write".to_owned(),
        unit: "ratio".to_owned(),
        base: systems.remove(BASE)?,
        systems,
        goals: goals([SHARED_GOAL; 2]),
        below: false,
    })
}

fn latency(work: &str, outcome: &Outcome, phase: &str) -> Option<Row> {
    let line = line(outcome, phase)?;
    let median = |system| Some(line.tally(system).latency.percentile_us(50.0));
    let mut systems = by_system(outcome, median);
    Some(Row {
        work: work.to_owned(),
        unit: "us".to_owned(),
        base: systems.remove(BASE)?,
        systems,
        goals: goals([LATENCY_GOAL_US; 2]),
        below: true,
    })
}
