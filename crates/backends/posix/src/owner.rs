//! The owner recorded in a lock file, so that a dead owner on the same node is detected at once.
use esker_os::PerProcess;
use std::os::unix::fs::MetadataExt;

/// Identifies the current boot of this machine and the PID name space.
fn node() -> &'static str {
    static NODE: PerProcess<String> = PerProcess::empty();
    NODE.get_or_create(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |info| info.ino());
        format!("{}/{space}", boot.trim())
    })
}

/// A process, as far as this user may see it.
#[derive(Debug, PartialEq, Eq)]
enum Process {
    /// It runs, and started at this time in kernel ticks.
    Runs(String),
    /// No process has the number, or it has ended and is waiting for its parent.
    Ended,
    /// It exists, but `/proc` hides it, as that of another user with the mount option `hidepid`.
    Hidden,
}

impl Process {
    /// Returns the state of a process of this machine, from `/proc`.
    fn find(number: u32) -> Self {
        match std::fs::read_to_string(format!("/proc/{number}/stat")) {
            Ok(stat) => Self::from_stat(&stat),
            Err(_) if esker_os::process_exists(number) => Self::Hidden,
            Err(_) => Self::Ended,
        }
    }

    /// Parses `/proc/PID/stat`. The program name, in parentheses, may contain any characters. After it, the state is
    /// the first word, the number of threads the eighteenth, and the start time the twentieth. The main thread may have
    /// ended (`pthread_exit`) while others of the process run.
    fn from_stat(stat: &str) -> Self {
        let Some((_, after)) = stat.rsplit_once(')') else { return Self::Hidden };
        let mut words = after.split_whitespace();
        let (state, threads, start) = (words.next(), words.nth(16), words.nth(1));
        let threads = threads.and_then(|count| count.parse::<u32>().ok());
        match (state, start) {
            (Some("Z" | "X"), _) if threads.is_none_or(|count| count <= 1) => Self::Ended,
            (_, Some(start)) => Self::Runs(start.to_owned()),
            _ => Self::Hidden,
        }
    }

    /// True if the process that started at `start` is known to have ended.
    fn is_after(&self, start: &str) -> bool {
        match self {
            Self::Runs(other) => other != start,
            Self::Ended => true,
            Self::Hidden => false,
        }
    }
}

/// The line that identifies this process by node, number and start time; empty if /proc is not available.
pub(super) fn own() -> &'static str {
    static OWN: PerProcess<String> = PerProcess::empty();
    OWN.get_or_create(|| {
        let number = std::process::id();
        match Process::find(number) {
            Process::Runs(start) => format!("{} {number} {start}", node()),
            _ => String::new(),
        }
    })
}

/// True if `line` names a process of this node that has ended. Nothing is known about processes of other nodes.
pub(super) fn has_ended(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        [writer_node, process, start] if writer_node == node() => {
            process.parse().is_ok_and(|process| Process::find(process).is_after(start))
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
        assert!(!has_ended(own) && !has_ended("") && !has_ended("elsewhere/1 1 1"));
        assert!(has_ended(&ended()));
        let piped = std::process::Stdio::piped();
        let mut child = std::process::Command::new("cat").stdin(piped).spawn().unwrap();
        let Process::Runs(start) = Process::find(child.id()) else { panic!("the child hides") };
        let line = format!("{} {} {start}", node(), child.id());
        assert!(!has_ended(&line));
        child.wait().unwrap();
        assert!(has_ended(&line));
    }

    /// With the mount option `hidepid`, `/proc` has no entries for the processes of other users.
    #[test]
    fn hidden_processes_have_not_ended() {
        assert!(!Process::Hidden.is_after("1"));
        assert!(Process::Ended.is_after("1") && Process::Runs("2".to_owned()).is_after("1"));
        assert!(!Process::Runs("1".to_owned()).is_after("1"));
        assert!(esker_os::process_exists(std::process::id()) && esker_os::process_exists(1));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(Process::find(child.id()), Process::Ended);
        assert_eq!(Process::from_stat("7 (a) b) Z 1"), Process::Ended);
        assert_eq!(Process::from_stat("7 (cut) S 1"), Process::Hidden);
    }

    #[test]
    fn process_without_its_main_thread_has_not_ended() {
        let stat = |threads: u32| format!("7 (a) Z {}{threads} 0 5 0", "0 ".repeat(16));
        assert_eq!(Process::from_stat(&stat(2)), Process::Runs("5".to_owned()));
        assert_eq!(Process::from_stat(&stat(1)), Process::Ended);
    }
}
