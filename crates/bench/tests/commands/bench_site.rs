//! Benchmarks in a directory of their own, as users type them.
use crate::support::{Site, left, nodes};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output};

/// A directory in memory. In commands, `$DIR` is its path and `$DISK` that of a directory on a disk.
pub(crate) struct BenchSite {
    pub(crate) site: Site,
}

impl BenchSite {
    pub(crate) fn new() -> Self {
        Self { site: Site::in_memory() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.site.dir.join(name)
    }

    /// Arguments of `esker bench COMMAND`.
    fn arguments(&self, command: &str) -> Vec<String> {
        let dir = self.site.dir.display().to_string();
        let words = ["bench"].into_iter().chain(command.split_whitespace());
        let here =
            |word: &str| word.replace("$DIR", &dir).replace("$DISK", env!("CARGO_TARGET_TMPDIR"));
        words.map(here).collect()
    }

    /// Calls `run` with the arguments of `esker bench COMMAND`.
    fn with<T>(&self, command: &str, run: impl FnOnce(&[&str]) -> T) -> T {
        let arguments = self.arguments(command);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn run(&self, command: &str) -> Output {
        self.with(command, |arguments| self.site.run(arguments))
    }

    /// A command to start.
    pub(crate) fn command(&self, command: &str) -> Command {
        self.with(command, |arguments| self.site.command(arguments))
    }

    /// The response of a command that succeeds.
    pub(crate) fn json(&self, command: &str) -> Value {
        self.with(command, |arguments| self.site.json(arguments))
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, command: &str) -> String {
        self.with(command, |arguments| self.site.ok(arguments))
    }

    /// The table and the report of a command that succeeds. Its files are removed.
    pub(crate) fn measure(&self, command: &str) -> (String, Value) {
        let text = self.ok(&format!("{command} --json $DIR/report.json"));
        let report = self.read_json("report.json");
        for name in ["report.json", "report.traces.csv"] {
            let _ = std::fs::remove_file(self.path(name));
        }
        (text, report)
    }

    /// The report of a command that succeeds.
    pub(crate) fn report(&self, command: &str) -> Value {
        self.measure(command).1
    }

    pub(crate) fn read_json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// Nodes, all on this machine, that run a command together.
    pub(crate) fn nodes(&self, command: &str, count: usize) -> Vec<Child> {
        self.with(command, |arguments| nodes(&self.site, arguments, count))
    }

    /// The kind of the error of a command that fails.
    pub(crate) fn error_kind(&self, command: &str) -> String {
        self.with(command, |arguments| self.site.fails(arguments).0)
    }

    /// The message of a command that fails.
    pub(crate) fn message(&self, command: &str) -> String {
        self.with(command, |arguments| self.site.message(arguments))
    }

    /// Standard error of a command that fails because of its options.
    pub(crate) fn usage_error(&self, command: &str) -> String {
        let output = self.run(command);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Checks that only these files and directories are left.
    pub(crate) fn assert_left(&self, names: &[&str]) {
        assert_eq!(left(&self.site, names), [""; 0].map(PathBuf::from));
    }
}

/// Runs of a report.
pub(crate) fn runs(report: &Value) -> &[Value] {
    report["runs"].as_array().unwrap()
}

/// A member of a run that is a text.
pub(crate) fn text<'r>(run: &'r Value, name: &str) -> &'r str {
    run[name].as_str().unwrap()
}

/// Store, phase and number of operations of each run.
pub(crate) fn phases(report: &Value) -> Vec<(&str, &str, u64)> {
    let runs = runs(report).iter();
    runs.map(|run| (text(run, "store"), text(run, "phase"), run["ops"].as_u64().unwrap())).collect()
}
