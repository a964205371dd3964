//! `esker run --report`: running a program to its end, and the report about its calls.
use crate::signals::heeded;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the program to its end. It gets the signals that ask this process to end. Signals of the terminal reach the
/// program too, so this process ignores them.
pub(super) fn wait(command: &mut Command) -> std::io::Result<ExitStatus> {
    // Before the start: a signal that arrives during it is kept. Ignored signals stay ignored in the program.
    let mut signals = Signals::new(heeded(&[SIGHUP, SIGTERM]))?;
    let mut child = command.spawn()?;
    let unused = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&unused));
    }
    let handle = signals.handle();
    let pid = Pid::from_child(&child);
    std::thread::scope(|scope| {
        let forward = move || signals.forever().for_each(|signal| send(pid, signal));
        let forwarding = std::thread::Builder::new().spawn_scoped(scope, forward);
        // Without the thread, signals would no longer end the program.
        forwarding.inspect_err(|_| send(pid, SIGKILL))?;
        // The process id stays in use until the thread has ended, so that no other process gets a signal.
        let ended = rustix::io::retry_on_intr(|| {
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        });
        handle.close();
        ended.map_err(std::io::Error::from)
    })?;
    child.wait()
}

/// Sends a signal to the program.
fn send(pid: Pid, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(pid, signal);
    }
}

/// The report of a run: the lines of all its processes, added up.
pub(super) fn total(lines: &str) -> String {
    let (mut served, mut notes) = (BTreeMap::new(), BTreeMap::new());
    for line in lines.lines() {
        match line.split_once(' ') {
            Some(("served", rest)) => {
                let (name, count) = rest.split_once(' ').unwrap_or((rest, "0"));
                *served.entry(name).or_insert(0_u64) += count.parse().unwrap_or(0);
            }
            Some(("note", rest)) => *notes.entry(rest).or_insert(0_u64) += 1,
            _ => {}
        }
    }
    let mut text = String::from("esker: calls that were served:\n");
    if served.is_empty() {
        text.push_str("  none\n");
    }
    for (name, count) in served {
        let _ = writeln!(text, "  {count:>12}  {name}");
    }
    text.push_str("esker: calls that were not served:\n");
    if notes.is_empty() {
        text.push_str("  none that were noticed\n");
    }
    for (note, processes) in notes {
        let _ = writeln!(text, "  {note} (processes: {processes})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_added_up() {
        let text = total("served open 2\nserved read 1\nnote a b\nserved open 3\nnote a b\n");
        assert!(text.contains("           5  open\n             1  read\n"), "{text}");
        assert!(text.contains("a b (processes: 2)"), "{text}");
    }

    #[test]
    fn an_empty_report_says_so() {
        let text = total("");
        assert!(text.contains("  none\n") && text.contains("  none that were noticed\n"), "{text}");
    }
}
