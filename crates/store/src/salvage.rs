//! Reads the data of a damaged pool that is still readable, without LMDB and without writing to it.
mod catalog;
mod shard;

use crate::format::keys::{DataKey, Table};
use crate::format::record::{self, Body, Record};
use crate::format::superblock::Superblock;
use crate::index::pages::{Finding, Gap};
use crate::io::folder::Folder;
use crate::pool::{Progress, in_use};
use catalog::Catalog;
use catalog::Overlay;
use esker_types::info::{ContainerId, ContainerInfo};
use esker_types::limits::LOSSES_TOLD_MAX;
use esker_types::{Error, ErrorKind, Extent, ObjectId, Result};
use shard::Shard;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A pool that may be damaged. It is read from its files as they are.
pub struct Salvage {
    path: PathBuf,
    superblock: Superblock,
    shards: Vec<Shard>,
    catalog: Catalog,
    losses: Losses,
}

/// A value, or some records of an array, as stored.
pub struct Salvaged<'s> {
    /// The container.
    pub container: ContainerId,
    /// The object.
    pub oid: ObjectId,
    /// The dkey.
    pub dkey: &'s [u8],
    /// The akey.
    pub akey: &'s [u8],
    /// Content of the akey.
    pub value: SalvagedValue<'s>,
}

/// Content of an akey.
pub enum SalvagedValue<'s> {
    /// A single value.
    Single(&'s [u8]),
    /// Adjacent records of an array.
    Array {
        /// Bytes per record.
        record_size: u64,
        /// Indices of the records.
        extent: Extent,
        /// Bytes of the records.
        bytes: &'s [u8],
    },
}

/// Known properties of a container.
#[derive(Clone, Debug, Default)]
pub struct SalvagedContainer {
    /// Label, UUID and properties; `None` if they are lost.
    pub info: Option<ContainerInfo>,
    /// Attributes and properties, by their names in the pool.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// First object id of the next allocation.
    pub next_oid: Option<u64>,
    /// Number of snapshots.
    pub snapshots: u64,
}

/// Callback for each value that is found.
type Receive<'h> = &'h mut dyn FnMut(Salvaged<'_>) -> Result<()>;

impl Salvage {
    /// Opens the pool at `path` for reading and finds its containers.
    ///
    /// # Errors
    /// `NotFound` if there is not a pool, `Busy` if a process has it open.
    pub fn open(path: &Path) -> Result<Self> {
        let superblock = Superblock::read(path)?;
        let folder = Folder::open(path)?;
        refuse_in_use(&folder, &superblock)?;
        let mut losses = Losses::default();
        let open = |number| Shard::open(&folder, &superblock, number, &mut losses);
        let shards = (0..superblock.targets).map(open).collect::<Result<Vec<_>>>()?;
        let catalog = Catalog::read(&shards)?;
        if catalog.prepared > 0 {
            losses.note(catalog.prepared, || {
                "prepared commits that another node decides: not copied".to_owned()
            });
        }
        Ok(Self { path: path.to_owned(), superblock, shards, catalog, losses })
    }

    /// The superblock of the pool.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Attributes and properties of the pool.
    #[must_use]
    pub fn metadata(&self) -> Vec<(String, Vec<u8>)> {
        self.container(ContainerId(0)).metadata
    }

    /// Containers whose label and UUID are known.
    #[must_use]
    pub fn containers(&self) -> Vec<SalvagedContainer> {
        self.catalog.containers.values().filter(|found| found.info.is_some()).cloned().collect()
    }

    /// Containers whose label and UUID are lost, by number.
    #[must_use]
    pub fn nameless(&self) -> HashMap<ContainerId, SalvagedContainer> {
        let all = self.catalog.containers.iter();
        let nameless = all.filter(|(number, found)| **number > 0 && found.info.is_none());
        nameless.map(|(number, found)| (ContainerId(*number), found.clone())).collect()
    }

    /// Known properties of a container.
    fn container(&self, id: ContainerId) -> SalvagedContainer {
        self.catalog.containers.get(&id.0).cloned().unwrap_or_default()
    }

    /// Losses that have been found so far.
    #[must_use]
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Passes all readable values to `receive`, target by target, sorted by container, object and keys. `progress` gets
    /// the numbers of index entries that were read and of all entries.
    ///
    /// # Errors
    /// Errors of `receive`; `Busy` if a process has changed the pool meanwhile.
    pub fn visit(&mut self, receive: Receive<'_>, progress: Progress<'_>) -> Result<()> {
        let total = self.shards.iter().map(Shard::entries).sum();
        let mut done = 0;
        let Self { shards, catalog, losses, .. } = self;
        for shard in shards.iter() {
            let overlay = catalog.overlay_of(shard);
            let mut reader =
                Reader { shard, overlay, catalog, losses, receive, buffer: Vec::new() };
            reader.read(&mut |step| {
                done += step;
                progress(done, total);
            })?;
        }
        match self.shards.iter().all(Shard::is_unchanged) {
            true => refuse_in_use(&Folder::open(&self.path)?, &self.superblock),
            false => Err(busy_error(&self.path)),
        }
    }
}

fn refuse_in_use(folder: &Folder, superblock: &Superblock) -> Result<()> {
    if in_use(folder, superblock)? { Err(busy_error(folder.path())) } else { Ok(()) }
}

#[cold]
fn busy_error(path: &Path) -> Error {
    let message = format!("{} is in use: end its users, then salvage it again", path.display());
    Error::new(ErrorKind::Busy, message)
}

/// Number of entries between two reports of progress.
const STEP: u64 = 1024;

/// State of reading one target.
struct Reader<'r> {
    shard: &'r Shard,
    overlay: Overlay,
    catalog: &'r mut Catalog,
    losses: &'r mut Losses,
    receive: Receive<'r>,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    /// Reads the entries of the index, then the puts on top of them, and notes the gaps.
    fn read(&mut self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let (mut found, mut gaps) = (0, Vec::new());
        let shard = self.shard;
        shard.visit(&mut |find| {
            let is_there = match find {
                Finding::Gap(gap) => {
                    gaps.push(gap.clone());
                    false
                }
                Finding::Entry(key, value) => self.entry(key, value).map(|()| true)?,
                Finding::Doubtful(key, value) => self.doubtful(key, value)?,
                Finding::Broken(key) => self.broken(key),
            };
            // Entries that do not count are missing at the end, and then reported as losses. A broken one was reported
            // already.
            found += u64::from(is_there);
            if is_there && found % STEP == 0 {
                progress(STEP);
            }
            Ok(())
        })?;
        progress(found % STEP);
        for (key, value) in std::mem::take(&mut self.overlay).into_puts() {
            self.entry(&key, &value)?;
        }
        self.losses.note_gaps(shard, self.catalog, &gaps, found);
        Ok(())
    }

    /// Salvages the record in an index entry. Ignores entries of other tables and of destroyed containers, and entries
    /// that the overlay replaces. A record that cannot be decoded is reported as a loss.
    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_data = Table::of_key(key) == Some(Table::Data);
        if !is_data || self.overlay.hides(key) || self.catalog.is_destroyed(key) {
            return Ok(());
        }
        let parts = DataKey::parse(key);
        match parts.and_then(|parts| Ok((parts, Record::decode(parts.body(), value)?))) {
            Ok((parts, record)) => self.record(&parts, &record),
            Err(_) => {
                self.report_loss(key, None, "its record in the index");
                Ok(())
            }
        }
    }

    /// Salvages an entry of a damaged page if it is a record that matches its checksum, and returns true. Returns false
    /// for other records. For entries that are not records, returns whether the catalog has accepted the entry.
    fn doubtful(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if !record::is_record(key) {
            return Ok(self.catalog.has_accepted(key));
        }
        let sealed = record::checksum_matches(key, value);
        if sealed {
            self.entry(key, value)?;
        }
        Ok(sealed)
    }

    /// Reports an entry without a readable value as a loss. Returns true: the entry must not count as missing too.
    fn broken(&mut self, key: &[u8]) -> bool {
        self.report_loss(key, None, "its record in the index");
        true
    }

    /// Passes the readable values of a record to `receive`, and reports the damaged ones as losses.
    fn record(&mut self, parts: &DataKey<'_>, record: &Record<'_>) -> Result<()> {
        let keys =
            parts.dkey(record.left_out).and_then(|dkey| Ok((dkey, parts.akey(record.left_out)?)));
        let Ok((dkey, akey)) = keys else {
            self.report_loss(parts.whole(), None, "the rest of its long keys");
            return Ok(());
        };
        let (container, oid) = (parts.container(), parts.oid);
        self.catalog.report_if_unknown(container, self.losses);
        let damaged = self.load(record);
        for (extent, place) in runs_of(parts.start, record, &damaged) {
            let Some(bytes) = place.and_then(|place| self.buffer.get(place)) else {
                self.report_loss(parts.whole(), extent, "data");
                continue;
            };
            let record_size = u64::from(record.record_size);
            let value = match extent {
                None => SalvagedValue::Single(bytes),
                Some(extent) => SalvagedValue::Array { record_size, extent, bytes },
            };
            (self.receive)(Salvaged { container, oid, dkey: &dkey, akey: &akey, value })?;
        }
        Ok(())
    }

    /// Reads the bytes of a record into the buffer. Returns the damaged ranges of these bytes.
    fn load(&mut self, record: &Record<'_>) -> Vec<Range<u64>> {
        match record.body {
            Body::Inline(data) => {
                self.buffer.clear();
                self.buffer.extend_from_slice(data);
                Vec::new()
            }
            Body::Segment(place) => self.shard.load(&place, record.bytes(), &mut self.buffer),
        }
    }

    /// Reports that the array records of `extent` under a key are lost, or all its content if `extent` is `None`.
    /// `what` names the lost part of them, such as "data".
    fn report_loss(&mut self, key: &[u8], extent: Option<Extent>, what: &str) {
        let description = self.catalog.describe(key, extent);
        self.losses.note(1, || format!("target {}: {description}: {what}", self.shard.number()));
    }
}

/// Divides the content of a record into runs, each either damaged or undamaged as a whole. `start` is the index of its
/// first array record; `None` for a single value, which is one run. `damaged` are ranges of bytes in the content.
/// Returns the array records of each run (`None` for a single value) and its range of bytes in the content (`None` if
/// the run is damaged).
fn runs_of(
    start: Option<u64>,
    record: &Record<'_>,
    damaged: &[Range<u64>],
) -> Vec<(Option<Extent>, Option<Range<usize>>)> {
    let Some(start) = start else {
        return vec![(None, damaged.is_empty().then_some(0..record.bytes() as usize))];
    };
    let place = |at: u64| at.saturating_mul(u64::from(record.record_size)) as usize;
    let run = |(part, is_sound): (Extent, bool)| {
        let extent = Extent::new(start.saturating_add(part.start), part.count);
        (Some(extent), is_sound.then(|| place(part.start)..place(part.end())))
    };
    parts_of(record, damaged).into_iter().map(run).collect()
}

/// Divides the array records of a record into runs as [`runs_of`] does. Returns the extent of each run, relative to the
/// first array record, and true for runs without `damaged` bytes.
fn parts_of(record: &Record<'_>, damaged: &[Range<u64>]) -> Vec<(Extent, bool)> {
    let size = u64::from(record.record_size).max(1);
    let mut parts = Vec::new();
    let mut next = 0;
    for bad in damaged {
        let first = (bad.start / size).max(next);
        let end = bad.end.div_ceil(size).clamp(first, record.count);
        if first > next {
            parts.push((Extent::new(next, first - next), true));
        }
        if end > first {
            parts.push((Extent::new(first, end - first), false));
        }
        next = end.max(next);
    }
    if record.count > next {
        parts.push((Extent::new(next, record.count - next), true));
    }
    parts
}

/// Losses of a salvage.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Number of losses.
    pub count: u64,
    /// Messages about the first [`LOSSES_TOLD_MAX`] losses.
    pub lines: Vec<String>,
}

impl Losses {
    /// Records `count` losses, which one message describes.
    fn note(&mut self, count: u64, line: impl FnOnce() -> String) {
        self.count += count;
        if self.lines.len() < LOSSES_TOLD_MAX {
            self.lines.push(line());
        }
    }

    /// Records the missing entries of an index of which `found` entries were found.
    fn note_gaps(&mut self, shard: &Shard, catalog: &Catalog, gaps: &[Gap], found: u64) {
        let number = shard.number();
        if let Some(trouble) = shard.meta_damage() {
            self.note(1, || {
                format!("target {number}: the last commits: {trouble}, {} entries found", found)
            });
        }
        let missing = shard.entries().saturating_sub(found);
        let needed: Vec<_> = gaps.iter().filter(|gap| is_needed(gap)).collect();
        if missing == 0 || (needed.is_empty() && !gaps.is_empty()) {
            return;
        }
        if gaps.is_empty() {
            // The messages add nothing to the count: all missing entries are added at the end.
            self.note(0, || format!("target {number}: entries of the index, at unknown positions"));
        }
        for gap in needed {
            let (from, below) = (
                catalog.describe_bound(gap.from.as_deref(), "beginning"),
                catalog.describe_bound(gap.below.as_deref(), "end"),
            );
            self.note(0, || {
                format!(
                    "target {number}: entries of page {} of the index, from {from} up to {below}",
                    gap.page
                )
            });
        }
        self.count += missing;
    }
}

/// True if a gap may have contained data of users, and not only accounting of space and history.
fn is_needed(gap: &Gap) -> bool {
    let from = gap.from.as_ref().and_then(|key| key.first().copied()).unwrap_or(0);
    let below = gap.below.as_ref().and_then(|key| key.first().copied()).unwrap_or(u8::MAX);
    let needed = [
        Table::Attribute,
        Table::Container,
        Table::Data,
        Table::Intent,
        Table::Label,
        Table::Oid,
        Table::Destroyed,
    ];
    needed.iter().any(|table| (from..=below).contains(&(*table as u8)))
}
