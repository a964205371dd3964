//! `esker bench field-io` and `esker bench segments`: real processes, figures and traces that agree,
//! and several nodes.
use crate::bench_site::{BenchSite, runs};
use serde_json::{Value, json};
use std::path::Path;

const SMALL: &str = "--size 8K --repeat 2 --targets 2 --verify --procs 2 --pin none";

fn store_runs(report: &Value) -> Vec<Value> {
    runs(report).iter().filter(|run| run["store"] != json!("medium")).cloned().collect()
}

/// The lines of a file of traces, each divided into its columns.
struct Traces(Vec<Vec<String>>);

impl Traces {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines().skip_while(|line| line.starts_with("# "));
        let names = lines.next().unwrap();
        assert_eq!(names, "run,repeat,phase,node,process,pid,cpu,iteration,event,time_ns");
        Self(lines.map(|line| line.split(',').map(str::to_owned).collect()).collect())
    }

    /// Times in nanoseconds of the events with this name in a repeat of a run.
    fn times(&self, run: u64, repeat: u64, event: &str) -> Vec<u64> {
        let (run, repeat) = (run.to_string(), repeat.to_string());
        let of =
            self.0.iter().filter(|line| line[0] == run && line[1] == repeat && line[8] == event);
        of.map(|line| line[9].parse().unwrap()).collect()
    }

    /// Ids of the processes of a run, each once.
    fn pids(&self, run: u64) -> Vec<&str> {
        let run = run.to_string();
        let mut pids: Vec<_> =
            self.0.iter().filter(|line| line[0] == run).map(|line| line[5].as_str()).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// Checks that the figures of a report follow from its traces. Each process of a phase had `ops` operations.
fn check_against_traces(report: &Value, traces: &Traces, ops: usize) {
    for run in store_runs(report) {
        let number = run["run"].as_u64().unwrap();
        let procs = run["phase_procs"].as_u64().unwrap() as usize;
        for repeat in run["repeats"].as_array().unwrap() {
            let at = |event| traces.times(number, repeat["repeat"].as_u64().unwrap(), event);
            let (starts, ends) = (at("io_start"), at("io_end"));
            assert_eq!((starts.len(), ends.len()), (procs * ops, procs * ops), "{run}");
            let seconds = (ends.iter().max().unwrap() - starts.iter().min().unwrap()) as f64 / 1e9;
            assert!((repeat["total_wall_clock_s"].as_f64().unwrap() - seconds).abs() < 1e-5);
            let bytes = run["size_bytes"].as_f64().unwrap() * (procs * ops) as f64;
            let bandwidth = repeat["global_timing_bandwidth_mib_s"].as_f64().unwrap();
            let expected = bytes / f64::from(1 << 20) / seconds;
            assert!(
                (bandwidth - expected).abs() < 1e-3 * expected.max(1.0),
                "{bandwidth} {expected}"
            );
        }
        assert_eq!(run["repeat"]["count"], json!(2));
        assert_eq!(run["po_0"].is_null(), run["pattern"] == json!("A"));
        assert!(run["limit_mib_s"].is_f64());
    }
}

#[test]
fn all_modes_patterns_and_contentions_are_measured_and_verified() {
    let bench = BenchSite::new();
    let cases = "--mode full,no-containers,no-index --pattern A,B --contention low,high";
    let command = format!("field-io --path $DIR --ops 6 --json $DIR/report.json {cases} {SMALL}");
    let table = bench.ok(&command);
    assert!(table.contains("no-containers") && table.contains("off_f ms"), "{table}");
    let report = bench.read_json("report.json");
    assert_eq!((&report["schema"], &report["settings"]["verified"]), (&json!(1), &json!(true)));
    assert_eq!(store_runs(&report).len(), 3 * 2 * 2 * 2);
    let typed: esker_bench::report::Report = serde_json::from_value(report.clone()).unwrap();
    assert_eq!(typed.runs.iter().filter(|run| run.parallel.is_some()).count(), 24);
    let traces = Traces::read(&bench.path("report.traces.csv"));
    check_against_traces(&report, &traces, 6);
    for pair in store_runs(&report).chunks(2) {
        let of = |run: &Value| traces.pids(run["run"].as_u64().unwrap());
        let (writers, readers) = (of(&pair[0]), of(&pair[1]));
        assert!(writers.iter().all(|pid| !readers.contains(pid)), "other processes read");
    }
    bench.assert_left(&["report.json", "report.traces.csv"]);
}

#[test]
fn classes_and_sizes_are_swept() {
    let small = "--path $DIR --ops 2 --repeat 1 --targets 2 --verify --json -";
    let cases = "--size 4K,3MiB --class-kv S1,SX --class-array OC_S1,SX --procs 1,2";
    let report = BenchSite::new().ok(&format!("field-io {small} {cases}"));
    let report: Value = serde_json::from_str(&report).unwrap();
    let runs = store_runs(&report);
    let mut seen: Vec<_> = runs
        .iter()
        .map(|run| [&run["procs"], &run["size_bytes"], &run["class_kv"], &run["class_array"]])
        .map(|names| format!("{names:?}"))
        .collect();
    seen.dedup();
    assert_eq!((runs.len(), seen.len()), (2 * 16, 16));
}

#[test]
fn segments_are_synchronised() {
    let bench = BenchSite::new();
    let cases = "--segments 3 --iterations 4 --objects own,shared";
    bench.ok(&format!("segments --path $DIR {cases} {SMALL} --json $DIR/s.json"));
    let report = bench.read_json("s.json");
    let traces = Traces::read(&bench.path("s.traces.csv"));
    for run in store_runs(&report) {
        assert!(run["synchronous_bandwidth_mib_s"].is_f64());
        let lines = traces
            .0
            .iter()
            .filter(|line| run["run"] == line[0].parse::<u64>().unwrap() && line[1] == "1");
        let of = |iteration: &str, event: &str| -> Vec<u64> {
            let here = lines.clone().filter(|line| line[7] == iteration && line[8] == event);
            here.map(|line| line[9].parse().unwrap()).collect()
        };
        for (before, after) in [("0", "1"), ("1", "2"), ("2", "3")] {
            let ended = *of(before, "io_end").iter().max().unwrap();
            assert!(of(after, "io_start").iter().all(|start| *start > ended), "a barrier between");
        }
    }
}

#[test]
fn nodes_measure_together_and_the_first_reports() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    let place = "--pool tank --rendezvous $DIR/meet --json $DIR/n.json";
    let small = "--procs 2 --ops 3 --repeat 2 --size 8K --pattern A,B --pin none --verify";
    let nodes = bench.nodes(&format!("field-io {place} {small}"), 3).into_iter();
    let outputs: Vec<_> = nodes.map(|node| node.wait_with_output().unwrap()).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    let said: Vec<_> = outputs.iter().map(|output| output.stdout.is_empty()).collect();
    assert_eq!(said, [false, true, true]);
    let report = bench.read_json("n.json");
    check_against_traces(&report, &Traces::read(&bench.path("n.traces.csv")), 3);
    let names: Vec<_> =
        report["settings"]["nodes"].as_array().unwrap().iter().map(|node| &node["node"]).collect();
    assert_eq!(names, ["node0", "node1", "node2"]);
    let first = &store_runs(&report)[0];
    assert_eq!((&first["procs"], &first["nodes"]), (&json!(6), &json!(3)));
    assert_eq!(bench.site.json(&["cont", "list", "tank"]), json!([]));
    assert_eq!(std::fs::read_dir(bench.path("meet")).unwrap().count(), 0);
}
