//! `esker bench`: how it finds the program that does the work.
use crate::support::Site;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command in a directory of its own.
struct Installation {
    site: Site,
    esker: PathBuf,
}

impl Installation {
    fn new() -> Self {
        let site = Site::new();
        let esker = site.dir.join("bin/esker");
        std::fs::create_dir(site.dir.join("bin")).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_esker"), &esker).unwrap();
        Self { site, esker }
    }

    /// Adds a program that prints `name`, the variable ESKER and its arguments. Returns its directory.
    fn add_program(&self, directory: &str, name: &str) -> PathBuf {
        let directory = self.site.dir.join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        let program = directory.join("esker-bench");
        std::fs::write(&program, format!("#!/bin/sh\necho {name} $ESKER \"$@\"\nexit 7\n"))
            .unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        directory
    }

    fn run(&self, path: &Path, arguments: &[&str]) -> Output {
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        Command::new(&self.esker).args(arguments).env("PATH", path).output().unwrap()
    }

    /// Runs the command with `path` first in PATH. Returns the output of the program, with ESKER in place of the path
    /// of the command.
    fn printed(&self, path: &Path, arguments: &[&str]) -> String {
        let output = self.run(path, arguments);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        printed.replace(&self.esker.display().to_string(), "ESKER").trim().to_owned()
    }
}

#[test]
fn benchmarks_run_in_the_program_beside_the_command_or_on_path() {
    let installed = Installation::new();
    let path = installed.add_program("path", "path");
    let run = |arguments: &[&str]| installed.printed(&path, arguments);
    assert_eq!(run(&["bench", "kv", "--json", "-"]), "path ESKER kv --json -");
    installed.add_program("bin", "beside");
    assert_eq!(run(&["bench"]), "beside ESKER");
    assert_eq!(run(&["bench", "-h"]), "beside ESKER -h");
    assert_eq!(run(&["bench", "--help"]), "beside ESKER --help");
    assert_eq!(run(&["--json", "bench", "kv", "--", "x"]), "beside ESKER --json kv -- x");
    assert_eq!(run(&["help", "bench", "kv"]), "beside ESKER help kv");
    assert_eq!(run(&["completions", "zsh"]), "beside ESKER completions zsh");
    assert_eq!(run(&["man", "--out", "there"]), "beside ESKER man --out there");
}

#[test]
fn missing_program_is_reported_with_its_places_and_the_remedy() {
    let installed = Installation::new();
    let output = installed.run(&installed.site.dir, &["--json", "bench", "kv"]);
    assert_eq!(output.status.code(), Some(1));
    let envelope: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["error"]["kind"], json!("not_found"));
    let message = envelope["error"]["message"].as_str().unwrap();
    let place = installed.esker.parent().unwrap().display().to_string();
    for part in ["esker-bench", &place, "PATH", "make install"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    for arguments in [&["completions", "fish"][..], &["--help"]] {
        let output = installed.run(&installed.site.dir, arguments);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains("Measure this machine"), "{printed}");
    }
}
