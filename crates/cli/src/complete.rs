//! Completion of names of pools and containers, which the scripts of `esker completions` ask for.
use crate::args::{command, first_argument};
use crate::output::Answer;
use clap::Args;
use esker::types::info::OpenMode;
use esker::{Pool, Wait, names};
use serde_json::json;
use std::ffi::OsString;

/// Print the names that may be the last word of a command line
#[derive(Args)]
pub(crate) struct Complete {
    /// The words so far; the last is the one to complete, and may be empty
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// A place in a command line, by what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place<'a> {
    /// A pool, or `POOL/CONT` if a container follows.
    Pool { and_container: bool },
    /// A container of this pool.
    Container(&'a str),
    /// `POOL/CONT`, with this text behind it.
    Both(&'static str),
}

impl Complete {
    pub(crate) fn run(&self) -> Answer {
        let names = candidates(&self.words);
        Answer::new(json!(names), names.join("\n"))
    }
}

/// Names that begin with the last word, if there can be a name of a pool or container.
fn candidates(words: &[OsString]) -> Vec<String> {
    let words: Option<Vec<_>> = words.iter().map(|word| word.to_str()).collect();
    let Some((last, before)) = words.as_deref().and_then(<[&str]>::split_last) else {
        return Vec::new();
    };
    let mut found = match (place(before, last), last.split_once('/')) {
        (Some(Place::Pool { and_container: false }), _) => pools(),
        (Some(Place::Pool { .. }), None) => pools(),
        (Some(Place::Pool { .. }), Some((pool, _))) => both(pool, ""),
        (Some(Place::Both(_)), None) => pools().iter().map(|pool| format!("{pool}/")).collect(),
        (Some(Place::Both(end)), Some((pool, _))) => both(pool, end),
        (Some(Place::Container(pool)), _) => containers(pool),
        (None, _) => Vec::new(),
    };
    found.retain(|name| name.starts_with(last));
    found.sort();
    found.dedup();
    found
}

/// Kind of the word that comes after `before` on the command line, as far as pools and containers can complete it.
fn place<'a>(before: &[&'a str], last: &str) -> Option<Place<'a>> {
    if last.starts_with('-') {
        return None;
    }
    let whole = command();
    let group = group(&whole, before);
    if matches!(before.last(), Some(&"--store" | &"-s")) && group == Some("fields") {
        return Some(Place::Both(""));
    }
    // A placeholder for the word to complete makes `first_argument` find it even if it is the first one.
    let words: Vec<OsString> = before.iter().chain([&"NEXT"]).map(OsString::from).collect();
    let (command, at) = first_argument(&whole, &words)?;
    let ids: Vec<_> =
        command.get_positionals().map(|argument| argument.get_id().as_str()).collect();
    let names =
        command.get_positionals().filter_map(|argument| argument.get_value_names()?.first());
    let names: Vec<_> = names.map(|name| name.as_str()).collect();
    let number = before.len().checked_sub(at)?;
    match (ids.as_slice(), number) {
        (["pool", "container", ..], 0) => Some(Place::Pool { and_container: true }),
        (["pool", ..], 0) => Some(Place::Pool { and_container: false }),
        (["pool", "container", ..], 1) if !before[at].contains('/') => {
            Some(Place::Container(before[at]))
        }
        (["path" | "paths" | "source" | "dest", ..], _) if group == Some("fs") => {
            Some(Place::Both(":"))
        }
        _ => (number == 0 && names.first() == Some(&"POOL/CONT")).then_some(Place::Both("")),
    }
}

/// Name of the first command among these words, which may be given by an alias and after options.
fn group<'a>(whole: &'a clap::Command, words: &[&str]) -> Option<&'a str> {
    let found = words.iter().skip(1).find_map(|word| whole.find_subcommand(word));
    found.map(clap::Command::get_name)
}

/// The containers of a pool as `POOL/CONT`, with a text behind it.
fn both(pool: &str, end: &str) -> Vec<String> {
    containers(pool).iter().map(|container| format!("{pool}/{container}{end}")).collect()
}

/// Labels of the pools in the pool directories.
fn pools() -> Vec<String> {
    let native = names::list().into_iter().map(|(_, pool)| pool.label);
    let files = names::list_posix().into_iter().map(|(_, pool)| pool.label);
    let nodes = names::list_nodes()
        .into_iter()
        .filter_map(|(path, _)| path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned));
    native.chain(files).chain(nodes).collect()
}

/// Labels of the containers of a pool on this machine. Other pools are not asked, because that may take long.
fn containers(pool: &str) -> Vec<String> {
    let is_here = names::list().iter().any(|(_, known)| known.label == pool)
        || names::list_posix().iter().any(|(_, known)| known.label == pool);
    if !is_here {
        return Vec::new();
    }
    let listed = Pool::connect(pool, OpenMode::ReadOnly).and_then(|pool| pool.containers().wait());
    listed.unwrap_or_default().into_iter().map(|info| info.label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(line: &str) -> Option<Place<'_>> {
        let words: Vec<_> = line.split(' ').collect();
        let (last, before) = words.split_last().unwrap();
        place(before, last)
    }

    #[test]
    fn names_are_completed_where_they_may_be() {
        for (line, wanted) in [
            ("esker pool query ", Some(Place::Pool { and_container: false })),
            ("esker cont list ta", Some(Place::Pool { and_container: false })),
            ("esker cont query ", Some(Place::Pool { and_container: true })),
            ("esker cont query tank ", Some(Place::Container("tank"))),
            ("esker --json kv get --snapshot monday tank r", Some(Place::Container("tank"))),
            ("esker cont query tank/run1 ", None),
            ("esker run ", Some(Place::Both(""))),
            ("esker mount tank/", Some(Place::Both(""))),
            ("esker run tank/home l", None),
            ("esker fs ls tank/", Some(Place::Both(":"))),
            ("esker fs cp a tank/", Some(Place::Both(":"))),
            ("esker fields list --store ta", Some(Place::Both(""))),
            ("esker -q fs ls ta", Some(Place::Both(":"))),
            ("esker --color never filesystem ls ta", Some(Place::Both(":"))),
            ("esker -q fdb list -s ta", Some(Place::Both(""))),
            ("esker fs ls -s ta", Some(Place::Both(":"))),
            ("esker pool query --", None),
            ("esker pool ", None),
            ("esker ", None),
        ] {
            assert_eq!(place_of(line), wanted, "{line}");
        }
    }
}
