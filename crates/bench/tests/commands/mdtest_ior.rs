//! `esker bench mdtest`, `ior` and `posix`: options, tables and reports, and nothing left behind.
use crate::support::{Site, left};
use serde_json::{Value, json};

/// On small data, with nothing beside it.
fn bench(site: &Site, arguments: &[&str]) -> (String, Value) {
    let file = site.dir.join("report.json");
    let alone = ["--alone", "--pin", "none", "--json", file.to_str().unwrap()];
    let text = site.ok(&[&["bench"], arguments, &alone].concat());
    let report = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(file).unwrap();
    (text, report)
}

/// Store, phase and operations of each run.
fn runs(report: &Value) -> Vec<(String, String, u64)> {
    let text = |run: &Value, name: &str| run[name].as_str().unwrap().to_owned();
    let of = |run: &Value| (text(run, "store"), text(run, "phase"), run["ops"].as_u64().unwrap());
    report["runs"].as_array().unwrap().iter().map(of).collect()
}

fn of_subject(report: &Value, name: &str) -> Vec<(String, u64)> {
    let of = |(store, phase, ops): (String, String, u64)| (store == name).then_some((phase, ops));
    runs(report).into_iter().filter_map(of).collect()
}

fn expected(phases: &[(&str, u64)]) -> Vec<(String, u64)> {
    phases.iter().map(|(phase, ops)| ((*phase).to_owned(), *ops)).collect()
}

#[test]
fn mdtest_counts_what_it_does() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let work =
        ["--procs", "2", "-n", "31", "-z", "1", "-b", "2", "-N", "1", "-i", "2", "-R", "--list"];
    let data = ["-w", "100", "-e", "100", "-X", "-y", "-u"];
    let (text, report) = bench(&site, &[&["mdtest", "-d", &dir], &work[..], &data].concat());
    assert!(text.contains("SUMMARY rate (in ops/sec)") && text.contains("Std Dev"), "{text}");
    let phases = [
        ("directory-creation", 120),
        ("directory-stat", 120),
        ("directory-listing", 128),
        ("directory-removal", 120),
        ("file-creation", 120),
        ("file-stat", 120),
        ("file-listing", 128),
        ("file-read", 120),
        ("file-removal", 120),
        ("tree-creation", 12),
        ("tree-removal", 12),
    ];
    assert_eq!(of_subject(&report, "POSIX"), expected(&phases));
    assert_eq!(report["runs"][4]["repeats"].as_array().unwrap().len(), 2);
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn files_over_nodes_are_measured_through_engines() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let nodes = ["-a", "DFS", "--path", &dir, "--nodes", "1,2"];
    for work in [
        &["mdtest", "-n", "10", "-F", "-d", "/md"][..],
        &["ior", "-t", "4k", "-b", "8k", "-o", "/f"],
    ] {
        let (text, report) = bench(&site, &[work, &nodes].concat());
        assert!(text.contains("Pool over 1 nodes") && text.contains("Pool over 2 nodes"), "{text}");
        let runs = report["runs"].as_array().unwrap();
        let of = |count: u64| runs.iter().filter(|run| run["server_nodes"] == json!(count)).count();
        assert_eq!((of(1), of(2)), (runs.len() / 2, runs.len() / 2));
        let starts = report["settings"]["start_s"].as_array().unwrap();
        assert!(starts.iter().all(|start| start["seconds"].as_f64().unwrap() > 0.0));
        assert_eq!(starts.len(), 2);
    }
    let posix = site.failure(&["bench", "ior", "-o", "/dev/shm/x", "--nodes", "2"]);
    assert!(posix["error"]["message"].as_str().unwrap().contains("add -a DFS"), "{posix}");
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn phases_of_several_runs_follow_each_other() {
    let site = Site::in_memory();
    let dir = site.dir.join("tree").display().to_string();
    let run = |phases: &[&str]| {
        let work = ["mdtest", "-d", &dir, "-n", "5", "-F", "-w", "9", "-e", "9", "-X"];
        of_subject(&bench(&site, &[&work, phases].concat()).1, "POSIX")
    };
    assert_eq!(run(&["-C"]), expected(&[("file-creation", 10), ("tree-creation", 1)]));
    assert_eq!(run(&["-T", "-E"]), expected(&[("file-stat", 10), ("file-read", 10)]));
    assert_eq!(run(&["-r"]), expected(&[("file-removal", 10), ("tree-removal", 1)]));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn the_stonewall_leaves_all_processes_with_as_many_files() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let work = ["mdtest", "-d", &dir, "-n", "100000000", "-F", "-W", "1", "--list"];
    let found = of_subject(&bench(&site, &work).1, "POSIX");
    let of = |phase: &str| found.iter().find(|(name, _)| name == phase).unwrap().1;
    let made = of("file-creation");
    assert!(made.is_multiple_of(2) && (2..200_000_000).contains(&made), "{made}");
    assert!(of("file-creation-stonewall") <= made);
    for phase in ["file-stat", "file-listing", "file-read", "file-removal"] {
        assert_eq!(of(phase), made, "{phase}");
    }
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn ior_compares_what_it_reads() {
    let site = Site::in_memory();
    let file = site.dir.join("file");
    let at = file.display().to_string();
    let work =
        ["ior", "-o", &at, "-b", "64k", "-t", "4k", "-s", "2", "-W", "-R", "-C", "-e", "-i", "2"];
    for more in [&["-F"][..], &["-g", "-z"], &["-D", "10", "-O", "stoneWallingWearOut=1"]] {
        let (text, report) = bench(&site, &[&work[..], more].concat());
        for heading in
            ["access", "bw(MiB/s)", "IOPS", "Latency(s)", "block(KiB)", "wr/rd(s)", "iter"]
        {
            assert!(text.contains(heading), "{heading}: {text}");
        }
        assert_eq!(of_subject(&report, "POSIX"), expected(&[("write", 128), ("read", 128)]));
        assert_eq!(report["runs"][0]["repeats"][0]["parts_s"].as_array().unwrap().len(), 3);
        assert!(left(&site, &[]).is_empty());
    }
    let keep = ["ior", "-o", &at, "-b", "64k", "-t", "4k", "-w", "-k"];
    bench(&site, &keep);
    let mut bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes.len(), 128 << 10);
    let read = ["bench", "ior", "-o", &at, "-b", "64k", "-t", "4k", "--alone", "-r", "-R"];
    site.ok(&read);
    bytes[70_000] ^= 0x10;
    std::fs::write(&file, bytes).unwrap();
    let said = site.failure(&read)["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("byte 70000"), "{said}");
}

#[test]
fn a_container_is_measured_beside_memory_and_disk() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let place = ["--path", &dir];
    let mdtest =
        ["mdtest", "-a", "DFS", "-n", "20", "-d", "/some/where", "-w", "50", "-e", "50", "-X"];
    let (text, report) = bench(&site, &[&mdtest[..], &place].concat());
    assert!(text.contains("index of the pool with 40 files"), "{text}");
    assert_eq!(of_subject(&report, "DFS").len(), 9);
    let ior = ["ior", "-a", "DFS", "-o", "/f", "-b", "64k", "-t", "8k", "-W", "-R", "-C"];
    let (_, report) = bench(&site, &[&ior[..], &place, &["-F"]].concat());
    assert_eq!(of_subject(&report, "DFS"), expected(&[("write", 16), ("read", 16)]));
    assert!(left(&site, &[]).is_empty());
}

/// Processes of two benchmarks in one folder would meet, so what is beside has a name of its own.
#[test]
fn ratios_stand_beside_the_work() {
    let site = Site::in_memory();
    let dir = site.dir.join("in").display().to_string();
    let disk = env!("CARGO_TARGET_TMPDIR");
    let memory = site.dir.display().to_string();
    let work =
        ["bench", "mdtest", "-d", &dir, "-n", "10", "-F", "--tmpfs", &memory, "--disk", disk];
    let report: Value =
        serde_json::from_str(&site.ok(&[&work[..], &["--json", "-"]].concat())).unwrap();
    let mut stores: Vec<_> = runs(&report).into_iter().map(|run| run.0).collect();
    stores.dedup();
    assert!(stores.len() >= 3, "{stores:?}");
    let ratios = report["runs"][0]["ratio_to"].as_object().unwrap();
    assert!(ratios.len() == 2 && ratios.values().all(|ratio| ratio.is_f64()));
    assert!(left(&site, &["in"]).is_empty());
}

#[test]
fn unsupported_options_of_mdtest_and_ior_are_refused_by_name() {
    let site = Site::in_memory();
    for (arguments, option) in [
        (&["mdtest", "-d", "x", "-n", "1", "-S"][..], "-S"),
        (&["ior", "-o", "x", "-c"], "-c"),
        (&["ior", "-o", "x", "-T", "5"], "-T"),
    ] {
        let output = site.run(&[&["bench"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("{option} of {} is not supported", arguments[0])), "{said}");
    }
    let output = site.run(&["bench", "ior", "-o", "/f", "-O", "useO_DIRECT=1"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("useO_DIRECT=1") && said.contains("stoneWallingWearOut=0"), "{said}");
    let kind = |arguments: &[&str]| site.fails(&[&["bench"], arguments].concat()).0;
    let dir = site.dir.display().to_string();
    assert_eq!(kind(&["mdtest", "-d", &dir]), "invalid");
    assert_eq!(kind(&["mdtest", "-d", &dir, "-n", "5", "-z", "40", "-b", "9"]), "invalid");
    assert_eq!(kind(&["mdtest", "-d", &dir, "-n", "5", "-e", "7", "-X"]), "invalid");
    assert_eq!(kind(&["ior", "-o", &dir, "-b", "3k", "-t", "2k"]), "invalid");
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn complete_table_is_measured_and_drawn() {
    let site = Site::in_memory();
    if !std::path::Path::new("/dev/shm").is_dir() {
        return;
    }
    let (dir, page) = (site.dir.display().to_string(), site.dir.join("files.html"));
    let small = ["--files", "20", "--small", "64K", "--large", "2M", "-i", "1", "--only-dfs"];
    let place = ["--path", &dir, "--disk", env!("CARGO_TARGET_TMPDIR"), "--json", "-"];
    let output = ["-o", page.to_str().unwrap()];
    let text = site.ok(&[&["bench", "posix"], &small[..], &place, &output].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["schema"], json!(1));
    let rows = report["table"].as_array().unwrap();
    assert_eq!(rows.len(), 8 + 1 + 5);
    for row in rows {
        assert!(row["sites"]["DFS"].is_f64(), "{row}");
        assert!(row["goals"]["DFS"].is_f64(), "{row}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("8 KiB write, shared file"));
    assert!(left(&site, &["files.html"]).is_empty());
}

#[test]
fn the_table_is_measured_through_an_engine() {
    let site = Site::in_memory();
    if !std::path::Path::new("/dev/shm").is_dir() {
        return;
    }
    let dir = site.dir.display().to_string();
    let small = ["--files", "20", "--small", "64K", "--large", "2M", "-i", "1", "--engine"];
    let place = ["--path", &dir, "--disk", env!("CARGO_TARGET_TMPDIR"), "--json", "-"];
    let report: Value =
        serde_json::from_str(&site.ok(&[&["bench", "posix"], &small[..], &place].concat()))
            .unwrap();
    let rows = report["table"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row["sites"]["DFS"].is_f64(), "{row}");
        assert_eq!(row["sites"]["mount"], Value::Null);
    }
    assert!(left(&site, &[]).is_empty());
}

#[test]
fn the_genuine_program_does_the_same_work_beside_ours() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::in_memory();
    let dir = site.dir.join("data");
    let program = site.file(
        "ior",
        b"#!/bin/sh\necho \"$@\" >> \"$0.told\"\necho 'write  1200.00  900.00  1000.50  0.00'\n",
    );
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let file = dir.join("f").display().to_string();
    let work = ["ior", "--procs", "1", "-b", "64k", "-t", "8k", "-o", &file, "--genuine", &program];
    let (text, report) = bench(&site, &work);
    assert!(text.contains(&format!("Mean rates of {program} and ours:\n")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("write      POSIX  1000.50  ")), "{text}");
    let genuine = &report["settings"]["genuine"];
    assert_eq!(genuine["program"], json!(program));
    assert_eq!(genuine["mean_rates"]["POSIX"], json!({"write": 1000.5}));
    let told = std::fs::read_to_string(format!("{program}.told")).unwrap();
    let [warm_up, measured] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!(warm_up, measured);
    assert!(
        measured.starts_with("-b 65536 -t 8192 -s 1 -i 1 ") && measured.contains(" -w -r "),
        "{told}"
    );
}
