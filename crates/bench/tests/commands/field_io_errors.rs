//! Failures of `esker bench field-io`: each leaves a clear message, no processes and no incomplete results.
use crate::bench_site::BenchSite;
use crate::support::wait_for;
use serde_json::json;
use std::process::{Child, Command, Stdio};

#[test]
fn failed_node_ends_the_other_nodes() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    let in_place = "--size 1K --pattern B --mode no-index --ops 1000000";
    let nodes = bench.nodes(&format!("field-io --pool tank --rendezvous $DIR/meet {in_place}"), 2);
    // A process that has just been forked still has the command line of its parent.
    let field_workers = || -> Vec<u32> {
        let workers = workers_of(nodes[1].id()).into_iter();
        workers.filter(|pid| command_line(*pid).contains("worker field-io")).collect()
    };
    wait_for("both work", || field_workers().len() == 2);
    signal("KILL", field_workers()[0]);
    for node in nodes {
        let output = node.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("it has ended unexpectedly"), "{said}");
    }
    assert_eq!(bench.site.json(&["cont", "list", "tank"]), json!([]));
}

fn signal(name: &str, pid: u32) {
    let kill = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(kill.unwrap().success());
}

/// Processes that a benchmark has started, the janitor left out.
fn workers_of(parent: u32) -> Vec<u32> {
    children_of(parent).into_iter().filter(|pid| !command_line(*pid).contains("janitor")).collect()
}

fn command_line(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// The command with the default actions of signals: programs that a shell has started in the background ignore SIGINT.
fn with_default_signals(command: &Command) -> Command {
    let mut program = Command::new("env");
    program.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    program
}

/// Starts a benchmark that takes long. Returns it and its child processes once two of them are at work on the store.
fn long_one(bench: &BenchSite) -> (Child, Vec<u32>) {
    let endless = "--targets 2 --size 1K --ops 200000 --repeat 200";
    let command = bench.command(&format!("field-io --path $DIR {endless} --json $DIR/never.json"));
    let mut command = with_default_signals(&command);
    let process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let id = process.id();
    let at_work = |pid: &u32| command_line(*pid).contains("worker field-io") && is_alive(*pid);
    wait_for("processes at work", || workers_of(id).iter().filter(|pid| at_work(pid)).count() == 2);
    let workers = children_of(id);
    (process, workers)
}

#[test]
fn interrupt_is_reported_and_leaves_nothing() {
    for name in ["INT", "TERM"] {
        let bench = BenchSite::new();
        let (process, children) = long_one(&bench);
        signal(name, process.id());
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("interrupted"), "{said}");
        wait_for("no orphans", || !children.iter().any(|pid| is_alive(*pid)));
        bench.assert_left(&[]);
    }
}

#[test]
fn killed_benchmark_leaves_no_process_and_no_result() {
    let bench = BenchSite::new();
    let (mut process, children) = long_one(&bench);
    process.kill().unwrap();
    process.wait().unwrap();
    wait_for("no orphans", || !children.iter().any(|pid| is_alive(*pid)));
    assert!(!bench.path("never.json").exists() && !bench.path("never.traces.csv").exists());
    let entries = || std::fs::read_dir(&bench.site.dir).unwrap().flatten();
    let folders = || entries().filter(|entry| entry.path().is_dir()).count();
    wait_for("the pool is gone", || folders() == 0);
}

#[test]
fn a_worker_that_is_killed_is_named() {
    let bench = BenchSite::new();
    let (process, children) = long_one(&bench);
    let victim =
        children.iter().find(|pid| command_line(**pid).contains("worker field-io")).unwrap();
    signal("KILL", *victim);
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("process") && said.contains("it has ended unexpectedly"), "{said}");
    wait_for("no orphans", || !children.iter().any(|pid| is_alive(*pid)));
    bench.assert_left(&[]);
}

#[test]
fn full_pool_is_reported_and_left_without_leftovers() {
    let bench = BenchSite::new();
    bench.site.create_pool();
    let large = "field-io --pool tank --ops 200 --size 1MiB";
    assert_eq!(bench.error_kind(&format!("{large} --json -")), "no_space");
    let said = bench.message(&format!("{large} --json $DIR/full.json"));
    assert!(said.contains("no segment with room") && said.contains("larger pool"), "{said}");
    assert_eq!(bench.site.json(&["cont", "list", "tank"]), json!([]));
    bench.assert_left(&["tank"]);
}

#[test]
fn unwritable_output_is_refused_before_measuring() {
    let bench = BenchSite::new();
    let kind = |more: &str| bench.error_kind(&format!("field-io --path $DIR {more}"));
    assert_eq!(kind("--json /no/such/a.json"), "not_found");
    assert_eq!(kind("--traces /no/such/a.csv --ops 1"), "not_found");
    assert_eq!(kind("--targets 2 --ops 2 --size 1K --traces /dev/full"), "no_space");
    assert_eq!(bench.error_kind("field-io --path /no/such"), "not_found");
    for nonsense in [
        "--procs 3 --pattern B",
        "--procs 0",
        "--ops 0",
        "--repeat 0",
        "--class-kv ODD",
        "--rank 2 --ranks 2",
        "--rank 0 --ranks 2",
    ] {
        assert_eq!(kind(nonsense), "invalid", "{nonsense}");
    }
    bench.assert_left(&[]);
}
