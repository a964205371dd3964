//! Locations of other programs.
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// The program `name` of this installation: in the directory of the running program, else on PATH.
#[must_use]
pub fn companion(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(name));
    beside.filter(|program| is_executable(program)).or_else(|| on_path(name))
}

/// The program `name` on PATH.
#[must_use]
pub fn on_path(name: impl AsRef<Path>) -> Option<PathBuf> {
    let directories = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&directories).map(|directory| directory.join(&name));
    programs.find(|program| is_executable(program))
}

fn is_executable(program: &Path) -> bool {
    program.is_file() && access(program, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_path() {
        assert!(on_path("sh").is_some_and(|program| program.is_absolute()));
        assert_eq!(on_path("esker-no-such-program"), None);
        assert_eq!(companion("sh"), on_path("sh"));
    }
}
