//! Sequences performed by `tests/posix/replay.c`: by plain calls of the C library in any directory.
use crate::compare::Tree;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable that names the directory in which a file system is compared with memory.
const DIRECTORY_VARIABLE: &str = "ESKER_REFERENCE_DIR";
/// Environment variable with the command, words apart by spaces, under which it is seen there.
const WRAPPER_VARIABLE: &str = "ESKER_REFERENCE_WRAP";

/// A directory in which the C program works, under a wrapper or by itself.
pub(crate) struct Replay {
    wrapper: Vec<String>,
    directory: PathBuf,
}

impl Replay {
    /// In memory: the reference.
    pub(crate) fn in_memory() -> Self {
        Self { wrapper: Vec::new(), directory: PathBuf::from("/dev/shm") }
    }

    /// A replay in the directory that the environment names, if it does.
    pub(crate) fn from_environment() -> Option<Self> {
        let directory = PathBuf::from(std::env::var_os(DIRECTORY_VARIABLE)?);
        let wrapper = std::env::var(WRAPPER_VARIABLE).unwrap_or_default();
        Some(Self { wrapper: wrapper.split_whitespace().map(str::to_owned).collect(), directory })
    }

    /// The command that starts the program, under the wrapper if there is one.
    fn command(&self, program: &Path) -> Command {
        match self.wrapper.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        }
    }

    /// A path that no other run uses.
    fn fresh(&self) -> PathBuf {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        self.directory.join(format!("esker-replay-{}-{number}", std::process::id()))
    }
}

impl Tree for Replay {
    fn replay(&self, sequence: &[String]) -> Vec<String> {
        let directory = self.fresh();
        let mut command = self.command(program());
        command.arg(&directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("starting replay");
        let mut input = child.stdin.take().expect("its standard input");
        let text = sequence.join("\n") + "\n";
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().expect("waiting for replay");
        // A program that stopped early does not read to the end; its results show that.
        let _ = writer.join();
        if self.wrapper.is_empty() && !output.status.success() {
            let _ = std::fs::remove_dir_all(&directory);
        }
        let text = String::from_utf8(output.stdout).expect("results are text");
        let mut results: Vec<_> = text.lines().map(str::to_owned).collect();
        if !output.status.success() {
            results.push(format!("ended with {}", output.status));
        }
        results
    }
}

/// The program, compiled once by every process that needs it.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/posix/replay.c");
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("replay-{}", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", source, "-o"]);
        let status = command.arg(&program).status().expect("starting the C compiler");
        assert!(status.success(), "{source} does not compile");
        program
    })
}
