//! A directory of pools of its own for each test, and the program run in it.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod mounts;

pub(crate) use esker_testing::wait_for;
use serde_json::Value;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a program on a terminal of its own.
const TERMINAL: &str = "import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The command, in the parent of the directory of the test program, where cargo builds it.
pub(crate) fn esker() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("esker")
}

/// Why tests of `esker bench` are skipped.
pub(crate) const NO_BENCH: &str =
    "esker-bench is not built: cargo test -p esker-cli -p esker-bench";

/// True if `esker bench` has its program, which tests of other packages do not build.
pub(crate) fn has_bench() -> bool {
    esker().with_file_name("esker-bench").is_file()
}

/// A directory of pools, gone with the test.
pub(crate) struct Site {
    pub(crate) dir: PathBuf,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// A directory in memory, if this machine has a place for it, for tests that write a lot.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::within(memory) } else { Self::new() }
    }

    /// A new directory in `place`.
    fn within(place: &Path) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = place.join(format!("esker-cli-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// A directory with a pool `tank`, which has a container `run1`.
    pub(crate) fn with_container() -> Self {
        let site = Self::new();
        site.create_pool();
        site.ok(&["cont", "create", "tank", "run1"]);
        site
    }

    pub(crate) fn create_pool(&self) {
        self.ok(&["pool", "create", "tank", "--size", "32M", "--targets", "2"]);
    }

    /// The command with these arguments, for pools in this directory, without a configuration file.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(esker());
        command.args(arguments).env("ESKER_POOLS", &self.dir).env_remove("LD_LIBRARY_PATH");
        command.env("ESKER_CONFIG", "");
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The response of a command that succeeds.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let envelope: Value = serde_json::from_str(&self.ok(&with_json(arguments))).unwrap();
        assert_eq!((&envelope["error"], &envelope["status"]), (&Value::Null, &Value::from(0)));
        envelope["response"].clone()
    }

    /// The kind of error and the status in JSON of a command that fails; without --json it says so in
    /// one line on standard error.
    pub(crate) fn fails(&self, arguments: &[&str]) -> (String, i64) {
        let plain = self.run(arguments);
        assert_eq!(plain.status.code(), Some(1), "{arguments:?}: {plain:?}");
        let said = String::from_utf8(plain.stderr).unwrap();
        assert!(said.starts_with("esker: ") && said.lines().count() == 1, "{said}");
        let envelope = self.failure(arguments);
        (
            envelope["error"]["kind"].as_str().unwrap().to_owned(),
            envelope["status"].as_i64().unwrap(),
        )
    }

    /// The JSON of a command that fails.
    pub(crate) fn failure(&self, arguments: &[&str]) -> Value {
        let output = self.run(&with_json(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The message of a command that fails.
    pub(crate) fn message(&self, arguments: &[&str]) -> String {
        self.failure(arguments)["error"]["message"].as_str().unwrap().to_owned()
    }

    /// Runs a command on a terminal and types `typed`. Returns whether the command succeeds, and its output.
    pub(crate) fn on_terminal(&self, arguments: &[&str], typed: &str) -> (bool, String) {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL, &esker().display().to_string()]).args(arguments);
        command.env("ESKER_POOLS", &self.dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = process.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Standard output of a command that succeeds, fed with `input`.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = self.command(arguments);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        process.stdin.take().unwrap().write_all(input).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// A file in the directory.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn with_json<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["--json"], arguments].concat()
}

/// Bytes without pattern.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Kills a process once `dir` holds `bytes` bytes. True if the process was killed before it ended by itself.
pub(crate) fn kill_at(process: &mut Child, dir: &Path, bytes: u64) -> bool {
    wait_for("a process gets on with its work", || {
        process.try_wait().unwrap().is_some() || bytes_below(dir) >= bytes
    });
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert!(status.success() || status.signal().is_some(), "a process failed: {status}");
    !status.success()
}

/// Bytes of all files below a directory. What comes and goes meanwhile may be counted or not.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(info) if info.is_dir() => bytes_below(&entry.path()),
        Ok(info) => info.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// Builds a source of `tests/crash` as a library, to be preloaded.
pub(crate) fn build_library(name: &str, library: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/crash").join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(library).arg(source).arg("-ldl");
    assert!(compiler.status().expect("running cc").success(), "cannot build {name}");
}

/// A command that runs the program given by its next arguments as another user. `groups` is an option of setpriv for
/// the supplementary groups.
pub(crate) fn as_user(user: u32, groups: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), groups, "--"]);
    command
}

/// Number of syncs of a command that succeeds.
pub(crate) fn count_syncs(site: &Site, arguments: &[&str]) -> u64 {
    let (library, log) = (site.dir.join("syncs.so"), site.dir.join("syncs.log"));
    build_library("syncs.c", &library);
    let mut command = site.command(arguments);
    let output = command.env("LD_PRELOAD", &library).env("SYNCS_LOG", &log).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let syncs = std::fs::metadata(&log).map_or(0, |log| log.len());
    [log, library].iter().for_each(|path| drop(std::fs::remove_file(path)));
    syncs
}

/// Folders and files that are left in a site, but for those named.
pub(crate) fn left(site: &Site, but: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(&site.dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| !but.iter().any(|name| path.ends_with(name))).collect()
}

/// Ranks of nodes that are all this machine.
pub(crate) fn nodes(site: &Site, arguments: &[&str], count: usize) -> Vec<Child> {
    let start = |rank: usize| {
        let mut command = site.command(arguments);
        command.env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", count.to_string());
        command.env("SLURMD_NODENAME", format!("node{rank}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..count).map(start).collect()
}
