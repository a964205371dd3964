//! Who wrote a lock file, so that a dead owner on this node is noticed at once.
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// This start of this machine, and the name space its process numbers are of.
fn node() -> &'static str {
    static NODE: OnceLock<String> = OnceLock::new();
    NODE.get_or_init(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::metadata("/proc/self/ns/pid").map_or(0, |info| info.ino());
        format!("{}/{space}", boot.trim())
    })
}

/// When a process began, as the kernel counts; `None` where there is none of that number, or where it has
/// ended and only its parent has not asked yet.
fn start_of(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything. Behind it the state is the first word,
    // the start the twentieth.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let runs = words.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    words.nth(18).filter(|_| runs).map(str::to_owned)
}

/// One line that names this process: node, number, start. Empty where /proc does not tell.
pub(super) fn own() -> String {
    let process = std::process::id();
    start_of(process).map_or_else(String::new, |start| format!("{} {process} {start}", node()))
}

/// True where `line` names a process of this node that has ended. Of others nothing is known.
pub(super) fn has_ended(line: &str) -> bool {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        [place, process, start] if place == node() => {
            process.parse().is_ok_and(|process| start_of(process).as_deref() != Some(start))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_strangers_have_not_ended() {
        let own = own();
        assert_eq!(own.split_whitespace().count(), 3, "{own}");
        assert!(!has_ended(&own) && !has_ended("") && !has_ended("elsewhere/1 1 1"));
        assert!(has_ended(&format!("{} {} 1", node(), std::process::id())));
        let piped = std::process::Stdio::piped();
        let mut child = std::process::Command::new("cat").stdin(piped).spawn().unwrap();
        let start = start_of(child.id()).unwrap();
        let line = format!("{} {} {start}", node(), child.id());
        assert!(!has_ended(&line));
        child.wait().unwrap();
        assert!(has_ended(&line));
    }
}
