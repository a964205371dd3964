//! Detects programs whose calls a preloaded library cannot intercept, from their executable files.
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// Bytes of an ELF header, and of an entry of its program header table.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// Segment types: the name of the loader, which loads libraries (ELF: `PT_INTERP`), and notes (`PT_NOTE`).
const INTERPRETER: u32 = 3;
const NOTES: u32 = 4;
/// Most segments that are read, and most bytes of notes.
const SEGMENTS_MAX: u16 = 256;
const NOTES_BYTES_MAX: u64 = 4096;
/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// Reason why a preloaded library cannot intercept the calls of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreloadObstacle {
    /// It is statically linked: no loader runs.
    Static,
    /// It makes system calls directly, not through the C library.
    OwnCalls,
    /// It runs with the rights of another user, so the loader ignores `LD_PRELOAD`.
    OtherUser,
}

impl PreloadObstacle {
    /// The obstacle in this executable file; `None` if the library works, or if the file cannot be read.
    #[must_use]
    pub fn find(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mode = file.metadata().ok()?.permissions().mode();
        let (mut has_loader, mut is_go) = (false, false);
        each_segment(&file, |kind, offset, length| match kind {
            INTERPRETER => has_loader = true,
            NOTES => is_go |= has_note_of_go(&file, offset, length),
            _ => {}
        })?;
        match (has_loader, is_go) {
            (false, _) => Some(Self::Static),
            (true, true) => Some(Self::OwnCalls),
            (true, false) => (mode & SET_ID != 0).then_some(Self::OtherUser),
        }
    }

    /// The cause, as the rest of a sentence that starts with the program's name.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            Self::Static => "is statically linked, so its calls are not intercepted",
            Self::OwnCalls => "is written in Go, which makes system calls that are not intercepted",
            Self::OtherUser => {
                "runs with another user's rights, so the system may not load the library"
            }
        }
    }
}

/// Visits type, offset and length of the segments of an ELF program; `None` for other files, such as scripts.
fn each_segment(file: &File, mut visit: impl FnMut(u32, u64, u64)) -> Option<()> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(b"\x7fELF") {
        return None;
    }
    // `e_phoff`, `e_phnum`.
    let table = u64_at(&header, 32)?;
    let count = u16::from_le_bytes(header.get(56..58)?.try_into().ok()?);
    for number in 0..count.min(SEGMENTS_MAX) {
        let mut segment = [0; SEGMENT];
        let at = table.checked_add(u64::from(number) * SEGMENT as u64)?;
        file.read_exact_at(&mut segment, at).ok()?;
        let kind = u32::from_le_bytes(segment.get(..4)?.try_into().ok()?);
        // `p_type`, `p_offset`, `p_filesz`.
        visit(kind, u64_at(&segment, 8)?, u64_at(&segment, 32)?);
    }
    Some(())
}

/// True if the notes at `offset` have the one that Go's linker adds to static and dynamic programs.
fn has_note_of_go(file: &File, offset: u64, length: u64) -> bool {
    let mut notes = vec![0; length.min(NOTES_BYTES_MAX) as usize];
    file.read_exact_at(&mut notes, offset).is_ok() && notes.windows(4).any(|name| name == b"Go\0\0")
}

/// The little-endian number at offset `at`; `None` past the end.
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dynamic_programs_have_no_obstacle() {
        assert_eq!(PreloadObstacle::find(&std::env::current_exe().unwrap()), None);
        assert_eq!(PreloadObstacle::find(Path::new("/dev/null")), None);
    }

    /// Result for an ELF file with two segments, followed by `more`.
    fn find_in_program(name: &str, kind: u32, more: &[u8]) -> Option<PreloadObstacle> {
        let mut program = vec![0; HEADER + 2 * SEGMENT];
        program[..4].copy_from_slice(b"\x7fELF");
        (program[32], program[56]) = (HEADER as u8, 2);
        program[HEADER] = kind as u8;
        let second = HEADER + SEGMENT;
        (program[second], program[second + 8]) = (NOTES as u8, (HEADER + 2 * SEGMENT) as u8);
        program[second + 32] = more.len() as u8;
        program.extend_from_slice(more);
        let path = std::env::temp_dir().join(format!("esker-reach-{name}-{}", std::process::id()));
        std::fs::write(&path, program).unwrap();
        let found = PreloadObstacle::find(&path);
        std::fs::remove_file(path).unwrap();
        found
    }

    #[test]
    fn static_and_go_programs_are_detected() {
        assert_eq!(find_in_program("static", 1, b"\x04\0\0\0"), Some(PreloadObstacle::Static));
        assert_eq!(
            find_in_program("go", INTERPRETER, b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0"),
            Some(PreloadObstacle::OwnCalls)
        );
        assert_eq!(find_in_program("gnu", INTERPRETER, b"\x04\0\0\0\0\0\0\0\x03\0\0\0GNU\0"), None);
    }
}
