//! Programs that a preloaded library does not reach, as far as their files tell.
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// Bytes of an ELF header, and of an entry of its table of segments.
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

/// Why a preloaded library does not reach a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// It is statically linked: no loader runs.
    Static,
    /// It makes system calls directly, not through the C library.
    OwnCalls,
    /// It runs with the rights of another user, so the loader ignores `LD_PRELOAD`.
    OtherUser,
}

impl Unreached {
    /// Why the program in this file is not reached; `None` for one that is, or that cannot be read.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
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

    /// The cause, for a sentence that begins with the program's name.
    #[must_use]
    pub fn cause(self) -> &'static str {
        match self {
            Self::Static => "is statically linked, so calls of it are not caught",
            Self::OwnCalls => "is written in Go, which makes system calls that are not caught",
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
    let table = u64_at(&header, 32)?;
    let count = u16::from_le_bytes(header.get(56..58)?.try_into().ok()?);
    for number in 0..count.min(SEGMENTS_MAX) {
        let mut segment = [0; SEGMENT];
        let at = table.checked_add(u64::from(number) * SEGMENT as u64)?;
        file.read_exact_at(&mut segment, at).ok()?;
        let kind = u32::from_le_bytes(segment.get(..4)?.try_into().ok()?);
        visit(kind, u64_at(&segment, 8)?, u64_at(&segment, 32)?);
    }
    Some(())
}

/// Go's linker adds a note of its own to static and dynamic programs.
fn has_note_of_go(file: &File, offset: u64, length: u64) -> bool {
    let mut notes = vec![0; length.min(NOTES_BYTES_MAX) as usize];
    file.read_exact_at(&mut notes, offset).is_ok() && notes.windows(4).any(|name| name == b"Go\0\0")
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_system_are_reached() {
        assert_eq!(Unreached::of(&std::env::current_exe().unwrap()), None);
        assert_eq!(Unreached::of(Path::new("/dev/null")), None);
    }

    /// A program with two segments, followed by `more`.
    fn made(name: &str, kind: u32, more: &[u8]) -> Option<Unreached> {
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
        let found = Unreached::of(&path);
        std::fs::remove_file(path).unwrap();
        found
    }

    #[test]
    fn programs_without_a_loader_and_those_in_go_are_not() {
        assert_eq!(made("static", 1, b"\x04\0\0\0"), Some(Unreached::Static));
        assert_eq!(
            made("go", INTERPRETER, b"\x04\0\0\0\0\0\0\0\x04\0\0\0Go\0\0"),
            Some(Unreached::OwnCalls)
        );
        assert_eq!(made("gnu", INTERPRETER, b"\x04\0\0\0\0\0\0\0\x03\0\0\0GNU\0"), None);
    }
}
