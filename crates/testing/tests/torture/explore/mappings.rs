//! Files of a pool in the memory and among the descriptors of another process.
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A part of a file that a process has mapped.
struct Mapping {
    addresses: Range<u64>,
    offset: u64,
    file: String,
    is_writable: bool,
}

/// The mappings of a process.
pub(super) struct Mappings {
    process: u32,
    /// Directory of the pools.
    home: PathBuf,
    /// Mappings of files of the pools.
    shared: Vec<Mapping>,
    /// Mappings of all other files.
    others: Vec<Mapping>,
}

impl Mappings {
    pub(super) fn new(process: u32, home: &Path) -> Self {
        let (shared, others) = (Vec::new(), Vec::new());
        let mut mappings = Self { process, home: home.to_owned(), shared, others };
        mappings.refresh();
        mappings
    }

    /// Reads them again, after the process has changed them.
    pub(super) fn refresh(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.process));
        let home = format!("{}/", self.home.display());
        self.shared.clear();
        self.others.clear();
        for mapping in maps.expect("the mappings of a process").lines().filter_map(parse) {
            match mapping.file.strip_prefix(&home) {
                Some(file) => self.shared.push(Mapping { file: file.to_owned(), ..mapping }),
                None => self.others.push(mapping),
            }
        }
    }

    /// Addresses at which the process may write to files of the pools.
    pub(super) fn writable(&self) -> Vec<Range<u64>> {
        let writable = self.shared.iter().filter(|mapping| mapping.is_writable);
        writable.map(|mapping| mapping.addresses.clone()).collect()
    }

    /// The location in a pool's file to which an address refers: file and offset.
    pub(super) fn location_of(&self, address: u64) -> Option<(&str, u64)> {
        let found = self.shared.iter().find(|mapping| mapping.addresses.contains(&address))?;
        Some((&found.file, address - found.addresses.start + found.offset))
    }

    /// The pool's file behind a descriptor.
    pub(super) fn file_of(&self, descriptor: u64) -> Option<String> {
        let link = format!("/proc/{}/fd/{}", self.process, descriptor as u32);
        let path = std::fs::read_link(link).ok()?;
        let file = path.strip_prefix(&self.home).ok()?;
        Some(file.display().to_string())
    }

    /// Function and line of an instruction, if `addr2line` is installed; else its address in the program or library.
    pub(super) fn symbol_at(&self, address: u64) -> String {
        let Some(code) = self.others.iter().find(|it| it.addresses.contains(&address)) else {
            return format!("{address:#x}");
        };
        let first = self.others.iter().find(|it| it.file == code.file);
        let relative = format!("{:#x}", address - first.map_or(0, |it| it.addresses.start));
        let tool = Command::new("addr2line").args(["-Cfpse", &code.file, &relative]).output();
        let said = tool.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        format!("{} ({}+{relative})", said.unwrap_or_default(), code.file)
    }
}

/// Parses `begin-end permissions offset device inode path`.
fn parse(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (begin, end) = words.next()?.split_once('-')?;
    let (permissions, offset) = (words.next()?, words.next()?);
    let number = |text| u64::from_str_radix(text, 16).ok();
    let addresses = number(begin)?..number(end)?;
    let (file, is_writable) = (words.nth(2)?.to_owned(), permissions.contains('w'));
    Some(Mapping { addresses, offset: number(offset)?, file, is_writable })
}
