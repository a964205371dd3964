//! Tests of what all commands share: notes, flags, the configuration file, words of DAOS, and completion.
use crate::support::Site;
use serde_json::{Value, json};
use std::process::Output;

fn standard_error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn empty_listings_say_so_on_standard_error() {
    let site = Site::new();
    let mut said = Vec::new();
    let mut list = |arguments: &[&str]| {
        let output = site.run(arguments);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        said.push(standard_error(&output));
    };
    list(&["pool", "list"]);
    site.create_pool();
    list(&["cont", "list", "tank"]);
    site.ok(&["cont", "create", "tank", "run1"]);
    list(&["cont", "snapshot", "list", "tank", "run1"]);
    list(&["object", "list", "tank/run1"]);
    for (said, remedy) in said.iter().zip([
        "esker pool create NAME",
        "esker cont create tank LABEL",
        "esker cont snapshot create tank run1 NAME",
        "no such objects",
    ]) {
        assert!(said.starts_with("esker: ") && said.contains(remedy), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
    assert_eq!(site.json(&["object", "list", "tank/run1"]), json!([]));
}

#[test]
fn quiet_commands_print_results_and_errors_only() {
    let site = Site::new();
    let output = site.run(&["-q", "pool", "list"]);
    assert!(output.stderr.is_empty() && output.stdout.is_empty(), "{output:?}");
    assert_eq!(site.ok(&["pool", "create", "tank", "--size", "32M", "-q"]), "");
    assert_eq!(site.ok(&["cont", "create", "tank/run1", "--quiet"]), "");
    assert_eq!(site.ok(&["cont", "copy", "tank/run1", "tank/run2", "-q"]), "");
    assert!(site.ok(&["-q", "cont", "list", "tank"]).contains("run2"));
    let output = site.run(&["-q", "cont", "query", "tank/run3"]);
    assert!(standard_error(&output).contains("run3"));
}

#[test]
fn progress_can_be_switched_off() {
    let site = Site::new();
    let create = ["pool", "create", "tank", "--size", "64M"];
    let (done, shown) = site.on_terminal(&[&create[..], &["--no-progress"]].concat(), "");
    assert!(done && !shown.contains('\x1b'), "{shown:?}");
    assert!(shown.contains("created pool tank"), "{shown:?}");
}

#[test]
fn color_option_determines_colors() {
    let site = Site::new();
    site.create_pool();
    let doctor = |color: &str| site.run(&["doctor", "--color", color]).stdout;
    assert!(doctor("always").contains(&b'\x1b') && !doctor("never").contains(&b'\x1b'));
    let (_, shown) = site.on_terminal(&["--color=never", "doctor"], "");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    let usage = site.run(&["--color=always", "pool", "nonsense"]);
    assert!(usage.stderr.contains(&b'\x1b'), "{usage:?}");
}

#[test]
fn the_configuration_file_sets_defaults() {
    let site = Site::new();
    let place = site.dir.join("configured");
    let text = format!("# mine\npools = {}\nfields = tank/fields\njobs = 2\n", place.display());
    let file = site.file("esker.conf", text.as_bytes());
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("ESKER_CONFIG", &file).env_remove("ESKER_POOLS").env_remove("ESKER_FIELDS");
        command.output().unwrap()
    };
    let output = run(&["pool", "create", "tank", "--size", "32M"]);
    assert!(output.status.success() && place.join("tank/pool").exists(), "{output:?}");
    let missing = standard_error(&run(&["fields", "status"]));
    assert!(missing.contains("fields") && !missing.contains("--store"), "{missing}");

    let file = site.file("esker.conf", b"pools = /a\npool = /b\n");
    let mut command = site.command(&["--json", "pool", "list"]);
    let output = command.env("ESKER_CONFIG", &file).output().unwrap();
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("esker.conf:2:") && message.contains("\"pool\""), "{message}");
}

#[test]
fn words_of_daos_work_or_have_a_tip() {
    let site = Site::with_container();
    site.ok(&["container", "create-snap", "tank", "run1", "--snap=monday"]);
    assert!(site.ok(&["cont", "list-snaps", "tank", "run1"]).contains("monday"));
    site.ok(&["cont", "destroy-snap", "tank", "run1", "--snap", "monday"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "a", "b"]);
    assert!(site.ok(&["cont", "list-objects", "tank/run1"]).contains("index"));
    let output = site.run(&["cont", "get-acl", "tank", "run1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(standard_error(&output).contains("`esker cont get-acl`"), "{output:?}");
    let output = site.run(&["--json", "fs", "set-attr", "tank/run1:/"]);
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(envelope["error"]["message"].as_str().unwrap().contains("--chunk-size"));
}

#[test]
fn tips_name_the_missing_option_or_variable() {
    let site = Site::in_memory();
    for (arguments, tip) in [
        (&["fields", "list"][..], "ESKER_FIELDS=POOL/CONT"),
        (&["pool", "create", "tank", "4G"], "--size 4G"),
        (&["ls"], "`esker pool list`"),
    ] {
        let output = site.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(standard_error(&output).contains(tip), "{output:?}");
    }
    assert!(site.ok(&["version"]).starts_with("esker "));
}

#[test]
fn remedies_name_pool_and_container() {
    let site = Site::with_container();
    let message = site.message(&["cont", "snapshot", "destroy", "tank", "run1", "none"]);
    assert!(message.contains("`esker cont snapshot list tank run1`"), "{message}");
    let message = site.message(&["cont", "get-attr", "tank", "run1", "none"]);
    assert!(message.contains("`esker cont list-attr tank run1`"), "{message}");
    let message = site.message(&["pool", "get-attr", "tank", "none"]);
    assert!(message.contains("`esker pool list-attr tank`"), "{message}");
}

#[test]
fn sizes_in_errors_have_units() {
    let site = Site::in_memory();
    let message = site.message(&["pool", "create", "tank", "--size", "900T"]);
    assert!(message.contains("iB free, and the pool needs 900"), "{message}");
}

#[test]
fn names_are_completed() {
    let site = Site::with_container();
    site.ok(&["cont", "create", "tank", "run2"]);
    for (line, wanted) in [
        ("pool query ", "tank\n"),
        ("cont query tank ", "run1\nrun2\n"),
        ("cont query tank/run", "tank/run1\ntank/run2\n"),
        ("run t", "tank/\n"),
        ("fs ls tank/run1", "tank/run1:\n"),
        ("pool query x", ""),
    ] {
        let words: Vec<_> =
            ["complete", "--", "esker"].into_iter().chain(line.split(' ')).collect();
        assert_eq!(site.ok(&words), wanted, "{line}");
    }
}

/// Runs the completion script in bash, with the words of the command line in its variables.
#[test]
fn bash_completes_names_of_pools_and_containers() {
    let site = Site::with_container();
    let script = site.file("completion", site.ok(&["completions", "bash"]).as_bytes());
    let program = r#"
        . "$1"
        esker=$2
        complete_words() {
            COMP_WORDS=("$esker" "$@") COMP_CWORD=$#
            _esker_or_names "$esker" "${@: -1}" ""
            echo "${COMPREPLY[*]}"
        }
        complete_words pool query ""
        complete_words cont query tank ""
        complete_words pool quer
    "#;
    let esker = crate::support::esker();
    let mut command = std::process::Command::new("bash");
    command.args(["-c", program, "-", &script]).arg(&esker);
    command.env("ESKER_POOLS", &site.dir).env("ESKER_CONFIG", "");
    let output = command.output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines, "tank\nrun1\nquery\n", "{}", String::from_utf8_lossy(&output.stderr));
}
