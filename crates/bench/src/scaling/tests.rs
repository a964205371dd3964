use super::*;
use serde_json::Value;

/// A run of a report.
fn run(phase: &str, pattern: &str, procs: u32, size_bytes: u64, mib_s: f64) -> Run {
    let statistics = serde_json::json!({"mean": mib_s, "min": mib_s, "max": mib_s, "stddev": 0.0, "median": mib_s});
    let value: Value = serde_json::json!({
        "store": "nodes", "workload": "field-io", "phase": phase, "procs": procs, "size_bytes": size_bytes, "ops": 100,
        "seconds": 1.0, "ops_per_s": mib_s * 1_048_576.0 / size_bytes as f64, "bandwidth_mib_s": mib_s,
        "limit_mib_s": 4000.0, "ratio": 0.5, "latency_us": {"p50": 300.0, "p99": 400.0, "p99_9": 400.0, "max": 500.0},
        "run": 0, "mode": "full", "pattern": pattern, "contention": "low", "class_kv": "SX", "class_array": "S1",
        "nodes": 1, "server_nodes": 1, "procs_per_node": procs, "phase_procs": procs, "iterations": 100,
        "global_timing_bandwidth_mib_s": mib_s, "synchronous_bandwidth_mib_s": null, "total_wall_clock_s": 1.0,
        "off_0": 0.0, "off_f": 0.0, "po_0": null, "po_f": null, "latency_percentiles_us": {}, "repeats": [],
        "repeat": {"count": 1, "global_timing_bandwidth_mib_s": statistics, "synchronous_bandwidth_mib_s": null,
                   "limit_mib_s": statistics, "ratio": statistics},
    });
    serde_json::from_value(value).unwrap()
}

fn plan() -> ScalingPlan {
    ScalingPlan {
        swept: Swept::FieldIo,
        launcher: Launcher {
            program: PathBuf::new(),
            esker: PathBuf::new(),
            worker: Vec::new(),
            janitor: Vec::new(),
            variables: Vec::new(),
        },
        folder: PathBuf::new(),
        pools: vec!["one".to_owned()],
        words: vec!["--mode".to_owned(), "full".to_owned()],
        procs: vec![2, 4],
        sizes: "1MiB".to_owned(),
        ops: None,
        node: "none".to_owned(),
        beyond: ModelledSystems { servers: 12, clients: 2, procs: 36, link_mib_s: Some(1000.0) },
    }
}

#[test]
fn line_uses_best_number_of_processes() {
    let runs = [("write", 2, 500.0), ("write", 4, 600.0), ("read", 2, 700.0), ("read", 4, 650.0)];
    let runs = runs.map(|(phase, procs, mib_s)| run(phase, "A", procs, 1 << 20, mib_s));
    let small = [("write", 2, 10.0), ("write", 4, 20.0), ("read", 2, 10.0), ("read", 4, 20.0)];
    let small = small.map(|(phase, procs, mib_s)| run(phase, "A", procs, 4096, mib_s));
    let model = plan().model(&runs, &small).unwrap();
    let measured: Vec<_> =
        model.lines.iter().map(|line| (line.phase.as_str(), line.measured_mib_s)).collect();
    assert_eq!(measured, [("write", 600.0), ("read", 700.0)]);
    let line = &model.lines[0];
    // 20 MiB/s of 4 KiB are 5120 fields per second.
    assert_eq!((line.costs.request_us, line.costs.wait_us), (195.313, 104.688));
    assert_eq!(
        line.points.iter().map(|(servers, _)| *servers).collect::<Vec<_>>(),
        [1, 2, 4, 8, 12]
    );
    assert!(line.points.is_sorted_by(|one, next| next.1 > one.1), "{:?}", line.points);
    assert!(line.modelled_mib_s < 1000.0 && model.link == "given");
}

#[test]
fn segments_use_request_costs_of_fields_without_index() {
    let mut large = run("write", "A", 2, 1 << 20, 500.0);
    let parallel = large.parallel.as_deref_mut().unwrap();
    (parallel.mode, parallel.contention, parallel.class_kv) = ("own".to_owned(), None, None);
    let small = [run("write", "A", 2, 4096, 20.0), run("read", "A", 2, 4096, 40.0)];
    let model = plan().model(&[large], &small).unwrap();
    assert_eq!((model.lines.len(), model.lines[0].costs.request_us), (1, 195.313));
}

#[test]
fn both_halves_of_pattern_b_share_the_engines() {
    let of =
        |size, mib_s| [("write", 0), ("read", 1)].map(|(phase, _)| run(phase, "B", 4, size, mib_s));
    let both = plan().model(&of(1 << 20, 500.0), &of(4096, 10.0)).unwrap();
    assert_eq!(both.lines.len(), 2);
    assert_eq!(both.lines[0].points, both.lines[1].points);
    // 10 MiB/s of 4 KiB each are 5120 fields per second together.
    assert_eq!(both.lines[0].costs.request_us, 195.313);
}

#[test]
fn commands_can_be_run_by_hand() {
    let words = plan().words_for("tank", &[2, 4], None).join(" ");
    assert_eq!(words, "field-io --pool tank --size 1MiB --procs 2,4 --mode full");
    let small = plan().words_for("tank", &[2], Some(SMALL)).join(" ");
    assert_eq!(small, "field-io --pool tank --size 4KiB --procs 2 --ops 500 --mode full");
    let segments =
        ScalingPlan { swept: Swept::Segments, ops: Some(50), words: Vec::new(), ..plan() };
    let words = segments.words_for("tank", &[2], None).join(" ");
    assert_eq!(words, "segments --pool tank --size 1MiB --procs 2 --segments 50");
    let small = segments.words_for("tank", &[2], Some(SMALL)).join(" ");
    assert_eq!(small, "field-io --pool tank --size 4KiB --procs 2 --ops 500 --mode no-index");
}

#[test]
fn invalid_options_are_refused() {
    let beyond = plan().beyond;
    let wrong = [
        ScalingPlan { pools: Vec::new(), ..plan() },
        ScalingPlan { beyond: ModelledSystems { servers: 0, ..beyond }, ..plan() },
        ScalingPlan { beyond: ModelledSystems { procs: u32::MAX, ..beyond }, ..plan() },
        ScalingPlan { beyond: ModelledSystems { link_mib_s: Some(0.0), ..beyond }, ..plan() },
    ];
    for plan in wrong {
        assert_eq!(plan.check().unwrap_err().kind(), ErrorKind::Invalid);
    }
}
