//! Rules for documentation pages, besides valid links (`make check` verifies those with rumdl): every page is listed,
//! cited tests and files exist, and promises have different numbers.
use crate::tree::File;
use crate::{Finding, Tree};
use std::collections::HashSet;

const DECISIONS: &str = "docs/decisions/";
const BOOK: &str = "docs/SUMMARY.md";
const STATUSES: [&str; 2] = ["\n**Status.** Accepted.", "\n**Status.** Replaced by ["];

/// Decisions missing from the index in their directory.
pub fn unlisted_decisions(tree: &Tree) -> Vec<Finding> {
    unlisted(tree, &format!("{DECISIONS}README.md"), DECISIONS)
}

/// Decisions that do not say whether they still apply.
pub fn decisions_without_status(tree: &Tree) -> Vec<Finding> {
    let decisions = tree.files().filter(|file| file.path.starts_with(&format!("{DECISIONS}0")));
    let missing =
        decisions.filter(|file| !STATUSES.iter().any(|status| file.text.contains(status)));
    missing.map(|file| file.finding(3, "has no status: accepted, or replaced by")).collect()
}

/// Pages in `docs` missing from the book's table of contents. Decisions are in the book through their index.
pub fn outside_the_book(tree: &Tree) -> Vec<Finding> {
    let mut missing = unlisted(tree, BOOK, "docs/");
    missing.retain(|finding| !finding.path.starts_with(DECISIONS));
    missing
}

/// Pages below `folder` to which the page `index` has no link.
fn unlisted(tree: &Tree, index: &str, folder: &str) -> Vec<Finding> {
    let listed = tree.file(index).map_or("", |file| file.text.as_str());
    let base = index.rsplit_once('/').map_or("", |(base, _)| base);
    let pages = tree.files().filter(|file| file.extension() == "md" && file.path != index);
    let missing = pages.filter(|file| {
        let link = file.path.strip_prefix(base).unwrap_or_default().trim_start_matches('/');
        file.path.starts_with(folder) && !listed.contains(&format!("({link})"))
    });
    missing.map(|file| file.finding(1, format!("not listed in {index}"))).collect()
}

/// Shorter names may also be environment variables, members, or C functions.
const TEST_WORDS_MIN: usize = 4;

/// Test names in backquotes in Markdown that do not occur in the source.
pub fn unknown_tests(tree: &Tree) -> Vec<Finding> {
    let words = words_of_sources(tree);
    let pages = tree.files().filter(|file| file.extension() == "md");
    pages.flat_map(|page| unknown_tests_of(page, &words)).collect()
}

/// Files of Rust that pages name in backquotes and that do not exist. Decisions and the list of changes are about the
/// past.
pub fn unknown_files(tree: &Tree) -> Vec<Finding> {
    let is_unknown = |name: &str| {
        !tree.files().any(|file| format!("/{}", file.path).ends_with(&format!("/{name}")))
    };
    let unknown_of = |page: &File| -> Vec<Finding> {
        let lines = page.text.lines().zip(1..);
        let cited = lines.flat_map(|(text, line)| cited_files(text).map(move |name| (name, line)));
        let unknown = cited.filter(|(name, _)| is_unknown(name));
        unknown.map(|(name, line)| page.finding(line, format!("no file is {name}"))).collect()
    };
    let pages = tree.files().filter(|file| file.extension() == "md");
    let present =
        pages.filter(|file| !file.path.starts_with(DECISIONS) && file.path != "CHANGELOG.md");
    present.flat_map(unknown_of).collect()
}

/// Every `file.rs` in a line.
fn cited_files(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| text.ends_with(".rs") && !text.contains([' ', '*', '<']);
    line.split('`').skip(1).step_by(2).filter(is_name)
}

/// Promises of `docs/semantics.md` whose number another promise has.
pub fn repeated_promises(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file("docs/semantics.md") else { return Vec::new() };
    let mut known = HashSet::new();
    let promises =
        page.text.lines().zip(1..).filter_map(|(text, line)| Some((promise(text)?, line)));
    let repeated = promises.filter(|(number, _)| !known.insert(*number));
    repeated
        .map(|(number, line)| page.finding(line, format!("another promise is {number}")))
        .collect()
}

/// The number of the promise in a row of a table, such as `S9`.
fn promise(row: &str) -> Option<&str> {
    let number = row.strip_prefix("| ")?.split(' ').next()?;
    let digits = number.strip_prefix(|c: char| c.is_ascii_uppercase())?;
    digits.starts_with(|c: char| c.is_ascii_digit()).then_some(number)
}

/// All words of the files that are not pages.
fn words_of_sources(tree: &Tree) -> HashSet<&str> {
    let sources = tree.files().filter(|file| file.extension() != "md");
    let is_between = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    sources.flat_map(|file| file.text.split(is_between)).collect()
}

fn unknown_tests_of(page: &File, words: &HashSet<&str>) -> Vec<Finding> {
    let lines = page.text.lines().zip(1..);
    let cited = lines.flat_map(|(text, line)| cited_tests(text).map(move |name| (name, line)));
    let unknown = cited.filter(|(name, _)| !words.contains(name));
    unknown
        .map(|(name, line)| page.finding(line, format!("no test has the name `{name}`")))
        .collect()
}

/// Every `name_of_a_test` in a line, without a preceding file or topic.
fn cited_tests(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.map(|text| text.rsplit(": ").next().unwrap_or(text)).filter(|name| is_name(name))
}

/// True for a text that can be the name of a test: lower case, and at least [`TEST_WORDS_MIN`] words.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split('_').count() >= TEST_WORDS_MIN && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Tree) -> Vec<Finding>, texts: &[(&str, &str)]) -> Vec<usize> {
        rule(&Tree::of_texts(texts)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn decisions_are_listed() {
        let listed = ("docs/decisions/README.md", "[one](0001-one.md)");
        let one = ("docs/decisions/0001-one.md", "");
        let two = ("docs/decisions/0002-two.md", "");
        assert_eq!(lines(unlisted_decisions, &[listed, one]), [0; 0]);
        assert_eq!(lines(unlisted_decisions, &[listed, one, two]), [1]);
    }

    #[test]
    fn decisions_have_a_status() {
        let decision = |text| [("docs/decisions/0001-one.md", text)];
        assert_eq!(
            lines(decisions_without_status, &decision("# One\n\n**Status.** Accepted.\n")),
            [0; 0]
        );
        assert_eq!(
            lines(decisions_without_status, &decision("# One\n\n**Status.** Tried.\n")),
            [3]
        );
    }

    #[test]
    fn pages_are_in_the_book() {
        let contents = (BOOK, "- [One](one.md)\n- [Two](tutorials/two.md)");
        let pages = [contents, ("docs/one.md", ""), ("docs/tutorials/two.md", ""), ("a.md", "")];
        assert_eq!(lines(outside_the_book, &pages), [0; 0]);
        assert_eq!(lines(outside_the_book, &[contents, ("docs/decisions/0001-a.md", "")]), [0; 0]);
        assert_eq!(lines(outside_the_book, &[contents, ("docs/two.md", "")]), [1]);
    }

    #[test]
    fn cited_files_exist() {
        let source = ("crates/a/src/b.rs", "");
        let page = "is in `b.rs`,\n`src/b.rs`\nand `c.rs`; `*.rs`";
        assert_eq!(lines(unknown_files, &[("docs/a.md", page), source]), [3]);
        assert_eq!(lines(unknown_files, &[("docs/decisions/1.md", page), source]), [0; 0]);
    }

    #[test]
    fn promises_have_numbers_of_their_own() {
        let page = "| S1 | a | b |\n| S1a | a | b |\n| x | S1 |\n| S1 | c | d |";
        assert_eq!(lines(repeated_promises, &[("docs/semantics.md", page)]), [4]);
    }

    #[test]
    fn cited_tests_exist() {
        let test = ("crates/a/tests/a.rs", "fn writers_take_turns_here() {}");
        let good = ("docs/a.md", "`topic: writers_take_turns_here`, `KEY_MAX`, `two_words`");
        assert_eq!(lines(unknown_tests, &[test, good]), [0; 0]);
        let bad = ("docs/a.md", "so\n(`writers_take_turns_there`)");
        assert_eq!(lines(unknown_tests, &[test, bad]), [2]);
    }
}
