//! `esker bench fields`: what is measured, the shape of the report, and nothing left behind.
use crate::support::{Site, left};
use serde_json::{Value, json};

/// Small fields of two processes: 24 each.
const SMALL: [&str; 14] = [
    "bench",
    "fields",
    "--steps",
    "3",
    "--levels",
    "2",
    "--params",
    "2",
    "--members",
    "2",
    "--size",
    "5000",
    "--pin",
    "none",
];

fn bench(site: &Site, arguments: &[&str]) -> (String, Value) {
    let file = site.dir.join("report.json");
    let text = site.ok(&[&SMALL, arguments, &["--json", file.to_str().unwrap()]].concat());
    let report = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(file).unwrap();
    (text, report)
}

/// Store, phase, operations.
fn runs(report: &Value) -> Vec<(&str, &str, u64)> {
    let runs = report["runs"].as_array().unwrap().iter();
    runs.map(|run| {
        (
            run["store"].as_str().unwrap(),
            run["phase"].as_str().unwrap(),
            run["ops"].as_u64().unwrap(),
        )
    })
    .collect()
}

#[test]
fn all_phases_are_measured_beside_files_and_the_medium() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let (text, report) =
        bench(&site, &["--path", &dir, "--procs", "2", "-i", "2", "--verify", "--targets", "2"]);
    let phases = [
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
    assert_eq!(runs(&report), phases);
    for run in report["runs"].as_array().unwrap() {
        let (store, phase) = (run["store"].as_str().unwrap(), run["phase"].as_str().unwrap());
        assert_eq!((&run["workload"], &run["procs"]), (&json!("fields"), &json!(2)));
        assert_eq!(run["repeats"].as_array().unwrap().len(), 2);
        assert!(run["rate"]["median"].is_f64(), "{run}");
        let has_limit = store != "medium" && (phase.starts_with("retrieve") || phase == "archive");
        assert_eq!(run["ratio"].is_f64(), has_limit, "{run}");
        let beside = has_limit && store == "esker";
        assert_eq!(run["ratio_to"]["files"].is_f64(), beside || store == "medium", "{run}");
    }
    assert!(text.contains("scattered reads reach ") && text.contains("archive-watched"), "{text}");
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn a_pool_of_the_users_is_left_as_it_was() {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "128M", "--targets", "2"]);
    let (_, report) = bench(&site, &["--pool", "tank", "-i", "1", "--no-watch", "--procs", "1,2"]);
    let procs: Vec<_> = runs(&report).iter().map(|run| run.2).collect();
    assert_eq!(procs[..2], [24, 24]);
    assert_eq!(report["runs"][11]["procs"], json!(2));
    assert_eq!(site.json(&["cont", "list", "tank"]), json!([]));
    assert!(left(&site, &["tank"]).is_empty());
}

#[test]
fn nonsense_is_refused_by_the_name_of_its_option() {
    let site = Site::in_memory();
    let said = |arguments: &[&str]| {
        let error = site.failure(&[&["bench", "fields"], arguments].concat());
        error["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(said(&["--steps", "0"]).contains("--steps"));
    assert!(said(&["--size", "3"]).contains("--size"));
    assert!(said(&["-i", "0"]).contains("-i"));
    assert!(said(&["--pool", &format!("files:{}", site.dir.display())]).contains("pool"));
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn error_of_a_peer_that_cannot_start_names_the_remedy() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    for (python, why) in [("/no/python", "/no/python"), ("/bin/false", "ended unexpectedly")] {
        let peer = ["--path", &dir, "--peer", "pyfdb", "--python", python, "--no-watch"];
        let error = site.failure(&[&SMALL[..], &peer].concat());
        let said = error["error"]["message"].as_str().unwrap();
        assert!(said.contains(why) && said.contains("pip install pyfdb"), "{said}");
        assert!(left(&site, &[]).is_empty());
    }
}

/// Runs where `python3`, or the Python of `ESKER_PYFDB_PYTHON`, has pyfdb. Where it has esker as well, that
/// reads too.
#[test]
fn a_real_fdb_does_the_same_work() {
    let python = std::env::var("ESKER_PYFDB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |what: &str| {
        let mut python = std::process::Command::new(&python);
        python.args(["-c", &format!("import {what}")]);
        python.output().is_ok_and(|output| output.status.success())
    };
    if !has("pyfdb") {
        return esker_testing::skip(format_args!("{python} has no pyfdb"));
    }
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let peer = ["--path", &dir, "--peer", "pyfdb", "--python", &python, "--no-watch"];
    let (text, report) = bench(&site, &[&peer[..], &["--procs", "2", "-i", "1"]].concat());
    let of_peer: Vec<_> = runs(&report).into_iter().filter(|run| run.0 == "pyfdb").collect();
    let phases = [
        ("pyfdb", "archive", 48),
        ("pyfdb", "retrieve", 48),
        ("pyfdb", "retrieve-request", 48),
        ("pyfdb", "retrieve-in-order", 48),
        ("pyfdb", "retrieve-scattered", 48),
        ("pyfdb", "list", 96),
        ("pyfdb", "axes", 96),
    ];
    assert_eq!(of_peer, phases);
    assert!(report["runs"][2]["ratio_to"]["pyfdb"].is_f64());
    let from_python: Vec<_> =
        runs(&report).into_iter().filter(|run| run.1.starts_with("python-")).collect();
    let phases = [
        ("esker", "python-retrieve", 48),
        ("esker", "python-retrieve-request", 48),
        ("esker", "python-view-request", 48),
    ];
    match has("esker") {
        true => assert_eq!(from_python, phases),
        false => assert!(from_python.is_empty() && text.contains("left out"), "{text}"),
    }
    assert!(text.contains("x pyfdb"), "{text}");
    assert!(left(&site, &[]).is_empty());
}

/// A file of the user's is needed for the work itself: `ESKER_GRIB_FILE` names one.
#[test]
fn messages_of_a_file_are_archived_under_their_own_keys() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let none = site.file("none.grib", b"no message");
    let damaged = site.file("damaged.grib", b"GRIB and no more");
    for file in [&none, &damaged] {
        let error = site.failure(&["bench", "fields", "--path", &dir, "--grib", file]);
        assert!(error["error"]["message"].as_str().unwrap().contains(file.as_str()), "{error}");
        std::fs::remove_file(file).unwrap();
    }
    assert!(left(&site, &[]).is_empty());
    let Some(file) = std::env::var_os("ESKER_GRIB_FILE") else {
        return esker_testing::skip("ESKER_GRIB_FILE names no file");
    };
    let file = file.into_string().unwrap();
    let grib = ["--path", &dir, "--grib", &file, "--no-watch", "--verify", "-i", "1"];
    let (text, report) = bench(&site, &[&grib[..], &["--procs", "2"]].concat());
    if text.contains("archive-grib is left out") {
        return;
    }
    let of_grib: Vec<_> = runs(&report).into_iter().filter(|run| run.1 == "archive-grib").collect();
    assert_eq!(of_grib, [("files", "archive-grib", 48), ("esker", "archive-grib", 48)]);
}
