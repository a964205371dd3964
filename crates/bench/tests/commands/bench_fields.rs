//! `esker bench fields`: what is measured, the shape of the report, and nothing left behind.
use crate::bench_site::{BenchSite, phases, runs, text};
use serde_json::{Value, json};
use std::process::Command;

/// Small fields of two processes: 24 each.
const SMALL: &str = "fields --steps 3 --levels 2 --params 2 --members 2 --size 5000 --pin none";

fn measure(bench: &BenchSite, options: &str) -> (String, Value) {
    let measured = bench.measure(&format!("{SMALL} {options}"));
    bench.assert_left(&["tank", "none.grib", "damaged.grib"]);
    measured
}

#[test]
fn all_phases_are_measured_beside_files_and_the_medium() {
    let bench = BenchSite::new();
    let (table, report) = measure(&bench, "--path $DIR --procs 2 -i 2 --verify --targets 2");
    let expected = [
        ("medium", "pwrite", 96),
        ("files", "archive", 96),
        ("esker", "archive", 96),
        ("medium", "pread", 96),
        ("files", "retrieve", 96),
        ("esker", "retrieve", 96),
        ("esker", "retrieve-request", 96),
        ("esker", "retrieve-in-order", 96),
        ("esker", "retrieve-scattered", 96),
        ("esker", "list", 192),
        ("esker", "axes", 192),
        ("esker", "archive-watched", 96),
        ("esker", "watch", 192),
    ];
    assert_eq!(phases(&report), expected);
    for run in runs(&report) {
        let (store, phase) = (text(run, "store"), text(run, "phase"));
        assert_eq!((&run["workload"], &run["procs"]), (&json!("fields"), &json!(2)));
        assert_eq!(run["repeats"].as_array().unwrap().len(), 2);
        assert!(run["rate"]["median"].is_f64(), "{run}");
        let has_limit = store != "medium" && (phase.starts_with("retrieve") || phase == "archive");
        assert_eq!(run["ratio"].is_f64(), has_limit, "{run}");
        let beside = has_limit && store == "esker";
        assert_eq!(run["ratio_to"]["files"].is_f64(), beside || store == "medium", "{run}");
    }
    assert!(table.contains("scattered reads reach ") && table.contains("archive-watched"));
}

#[test]
fn pool_of_the_user_keeps_no_container_of_the_benchmark() {
    let bench = BenchSite::new();
    bench.site.ok(&["pool", "create", "tank", "--size", "128M", "--targets", "2"]);
    let (_, report) = measure(&bench, "--pool tank -i 1 --no-watch --procs 1,2");
    let ops: Vec<_> = phases(&report).iter().map(|run| run.2).collect();
    assert_eq!(ops[..2], [24, 24]);
    assert_eq!(report["runs"][11]["procs"], json!(2));
    assert_eq!(bench.site.json(&["cont", "list", "tank"]), json!([]));
}

#[test]
fn error_names_the_invalid_option() {
    let bench = BenchSite::new();
    for (options, named) in [
        ("--steps 0", "--steps"),
        ("--size 3", "--size"),
        ("-i 0", "-i"),
        ("--pool files:$DIR", "pool"),
    ] {
        assert!(bench.message(&format!("fields {options}")).contains(named), "{options}");
    }
    let said = bench.usage_error("fields --nodes tank --durability commit");
    assert!(said.contains("--durability"), "{said}");
    bench.assert_left(&[]);
}

#[test]
fn error_of_a_peer_that_cannot_start_names_the_remedy() {
    let bench = BenchSite::new();
    for (python, why) in [("/no/python", "/no/python"), ("/bin/false", "ended unexpectedly")] {
        let peer = format!("--path $DIR --peer pyfdb --python {python} --no-watch");
        let said = bench.message(&format!("{SMALL} {peer}"));
        assert!(said.contains(why) && said.contains("pip install pyfdb"), "{said}");
        bench.assert_left(&[]);
    }
}

/// Runs only if `python3`, or the Python of `ESKER_PYFDB_PYTHON`, has pyfdb. If it also has the package esker, that
/// package reads the store too.
#[test]
fn a_real_fdb_does_the_same_work() {
    let python = std::env::var("ESKER_PYFDB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |what: &str| {
        let import = Command::new(&python).args(["-c", &format!("import {what}")]).output();
        import.is_ok_and(|output| output.status.success())
    };
    if !has("pyfdb") {
        return esker_testing::skip(format_args!("{python} has no pyfdb"));
    }
    let peer = format!("--path $DIR --peer pyfdb --python {python} --no-watch --procs 2 -i 1");
    let (table, report) = measure(&BenchSite::new(), &peer);
    let of_peer: Vec<_> = phases(&report).into_iter().filter(|run| run.0 == "pyfdb").collect();
    let expected = [
        ("pyfdb", "archive", 48),
        ("pyfdb", "retrieve", 48),
        ("pyfdb", "retrieve-request", 48),
        ("pyfdb", "retrieve-in-order", 48),
        ("pyfdb", "retrieve-scattered", 48),
        ("pyfdb", "list", 96),
        ("pyfdb", "axes", 96),
    ];
    assert_eq!(of_peer, expected);
    assert!(report["runs"][2]["ratio_to"]["pyfdb"].is_f64());
    let from_python: Vec<_> =
        phases(&report).into_iter().filter(|run| run.1.starts_with("python-")).collect();
    let expected = ["python-retrieve", "python-retrieve-request", "python-view-request"];
    match has("esker") {
        true => assert_eq!(from_python, expected.map(|phase| ("esker", phase, 48))),
        false => assert!(from_python.is_empty() && table.contains("left out"), "{table}"),
    }
    assert!(table.contains("x pyfdb"), "{table}");
}

/// A file of the user's is needed for the work itself: `ESKER_GRIB_FILE` names one.
#[test]
fn messages_of_a_file_are_archived_under_their_own_keys() {
    let bench = BenchSite::new();
    for (name, text) in [("none.grib", "no message"), ("damaged.grib", "GRIB and no more")] {
        bench.site.file(name, text.as_bytes());
        let said = bench.message(&format!("fields --path $DIR --grib $DIR/{name}"));
        assert!(said.contains(name), "{said}");
    }
    bench.assert_left(&["none.grib", "damaged.grib"]);
    let Ok(file) = std::env::var("ESKER_GRIB_FILE") else {
        return esker_testing::skip("ESKER_GRIB_FILE names no file");
    };
    let grib = format!("--path $DIR --grib {file} --no-watch --verify -i 1 --procs 2");
    let (table, report) = measure(&bench, &grib);
    if table.contains("archive-grib is left out") {
        return esker_testing::skip("ecCodes is missing, so archive-grib is left out");
    }
    let of_grib: Vec<_> =
        phases(&report).into_iter().filter(|run| run.1 == "archive-grib").collect();
    assert_eq!(of_grib, [("files", "archive-grib", 48), ("esker", "archive-grib", 48)]);
}
