//! Commands of DAOS's tool `daos`, under DAOS's names: a command that Esker also has is replaced by its own name, and
//! for any other command a tip names the counterpart. Words that users try alone, such as `esker ls`, have tips, too.
use std::ffi::OsString;

/// Meaning of a command of `daos`.
enum Meaning {
    /// These words of Esker.
    Words(&'static [&'static str]),
    /// Not a command here; the text says what to use.
    Tip(&'static str),
}
use Meaning::{Tip, Words};

const ACCESS: &str = "Esker's commands have no access control lists: `esker pool create --group` and the permissions of the \
    pool's files decide who may use it, and programs set lists of containers by daos_cont_set_acl";

const SETTINGS: &str = "the class and chunk size of files are chosen with the file system: `esker cont create --type posix \
    --file-class CLASS --chunk-size SIZE`, and `esker fs stat` shows them";

/// Group and command of `daos`, with their meaning.
static COMMANDS: [(&str, &str, Meaning); 27] = [
    ("pool", "list-containers", Words(&["cont", "list"])),
    ("pool", "list-cont", Words(&["cont", "list"])),
    ("pool", "get-prop", Tip("`esker pool query POOL` shows the properties of a pool")),
    ("pool", "set-prop", Tip("the properties of a pool are chosen by `esker pool create`")),
    (
        "pool",
        "autotest",
        Tip("`esker doctor` checks the machine, and `esker bench kv` and `array` use a new pool"),
    ),
    ("pool", "get-acl", Tip(ACCESS)),
    ("cont", "list-objects", Words(&["object", "list"])),
    ("cont", "list-obj", Words(&["object", "list"])),
    ("cont", "create-snap", Words(&["cont", "snapshot", "create"])),
    ("cont", "list-snap", Words(&["cont", "snapshot", "list"])),
    ("cont", "list-snaps", Words(&["cont", "snapshot", "list"])),
    ("cont", "destroy-snap", Words(&["cont", "snapshot", "destroy"])),
    ("cont", "stat", Words(&["cont", "query"])),
    ("cont", "info", Words(&["cont", "query"])),
    ("cont", "get-acl", Tip(ACCESS)),
    ("cont", "overwrite-acl", Tip(ACCESS)),
    ("cont", "update-acl", Tip(ACCESS)),
    ("cont", "delete-acl", Tip(ACCESS)),
    ("cont", "set-owner", Tip(ACCESS)),
    (
        "cont",
        "rollback",
        Tip(
            "a container cannot be rolled back: `esker cont copy --snapshot NAME SRC DST` copies a snapshot to a new one",
        ),
    ),
    (
        "cont",
        "check",
        Tip(
            "`esker pool check POOL` checks a pool with all its containers, and `esker fs check POOL/CONT` a file system",
        ),
    ),
    (
        "cont",
        "evict",
        Tip(
            "`esker cont destroy --force` destroys an open container; handles end with their processes",
        ),
    ),
    ("object", "list-keys", Tip("`esker kv list POOL CONT OBJECT` lists the keys of a Key-Value")),
    ("fs", "get-attr", Words(&["fs", "stat"])),
    ("fs", "set-attr", Tip(SETTINGS)),
    ("fs", "reset-attr", Tip(SETTINGS)),
    ("fs", "copy", Words(&["fs", "cp"])),
];

const LISTINGS: &str = "`esker pool list` lists pools, `esker cont list POOL` containers, `esker object list POOL CONT` \
    objects and `esker fs ls POOL/CONT:/` files";

/// Commands of one word, with their meaning.
static ALONE: [(&str, Meaning); 4] = [
    ("version", Words(&["--version"])),
    ("list", Tip(LISTINGS)),
    ("ls", Tip(LISTINGS)),
    ("system", Tip("Esker needs no servers; `esker doctor` checks this machine")),
];

/// Other names of the groups.
const GROUPS: [(&str, &str); 3] = [("container", "cont"), ("obj", "object"), ("filesystem", "fs")];

/// The words of a command line, with a command of `daos` replaced by Esker's.
///
/// # Errors
/// A tip about what to use, for a command that Esker does not have.
pub(crate) fn translate(mut words: Vec<OsString>) -> Result<Vec<OsString>, String> {
    let Some(at) = first(&words) else { return Ok(words) };
    let Some((name, count, meaning)) = find_command(&words[at..]) else { return Ok(words) };
    match meaning {
        Words(own) => {
            words.splice(at..at + count, own.iter().map(OsString::from));
            Ok(words)
        }
        Tip(tip) => Err(format!("there is no `esker {name}`: {tip}")),
    }
}

/// Position of the first word of a command line that is not an option.
fn first(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while words.get(at)?.to_str()?.starts_with('-') {
        // The value of `--color` is the next word. The other options before a command have no value.
        at += if words[at] == "--color" { 2 } else { 1 };
    }
    Some(at)
}

/// Name, number of words and meaning of the command that a command line begins with.
fn find_command(words: &[OsString]) -> Option<(String, usize, &'static Meaning)> {
    let group = words.first()?.to_str()?;
    if let Some((name, meaning)) = ALONE.iter().find(|(name, _)| *name == group) {
        return Some(((*name).to_owned(), 1, meaning));
    }
    let group = GROUPS.iter().find(|(other, _)| *other == group).map_or(group, |(_, own)| own);
    let command = words.get(1)?.to_str()?;
    let (_, _, meaning) =
        COMMANDS.iter().find(|(its_group, name, _)| *its_group == group && *name == command)?;
    Some((format!("{group} {command}"), 2, meaning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::command;

    fn translated(line: &str) -> Result<String, String> {
        let words = translate(line.split(' ').map(OsString::from).collect())?;
        Ok(words.join(std::ffi::OsStr::new(" ")).into_string().unwrap())
    }

    #[test]
    fn commands_of_daos_become_those_of_esker() {
        for (theirs, ours) in [
            ("esker container list-objects tank run1", "esker object list tank run1"),
            (
                "esker --json cont create-snap tank run1",
                "esker --json cont snapshot create tank run1",
            ),
            ("esker --color never fs get-attr a/b:/c", "esker --color never fs stat a/b:/c"),
            ("esker pool list-cont tank", "esker cont list tank"),
            ("esker cont list tank", "esker cont list tank"),
            ("esker version", "esker --version"),
            ("esker run a/b -- ls", "esker run a/b -- ls"),
            ("esker run a/b -- cont list-objects", "esker run a/b -- cont list-objects"),
        ] {
            assert_eq!(translated(theirs).as_deref(), Ok(ours));
        }
    }

    #[test]
    fn commands_that_esker_lacks_have_a_tip() {
        let tip = translated("esker cont get-acl tank run1").unwrap_err();
        assert!(tip.contains("`esker cont get-acl`") && tip.contains("--group"), "{tip}");
        assert!(translated("esker fs set-attr a/b:/c").is_err());
        let tip = translated("esker -q ls tank").unwrap_err();
        assert!(tip.contains("no `esker ls`") && tip.contains("esker cont list"), "{tip}");
    }

    #[test]
    fn translations_lead_to_commands_and_replace_none() {
        let find = |words: &[&str]| {
            let mut whole = Some(command());
            for word in words {
                whole = whole.and_then(|whole| whole.find_subcommand(word).cloned());
            }
            whole.is_some()
        };
        for (name, _) in &ALONE {
            assert!(!find(&[*name]), "{name} is a command of Esker");
        }
        for (group, name, meaning) in &COMMANDS {
            assert!(!find(&[*group, *name]), "{group} {name} is a command of Esker");
            if let Words(own) = meaning {
                assert!(find(own), "{own:?}");
            }
        }
    }
}
