//! What a library or program demands of the loader: the dynamic section of an ELF file.
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_LOAD};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::path::Path;

/// The entries that decide which other libraries are loaded, and from where.
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
    /// Of the file at this path; `None` if it is no ELF file of 64 bits, or has no dynamic section.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let file = ReadCache::new(File::open(path).ok()?);
        parse(&file)
    }
}

fn parse<'a>(file: impl ReadRef<'a>) -> Option<Dynamic> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let entries = segments.iter().find_map(|segment| segment.dynamic(endian, file).ok()?)?;
    let values = |tag: u32| {
        let of_tag = entries.iter().filter(move |entry| entry.tag32(endian) == Some(tag));
        of_tag.map(move |entry| entry.d_val(endian))
    };
    let (start, length) = (values(DT_STRTAB).next()?, values(DT_STRSZ).next()?);
    let place = segments.iter().find_map(|segment| {
        let below = start.checked_sub(segment.p_vaddr(endian))?;
        let is_there = segment.p_type(endian) == PT_LOAD && below < segment.p_filesz(endian);
        is_there.then_some(segment.p_offset(endian).checked_add(below)?)
    })?;
    // One by one: the table of a large library has megabytes.
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
