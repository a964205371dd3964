use super::*;
use crate::results::tests::results;
use serde_json::{Value, json};
use std::path::PathBuf;

fn run(mode: &str, pattern: &str, phase: &str, procs: u32, mib_s: f64) -> Value {
    json!({
        "run": 1, "mode": mode, "pattern": pattern, "contention": "low", "phase": phase, "procs": procs,
        "global_timing_bandwidth_mib_s": mib_s, "limit_mib_s": 4000.0, "class_array": "S1",
        "class_kv": "SX", "total_wall_clock_s": 2.0, "off_0": 0.01, "off_f": 0.5,
        "repeat": {"count": 2, "global_timing_bandwidth_mib_s":
                   {"mean": mib_s, "min": mib_s * 0.8, "max": mib_s * 1.2, "stddev": 1.0}},
    })
}

fn figures(runs: &[Value]) -> Vec<Figure> {
    Figures::default().of(&[results(runs)]).unwrap()
}

fn texts(figure: &Figure) -> Vec<String> {
    let document = roxmltree::Document::parse(&figure.svg).unwrap();
    document.descendants().filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn stems(figures: &[Figure]) -> Vec<&str> {
    figures.iter().map(|figure| figure.id.split_once('-').unwrap().1).collect()
}

#[test]
fn what_was_varied_makes_a_chart() {
    let runs = [
        run("full", "A", "write", 1, 1000.0),
        run("full", "A", "write", 2, 1900.0),
        run("full", "A", "read", 1, 1500.0),
        run("full", "A", "read", 2, 3000.0),
    ];
    let figures = figures(&runs);
    assert_eq!(stems(&figures), ["processes", "offsets"]);
    let texts = texts(&figures[0]);
    for text in
        ["write", "read", "esker, full", "processes", "bandwidth (GiB/s)", "limit of the medium"]
    {
        assert!(texts.iter().any(|found| found.contains(text)), "{text}: {texts:?}");
    }
    let sentence = &figures[0].sentence;
    assert!(
        sentence.contains("Write: highest 1.86 GiB/s (esker, full, 2 processes)"),
        "{sentence}"
    );
    assert!(sentence.contains("1.90 times as much at 2 processes as at 1 process."), "{sentence}");
    assert!(sentence.contains("whiskers"), "{sentence}");
}

#[test]
fn modes_stand_beside_each_other_and_pattern_b_has_a_sum() {
    let mut runs = Vec::new();
    for mode in ["full", "no-index"] {
        for procs in [2, 4] {
            runs.push(run(mode, "B", "write", procs, 100.0));
            let mut read = run(mode, "B", "read", procs, 150.0);
            read["run"] = json!(2);
            runs.push(read);
        }
    }
    let figures = figures(&runs);
    assert_eq!(stems(&figures), ["modes", "modes", "processes", "offsets"]);
    assert!(figures[0].title.contains("2 processes"), "{}", figures[0].title);
    let processes = &figures[2];
    assert!(
        processes.sentence.contains("Write + read: highest 250 MiB/s"),
        "{}",
        processes.sentence
    );
    assert!(texts(processes).contains(&"no-index".to_owned()));
}

#[test]
fn stores_sizes_and_classes_make_charts_of_their_own() {
    let base = run("full", "A", "write", 2, 100.0);
    let with = |name: &str, value: Value| {
        let mut other = base.clone();
        other[name] = value;
        other
    };
    let first = |other: Value| figures(&[base.clone(), other]).remove(0).id;
    assert_eq!(first(with("store", json!("posix"))), "fig01-stores");
    assert_eq!(first(with("size_bytes", json!(8 << 20))), "fig01-size");
    assert_eq!(first(with("class_array", json!("SX"))), "fig01-class");
    let mut nodes = with("nodes", json!(2));
    nodes["procs"] = json!(4);
    assert_eq!(first(nodes), "fig01-nodes");
}

#[test]
fn runs_that_vary_in_nothing_get_an_overview_and_limits_are_no_runs() {
    let medium = json!({"store": "medium", "workload": "array", "phase": "pwrite"});
    let figures = figures(&[json!({"workload": "array"}), medium]);
    assert_eq!(stems(&figures), ["overview"]);
    assert!(!texts(&figures[0]).contains(&"pwrite".to_owned()));
}

#[test]
fn small_values_are_told_as_operations() {
    let small =
        |procs: u32| json!({"workload": "kv", "size_bytes": 64, "procs": procs, "ops_per_s": 5e4});
    let figures = figures(&[small(1), small(2)]);
    assert!(texts(&figures[0]).contains(&"thousand operations/s".to_owned()));
    assert!(figures[0].sentence.contains("50 k/s"), "{}", figures[0].sentence);
}

/// Two writers of two operations, then two readers.
fn trace_lines(read_from_ns: u64) -> String {
    let mut lines =
        "# esker traces 1\nrun,repeat,phase,node,process,pid,cpu,iteration,event,time_ns\n"
            .to_owned();
    for (phase, start) in [("write", 0), ("read", read_from_ns)] {
        let run = if phase == "write" { 1 } else { 2 };
        for process in 0..2 {
            for iteration in 0..2 {
                let at = start + 1000 * iteration + 100 * process;
                for (event, time) in [("io_start", at), ("io_end", at + 900)] {
                    lines +=
                        &format!("{run},1,{phase},n0,{process},9,,{iteration},{event},{time}\n");
                }
            }
        }
    }
    lines
}

fn with_traces(name: &str, lines: &str) -> Results {
    let path = std::env::temp_dir().join(format!("esker-{name}-{}.csv", std::process::id()));
    std::fs::write(&path, lines).unwrap();
    let traces = Some::<PathBuf>(path);
    let mut read = run("full", "A", "read", 2, 1.0);
    read["run"] = json!(2);
    Results { traces, ..results(&[run("full", "A", "write", 2, 1.0), read]) }
}

fn timelines(name: &str, lines: &str) -> Result<Vec<Figure>> {
    let file = with_traces(name, lines);
    let figures = Figures::default().timelines(&file);
    std::fs::remove_file(file.traces.unwrap()).unwrap();
    figures
}

#[test]
fn phases_that_follow_each_other_have_timelines_of_their_own() {
    let figures = timelines("apart", &trace_lines(5000)).unwrap();
    let titles: Vec<_> = figures.iter().map(|figure| figure.title.as_str()).collect();
    assert!(
        titles[0].ends_with("(write phase)") && titles[1].ends_with("(read phase)"),
        "{titles:?}"
    );
    assert!(figures[0].sentence.contains("4 operations of 2 processes"), "{}", figures[0].sentence);
    let texts = texts(&figures[1]);
    for text in ["read 0", "read 1", "off_0 read", "off_f read"] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
}

#[test]
fn phases_at_the_same_time_share_a_timeline() {
    let figures = timelines("together", &trace_lines(500)).unwrap();
    assert_eq!(figures.len(), 1);
    let texts = texts(&figures[0]);
    assert!(texts.contains(&"write 1".to_owned()) && texts.contains(&"read 0".to_owned()));
}

#[test]
fn what_is_no_trace_is_refused_by_name_and_line() {
    let message =
        |name: &str, lines: &str| timelines(name, lines).unwrap_err().message().to_owned();
    assert!(message("odd", "a,b\n1,2\n").contains("line 1, is no trace"));
    let broken = trace_lines(500) + "1,1,write,n0\n";
    assert!(message("broken", &broken).contains("line 19, is no trace"));
}
