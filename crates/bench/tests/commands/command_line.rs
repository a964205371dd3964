//! Help, completions and man pages of `esker` with its benchmarks.
use crate::support::Site;
use serde_json::json;

#[test]
fn help_of_benchmarks_names_the_command_that_users_type() {
    let site = Site::new();
    let help = site.ok(&["bench", "--help"]);
    assert!(help.contains("Usage: esker bench <COMMAND>") && help.contains("mdtest"), "{help}");
    assert!(!help.contains("worker") && !help.contains("completions"), "{help}");
    let array = site.ok(&["bench", "array", "--help"]);
    assert!(array.contains("ten times slower") && array.contains("esker bench array"), "{array}");
    assert_eq!(site.ok(&["help", "bench", "array"]), array);
    assert_eq!(site.run(&["bench"]).status.code(), Some(2));
}

#[test]
fn each_benchmark_is_described_in_words_of_its_own() {
    let help = Site::new().ok(&["bench", "--help"]);
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let entries =
        commands.expect("a list of commands").lines().filter(|line| !line.starts_with("   "));
    let mut words: Vec<_> = entries.filter_map(|line| line.trim().split_once(' ')).collect();
    let count = words.len();
    words.sort_by_key(|(_, words)| words.trim());
    words.dedup_by_key(|(_, words)| words.trim());
    assert!(count > 15 && words.len() == count, "{help}");
}

#[test]
fn usage_errors_of_benchmarks_have_the_status_and_json_of_all_commands() {
    let site = Site::new();
    let output = site.run(&["bench", "array", "--size", "lots"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("lots"));
    let output = site.run(&["--json", "bench", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let envelope: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["status"], json!(-1003));
}

#[test]
fn shells_complete_benchmarks() {
    let site = Site::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = site.ok(&["completions", shell]);
        for word in ["scrub", "field-io", "tx-every"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let envelope = site.json(&["completions", "bash"]);
    assert_eq!(envelope, json!({"shell": "bash"}));
}

#[test]
fn benchmarks_have_man_pages_beside_those_of_other_commands() {
    let site = Site::new();
    let out = site.dir.join("man");
    site.ok(&["man", "--out", out.to_str().unwrap()]);
    for page in ["esker.1", "esker-bench.1", "esker-bench-array.1", "esker-pool-create.1"] {
        let text = std::fs::read_to_string(out.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    for hidden in ["esker-man.1", "esker-bench-man.1", "esker-bench-worker.1"] {
        assert!(!out.join(hidden).exists(), "{hidden}");
    }
}
