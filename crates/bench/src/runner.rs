//! This very program, started to measure something by itself: what it is told can be repeated by
//! hand.
use crate::results::Results;
use esker_types::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Starts the program and waits for it.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The program.
    pub program: PathBuf,
}

impl Runner {
    /// Runs a benchmark and reads its report from standard output; `arguments` follow `bench`.
    ///
    /// # Errors
    /// Where the program cannot be started, fails, or answers something else.
    pub fn bench(&self, arguments: &[String]) -> Result<Results> {
        let words = [&["bench".to_owned()], arguments, &["--json".to_owned(), "-".to_owned()]];
        let output = self.run(&words.concat())?;
        let name = format!("esker bench {}", arguments.join(" "));
        let value = serde_json::from_slice(&output)
            .map_err(|error| Error::new(ErrorKind::Io, format!("`{name}` answered: {error}")))?;
        Results::of(&name, value)
    }

    /// Standard output of a command that succeeds. Like every child it is stopped by Ctrl-C in a
    /// terminal.
    ///
    /// # Errors
    /// Where the program cannot be started or fails: what it said.
    pub fn run(&self, arguments: &[String]) -> Result<Vec<u8>> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command
            .output()
            .map_err(|error| Error::io(format!("starting {}", self.program.display()), &error))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().last().unwrap_or("it was stopped").trim_start_matches("esker: ");
        let message = format!("`esker {}`: {why}", arguments.join(" "));
        Err(Error::new(ErrorKind::Io, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Runner {
        Runner { program: "/bin/sh".into() }
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_a_command_says_is_heard() {
        assert_eq!(shell().run(&words(&["-c", "echo out"])).unwrap(), b"out\n");
        let failed = shell().run(&words(&["-c", "echo esker: no room >&2; exit 1"])).unwrap_err();
        assert!(failed.message().ends_with(": no room"), "{failed}");
        let missing = Runner { program: "/no/program".into() };
        assert!(missing.run(&[]).unwrap_err().message().contains("/no/program"));
    }
}
