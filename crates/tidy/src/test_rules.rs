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
}
