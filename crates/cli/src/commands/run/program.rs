//! Whether a program can be reached at all.
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Bytes of an ELF header, and of an entry of its table of segments.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// The segment that names the loader, which loads our library (ELF: `PT_INTERP`).
const INTERPRETER: u32 = 3;
/// Segments that are looked at.
const SEGMENTS_MAX: u16 = 256;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// Warns where the library cannot be loaded into the program.
pub(super) fn warn(program: &OsStr, mount: &Path) {
    let Some(path) = find(program).filter(|path| !path.starts_with(mount)) else { return };
    let name = path.display();
    if is_static(&path) == Some(true) {
        eprintln!(
            "esker: warning: {name} is statically linked, so calls of it are not caught: it does not see {}",
            mount.display()
        );
    }
    let has_set_id = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|status| status.permissions().mode() & SET_ID != 0)
    };
    if has_set_id(&path) {
        eprintln!(
            "esker: warning: {name} runs with another user's rights, so the system may not load the library"
        );
    }
}

/// The file that is run, as a shell would find it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

/// Whether an ELF program has no loader; `None` for anything else, such as a script.
fn is_static(path: &Path) -> Option<bool> {
    let file = File::open(path).ok()?;
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    let table = u64::from_le_bytes(header.get(32..40)?.try_into().ok()?);
    let count = u16::from_le_bytes(header.get(56..58)?.try_into().ok()?);
    for number in 0..count.min(SEGMENTS_MAX) {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, table + u64::from(number) * SEGMENT as u64).ok()?;
        if u32::from_le_bytes(kind) == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_system_are_linked_dynamically() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert_eq!(is_static(&shell), Some(false));
        assert_eq!(is_static(Path::new("/dev/null")), None);
    }

    #[test]
    fn a_program_without_a_loader_is_static() {
        let mut program = [0; HEADER];
        program[..4].copy_from_slice(b"\x7fELF");
        let path = std::env::temp_dir().join(format!("esker-static-{}", std::process::id()));
        std::fs::write(&path, program).unwrap();
        assert_eq!(is_static(&path), Some(true));
        std::fs::remove_file(path).unwrap();
    }
}
