//! `esker doctor`: checks that this machine is ready, and names remedies.
mod directories;
mod fabric;
mod library;
mod loader;
mod machine;
mod optional;
mod pools;

use crate::args::Flags;
use crate::output::{Answer, Color, colored};
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use serde_json::{Value, json};

/// Check that this machine is ready for Esker, and name remedies
///
/// Checks the pool directories and their file systems, the pools in them, /dev/shm, the limits of this shell, the
/// kernel, huge pages, the PID namespace, the library path, optional libraries, FUSE and fast networks. Each line is
/// `ok`, `absent` (an optional part is missing), `warning` or `wrong`, with a remedy. The exit status is 1 if something
/// keeps Esker from working; the others do not count.
#[derive(Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Fine,
    /// An optional part is missing.
    Absent,
    Warning,
    Wrong,
}

impl Status {
    /// Color of the status.
    fn color(self) -> Color {
        match self {
            Self::Fine => Color::Green,
            Self::Absent => Color::Blue,
            Self::Warning => Color::Yellow,
            Self::Wrong => Color::Red,
        }
    }

    /// Name of the status.
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Absent => "absent",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    status: Status,
    what: String,
    remedy: Option<String>,
}

impl Finding {
    fn fine(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, status: Status::Fine, what: what.into(), remedy: None }
    }

    fn warning(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { check, status: Status::Warning, what: what.into(), remedy }
    }

    /// An optional part that is missing, and how to get it.
    fn absent(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Absent, ..Self::warning(check, what, remedy) }
    }

    fn wrong(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { status: Status::Wrong, ..Self::warning(check, what, remedy) }
    }

    /// Formats a finding for people: status, check and finding on one line, the remedy on a second one.
    fn line(&self) -> String {
        let status = colored(&format!("{:<8}", self.status.name()), self.status.color());
        let first = format!("{status} {:<13} {}", self.check, self.what);
        match &self.remedy {
            Some(remedy) => format!("{first}\n{:<22} remedy: {remedy}", ""),
            None => first,
        }
    }

    /// The finding in the JSON document of the command.
    fn to_json(&self) -> Value {
        json!({
            "check": self.check,
            "status": self.status.name(),
            "what": self.what,
            "remedy": self.remedy,
        })
    }
}

impl Doctor {
    #[expect(clippy::unused_self, reason = "commands are run alike")]
    pub(crate) fn run(self) -> Result<Answer> {
        let mut findings = directories::check();
        findings.extend(pools::check());
        findings.extend(machine::check());
        findings.extend(library::check());
        findings.extend(optional::check());
        findings.extend(fabric::check(&findings));
        Ok(answer(&findings))
    }
}

/// The answer; an error if a check failed.
fn answer(findings: &[Finding]) -> Answer {
    let response: Vec<_> = findings.iter().map(Finding::to_json).collect();
    let lines: Vec<_> = findings.iter().map(Finding::line).collect();
    let wrong = findings.iter().filter(|finding| finding.status == Status::Wrong).count();
    let trouble = (wrong > 0).then(|| {
        let message =
            format!("{wrong} of {} checks failed: their remedies are above", findings.len());
        Error::new(ErrorKind::Invalid, message)
    });
    Answer::new(json!(response), lines.join("\n")).with_trouble(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_its_remedy() {
        let finding = Finding::wrong("kernel", "too old", "use a newer one");
        assert_eq!(
            finding.line(),
            format!("wrong    kernel        too old\n{:22} remedy: use a newer one", "")
        );
        assert_eq!(Finding::fine("kernel", "6.1").line(), "ok       kernel        6.1");
    }
}
