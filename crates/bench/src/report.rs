//! Reports of benchmarks. All benchmarks have the same schema, so that results can be compared.
//!
//! ```json
//! {"schema": 1,
//!  "host": {"cpu": "...", "cpus": 2, "kernel": "...", "memory_bytes": 1, "medium": "memory", "file_system": "tmpfs"},
//!  "settings": {"version": "0.1.0", "commit": null, "seed": 1, "unix_time_s": 1, "rounds": 3},
//!  "runs": [{"store": "esker", "workload": "array", "phase": "write", "procs": 2, "size_bytes": 1048576,
//!            "ops": 1, "seconds": 1.0, "ops_per_s": 1.0, "bandwidth_mib_s": 1.0, "limit_mib_s": 1.0, "ratio": 1.0,
//!            "latency_us": {"p50": 1.0, "p99": 1.0, "p99_9": 1.0, "max": 1.0}}]}
//! ```
//!
//! Readers must accept further members. `limit_mib_s` and `ratio` are null if the run is itself a limit.
use crate::host::Host;
use crate::measure::Tally;
use crate::parallel::Parallel;
use crate::plan::posix::Repeated;
use esker_cli::units::rounded;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Version of the schema.
pub const SCHEMA: u32 = 1;

/// The commit that this program was built from, if it was in a repository.
const COMMIT: Option<&str> = option_env!("BUILD_COMMIT");

/// Version of this program, with its commit.
pub fn build() -> String {
    let commit = COMMIT.map_or(String::new(), |commit| format!(" ({commit})"));
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

/// The report of one call of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// Settings of the measurement.
    pub settings: Settings,
    /// The measurements.
    pub runs: Vec<Run>,
}

/// Settings of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Version of Esker.
    pub version: String,
    /// Commit it was built from, as `git describe` names it.
    pub commit: Option<String>,
    /// Seed of the payload.
    pub seed: u64,
    /// Time of the measurement.
    pub unix_time_s: u64,
    /// Further options.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

impl Report {
    /// A report with the present schema.
    pub fn new(host: Host, settings: Settings, runs: Vec<Run>) -> Self {
        Self { schema: SCHEMA, host, settings, runs }
    }
}

/// A report of `results` that are not [`Run`]s, with the machine, whose medium is that of `folder`, and the settings.
///
/// # Errors
/// If the directory does not exist.
pub fn with_origin(folder: &Path, settings: &Settings, results: Value) -> Result<Value> {
    let origin = json!({"schema": SCHEMA, "host": Host::for_folder(folder)?, "settings": settings});
    let members = [origin, results].into_iter().filter_map(|part| match part {
        Value::Object(members) => Some(members),
        _ => None,
    });
    Ok(Value::Object(members.flatten().collect()))
}

impl Settings {
    /// Settings with the version of this build and the present time.
    pub fn new(seed: u64, options: Value) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: COMMIT.map(str::to_owned),
            seed,
            unix_time_s: now.as_secs(),
            options: match options {
                Value::Object(options) => options,
                _ => Map::new(),
            },
        }
    }

    /// Addition to the medium in texts: whether the pool has a write buffer.
    pub(crate) fn buffer_note(&self) -> &'static str {
        let has_buffer = self.options.get("write_buffer").and_then(Value::as_bool);
        if has_buffer == Some(true) { ", pool with a write buffer" } else { "" }
    }
}

/// One phase of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The measured system: `esker`, or `medium` for a limit.
    pub store: String,
    /// Kind of data.
    pub workload: String,
    /// Operation on the data.
    pub phase: String,
    /// Processes at once.
    pub procs: u32,
    /// Bytes of one operation.
    pub size_bytes: u64,
    /// Operations of all processes.
    pub ops: u64,
    /// Time of the operations, summed over rounds.
    pub seconds: f64,
    /// Operations per second of all processes.
    pub ops_per_s: f64,
    /// Payload per second of all processes.
    pub bandwidth_mib_s: f64,
    /// Bandwidth of the medium for the same processes.
    pub limit_mib_s: Option<f64>,
    /// Ratio of the bandwidth to the limit.
    pub ratio: Option<f64>,
    /// Latencies of operations.
    pub latency_us: Latency,
    /// Number of entries in the store at the end of the phase, in `growth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Commits of transactions that conflicts refused and that were repeated, in `tx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<u64>,
    /// Further members of field-io and segments.
    #[serde(flatten)]
    pub parallel: Option<Box<Parallel>>,
    /// Object class, which readers take from the settings of the report if there is no [`Parallel`].
    #[serde(skip)]
    pub class: Option<String>,
    /// Further members of mdtest, ior and fields.
    #[serde(flatten)]
    pub repeated: Option<Box<Repeated>>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile; not in reports of the first release.
    #[serde(default)]
    pub p99_9: f64,
    /// The slowest.
    pub max: f64,
}

impl Run {
    /// A run from its measurements and those of its limit.
    pub fn new(name: &RunName<'_>, tally: &Tally, limit: Option<&Tally>) -> Self {
        let bandwidth = tally.bandwidth_mib_s();
        let limit = limit.map(Tally::bandwidth_mib_s).filter(|limit| *limit > 0.0);
        Self {
            store: name.store.to_owned(),
            workload: name.workload.to_owned(),
            phase: name.phase.to_owned(),
            procs: name.procs,
            size_bytes: name.size_bytes,
            ops: tally.ops,
            seconds: rounded(tally.seconds),
            ops_per_s: rounded(tally.ops_per_s()),
            bandwidth_mib_s: rounded(bandwidth),
            limit_mib_s: limit.map(rounded),
            ratio: limit.map(|limit| rounded(bandwidth / limit)),
            latency_us: Latency {
                p50: rounded(tally.latency.percentile_us(50.0)),
                p99: rounded(tally.latency.percentile_us(99.0)),
                p99_9: rounded(tally.latency.percentile_us(99.9)),
                max: rounded(tally.latency.max_us()),
            },
            entries: None,
            conflicts: None,
            class: None,
            parallel: None,
            repeated: None,
        }
    }
}

/// The members that identify a run.
#[derive(Clone, Copy, Debug)]
pub struct RunName<'a> {
    /// See [`Run::store`].
    pub store: &'a str,
    /// See [`Run::workload`].
    pub workload: &'a str,
    /// See [`Run::phase`].
    pub phase: &'a str,
    /// See [`Run::procs`].
    pub procs: u32,
    /// See [`Run::size_bytes`].
    pub size_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_documented_schema_and_unknown_members_are_ignored() {
        let mut document = json!({
            "schema": 1,
            "host": {"cpu": "abacus", "cpus": 2, "kernel": "6.1", "memory_bytes": 1_073_741_824,
                     "medium": "memory", "file_system": "tmpfs"},
            "settings": {"version": "0.2.0", "commit": null, "seed": 1, "unix_time_s": 5, "rounds": 3},
            "runs": [
                {"store": "esker", "workload": "array", "phase": "write", "procs": 2,
                 "size_bytes": 1_048_576, "ops": 4, "seconds": 2.0, "ops_per_s": 2.0,
                 "bandwidth_mib_s": 2.0, "limit_mib_s": 8.0, "ratio": 0.25,
                 "latency_us": {"p50": 10.0, "p99": 10.0, "p99_9": 10.0, "max": 10.0}},
            ],
        });
        let report: Report = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(json!(report), document);
        document["runs"][0]["joules"] = json!(1);
        assert_eq!(serde_json::from_value::<Report>(document).unwrap(), report);
    }

    #[test]
    fn a_run_is_compared_with_its_limit() {
        let name = RunName { store: "a", workload: "b", phase: "c", procs: 1, size_bytes: 0 };
        let tally = |bytes, seconds| Tally { ops: 4, bytes, seconds, ..Tally::default() };
        let run = |limit| Run::new(&name, &tally(4 << 20, 2.0), Some(&limit));
        let limited = run(tally(8 << 20, 1.0));
        assert_eq!((limited.ops_per_s, limited.bandwidth_mib_s), (2.0, 2.0));
        assert_eq!((limited.limit_mib_s, limited.ratio), (Some(8.0), Some(0.25)));
        let unlimited = run(Tally::default());
        assert_eq!((unlimited.limit_mib_s, unlimited.ratio), (None, None));
    }
}
