//! Report files of benchmarks (docs/cli.md describes them). Members that a file lacks stay empty, so the files of all
//! benchmarks, and of versions that measured less or more, can be drawn on one page.
use crate::metrics::Statistics;
use crate::report::{Run, SCHEMA};
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Longest report file that is read, in bytes.
pub const RESULTS_BYTES_MAX: u64 = 64 << 20;

/// One file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Results {
    /// Name of the file, or the command that measured.
    #[serde(skip)]
    pub name: String,
    /// The machine, by member.
    pub host: Map<String, Value>,
    /// Settings of the benchmark, by member.
    pub settings: Map<String, Value>,
    /// Measurements.
    pub runs: Vec<Run>,
    /// The CSV file of traces beside the report, where there is one.
    #[serde(skip)]
    pub traces: Option<PathBuf>,
}

/// `text`, or `None` if it is empty.
fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl Run {
    /// True for the limit of the medium.
    pub fn is_limit(&self) -> bool {
        self.store == "medium"
    }

    /// See [`crate::parallel::Parallel::mode`].
    pub fn mode(&self) -> Option<&str> {
        text(&self.parallel.as_ref()?.mode)
    }

    /// See [`crate::parallel::Parallel::pattern`].
    pub fn pattern(&self) -> Option<&str> {
        text(&self.parallel.as_ref()?.pattern)
    }

    /// See [`crate::parallel::Parallel::contention`].
    pub fn contention(&self) -> Option<&str> {
        self.parallel.as_ref()?.contention.as_deref()
    }

    /// Object class of Arrays, or of all objects.
    pub fn class_array(&self) -> Option<&str> {
        let own = self.parallel.as_ref().and_then(|parallel| text(&parallel.class_array));
        own.or(self.class.as_deref())
    }

    /// See [`crate::parallel::Parallel::class_kv`].
    pub fn class_kv(&self) -> Option<&str> {
        self.parallel.as_ref()?.class_kv.as_deref()
    }

    /// Nodes of the pool; none if it is not over nodes.
    pub fn server_nodes(&self) -> Option<u32> {
        let parallel = self.parallel.as_ref().and_then(|parallel| parallel.server_nodes);
        parallel.or_else(|| self.repeated.as_ref()?.server_nodes)
    }

    /// See [`crate::parallel::Parallel::run`].
    pub fn number(&self) -> Option<u32> {
        Some(self.parallel.as_ref()?.run)
    }

    /// Statistics of the rate over the iterations.
    pub fn rate(&self) -> Option<Statistics> {
        Some(self.repeated.as_ref()?.rate)
    }

    /// Ratio to another store.
    pub fn ratio_to(&self, store: &str) -> Option<f64> {
        self.repeated.as_ref()?.ratio_to.get(store).copied()
    }

    /// Label of a run on a page, without its phase.
    pub fn label(&self) -> String {
        let access = [self.mode(), self.pattern(), self.contention(), self.class_array()];
        let names = [text(&self.store), text(&self.workload)].into_iter().chain(access);
        let names: Vec<_> = names.flatten().collect();
        format!("{} {} x {}", names.join(" "), Bytes(self.size_bytes), self.procs)
    }

    /// Wall-clock time of the phase in seconds.
    pub fn wall_clock_s(&self) -> f64 {
        let total = self.parallel.as_ref().map(|parallel| parallel.total_wall_clock_s);
        total.filter(|seconds| *seconds > 0.0).unwrap_or(self.seconds)
    }

    /// The bandwidth that the papers use for this workload: synchronous for segments, else global
    /// timing. Runs that have neither were measured by global timing.
    pub fn bandwidth(&self) -> f64 {
        let Some(parallel) = &self.parallel else { return self.bandwidth_mib_s };
        let synchronous =
            parallel.synchronous_bandwidth_mib_s.filter(|_| self.workload == "segments");
        let timed = Some(parallel.global_timing_bandwidth_mib_s).filter(|timed| *timed > 0.0);
        synchronous.or(timed).unwrap_or(self.bandwidth_mib_s)
    }

    /// The spread of the run over repeats, if there were several.
    pub fn spread(&self) -> Option<Statistics> {
        let repeat = &self.parallel.as_ref().filter(|parallel| parallel.repeat.count > 0)?.repeat;
        let synchronous =
            repeat.synchronous_bandwidth_mib_s.filter(|_| self.workload == "segments");
        Some(synchronous.unwrap_or(repeat.global_timing_bandwidth_mib_s))
    }
}

impl Results {
    /// Reads a file, and looks for its traces beside it.
    ///
    /// # Errors
    /// Names the file: if it cannot be read, is longer than [`RESULTS_BYTES_MAX`], is not a result of `esker bench`, or
    /// has another schema.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_bounded(path)?;
        let value = serde_json::from_slice(&text).map_err(|error| {
            foreign_file_error(&path.display().to_string(), &format!("no JSON: {error}"))
        })?;
        let mut results = Self::from_json(&path.display().to_string(), value)?;
        if let Some(name) = path.file_name() {
            results.name = name.to_string_lossy().into_owned();
        }
        let traces = path.with_extension("traces.csv");
        results.traces = Some(traces).filter(|traces| results.is_of_same_run(traces));
        Ok(results)
    }

    /// True if a file of traces is of the run of this report, whose settings its head repeats. An earlier run may have
    /// left another one beside the report.
    fn is_of_same_run(&self, traces: &Path) -> bool {
        let Ok(file) = std::fs::File::open(traces) else { return false };
        let lines =
            BufReader::new(file.take(RESULTS_BYTES_MAX)).lines().map_while(std::io::Result::ok);
        let mut head = lines.take_while(|line| line.starts_with('#'));
        let settings = head.find_map(|line| Some(line.strip_prefix("# settings: ")?.to_owned()));
        settings.is_none_or(|settings| {
            serde_json::from_str(&settings)
                .is_ok_and(|settings: Map<_, _>| settings == self.settings)
        })
    }

    /// Parses the content of a result file. The envelope of `--json` is removed.
    ///
    /// # Errors
    /// The errors of [`Results::read`].
    pub fn from_json(name: &str, mut value: Value) -> Result<Self> {
        if let Some(response) = value.get_mut("response") {
            value = response.take();
        }
        match value.get("schema") {
            Some(schema) if *schema == SCHEMA => {}
            Some(schema) => {
                let message = format!(
                    "{name} has schema {schema}, and this esker reads schema {SCHEMA}: \
                     use the esker that wrote it, or measure again"
                );
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            None => return Err(foreign_file_error(name, "it has no member `schema`")),
        }
        let mut results: Self = serde_json::from_value(value)
            .map_err(|error| foreign_file_error(name, &error.to_string()))?;
        name.clone_into(&mut results.name);
        let class = results.settings.get("class").and_then(Value::as_str).map(str::to_owned);
        results.runs.iter_mut().for_each(|run| run.class.clone_from(&class));
        Ok(results)
    }
}

#[cold]
fn foreign_file_error(name: &str, why: &str) -> Error {
    let message = format!(
        "{name} is not a result of `esker bench` ({why}): give files that `esker bench ... --json FILE` wrote"
    );
    Error::new(ErrorKind::Invalid, message)
}

/// Reads a file up to a limit: a wrong file may be of any size.
fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::io(format!("reading {}", path.display()), &error);
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = Vec::new();
    file.take(RESULTS_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > RESULTS_BYTES_MAX {
        let name = path.display().to_string();
        return Err(foreign_file_error(&name, &format!("longer than {RESULTS_BYTES_MAX} bytes")));
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
        let bandwidths = json!({"mode": "full", "global_timing_bandwidth_mib_s": 7.0, "synchronous_bandwidth_mib_s": 9.0});
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
        assert_eq!(results.runs[0].class_array(), Some("S1"));
    }

    #[test]
    fn traces_of_another_run_are_left_out() {
        let folder = std::env::temp_dir().join(format!("esker-results-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (report, traces) = (folder.join("r.json"), folder.join("r.traces.csv"));
        let document = document(&[]);
        std::fs::write(&report, document.to_string()).unwrap();
        let mut of_another = document["settings"].clone();
        of_another["unix_time_s"] = json!(4);
        for (settings, expected) in [(&document["settings"], true), (&of_another, false)] {
            std::fs::write(&traces, format!("# esker traces 1\n# settings: {settings}\n")).unwrap();
            assert_eq!(Results::read(&report).unwrap().traces.is_some(), expected, "{settings}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_that_are_not_results_are_refused_by_name() {
        let message =
            |value| Results::from_json("odd.json", value).unwrap_err().message().to_owned();
        assert!(message(json!({"a": 1})).starts_with("odd.json is not a result of `esker bench`"));
        let mut newer = document(&[]);
        newer["schema"] = json!(2);
        assert!(message(newer).starts_with("odd.json has schema 2, and this esker reads schema 1"));
        let mut broken = document(&[]);
        broken["runs"] = json!([{"store": 5}]);
        assert!(message(broken).starts_with("odd.json is not a result"));
    }
}
