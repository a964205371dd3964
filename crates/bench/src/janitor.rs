//! Removes what a benchmark made, however the benchmark ended.
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Tries to remove a folder this often, while the last workers go.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for the end of `input`, which comes with the end of the process on its other side, then
/// removes `folder` with everything in it. True where it is gone.
pub fn serve(mut input: impl Read, folder: &Path) -> bool {
    let mut rest = [0; 64];
    while matches!(input.read(&mut rest), Ok(1..)) {}
    for _ in 0..ATTEMPTS {
        let _ = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_when_the_input_ends() {
        let folder = std::env::temp_dir().join(format!("esker-janitor-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("within")).unwrap();
        assert!(serve("some words".as_bytes(), &folder));
        assert!(!folder.exists());
        assert!(serve("".as_bytes(), &folder));
    }
}
