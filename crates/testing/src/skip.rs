//! Tests that cannot run on this machine.
use std::io::Write;

/// Environment variable that names a file with a line for each skipped test. The test runner cannot tell them
/// from those that passed.
pub const SKIPPED_VARIABLE: &str = "ESKER_TEST_SKIPPED";

/// Reports that the running test is skipped and what it lacks, even while the output of tests is captured.
///
/// # Panics
/// If the file of [`SKIPPED_VARIABLE`] cannot be written.
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
