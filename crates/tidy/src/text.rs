//! Rules for the text of files in any language, and for manifests.
use crate::tree::File;
use crate::{Finding, Tree};

/// Extensions of text files, and names of text files without extension.
const SOURCE_EXTENSIONS: [&str; 13] =
    ["rs", "c", "h", "cpp", "sh", "py", "pyi", "toml", "md", "json", "yml", "yaml", "map"];
const SOURCE_NAMES: [&str; 4] = ["Makefile", "LICENSE", "run", ".gitignore"];

/// Directories of a particular machine, which readers do not have.
const MACHINE_FOLDERS: [&str; 3] = ["/home/", "/root/", "/work/"];

/// Hosts of package registries, whose names come from a machine's configuration.
const REGISTRY_HOSTS: [&str; 5] =
    ["index.crates", "static.crates", "proxy.golang", "deb.debian", "pythonhosted"];

/// Lints of the compiler and clippy that apply to every crate: documentation, where unsafe code is allowed and why it
/// is sound, and that nothing aborts the host program.
const LINTS: [&str; 9] = [
    "missing_docs = \"warn\"",
    "unsafe_code = \"deny\"",
    "undocumented_unsafe_blocks = \"warn\"",
    "unwrap_used = \"warn\"",
    "expect_used = \"warn\"",
    "panic = \"warn\"",
    "todo = \"warn\"",
    "unimplemented = \"warn\"",
    "dbg_macro = \"warn\"",
];

/// Lines of source that are not plain ASCII.
pub fn not_ascii(tree: &Tree) -> Vec<Finding> {
    let message = |line: &str| {
        let first = line.chars().find(|character| !character.is_ascii())?;
        Some(format!("U+{:04X} is not ASCII", u32::from(first)))
    };
    tree.files().filter(|file| is_source(file)).flat_map(|file| each_line(file, message)).collect()
}

fn is_source(file: &File) -> bool {
    SOURCE_EXTENSIONS.contains(&file.extension()) || SOURCE_NAMES.contains(&file.name())
}

/// Lines that contain a directory or a package host of a particular machine.
pub fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let message = |line: &str| {
        let folder = MACHINE_FOLDERS.into_iter().find(|folder| names_below(line, folder));
        let host = REGISTRY_HOSTS.into_iter().find(|host| line.contains(&format!("{host}.")));
        folder.or(host).map(|name| format!("`{name}` exists on one machine only"))
    };
    tree.files().flat_map(|file| each_line(file, message)).collect()
}

/// True if an absolute path in the line starts with the directory and continues.
fn names_below(line: &str, folder: &str) -> bool {
    let goes_on = |text: &str| text.starts_with(|next: char| next.is_ascii_alphanumeric());
    let is_start = |text: &str| {
        !text.ends_with(|last: char| last.is_ascii_alphanumeric() || "._-/~})".contains(last))
    };
    let hits = line.match_indices(folder);
    hits.map(|(at, _)| line.split_at(at))
        .any(|(before, after)| is_start(before) && goes_on(&after[folder.len()..]))
}

/// Manifests that do not inherit the workspace's lints, and lints missing there.
pub fn manifests(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files().filter(|file| file.name() == "Cargo.toml");
    let owed = manifests.flat_map(|file| lines_owed(file).iter().map(move |line| (file, line)));
    let missing = owed.filter(|(file, wanted)| !file.text.contains(*wanted));
    missing
        .map(|(file, wanted)| file.finding(1, format!("needs `{}`", wanted.escape_default())))
        .collect()
}

/// The texts that a manifest must contain.
fn lines_owed(manifest: &File) -> &'static [&'static str] {
    if manifest.path == "Cargo.toml" { &LINTS } else { &["[lints]\nworkspace = true"] }
}

/// Findings for all lines of the file for which `message` returns a text.
fn each_line(file: &File, message: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let messages =
        file.text.lines().enumerate().filter_map(|(index, line)| Some((index, message(line)?)));
    messages.map(|(index, message)| file.finding(index + 1, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        rule(&Tree::of_texts(&[(path, text)])).len()
    }

    #[test]
    fn source_is_ascii() {
        assert_eq!(count(not_ascii, "a.rs", "\"caf\u{e9}\""), 1);
        assert_eq!(count(not_ascii, "Makefile", "plain\n\u{2192}\n"), 1);
        assert_eq!(count(not_ascii, "a.grib", "\u{fffd}"), 0);
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(count(machine_paths, "a.md", &format!("see {folder}me")), 1);
            assert_eq!(count(machine_paths, "a.md", &format!("see https://host{folder}me")), 0);
            assert_eq!(count(machine_paths, "a.md", &format!("see {folder}<user>")), 0);
        }
        assert_eq!(count(machine_paths, "Cargo.lock", &format!("{}.org", REGISTRY_HOSTS[0])), 1);
    }

    #[test]
    fn manifests_keep_the_lints_of_the_workspace() {
        assert_eq!(count(manifests, "crates/a/Cargo.toml", "[package]\n"), 1);
        assert_eq!(count(manifests, "crates/a/Cargo.toml", "[lints]\nworkspace = true\n"), 0);
        assert_eq!(count(manifests, "Cargo.toml", &LINTS.join("\n")), 0);
        assert_eq!(count(manifests, "Cargo.toml", &LINTS[1..].join("\n")), 1);
    }
}
