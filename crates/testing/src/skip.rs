//! Tests that cannot be run here.
use std::io::Write;

/// Environment variable that names a file with a line for each test that was skipped: the test runner has no
/// other way to tell it from one that passed.
pub const SKIPPED_VARIABLE: &str = "ESKER_TEST_SKIPPED";

/// Says that the present test is skipped, and what is missing; also where the output of tests is kept back.
///
/// # Panics
/// Where the file for it cannot be written.
pub fn skip(why: impl std::fmt::Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIPPED_VARIABLE) {
        let file = std::fs::File::options().append(true).create(true).open(path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "{SKIPPED_VARIABLE}: {written:?}");
    }
}
