//! `esker bench tensors`: what is measured, with and without parallel HDF5, and nothing left behind.
use crate::bench_site::{BenchSite, runs};
use esker_testing::skip;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Small arrays of one and two processes.
const SMALL: &str = "tensors --procs 1,2 --size 64KiB --total 100KiB -i 2 --targets 2 --pin none";

const LAYOUTS: [&str; 3] = ["hdf5-filled", "hdf5-unfilled", "hdf5-contiguous"];

/// A compiler that makes an empty program.
const COMPILER: &str = r#"while test "$1" != -o; do shift; done; echo > "$2""#;

/// Writes a script of the shell, which consists of the commands `text`.
fn program(bench: &BenchSite, name: &str, text: &str) {
    let path = bench.site.file(name, format!("#!/bin/sh\n{text}\n").as_bytes());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Runs the benchmark. Open MPI refuses to run for root without these two variables.
fn output(bench: &BenchSite, options: &str) -> Output {
    let here = "--path $DIR --json $DIR/report.json -o $DIR/page.html";
    let mut command = bench.command(&format!("{SMALL} {options} {here}"));
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.output().unwrap()
}

/// The table, the report and the page of a run that succeeds. Only programs of the test are left.
fn measure(bench: &BenchSite, options: &str) -> (String, Value, String) {
    let output = output(bench, options);
    assert!(output.status.success(), "{options}: {output:?}");
    let page = std::fs::read_to_string(bench.path("page.html")).unwrap();
    bench.assert_left(&["report.json", "page.html", "h5pcc", "mpirun"]);
    (String::from_utf8(output.stdout).unwrap(), bench.read_json("report.json"), page)
}

/// Runs of a store with one kind of scaling.
fn runs_of<'r>(report: &'r Value, store: &str, workload: &str, phase: &str) -> Vec<&'r Value> {
    let is = |run: &&Value| {
        run["store"] == store && run["workload"] == workload && run["phase"] == phase
    };
    runs(report).iter().filter(is).collect()
}

#[test]
fn both_kinds_of_scaling_are_measured_beside_a_file_and_the_medium() {
    let (table, report, page) = measure(&BenchSite::new(), "--no-hdf5");
    for (workload, size) in [("tensors-weak", 64 << 10), ("tensors-strong", 100 << 10)] {
        for (store, phase) in [
            ("esker", "put"),
            ("esker", "get"),
            ("file", "put"),
            ("file", "get"),
            ("medium", "pwrite"),
            ("medium", "pread"),
        ] {
            let found = runs_of(&report, store, workload, phase);
            assert_eq!(found.iter().map(|run| &run["procs"]).collect::<Vec<_>>(), [1, 2]);
            for run in found {
                assert_eq!((&run["size_bytes"], &run["ops"]), (&json!(size), &json!(2)), "{run}");
                assert_eq!(run["repeats"].as_array().unwrap().len(), 2);
                assert!(run["rate"]["median"].is_f64(), "{run}");
                assert_eq!(run["ratio"].is_f64(), store != "medium", "{run}");
            }
        }
        let own = runs_of(&report, "esker", workload, "put")[0];
        assert!(own["ratio_to"]["file"].is_f64() && own["ratio_to"]["hdf5-filled"].is_null());
        assert_eq!(own["repeats"][0]["parts_s"].as_array().unwrap().len(), 3);
    }
    assert_eq!(report["settings"]["hdf5"]["absent"], json!("--no-hdf5 was given"));
    let absent = "parallel HDF5 is absent: --no-hdf5";
    assert!(table.contains("absent") && table.contains(absent), "{table}");
    assert!(page.contains("2018, Fig. 8") && page.contains("not measured"));
}

#[test]
fn without_working_parallel_hdf5_the_rest_is_measured() {
    let bench = BenchSite::new();
    program(&bench, "h5pcc", COMPILER);
    program(&bench, "mpirun", "exit 1");
    for (programs, why) in [
        ("--h5pcc /no/h5pcc --mpirun /no/mpirun", "/no/h5pcc"),
        ("--h5pcc /bin/false --mpirun /no/mpirun", "/bin/false failed"),
        ("--h5pcc $DIR/h5pcc --mpirun /no/mpirun", "/no/mpirun"),
        ("--h5pcc $DIR/h5pcc --mpirun $DIR/mpirun", "ended unexpectedly"),
    ] {
        let (table, report, _) = measure(&bench, programs);
        let absent = report["settings"]["hdf5"]["absent"].as_str().unwrap();
        assert!(absent.contains(why) && table.contains(absent), "{absent}");
        assert_eq!(runs_of(&report, "esker", "tensors-weak", "put").len(), 2);
    }
}

/// The script `mpirun` answers in place of the program that uses parallel HDF5. Each put and get takes one second: from
/// 1 s to 2 s of its times.
#[test]
fn results_of_parallel_hdf5_are_in_table_report_and_page() {
    let bench = BenchSite::new();
    let answer = r#"{"done":{"times_s":[1,1.25,1.5,2],"about":"HDF5 0.0.0"}}"#;
    program(&bench, "h5pcc", COMPILER);
    program(&bench, "mpirun", &format!("while read line; do echo '{answer}'; done"));
    let (table, report, page) = measure(&bench, "--h5pcc $DIR/h5pcc --mpirun $DIR/mpirun");
    for store in LAYOUTS {
        let found = runs_of(&report, store, "tensors-weak", "put");
        let rates: Vec<_> = found.iter().map(|run| &run["rate"]["median"]).collect();
        assert_eq!(rates, [0.063, 0.125], "64 and 128 KiB in a second");
        assert_eq!(found[0]["repeats"][0]["parts_s"], json!([0.25, 0.25, 0.5]));
        let own = runs_of(&report, "esker", "tensors-strong", "get")[0];
        assert!(own["ratio_to"][store].is_f64());
    }
    let hdf5 = json!({"about": "HDF5 0.0.0", "absent": null, "collective": false});
    assert_eq!(report["settings"]["hdf5"], hdf5);
    assert!(!table.contains("absent") && page.contains("Times parallel HDF5"), "{table}");
}

#[test]
fn failure_of_parallel_hdf5_ends_the_run_and_leaves_no_files() {
    let bench = BenchSite::new();
    let answer = r#"read line; echo '{"done":{"times_s":[0,0,0,0]}}'; read line; echo '{"failed":"parallel HDF5: H5Dwrite"}'"#;
    program(&bench, "h5pcc", COMPILER);
    program(&bench, "mpirun", answer);
    let output = output(&bench, "--h5pcc $DIR/h5pcc --mpirun $DIR/mpirun");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("parallel HDF5: H5Dwrite"), "{said}");
    bench.assert_left(&["h5pcc", "mpirun"]);
}

/// Runs where parallel HDF5 is installed.
#[test]
fn real_parallel_hdf5_writes_and_reads_the_same() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has_pair = |mpi: &str| has(&format!("h5pcc{mpi}")) && has(&format!("mpirun{mpi}"));
    if !["", ".openmpi", ".mpich"].into_iter().any(has_pair) {
        return skip("there is no h5pcc with its mpirun");
    }
    for options in ["", "--collective"] {
        let (table, report, _) = measure(&BenchSite::new(), options);
        let hdf5 = &report["settings"]["hdf5"];
        assert_eq!(hdf5["absent"], Value::Null, "{table}");
        assert!(hdf5["about"].as_str().unwrap().starts_with("HDF5 "), "{hdf5}");
        for (store, workload) in
            LAYOUTS.into_iter().zip(["tensors-weak", "tensors-strong", "tensors-weak"])
        {
            for phase in ["put", "get"] {
                let found = runs_of(&report, store, workload, phase);
                assert_eq!(found.iter().map(|run| &run["ops"]).collect::<Vec<_>>(), [2, 2]);
            }
        }
    }
}

#[test]
fn error_names_the_invalid_option() {
    let bench = BenchSite::new();
    for (options, named) in [
        ("--size 100", "--size"),
        ("--total 4096 --procs 2", "--total"),
        ("--procs 0", "processes"),
        ("-i 0", "-i"),
    ] {
        assert!(bench.message(&format!("tensors {options}")).contains(named), "{options}");
    }
    let message = bench.message("tensors -i 0 -o /no/such/page.html");
    assert!(message.contains("/no/such"), "the page is checked first: {message}");
    bench.assert_left(&[]);
}
