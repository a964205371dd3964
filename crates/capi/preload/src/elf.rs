//! The dynamic section of an ELF file: the libraries that a library or program needs from the loader.
use object::elf::{
    DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, DynamicTag, FileHeader64, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// Entries that name the needed libraries, and the directories to search for them.
#[derive(Default)]
pub(crate) struct Dynamic {
    /// Names or paths of libraries.
    pub(crate) needed: Vec<Vec<u8>>,
    /// Directories, separated by colons, in which the loader searches before `LD_LIBRARY_PATH`.
    pub(crate) rpath: Option<Vec<u8>>,
    /// Directories in which it searches after that. The loader then ignores `rpath`.
    pub(crate) runpath: Option<Vec<u8>>,
}

impl Dynamic {
    /// Reads the dynamic section of the file at `path`; `None` if it is not a 64-bit ELF file, or has no dynamic
    /// section.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let file = ReadCache::new(File::open(path).ok()?);
        parse(&file)
    }
}

/// Parses the dynamic section of a program or library. `None` as for [`Dynamic::read`].
fn parse<'a>(file: impl ReadRef<'a>) -> Option<Dynamic> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, file).ok()?)?;
    let values = |tag: DynamicTag| {
        let of_tag = entries.iter().filter(move |entry| entry.d_tag(endian) == tag);
        of_tag.map(move |entry| entry.d_val(endian))
    };
    let (start, length) = (values(DT_STRTAB).next()?, values(DT_STRSZ).next()?);
    // Offset of the string table in the file; `start` is its address in memory.
    let place = segments.iter().find_map(|segment| {
        let below = start.checked_sub(segment.p_vaddr(endian))?;
        let is_there = segment.p_type(endian) == PT_LOAD && below < segment.p_filesz(endian);
        is_there.then_some(segment.p_offset(endian).checked_add(below)?)
    })?;
    // Reads each text by itself: the string table of a large library has megabytes.
    let text = |at: u64| {
        let range = place.checked_add(at)?..place.checked_add(length)?;
        file.read_bytes_at_until(range, 0).ok().map(<[u8]>::to_vec)
    };
    Some(Dynamic {
        needed: values(DT_NEEDED).filter_map(text).collect(),
        rpath: values(DT_RPATH).find_map(text),
        runpath: values(DT_RUNPATH).find_map(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    const ENTRY: usize = 16;
    /// Difference between the addresses of the file's contents and their offsets.
    const BASE: u64 = 0x40_0000;

    /// The values as little-endian words.
    fn words(values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// A program header: type, offset in the file and bytes of the segment.
    fn segment(kind: u32, offset: usize, bytes: usize) -> Vec<u8> {
        let (offset, bytes) = (offset as u64, bytes as u64);
        let place = [offset, BASE + offset, BASE + offset, bytes, bytes, 8];
        [&kind.to_le_bytes()[..], &4_u32.to_le_bytes(), &words(&place)].concat()
    }

    /// A library that needs two others, with paths to search.
    fn library() -> Vec<u8> {
        let names = b"\0libm.so.6\0libesker.so\0/opt/lib:/lib\0$ORIGIN\0";
        let at =
            |name: &[u8]| names.windows(name.len()).position(|part| part == name).unwrap() as u64;
        let dynamic = HEADER + 2 * SEGMENT;
        let table = dynamic + 7 * ENTRY;
        let entries = words(&[
            DT_NEEDED.0 as u64,
            at(b"libm"),
            DT_NEEDED.0 as u64,
            at(b"libesker"),
            DT_RPATH.0 as u64,
            at(b"/opt"),
            DT_RUNPATH.0 as u64,
            at(b"$ORIGIN"),
            DT_STRTAB.0 as u64,
            BASE + table as u64,
            DT_STRSZ.0 as u64,
            names.len() as u64,
            0,
            0,
        ]);
        let whole = table + names.len();
        let ident = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0";
        let halves = |values: &[u16]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        [
            &ident[..],
            &halves(&[3, 62]),
            &1_u32.to_le_bytes(),
            &words(&[0, HEADER as u64, 0]),
            &0_u32.to_le_bytes(),
            &halves(&[HEADER as u16, SEGMENT as u16, 2, 0, 0, 0]),
            &segment(PT_LOAD.0, 0, whole),
            &segment(object::elf::PT_DYNAMIC.0, dynamic, 7 * ENTRY),
            &entries,
            names,
        ]
        .concat()
    }

    #[test]
    fn the_dynamic_section_is_read() {
        let dynamic = parse(&library()[..]).unwrap();
        assert_eq!(dynamic.needed, [&b"libm.so.6"[..], b"libesker.so"]);
        assert_eq!(dynamic.rpath.as_deref(), Some(&b"/opt/lib:/lib"[..]));
        assert_eq!(dynamic.runpath.as_deref(), Some(&b"$ORIGIN"[..]));
    }

    #[test]
    fn fuzz_libraries() {
        let known = [library()];
        esker_testing::fuzz("elf", &known, |bytes| {
            let kept = parse(bytes);
            let read = parse(&ReadCache::new(Cursor::new(bytes)));
            let names = |dynamic: Option<Dynamic>| dynamic.map(|dynamic| dynamic.needed);
            let (kept, read) = (names(kept), names(read));
            assert_eq!(kept, read);
            let longest = read.iter().flatten().map(Vec::len).max().unwrap_or(0);
            assert!(longest <= bytes.len(), "{longest}");
        });
    }
}
