//! The owner recorded in a lock file, so that a dead owner on the same node is detected at once.
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Identifies the current boot of this machine and the PID name space.
fn node() -> &'static str {
    static NODE: OnceLock<String> = OnceLock::new();
    NODE.get_or_init(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |info| info.ino());
        format!("{}/{space}", boot.trim())
    })
}

/// Start time of a process in kernel ticks; `None` if no process has this number, or if it has ended and is waiting
/// for its parent.
fn start_of(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program name, in parentheses, may contain any characters. After it, the state is the first word and the
    // start time the twentieth.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let runs = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    words.nth(18).filter(|_| runs).map(str::to_owned)
}

/// Identifies this process by node, number and start time; empty if /proc is not available.
pub(super) fn own() -> String {
    static OWN: Mutex<(u32, String)> = Mutex::new((0, String::new()));
    let process = std::process::id();
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    // A forked child is another process.
    if own.0 != process {
        let line = start_of(process).map(|start| format!("{} {process} {start}", node()));
        *own = (process, line.unwrap_or_default());
    }
    own.1.clone()
}

/// True if `line` names a process of this node that has ended. Nothing is known about processes of other nodes.
pub(super) fn has_ended(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        [writer_node, process, start] if writer_node == node() => {
            process.parse().is_ok_and(|process| start_of(process).as_deref() != Some(start))
        }
        _ => false,
    }
}

/// The line of a process of this node that has ended.
#[cfg(test)]
pub(super) fn ended() -> String {
    format!("{} {} 1", node(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_and_unknown_processes_have_not_ended() {
        let own = own();
        assert_eq!(own.split_whitespace().count(), 3, "{own}");
        assert!(!has_ended(&own) && !has_ended("") && !has_ended("elsewhere/1 1 1"));
        assert!(has_ended(&ended()));
        let piped = std::process::Stdio::piped();
        let mut child = std::process::Command::new("cat").stdin(piped).spawn().unwrap();
        let start = start_of(child.id()).unwrap();
        let line = format!("{} {} {start}", node(), child.id());
        assert!(!has_ended(&line));
        child.wait().unwrap();
        assert!(has_ended(&line));
    }
}
