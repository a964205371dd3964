//! Superblock: the file `pool` that describes a pool directory. It is a text file of lines `name = value` and is
//! written once.
use crate::io::folder::{Folder, Use};
use esker_types::info::{Durability, Medium, Part};
use esker_types::limits::INDEX_BLOCKS_MAX;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Supported page size of an index in bytes. LMDB uses the page size of the machine.
pub(crate) const PAGE: usize = 4096;

/// Format version of a pool on one node without write buffers.
pub const FORMAT_VERSION: u32 = 2;
/// Format version of a node's pool within a pool over nodes. Opened alone, it contains only a share of the data.
pub(crate) const PART_VERSION: u32 = 3;
/// Experimental format version of pools with a log of puts before each index. Such a pool can be opened if the log is
/// empty.
const OLD_LOG_VERSION: u32 = 4;
/// Format version of pools with durability `process` that have write buffers.
pub(crate) const BUFFER_VERSION: u32 = 5;
/// Format version of pools with durability `commit` that have write buffers, and redo logs for them.
pub(crate) const REDO_VERSION: u32 = 6;
/// Bytes of the redo log of a target. A full write buffer fits.
pub(crate) const REDO_LOG_BYTES: u64 = 80 << 10;
/// Oldest supported format version. In it, index and data have fixed sizes.
const FIXED_SHARES: u32 = 1;

/// Users of a pool besides its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No other user.
    Private,
    /// Members of the directory's group.
    Group,
}

/// Properties of a pool that are fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Version of the format.
    pub version: u32,
    /// UUID of the pool.
    pub uuid: Uuid,
    /// Label of the pool.
    pub label: String,
    /// Number of targets.
    pub targets: u32,
    /// Bytes allocated to the index of each target, without the segments that it uses.
    pub index_bytes: u64,
    /// Number of blocks by which the index of each target can grow; zero if it cannot grow.
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Number of segments of each target.
    pub segments: u32,
    /// Medium of the files.
    pub medium: Medium,
    /// Failure that an acknowledged update survives.
    pub durability: Durability,
    /// True if the index is written by system calls, so that stray pointers cannot damage it.
    pub guarded: bool,
    /// Users of the pool.
    pub access: Access,
    /// Number of the node and of all nodes, if it belongs to a pool over nodes.
    pub part: Part,
}

/// Name of the superblock in the directory of a pool.
pub(crate) const NAME: &str = "pool";
/// Maximum number of bytes of the file that are read.
const BYTES_MAX: u64 = 1 << 16;

/// Name of the directory for lock files of programs, in the directory of a pool.
pub const LOCKS: &str = "locks";

/// Name of the directory of target `number`, in the directory of a pool.
pub(crate) fn target_name(number: u32) -> String {
    format!("target-{number}")
}

/// Name of the directory of the index, in the directory of a target.
pub(crate) const INDEX: &str = "index";

/// Path of the superblock of the pool at `pool`.
pub(crate) fn path(pool: &Path) -> PathBuf {
    pool.join(NAME)
}

impl Superblock {
    /// Permissions of files of the pool.
    pub(crate) fn file_permissions(&self) -> u32 {
        match self.access {
            Access::Private => 0o600,
            Access::Group => 0o660,
        }
    }

    /// Permissions of directories of the pool. No file is created in them after the creation of the pool: members of a
    /// group change the content of files, but not the set of files.
    pub(crate) fn directory_permissions(&self) -> u32 {
        match self.access {
            Access::Private => 0o700,
            Access::Group => 0o2750,
        }
    }

    /// The widest permissions that a directory of the pool may have. The directory for lock files has them, since users
    /// of the pool create files there. In the first release, all directories had them.
    pub(crate) fn directory_permissions_max(&self) -> u32 {
        match self.access {
            Access::Private => 0o700,
            Access::Group => 0o2770,
        }
    }

    /// True if the format supports long keys.
    pub(crate) fn has_long_keys(&self) -> bool {
        self.version > FIXED_SHARES
    }

    /// True if small puts go to write buffers first.
    #[must_use]
    pub fn has_write_buffer(&self) -> bool {
        [BUFFER_VERSION, REDO_VERSION].contains(&self.version)
    }

    /// True if the puts in a write buffer are also in a redo log.
    pub(crate) fn has_redo_log(&self) -> bool {
        self.version == REDO_VERSION
    }

    /// True if the format has the log that write buffers replaced.
    pub(crate) fn has_old_log(&self) -> bool {
        self.version == OLD_LOG_VERSION
    }

    /// Bytes allocated for data on each target.
    pub(crate) fn data_file_bytes(&self) -> u64 {
        u64::from(self.segments) * self.segment_bytes
    }

    /// Bytes allocated for the redo log of each target.
    pub(crate) fn redo_log_bytes(&self) -> u64 {
        if self.has_redo_log() { REDO_LOG_BYTES } else { 0 }
    }

    /// Bytes allocated for data on all targets.
    pub(crate) fn data_bytes(&self) -> u64 {
        u64::from(self.targets) * self.data_file_bytes()
    }

    /// Bytes of the file of each index, not all of which are allocated.
    pub(crate) fn index_file_bytes(&self) -> u64 {
        self.index_bytes + u64::from(self.blocks) * self.block_bytes
    }

    /// Bytes that are initially allocated for the index of each target: its own ones and the first page of each block.
    pub(crate) fn index_reserved_bytes(&self) -> u64 {
        self.index_bytes + u64::from(self.blocks) * PAGE as u64
    }

    /// Bytes that the pool allocates on its file system.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        let rest = self.index_reserved_bytes() + self.redo_log_bytes();
        self.data_bytes() + u64::from(self.targets) * rest
    }

    /// Reads the superblock of the pool at `pool`.
    ///
    /// # Errors
    /// `NotFound` if there is not a pool, `Incompatible` for another format version, `Corrupt` if the superblock is
    /// invalid.
    pub fn read(pool: &Path) -> Result<Self> {
        match Folder::open(pool).and_then(|folder| Self::read_in(&folder)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::NotFound, format!("{} is not a pool", pool.display())))
            }
            other => other,
        }
    }

    /// Reads the superblock in the directory of a pool. Verifies owner and write permissions of both.
    pub(crate) fn read_in(pool: &Folder) -> Result<Self> {
        let path = path(pool.path());
        let file = pool.any_file(NAME, Use::Read)?;
        let mut text = String::new();
        let read = (&file).take(BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| Error::io(format_args!("reading {}", path.display()), &error))?;
        let superblock = Self::parse(&text).map_err(|error| {
            Error::new(error.kind(), format!("{}: {}", path.display(), error.message()))
        })?;
        pool.check(NAME, &file, superblock.file_permissions())?;
        pool.limit_writers(superblock.directory_permissions_max())?;
        Ok(superblock)
    }

    /// Parses the text of a superblock. `Incompatible` for another format version, `Corrupt` for invalid or missing
    /// lines.
    fn parse(text: &str) -> Result<Self> {
        let fields = Fields(text);
        let version: u32 = fields.number("format")?;
        if !(FIXED_SHARES..=REDO_VERSION).contains(&version) {
            let message = format!(
                "format version {version}, this release reads versions {FIXED_SHARES} to {REDO_VERSION}: \
                 use the release that made the pool"
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        let is_fixed = version == FIXED_SHARES;
        let superblock = Self {
            version,
            uuid: Uuid::parse(fields.get("uuid")?).ok_or_else(|| invalid_field("uuid"))?,
            label: fields.get("label")?.to_owned(),
            targets: fields.number("targets")?,
            index_bytes: fields.number("index_bytes")?,
            blocks: if is_fixed { 0 } else { fields.number("blocks")? },
            block_bytes: if is_fixed { PAGE as u64 } else { fields.number("block_bytes")? },
            segment_bytes: fields.number("segment_bytes")?,
            segments: fields.number("segments")?,
            medium: fields
                .choice("medium", &[("memory", Medium::Memory), ("block", Medium::Block)])?,
            durability: fields.choice(
                "durability",
                &[("process", Durability::Process), ("commit", Durability::Commit)],
            )?,
            guarded: fields.choice("index", &[("mapped", false), ("guarded", true)])?,
            access: fields
                .choice("access", &[("private", Access::Private), ("group", Access::Group)])?,
            part: match version {
                PART_VERSION => {
                    Part { node: fields.number("node")?, nodes: fields.number("nodes")? }
                }
                _ => Part::WHOLE,
            },
        };
        superblock.check()?;
        Ok(superblock)
    }

    /// Refuses values with which a pool cannot be created.
    fn check(&self) -> Result<()> {
        let targets = 1..=esker_types::limits::TARGETS_MAX as u32;
        let sound = targets.contains(&self.targets)
            && is_segment_size(self.segment_bytes)
            && (1..1 << 24).contains(&self.segments)
            && (1 << 16..1 << 46).contains(&self.index_bytes)
            && self.block_bytes.is_multiple_of(PAGE as u64)
            && (PAGE as u64..=self.segment_bytes).contains(&self.block_bytes)
            && self.blocks <= INDEX_BLOCKS_MAX
            && self.part.is_valid()
            && !(self.has_write_buffer() && self.guarded)
            && (self.version != BUFFER_VERSION || self.durability == Durability::Process)
            && (self.version != REDO_VERSION || self.durability == Durability::Commit)
            && (self.version == PART_VERSION) == (self.part != Part::WHOLE);
        if sound { Ok(()) } else { Err(invalid_field("sizes")) }
    }

    /// The text of the superblock.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let medium = if self.medium == Medium::Memory { "memory" } else { "block" };
        let durability = if self.durability == Durability::Commit { "commit" } else { "process" };
        let access = if self.access == Access::Group { "group" } else { "private" };
        let index = if self.guarded { "guarded" } else { "mapped" };
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{name} = {value}");
        };
        line("format", &self.version);
        line("uuid", &self.uuid);
        line("label", &self.label);
        line("targets", &self.targets);
        line("index_bytes", &self.index_bytes);
        line("blocks", &self.blocks);
        line("block_bytes", &self.block_bytes);
        line("segment_bytes", &self.segment_bytes);
        line("segments", &self.segments);
        line("medium", &medium);
        line("durability", &durability);
        line("index", &index);
        line("access", &access);
        if self.part != Part::WHOLE {
            line("node", &self.part.node);
            line("nodes", &self.part.nodes);
        }
        text
    }
}

/// Lines `name = value` of a superblock.
struct Fields<'t>(&'t str);

fn invalid_field(name: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("`{name}` is missing or invalid"))
}

impl<'t> Fields<'t> {
    /// Value of a field, as text.
    fn get(&self, name: &str) -> Result<&'t str> {
        let lines = self.0.lines().filter_map(|line| line.split_once('='));
        let mut found = lines.filter(|(known, _)| known.trim() == name);
        found.next().map(|(_, value)| value.trim()).ok_or_else(|| invalid_field(name))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        self.get(name)?.parse().map_err(|_| invalid_field(name))
    }

    /// Value of a field that must be one of the named `choices`.
    fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T> {
        let value = self.get(name)?;
        let found = choices.iter().find(|(known, _)| *known == value);
        found.map(|(_, choice)| *choice).ok_or_else(|| invalid_field(name))
    }
}

/// True if segments may have this size: a multiple of 4096 whose offsets fit into 32 bits.
pub(crate) fn is_segment_size(bytes: u64) -> bool {
    bytes.is_multiple_of(4096) && (1 << 16..=1 << 30).contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            version: FORMAT_VERSION,
            uuid: Uuid([7; 16]),
            label: "tank".to_owned(),
            targets: 2,
            index_bytes: 1 << 24,
            blocks: 64,
            block_bytes: 1 << 19,
            segment_bytes: 1 << 20,
            segments: 64,
            medium: Medium::Block,
            durability: Durability::Commit,
            guarded: false,
            access: Access::Group,
            part: Part::WHOLE,
        }
    }

    #[test]
    fn node_numbers_round_trip() {
        let part = Part { node: 2, nodes: 3 };
        let superblock = Superblock { part, version: PART_VERSION, ..sample() };
        let text = superblock.to_text();
        assert_eq!(Superblock::parse(&text), Ok(superblock));
        for wrong in ["node = 3", "node = -1", ""] {
            assert!(Superblock::parse(&text.replace("node = 2", wrong)).is_err(), "{wrong}");
        }
        assert!(
            Superblock::parse(&text.replace("format = 3", "format = 2"))
                .is_ok_and(|whole| whole.part == Part::WHOLE)
        );
    }

    #[test]
    fn text_round_trips_and_other_versions_are_refused() {
        let superblock = sample();
        let text = superblock.to_text();
        assert_eq!(Superblock::parse(&text), Ok(superblock));
        let newer = text.replace("format = 2", "format = 7");
        assert_eq!(Superblock::parse(&newer).unwrap_err().kind(), ErrorKind::Incompatible);
        for line in text.lines() {
            assert!(Superblock::parse(&text.replace(line, "")).is_err(), "without {line}");
        }
    }

    #[test]
    fn pools_of_first_version_have_fixed_sizes_and_no_long_keys() {
        let old = "format = 1\nuuid = 07070707-0707-0707-0707-070707070707\nlabel = tank\ntargets = 2\n\
                   index_bytes = 16777216\nsegment_bytes = 1048576\nsegments = 64\nmedium = block\n\
                   durability = commit\nindex = mapped\naccess = private\n";
        let superblock = Superblock::parse(old).unwrap();
        assert_eq!((superblock.blocks, superblock.index_file_bytes()), (0, 1 << 24));
        assert!(!superblock.has_long_keys() && sample().has_long_keys());
    }

    #[test]
    fn random_superblocks_are_read_or_refused() {
        let mut random = crate::tests::Random::new(5);
        let names = ["format", "uuid", "label", "targets", "index_bytes", "segment_bytes"];
        for _ in 0..esker_testing::rounds(5_000) {
            let line = |name: &&str| {
                let value = String::from_utf8_lossy(&random.bytes(24)).into_owned();
                format!("{name} = {value}\n")
            };
            let text: String = names.iter().map(line).collect();
            assert!(Superblock::parse(&text).is_err());
            assert!(Superblock::parse(&String::from_utf8_lossy(&random.bytes(300))).is_err());
        }
    }

    #[test]
    fn fuzz_superblocks() {
        esker_testing::fuzz("superblock", &[sample().to_text().into_bytes()], |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(superblock) = Superblock::parse(&text) {
                assert_eq!(Superblock::parse(&superblock.to_text()), Ok(superblock));
            }
        });
    }
}
