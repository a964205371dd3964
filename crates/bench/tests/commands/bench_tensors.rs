//! `esker bench tensors`: what is measured, with and without parallel HDF5, and nothing left behind.
use crate::support::{Site, left};
use esker_testing::skip;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Small arrays of one and two processes.
const SMALL: [&str; 14] = [
    "bench",
    "tensors",
    "--procs",
    "1,2",
    "--size",
    "64KiB",
    "--total",
    "100KiB",
    "-i",
    "2",
    "--targets",
    "2",
    "--pin",
    "none",
];

const LAYOUTS: [&str; 3] = ["hdf5-filled", "hdf5-unfilled", "hdf5-contiguous"];

/// A program of two lines, in which `$1` is `-n`.
fn program(site: &Site, name: &str, text: &str) -> String {
    let path = site.file(name, format!("#!/bin/sh\n{text}\n").as_bytes());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn output(site: &Site, arguments: &[&str]) -> Output {
    let dir = site.dir.display().to_string();
    let file = format!("{dir}/report.json");
    let page = format!("{dir}/page.html");
    let here = ["--path", &dir, "--json", &file, "-o", &page];
    let mut command = site.command(&[&SMALL[..], arguments, &here].concat());
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.output().unwrap()
}

/// The table, the report and the page of a run that succeeds. Only programs of the test are left.
fn bench(site: &Site, arguments: &[&str]) -> (String, Value, String) {
    let output = output(site, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let read = |name: &str| std::fs::read_to_string(site.dir.join(name)).unwrap();
    let (report, page) = (serde_json::from_str(&read("report.json")).unwrap(), read("page.html"));
    let own = ["report.json", "page.html", "h5pcc", "mpirun"];
    assert_eq!(left(site, &own), [""; 0].map(std::path::PathBuf::from));
    (String::from_utf8(output.stdout).unwrap(), report, page)
}

fn runs<'r>(report: &'r Value, store: &str, workload: &str, phase: &str) -> Vec<&'r Value> {
    let runs = report["runs"].as_array().unwrap().iter();
    let is = |run: &&Value| {
        run["store"] == store && run["workload"] == workload && run["phase"] == phase
    };
    runs.filter(is).collect()
}

#[test]
fn both_kinds_of_scaling_are_measured_beside_a_file_and_the_medium() {
    let site = Site::in_memory();
    let (text, report, page) = bench(&site, &["--no-hdf5"]);
    for (workload, size) in [("tensors-weak", 64 << 10), ("tensors-strong", 100 << 10)] {
        for (store, phase) in [
            ("esker", "put"),
            ("esker", "get"),
            ("file", "put"),
            ("file", "get"),
            ("medium", "pwrite"),
            ("medium", "pread"),
        ] {
            let found = runs(&report, store, workload, phase);
            assert_eq!(found.iter().map(|run| &run["procs"]).collect::<Vec<_>>(), [1, 2]);
            for run in found {
                assert_eq!((&run["size_bytes"], &run["ops"]), (&json!(size), &json!(2)), "{run}");
                assert_eq!(run["repeats"].as_array().unwrap().len(), 2);
                assert!(run["rate"]["median"].is_f64(), "{run}");
                assert_eq!(run["ratio"].is_f64(), store != "medium", "{run}");
            }
        }
        let own = runs(&report, "esker", workload, "put")[0];
        assert!(own["ratio_to"]["file"].is_f64() && own["ratio_to"]["hdf5-filled"].is_null());
        assert_eq!(own["repeats"][0]["parts_s"].as_array().unwrap().len(), 3);
    }
    assert_eq!(report["settings"]["hdf5"]["absent"], json!("--no-hdf5 was given"));
    assert!(
        text.contains("absent") && text.contains("parallel HDF5 is absent: --no-hdf5"),
        "{text}"
    );
    assert!(page.contains("2018, Fig. 8") && page.contains("not measured"));
}

#[test]
fn where_parallel_hdf5_does_not_work_its_columns_say_so_and_the_rest_is_measured() {
    let site = Site::in_memory();
    let compiler = program(&site, "h5pcc", r#"while test "$1" != -o; do shift; done; echo > "$2""#);
    let refuses = program(&site, "mpirun", "exit 1");
    for (compiler, mpirun, why) in [
        ("/no/h5pcc", "/no/mpirun", "/no/h5pcc"),
        ("/bin/false", "/no/mpirun", "/bin/false failed"),
        (&compiler, "/no/mpirun", "/no/mpirun"),
        (&compiler, &refuses, "ended unexpectedly"),
    ] {
        let (text, report, _) = bench(&site, &["--h5pcc", compiler, "--mpirun", mpirun]);
        let absent = report["settings"]["hdf5"]["absent"].as_str().unwrap();
        assert!(absent.contains(why) && text.contains(absent), "{absent}");
        assert_eq!(runs(&report, "esker", "tensors-weak", "put").len(), 2);
    }
}

/// A program that answers as the real one does stands in for it.
#[test]
fn the_answers_of_parallel_hdf5_stand_beside_ours() {
    let site = Site::in_memory();
    let compiler = program(&site, "h5pcc", r#"while test "$1" != -o; do shift; done; echo > "$2""#);
    let answer = r#"{"done":{"times_s":[1,1.25,1.5,2],"about":"HDF5 0.0.0"}}"#;
    let mpirun = program(&site, "mpirun", &format!("while read line; do echo '{answer}'; done"));
    let hdf5 = ["--h5pcc", &compiler, "--mpirun", &mpirun];
    let (text, report, page) = bench(&site, &hdf5);
    for store in LAYOUTS {
        let found = runs(&report, store, "tensors-weak", "put");
        let rates: Vec<_> =
            found.iter().map(|run| run["rate"]["median"].as_f64().unwrap()).collect();
        assert_eq!(rates, [0.063, 0.125], "64 and 128 KiB in a second");
        assert_eq!(found[0]["repeats"][0]["parts_s"], json!([0.25, 0.25, 0.5]));
        let own = runs(&report, "esker", "tensors-strong", "get")[0];
        assert!(own["ratio_to"][store].is_f64());
    }
    assert_eq!(
        report["settings"]["hdf5"],
        json!({"about": "HDF5 0.0.0", "absent": null, "collective": false})
    );
    assert!(!text.contains("absent") && page.contains("Times parallel HDF5"), "{text}");
}

#[test]
fn failure_of_parallel_hdf5_ends_the_run_and_leaves_no_files() {
    let site = Site::in_memory();
    let compiler = program(&site, "h5pcc", r#"while test "$1" != -o; do shift; done; echo > "$2""#);
    let answer = r#"read line; echo '{"done":{"times_s":[0,0,0,0]}}'; read line; echo '{"failed":"parallel HDF5: H5Dwrite"}'"#;
    let mpirun = program(&site, "mpirun", answer);
    let output = output(&site, &["--h5pcc", &compiler, "--mpirun", &mpirun]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("parallel HDF5: H5Dwrite"), "{said}");
    assert!(left(&site, &["h5pcc", "mpirun"]).is_empty());
}

/// Runs where parallel HDF5 is installed.
#[test]
fn real_parallel_hdf5_writes_and_reads_the_same() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_pair = |mpi: &str| has(&format!("h5pcc{mpi}")) && has(&format!("mpirun{mpi}"));
    if !["", ".openmpi", ".mpich"].into_iter().any(has_pair) {
        return skip("there is no h5pcc with its mpirun");
    }
    let site = Site::in_memory();
    for how in [&[][..], &["--collective"]] {
        let (text, report, _) = bench(&site, how);
        let hdf5 = &report["settings"]["hdf5"];
        assert_eq!(hdf5["absent"], Value::Null, "{text}");
        assert!(hdf5["about"].as_str().unwrap().starts_with("HDF5 "), "{hdf5}");
        for (store, workload) in
            LAYOUTS.into_iter().zip(["tensors-weak", "tensors-strong", "tensors-weak"])
        {
            for phase in ["put", "get"] {
                let found = runs(&report, store, workload, phase);
                assert_eq!(found.iter().map(|run| &run["ops"]).collect::<Vec<_>>(), [2, 2]);
            }
        }
    }
}

#[test]
fn nonsense_is_refused_by_the_name_of_its_option() {
    let site = Site::in_memory();
    let said = |arguments: &[&str]| site.message(&[&["bench", "tensors"], arguments].concat());
    assert!(said(&["--size", "100"]).contains("--size"));
    assert!(said(&["--total", "4096", "--procs", "2"]).contains("--total"));
    assert!(said(&["--procs", "0"]).contains("processes"));
    assert!(said(&["-i", "0"]).contains("-i"));
    assert!(left(&site, &[]).is_empty());
}
