//! Write buffer of a target: small puts that wait for the next commit of its index.
//!
//! A commit of the index copies pages even for a small change. A put of one record is cheaper: it is appended to the
//! write buffer and then acknowledged. All processes share the memory of the buffer, which outlives them (decision
//! 0054).
//!
//! - **Writers.** The buffer changes only under the write lock of the target, which is LMDB's. A put takes the lock,
//!   appends, and releases it; no transaction is committed. A transaction that changes data first applies all buffered
//!   puts, so that its commit includes them.
//! - **Validity.** The buffer belongs to the states of the index from transaction `from` to transaction `until`. A
//!   commit that includes the puts has a later id, so it empties the buffer without a store. A transaction that only
//!   makes space in the index retains the puts: before its commit, it stores its own id as `until`.
//! - **Readers** take no lock. A reader begins a read transaction and compares its id with `from` and `until`. Below
//!   `from`, its state is outdated, and it begins again. Above `until`, its state includes all puts. In between, it
//!   reads the puts on top of its state. At the end it loads `from` again, since `from` changes before puts are
//!   overwritten.
//!
//! - **Durability.** If commits are synced, a put is published once its entry in the redo log is on the medium
//!   ([`crate::data::redo_log`]).
//!
//! Every word is verified when it is loaded. `from`, `until`, the number of published words and the buckets have 16
//! bits of checksum each. A checksum chained over all puts is stored with their length. `docs/format.md` has the
//! layout.
use super::read_version::Version;
use crate::format::keys::Table;
use crate::format::record::{Record, RecordBytes};
use crate::io::crc32c;
use crate::sync::{AtomicU64, fence};
use esker_types::{Error, ErrorKind, Extent, Result, StableHash};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Number of atomics of the write buffer of one target.
pub(crate) const BUFFER_LEN: usize = 8192;
/// Number of buckets. A loom model has few atomics.
const BUCKETS: usize = if cfg!(all(loom, test)) { 1 } else { 512 };
const HEAD_LEN: usize = 16;
/// Position of the first put.
const PUTS: usize = HEAD_LEN + BUCKETS;
/// Number of atomics of a put before its key.
const PUT_HEAD_LEN: usize = 2;
/// Minimum number of atomics of a put: its head, a word of the key and a word of the record.
pub(crate) const PUT_LEN_MIN: usize = PUT_HEAD_LEN + 2;
/// Bytes of the index of the first record, with which the key of an extent ends.
const START_LEN: usize = 8;
/// Number of checksum bits in a sealed word.
const CHECK_BITS: u32 = 16;

/// The write buffer of one target.
#[derive(Clone, Copy)]
pub(crate) struct WriteBuffer<'c>(&'c [AtomicU64]);

/// A put of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put<'p> {
    /// Key in the data table.
    pub(crate) key: &'p [u8],
    /// The encoded record.
    pub(crate) record: &'p [u8],
    /// Number of array records of the extent; zero for a single value.
    pub(crate) count: u32,
}

/// State of the puts: the number of words, the number of puts, and the checksum chained over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    len: usize,
    count: u64,
    checksum: u32,
}

impl State {
    /// State of an empty buffer that begins at transaction `from`.
    fn empty(from: u64) -> Self {
        Self { len: 0, count: 0, checksum: crc32c(&from.to_le_bytes()) }
    }

    fn from_word(word: u64) -> Self {
        let (len, count) = (word as u16 as usize, word >> 16 & 0xffff);
        Self { len, count, checksum: (word >> 32) as u32 }
    }

    fn to_word(self) -> u64 {
        u64::from(self.checksum) << 32 | self.count << 16 | self.len as u64
    }

    /// State after one more put, which has these words. The checksum depends on the order of puts.
    fn after(self, words: &[[u8; 8]]) -> Self {
        let before = self.checksum.wrapping_mul(0x9e37_79b1).rotate_left(15);
        let checksum = crc32c(words.as_flattened()) ^ before;
        Self { len: self.len + words.len(), count: self.count + 1, checksum }
    }
}

/// The buffer, as seen from one state of the index.
pub(crate) enum BufferView<'c> {
    /// The state is older than the buffer: read a later state.
    Outdated,
    /// The state includes all puts.
    Empty,
    /// These puts are on top of the state, if they are still current after they have been read.
    Puts(Published<'c>),
}

/// Error for a buffer whose words do not match their checksums.
#[cold]
pub(crate) fn damaged_error() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the write buffer of a target does not match its checksum: run `esker pool check --repair`",
    )
}

/// Checksum of a value of 48 bits. The checksum of zero is zero, so that an unused buffer is valid.
fn check_of(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CHECK_BITS)
}

/// Word of a value of 48 bits and its checksum.
fn seal(value: u64) -> u64 {
    value << CHECK_BITS | check_of(value & (u64::MAX >> CHECK_BITS))
}

/// Value of a sealed word; fails with `Corrupt` if the checksum does not match.
fn unseal(word: u64) -> Result<u64> {
    let value = word >> CHECK_BITS;
    if seal(value) == word { Ok(value) } else { Err(damaged_error()) }
}

impl<'c> WriteBuffer<'c> {
    /// The write buffer that is stored in these atomics.
    pub(crate) fn from_atomics(atomics: &'c [AtomicU64]) -> Self {
        Self(atomics)
    }

    /// First transaction to whose state the buffer belongs, sealed.
    fn from(self) -> &'c AtomicU64 {
        &self.0[0]
    }

    /// Last transaction to whose state the buffer belongs, sealed.
    fn until(self) -> &'c AtomicU64 {
        &self.0[1]
    }

    /// The encoded [`State`].
    fn state(self) -> &'c AtomicU64 {
        &self.0[2]
    }

    /// Number of words of the puts that are visible to readers, sealed.
    fn published(self) -> &'c AtomicU64 {
        &self.0[3]
    }

    /// Maximum number of puts, for which the index has space, sealed.
    fn count_max(self) -> &'c AtomicU64 {
        &self.0[4]
    }

    /// Word of the bucket of a name, where `hash` is the upper half of the hash of the name.
    fn bucket(self, hash: u64) -> &'c AtomicU64 {
        &self.0[HEAD_LEN + hash as usize % BUCKETS]
    }

    /// First and last transaction to whose states the buffer belongs; an empty range if the second is less than the
    /// first.
    #[inline]
    fn range(self) -> Result<(u64, u64)> {
        let from = unseal(self.from().load(Ordering::Acquire))?;
        Ok((from, unseal(self.until().load(Ordering::Acquire))?))
    }

    /// Puts on top of the state of transaction `id`. The caller has a read transaction of that id open.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    #[inline]
    pub(crate) fn view(self, id: u64) -> Result<BufferView<'c>> {
        let (from, until) = self.range()?;
        if id < from {
            return Ok(BufferView::Outdated);
        }
        if id > until {
            return Ok(BufferView::Empty);
        }
        let end = self.end()?;
        let puts = Published { buffer: self, from, end };
        match end {
            // Without puts, a writer may be moving the buffer on top of a later commit.
            PUTS if puts.is_current() => Ok(BufferView::Empty),
            PUTS => Ok(BufferView::Outdated),
            _ if end > self.0.len() => Err(damaged_error()),
            _ => Ok(BufferView::Puts(puts)),
        }
    }

    /// True if puts were appended on top of the state of transaction `id`, published or not.
    pub(crate) fn has_appended(self, id: u64) -> Result<bool> {
        let (from, until) = self.range()?;
        let state = State::from_word(self.state().load(Ordering::Acquire));
        Ok((from..=until).contains(&id) && state.len > 0)
    }

    /// Position after the puts that are visible to readers.
    #[inline]
    fn end(self) -> Result<usize> {
        Ok(PUTS + unseal(self.published().load(Ordering::Acquire))? as usize)
    }

    /// A verified copy of all puts up to position `end`, in order. `from` is the first transaction of the buffer. The
    /// checksum also covers puts that are not visible to readers yet.
    fn copy(self, from: u64, end: usize) -> Result<Puts> {
        let state = State::from_word(self.state().load(Ordering::Acquire));
        let words = self.0.get(PUTS..PUTS + state.len).ok_or_else(damaged_error)?;
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
        let mut puts = Puts::parse(words.iter().map(load).collect());
        let mut found = State::empty(from);
        puts.locations
            .iter()
            .for_each(|location| found = found.after(&puts.words[location.words()]));
        puts.locations.retain(|location| location.end() <= end);
        if found == state { Ok(puts) } else { Err(damaged_error()) }
    }

    /// A verified copy of the puts that are visible to readers. `from` is the first transaction of the buffer.
    fn copy_published(self, from: u64) -> Result<Puts> {
        self.copy(from, self.end()?)
    }

    /// The put at position `at`; `None` if the words there are not a put that ends at or before `end`.
    fn location(self, at: usize, end: usize) -> Option<PutLocation> {
        let lengths = self.0.get(at + 1)?.load(Ordering::Relaxed);
        PutLocation::parse(at, lengths).filter(|location| at >= PUTS && location.end() <= end)
    }

    /// Undamaged puts of a damaged buffer, up to the published length or, if that is damaged, the length in the state.
    pub(crate) fn recover(self) -> Puts {
        let state = State::from_word(self.state().load(Ordering::Acquire));
        let published = unseal(self.published().load(Ordering::Acquire));
        let len = published.map_or(state.len, |len| len as usize).min(self.0.len() - PUTS);
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
        let mut puts = Puts::parse(self.0[PUTS..PUTS + len].iter().map(load).collect());
        let Puts { words, locations } = &mut puts;
        locations.retain(|location| location.put_in(words.as_flattened()).is_intact());
        puts
    }

    /// Empties the buffer and moves it on top of the state `from`, for up to `count_max` puts. Until the caller stores
    /// `until`, the buffer belongs to no state.
    fn begin(self, from: u64, count_max: u64) {
        // Readers load `from` again at the end, so it is stored before puts are overwritten.
        self.from().store(seal(from), Ordering::Release);
        fence(Ordering::Release);
        self.state().store(State::empty(from).to_word(), Ordering::Release);
        self.published().store(seal(0), Ordering::Release);
        self.count_max().store(seal(count_max), Ordering::Release);
    }

    /// Loads the puts that a redo log has on top of state `from`. `last` is the last commit of the index. No other
    /// process uses the buffer. If the log `is_damaged`, so is the buffer then.
    pub(crate) fn load<'p>(
        self,
        (from, last): (u64, u64),
        puts: impl Iterator<Item = Put<'p>>,
        is_damaged: bool,
    ) -> Result<()> {
        self.clear();
        // The maximum number of puts is zero, so that nothing is appended behind the loaded ones.
        self.begin(from, 0);
        let locked = LockedBuffer { buffer: self, last, from, is_live: true };
        for put in puts {
            match locked.fits(&put) {
                true => locked.append(&put)?,
                false => return Err(damaged_error()),
            }
        }
        locked.publish();
        // Readers and writers fail on a word whose checksum does not match.
        if is_damaged {
            self.published().store(!seal(0), Ordering::Release);
        }
        self.until().store(seal(last), Ordering::Release);
        Ok(())
    }

    /// Sets all words before the puts to zero. The buffer is then empty, even if it was damaged.
    pub(crate) fn clear(self) {
        self.0[..PUTS].iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// Makes the buffer empty, so that it belongs to no state.
    pub(crate) fn reset(self) {
        self.until().store(seal(0), Ordering::Release);
        self.from().store(seal(0), Ordering::Release);
    }

    /// Puts in the buffer of a pool that no process has open. `last` is the last commit of the index. If a later commit
    /// is lost, since its meta page is damaged, the buffer may be on top of that one.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn left_after(self, last: u64) -> Result<Puts> {
        let (from, until) = self.range()?;
        match until >= from && until >= last {
            true => self.copy_published(from),
            false => Ok(Puts::default()),
        }
    }
}

/// The buffer as the owner of the write lock uses it. No other process changes it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct LockedBuffer<'c> {
    buffer: WriteBuffer<'c>,
    /// Transaction id of the last commit.
    last: u64,
    from: u64,
    /// True if puts on top of the last commit are possible.
    is_live: bool,
}

impl<'c> LockedBuffer<'c> {
    /// The buffer, for the owner of the write lock. Repairs it first if a process died while it had the lock. `last` is
    /// the id of the last commit.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn lock(buffer: WriteBuffer<'c>, last: u64) -> Result<Self> {
        let (locked, until) = Self::on_top_of(buffer, last)?;
        if until > last {
            // The transaction with id `until` was aborted.
            buffer.until().store(seal(last), Ordering::Release);
        }
        if locked.is_live {
            locked.freeze_if_unfinished()?;
        }
        Ok(locked)
    }

    /// The buffer without a repair: [`LockedBuffer::lock`] was called since the write lock was taken.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn locked_before(buffer: WriteBuffer<'c>, last: u64) -> Result<Self> {
        Self::on_top_of(buffer, last).map(|(locked, _)| locked)
    }

    /// The buffer on top of commit `last`, and its `until`.
    fn on_top_of(buffer: WriteBuffer<'c>, last: u64) -> Result<(Self, u64)> {
        let (from, until) = buffer.range()?;
        match from > last {
            true => Err(damaged_error()),
            false => Ok((Self { buffer, last, from, is_live: until >= last }, until)),
        }
    }

    fn state(&self) -> State {
        State::from_word(self.buffer.state().load(Ordering::Relaxed))
    }

    /// Freezes the buffer if a process died after it stored the state of a put and before it published the put. That
    /// put was not acknowledged. It never becomes visible, and nothing is appended behind it.
    fn freeze_if_unfinished(&self) -> Result<()> {
        let (state, end) = (self.state(), self.buffer.end()?);
        match end.cmp(&(PUTS + state.len)) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(damaged_error()),
            std::cmp::Ordering::Less => {
                self.buffer.count_max().store(seal(0), Ordering::Release);
                Ok(())
            }
        }
    }

    /// Number of words of the puts that are visible to readers. It was verified when the lock was taken.
    fn published_len(&self) -> usize {
        (self.buffer.published().load(Ordering::Relaxed) >> CHECK_BITS) as usize
    }

    /// Makes a put the newest of its bucket. `hash_high` is the upper half of the hash of its name, which each put
    /// stores.
    fn insert_in_bucket(&self, location: PutLocation, hash_high: u64) {
        // The bucket number is part of the hash that each put stores.
        let bucket = self.buffer.bucket(hash_high);
        bucket.store(bucket_word(self.from, location.at), Ordering::Release);
    }

    /// True if there are puts on top of the last commit.
    pub(crate) fn has_puts(&self) -> bool {
        self.is_live && self.published_len() > 0
    }

    /// Version of the index together with the buffer.
    pub(crate) fn version(&self) -> Version {
        let len = if self.is_live { self.published_len() } else { 0 };
        Version::new(self.last, len)
    }

    /// All puts on top of the last commit, in order.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn puts(&self) -> Result<Puts> {
        match self.has_puts() {
            true => self.buffer.copy_published(self.from),
            false => Ok(Puts::default()),
        }
    }

    /// Puts on top of the last commit, with those that are not published yet; `None` if there are none.
    pub(crate) fn appended(&self) -> Option<Published<'c>> {
        let end = PUTS + self.state().len;
        self.has_appended().then_some(Published { buffer: self.buffer, from: self.from, end })
    }

    /// True if there are puts on top of the last commit, published or not.
    pub(crate) fn has_appended(&self) -> bool {
        self.is_live && self.state().len > 0
    }

    /// First state of the index that the buffer is on top of.
    pub(crate) fn base(&self) -> u64 {
        self.from
    }

    /// Number of puts, published or not, and number of words that they take.
    pub(crate) fn size(&self) -> (u64, usize) {
        let state = self.state();
        (state.count, state.len)
    }

    /// Retains the puts on top of transaction `id`, which is about to be committed and does not include them.
    pub(crate) fn retain(&self, id: u64) {
        if self.is_live {
            self.buffer.until().store(seal(id), Ordering::Release);
            // Readers that see the commit see this store.
            fence(Ordering::SeqCst);
        }
    }

    /// Empties the buffer and moves it on top of the last commit, with space for `count_max` puts.
    pub(crate) fn restart(&mut self, count_max: u64) {
        self.buffer.begin(self.last, count_max);
        self.buffer.until().store(seal(self.last), Ordering::Release);
        (self.from, self.is_live) = (self.last, true);
    }

    /// True if the buffer is on top of the last commit, so that puts may be appended.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// True if the buffer has space for a put, and the index has space to flush it later.
    pub(crate) fn has_room(&self, put: &Put<'_>) -> Result<bool> {
        let count_max = unseal(self.buffer.count_max().load(Ordering::Relaxed))?;
        Ok(self.fits(put) && self.state().count < count_max)
    }

    fn fits(&self, put: &Put<'_>) -> bool {
        PUTS + self.state().len + put.words_len() <= self.buffer.0.len()
    }

    /// Version of a put that is appended now.
    pub(crate) fn version_of(&self, put: &Put<'_>) -> Version {
        Version::new(self.last, self.state().len + put.words_len())
    }

    /// Appends a put for which [`LockedBuffer::has_room`] holds. Readers see it once it is published.
    pub(crate) fn append(&self, put: &Put<'_>) -> Result<()> {
        let (buffer, state) = (self.buffer, self.state());
        let at = PUTS + state.len;
        let location = PutLocation::new(put, at);
        let hash = hash_of(put.name());
        let before = newest(buffer.bucket(hash >> 32).load(Ordering::Relaxed), self.from)?;
        let words = put.words(hash >> 32, before.unwrap_or(0));
        for (atomic, word) in buffer.0[location.at..location.end()].iter().zip(&words) {
            atomic.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        buffer.state().store(state.after(&words).to_word(), Ordering::Release);
        self.insert_in_bucket(location, hash >> 32);
        Ok(())
    }

    /// Publishes all appended puts to readers.
    pub(crate) fn publish(&self) {
        let len = self.state().len as u64;
        self.buffer.published().store(seal(len), Ordering::Release);
    }
}

/// Puts of the buffer that readers see at one state of the index.
#[derive(Clone, Copy)]
pub(crate) struct Published<'c> {
    buffer: WriteBuffer<'c>,
    from: u64,
    end: usize,
}

impl<'c> Published<'c> {
    /// First state of the index that the puts are on top of. The version of each put is later.
    pub(crate) fn base(&self) -> u64 {
        self.from
    }

    /// Number of 64-bit words that the puts take.
    pub(crate) fn len(&self) -> usize {
        self.end - PUTS
    }

    /// False if the buffer was restarted meanwhile. Then the words that were read may have been overwritten.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        fence(Ordering::Acquire);
        self.buffer.from().load(Ordering::Relaxed) == seal(self.from)
    }

    /// A verified copy of all puts.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged or was restarted meanwhile.
    pub(crate) fn all(&self) -> Result<Puts> {
        self.buffer.copy(self.from, self.end)
    }

    /// Puts with a name, newest first: the extents of an array, or the newest put of a single value.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    #[inline]
    pub(crate) fn named<'n>(&self, name: &'n [u8]) -> Result<NamedPuts<'c, 'n>> {
        let hash = hash_of(name) >> 32;
        let next = newest(self.buffer.bucket(hash).load(Ordering::Acquire), self.from)?;
        Ok(NamedPuts { puts: *self, name, hash, next })
    }

    /// Extents of the array with a name.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn extents(&self, name: &[u8]) -> Result<SmallVec<[Extent; 4]>> {
        self.named(name)?.map(|put| put.map(|put| put.extent())).collect()
    }

    /// The newest put with a name.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    #[inline]
    pub(crate) fn last(&self, name: &[u8]) -> Result<Option<NamedPut<'c>>> {
        self.named(name)?.next().transpose()
    }

    /// Puts whose keys begin with `prefix`, in order.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged or was restarted meanwhile.
    pub(crate) fn with_prefix(&self, prefix: &[u8]) -> Result<SmallVec<[NamedPut<'c>; 4]>> {
        let (buffer, mut at, mut found) = (self.buffer, PUTS, SmallVec::new());
        while at < self.end {
            let location = buffer.location(at, self.end).ok_or_else(damaged_error)?;
            if location.key_begins_with(buffer, prefix) {
                found.push(NamedPut { buffer, location });
            }
            at = location.end();
        }
        Ok(found)
    }

    /// True if the buffer has a put with a name.
    ///
    /// # Errors
    /// `Corrupt` if the buffer is damaged.
    pub(crate) fn has(&self, name: &[u8]) -> Result<bool> {
        self.last(name).map(|put| put.is_some())
    }
}

/// Iterator over the puts with a name.
pub(crate) struct NamedPuts<'c, 'n> {
    puts: Published<'c>,
    name: &'n [u8],
    /// Upper half of the hash of the name.
    hash: u64,
    /// Position of the next put of the bucket.
    next: Option<usize>,
}

impl<'c> NamedPuts<'c, '_> {
    /// Parses the put at position `at` of the buffer, and moves on to the put before it in the bucket. Returns `None`
    /// if the put has another name, or was appended after the view began.
    #[inline]
    fn step(&mut self, at: usize) -> Result<Option<NamedPut<'c>>> {
        let Published { buffer, end, .. } = self.puts;
        let chain = buffer.0.get(at).ok_or_else(damaged_error)?.load(Ordering::Relaxed);
        let before = unseal_chain(chain)?;
        self.next = (before != 0 && before < at).then_some(before);
        if chain >> 32 != self.hash {
            return Ok(None);
        }
        // Puts behind `end` were appended after the view began.
        let location =
            buffer.location(at, end).filter(|location| location.has_name(buffer, self.name));
        if location.is_some_and(|location| location.count == 0) {
            self.next = None; // Only the newest put of a single value counts.
        }
        Ok(location.map(|location| NamedPut { buffer, location }))
    }
}

impl<'c> Iterator for NamedPuts<'c, '_> {
    type Item = Result<NamedPut<'c>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while let Some(at) = self.next.take() {
            if let Some(found) = self.step(at).transpose() {
                return Some(found);
            }
        }
        None
    }
}

/// A key of the data table.
pub(crate) type KeyBytes = SmallVec<[u8; 96]>;

/// A put that was found by its name or by the start of its key.
pub(crate) struct NamedPut<'c> {
    buffer: WriteBuffer<'c>,
    location: PutLocation,
}

impl NamedPut<'_> {
    /// Extent of an array; empty for a single value.
    pub(crate) fn extent(&self) -> Extent {
        if self.location.count == 0 { Extent::default() } else { self.location.extent(self.buffer) }
    }

    /// The key of the put.
    pub(crate) fn key(&self) -> KeyBytes {
        let location = self.location;
        let words = &self.buffer.0[location.key_at()..location.record_at()];
        let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        bytes.take(location.key_len).collect()
    }

    /// The encoded record of the put.
    pub(crate) fn record(&self) -> RecordBytes {
        self.location.record(self.buffer)
    }
}

/// A copy of puts.
#[derive(Default)]
pub(crate) struct Puts {
    /// Words of the buffer from [`PUTS`] on.
    words: Vec<[u8; 8]>,
    locations: Vec<PutLocation>,
}

impl Puts {
    /// Parses words as puts, up to the first word that does not begin a put.
    fn parse(words: Vec<[u8; 8]>) -> Self {
        let (mut at, end) = (PUTS, PUTS + words.len());
        let mut locations = Vec::with_capacity(words.len() / PUT_LEN_MIN);
        while let Some(lengths) = words.get(at + 1 - PUTS)
            && let Some(location) = PutLocation::parse(at, u64::from_le_bytes(*lengths))
            && location.end() <= end
        {
            locations.push(location);
            at = location.end();
        }
        Self { words, locations }
    }

    /// Sorts by key; puts with the same key stay in order.
    pub(crate) fn sort(&mut self) {
        let bytes = self.words.as_flattened();
        self.locations.sort_unstable_by(|one, other| {
            one.key_in(bytes).cmp(other.key_in(bytes)).then(one.at.cmp(&other.at))
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Put<'_>> {
        self.locations.iter().map(|location| location.put_in(self.words.as_flattened()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }
}

impl<'p> Put<'p> {
    /// Appends the lengths, the key and the record to `bytes`, as in the buffer.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.lengths().to_le_bytes());
        for part in [self.key, self.record] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
    }

    /// The put at the beginning of `bytes`, as [`Put::encode`] stores it, and its length in bytes. `None` if there is
    /// none.
    pub(crate) fn decode(bytes: &'p [u8]) -> Option<(Self, usize)> {
        let lengths = u64::from_le_bytes(*bytes.first_chunk()?);
        let location = PutLocation::parse(0, lengths)?;
        // An encoded put lacks the first word of a put in a buffer, which links the puts of a bucket.
        let at = |word: usize| (word - 1) * 8;
        let key = bytes.get(at(location.key_at())..)?.get(..location.key_len)?;
        let record = bytes.get(at(location.record_at())..)?.get(..location.record_len)?;
        let len = at(location.end());
        (len <= bytes.len()).then_some((Self { key, record, count: location.count }, len))
    }

    /// Second word of a put: the number of array records, and the lengths of record and key in bytes.
    fn lengths(&self) -> u64 {
        let sizes = (self.record.len() as u64) << 16 | self.key.len() as u64;
        u64::from(self.count) << 32 | sizes
    }

    /// True if the record matches its checksum, which covers the key.
    pub(crate) fn is_intact(&self) -> bool {
        Table::of_key(self.key) == Some(Table::Data)
            && Record::decode(&self.key[1..], self.record).is_ok()
    }

    /// First bytes of the key, by which the put is found. All extents of an array have the same name.
    fn name(&self) -> &[u8] {
        &self.key[..name_len(self.key.len(), self.count)]
    }

    fn words_len(&self) -> usize {
        PUT_HEAD_LEN + self.key.len().div_ceil(8) + self.record.len().div_ceil(8)
    }

    /// The words to store. `hash_high` is the upper half of the hash of the name. `before` is the position of the
    /// previous put in the same bucket, or zero.
    fn words(&self, hash_high: u64, before: usize) -> SmallVec<[[u8; 8]; 64]> {
        let head = [seal_chain(hash_high, before), self.lengths()];
        let mut words = SmallVec::from_slice(&head.map(u64::to_le_bytes));
        push_padded(&mut words, self.key);
        push_padded(&mut words, self.record);
        words
    }
}

/// First word of a put: upper half of the hash of its name, position of the previous put in its bucket, and their
/// checksum.
fn seal_chain(hash_high: u64, before: usize) -> u64 {
    seal(hash_high << 16 | before as u64)
}

/// Position of the previous put of the bucket, from the first word of a put; zero if there is none.
fn unseal_chain(word: u64) -> Result<usize> {
    unseal(word).map(|value| value as u16 as usize)
}

/// Word of a bucket: `from` of its buffer, position of its newest put, and their checksum.
fn bucket_word(from: u64, at: usize) -> u64 {
    seal((from & 0xffff_ffff) << 16 | at as u64)
}

/// Position of the newest put of a bucket, from its word; `None` if the word is not of the buffer that begins at
/// `from`.
fn newest(bucket: u64, from: u64) -> Result<Option<usize>> {
    let value = unseal(bucket)?;
    Ok((value >> 16 == from & 0xffff_ffff && value != 0).then_some(value as u16 as usize))
}

/// Length of the name in a key of `key_len` bytes: the key of an extent, whose `count` is not zero, ends with the index
/// of its first record.
fn name_len(key_len: usize, count: u32) -> usize {
    key_len.saturating_sub(if count > 0 { START_LEN } else { 0 })
}

/// Position and lengths of a put.
#[derive(Clone, Copy)]
struct PutLocation {
    at: usize,
    key_len: usize,
    record_len: usize,
    count: u32,
}

impl PutLocation {
    fn new(put: &Put<'_>, at: usize) -> Self {
        Self { at, key_len: put.key.len(), record_len: put.record.len(), count: put.count }
    }

    /// Parses the second word of a put at a position; returns `None` if the word is not valid.
    fn parse(at: usize, lengths: u64) -> Option<Self> {
        let (key_len, record_len) = (lengths as u16 as usize, (lengths >> 16) as u16 as usize);
        let count = (lengths >> 32) as u32;
        (name_len(key_len, count) > 0).then_some(Self { at, key_len, record_len, count })
    }

    fn key_at(self) -> usize {
        self.at + PUT_HEAD_LEN
    }

    fn record_at(self) -> usize {
        self.key_at() + self.key_len.div_ceil(8)
    }

    fn end(self) -> usize {
        self.record_at() + self.record_len.div_ceil(8)
    }

    /// Range of its words in a copy of all puts.
    fn words(self) -> Range<usize> {
        self.at - PUTS..self.end() - PUTS
    }

    fn has_name(self, buffer: WriteBuffer<'_>, name: &[u8]) -> bool {
        name_len(self.key_len, self.count) == name.len() && self.key_begins_with(buffer, name)
    }

    /// True if the key of the put begins with `start`. Compares words, without a copy of the key.
    fn key_begins_with(self, buffer: WriteBuffer<'_>, start: &[u8]) -> bool {
        let (whole, rest) = start.as_chunks();
        let mut words = buffer.0[self.key_at()..].iter().map(|word| word.load(Ordering::Relaxed));
        self.key_len >= start.len()
            && whole.iter().all(|bytes| words.next() == Some(u64::from_le_bytes(*bytes)))
            && (rest.is_empty()
                || words.next().is_some_and(|word| word.to_le_bytes().starts_with(rest)))
    }

    /// Extent of an array. Its start is the big-endian end of the key, which may begin at any byte of a word.
    fn extent(self, buffer: WriteBuffer<'_>) -> Extent {
        let name_len = name_len(self.key_len, self.count);
        let (at, shift) = (self.key_at() + name_len / 8, name_len % 8 * 8);
        let word = |at: usize| buffer.0.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let start = (u128::from(word(at + 1)) << 64 | u128::from(word(at))) >> shift;
        Extent::new((start as u64).swap_bytes(), u64::from(self.count))
    }

    /// Copies the encoded record out of the buffer.
    fn record(self, buffer: WriteBuffer<'_>) -> RecordBytes {
        let words = &buffer.0[self.record_at()..self.end()];
        let mut bytes = RecordBytes::from_elem(0, words.len() * 8);
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        bytes.truncate(self.record_len);
        bytes
    }

    /// The key, from a copy of all puts.
    fn key_in(self, puts: &[u8]) -> &[u8] {
        &puts[(self.key_at() - PUTS) * 8..][..self.key_len]
    }

    fn put_in(self, puts: &[u8]) -> Put<'_> {
        Put { key: self.key_in(puts), record: self.record_in(puts), count: self.count }
    }

    fn record_in(self, puts: &[u8]) -> &[u8] {
        &puts[(self.record_at() - PUTS) * 8..][..self.record_len]
    }
}

/// Appends bytes as words; the last word is padded with zeros.
fn push_padded(words: &mut SmallVec<[[u8; 8]; 64]>, bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    words.extend_from_slice(whole);
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(last);
    }
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
impl<'c> WriteBuffer<'c> {
    /// All atomics, for tests that damage them.
    pub(crate) fn atomics(self) -> &'c [AtomicU64] {
        self.0
    }
}

#[cfg(all(not(loom), test))]
mod tests {
    use super::*;

    fn empty() -> Vec<AtomicU64> {
        (0..BUFFER_LEN).map(|_| AtomicU64::new(0)).collect()
    }

    /// Record of the newest put with a name, on top of the state of transaction `id`.
    fn found(words: &[AtomicU64], id: u64, name: &[u8]) -> Option<Vec<u8>> {
        match WriteBuffer::from_atomics(words).view(id).unwrap() {
            BufferView::Puts(puts) => puts.last(name).unwrap().map(|put| put.record().to_vec()),
            _ => None,
        }
    }

    /// Compares the stored words with the layout in `docs/format.md`.
    #[test]
    fn puts_are_stored_as_documented() {
        let words = empty();
        let buffer = WriteBuffer::from_atomics(&words);
        let mut locked = LockedBuffer::lock(buffer, 41).unwrap();
        locked.restart(9);
        let put = Put { key: b"123456789", record: b"abc", count: 0 };
        assert!(locked.is_live() && locked.has_room(&put).unwrap());
        assert_eq!(locked.version_of(&put), Version::new(41, 5));
        locked.append(&put).unwrap();
        locked.publish();
        locked.retain(42);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        assert_eq!([0, 1, 3, 4].map(|at| unseal(word(at)).unwrap()), [41, 42, 5, 9]);
        assert_eq!(word(2) as u32, 1 << 16 | 5);
        let hash = hash_of(b"123456789") >> 32;
        let bucket = 16 + (hash % 512) as usize;
        assert_eq!(unseal(word(bucket)).unwrap(), 41 << 16 | 528);
        assert_eq!(unseal(word(528)).unwrap(), hash << 16);
        let bytes = |text: &[u8; 8]| u64::from_le_bytes(*text);
        let stored = [b"12345678", b"9\0\0\0\0\0\0\0", b"abc\0\0\0\0\0"].map(bytes);
        assert_eq!(word(529), 3 << 16 | 9);
        assert_eq!([530, 531, 532].map(word), stored);
        let extent = Put { key: b"name of\0\0\0\0\0\0\x01\x02", record: b"r", count: 5 };
        locked.append(&extent).unwrap();
        locked.publish();
        assert_eq!(word(534), 5 << 32 | 1 << 16 | 15);
        let puts = locked.appended().unwrap();
        assert_eq!(puts.extents(b"name of").unwrap()[..], [Extent::new(0x102, 5)]);
        assert!(puts.extents(b"name o").unwrap().is_empty());
        let all = locked.puts().unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), [put, extent]);
        for (id, is_there) in [(40, false), (41, true), (42, true), (43, false)] {
            let record = found(&words, id, b"123456789");
            assert_eq!(record.as_deref(), is_there.then_some(&b"abc"[..]), "after commit {id}");
        }
    }

    /// A transaction that retains the puts and is then aborted must not make them puts on top of the next one.
    #[test]
    fn aborted_transaction_does_not_retain_puts() {
        let words = empty();
        let buffer = WriteBuffer::from_atomics(&words);
        let mut locked = LockedBuffer::lock(buffer, 7).unwrap();
        locked.restart(9);
        locked.append(&Put { key: b"key", record: b"r", count: 0 }).unwrap();
        locked.publish();
        locked.retain(8);
        let locked = LockedBuffer::lock(buffer, 7).unwrap();
        assert!(locked.has_puts() && found(&words, 7, b"key").is_some());
        assert!(found(&words, 8, b"key").is_none());
        assert!(!LockedBuffer::lock(buffer, 8).unwrap().is_live());
    }

    #[test]
    fn every_flipped_bit_of_a_sealed_word_is_detected() {
        for value in [0, 1, 528, 41 << 16 | 528, (1 << 48) - 1] {
            let word = seal(value);
            assert_eq!(unseal(word).unwrap(), value);
            assert!((0..64).all(|bit| unseal(word ^ 1 << bit).is_err()), "{value:x}");
        }
    }
}

/// Models of concurrent readers and writers, under every order in which threads may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Number of commit ids in a model. The first one is unused.
    const COMMITS: usize = 5;

    /// A target with one key, whose value counts up.
    struct Target {
        words: Vec<AtomicU64>,
        lock: Mutex<()>,
        /// Id of the last commit that readers see.
        last: AtomicU64,
        /// Value of the key in the state of each commit.
        states: Vec<AtomicU64>,
        acknowledged: AtomicU64,
    }

    impl Target {
        fn new() -> Arc<Self> {
            let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
            Arc::new(Self {
                words: zeros(PUTS + 15),
                lock: Mutex::new(()),
                last: AtomicU64::new(1),
                states: zeros(COMMITS),
                acknowledged: AtomicU64::new(0),
            })
        }

        fn buffer(&self) -> WriteBuffer<'_> {
            WriteBuffer::from_atomics(&self.words)
        }

        fn locked(&self) -> LockedBuffer<'_> {
            LockedBuffer::lock(self.buffer(), self.last.load(Ordering::Relaxed)).unwrap()
        }

        /// Puts a value into the buffer and acknowledges it.
        fn put(&self, value: u64) {
            let _lock = self.lock.lock().unwrap();
            let mut buffer = self.locked();
            if !buffer.is_live() {
                buffer.restart(9);
            }
            let put = Put { key: b"key", record: &value.to_le_bytes(), count: 0 };
            assert!(buffer.has_room(&put).unwrap());
            buffer.append(&put).unwrap();
            buffer.publish();
            self.acknowledged.fetch_max(value, Ordering::SeqCst);
        }

        /// Commits the newest buffered value, or retains it in the buffer.
        fn commit(&self, retains: bool) {
            let _lock = self.lock.lock().unwrap();
            let (buffer, id) = (self.locked(), self.last.load(Ordering::Relaxed) + 1);
            let before = self.states[id as usize - 1].load(Ordering::Relaxed);
            let value = match retains {
                true => before,
                false => buffer.puts().unwrap().iter().last().map_or(before, value_of),
            };
            if retains {
                buffer.retain(id);
            }
            self.states[id as usize].store(value, Ordering::Relaxed);
            self.last.store(id, Ordering::Release);
        }

        /// Commits a change that replaces the value after the buffered puts.
        fn write(&self, value: u64) {
            let _lock = self.lock.lock().unwrap();
            let _buffer = self.locked();
            let id = self.last.load(Ordering::Relaxed) + 1;
            self.states[id as usize].store(value, Ordering::Relaxed);
            self.last.store(id, Ordering::Release);
            self.acknowledged.fetch_max(value, Ordering::SeqCst);
        }

        /// Begins a transaction that would retain the puts, and aborts it.
        fn abort(&self) {
            let _lock = self.lock.lock().unwrap();
            self.locked().retain(self.last.load(Ordering::Relaxed) + 1);
        }

        /// The value that a reader finds, in the buffer or in the last commit.
        fn read(&self) -> u64 {
            loop {
                let id = self.last.load(Ordering::Acquire);
                let stored = self.states[id as usize].load(Ordering::Relaxed);
                let puts = match self.buffer().view(id).unwrap() {
                    BufferView::Outdated => {
                        thread::yield_now();
                        continue;
                    }
                    BufferView::Empty => return stored,
                    BufferView::Puts(puts) => puts,
                };
                let found = puts.last(b"key").map(|put| put.map(|put| put.record()));
                if puts.is_current() {
                    return found.unwrap().map_or(stored, |record| number_in(&record));
                }
            }
        }

        /// Reads twice. Every acknowledged value is visible, and values never go back.
        fn expect_values_in_order(&self) {
            let acknowledged = self.acknowledged.load(Ordering::SeqCst);
            let first = self.read();
            assert!(first >= acknowledged, "{first} after {acknowledged}");
            let second = self.read();
            assert!(second >= first, "{second} after {first}");
        }
    }

    fn number_in(record: &[u8]) -> u64 {
        u64::from_le_bytes(record.try_into().unwrap())
    }

    fn value_of(put: Put<'_>) -> u64 {
        number_in(put.record)
    }

    /// Runs `write` beside a reader, in every order.
    fn model(write: impl Fn(&Target) + Send + Sync + 'static) {
        let write = std::sync::Arc::new(write);
        loom::model(move || {
            let target = Target::new();
            let writer = thread::spawn({
                let (target, write) = (Arc::clone(&target), std::sync::Arc::clone(&write));
                move || write(&target)
            });
            target.expect_values_in_order();
            writer.join().unwrap();
            target.expect_values_in_order();
        });
    }

    #[test]
    fn puts_are_visible_through_a_commit() {
        model(|target| {
            target.put(1);
            target.commit(false);
            target.put(2);
        });
    }

    #[test]
    fn puts_are_visible_through_a_transaction_that_retains_them() {
        model(|target| {
            target.put(1);
            target.commit(true);
            target.put(2);
            target.commit(false);
        });
    }

    #[test]
    fn aborted_transaction_neither_hides_nor_repeats_puts() {
        model(|target| {
            target.put(1);
            target.abort();
            target.write(2);
            target.put(3);
        });
    }

    /// Two writers and a reader.
    #[test]
    fn acknowledged_put_is_visible_beside_two_writers() {
        loom::model(|| {
            let target = Target::new();
            let writers = [1, 2].map(|value| {
                let target = Arc::clone(&target);
                thread::spawn(move || {
                    target.put(value);
                    target.commit(value == 2);
                })
            });
            let acknowledged = target.acknowledged.load(Ordering::SeqCst);
            let found = target.read();
            assert!(acknowledged == 0 || found > 0);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert!(target.read() > 0);
        });
    }
}
