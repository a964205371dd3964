//! Compares facts that pages state in sentences with the source: values of constants, optional libraries, versions of
//! the tools, and the checks of `esker doctor`.
use crate::limits::{number, written_number};
use crate::tree::File;
use crate::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Expr, Item, ItemConst};

const INSTALL: &str = "docs/install.md";
const COMMAND: &str = "docs/cli.md";
const ENVIRONMENT: &str = "docs/environment.md";
const DOCTOR: &str = "crates/cli/src/doctor/";

/// Decisions and changes describe the past.
const HISTORY: [&str; 2] = ["docs/decisions/", "CHANGELOG.md"];

/// Words before a constant's name among which its value is expected.
const WORDS_BEFORE: usize = 9;

/// Values of constants in sentences, as in "at most 64 KiB (`NAME_MAX`)", that differ from the source, and names of
/// limits that the source does not have.
pub fn cited_constants(tree: &Tree) -> Vec<Finding> {
    let known = constants(tree);
    pages(tree).flat_map(|page| wrong_citations(page, &known)).collect()
}

/// Pages that describe the present.
fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_past = |file: &&File| HISTORY.iter().any(|path| file.path.starts_with(path));
    tree.files().filter(|file| file.extension() == "md").filter(move |file| !is_past(file))
}

/// Values of all constants of the tree, by name. Constants with the same name in several files have several values.
fn constants(tree: &Tree) -> BTreeMap<String, Vec<u128>> {
    let mut found: BTreeMap<String, Vec<u128>> = BTreeMap::new();
    for file in sources(tree).filter(|file| file.text.contains("const ")) {
        let items = syn::parse_file(&file.text).map(|file| file.items).unwrap_or_default();
        let mut numbers = BTreeMap::new();
        for item in items {
            let Item::Const(item) = item else { continue };
            let name = item.ident.to_string();
            if let Some(value) = number(&item.expr, &numbers) {
                numbers.insert(name.clone(), vec![value]);
            }
            found.entry(name).or_default().extend(values(&item, &numbers));
        }
    }
    found
}

/// Rust files of the tree that are not in a directory named `tests`.
fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files().filter(|file| file.extension() == "rs" && !file.path.contains("/tests/"))
}

/// Values of a constant as a page may write them: the number and, for a time, its milliseconds.
fn values(item: &ItemConst, numbers: &BTreeMap<String, Vec<u128>>) -> Vec<u128> {
    let name = item.ident.to_string();
    let number = numbers.get(&name).and_then(|values| values.first().copied());
    let seconds = number.filter(|_| name.ends_with("SECONDS")).map(|value| value * 1000);
    [number, seconds, milliseconds(&item.expr)].into_iter().flatten().collect()
}

/// Milliseconds of an expression such as `Duration::from_secs(10)`; `None` for other expressions.
fn milliseconds(expression: &Expr) -> Option<u128> {
    let Expr::Call(call) = expression else { return None };
    let Expr::Path(function) = call.func.as_ref() else { return None };
    let factor = match function.path.segments.last()?.ident.to_string().as_str() {
        "from_secs" => 1000,
        "from_millis" => 1,
        _ => return None,
    };
    Some(number(call.args.first()?, &BTreeMap::new())? * factor)
}

/// Findings for the constants that a page cites with another value than the source has (`known`).
fn wrong_citations(page: &File, known: &BTreeMap<String, Vec<u128>>) -> Vec<Finding> {
    let cited = page.text.match_indices("(`").filter_map(|(at, start)| {
        let (name, _) = page.text[at + start.len()..].split_once('`')?;
        let (before, line) = (&page.text[..at], page.text[..at].lines().count());
        wrong_citation(name, before, known).map(|message| page.finding(line, message))
    });
    cited.collect()
}

/// The message about one constant, if the value in the text `before` its name is not one of the source.
fn wrong_citation(name: &str, before: &str, known: &BTreeMap<String, Vec<u128>>) -> Option<String> {
    let is_constant =
        name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    if !is_constant {
        return None;
    }
    let Some(values) = known.get(name) else {
        return name.ends_with("_MAX").then(|| format!("no constant has the name `{name}`"));
    };
    let written = value_at_end(before)?;
    (!values.is_empty() && !values.contains(&written))
        .then(|| format!("`{name}` is {values:?} in the source, here {written}"))
}

/// The last number of the clause at the end of this text, with its unit.
fn value_at_end(text: &str) -> Option<u128> {
    let start = text.rfind(['|', ';', '(', ')']).map_or(0, |at| at + 1);
    let clause = text[start..].rsplit(". ").next()?;
    let words: Vec<_> = clause.split_whitespace().collect();
    let words = &words[words.len().saturating_sub(WORDS_BEFORE)..];
    let at = words.iter().rposition(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let word = words[at].trim_end_matches(',');
    match words.get(at + 1).copied() {
        Some("s") => Some(written_number(word)? * 1000),
        Some("ms") => written_number(word),
        Some(unit @ ("KiB" | "MiB" | "GiB" | "TiB")) => written_number(&format!("{word} {unit}")),
        Some("-") => written_number(&words[at..].join(" ")),
        _ => written_number(word),
    }
}

/// Libraries that the source loads and the page on installing does not list, and the reverse.
pub fn optional_libraries(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(INSTALL) else { return Vec::new() };
    let loaded: BTreeSet<_> = sources(tree).filter_map(loaded_library).collect();
    let listed = listed_libraries(page);
    let absent = loaded.iter().filter(|name| !listed.iter().any(|(_, listed)| listed == *name));
    let absent =
        absent.map(|name| page.finding(1, format!("`{name}`, which is loaded, is missing")));
    let unknown = listed.iter().filter(|(_, name)| !loaded.contains(name));
    let unknown =
        unknown.map(|(line, name)| page.finding(*line, format!("nothing loads `{name}`")));
    absent.chain(unknown).collect()
}

/// The first name in a constant `FILE`, `FILES` or `NAMES` of a binding.
fn loaded_library(file: &File) -> Option<String> {
    let is_binding = file.text.contains("libloading") || file.path.ends_with("/search.rs");
    let lines = file.text.lines().filter(|_| is_binding);
    let mut constants = lines.filter(|line| {
        ["const FILE:", "const FILES:", "const NAMES:"].iter().any(|start| line.contains(start))
    });
    let name = constants.find_map(|line| line.split('"').nth(1))?;
    name.contains(".so").then(|| name.to_owned())
}

/// The second column of the table of libraries, with lines.
fn listed_libraries(page: &File) -> Vec<(usize, String)> {
    let rows = page.text.lines().zip(1..).filter_map(|(text, line)| {
        let file = text.strip_prefix("| ")?.split('|').nth(1)?.trim();
        let name = file.strip_prefix('`')?.strip_suffix('`')?;
        (name.starts_with("lib") && name.contains(".so")).then(|| (line, name.to_owned()))
    });
    rows.collect()
}

/// Pages and recipes that name another version of Rust or of the C library than the build.
pub fn versions(tree: &Tree) -> Vec<Finding> {
    let rust = setting(tree, "Cargo.toml", "rust-version = ");
    let glibc = setting(tree, "scripts/wheel.sh", "glibc=");
    let rust = rust.iter().flat_map(|wanted| {
        let names = ["needs Rust ", "rust@", "rust>=", "rust >= ", "requires Rust "];
        other_versions(tree, &names, wanted)
    });
    let glibc = glibc.iter().flat_map(|wanted| other_versions(tree, &["glibc "], wanted));
    rust.chain(glibc).collect()
}

/// The rest of the first line that begins with `start` in a file, without quotes.
fn setting(tree: &Tree, path: &str, start: &str) -> Option<String> {
    let line = tree.file(path)?.text.lines().find_map(|line| line.strip_prefix(start))?;
    Some(line.trim_matches('"').to_owned())
}

/// Findings for versions other than `wanted` that recipes and pages write after one of `names`.
fn other_versions(tree: &Tree, names: &[&str], wanted: &str) -> Vec<Finding> {
    let recipes = tree.files().filter(|file| file.path.starts_with("packaging/"));
    let files = recipes.chain(tree.file(INSTALL)).chain(tree.file("docs/python.md"));
    files.flat_map(|file| versions_in(file, names, wanted)).collect()
}

/// The same for one file.
fn versions_in(file: &File, names: &[&str], wanted: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (text, line) in file.text.lines().zip(1..) {
        for (at, name) in names.iter().flat_map(|name| text.match_indices(name)) {
            let rest = &text[at + name.len()..];
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let version = rest[..end].trim_end_matches('.');
            if version.contains('.') && version != wanted {
                findings
                    .push(file.finding(line, format!("{name}{version}: the build has {wanted}")));
            }
        }
    }
    findings
}

/// Variables `ESKER_...` of programs that the page on the environment does not list, and listed ones that no program
/// has.
pub fn environment(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(ENVIRONMENT) else { return Vec::new() };
    let is_program = |file: &&File| {
        let is_rust = file.path.starts_with("crates/") && file.path.contains("/src/");
        (is_rust || file.path.starts_with("python/")) && ["rs", "py"].contains(&file.extension())
    };
    let programs = tree.files().filter(is_program).filter(|file| !file.path.contains("/tests/"));
    let read: BTreeSet<_> = programs.flat_map(|file| variables(&file.text, '"')).collect();
    let listed: BTreeSet<_> = variables(&page.text, '`').collect();
    let absent =
        read.difference(&listed).map(|name| format!("`{name}`, which a program reads, is missing"));
    let unknown = listed.difference(&read).map(|name| format!("no program has `{name}`"));
    absent.chain(unknown).map(|message| page.finding(1, message)).collect()
}

/// Names of environment variables (`ESKER_...`) between two characters `quote`.
fn variables(text: &str, quote: char) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_variable = move |word: &&str| {
        word.strip_prefix("ESKER_")
            .is_some_and(|name| !name.is_empty() && name.chars().all(is_part))
    };
    text.split(quote).filter(is_variable)
}

/// Checks of `esker doctor` that the page on the command line does not list.
pub fn doctor_checks(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(COMMAND) else { return Vec::new() };
    let files = tree.files().filter(|file| file.path.starts_with(DOCTOR));
    let checks = files.flat_map(|file| file.text.lines()).filter_map(check_name);
    let unlisted = checks.filter(|name| !page.text.contains(&format!("| `{name}` |")));
    unlisted.map(|name| page.finding(1, format!("the check `{name}` is missing"))).collect()
}

/// The name in `const CHECK: &str = "kernel";` or `check: "kernel",`.
fn check_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let is_name = line.starts_with("const CHECK") || line.starts_with("check: \"");
    line.split('"').nth(1).filter(|_| is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "pub const NODES_MAX: u32 = 1 << 9;\nconst GRACE: Duration = Duration::from_secs(10);
        pub(crate) const LEN: usize = 8 << 10;\npub const WAIT_SECONDS: u64 = 30;";

    fn messages(rule: fn(&Tree) -> Vec<Finding>, texts: &[(&str, &str)]) -> Vec<String> {
        rule(&Tree::of_texts(texts)).iter().map(Finding::to_string).collect()
    }

    fn citations(page: &str) -> usize {
        messages(cited_constants, &[("crates/a/src/a.rs", SOURCE), ("docs/a.md", page)]).len()
    }

    #[test]
    fn cited_values_are_those_of_the_source() {
        for right in [
            "at most 512 nodes (`NODES_MAX`)",
            "after 10 s (`GRACE`) of\n8 KiB (`LEN`)",
            "30 s (`WAIT_SECONDS`)",
            "an engine on 3 nodes. It fails (`NODES_MAX`)",
            "fails with 7 (`EPERM`)",
        ] {
            assert_eq!(citations(right), 0, "{right}");
        }
        for wrong in [
            "at most 1024 nodes (`NODES_MAX`)",
            "after 1 s (`GRACE`)",
            "8 MiB\n(`LEN`)",
            "at most 3 (`GONE_MAX`)",
        ] {
            assert_eq!(citations(wrong), 1, "{wrong}");
        }
    }

    #[test]
    fn loaded_libraries_are_listed() {
        let source = (
            "crates/a/src/library.rs",
            "use libloading::Library;\nconst FILE: &str = \"liba.so.2\";",
        );
        let page = |row| [source, (INSTALL, row)];
        assert_eq!(messages(optional_libraries, &page("| A | `liba.so.2` | |")).len(), 0);
        assert_eq!(messages(optional_libraries, &page("| A | `liba.so.1` | |")).len(), 2);
    }

    #[test]
    fn versions_are_those_of_the_build() {
        let files = |rust: &'static str, glibc: &'static str| {
            [
                ("Cargo.toml", "rust-version = \"1.92\""),
                ("scripts/wheel.sh", "glibc=2.28"),
                ("packaging/spack/package.py", rust),
                (INSTALL, glibc),
            ]
        };
        assert_eq!(messages(versions, &files("rust@1.92:", "glibc 2.28 and later.")).len(), 0);
        assert_eq!(messages(versions, &files("rust@1.85:", "glibc 2.17")).len(), 2);
    }

    #[test]
    fn environment_variables_are_listed() {
        let source = ("crates/a/src/a.rs", "const A: &str = \"ESKER_A\"; // \"ESKER_A is\"");
        assert_eq!(messages(environment, &[source, (ENVIRONMENT, "| `ESKER_A` |")]).len(), 0);
        assert_eq!(messages(environment, &[source, (ENVIRONMENT, "| `ESKER_B` |")]).len(), 2);
    }

    #[test]
    fn checks_of_the_doctor_are_listed() {
        let source = ("crates/cli/src/doctor/a.rs", "    const CHECK: &str = \"kernel\";");
        assert_eq!(
            messages(doctor_checks, &[source, (COMMAND, "| `kernel` | its release |")]).len(),
            0
        );
        assert_eq!(messages(doctor_checks, &[source, (COMMAND, "kernel")]).len(), 1);
    }
}
