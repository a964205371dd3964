//! Runs `esker` as a user would, so that each measurement can be repeated by hand.
use crate::errors::Doing;
use crate::interrupt;
use crate::processes::esker_program;
use crate::rendezvous::VARIABLES;
use crate::report::Report;
use esker_os::start_thread;
use esker_types::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Starts the program and waits for it.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The program.
    pub program: PathBuf,
    /// Directory for reports.
    pub folder: PathBuf,
    /// Environment variables that the program gets in addition.
    pub variables: Vec<(String, String)>,
}

/// Interval at which a child is checked.
const PAUSE: Duration = Duration::from_millis(20);

impl Runner {
    /// Runs the command `esker`.
    pub fn new(folder: PathBuf, variables: Vec<(String, String)>) -> Result<Self> {
        Ok(Self { program: esker_program()?, folder, variables })
    }

    /// Path of the report `name`; its traces are in the same directory.
    pub fn report_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Runs a benchmark and reads its report, which remains at [`Runner::report_path`]; `arguments` follow `bench`.
    pub fn bench(&self, name: &str, arguments: &[String]) -> Result<Report> {
        let path = self.report_path(name);
        let file = path.display().to_string();
        self.run(&[&["bench".to_owned()], arguments, &["--json".to_owned(), file]].concat())?;
        let text = std::fs::read(&path).doing(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("the report {}: {error}", path.display()))
        })
    }

    /// Runs a command that must succeed. A signal to this process stops it.
    pub fn run(&self, arguments: &[impl AsRef<str>]) -> Result<()> {
        let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
        let mut command = self.command(&arguments);
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .doing(|| format!("starting {}", self.program.display()))?;
        let stderr = child.stderr.take();
        let messages = start_thread(move || stderr.map(last_bytes).unwrap_or_default());
        let messages = messages.inspect_err(|_| end(&mut child))?;
        let status = wait(&mut child)?;
        if status.success() {
            return Ok(());
        }
        interrupt::check()?;
        let said = messages.join().unwrap_or_default();
        let why = said.lines().last().unwrap_or("it was stopped").trim_start_matches("esker: ");
        let message = format!("`esker {}`: {why}", arguments.join(" "));
        Err(Error::new(ErrorKind::Io, message))
    }

    /// Runs a command that cleans up, even after a signal to end. Ignores failures.
    pub(crate) fn undo(&self, arguments: &[&str]) {
        let _ = self.command(arguments).stderr(Stdio::null()).status();
    }

    /// The command, which does not receive Ctrl-C, because it has its own process group. It measures alone: the rank of
    /// this process in a batch job is not that of the command.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        for (rank, _) in VARIABLES {
            command.env_remove(rank);
        }
        command.args(arguments).envs(self.variables.iter().cloned()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// Runs a program of another project. Returns what it printed; if it fails, the line that names an error, or the last.
pub(crate) fn output_of(command: &mut Command) -> std::result::Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot be started: {error}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned() + &printed;
    let lines = || complaint.trim_end().lines();
    let is_error =
        |line: &&str| ["error", "ERROR", "FAILED"].iter().any(|word| line.contains(word));
    let why = lines().find(is_error).or(lines().last());
    Err(format!("failed: {}", why.unwrap_or("it printed nothing")))
}

/// Maximum bytes of the messages of a failed child that are kept.
const STDERR_BYTES_MAX: usize = 64 << 10;

/// The last [`STDERR_BYTES_MAX`] bytes of the messages of a child. Reads all of them, since a child whose pipe is full
/// would wait for ever.
fn last_bytes(mut from: impl Read) -> String {
    let (mut last, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut piece) {
        last.extend_from_slice(&piece[..count]);
        last.drain(..last.len().saturating_sub(STDERR_BYTES_MAX));
    }
    String::from_utf8_lossy(&last).into_owned()
}

/// Maximum time that a child gets to clean up after SIGTERM.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends a child: asks it to clean up, and kills it after [`CLEANUP_TIMEOUT`].
fn end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && start.elapsed() < CLEANUP_TIMEOUT {
        std::thread::sleep(PAUSE);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits for the child, and ends it if this process receives a signal to end.
fn wait(child: &mut Child) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().doing(|| "waiting for a child")? {
            return Ok(status);
        }
        if let Err(told) = interrupt::check() {
            end(child);
            return Err(told);
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    fn shell() -> Runner {
        Runner { program: "/bin/sh".into(), folder: PathBuf::new(), variables: Vec::new() }
    }

    #[test]
    fn ended_child_cleans_up() {
        let script = "trap 'echo cleaned; kill $!; exit' TERM; sleep 1000 & echo ready; wait";
        let mut command = Command::new("/bin/sh");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        end(&mut child);
        assert_eq!(lines.next().unwrap().unwrap(), "cleaned");
    }

    #[test]
    fn error_contains_message_of_failed_command() {
        assert!(shell().run(&["-c", "true"]).is_ok());
        let failed = shell().run(&["-c", "echo esker: no room >&2; exit 1"]).unwrap_err();
        assert!(failed.message().ends_with(": no room"), "{failed}");
        let many = "seq 20000 >&2; echo esker: full >&2; exit 1";
        assert!(shell().run(&["-c", many]).unwrap_err().message().ends_with(": full"));
        let missing = Runner { program: "/no/program".into(), ..shell() };
        assert!(missing.run(&["x"]).unwrap_err().message().contains("/no/program"));
    }
}
