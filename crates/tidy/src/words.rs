//! Rules for words: patterns of sentences and names that readers have to decode. CONTRIBUTING.md says what to write
//! instead.
use crate::tree::File;
use crate::{Finding, Tree};

/// This file has to name the words that it forbids.
const THIS_FILE: &str = "crates/tidy/src/words.rs";
/// Entries of earlier versions are not rewritten.
const CHANGELOG: &str = "CHANGELOG.md";

const LANGUAGES: [&str; 10] = ["rs", "py", "pyi", "c", "h", "cpp", "sh", "toml", "md", "txt"];

/// Words that were replaced by terms of the field, with their replacements.
const RETIRED: [(&str, &str); 7] = [
    ("whoever", "the actor: writer, reader, client, process"),
    ("so many", "the number's name"),
    ("seam", "backend trait"),
    ("crew", "workers"),
    ("fleet", "processes"),
    ("stranger", "unauthenticated connection"),
    ("newcomer", "new connection, or new process"),
];

/// First words of comments that are clauses without a subject.
const CLAUSES: [&str; 8] = ["What", "Of", "Those", "Their", "Where", "As", "Who", "Whose"];

/// First words of names of functions that are clauses.
const CLAUSE_NAMES: [&str; 4] = ["who_", "what_", "whoever_", "whose_"];

/// Names of functions that do not say what is done to what.
const BARE_NAMES: [&str; 3] = ["of", "done", "failed"];

/// Words after "is no" that belong to a comparison.
const COMPARISONS: [&str; 5] = ["longer", "more", "less", "better", "worse"];

/// Lines that contain a retired word.
pub fn retired(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |line| {
        let line = line.to_ascii_lowercase();
        let found = RETIRED.iter().find(|(word, _)| has_word(&line, word));
        found.map(|(word, instead)| format!("`{word}` is not a term of the field: write {instead}"))
    })
}

/// Lines that say "is no X" in place of "is not an X".
pub fn is_no(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |line| {
        is_no_in(line).then(|| "write `is not a` in place of `is no`".to_owned())
    })
}

/// Comments that begin with a clause in place of a subject.
pub fn comments_without_subject(tree: &Tree) -> Vec<Finding> {
    sources(tree).filter(|file| file.extension() != "md").flat_map(comments_of).collect()
}

/// Functions whose name is a clause, or a single word that says nothing.
pub fn unclear_names(tree: &Tree) -> Vec<Finding> {
    each_line(tree, |line| {
        let name = name_of_function(line)?;
        let name = name.strip_prefix("test_").unwrap_or(name);
        let is_unclear =
            BARE_NAMES.contains(&name) || CLAUSE_NAMES.iter().any(|start| name.starts_with(start));
        is_unclear.then(|| {
            format!("`{name}` does not say what the function does, or what the test shows")
        })
    })
}

/// Files in which words are checked.
fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    let is_read = |file: &&File| LANGUAGES.contains(&file.extension());
    tree.files().filter(is_read).filter(|file| file.path != THIS_FILE && file.path != CHANGELOG)
}

/// Findings for all lines for which `message` returns a text.
fn each_line(tree: &Tree, message: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let lines = sources(tree).flat_map(|file| file.text.lines().zip(1..).map(move |at| (file, at)));
    let found =
        lines.filter_map(|(file, (line, number))| Some(file.finding(number, message(line)?)));
    found.collect()
}

/// True if the word, or its plural, is in the line, not as a part of another word.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let after = &line[at + word.len()..];
        let after = after.strip_prefix('s').unwrap_or(after);
        !line[..at].ends_with(is_in_word) && !after.starts_with(is_in_word)
    })
}

fn is_in_word(character: char) -> bool {
    character.is_ascii_alphanumeric()
}

/// True if the line says "is no X", except after "there" and in a comparison such as "is no longer".
fn is_no_in(line: &str) -> bool {
    line.match_indices("is no ").any(|(at, found)| {
        let before = line[..at].trim_end().to_ascii_lowercase();
        let word =
            line[at + found.len()..].split(|c: char| !is_in_word(c)).next().unwrap_or_default();
        let compares = word.is_empty() || COMPARISONS.contains(&word);
        !line[..at].ends_with(is_in_word) && !before.ends_with("there") && !compares
    })
}

/// Findings for comments that begin with a clause. A line that continues a comment is not the beginning of one.
fn comments_of(file: &File) -> Vec<Finding> {
    let lines = || file.text.lines();
    let pairs = lines().zip(std::iter::once("").chain(lines())).zip(1..);
    let starts = pairs.filter(|((line, before), _)| {
        let continues =
            comment(before).is_some_and(|text| !text.is_empty() && !text.starts_with('#'));
        !continues && comment(line).is_some_and(begins_with_clause)
    });
    let message = "the comment has no subject: name what it describes";
    starts.map(|(_, number)| file.finding(number, message)).collect()
}

/// The text of a line that is a comment or begins a docstring.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let markers = ["///", "//!", "//", "#", "/**", "/*", "\"\"\""];
    markers.iter().find_map(|marker| line.strip_prefix(marker)).map(str::trim)
}

fn begins_with_clause(text: &str) -> bool {
    let first = text.split(|c: char| !is_in_word(c)).next().unwrap_or_default();
    CLAUSES.contains(&first)
}

/// The name of the function that a line of Rust or Python defines; `None` for other lines.
fn name_of_function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let at = ["fn ", "def "].iter().find_map(|word| {
        let at = line.find(word)?;
        (at == 0 || line[..at].ends_with(' ')).then_some(at + word.len())
    })?;
    line[at..]
        .split(|c: char| !is_in_word(c) && c != '_')
        .next()
        .filter(|_| !line.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(rule: fn(&Tree) -> Vec<Finding>, text: &str) -> usize {
        rule(&Tree::of_texts(&[("crates/a/src/a.rs", text)])).len()
    }

    #[test]
    fn retired_words_are_found() {
        assert_eq!(count(retired, "// Whoever finds it\n// the seams\n"), 2);
        assert_eq!(count(retired, "// seamless, crews_max, not so, many\n"), 1);
        assert_eq!(retired(&Tree::of_texts(&[(CHANGELOG, "Whoever")])).len(), 0);
    }

    #[test]
    fn is_no_is_found() {
        assert_eq!(count(is_no, "it is no address"), 1);
        assert_eq!(count(is_no, "there is no lock; it is no longer; this no"), 0);
    }

    #[test]
    fn comments_have_a_subject() {
        assert_eq!(
            count(comments_without_subject, "/// What a task runs.\nfn a() {}\n// Of all\n"),
            2
        );
        assert_eq!(count(comments_without_subject, "/// The body\n/// Of a task.\n"), 0);
        assert_eq!(count(comments_without_subject, "/// The body.\n///\n/// Where it is.\n"), 1);
        assert_eq!(count(comments_without_subject, "/// # Errors\n/// Those of [`a`].\n"), 1);
        assert_eq!(count(comments_without_subject, "/// Offset of a byte.\n/// Whatever.\n"), 0);
    }

    #[test]
    fn names_are_clear() {
        assert_eq!(count(unclear_names, "pub fn of(x: u8) {}\nfn who_dies() {}\n"), 2);
        assert_eq!(count(unclear_names, "fn of_bytes() {}\nfn whole() {}\n// fn of()\n"), 0);
        let python = Tree::of_texts(&[("a.py", "def test_what_is_put():\n")]);
        assert_eq!(unclear_names(&python).len(), 1);
    }
}
