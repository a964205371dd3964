//! Workers in Python, which measure Python interfaces of other programs and of Esker.
use crate::processes::Launcher;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Protocol that all workers in Python share.
const PROTOCOL: &str = include_str!("protocol.py");

/// Removes the current directory from the search path. In a checkout of the sources it has packages that are not built.
const REMOVE_CURRENT_DIR: &str =
    "import sys; sys.path[:] = [place for place in sys.path if place]\n";

/// Starts workers whose work is a program that calls `serve` of `protocol.py`.
pub(crate) fn launcher(python: &Path, work: &str) -> Launcher {
    let worker =
        ["-c", &format!("{REMOVE_CURRENT_DIR}{PROTOCOL}"), work].map(OsString::from).to_vec();
    Launcher { program: python.to_owned(), worker, variables: Vec::new() }
}

/// True if this Python can import `import`.
pub(crate) fn has(python: &Path, import: &str) -> bool {
    let asked =
        Command::new(python).args(["-c", &format!("{REMOVE_CURRENT_DIR}import {import}")]).output();
    asked.is_ok_and(|answer| answer.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::worker::Done;
    use crate::processes::Processes;
    use esker_testing::skip;

    const WORK: &str = r#"
import esker_bench

class Work:
    def __init__(self, job):
        self.count = job["count"]

    def prepare(self, step):
        print("what libraries print")
        self.meter = esker_bench.Meter()

    def run(self, step):
        for _ in range(self.count):
            self.meter.tick(1, 10)
        if step == "fail":
            raise KeyError("a step")
        return self.meter.result()

esker_bench.serve(Work)
"#;

    /// Workers in Python give the same answers as workers in Rust.
    #[test]
    fn python_workers_answer_steps_and_report_errors() {
        let python = Path::new("python3");
        if !has(python, "sys") {
            return skip("there is no python3");
        }
        let jobs = [serde_json::json!({"count": 3}), serde_json::json!({"count": 5})];
        let mut processes = Processes::<_, Done>::start(&launcher(python, WORK), jobs).unwrap();
        let done = processes.together(&["good"; 2]).unwrap();
        let counts = done.iter().map(|one| (one.measured.ops, one.measured.latency.len()));
        assert_eq!(counts.collect::<Vec<_>>(), [(3, 3), (5, 5)]);
        assert!(done.iter().all(|one| one.measured.seconds() > 0.0));
        let error = processes.all("fail").unwrap_err();
        assert!(error.message().ends_with("KeyError: 'a step'"), "{error}");
    }
}
