//! The report of a run: what its processes appended to one file, added up.
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// What was served and what was not, as text.
pub(super) fn read(path: &Path) -> String {
    text(&std::fs::read_to_string(path).unwrap_or_default())
}

fn text(lines: &str) -> String {
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
    text.push_str("esker: what was not served:\n");
    if notes.is_empty() {
        text.push_str("  nothing that was noticed\n");
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
        let text = text("served open 2\nserved read 1\nnote a b\nserved open 3\nnote a b\n");
        assert!(text.contains("           5  open\n             1  read\n"), "{text}");
        assert!(text.contains("a b (processes: 2)"), "{text}");
    }

    #[test]
    fn an_empty_report_says_so() {
        let text = text("");
        assert!(text.contains("none") && text.contains("nothing"), "{text}");
    }
}
