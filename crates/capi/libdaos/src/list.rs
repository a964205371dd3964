//! Listings of dkeys, akeys and records, and their anchors (`daos_obj.h`).
use crate::abi::{self, EpochRange, Event, Handle, Iov, KeyDesc, Ptr, Recx, Sgl};
use crate::code::{Code, Result};
use crate::handles::{self, Entry};
use crate::packing::Buffers;
use crate::per_process::PerProcess;
use crate::{boundary, convert, object, strict};
use esker::types::KeyBatch;
use esker::types::ops::{AkeyRef, Anchor, ListLimit, StoredExtent};
use esker::{Access, Object};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The output of a listing of keys: on entry `nr` is the number of entries in `kds`, afterwards that of the listed
/// keys.
#[derive(Clone, Copy)]
struct KeyPage {
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
}

/// The keys to list.
#[derive(Clone, Copy)]
pub(crate) enum Level<'a> {
    Dkeys,
    Akeys(&'a [u8]),
}

impl Level<'_> {
    /// Lists keys of this level.
    pub(crate) async fn list(
        self,
        object: &Object,
        at: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        Ok(match self {
            Self::Dkeys => object.list_dkeys(at, limit, access).await?,
            Self::Akeys(dkey) => object.list_akeys(dkey, at, limit, access).await?,
        })
    }
}

/// Lists dkeys.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_dkey(
    oh: Handle,
    th: Handle,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = KeyPage { nr, kds, sgl, anchor };
    boundary::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { page.fill(&entry, Level::Dkeys, via.access()).await })
    })
}

/// Lists the akeys of a dkey.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_akey(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    let page = KeyPage { nr, kds, sgl, anchor };
    boundary::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { page.fill(&entry, Level::Akeys(convert::key(dkey)?), via.access()).await })
    })
}

impl KeyPage {
    /// Lists keys into the caller's buffers.
    async fn fill(self, entry: &Entry, level: Level<'_>, access: Access<'_>) -> Result<()> {
        let (object, positions) = object::listed(entry)?;
        strict::check_listing(object.oid(), level, access)?;
        let mut at = read_anchor(self.anchor, positions)?;
        let entries = self.nr.get()? as usize;
        self.kds.needed()?;
        let mut buffers = Buffers::new(self.sgl)?;
        if entries == 0 {
            return Err(Code::INVAL);
        }
        let mut limit = ListLimit { entries, bytes: buffers.bytes() };
        let keys = loop {
            let mut end = at.clone();
            let keys = level.list(object, &mut end, limit, access).await?;
            match buffers.fill(&keys)? {
                0 if !keys.is_empty() => return Err(self.too_big(&keys)),
                // Lists again only the keys that fit, so that the next call begins after them.
                fitting if fitting < keys.len() => limit.entries = fitting,
                _ => {
                    at = end;
                    break keys;
                }
            }
        };
        self.describe(&keys);
        buffers.record()?;
        write_anchor(self.anchor, at, positions);
        Ok(())
    }

    /// Reports that the first key does not fit. The number of keys stays, so that the caller can call again with more
    /// room.
    #[cold]
    fn too_big(&self, keys: &KeyBatch) -> Code {
        let key_len = keys.iter().next().map_or(0, |key| key.len() as u64);
        self.kds.set(KeyDesc { key_len, val_type: 0 });
        Code::KEY2BIG
    }

    /// Stores the number of keys and the length of each in the variables of the caller.
    fn describe(&self, keys: &KeyBatch) {
        for (index, key) in keys.iter().enumerate() {
            self.kds.at(index).set(KeyDesc { key_len: key.len() as u64, val_type: 0 });
        }
        self.nr.set(keys.len() as u32);
    }
}

/// Extents that a descending listing reads at a time.
const RECORDS_PER_READ: usize = 1024;

/// The output of a listing of records: on entry `nr` is the number of entries in the lists, afterwards that of the
/// listed extents.
#[derive(Clone, Copy)]
struct RecordPage {
    size: Ptr<u64>,
    nr: Ptr<u32>,
    recxs: Ptr<Recx>,
    eprs: Ptr<EpochRange>,
    anchor: Ptr<abi::Anchor>,
    ascending: bool,
}

/// Lists the ranges of an array value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_recx(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    size: Ptr<u64>,
    nr: Ptr<u32>,
    recxs: Ptr<Recx>,
    eprs: Ptr<EpochRange>,
    anchor: Ptr<abi::Anchor>,
    incr_order: u8,
    ev: Ptr<Event>,
) -> c_int {
    let page = RecordPage { size, nr, recxs, eprs, anchor, ascending: incr_order != 0 };
    boundary::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move {
            let key = AkeyRef { dkey: convert::key(dkey)?, akey: convert::key(akey)? };
            page.fill(&entry, key, via.access()).await
        })
    })
}

impl RecordPage {
    /// Lists one page of extents into the buffers of the caller.
    async fn fill(self, entry: &Entry, key: AkeyRef<'_>, access: Access<'_>) -> Result<()> {
        let (object, positions) = object::listed(entry)?;
        let entries = self.nr.get()? as usize;
        self.recxs.needed()?;
        strict::check_records(entries)?;
        if entries == 0 {
            return Err(Code::INVAL);
        }
        if !self.ascending {
            return self.fill_descending(object, key, entries, access).await;
        }
        let mut at = read_anchor(self.anchor, positions)?;
        let found = object.list_extents(key, &mut at, entries, access).await?;
        strict::check_array(object, key, found.is_empty(), access).await?;
        self.put(&found);
        write_anchor(self.anchor, at, positions);
        Ok(())
    }

    /// Lists extents in descending order. The store lists in ascending order, so all records below those that were
    /// returned already are read, and the last ones are returned first. The anchor stores the first record that was
    /// returned.
    async fn fill_descending(
        self,
        object: &Object,
        key: AkeyRef<'_>,
        entries: usize,
        access: Access<'_>,
    ) -> Result<()> {
        let mut anchor = self.anchor.get()?;
        // Records below this one were not returned yet.
        let end = if anchor.kind == START { u64::MAX } else { anchor.sub_anchors };
        let (mut page, mut is_last) = (Vec::new(), true);
        let (mut at, mut is_past) = (Anchor::Start, false);
        while !at.is_end() && !is_past {
            let found = object.list_extents(key, &mut at, RECORDS_PER_READ, access).await?;
            is_past = found.last().is_some_and(|stored| stored.extent.start >= end);
            page.extend(found.into_iter().filter(|stored| stored.extent.start < end));
            let rest = page.len().saturating_sub(entries);
            is_last &= rest == 0;
            page.drain(..rest);
        }
        page.reverse();
        self.put(&page);
        anchor.kind = if is_last { END } else { KEY };
        anchor.sub_anchors = page.last().map_or(0, |stored| stored.extent.start);
        self.anchor.set(anchor);
        Ok(())
    }

    /// Writes extents, their epochs, their number, and the size of records.
    fn put(&self, found: &[StoredExtent]) {
        for (index, stored) in found.iter().enumerate() {
            self.recxs.at(index).set(stored.extent.into());
            if !self.eprs.is_null() {
                self.eprs.at(index).set(EpochRange { lo: stored.epoch.0, hi: stored.epoch.0 });
            }
        }
        self.size.set(found.first().map_or(0, |stored| stored.record_size));
        self.nr.set(found.len() as u32);
    }
}

/// Keys that the search for a position reads at a time.
const KEYS_PER_READ: usize = 1024;

/// Splits a listing into parts: always one.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_anchor_split(
    oh: Handle,
    nr: Ptr<u32>,
    anchors: Ptr<abi::Anchor>,
) -> c_int {
    boundary::now(|| {
        let entry = handles::entry(oh)?;
        let (_, positions) = object::listed(&entry)?;
        if nr.get()? > 0 {
            write_anchor(anchors.needed()?, Anchor::Start, positions);
        }
        nr.set(1);
        Ok(())
    })
}

/// Sets an anchor to the start of a part of a listing.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_anchor_set(oh: Handle, index: u32, anchor: Ptr<abi::Anchor>) -> c_int {
    boundary::now(|| {
        let entry = handles::entry(oh)?;
        let (_, positions) = object::listed(&entry)?;
        anchor.needed()?;
        if index > 0 {
            return Err(Code::INVAL);
        }
        write_anchor(anchor, Anchor::Start, positions);
        Ok(())
    })
}

/// Sets an anchor so that a listing continues at a key.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_key2anchor(
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    anchor: Ptr<abi::Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
        Ok(async move { set_at_key(&entry, via.access(), dkey, akey, anchor).await })
    })
}

/// Sets the anchor so that a listing continues with the dkey or, if `akey` is not null, with that akey of the dkey.
async fn set_at_key(
    entry: &Entry,
    access: Access<'_>,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    anchor: Ptr<abi::Anchor>,
) -> Result<()> {
    let (object, positions) = object::listed(entry)?;
    let (dkey, anchor) = (convert::key(dkey)?, anchor.needed()?);
    let at = match akey.is_null() {
        true => find(object, Level::Dkeys, dkey, access).await?,
        false => find(object, Level::Akeys(dkey), convert::key(akey)?, access).await?,
    };
    write_anchor(anchor, at, positions);
    Ok(())
}

/// The position before `key`: the position of its page, advanced by the keys before it. `NONEXIST` if the object has no
/// such key.
pub(crate) async fn find(
    object: &Object,
    level: Level<'_>,
    key: &[u8],
    access: Access<'_>,
) -> Result<Anchor> {
    let mut at = Anchor::Start;
    while !at.is_end() {
        let mut page = at.clone();
        let keys = level.list(object, &mut at, ListLimit::entries(KEYS_PER_READ), access).await?;
        let before = keys.iter().position(|found| found == key);
        match before {
            None => {}
            Some(0) => return Ok(page),
            Some(before) => {
                // Listing the keys before it moves the position up to it.
                level.list(object, &mut page, ListLimit::entries(before), access).await?;
                return Ok(page);
            }
        }
    }
    Err(Code::NONEXIST)
}

const START: u16 = 0;
const KEY: u16 = 2;
const END: u16 = 3;

/// Longest position that an anchor holds. The first byte of the buffer is its length.
const INLINE_MAX: usize = 103;
/// Instead of a length: the position is stored with the handle, under the number that follows.
const STORED: u8 = 0xff;
/// Positions stored with one handle; new ones replace the oldest.
const STORED_MAX: usize = 256;

/// Positions of the listings of one handle, each too long for the buffer of an anchor. The anchor then has the number
/// of its position.
#[derive(Default)]
pub(crate) struct StoredPositions(Mutex<Positions>);

/// Positions after their numbers, which ascend.
type Positions = VecDeque<(u64, Vec<u8>)>;

/// Number of the next position. All handles share it, so that no handle finds the position of another one under the
/// number in an anchor.
static NEXT: PerProcess<Next> = PerProcess::new();

/// The next number. It starts at random, so that anchors of another process do not name positions of this one.
struct Next(AtomicU64);

impl Default for Next {
    fn default() -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        // Far from the end, so that numbers ascend.
        Self(AtomicU64::new(random >> 1))
    }
}

impl StoredPositions {
    fn positions(&self) -> MutexGuard<'_, Positions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a position that is too long for an anchor, and returns its number.
    fn put(&self, position: Vec<u8>) -> u64 {
        let next = NEXT.get();
        let mut stored = self.positions();
        if stored.len() == STORED_MAX {
            stored.pop_front();
        }
        let number = next.0.fetch_add(1, Ordering::Relaxed);
        stored.push_back((number, position));
        number
    }

    /// The position with this number; `None` if it was dropped since, or is that of another handle.
    fn get(&self, number: u64) -> Option<Vec<u8>> {
        let stored = self.positions();
        let index = stored.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        stored.get(index).map(|(_, position)| position.clone())
    }
}

/// Reads the position of a listing from an anchor.
pub(crate) fn read_anchor(anchor: Ptr<abi::Anchor>, positions: &StoredPositions) -> Result<Anchor> {
    let anchor = anchor.get()?;
    match anchor.kind {
        START => Ok(Anchor::Start),
        END => Ok(Anchor::End),
        KEY => {
            let position = position(&anchor.buf, positions).ok_or(Code::INVAL)?;
            Ok(Anchor::After { shard: u32::from(anchor.shard), position })
        }
        _ => Err(Code::INVAL),
    }
}

/// Returns the position in the bytes of an anchor: a short one is stored there, a long one in `positions`. None if the
/// anchor is damaged or its stored position is gone.
fn position(buf: &[u8; 104], positions: &StoredPositions) -> Option<Vec<u8>> {
    match buf[0] {
        STORED => positions.get(u64::from_le_bytes(buf.get(1..9)?.try_into().ok()?)),
        len => Some(buf.get(1..=usize::from(len))?.to_vec()),
    }
}

/// Writes the position of a listing to an anchor.
pub(crate) fn write_anchor(anchor: Ptr<abi::Anchor>, at: Anchor, positions: &StoredPositions) {
    let mut out = abi::Anchor { kind: START, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] };
    match at {
        Anchor::Start => {}
        Anchor::End => out.kind = END,
        Anchor::After { shard, position } => {
            out.kind = KEY;
            out.shard = shard as u16;
            pack(&mut out.buf, position, positions);
        }
    }
    anchor.set(out);
}

/// Writes a position into an anchor; a long one is stored, and the anchor gets its number.
fn pack(buf: &mut [u8; 104], position: Vec<u8>, positions: &StoredPositions) {
    match position.len() {
        len @ 0..=INLINE_MAX => {
            buf[0] = len as u8;
            buf[1..=len].copy_from_slice(&position);
        }
        _ => {
            buf[0] = STORED;
            buf[1..9].copy_from_slice(&positions.put(position).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dfs::intercepted::{self, Mounted, at};

    fn round_trip(at: Anchor) -> Anchor {
        let positions = StoredPositions::default();
        let mut raw = abi::Anchor { kind: 9, shard: 9, flags: 9, sub_anchors: 9, buf: [9; 104] };
        // SAFETY: it points to a local anchor.
        let anchor = unsafe { Ptr::new(&raw mut raw) };
        write_anchor(anchor, at, &positions);
        read_anchor(anchor, &positions).unwrap()
    }

    #[test]
    fn positions_of_any_length_survive_a_round_trip() {
        for len in [0, 1, 102, 103, 104, 1000] {
            let at = Anchor::After { shard: 7, position: vec![3; len] };
            assert_eq!(round_trip(at.clone()), at);
        }
        assert_eq!(round_trip(Anchor::Start), Anchor::Start);
        assert_eq!(round_trip(Anchor::End), Anchor::End);
    }

    #[test]
    fn stored_positions_are_bounded() {
        let positions = StoredPositions::default();
        let first = positions.put(vec![0]);
        let last = (1..=STORED_MAX).map(|n| positions.put(vec![n as u8])).last().unwrap();
        assert_eq!(positions.get(first), None);
        assert_eq!(positions.get(last), Some(vec![STORED_MAX as u8]));
        assert_eq!(positions.get(last + 1), None);
    }

    #[test]
    fn numbers_of_another_process_are_others() {
        let [this, other] = [Next::default(), Next::default()].map(|next| next.0.into_inner());
        assert_ne!(this, other);
        assert!(this.max(other) <= u64::MAX >> 1);
    }

    /// Writes one record of one byte to each range.
    fn put(oh: Handle, key: &mut Iov, recxs: &mut [Recx]) {
        let mut data = vec![1; recxs.len()];
        let (mut data, nr) = (intercepted::iov(&mut data), recxs.len() as u32);
        let (name, recxs) = (*key, at(&mut recxs[0]));
        let mut iod = abi::Iod { name, kind: abi::IOD_ARRAY, size: 1, flags: 0, nr, recxs };
        let (mut sgl, th) = (intercepted::sgl(&mut data), Handle { cookie: 0 });
        let (iods, sgls) = (at(&mut iod), at(&mut sgl));
        let none = Ptr::null();
        assert_eq!(object::daos_obj_update(oh, th, 0, at(key), 1, iods, sgls, none), 0);
    }

    /// A page of a descending listing reads no extents above those that were listed already.
    #[test]
    fn a_descending_listing_stops_where_it_continues() {
        const EXTENTS: usize = 3 * RECORDS_PER_READ;
        let fs = Mounted::new("descending");
        let mut oh = Handle { cookie: 0 };
        let mut oid = abi::ObjId { lo: 5, hi: 7 };
        let generated = object::daos_obj_generate_oid2(fs.coh, at(&mut oid), 0, 0, 0, 0);
        let none = Ptr::null();
        let opened = object::daos_obj_open(fs.coh, oid, 4, at(&mut oh), none);
        assert_eq!((generated, opened), (0, 0));
        let mut name = *b"key";
        let mut key = intercepted::iov(&mut name);
        let mut recxs: Vec<_> =
            (0..EXTENTS as u64).map(|index| Recx { idx: 2 * index, nr: 1 }).collect();
        put(oh, &mut key, &mut recxs);
        recxs.reverse();
        let mut anchor = abi::Anchor { kind: 0, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] };
        for (page, reads) in recxs.chunks(RECORDS_PER_READ).zip([3, 2, 1]) {
            let (mut found, mut size) = (vec![Recx::default(); page.len()], 0);
            let (mut nr, th) = (page.len() as u32, Handle { cookie: 0 });
            let (nr, recxs) = (at(&mut nr), at(&mut found[0]));
            let (key, size, anchor) = (at(&mut key), at(&mut size), at(&mut anchor));
            fs.calls.take_listings();
            let listed = daos_obj_list_recx(
                oh,
                th,
                key,
                key,
                size,
                nr,
                recxs,
                Ptr::null(),
                anchor,
                0,
                Ptr::null(),
            );
            assert_eq!((listed, nr.get().unwrap()), (0, page.len() as u32));
            assert_eq!(found, page);
            let made = fs.calls.take_listings();
            assert!(made <= reads + 1, "{made} for {reads}");
        }
        assert_eq!(anchor.kind, END);
    }

    #[test]
    fn position_of_another_handle_is_not_found() {
        let (own, other) = (StoredPositions::default(), StoredPositions::default());
        let (first, second) = (own.put(vec![1]), other.put(vec![2]));
        assert_eq!((own.get(second), other.get(first)), (None, None));
        assert_eq!((own.get(first), other.get(second)), (Some(vec![1]), Some(vec![2])));
    }
}
