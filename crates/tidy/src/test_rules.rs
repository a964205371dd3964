//! Rules for tests: they wait for an event, never for a fixed time, and report that they are skipped.
use crate::rust;
use crate::{Finding, Tree};

/// The only file in which tests may make a thread sleep.
const WAIT: &str = "crates/testing/src/wait.rs";
/// The file with the function that reports skipped tests.
const SKIP: &str = "crates/testing/src/skip.rs";

/// Tests that sleep: their outcome depends on the load of the machine.
pub fn sleeping(tree: &Tree) -> Vec<Finding> {
    let mut sleeps = rust::find_in_tests(tree, WAIT, |token| token == "sleep", &sleeps_message());
    sleeps.extend(sleeping_scripts(tree));
    sleeps
}

/// Python tests that sleep. The rule reads all files in `python/tests/`.
fn sleeping_scripts(tree: &Tree) -> Vec<Finding> {
    let scripts = tree.files().filter(|file| file.path.starts_with("python/tests/"));
    let lines = scripts.flat_map(|file| file.text.lines().zip(1..).map(move |line| (file, line)));
    let sleeps = lines.filter(|(_, (text, _))| text.contains("time.sleep("));
    sleeps.map(|(file, (_, line))| file.finding(line, sleeps_message())).collect()
}

fn sleeps_message() -> String {
    format!("a test sleeps; wait for its condition with `wait_for` of {WAIT}")
}

/// Tests that only print that they are skipped: they are counted as passed.
pub fn skipped_silently(tree: &Tree) -> Vec<Finding> {
    let message = format!("a skipped test must be reported with `skip` of {SKIP}");
    rust::find_in_tests(tree, SKIP, |token| token.starts_with("\"skipped:"), &message)
}

/// Conditions in checks of programs whose failure `set -e` ignores: those before `&&`, unless the line ends a function or a
/// branch, whose status they become.
pub fn ignored_conditions(tree: &Tree) -> Vec<Finding> {
    let is_check = |path: &str| path.starts_with("tests/programs/") && path.ends_with(".sh");
    let checks = tree.files().filter(|file| is_check(&file.path));
    let lines = checks.flat_map(|file| ignored_lines(&file.text).map(move |line| (file, line)));
    let message =
        "`set -e` ignores that a condition before `&&` is false; write one `[ ... ]` a line";
    lines.map(|(file, line)| file.finding(line, message)).collect()
}

/// The numbers of the lines that [`ignored_conditions`] finds.
fn ignored_lines(text: &str) -> impl Iterator<Item = usize> {
    let next = text.lines().skip(1).chain([""]);
    let lines = text.lines().map(str::trim_start).zip(next).zip(1..);
    let begins_list = |line: &str| line.starts_with("[ ") && line.contains(" ] && ");
    let is_ignored =
        move |line: &str, next: &str| begins_list(line) && !["}", "fi"].contains(&next.trim());
    lines.filter(move |((line, next), _)| is_ignored(line, next)).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        let found = rule(&Tree::of_texts(&[(path, text)]));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_sleeps_is_found() {
        let lines = |path: &str, text: &str| lines(sleeping, path, text);
        let text = "fn a() {\n std::thread::sleep(b);\n}";
        assert_eq!(lines("crates/store/tests/a.rs", text), [2]);
        assert!(lines("crates/store/src/a.rs", text).is_empty());
        let in_module = format!("#[cfg(test)]\nmod tests {{ {text} }}");
        assert_eq!(lines("crates/store/src/a.rs", &in_module), [3]);
        assert!(lines(WAIT, text).is_empty());
        assert_eq!(lines("python/tests/test_a.py", "import time\ntime.sleep(1)\n"), [2]);
    }

    #[test]
    fn a_test_that_only_prints_that_it_is_skipped_is_found() {
        let lines = |path: &str, text: &str| lines(skipped_silently, path, text);
        let text = "fn a() {\n eprintln!(\"skipped: no b\");\n}";
        assert_eq!(lines("crates/store/tests/a.rs", text), [2]);
        assert!(lines("crates/store/src/a.rs", text).is_empty(), "output for users");
        assert!(lines(SKIP, text).is_empty());
    }

    #[test]
    fn a_condition_that_is_ignored_is_found() {
        let lines = |path: &str, text: &str| lines(ignored_conditions, path, text);
        let text = "f() {\n    [ -e a ] && [ -e b ]\n    [ -e c ]\n    [ -e d ] && holds d x\n}\n";
        assert_eq!(lines("tests/programs/a.sh", text), [2]);
        assert!(lines("tests/c/a.sh", text).is_empty(), "without `set -e`");
        let branch =
            "    else\n    [ ! -e a ] && holds b x\n    fi\n    [ a = b ] || echo c && d\n";
        assert!(lines("tests/programs/a.sh", branch).is_empty());
    }
}
