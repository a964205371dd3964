//! Pools on Ceph, on clusters with injected faults. Each test creates its own cluster (`scripts/ceph.sh`), and is
//! skipped with a message if Ceph is not installed.
mod faults;
pub(crate) mod kills;

use crate::common::{Folder, PoolKind, STUCK};
use esker::Pool;
use esker_testing::{skip, wait_for};
use esker_types::info::OpenMode;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// A cluster, stopped and removed when dropped.
pub(crate) struct Cluster {
    conf: PathBuf,
    folder: Folder,
    /// Dropping it ends the watchdog.
    _over: Sender<()>,
}

impl Cluster {
    /// A new cluster; `None`, after a message, if Ceph is not installed.
    pub(crate) fn new(options: &[&str]) -> Option<Self> {
        let missing = ["ceph-mon", "ceph-osd", "ceph", "rados"].into_iter().find(|tool| !has(tool));
        if let Some(tool) = missing {
            skip(format_args!("{tool} is not installed (scripts/setup.sh ceph)"));
            return None;
        }
        let folder = Folder::new(PoolKind::Memory);
        let conf = folder.path().join("ceph.conf");
        let _over = watch(folder.path().to_owned());
        let cluster = Self { conf, folder, _over };
        let up = [&["up", "--size", "1G"], options].concat();
        script(&up, cluster.folder.path());
        Some(cluster)
    }

    /// The URL of its pool, with a timeout in seconds.
    pub(crate) fn url(&self, timeout: u32) -> String {
        format!("rados:esker?conf={}&timeout={timeout}", self.conf.display())
    }

    pub(crate) fn open(&self, timeout: u32) -> Pool {
        Pool::connect(&self.url(timeout), OpenMode::ReadWrite).expect("opening the pool")
    }

    /// Stops, kills or starts `osd` or `mon`.
    fn daemon(&self, what: &str, which: &str) {
        script(&[what, which], self.folder.path());
    }

    fn osd(&self) -> i32 {
        let pid = std::fs::read_to_string(self.folder.path().join("osd.pid")).expect("a pid");
        pid.trim().parse().expect("a number")
    }

    /// Stops the OSD's process, until [`Cluster::thaw_osd`].
    fn freeze_osd(&self) {
        let pid = self.osd();
        signal(pid, libc::SIGSTOP);
        // `kill` returns before all threads have stopped, and a running thread may still answer.
        wait_for("all threads of the OSD are stopped", || all_stopped(pid));
    }

    fn thaw_osd(&self) {
        signal(self.osd(), libc::SIGCONT);
    }

    /// A command to the monitor.
    fn ask(&self, arguments: &[&str]) {
        let mut command = Command::new("ceph");
        command.args(["--connect-timeout", "30", "-c"]).arg(&self.conf).args(arguments);
        run(&mut command);
    }
}

/// Ends the cluster and the process if a test takes so long that it must be stuck.
fn watch(folder: PathBuf) -> Sender<()> {
    let (over, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
            eprintln!("stuck for {STUCK:?}");
            script(&["down"], &folder);
            std::process::abort();
        }
    });
    over
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let down = script_command(&["down"], self.folder.path()).status();
        assert!(std::thread::panicking() || down.is_ok_and(|status| status.success()));
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: sends a signal to a process of this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "signalling {pid}");
}

/// Whether all threads of a process are stopped, according to the state after the name in `stat` (proc_pid_stat(5)).
fn all_stopped(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a process");
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
    })
}

/// True if a program is in one of the directories of `PATH`.
fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

fn script_command(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/ceph.sh"));
    command.args(arguments).arg(folder);
    command
}

/// Runs a command of `scripts/ceph.sh` on the cluster in a folder.
fn script(arguments: &[&str], folder: &Path) {
    run(&mut script_command(arguments, folder));
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) {
    let output = command.output().expect("starting a command");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
}
