//! Checks the output of the example.
use std::path::{Path, PathBuf};
use std::process::Command;

fn directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory } else { Path::new(env!("CARGO_TARGET_TMPDIR")) };
    place.join(format!("esker-test.tour.{}", std::process::id()))
}

#[test]
fn both_change_at_once_and_the_snapshot_does_not() {
    let directory = directory();
    std::fs::create_dir(&directory).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tour")).arg(&directory).output();
    std::fs::remove_dir_all(&directory).unwrap();
    let output = output.unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines[0], format!("created esker:{}", directory.join("tour").display()));
    assert_eq!(
        lines[1..],
        ["now:    6 [282.0, 283.5, 281.25]", "before: 0 [280.0, 281.5, 279.25]"]
    );
}

#[test]
fn without_a_directory_it_prints_its_usage() {
    let output = Command::new(env!("CARGO_BIN_EXE_tour")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "usage: tour DIRECTORY\n");
}
