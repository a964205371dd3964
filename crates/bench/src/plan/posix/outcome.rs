//! The measurements of one call of mdtest or ior.
use super::{FileSystem, Line};
use crate::host::Host;
use crate::report::{Report, RunName, Settings};
use serde_json::json;

/// All measurements of one benchmark.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// `mdtest` or `ior`.
    pub workload: &'static str,
    /// Processes at once.
    pub procs: u32,
    /// Bytes of an operation.
    pub size_bytes: u64,
    /// The file systems; the first is the one under test.
    pub systems: Vec<FileSystem>,
    /// File systems and programs that were not found.
    pub missing: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
    /// The phases, in the order of the table.
    pub lines: Vec<Line>,
    /// Notes below the table.
    pub notes: Vec<String>,
}

impl Outcome {
    /// One run for each phase and system.
    pub fn report(&self) -> Report {
        let names: Vec<_> = self.systems.iter().map(|system| system.name.as_str()).collect();
        let Self { workload, procs, size_bytes, .. } = *self;
        let runs = self.lines.iter().flat_map(|line| {
            let name = RunName { store: "", workload, phase: &line.phase, procs, size_bytes };
            line.runs(&names, &name, None)
        });
        Report::new(self.host.clone(), self.settings.clone(), runs.collect())
    }

    /// The report of several pools, which differ in their numbers of nodes.
    pub fn report_of_nodes(outcomes: &[(Option<u32>, Self)]) -> Option<Report> {
        let reports = outcomes.iter().map(|(nodes, outcome)| {
            let mut report = outcome.report();
            let first = outcome.systems.first().map_or("", |system| &system.name);
            for run in report.runs.iter_mut().filter(|run| run.store == first) {
                run.repeated.iter_mut().for_each(|repeated| repeated.server_nodes = *nodes);
            }
            report
        });
        let starts = outcomes.iter().filter_map(|(nodes, outcome)| {
            Some(json!({"nodes": nodes, "seconds": outcome.settings.options.get("start_s")?}))
        });
        let starts: Vec<_> = starts.collect();
        let mut all = reports.reduce(|mut all, report| {
            all.runs.extend(report.runs);
            all
        })?;
        if !starts.is_empty() {
            all.settings.options.insert("start_s".to_owned(), json!(starts));
        }
        Some(all)
    }
}
