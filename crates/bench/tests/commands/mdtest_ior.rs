//! `esker bench mdtest`, `ior` and `posix`: options, tables and reports, and nothing left behind.
use crate::bench_site::{BenchSite, phases, runs};
use serde_json::{Value, json};
use std::path::Path;

/// The table and the report of a benchmark on small data, without comparisons to other file systems.
fn measure(bench: &BenchSite, command: &str) -> (String, Value) {
    bench.measure(&format!("{command} --alone --pin none"))
}

/// Phases and operations of a store.
fn of_store<'r>(report: &'r Value, name: &str) -> Vec<(&'r str, u64)> {
    let own = phases(report).into_iter().filter(|(store, ..)| *store == name);
    own.map(|(_, phase, ops)| (phase, ops)).collect()
}

#[test]
fn mdtest_counts_what_it_does() {
    let bench = BenchSite::new();
    let work = "--procs 2 -n 31 -z 1 -b 2 -N 1 -i 2 -R --list -w 100 -e 100 -X -y -u";
    let (table, report) = measure(&bench, &format!("mdtest -d $DIR {work}"));
    assert!(table.contains("SUMMARY rate (in ops/sec)") && table.contains("Std Dev"), "{table}");
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
    assert_eq!(of_store(&report, "POSIX"), phases);
    assert_eq!(report["runs"][4]["repeats"].as_array().unwrap().len(), 2);
    bench.assert_left(&[]);
}

#[test]
fn files_over_nodes_are_measured_through_engines() {
    let bench = BenchSite::new();
    for work in ["mdtest -n 10 -F -d /md", "ior -t 4k -b 8k -o /f"] {
        let (table, report) = measure(&bench, &format!("{work} -a DFS --path $DIR --nodes 1,2"));
        assert!(table.contains("Pool over 1 nodes") && table.contains("Pool over 2 nodes"));
        let runs = runs(&report);
        let of = |count: u64| runs.iter().filter(|run| run["server_nodes"] == json!(count)).count();
        assert_eq!((of(1), of(2)), (runs.len() / 2, runs.len() / 2));
        let starts = report["settings"]["start_s"].as_array().unwrap();
        assert!(starts.iter().all(|start| start["seconds"].as_f64().unwrap() > 0.0));
        assert_eq!(starts.len(), 2);
    }
    assert!(bench.message("ior -o /dev/shm/x --nodes 2").contains("add -a DFS"));
    bench.assert_left(&[]);
}

#[test]
fn phases_can_be_measured_by_separate_runs() {
    let bench = BenchSite::new();
    for (phases, expected) in [
        ("-C", [("file-creation", 10), ("tree-creation", 1)]),
        ("-T -E", [("file-stat", 10), ("file-read", 10)]),
        ("-r", [("file-removal", 10), ("tree-removal", 1)]),
    ] {
        let (_, report) =
            measure(&bench, &format!("mdtest -d $DIR/tree -n 5 -F -w 9 -e 9 -X {phases}"));
        assert_eq!(of_store(&report, "POSIX"), expected);
    }
    assert_eq!(std::fs::read_dir(bench.path("tree")).unwrap().count(), 0);
}

#[test]
fn the_stonewall_leaves_all_processes_with_as_many_files() {
    let bench = BenchSite::new();
    let (_, report) = measure(&bench, "mdtest -d $DIR -n 100000000 -F -W 1 --list");
    let found = of_store(&report, "POSIX");
    let of = |phase: &str| found.iter().find(|(name, _)| *name == phase).unwrap().1;
    let made = of("file-creation");
    assert!(made.is_multiple_of(2) && (2..200_000_000).contains(&made), "{made}");
    assert!(of("file-creation-stonewall") <= made);
    for phase in ["file-stat", "file-listing", "file-read", "file-removal"] {
        assert_eq!(of(phase), made, "{phase}");
    }
    bench.assert_left(&[]);
}

#[test]
fn ior_compares_what_it_reads() {
    let bench = BenchSite::new();
    for more in ["-F", "-g -z", "-D 10 -O stoneWallingWearOut=1"] {
        let work = format!("ior -o $DIR/file -b 64k -t 4k -s 2 -W -R -C -e -i 2 {more}");
        let (table, report) = measure(&bench, &work);
        for heading in
            ["access", "bw(MiB/s)", "IOPS", "Latency(s)", "block(KiB)", "wr/rd(s)", "iter"]
        {
            assert!(table.contains(heading), "{heading}: {table}");
        }
        assert_eq!(of_store(&report, "POSIX"), [("write", 128), ("read", 128)]);
        assert_eq!(report["runs"][0]["repeats"][0]["parts_s"].as_array().unwrap().len(), 3);
        bench.assert_left(&[]);
    }
    measure(&bench, "ior -o $DIR/file -b 64k -t 4k -w -k");
    let mut bytes = std::fs::read(bench.path("file")).unwrap();
    assert_eq!(bytes.len(), 128 << 10);
    let read = "ior -o $DIR/file -b 64k -t 4k --alone -r -R";
    bench.ok(read);
    bytes[70_000] ^= 0x10;
    std::fs::write(bench.path("file"), bytes).unwrap();
    let said = bench.message(read);
    assert!(said.contains("byte 70000"), "{said}");
}

#[test]
fn a_container_is_measured_beside_memory_and_disk() {
    let bench = BenchSite::new();
    let mdtest = "mdtest -a DFS -n 20 -d /some/where -w 50 -e 50 -X --path $DIR";
    let (table, report) = measure(&bench, mdtest);
    assert!(table.contains("index of the pool with 40 files"), "{table}");
    assert_eq!(of_store(&report, "DFS").len(), 9);
    let (_, report) = measure(&bench, "ior -a DFS -o /f -b 64k -t 8k -W -R -C --path $DIR -F");
    assert_eq!(of_store(&report, "DFS"), [("write", 16), ("read", 16)]);
    bench.assert_left(&[]);
}

/// A killed run leaves such a tree in a container of the user.
#[test]
fn a_run_in_an_existing_container_has_a_directory_of_its_own() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    bench.site.ok(&["cont", "create", "tank", "files", "--type", "posix"]);
    let work = "mdtest -a DFS --dfs.pool tank --dfs.cont files -d /work -n 3 -F";
    measure(&bench, &format!("{work} -C"));
    let (_, report) = measure(&bench, work);
    assert_eq!(of_store(&report, "DFS").len(), 6);
    assert_eq!(of_store(&measure(&bench, &format!("{work} -r")).1, "DFS").len(), 2);
    assert_eq!(bench.site.ok(&["fs", "ls", "tank/files:/work"]), "");
}

/// Other file systems are measured in folders with names of their own, so that the benchmarks do not disturb each
/// other.
#[test]
fn comparisons_get_ratios_and_folders_of_their_own() {
    let bench = BenchSite::new();
    let report = bench.report("mdtest -d $DIR/in -n 10 -F --tmpfs $DIR --disk $DISK");
    let mut stores: Vec<_> = phases(&report).into_iter().map(|run| run.0).collect();
    stores.dedup();
    assert!(stores.len() >= 3, "{stores:?}");
    let ratios = report["runs"][0]["ratio_to"].as_object().unwrap();
    assert!(ratios.len() == 2 && ratios.values().all(|ratio| ratio.is_f64()));
    bench.assert_left(&["in"]);
}

#[test]
fn unsupported_options_of_mdtest_and_ior_are_refused_by_name() {
    let bench = BenchSite::new();
    for (command, refused) in [
        ("mdtest -d x -n 1 -S", "-S of mdtest is not supported"),
        ("ior -o x -c", "-c of ior is not supported"),
        ("ior -o x -T 5", "-T of ior is not supported"),
        ("mdtest -d x -n 1 --np 1,2", "run it once for each"),
        ("posix --procs 1,2", "run it once for each"),
    ] {
        let said = bench.usage_error(command);
        assert!(said.contains(refused), "{said}");
    }
    for option in [
        "--dfs.pool tank",
        "--dfs.chunk_size 1M",
        "--dfs.oclass S1",
        "--path $DIR",
        "--targets 2",
        "--huge-pages",
    ] {
        let said = bench.message(&format!("mdtest -d $DIR/md -n 1 {option}"));
        let name = option.split(' ').next().unwrap();
        assert!(said.starts_with(name) && said.contains("add -a DFS"), "{said}");
    }
    let said = bench.message("posix --small 4K --path $DIR");
    assert!(said.starts_with("--small 4 KiB is less than one transfer"), "{said}");
    let said = bench.usage_error("ior -o /f -O useO_DIRECT=1");
    assert!(said.contains("useO_DIRECT=1") && said.contains("stoneWallingWearOut=0"), "{said}");
    for nonsense in [
        "mdtest -d $DIR",
        "mdtest -d $DIR -n 5 -z 40 -b 9",
        "mdtest -d $DIR -n 5 -e 7 -X",
        "ior -o $DIR -b 3k -t 2k",
    ] {
        assert_eq!(bench.error_kind(nonsense), "invalid", "{nonsense}");
    }
    bench.assert_left(&[]);
}

/// The rows of the complete table of small files.
fn rows(bench: &BenchSite, options: &str) -> Vec<Value> {
    let small = "--files 20 --small 64K --large 2M -i 1 --path $DIR --disk $DISK";
    let report = bench.report(&format!("posix {small} {options}"));
    assert_eq!(report["schema"], json!(1));
    let rows = report["table"].as_array().unwrap().clone();
    assert!(rows.iter().all(|row| row["sites"]["DFS"].is_f64()), "{rows:?}");
    rows
}

#[test]
fn complete_table_is_measured_and_drawn() {
    let bench = BenchSite::new();
    if !Path::new("/dev/shm").is_dir() {
        return esker_testing::skip("there is no /dev/shm");
    }
    let rows = rows(&bench, "--only-dfs -o $DIR/files.html --peer other=$DIR/peer");
    assert_eq!(rows.len(), 8 + 1 + 5);
    assert!(rows.iter().all(|row| row["sites"]["other"].is_f64()), "{rows:?}");
    assert!(rows.iter().all(|row| row["goals"]["DFS"].is_f64()), "{rows:?}");
    let page = std::fs::read_to_string(bench.path("files.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("8 KiB write, shared file"));
    assert_eq!(std::fs::read_dir(bench.path("peer")).unwrap().count(), 0);
    bench.assert_left(&["files.html", "peer"]);
}

#[test]
fn the_table_is_measured_through_an_engine() {
    let bench = BenchSite::new();
    if !Path::new("/dev/shm").is_dir() {
        return esker_testing::skip("there is no /dev/shm");
    }
    let rows = rows(&bench, "--engine");
    assert!(!rows.is_empty() && rows.iter().all(|row| row["sites"]["mount"].is_null()));
    bench.assert_left(&[]);
}

#[test]
fn the_genuine_program_does_the_same_work_beside_ours() {
    use std::os::unix::fs::PermissionsExt;
    let bench = BenchSite::new();
    let script =
        b"#!/bin/sh\necho \"$@\" >> \"$0.told\"\necho 'write  1200.00  900.00  1000.50  0.00'\n";
    let program = bench.site.file("ior", script);
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let work = "ior --procs 1 -b 64k -t 8k -o $DIR/data/f --genuine $DIR/ior";
    let (table, report) = measure(&bench, work);
    assert!(table.contains(&format!("Mean rates of {program} and ours:\n")), "{table}");
    assert!(table.lines().any(|line| line.starts_with("write      POSIX  1000.50  ")), "{table}");
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
