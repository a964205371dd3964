//! `esker bench`: real processes, one shape of report, and nothing left behind.
use crate::bench_site::{BenchSite, runs, text};
use crate::support::wait_for;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// Workload and phase of each run.
fn phases(report: &Value) -> Vec<(&str, &str)> {
    runs(report).iter().map(|run| (text(run, "workload"), text(run, "phase"))).collect()
}

fn number(run: &Value, name: &str) -> u64 {
    run[name].as_u64().unwrap()
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
    for run in runs(report) {
        for name in ["ops_per_s", "bandwidth_mib_s"] {
            assert!(run[name].is_f64(), "{run}");
        }
        let latency = |name: &str| run["latency_us"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"), "{run}");
        let without =
            run["store"] == json!("medium") || WITHOUT_LIMIT.contains(&text(run, "phase"));
        assert_eq!((run["limit_mib_s"].is_null(), run["ratio"].is_null()), (without, without));
    }
}

/// The report of a benchmark, after its shape has been checked.
fn checked(bench: &BenchSite, command: &str) -> Value {
    let report = bench.report(command);
    check_shape(&report);
    bench.assert_left(&[]);
    report
}

#[test]
fn limit_is_measured_for_each_size_and_number_of_processes() {
    let bench = BenchSite::new();
    let sizes = "--size 4K,64KiB --procs 1,2 --total 1M --seconds 0.01";
    let (table, report) = bench.measure(&format!("limit --path $DIR {sizes}"));
    assert!(table.contains("pwrite") && table.contains("p99 us"), "{table}");
    check_shape(&report);
    let memcpy = runs(&report).iter().filter(|run| run["phase"] == "memcpy");
    let found: Vec<_> =
        memcpy.map(|run| (number(run, "procs"), number(run, "size_bytes"))).collect();
    assert_eq!(found, [(1, 4096), (1, 65536), (2, 4096), (2, 65536)]);
    bench.assert_left(&[]);
}

const SMALL: &str = "--path $DIR --procs 2 --ops 40 --rounds 2 --targets 2 --verify";

#[test]
fn arrays_and_keys_are_measured_beside_the_limit() {
    let bench = BenchSite::new();
    for (command, name) in [
        ("array --size 8K", "array"),
        ("array --size 8K --indexed", "array+index"),
        ("array --size 8K --fresh", "array"),
        ("array --size 8K --shared-index", "array+shared-index"),
        ("kv --value 64", "kv"),
    ] {
        let report = checked(&bench, &format!("{command} {SMALL}"));
        assert_eq!(
            phases(&report),
            ["pwrite", "write", "pread", "read"].map(|phase| (name, phase))
        );
        assert_eq!(report["runs"][1]["ops"], json!(2 * 40 * 2));
        assert_eq!(report["settings"]["verified"], json!(true));
    }
}

#[test]
fn transactions_are_measured_among_puts_and_gets() {
    let bench = BenchSite::new();
    for (procs, more) in
        [(&[1, 2, 4][..], ""), (&[1, 2, 4], "--no-write-buffer"), (&[2], "--fresh")]
    {
        let list: Vec<_> = procs.iter().map(u64::to_string).collect();
        let small = "--counters 20 --ops 40 --rounds 2 --targets 2 --verify";
        let command = format!("tx --path $DIR {small} --procs {} {more}", list.join(","));
        let report = checked(&bench, &command);
        let settings = &report["settings"];
        let has_buffer = Path::new("/dev/shm").is_dir() && more != "--no-write-buffer";
        assert_eq!(settings["write_buffer"], json!(has_buffer));
        assert_eq!((&settings["tx_every"], &settings["counters"]), (&json!(10), &json!(20)));
        for (runs, procs) in runs(&report).chunks(6).zip(procs) {
            let phases: Vec<_> = runs.iter().map(|run| text(run, "phase")).collect();
            assert_eq!(phases, ["pwrite", "put", "tx", "pread", "get", "mixed"]);
            let ops = |run: usize| runs[run]["ops"].as_u64().unwrap();
            let keys = 2 * 40 * procs;
            assert_eq!((ops(1), ops(4), ops(1) + ops(2) + ops(4)), (keys, keys, ops(5)));
            // A process makes 80 puts and gets, and a transaction after each 8 or 9 of them.
            assert!((2 * 8 * procs..=2 * 9 * procs).contains(&ops(2)), "{}", ops(2));
            assert!(runs[2]["conflicts"].is_u64() && runs[1]["conflicts"].is_null());
            assert_eq!((&runs[1]["size_bytes"], &runs[2]["size_bytes"]), (&json!(64), &json!(128)));
        }
    }
}

#[test]
fn pools_with_a_write_buffer_are_measured() {
    if !Path::new("/dev/shm").is_dir() {
        return esker_testing::skip("there is no /dev/shm for pools with durability `process`");
    }
    let bench = BenchSite::new();
    for workload in [
        "kv --ops 9 --rounds 1 --verify",
        "array --size 4K --ops 9 --rounds 1 --verify",
        "growth --entries 20 --ops 9",
        "fields --size 4K --steps 1 --levels 2 -i 1 --no-watch",
    ] {
        let (table, report) = bench.measure(&format!("{workload} --path $DIR --targets 2"));
        assert!(table.contains("(memory), pool with a write buffer"), "{table}");
        assert_eq!(report["settings"]["write_buffer"], json!(true), "{workload}");
        bench.assert_left(&[]);
    }
    let files = "mdtest -a DFS -n 4 -d /work --procs 1 --alone --path $DIR --targets 2";
    assert_eq!(bench.report(files)["settings"]["write_buffer"], json!(true));
    let plain = bench.report(&format!("kv {SMALL} --value 64 --no-write-buffer"));
    assert_eq!(plain["settings"]["write_buffer"], json!(false));
}

#[test]
fn option_without_write_buffer_is_refused_where_no_pool_is_created() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    let message = bench.message("mdtest -n 1 -d $DIR --no-write-buffer");
    assert!(message.contains("--no-write-buffer") && message.contains("-a DFS"), "{message}");
    for command in [
        "kv --pool tank",
        "posix --engine",
        "mdtest -d /w -a DFS --dfs.pool tank",
        "field-io --nodes tank",
        "limit",
    ] {
        let said = bench.usage_error(&format!("{command} --no-write-buffer"));
        assert!(said.contains("--no-write-buffer"), "{command}: {said}");
    }
}

#[test]
fn a_store_is_measured_while_it_grows() {
    let bench = BenchSite::new();
    let growth = "growth --path $DIR --entries 10,40 --ops 20 --targets 2";
    let table = bench.ok(&format!("{growth} --json $DIR/growth.json"));
    let report = bench.read_json("growth.json");
    check_shape(&report);
    let found: Vec<_> = runs(&report)
        .iter()
        .map(|run| {
            (text(run, "workload"), number(run, "entries"), text(run, "phase"), number(run, "ops"))
        })
        .collect();
    let mut expected = Vec::new();
    for workload in ["kv", "array"] {
        for (entries, puts) in [(10, 5), (40, 15)] {
            for (phase, ops) in
                [("pwrite", puts), ("put", puts), ("pread", 20), ("get", 20), ("open", 5)]
            {
                expected.push((workload, entries, phase, ops));
            }
        }
    }
    assert_eq!(found, expected);
    assert!(table.contains("entries"), "{table}");
    bench.ok("report $DIR/growth.json -o $DIR/page.html");
    let page = std::fs::read_to_string(bench.path("page.html")).unwrap();
    assert_eq!(
        page.matches("as entries go from 10 to 40").count(),
        6,
        "puts, gets and opening of two kinds"
    );
}

#[test]
fn an_engine_is_measured_beside_raw_tcp() {
    let bench = BenchSite::new();
    let sizes = "--size 300K --value 64 --procs 2 --in-flight 3";
    let short = "--ops 20 --rounds 2 --targets 2 --verify --iperf3 0";
    let report = checked(&bench, &format!("engine --tls --path $DIR {sizes} {short}"));
    let arrays = ["tcp send", "write", "tcp receive", "read", "tls write", "tls read"];
    let keys = ["tcp echo", "write", "tcp echo", "read", "tls write", "tls read"];
    let expected = [arrays.map(|phase| ("array x3", phase)), keys.map(|phase| ("kv x3", phase))];
    assert_eq!(phases(&report), expected.concat());
    assert!(runs(&report).iter().all(|run| run["ops"] == json!(2 * 20 * 2)), "{report}");
    assert_eq!(report["settings"]["verified"], json!(true));
}

#[test]
fn objects_by_s3_are_measured_beside_the_http_library() {
    let bench = BenchSite::new();
    let short = "--size 300K --clients 2 --ops 3 --rounds 2 --verify";
    let report = checked(&bench, &format!("s3 --targets 2 --path $DIR {short}"));
    let s3 = ["put", "put signed", "put trailer", "get"];
    let mut expected = vec![("memory", "put"), ("memory", "get")];
    expected.extend(["md5", "xxh3"].iter().flat_map(|tag| s3.map(|phase| (*tag, phase))));
    assert_eq!(phases(&report), expected);
    assert!(runs(&report).iter().all(|run| run["ops"] == json!(2 * 3 * 2)), "{report}");
}

#[test]
fn pool_of_the_user_keeps_no_container_of_the_benchmark() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    let report = bench.json("kv --pool tank --value 64 --ops 5 --rounds 1");
    check_shape(&report);
    assert_eq!(report["settings"]["targets"], json!(2));
    assert_eq!(bench.site.json(&["cont", "list", "tank"]), json!([]));
}

#[test]
fn invalid_options_are_refused_and_leave_nothing() {
    let bench = BenchSite::new();
    for command in [
        "limit --size 0",
        "limit --seconds=-1",
        "limit --seconds=inf",
        "kv --procs 0",
        "kv --ops 0",
        "kv --class ODD",
        "tx --tx-every 1",
        "tx --counters 1",
        "tx --counters 1048577",
        "tx --value 7",
        "tx --rounds 0",
        "engine --in-flight 0",
        "growth --entries 20,10",
        "growth --entries 0",
        "s3 --clients 0",
        "s3 --peer ftp://x",
    ] {
        assert_eq!(bench.error_kind(&format!("{command} --path $DIR")), "invalid", "{command}");
    }
    assert_eq!(bench.error_kind("kv --ops 5 --targets 2 --class RP_2G1 --path $DIR"), "invalid");
    assert_eq!(bench.error_kind("limit --path /no/such"), "not_found");
    for none in ["--ops 0", "--rounds 0", "--in-flight 0", "--size 0"] {
        assert_eq!(bench.error_kind(&format!("rados rados:den {none}")), "invalid", "{none}");
    }
    for command in ["limit", "kv --ops 5", "s3"] {
        let message = bench.message(&format!("{command} --path /no/such"));
        let names_it = message.contains("/no/such") && !message.contains("/no/such/");
        assert!(names_it, "{command}: {message}");
    }
    bench.assert_left(&[]);
}

#[test]
fn transactions_of_a_pool_of_files_are_measured() {
    let bench = BenchSite::new();
    let pool = format!("posix:{}", bench.path("plain").display());
    bench.site.ok(&["pool", "create", &pool]);
    bench.ok("tx --ops 5 --pool posix:$DIR/plain");
    assert_eq!(bench.error_kind("tx --ops 5 --pool files:$DIR"), "invalid");
}

#[test]
fn existing_directory_with_the_name_of_a_temporary_one_is_kept() {
    let bench = BenchSite::new();
    let command = bench.command("kv --path $DIR --ops 5");
    // The benchmark has the process id of the shell, which is part of the name.
    let script = format!("mkdir {}/esker-bench-$$ && exec \"$@\"", bench.site.dir.display());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let entries = std::fs::read_dir(&bench.site.dir).unwrap().map(|entry| entry.unwrap());
    let mut names = entries.map(|entry| entry.file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("esker-bench-")));
}

#[test]
fn a_benchmark_that_is_killed_leaves_nothing() {
    let bench = BenchSite::new();
    let mut command = bench.command("kv --path $DIR --rounds 1000 --targets 2");
    let mut process = command.stdout(Stdio::null()).spawn().unwrap();
    let made = bench.path(&format!("esker-bench-{}", process.id()));
    wait_for("a pool is made", || made.join("bench").join("pool").exists());
    process.kill().unwrap();
    process.wait().unwrap();
    wait_for("the pool goes", || !made.exists());
}
