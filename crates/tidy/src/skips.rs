//! How tests say that they were skipped: so that the count of those that passed leaves them out.
use crate::rust;
use crate::{Finding, Tree};

/// Where tests say so.
const HELPER: &str = "crates/testing/src/skip.rs";

/// Tests that only print that they were skipped.
pub fn uncounted(tree: &Tree) -> Vec<Finding> {
    let told = format!("a skipped test is not counted; say so by `skip` of {HELPER}");
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
        assert!(lines("crates/store/src/a.rs", text).is_empty(), "what users read");
        assert!(lines(HELPER, text).is_empty());
    }
}
