use super::*;

fn comparison(stores: &[&str], workload: Workload) -> Comparison {
    Comparison {
        folder: "/dev/shm".into(),
        stores: stores.iter().map(|store| store.parse().unwrap()).collect(),
        workload,
        indexed: false,
        mode: None,
        pattern: None,
        contention: None,
        sizes: vec![1 << 20],
        procs: vec![2],
        ops: Some(10),
        rounds: 2,
        durability: DurabilityArg::Process,
        verify: false,
    }
}

fn measured(mib_s: f64) -> Report {
    let run = |store: &str| {
        json!({
            "store": store, "workload": "array", "phase": "write", "procs": 2, "size_bytes": 1 << 20,
            "ops": 100, "seconds": 1.0, "ops_per_s": 100.0, "bandwidth_mib_s": mib_s,
            "limit_mib_s": 200.0, "ratio": mib_s / 200.0,
            "latency_us": {"p50": 1.0, "p99": 2.0, "p99_9": 2.5, "max": 3.0},
        })
    };
    let report = json!({
        "schema": 1,
        "host": {"cpu": "abacus", "cpus": 2, "kernel": "6.1", "memory_bytes": 1 << 30, "medium": "memory",
                 "file_system": "tmpfs"},
        "settings": {"version": "0.1.0", "commit": null, "seed": 1, "unix_time_s": 5},
        "runs": [run("medium"), run("esker")],
    });
    serde_json::from_value(report).unwrap()
}

#[test]
fn ratios_are_medians_of_those_of_each_round() {
    let comparison = comparison(&["native", "files"], Workload::Array);
    let all =
        [(0, measured(100.0)), (1, measured(50.0)), (0, measured(300.0)), (1, measured(75.0))];
    let compared = comparison.compared(&all);
    let line = &compared.report["compared"][0];
    assert_eq!(line["first_store_over"], json!({"native": 1.0, "files": 3.0}));
    assert_eq!(line["ratio_to_limit"], json!({"native": 1.0, "files": 0.313}));
    let text = compared.to_string();
    let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["write", "2", "1", "MiB", "200", "200", "(1.00)", "62", "(0.31)", "3.00"]);
    assert!(text.contains("native/files"), "{text}");
}

#[test]
fn each_store_is_compared_with_its_own_limit() {
    let comparison = comparison(&["native", "files"], Workload::Array);
    let on_disk = |mib_s: f64| {
        let mut report = measured(mib_s);
        report.host.medium = "block".to_owned();
        report.runs.iter_mut().for_each(|run| run.limit_mib_s = Some(100.0));
        report
    };
    let all = [100.0, 120.0, 900.0].map(|mib_s| [(0, measured(mib_s)), (1, on_disk(mib_s / 2.0))]);
    let compared = comparison.compared(&all.concat());
    let line = &compared.report["compared"][0];
    assert_eq!(line["limit_mib_s"], json!({"native": 200.0, "files": 100.0}));
    assert_eq!(line["ratio_to_limit"], json!({"native": 0.6, "files": 0.6}));
    let of_runs: Vec<_> =
        compared.report["runs"].as_array().unwrap().iter().map(|run| &run["ratio"]).collect();
    assert_eq!(of_runs, [0.6, 0.6]);
    let text = compared.to_string();
    let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
    let stores = ["120", "(0.60)", "200", "60", "(0.60)", "100", "2.00"];
    assert_eq!(row, [["write", "2", "1", "MiB"].as_slice(), &stores].concat());
}

#[test]
fn comparison_is_a_valid_report() {
    let comparison = comparison(&["native", "files"], Workload::Array);
    let all =
        [(0, measured(100.0)), (1, measured(50.0)), (0, measured(300.0)), (1, measured(75.0))];
    let report = comparison.compared(&all).report;
    let read: Report = serde_json::from_value(report.clone()).unwrap();
    let stores: Vec<_> = read.runs.iter().map(|run| run.store.as_str()).collect();
    assert_eq!(stores, ["native", "files"]);
    let spread = &report["runs"][0]["repeat"]["global_timing_bandwidth_mib_s"];
    assert_eq!([&spread["mean"], &spread["min"], &spread["max"]], [200.0, 100.0, 300.0]);
    let ratio = &report["runs"][1]["repeat"]["ratio"];
    assert_eq!([&ratio["median"], &ratio["min"], &ratio["max"]], [0.313, 0.25, 0.375]);
}

#[test]
fn times_of_field_io_are_medians_of_the_rounds() {
    let comparison = comparison(&["native", "posix"], Workload::FieldIo);
    let timed = |off_0: f64| {
        let mut report = measured(100.0);
        let parallel = Parallel { mode: "full".to_owned(), off_0, ..Parallel::default() };
        report.runs[1].parallel = Some(Box::new(parallel));
        report
    };
    let all = [(0, timed(1.0)), (1, timed(5.0)), (0, timed(3.0)), (1, timed(5.0))];
    let report = comparison.compared(&all).report;
    assert_eq!(
        (&report["runs"][0]["off_0"], &report["runs"][0]["po_0"]),
        (&json!(2.0), &json!(null))
    );
}

#[test]
fn plain_files_replace_field_io_without_index() {
    let comparison = comparison(&["native", "files"], Workload::FieldIo);
    let words = |store: &Store| comparison.words(store, "u", 8, 2).join(" ");
    let native = words(&Store::Native);
    assert_eq!(
        native,
        "field-io --pool u --size 8 --procs 2 --ops 10 --repeat 1 --mode full --pattern A --contention low"
    );
    assert_eq!(words(&Store::Files), "array --pool u --size 8 --procs 2 --ops 10 --rounds 1");
}

#[test]
fn invalid_comparisons_are_refused() {
    let kind = |comparison: Comparison| comparison.check().unwrap_err().kind();
    assert_eq!(kind(comparison(&["native"], Workload::Array)), ErrorKind::Invalid);
    assert_eq!(kind(comparison(&["native", "native"], Workload::Array)), ErrorKind::Invalid);
    assert_eq!(
        kind(Comparison { rounds: 0, ..comparison(&["native", "files"], Workload::Array) }),
        ErrorKind::Invalid
    );
    let field_io = comparison(&["native", "files"], Workload::FieldIo);
    assert!(field_io.check().is_ok());
    let pattern_b = Comparison { pattern: Some(Pattern::B), ..field_io };
    assert_eq!(kind(pattern_b), ErrorKind::Invalid);
    let arrays = comparison(&["native", "posix"], Workload::Array);
    let contended = Comparison { contention: Some(Contention::High), ..arrays };
    assert_eq!(kind(contended), ErrorKind::Invalid);
    let keys = comparison(&["native", "posix"], Workload::Kv);
    assert_eq!(kind(Comparison { indexed: true, ..keys }), ErrorKind::Invalid);
    assert!(comparison(&["native", "files"], Workload::Array).check().is_ok());
    assert!("".parse::<Store>().is_err());
}
