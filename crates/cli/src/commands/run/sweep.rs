//! Removal of the directories that ended runs have left.
//!
//! A run may outlive the process that `esker run` was: programs in the background go on. So a run has ended when its first
//! process is gone, and no other process has its directory in the environment.
use super::RUN_DIR;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Number of the machine's own PID namespace in Linux (`PROC_PID_INIT_INO`).
const MACHINE: &str = "4026531836";

/// A PID namespace, by its number.
pub(super) struct Namespace(String);

impl Namespace {
    /// That of this process; `None` if the system does not tell.
    pub(super) fn own() -> Option<Self> {
        let link = fs::read_link("/proc/self/ns/pid").ok()?;
        let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix("]")?;
        Some(Self(number.to_owned()))
    }

    /// The end of the names of its directories, which other namespaces may see, too. Empty for that of the machine.
    pub(super) fn suffix(&self) -> String {
        if self.0 == MACHINE { String::new() } else { format!("-{}", self.0) }
    }

    /// The first process of the run whose directory has this name; `None` if it is not a run whose processes are seen in
    /// this namespace.
    fn process_of(&self, name: &str) -> Option<u32> {
        let mut parts = name.strip_prefix(RUN_DIR)?.split('-');
        let process = parts.next()?.parse().ok()?;
        let namespace = parts.nth(1).unwrap_or(MACHINE);
        // The number of a process is that in its own namespace.
        (self.0 == namespace).then_some(process)
    }
}

/// Removes the directories of this user's runs that have ended.
pub(super) fn sweep(place: &Path) {
    let (Some(namespace), Ok(entries)) = (Namespace::own(), fs::read_dir(place)) else { return };
    let user = rustix::process::geteuid().as_raw();
    let is_left = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| namespace.process_of(name));
        process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists())
            && entry.metadata().is_ok_and(|info| info.uid() == user)
    };
    let left = entries.flatten().filter(is_left).map(|entry| entry.path()).collect();
    for dir in without_processes(left) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// The directories that no process has in its environment.
fn without_processes(mut dirs: Vec<PathBuf>) -> Vec<PathBuf> {
    if dirs.is_empty() {
        return dirs;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    for process in processes.flatten().map(|entry| entry.path()) {
        // Not a process, or one of another user.
        let Ok(environment) = fs::read(process.join("environ")) else { continue };
        if environment.is_empty() && is_starting(&process) {
            return Vec::new();
        }
        dirs.retain(|dir| !is_named(&environment, dir));
    }
    dirs
}

/// True for a process that starts a program at this moment, so that its environment is not known.
fn is_starting(process: &Path) -> bool {
    let has_program = fs::read_link(process.join("exe")).is_ok();
    has_program && fs::read(process.join("cmdline")).is_ok_and(|line| line.is_empty())
}

/// True if an environment is that of the run with this directory.
fn is_named(environment: &[u8], dir: &Path) -> bool {
    let variable = [b"ESKER_RUN_DIR=", dir.as_os_str().as_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|found| found == variable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn directories_of_runs_in_the_background_stay() {
        let place = std::env::temp_dir().join(format!("esker-sweep-{}", std::process::id()));
        let mut first = Command::new("true").spawn().unwrap();
        first.wait().unwrap();
        let suffix = Namespace::own().unwrap().suffix();
        let dir = place.join(format!("{RUN_DIR}{}-0{suffix}", first.id()));
        fs::create_dir_all(&dir).unwrap();
        let mut background = Command::new("cat");
        background.env("ESKER_RUN_DIR", &dir).stdin(Stdio::piped());
        let mut background = background.spawn().unwrap();
        sweep(&place);
        assert!(dir.exists());
        drop(background.stdin.take());
        background.wait().unwrap();
        // Nothing is removed while any process of the machine starts a program.
        esker_testing::wait_for("the directory is removed", || {
            sweep(&place);
            !dir.exists()
        });
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn only_runs_whose_processes_are_seen_are_judged() {
        let (machine, inner) = (Namespace(MACHINE.to_owned()), Namespace("7".to_owned()));
        assert_eq!((machine.suffix(), inner.suffix()), (String::new(), "-7".to_owned()));
        for (name, by_machine, by_inner) in [
            ("esker-run-5-0", Some(5), None),
            ("esker-run-5-0-7", None, Some(5)),
            ("esker-run-5-0-8", None, None),
            ("esker-run-x-0", None, None),
            ("other", None, None),
        ] {
            let found = (machine.process_of(name), inner.process_of(name));
            assert_eq!(found, (by_machine, by_inner), "{name}");
        }
    }
}
