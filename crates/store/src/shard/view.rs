//! Read view of a target, through which all reads are made.
//!
//! A view consists of a read transaction of the index and the puts of the write buffer on top of its state. It is taken
//! only when no commit over several targets is in progress. Nothing else determines the data that a reader sees.
use super::Target;
use crate::format::keys::{Key, Table, is_kv};
use crate::format::record::RecordBytes;
use crate::index::txn::{Cursor, Entry, ReadTxn, Txn};
use crate::shared::read_version::{ReadVersion, Version};
use crate::shared::write_buffer::{BufferView, KeyBytes, Published, Put, Puts, WriteBuffer};
use esker_types::ops::{ReadTokens, View};
use esker_types::{ObjectId, Result};
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// Data that a view will be used to read. Only the buffered puts of this data are looked up.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'k> {
    /// No buffered puts: for tables other than the data table, and for snapshots, which are older than any buffered
    /// put.
    Committed,
    /// These akeys of an object, given by the keys of their single values. They may have single values or arrays.
    Akeys(ObjectId, &'k [Key]),
    /// The array of an akey of an object, given by the key of its single value, which is not looked up.
    Extents(ObjectId, &'k Key),
    /// All keys under a prefix of the data table.
    Under(&'k Key),
    /// All keys under the prefix of an object or a dkey, whose changes touch this slot of the conflict table. Other
    /// puts are not verified.
    UnderSlot(&'k Key, u32),
}

impl<'k> Scope<'k> {
    /// The scope needed for a view of a snapshot or of the latest state.
    pub(crate) fn at(self, view: View) -> Self {
        match view {
            View::Latest => self,
            View::Snapshot(_) => Scope::Committed,
        }
    }

    /// Reads the buffered puts of a target in the scope.
    #[inline]
    fn read(self, target: &Target, puts: &Published<'_>) -> Result<Overlay> {
        match self {
            Scope::Committed => Ok(Overlay::default()),
            Scope::Akeys(oid, singles) => Overlay::of_akeys(puts, oid, singles),
            Scope::Extents(oid, single) => Overlay::of_extents(puts, oid, single),
            Scope::Under(prefix) => Ok(Overlay::under(&puts.all()?, prefix)),
            Scope::UnderSlot(_, slot) if !target.may_have_put(puts, slot) => Ok(Overlay::default()),
            Scope::UnderSlot(prefix, _) => Overlay::with_prefix(puts, prefix),
        }
    }
}

/// Buffered puts in the scope of a view: the newest put of each key, sorted by key.
#[derive(Default)]
struct Overlay(Vec<(KeyBytes, RecordBytes)>);

thread_local! {
    /// Memory of the last overlay of this thread, so that a read need not allocate.
    static SPARE: Cell<Vec<(KeyBytes, RecordBytes)>> = const { Cell::new(Vec::new()) };
}

/// Maximum number of puts for which a thread keeps the memory of its last overlay.
const SPARE_MAX: usize = 16;

impl Drop for Overlay {
    fn drop(&mut self) {
        if (1..=SPARE_MAX).contains(&self.0.capacity()) {
            self.0.clear();
            // This fails in a thread that is ending, which needs no spare memory.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

impl Overlay {
    /// Puts of akeys, each given by the key of its single value.
    #[inline]
    fn of_akeys(puts: &Published<'_>, oid: ObjectId, singles: &[Key]) -> Result<Self> {
        let mut found = Self::default();
        for single in singles {
            if let Some(put) = puts.last(single)? {
                found.push(single, put.record());
            }
            found.push_extents(puts, oid, single)?;
        }
        found.sort();
        Ok(found)
    }

    /// Extents in the buffer of an akey, given by the key of its single value.
    #[inline]
    fn of_extents(puts: &Published<'_>, oid: ObjectId, single: &Key) -> Result<Self> {
        let mut found = Self::default();
        found.push_extents(puts, oid, single)?;
        found.sort();
        Ok(found)
    }

    /// Adds the extents of an akey. Key-Value objects have no arrays in the buffer.
    #[inline]
    fn push_extents(&mut self, puts: &Published<'_>, oid: ObjectId, single: &Key) -> Result<()> {
        if is_kv(oid) {
            return Ok(());
        }
        let akey = single.akey_of_single();
        for put in puts.named(&akey.array())? {
            let put = put?;
            self.push(&akey.extent(put.extent().start), put.record());
        }
        Ok(())
    }

    /// Adds a put. The first one reuses the memory of the last overlay of this thread.
    fn push(&mut self, key: &[u8], record: RecordBytes) {
        if self.0.capacity() == 0 {
            self.0 = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        self.0.push((KeyBytes::from_slice(key), record));
    }

    /// Copies the puts whose keys begin with `prefix`.
    fn under(puts: &Puts, prefix: &Key) -> Self {
        let inside = puts.iter().filter(|put| put.key.starts_with(prefix));
        let copy =
            |put: Put<'_>| (KeyBytes::from_slice(put.key), RecordBytes::from_slice(put.record));
        let mut found = Self(inside.map(copy).collect());
        // After the reversal, the newest put of a key comes first.
        found.0.reverse();
        found.sort();
        found
    }

    /// Puts under a prefix, of which there are few.
    fn with_prefix(puts: &Published<'_>, prefix: &Key) -> Result<Self> {
        let mut found = Self::default();
        for put in puts.with_prefix(prefix)?.iter().rev() {
            found.push(&put.key(), put.record());
        }
        found.sort();
        Ok(found)
    }

    /// Sorts by key, and keeps the first put of each key.
    fn sort(&mut self) {
        if self.0.len() > 1 {
            self.0.sort_by(|(one, _), (other, _)| one[..].cmp(&other[..]));
            self.0.dedup_by(|(one, _), (other, _)| one[..] == other[..]);
        }
    }

    /// Position of the first buffered put whose key is `key` or greater; the number of puts if there is none.
    fn position(&self, key: &[u8]) -> usize {
        self.0.partition_point(|(known, _)| known[..] < *key)
    }

    fn get(&self, at: usize) -> Option<Entry<'_>> {
        self.0.get(at).map(|(key, record)| (&key[..], &record[..]))
    }

    /// Record of the buffered put with this key; `None` if there is none.
    #[inline]
    fn find(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.0.binary_search_by(|(known, _)| known[..].cmp(key)).ok()?;
        self.get(at).map(|(_, record)| record)
    }
}

/// A consistent view of a target.
pub(crate) struct ReadView<'t> {
    txn: ReadTxn<'t>,
    overlay: Overlay,
    version: Version,
    target: u32,
}

impl ReadView<'_> {
    /// The index without the write buffer, for tables that no put changes.
    pub(crate) fn committed(&self) -> &Txn {
        &self.txn
    }

    /// Value of a key in the scope of the view.
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        match self.overlay.find(key) {
            Some(record) => Ok(Some(record)),
            None => self.txn.get(key),
        }
    }

    /// Cursor over the scope of the view.
    pub(crate) fn cursor(&self) -> Result<ViewCursor<'_>> {
        let (cursor, overlay) = (self.txn.cursor()?, &self.overlay);
        Ok(ViewCursor { cursor, overlay, stored: None, buffered: 0 })
    }

    /// Version of the state that the view shows.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Records for a transaction that it has read a slot of the conflict table in this view.
    pub(crate) fn note_slot_read(&self, tokens: &ReadTokens, slot: u32) {
        let read = ReadVersion { target: self.target, slot, version: self.version.0 };
        tokens.add(&read.to_token());
    }
}

/// Cursor over the entries of a view, sorted by key. A buffered put hides the stored entry with the same key.
pub(crate) struct ViewCursor<'v> {
    cursor: Cursor<'v>,
    overlay: &'v Overlay,
    /// Next entry of the index, and position of the next buffered put.
    stored: Option<Entry<'v>>,
    buffered: usize,
}

impl<'v> ViewCursor<'v> {
    /// First entry whose key is `key` or greater.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'v>>> {
        self.stored = self.cursor.seek(key)?;
        self.buffered = self.overlay.position(key);
        self.take()
    }

    /// Entry after the last one that was returned.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'v>>> {
        self.take()
    }

    /// Last entry whose key is less than `key`, and first entry whose key is not. Call `seek` before the next step.
    pub(crate) fn around(&mut self, key: &[u8]) -> Result<(Option<Entry<'v>>, Option<Entry<'v>>)> {
        match self.overlay.0.is_empty() {
            true => self.cursor.around(key),
            false => Ok((self.seek_before(key)?, self.seek(key)?)),
        }
    }

    /// The next entry, by key, of the index and the overlay. A buffered put hides the stored entry with the same key.
    fn take(&mut self) -> Result<Option<Entry<'v>>> {
        let (stored, buffered) = (self.stored, self.overlay.get(self.buffered));
        let (takes_stored, takes_buffered) = match (stored, buffered) {
            (Some((stored, _)), Some((buffered, _))) => (stored <= buffered, buffered <= stored),
            _ => (stored.is_some(), buffered.is_some()),
        };
        if takes_stored {
            self.stored = self.cursor.next()?;
        }
        self.buffered += usize::from(takes_buffered);
        Ok(if takes_buffered { buffered } else { stored })
    }

    /// Last entry whose key is less than `key`. Call `seek` before the next step.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<Option<Entry<'v>>> {
        let stored = self.cursor.seek_before(key)?;
        let buffered = self.overlay.position(key).checked_sub(1);
        let buffered = buffered.and_then(|at| self.overlay.get(at));
        Ok(match (stored, buffered) {
            (Some(stored), Some(buffered)) if stored.0 > buffered.0 => Some(stored),
            (stored, buffered) => buffered.or(stored),
        })
    }
}

impl Target {
    /// True if the target has a write buffer.
    pub(crate) fn has_write_buffer(&self) -> bool {
        self.write_buffer().is_some()
    }

    /// Transaction id of the last commit.
    pub(crate) fn last_commit(&self) -> Result<u64> {
        self.index.last_commit()
    }

    /// The write buffer of the target, if it has one.
    #[inline]
    pub(super) fn write_buffer(&self) -> Option<WriteBuffer<'_>> {
        self.control.write_buffer(self.number())
    }

    /// A consistent view, taken when no commit over several targets is in progress.
    #[inline(always)]
    pub(crate) fn view_of(&self, scope: Scope<'_>) -> Result<ReadView<'_>> {
        self.until_not_in_doubt(|| self.view_in_doubt(scope))
    }

    /// A view of the last committed state and the later puts. It is returned even if a commit is prepared that another
    /// node decides.
    #[inline(always)]
    pub(crate) fn view_in_doubt(&self, scope: Scope<'_>) -> Result<ReadView<'_>> {
        loop {
            if let Some(view) = self.try_view(scope)? {
                return Ok(view);
            }
        }
    }

    /// A view; `None` if its state is outdated.
    #[inline(always)]
    fn try_view(&self, scope: Scope<'_>) -> Result<Option<ReadView<'_>>> {
        let read = self.try_read(|puts| scope.read(self, puts))?;
        Ok(read.map(|(txn, overlay, version)| self.read_view(txn, overlay, version)))
    }

    fn read_view<'t>(&self, txn: ReadTxn<'t>, overlay: Overlay, version: Version) -> ReadView<'t> {
        ReadView { txn, overlay, version, target: self.number() }
    }

    /// Reads a state of the index, and with `read` the puts on top of it. Also returns the version of both. `None` if
    /// the state is outdated.
    #[inline(always)]
    fn try_read<T: Default>(
        &self,
        read: impl Fn(&Published<'_>) -> Result<T>,
    ) -> Result<Option<(ReadTxn<'_>, T, Version)>> {
        let txn = self.index.read()?;
        let id = txn.id();
        if self.is_overwritten(id)? {
            return Ok(None);
        }
        if self.misses_commit_of_dead(id)? {
            drop(txn);
            // Taking the write lock from the dead process updates LMDB's id of the last commit.
            return self.begin_bare().map(|_| None);
        }
        let whole = |txn| Ok(Some((txn, T::default(), Version::committed(id))));
        let Some(buffer) = self.write_buffer() else { return whole(txn) };
        let puts = match buffer.view(id)? {
            BufferView::Outdated => return Ok(None),
            BufferView::Empty => return whole(txn),
            BufferView::Puts(puts) => puts,
        };
        let found = read(&puts);
        match puts.is_current() {
            true => Ok(Some((txn, found?, Version::new(id, puts.len())))),
            false => Ok(None),
        }
    }

    /// False if none of the buffered puts touches a slot of the conflict table: a put stores its version there before
    /// it is visible. That version may be older than the last commit, if that one retained the buffer.
    pub(super) fn may_have_put(&self, puts: &Published<'_>, slot: u32) -> bool {
        let version = self.shared().conflicts()[slot as usize].load(Ordering::Relaxed);
        version > Version::committed(puts.base()).0
    }

    /// True if there may be puts that no commit includes yet. In a durable pool, puts that are not published count,
    /// since they may be in the redo log.
    pub(crate) fn has_buffered_puts(&self) -> Result<bool> {
        let Some(buffer) = self.write_buffer() else { return Ok(false) };
        let txn = self.index.read()?;
        let is_empty = matches!(buffer.view(txn.id())?, BufferView::Empty);
        Ok(!is_empty || self.is_durable() && buffer.has_appended(txn.id())?)
    }

    /// A view of the index alone, and all puts on top of it, in order.
    pub(crate) fn committed_and_buffered(&self) -> Result<(ReadView<'_>, Puts)> {
        loop {
            if let Some((txn, puts, version)) = self.try_read(|puts| puts.all())? {
                return Ok((self.read_view(txn, Overlay::default(), version), puts));
            }
        }
    }
}

/// Prefix of all keys of [`Table::Data`].
pub(crate) fn all_data() -> Key {
    Key::table(Table::Data)
}
