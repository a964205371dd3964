//! Report and text of the benchmarks that compare systems over several iterations.
use super::Measurement;
use crate::host::Host;
use crate::report::{Report, Run, Settings};
use crate::table::Table;
use serde_json::json;

/// All measurements of one call.
pub(super) struct Summary {
    /// The machine.
    pub(super) host: Host,
    /// Settings of the measurement.
    pub(super) settings: Settings,
    /// Addition to the medium in the text.
    pub(super) about: String,
    /// One run for each phase and system.
    pub(super) runs: Vec<Run>,
    /// The same as a table.
    pub(super) table: Table,
    /// Reasons for omitted measurements, and other remarks.
    pub(super) notes: Vec<String>,
    /// Explanation of the columns.
    pub(super) legend: &'static str,
}

impl From<Summary> for Measurement {
    fn from(summary: Summary) -> Self {
        let Summary { host, settings, about, runs, table, notes, legend } = summary;
        let buffer = settings.buffer_note();
        let medium = format!("{} ({}){buffer}{about}", host.file_system, host.medium);
        let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
        let text = format!("{host}\n{medium}\n\n{}\n{notes}\n{legend}", table.text());
        Self { report: json!(Report::new(host, settings, runs)), text }
    }
}
