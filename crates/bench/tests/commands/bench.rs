//! `esker bench`: real processes, one shape of report, and nothing left behind.
use crate::support::{Site, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// Each with its workload, phase, processes and size.
fn runs(report: &Value) -> Vec<(String, String, u64, u64)> {
    let text = |run: &Value, name: &str| run[name].as_str().unwrap().to_owned();
    let number = |run: &Value, name: &str| run[name].as_u64().unwrap();
    let runs = report["runs"].as_array().unwrap().iter();
    runs.map(|run| {
        (text(run, "workload"), text(run, "phase"), number(run, "procs"), number(run, "size_bytes"))
    })
    .collect()
}

/// Phases of a store that have no limit.
const WITHOUT_LIMIT: [&str; 2] = ["open", "mixed"];

/// Checks the members that every run of every report must have.
fn check_shape(report: &Value) {
    assert_eq!(report["schema"], json!(1));
    for name in ["cpu", "kernel", "medium", "file_system"] {
        assert!(report["host"][name].is_string(), "{name}");
    }
    assert!(report["host"]["memory_bytes"].as_u64().unwrap() > 0);
    assert_eq!(report["settings"]["version"], json!(env!("CARGO_PKG_VERSION")));
    for run in report["runs"].as_array().unwrap() {
        for name in ["ops_per_s", "bandwidth_mib_s"] {
            assert!(run[name].is_f64(), "{run}");
        }
        let latency = |name: &str| run["latency_us"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"), "{run}");
        let without = run["store"] == json!("medium")
            || WITHOUT_LIMIT.contains(&run["phase"].as_str().unwrap());
        assert_eq!((run["limit_mib_s"].is_null(), run["ratio"].is_null()), (without, without));
    }
}

fn assert_clean(site: &Site) {
    let left: Vec<_> =
        std::fs::read_dir(&site.dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    let left: Vec<_> = left.iter().filter(|path| path.is_dir()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_limit_is_measured_by_size_and_processes() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let file = site.dir.join("report.json");
    let wanted = ["--size", "4K,64KiB", "--procs", "1,2", "--total", "1M", "--seconds", "0.01"];
    let json = ["--json", file.to_str().unwrap()];
    let text = site.ok(&[&["bench", "limit", "--path", &dir][..], &wanted, &json].concat());
    assert!(text.contains("pwrite") && text.contains("p99 us"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    check_shape(&report);
    let memcpy: Vec<_> = runs(&report).into_iter().filter(|run| run.1 == "memcpy").collect();
    let of = |procs, size| ("limit".to_owned(), "memcpy".to_owned(), procs, size);
    assert_eq!(memcpy, [of(1, 4096), of(1, 65536), of(2, 4096), of(2, 65536)]);
    assert_clean(&site);
}

fn small<'a>(workload: &'a str, dir: &'a str) -> Vec<&'a str> {
    let common = ["--procs", "2", "--ops", "40", "--rounds", "2", "--targets", "2", "--verify"];
    [&["bench", workload, "--path", dir][..], &common, &["--json", "-"]].concat()
}

#[test]
fn arrays_and_keys_are_measured_beside_the_limit() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    for (workload, name, more) in [
        ("array", "array", &["--size", "8K"][..]),
        ("array", "array+index", &["--size", "8K", "--indexed"]),
        ("array", "array", &["--size", "8K", "--fresh"]),
        ("array", "array+shared-index", &["--size", "8K", "--shared-index"]),
        ("kv", "kv", &["--value", "64"]),
    ] {
        let report = site.ok(&[&small(workload, &dir), more].concat());
        let report: Value = serde_json::from_str(&report).unwrap();
        check_shape(&report);
        let phases: Vec<_> = runs(&report).into_iter().map(|run| (run.0, run.1)).collect();
        let expected =
            ["pwrite", "write", "pread", "read"].map(|phase| (name.to_owned(), phase.to_owned()));
        assert_eq!(phases, expected);
        assert_eq!(report["runs"][1]["ops"], json!(2 * 40 * 2));
        assert_eq!(report["settings"]["verified"], json!(true));
        assert_clean(&site);
    }
}

#[test]
fn transactions_are_measured_among_puts_and_gets() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    for (procs, more) in
        [("1,2,4", &[][..]), ("1,2,4", &["--no-write-buffer"]), ("2", &["--fresh"])]
    {
        let common = ["--ops", "40", "--rounds", "2", "--targets", "2", "--verify", "--json", "-"];
        let place = ["bench", "tx", "--counters", "20", "--path", &dir, "--procs", procs];
        let report = site.ok(&[&place[..], &common, more].concat());
        let report: Value = serde_json::from_str(&report).unwrap();
        check_shape(&report);
        let settings = &report["settings"];
        let has_buffer = Path::new("/dev/shm").is_dir() && !more.contains(&"--no-write-buffer");
        assert_eq!(settings["write_buffer"], json!(has_buffer));
        assert_eq!((&settings["tx_every"], &settings["counters"]), (&json!(10), &json!(20)));
        let found = report["runs"].as_array().unwrap().chunks(6);
        for (runs, procs) in found.zip(procs.split(',').map(|procs| procs.parse::<u64>().unwrap()))
        {
            let phases: Vec<_> = runs.iter().map(|run| run["phase"].as_str().unwrap()).collect();
            assert_eq!(phases, ["pwrite", "put", "tx", "pread", "get", "mixed"]);
            let ops = |run: usize| runs[run]["ops"].as_u64().unwrap();
            let keys = 2 * 40 * procs;
            assert_eq!((ops(1), ops(4), ops(1) + ops(2) + ops(4)), (keys, keys, ops(5)));
            // A process makes 80 puts and gets, and a transaction after each 8 or 9 of them.
            assert!((2 * 8 * procs..=2 * 9 * procs).contains(&ops(2)), "{}", ops(2));
            assert!(runs[2]["conflicts"].is_u64() && runs[1]["conflicts"].is_null());
            assert_eq!((&runs[1]["size_bytes"], &runs[2]["size_bytes"]), (&json!(64), &json!(128)));
        }
        assert_clean(&site);
    }
}

#[test]
fn pools_with_a_write_buffer_are_measured() {
    if !Path::new("/dev/shm").is_dir() {
        return esker_testing::skip("there is no /dev/shm for pools with durability `process`");
    }
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let place = ["--path", &dir, "--targets", "2"];
    let wanted: [&[&str]; 4] = [
        &["kv", "--ops", "9", "--rounds", "1", "--verify"],
        &["array", "--size", "4K", "--ops", "9", "--rounds", "1", "--verify"],
        &["growth", "--entries", "20", "--ops", "9"],
        &["fields", "--size", "4K", "--steps", "1", "--levels", "2", "-i", "1", "--no-watch"],
    ];
    for workload in wanted {
        let file = site.dir.join("report.json").display().to_string();
        let text = site.ok(&[&["bench"], workload, &place, &["--json", &file]].concat());
        assert!(text.contains("(memory), pool with a write buffer"), "{text}");
        let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(report["settings"]["write_buffer"], json!(true), "{workload:?}");
        assert_clean(&site);
    }
    let files = [
        "bench", "mdtest", "-a", "DFS", "-n", "4", "-d", "/work", "--procs", "1", "--alone",
        "--json", "-",
    ];
    let report: Value = serde_json::from_str(&site.ok(&[&files[..], &place].concat())).unwrap();
    assert_eq!(report["settings"]["write_buffer"], json!(true));
    let plain = [&small("kv", &dir)[..], &["--value", "64", "--no-write-buffer"]].concat();
    let plain = site.ok(&plain);
    let plain: Value = serde_json::from_str(&plain).unwrap();
    assert_eq!(plain["settings"]["write_buffer"], json!(false));
}

#[test]
fn option_without_write_buffer_is_refused_where_no_pool_is_created() {
    let site = Site::in_memory();
    site.create_pool();
    let dir = site.dir.display().to_string();
    let message = site.message(&["bench", "mdtest", "-n", "1", "-d", &dir, "--no-write-buffer"]);
    assert!(message.contains("--no-write-buffer") && message.contains("-a DFS"), "{message}");
    for arguments in [
        &["bench", "kv", "--pool", "tank", "--no-write-buffer"][..],
        &["bench", "posix", "--engine", "--no-write-buffer"],
        &["bench", "mdtest", "-d", "/w", "-a", "DFS", "--dfs.pool", "tank", "--no-write-buffer"],
        &["bench", "field-io", "--nodes", "tank", "--no-write-buffer"],
        &["bench", "limit", "--no-write-buffer"],
    ] {
        let output = site.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("--no-write-buffer"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_store_is_measured_while_it_grows() {
    let site = Site::in_memory();
    let (dir, page) = (site.dir.display().to_string(), site.dir.join("page.html"));
    let file = site.dir.join("growth.json").display().to_string();
    let wanted = ["--entries", "10,40", "--ops", "20", "--targets", "2", "--json", &file];
    let table = site.ok(&[&["bench", "growth", "--path", &dir][..], &wanted].concat());
    let report = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    check_shape(&report);
    let found: Vec<_> = report["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let text = |member: &str| run[member].as_str().unwrap().to_owned();
            (
                text("workload"),
                run["entries"].as_u64().unwrap(),
                text("phase"),
                run["ops"].as_u64().unwrap(),
            )
        })
        .collect();
    let mut expected = Vec::new();
    for workload in ["kv", "array"] {
        for (entries, puts) in [(10, 5), (40, 15)] {
            for (phase, ops) in
                [("pwrite", puts), ("put", puts), ("pread", 20), ("get", 20), ("open", 5)]
            {
                expected.push((workload.to_owned(), entries, phase.to_owned(), ops));
            }
        }
    }
    assert_eq!(found, expected);
    assert!(table.contains("entries"), "{table}");
    site.ok(&["bench", "report", &file, "-o", &page.display().to_string()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(
        page.matches("as entries go from 10 to 40").count(),
        6,
        "puts, gets and opening of two kinds"
    );
}

#[test]
fn an_engine_is_measured_beside_raw_tcp() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let sizes = ["--size", "300K", "--value", "64", "--procs", "2", "--in-flight", "3"];
    let short = ["--ops", "20", "--rounds", "2", "--targets", "2", "--verify", "--iperf3", "0"];
    let place = ["bench", "engine", "--tls", "--path", &dir, "--json", "-"];
    let report = site.ok(&[&place[..], &sizes, &short].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    check_shape(&report);
    let phases: Vec<_> = runs(&report).into_iter().map(|run| (run.0, run.1)).collect();
    let of =
        |workload: &str, phases: [&str; 6]| phases.map(|phase| (workload.into(), phase.into()));
    let arrays =
        of("array x3", ["tcp send", "write", "tcp receive", "read", "tls write", "tls read"]);
    let keys = of("kv x3", ["tcp echo", "write", "tcp echo", "read", "tls write", "tls read"]);
    assert_eq!(phases, [arrays, keys].concat());
    for run in report["runs"].as_array().unwrap() {
        assert_eq!(run["ops"], json!(2 * 20 * 2), "{run}");
    }
    assert_eq!(report["settings"]["verified"], json!(true));
    assert_clean(&site);
}

#[test]
fn objects_by_s3_are_measured_beside_the_http_library() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let short = ["--size", "300K", "--clients", "2", "--ops", "3", "--rounds", "2", "--verify"];
    let place = ["bench", "s3", "--targets", "2", "--path", &dir, "--json", "-"];
    let report = site.ok(&[&place[..], &short].concat());
    let report: Value = serde_json::from_str(&report).unwrap();
    check_shape(&report);
    let phases: Vec<_> = runs(&report).into_iter().map(|run| (run.0, run.1)).collect();
    let of = |workload: &str, phases: &[&str]| {
        phases.iter().map(|phase| (workload.into(), (*phase).into())).collect::<Vec<_>>()
    };
    let door = ["put", "put signed", "put trailer", "get"];
    let expected = [of("memory", &["put", "get"]), of("md5", &door), of("xxh3", &door)];
    assert_eq!(phases, expected.concat());
    for run in report["runs"].as_array().unwrap() {
        assert_eq!(run["ops"], json!(2 * 3 * 2), "{run}");
    }
    assert_clean(&site);
}

#[test]
fn a_pool_of_the_user_s_is_left_as_it_was() {
    let site = Site::new();
    site.create_pool();
    let wanted = ["--value", "64", "--ops", "5", "--rounds", "1"];
    let envelope = site.json(&[&["bench", "kv", "--pool", "tank"][..], &wanted].concat());
    check_shape(&envelope);
    assert_eq!(envelope["settings"]["targets"], json!(2));
    assert_eq!(site.json(&["cont", "list", "tank"]), json!([]));
}

#[test]
fn nonsense_is_refused_and_leaves_nothing() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let path = ["--path", dir.as_str()];
    let kind = |arguments: &[&str]| site.fails(&[arguments, &path].concat()).0;
    assert_eq!(kind(&["bench", "limit", "--size", "0"]), "invalid");
    assert_eq!(kind(&["bench", "kv", "--procs", "0"]), "invalid");
    assert_eq!(kind(&["bench", "kv", "--ops", "0"]), "invalid");
    assert_eq!(kind(&["bench", "kv", "--class", "ODD"]), "invalid");
    assert_eq!(kind(&["bench", "tx", "--tx-every", "1"]), "invalid");
    assert_eq!(kind(&["bench", "tx", "--counters", "1"]), "invalid");
    assert_eq!(kind(&["bench", "tx", "--counters", "1048577"]), "invalid");
    assert_eq!(kind(&["bench", "tx", "--value", "7"]), "invalid");
    assert_eq!(kind(&["bench", "tx", "--rounds", "0"]), "invalid");
    assert_eq!(kind(&["bench", "engine", "--in-flight", "0"]), "invalid");
    assert_eq!(kind(&["bench", "growth", "--entries", "20,10"]), "invalid");
    assert_eq!(kind(&["bench", "growth", "--entries", "0"]), "invalid");
    assert_eq!(kind(&["bench", "s3", "--clients", "0"]), "invalid");
    assert_eq!(kind(&["bench", "s3", "--peer", "ftp://x"]), "invalid");
    assert_eq!(kind(&["bench", "kv", "--ops", "5", "--targets", "2", "--class", "RP_2G1"]), "io");
    assert_eq!(site.fails(&["bench", "limit", "--path", "/no/such"]).0, "not_found");
    assert_clean(&site);
}

#[test]
fn transactions_of_a_pool_of_files_are_measured() {
    let site = Site::in_memory();
    let folder = site.dir.join("plain");
    let pool = format!("posix:{}", folder.display());
    site.ok(&["pool", "create", &pool]);
    site.ok(&["bench", "tx", "--ops", "5", "--pool", &pool]);
    let files = format!("files:{}", site.dir.display());
    assert_eq!(site.fails(&["bench", "tx", "--ops", "5", "--pool", &files]).0, "invalid");
}

#[test]
fn a_benchmark_that_is_killed_leaves_nothing() {
    let site = Site::in_memory();
    let dir = site.dir.display().to_string();
    let mut command =
        site.command(&["bench", "kv", "--path", &dir, "--rounds", "1000", "--targets", "2"]);
    let mut process = command.stdout(Stdio::null()).spawn().unwrap();
    let made = site.dir.join(format!("esker-bench-{}", process.id()));
    wait_for("a pool is made", || made.join("bench").join("pool").exists());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_for("the pool goes", || !made.exists());
}
