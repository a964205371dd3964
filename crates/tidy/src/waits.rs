//! How tests wait: for an event, never for a fixed time.
use crate::rust;
use crate::{Finding, Tree};

/// The only file in which tests may make a thread sleep.
const HELPER: &str = "crates/testing/src/wait.rs";

/// Tests that sleep: their outcome depends on the load of the machine.
pub fn sleeping_tests(tree: &Tree) -> Vec<Finding> {
    let mut sleeps = rust::find_in_tests(tree, HELPER, |token| token == "sleep", &told());
    sleeps.extend(sleeping_scripts(tree));
    sleeps
}

/// The same for Python, whose tests are identified by their directory.
fn sleeping_scripts(tree: &Tree) -> Vec<Finding> {
    let scripts = tree.files().filter(|file| file.path.starts_with("python/tests/"));
    let lines = scripts.flat_map(|file| file.text.lines().zip(1..).map(move |line| (file, line)));
    let sleeps = lines.filter(|(_, (text, _))| text.contains("time.sleep("));
    sleeps.map(|(file, (_, line))| file.finding(line, told())).collect()
}

fn told() -> String {
    format!("a test sleeps; wait for its condition with `wait_for` of {HELPER}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let found = sleeping_tests(&Tree::of_texts(&[(path, text)]));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_sleeps_is_found() {
        let text = "fn a() {\n std::thread::sleep(b);\n}";
        assert_eq!(lines("crates/store/tests/a.rs", text), [2]);
        assert!(lines("crates/store/src/a.rs", text).is_empty());
        assert_eq!(
            lines("crates/store/src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {text} }}")),
            [3]
        );
        assert!(lines(HELPER, text).is_empty());
        assert_eq!(lines("python/tests/test_a.py", "import time\ntime.sleep(1)\n"), [2]);
    }
}
