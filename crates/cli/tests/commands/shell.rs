//! Tests of help, usage errors, completions, man pages and doctor.
use crate::support::Site;
use serde_json::{Value, json};
use std::process::Stdio;

#[test]
fn usage_errors_have_exit_status_2() {
    let site = Site::new();
    for arguments in [&["pool"][..], &["pool", "create"], &["nonsense"], &["pool", "list", "--odd"]]
    {
        assert_eq!(site.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
    // Pools of files have no size, so it is not the syntax that is wrong.
    assert_eq!(site.fails(&["pool", "create", "tank"]).0, "invalid");
    let output = site.run(&["--json", "pool", "create", "tank", "--size", "lots"]);
    assert_eq!(output.status.code(), Some(2));
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&envelope["status"], &envelope["response"]), (&json!(-1003), &Value::Null));
    assert!(envelope["error"]["message"].as_str().unwrap().contains("lots"));
    let output = site.run(&["--json", "kv", "get", "tank"]);
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("<CONT> <OBJECT> <KEY>"), "{message}");
}

#[test]
fn help_explains_names_and_exit_status() {
    let site = Site::new();
    let help = site.ok(&["--help"]);
    for word in ["ESKER_POOLS", "Exit status", "Examples", "doctor", "bench"] {
        assert!(help.contains(word), "{word}");
    }
    assert!(!help.contains("worker"));
    assert!(site.ok(&["kv", "put", "--help"]).contains("SHA-256"));
    assert!(site.ok(&["--version"]).starts_with("esker "));
}

#[test]
fn the_tool_alone_shows_the_first_commands() {
    let site = Site::new();
    let said = site.ok(&[]);
    assert_eq!(said.lines().filter(|line| line.starts_with("  esker ")).count(), 5, "{said}");
    assert!(said.contains("`esker --help` lists all commands"), "{said}");
    let output = site.run(&["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["error"]["kind"], json!("invalid"));
}

/// Members of the response of a command in the table of docs/cli.md, sorted.
fn documented(command: &str) -> Vec<String> {
    let document = include_str!("../../../../docs/cli.md");
    let row = document.lines().find(|line| line.starts_with(&format!("| {command} | `{{")));
    let (_, rest) = row.unwrap_or_else(|| panic!("no row {command}")).split_once('{').unwrap();
    let members = rest.split_once('}').unwrap().0.split(", ");
    let mut names: Vec<_> =
        members.map(|member| member.split(':').next().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn documents_have_the_documented_members() {
    let site = Site::new();
    let file = site.file("data", b"1234");
    for (row, arguments) in [
        ("`pool create`, each of `pool list`", "pool create tank --size 32M --targets 2"),
        ("`pool check`", "pool check tank"),
        ("`pool scrub`", "pool scrub tank"),
        ("`pool compact`", "pool compact tank"),
        ("`cont create`, each of `cont list`", "cont create tank run1"),
        ("`cont snapshot create`, each of `... list`", "cont snapshot create tank run1 monday"),
        ("`cont snapshot destroy`", "cont snapshot destroy tank run1 monday"),
        ("`kv put`", "kv put tank run1 index key value"),
        ("`kv get`", "kv get tank run1 index key"),
        ("`kv list`", "kv list tank run1 index"),
        ("`array put`", &format!("array put tank run1 field {file}")),
        ("`array get`", &format!("array get tank run1 field -o {file}")),
        ("`array stat`", "array stat tank run1 field"),
        ("`object query`", "object query tank run1 field"),
        ("`pool salvage`", "pool salvage tank copy"),
        ("`pool destroy`", "pool destroy --recursive copy"),
    ] {
        let response = site.json(&arguments.split(' ').collect::<Vec<_>>());
        let mut members: Vec<_> = response.as_object().unwrap().keys().cloned().collect();
        members.sort();
        assert_eq!(members, documented(row), "{arguments}");
    }
    let mut response = site.json(&["pool", "query", "tank"]);
    // The page names it apart, for pools in memory.
    response.as_object_mut().unwrap().remove("huge_page_bytes");
    let mut members: Vec<_> = response.as_object().unwrap().keys().cloned().collect();
    members.sort();
    assert_eq!(members, documented("`pool query`"));
}

/// Each command has a line of its own in the list, and a group says what it is for.
#[test]
fn the_list_says_what_each_command_is_for() {
    let help = Site::new().ok(&["-h"]);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let purposes: Vec<_> = lines.iter().filter_map(|line| line.trim().split_once("  ")).collect();
    assert!(purposes.len() > 12, "{help}");
    for (name, purpose) in &purposes {
        let same = purposes.iter().filter(|(_, other)| other == purpose).count();
        assert_eq!(same, 1, "{name}: {purpose}");
    }
}

#[test]
fn shells_complete_the_commands() {
    let site = Site::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = site.ok(&["completions", shell]);
        assert!(script.contains("scrub"), "{shell}");
    }
}

#[test]
fn every_command_has_a_man_page() {
    let site = Site::new();
    let out = site.dir.join("man");
    site.ok(&["man", "--out", out.to_str().unwrap()]);
    for page in ["esker.1", "esker-pool-create.1", "esker-cont-snapshot-create.1"] {
        let text = std::fs::read_to_string(out.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    assert!(!out.join("esker-man.1").exists());
}

#[test]
fn closed_reader_is_not_an_error() {
    let site = Site::new();
    let mut process =
        site.command(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    assert!(process.wait().unwrap().success());
}

fn finding(findings: &Value, check: &str) -> Value {
    let all = findings.as_array().unwrap();
    all.iter().find(|finding| finding["check"] == check).cloned().unwrap_or_default()
}

#[test]
fn the_doctor_finds_nothing_wrong_where_all_is_well() {
    let site = Site::new();
    site.create_pool();
    let findings = site.json(&["doctor"]);
    assert_eq!(finding(&findings, "directory")["status"], json!("ok"));
    assert_eq!(finding(&findings, "pool")["status"], json!("ok"));
    for check in ["/dev/shm", "limits", "kernel", "processes", "libdaos", "huge pages", "fabric"] {
        assert_ne!(finding(&findings, check), Value::Null, "{check}");
    }
}

#[test]
fn the_doctor_checks_optional_parts() {
    let site = Site::new();
    let findings = site.json(&["doctor"]);
    for check in ["ecCodes", "librados", "DAOS client", "libfabric", "FUSE", "locked memory"] {
        let found = finding(&findings, check);
        assert!(
            ["ok", "absent", "warning"].contains(&found["status"].as_str().unwrap()),
            "{found}"
        );
        assert_eq!(found["remedy"].is_null(), found["status"] == "ok", "{found}");
    }
    let mut command = site.command(&["doctor", "--json"]);
    let output = command.env("ESKER_LIBFABRIC", "/no/such.so").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = finding(&document["response"], "libfabric");
    assert_eq!(named["status"], json!("warning"));
    assert!(named["remedy"].as_str().unwrap().contains("ESKER_LIBFABRIC=/no/such.so"), "{named}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_how_to_mend_it() {
    let site = Site::new();
    site.create_pool();
    std::fs::write(site.dir.join("tank").join("pool"), "format = 99\n").unwrap();
    std::fs::create_dir_all(site.dir.join("half").join("target-0")).unwrap();
    let envelope = site.failure(&["doctor"]);
    let pool = finding(&envelope["response"], "pool");
    assert_eq!(pool["status"], json!("wrong"));
    assert!(pool["remedy"].as_str().unwrap().contains("release"));
    assert_eq!(finding(&envelope["response"], "left behind")["status"], json!("warning"));

    let file = site.file("a file", b"");
    let output = site.command(&["doctor"]).env("ESKER_POOLS", &file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("remedy:"));
}
