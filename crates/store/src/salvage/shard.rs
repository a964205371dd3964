//! Files of one target of a damaged pool.
use super::Losses;
use crate::data;
use crate::format::keys::Table;
use crate::format::record::Location;
use crate::format::superblock::{self, Superblock};
use crate::index::lmdb::DATA;
use crate::index::pages::{DamagedIndex, Finding};
use crate::io::folder::{Folder, Use};
use crate::shard::redo::{flushed_key, left_in_log};
use crate::shared::control::{LeftInBuffer, left_in_buffer};
use crate::shared::write_buffer::{Put, Puts};
use esker_types::limits::CHECKSUM_CHUNK;
use esker_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Files of one target of a damaged pool, as far as they can be opened.
pub(super) struct Shard {
    number: u32,
    index: Option<DamagedIndex>,
    /// Puts of the write buffer that are not in the index yet.
    buffered: Puts,
    data: Option<File>,
    segments: u32,
    segment_bytes: u64,
}

impl Shard {
    /// Opens the files of a target that exist. Missing files are reported as losses, and the others are still read.
    pub(super) fn open(
        pool: &Folder,
        superblock: &Superblock,
        number: u32,
        losses: &mut Losses,
    ) -> Result<Self> {
        let (mode, bytes) = (superblock.directory_permissions_max(), superblock.index_file_bytes());
        let permissions = superblock.file_permissions();
        let folder = pool.folder(&superblock::target_name(number), mode);
        let folder = or_report_loss(folder, number, losses)?;
        let index = folder.as_ref().map(|folder| {
            let index = folder.folder(superblock::INDEX, mode);
            index.and_then(|index| index.file(DATA, Use::Read, permissions))
        });
        let data = folder.as_ref().map(|folder| folder.file(data::NAME, Use::Read, permissions));
        let index = index.map(|file| or_report_loss(file, number, losses)).transpose()?.flatten();
        let data = data.map(|file| or_report_loss(file, number, losses)).transpose()?.flatten();
        let index = index.map(|file| DamagedIndex::open(file, bytes));
        let mut shard = Self {
            number,
            index,
            buffered: Puts::default(),
            data,
            segments: superblock.segments,
            segment_bytes: superblock.segment_bytes,
        };
        if let Some(last) = shard.index.as_ref().and_then(DamagedIndex::last_commit) {
            let left = match superblock.has_redo_log() {
                // With a damaged meta page, a later commit may be lost. The puts on top of it are still in the log.
                true => shard.left_in_redo_log(shard.meta_damage().map_or(last, |_| u64::MAX)),
                false => left_in_buffer(pool, superblock, number, last),
            };
            shard.buffered = puts_or_rest(left, number, losses)?;
        }
        Ok(shard)
    }

    /// Puts of the redo log on top of commit `last` or an earlier one.
    fn left_in_redo_log(&self, last: u64) -> Result<LeftInBuffer> {
        let Some(file) = &self.data else { return Ok(LeftInBuffer::default()) };
        let bytes = data::read_redo_log(file, u64::from(self.segments) * self.segment_bytes)?;
        let flushed = self.flushed()?;
        // True if no byte of the data at a location is damaged.
        let is_stored = |_: &[u8], place: &Location<'_>| {
            self.load(place, u64::from(place.covered), &mut Vec::new()).is_empty()
        };
        left_in_log(&bytes, (flushed.as_deref(), last), is_stored)
    }

    /// The entry of the index about the last write buffer that a commit includes; `None` if there is none.
    fn flushed(&self) -> Result<Option<Vec<u8>>> {
        let (mut value, mut has_gap) = (None, false);
        let mut found = |finding: Finding<'_>| {
            match finding {
                Finding::Entry(key, found) if *key == *flushed_key() => {
                    value = Some(found.to_vec());
                }
                Finding::Gap(_) => has_gap = true,
                _ => {}
            }
            Ok(())
        };
        self.visit_wanted(|key| Table::of_key(key) == Some(Table::Flushed), &mut found)?;
        match value.is_none() && has_gap {
            true => Err(Error::new(
                ErrorKind::Corrupt,
                "it is not known which puts of the redo log are in the index: they are left out",
            )),
            false => Ok(value),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Puts of the write buffer that are not in the index yet.
    pub(super) fn buffered(&self) -> impl Iterator<Item = Put<'_>> {
        self.buffered.iter()
    }

    pub(super) fn has_index(&self) -> bool {
        self.index.is_some()
    }

    /// Damage of the meta pages of the index, if any.
    pub(super) fn meta_damage(&self) -> Option<&str> {
        self.index.as_ref().and_then(DamagedIndex::meta_damage)
    }

    /// Number of entries according to the meta page of the index.
    pub(super) fn entries(&self) -> u64 {
        self.index.as_ref().map_or(0, DamagedIndex::entries)
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.index.as_ref().is_none_or(DamagedIndex::is_unchanged)
    }

    /// Reports all entries and gaps of the index.
    pub(super) fn visit(&self, found: &mut dyn FnMut(Finding<'_>) -> Result<()>) -> Result<()> {
        self.visit_wanted(is_wanted, found)
    }

    /// Passes all entries and gaps of the index to `found`. Values on overflow pages are read only for `wanted` keys.
    fn visit_wanted(
        &self,
        wanted: fn(&[u8]) -> bool,
        found: &mut dyn FnMut(Finding<'_>) -> Result<()>,
    ) -> Result<()> {
        self.index.as_ref().map_or(Ok(()), |index| index.visit(wanted, found))
    }

    /// Reads `len` bytes at a location; returns the damaged ranges among them, whose bytes are zero.
    pub(super) fn load(
        &self,
        place: &Location<'_>,
        len: u64,
        bytes: &mut Vec<u8>,
    ) -> Vec<Range<u64>> {
        bytes.clear();
        bytes.resize(len as usize, 0);
        let end = u64::from(place.base) + u64::from(place.covered);
        let file = self
            .data
            .as_ref()
            .filter(|_| place.segment < self.segments && end <= self.segment_bytes);
        let Some(file) = file else { return std::iter::once(0..len).collect() };
        let base = u64::from(place.segment) * self.segment_bytes + u64::from(place.base);
        let skipped = u64::from(place.offset - place.base);
        let mut damaged = Vec::new();
        let chunks = skipped / CHUNK..(skipped + len).div_ceil(CHUNK);
        for index in chunks {
            let from = index * CHUNK;
            let mut chunk = vec![0; CHUNK.min(u64::from(place.covered) - from) as usize];
            let read = file.read_exact_at(&mut chunk, base + from);
            let is_sound =
                read.is_ok() && place.checksum.matches(&chunk, place.sums, index as usize);
            let first = from.max(skipped);
            let part = first - skipped..(from + chunk.len() as u64).min(skipped + len) - skipped;
            match is_sound {
                true => {
                    let found = &chunk[(first - from) as usize..];
                    let room = &mut bytes[part.start as usize..part.end as usize];
                    room.copy_from_slice(&found[..room.len()]);
                }
                false => damaged.push(part),
            }
        }
        damaged
    }
}

const CHUNK: u64 = CHECKSUM_CHUNK as u64;

/// True unless the entry only reserves space.
fn is_wanted(key: &[u8]) -> bool {
    !matches!(Table::of_key(key), Some(Table::Block | Table::ReservedPages))
}

/// Buffered puts. If the buffer is damaged, reports a loss and returns the puts that are left.
fn puts_or_rest(left: Result<LeftInBuffer>, number: u32, losses: &mut Losses) -> Result<Puts> {
    let left = or_report_loss(left, number, losses)?.unwrap_or_default();
    if let Some(error) = left.damage {
        losses.note(1, || format!("target {number}: {}", error.message()));
    }
    Ok(left.puts)
}

/// Reports an error of opening as a loss, and returns `None`. Missing permissions, or files that were replaced, are
/// errors and not damage.
fn or_report_loss<T>(opened: Result<T>, number: u32, losses: &mut Losses) -> Result<Option<T>> {
    match opened {
        Err(error) if error.kind() == ErrorKind::NoPermission => Err(error),
        Err(error) => {
            losses.note(1, || format!("target {number}: {}", error.message()));
            Ok(None)
        }
        Ok(opened) => Ok(Some(opened)),
    }
}
