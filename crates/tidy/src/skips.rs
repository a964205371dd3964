//! How tests report that they are skipped, so that they are not counted as passed.
use crate::rust;
use crate::{Finding, Tree};

/// The file with the function that reports skipped tests.
const HELPER: &str = "crates/testing/src/skip.rs";

/// Tests that only print that they are skipped.
pub fn uncounted(tree: &Tree) -> Vec<Finding> {
    let told = format!("a skipped test must be reported with `skip` of {HELPER}");
    rust::find_in_tests(tree, HELPER, |token| token.starts_with("\"skipped:"), &told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = uncounted(&Tree::of_texts(&[(path, text)]));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_only_prints_is_found() {
        let text = "fn a() {\n eprintln!(\"skipped: no b\");\n}";
        assert_eq!(lines("crates/store/tests/a.rs", text), [2]);
        assert!(lines("crates/store/src/a.rs", text).is_empty(), "output for users");
        assert!(lines(HELPER, text).is_empty());
    }
}
