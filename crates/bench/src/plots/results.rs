//! Report files of benchmarks (docs/cli.md describes them). Members that a file lacks stay empty, so the files of all
//! benchmarks, and of versions that measured less or more, can be drawn on one page.
use crate::plots::placement::Placed;
use crate::plots::scaling::Model;
use crate::plots::words::bytes;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Version of the report's shape that this crate reads.
pub const SCHEMA: u32 = 1;

/// Longest report file that is read, in bytes.
pub const RESULTS_BYTES_MAX: u64 = 64 << 20;

/// One file.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// Name of the file, or the command that measured.
    pub name: String,
    /// The machine, by member.
    pub host: Map<String, Value>,
    /// Settings of the benchmark, by member.
    pub settings: Map<String, Value>,
    /// Measurements.
    pub runs: Vec<Measurement>,
    /// How objects were placed, in reports of `esker bench placement`.
    pub placements: Vec<Placed>,
    /// Model of larger numbers of nodes, in reports of `esker bench field-io --nodes`.
    pub model: Option<Model>,
    /// The CSV file of traces beside the report, where there is one.
    pub traces: Option<PathBuf>,
}

/// One phase of one workload: docs/cli.md describes the members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of the report, by their names")]
pub struct Measurement {
    pub run: Option<u32>,
    pub store: String,
    pub workload: String,
    pub phase: String,
    pub procs: u32,
    pub size_bytes: u64,
    pub ops: u64,
    pub seconds: f64,
    pub ops_per_s: f64,
    pub bandwidth_mib_s: f64,
    pub limit_mib_s: Option<f64>,
    pub ratio: Option<f64>,
    pub latency_us: Option<Latency>,
    pub entries: Option<u64>,
    pub mode: Option<String>,
    pub pattern: Option<String>,
    pub contention: Option<String>,
    #[serde(alias = "class")]
    pub class_array: Option<String>,
    pub class_kv: Option<String>,
    pub nodes: Option<u32>,
    pub server_nodes: Option<u32>,
    pub phase_procs: Option<u32>,
    pub iterations: Option<u64>,
    pub global_timing_bandwidth_mib_s: Option<f64>,
    pub synchronous_bandwidth_mib_s: Option<f64>,
    pub total_wall_clock_s: Option<f64>,
    pub off_0: Option<f64>,
    pub off_f: Option<f64>,
    pub po_0: Option<f64>,
    pub po_f: Option<f64>,
    pub repeat: Option<Repeat>,
    pub rate: Option<Spread>,
    #[serde(default)]
    pub ratio_to: BTreeMap<String, f64>,
}

/// The spread over repeats.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of the report, by their names")]
pub struct Repeat {
    pub count: u64,
    pub global_timing_bandwidth_mib_s: Option<Spread>,
    pub synchronous_bandwidth_mib_s: Option<Spread>,
    pub ratio: Option<Spread>,
}

/// Mean, least, greatest, standard deviation and median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of the report, by their names")]
pub struct Spread {
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub stddev: Option<f64>,
    pub median: Option<f64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the members of the report, by their names")]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    #[serde(default)]
    pub p99_9: f64,
    pub max: f64,
}

/// Members that all result files have.
#[derive(Deserialize)]
struct Document {
    host: Map<String, Value>,
    settings: Map<String, Value>,
    runs: Vec<Measurement>,
    #[serde(default)]
    placements: Vec<Placed>,
    model: Option<Model>,
}

impl Measurement {
    /// True for the limit of the medium.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        self.store == "medium"
    }

    /// Label of a run on a page, without its phase.
    #[must_use]
    pub fn label(&self) -> String {
        let access = [&self.mode, &self.pattern, &self.contention, &self.class_array];
        let names =
            [Some(&self.store), Some(&self.workload)].into_iter().chain(access.map(Option::as_ref));
        let names: Vec<_> =
            names.flatten().filter(|name| !name.is_empty()).map(String::as_str).collect();
        format!("{} {} x {}", names.join(" "), bytes(self.size_bytes), self.procs)
    }

    /// Wall-clock time of the phase in seconds.
    #[must_use]
    pub fn wall_clock_s(&self) -> f64 {
        self.total_wall_clock_s.unwrap_or(self.seconds)
    }

    /// True if both are the same phase of the same workload, on any store.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |run: &Self| {
            let names = [&run.mode, &run.pattern, &run.contention, &run.class_array, &run.class_kv];
            let names = names.map(Clone::clone);
            let nodes = (run.nodes, run.server_nodes);
            (run.workload.clone(), run.phase.clone(), run.procs, run.size_bytes, nodes, names)
        };
        key(self) == key(other)
    }

    /// The bandwidth that the papers use for this workload: synchronous for segments, else global
    /// timing. Files that have neither were measured by global timing.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        let synchronous = self.synchronous_bandwidth_mib_s.filter(|_| self.workload == "segments");
        synchronous.or(self.global_timing_bandwidth_mib_s).unwrap_or(self.bandwidth_mib_s)
    }

    /// Its spread over repeats, where there were several.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let repeat = self.repeat.as_ref()?;
        let synchronous =
            repeat.synchronous_bandwidth_mib_s.filter(|_| self.workload == "segments");
        synchronous.or(repeat.global_timing_bandwidth_mib_s)
    }
}

impl Results {
    /// Reads a file, and looks for traces beside it.
    ///
    /// # Errors
    /// Names the file: if it cannot be read, is longer than [`RESULTS_BYTES_MAX`], is not a result of `esker bench`, or
    /// has another schema.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_bounded(path)?;
        let value = serde_json::from_slice(&text)
            .map_err(|error| foreign(&path.display().to_string(), &format!("no JSON: {error}")))?;
        let mut results = Self::from_json(&path.display().to_string(), value)?;
        if let Some(name) = path.file_name() {
            results.name = name.to_string_lossy().into_owned();
        }
        results.traces = Some(path.with_extension("traces.csv")).filter(|traces| traces.is_file());
        Ok(results)
    }

    /// Parses the content of a result file. The envelope of `--json` is removed.
    ///
    /// # Errors
    /// The errors of [`Results::read`].
    pub fn from_json(name: &str, mut value: Value) -> Result<Self> {
        if let Some(response) = value.get_mut("response") {
            value = response.take();
        }
        check_schema(name, &value)?;
        let document: Document =
            serde_json::from_value(value).map_err(|error| foreign(name, &error.to_string()))?;
        let class = document.settings.get("class").and_then(Value::as_str);
        let class = class.map(str::to_owned);
        let mut runs = document.runs;
        for run in &mut runs {
            run.class_array = run.class_array.take().or_else(|| class.clone());
        }
        let Document { host, settings, placements, model, .. } = document;
        Ok(Self { name: name.to_owned(), host, settings, runs, placements, model, traces: None })
    }
}

fn check_schema(name: &str, value: &Value) -> Result<()> {
    match value.get("schema") {
        Some(schema) if *schema == SCHEMA => Ok(()),
        Some(schema) => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{name} has schema {schema}, and this esker reads schema {SCHEMA}: \
                 use the esker that wrote it, or measure again"
            ),
        )),
        None => Err(foreign(name, "it has no member `schema`")),
    }
}

#[cold]
fn foreign(name: &str, why: &str) -> Error {
    let message = format!(
        "{name} is not a result of `esker bench` ({why}): give files that `esker bench ... --json FILE` wrote"
    );
    Error::new(ErrorKind::Invalid, message)
}

fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::io(format!("reading {}", path.display()), &error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(RESULTS_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > RESULTS_BYTES_MAX {
        let name = path.display().to_string();
        return Err(foreign(&name, &format!("longer than {RESULTS_BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A document with these runs; what a run leaves open is filled in.
    pub(crate) fn document(runs: &[Value]) -> Value {
        let runs: Vec<_> = runs
            .iter()
            .map(|run| {
                let mut whole = json!({
                    "store": "esker", "workload": "field-io", "phase": "write", "procs": 2,
                    "size_bytes": 1 << 20, "ops": 100, "seconds": 1.0, "ops_per_s": 100.0,
                    "bandwidth_mib_s": 100.0, "limit_mib_s": null, "ratio": null,
                    "latency_us": {"p50": 1.0, "p99": 2.0, "max": 3.0},
                });
                for (name, value) in run.as_object().unwrap() {
                    whole[name] = value.clone();
                }
                whole
            })
            .collect();
        json!({
            "schema": 1,
            "host": {"cpu": "abacus <9> & co", "cpus": 2, "kernel": "6.1", "memory_bytes": 1 << 30,
                     "medium": "memory", "file_system": "tmpfs"},
            "settings": {"version": "0.1.0", "commit": null, "seed": 1, "unix_time_s": 5, "class": "S1"},
            "runs": runs,
        })
    }

    pub(crate) fn results(runs: &[Value]) -> Results {
        Results::from_json("test.json", document(runs)).unwrap()
    }

    #[test]
    fn the_bandwidth_is_the_one_the_papers_use() {
        let bandwidths =
            json!({"global_timing_bandwidth_mib_s": 7.0, "synchronous_bandwidth_mib_s": 9.0});
        let run = |workload: &str, more: &Value| {
            let mut run = more.clone();
            run["workload"] = json!(workload);
            results(&[run]).runs[0].bandwidth()
        };
        assert_eq!(run("segments", &bandwidths), 9.0);
        assert_eq!(run("field-io", &bandwidths), 7.0);
        assert_eq!(run("array", &json!({})), 100.0);
    }

    #[test]
    fn an_envelope_is_opened_and_the_class_is_found_in_the_settings() {
        let envelope = json!({"response": document(&[json!({})]), "error": null, "status": 0});
        let results = Results::from_json("a", envelope).unwrap();
        assert_eq!(results.runs[0].class_array.as_deref(), Some("S1"));
    }

    #[test]
    fn files_that_are_not_results_are_refused_by_name() {
        let message =
            |value| Results::from_json("odd.json", value).unwrap_err().message().to_owned();
        assert!(message(json!({"a": 1})).starts_with("odd.json is not a result of `esker bench`"));
        assert!(message(json!([])).starts_with("odd.json is not a result"));
        let mut newer = document(&[]);
        newer["schema"] = json!(2);
        assert!(message(newer).starts_with("odd.json has schema 2, and this esker reads schema 1"));
        let mut broken = document(&[]);
        broken["runs"] = json!([{"store": 5}]);
        assert!(message(broken).starts_with("odd.json is not a result"));
    }

    #[test]
    fn files_are_named_in_errors() {
        let missing = Results::read(Path::new("/no/such.json")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.message().contains("/no/such.json"));
    }
}
