//! Files of a pool in the memory and among the descriptors of another process.
use libc::pid_t;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A part of a file that a process has mapped.
struct Mapping {
    addresses: Range<u64>,
    offset: u64,
    file: String,
}

/// The mappings of a process.
pub(super) struct Mappings {
    pid: pid_t,
    /// Directory of the pools.
    home: PathBuf,
    shared: Vec<Mapping>,
    code: Vec<Mapping>,
}

impl Mappings {
    pub(super) fn new(pid: pid_t, home: &Path) -> Self {
        let (shared, code) = (Vec::new(), Vec::new());
        let mut mappings = Self { pid, home: home.to_owned(), shared, code };
        mappings.refresh();
        mappings
    }

    /// Reads them again, after the process has changed them.
    pub(super) fn refresh(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("mappings");
        let home = format!("{}/", self.home.display());
        self.shared.clear();
        self.code.clear();
        for (mapping, permissions) in maps.lines().filter_map(parse) {
            match mapping.file.strip_prefix(&home) {
                Some(file) => self.shared.push(Mapping { file: file.to_owned(), ..mapping }),
                None if permissions.contains('x') => self.code.push(mapping),
                None => {}
            }
        }
    }

    /// The place in a pool's file to which an address refers: file and offset.
    pub(super) fn place_of(&self, address: u64) -> Option<(&str, u64)> {
        locate(&self.shared, address)
    }

    /// The place in a program or library to which an address refers.
    pub(super) fn code_at(&self, address: u64) -> Option<(&str, u64)> {
        locate(&self.code, address)
    }

    /// The pool's file behind a descriptor.
    pub(super) fn file_of(&self, descriptor: u64) -> Option<String> {
        let link = format!("/proc/{}/fd/{}", self.pid, descriptor as u32);
        let path = std::fs::read_link(link).ok()?;
        let file = path.strip_prefix(&self.home).ok()?;
        Some(file.display().to_string())
    }
}

fn locate(mappings: &[Mapping], address: u64) -> Option<(&str, u64)> {
    let found = mappings.iter().find(|mapping| mapping.addresses.contains(&address))?;
    Some((&found.file, address - found.addresses.start + found.offset))
}

/// Parses `begin-end permissions offset device inode path`.
fn parse(line: &str) -> Option<(Mapping, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let (permissions, offset) = (words.next()?, words.next()?);
    let number = |text| u64::from_str_radix(text, 16).ok();
    let addresses = number(begin)?..number(end)?;
    let file = words.nth(2)?.to_owned();
    Some((Mapping { addresses, offset: number(offset)?, file }, permissions))
}
