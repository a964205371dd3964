//! The table behind handles. Places are made in chunks, freed with the table only, and used again under a
//! new generation. Nothing locks, so a fork at any moment leaves the table usable in the child.
#[cfg(all(loom, test))]
mod models;

use super::sync::{AtomicPtr, AtomicU32, AtomicU64, UnsafeCell, fence};
use crate::code::{Code, Result};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering;

const INDEX_SHIFT: u32 = 4;
/// Bits of a cookie that are zero: for its owner to use.
pub(super) const SPARE_MASK: u64 = (1 << INDEX_SHIFT) - 1;
const INDEX_MASK: u64 = 0x0fff_ffff;
const GENERATION_SHIFT: u32 = 32;

/// A model has few places, for loom looks at each.
const CHUNK: usize = if cfg!(all(loom, test)) { 2 } else { 256 };
/// Handles that can be open at a time: a million.
const CHUNKS: usize = if cfg!(all(loom, test)) { 2 } else { 4096 };

/// A state is a generation, whether the handle is open, and how many use it just now.
const OPEN: u64 = 1 << 31;
const USERS: u64 = OPEN - 1;

/// What is behind handles, each in a place of its own.
pub(super) struct Table<E> {
    chunks: [AtomicPtr<Slot<E>>; CHUNKS],
    /// Places made so far.
    made: AtomicU32,
    /// The first free place plus one, below a tag that changes with every change.
    free: AtomicU64,
}

/// Threads that use different handles do not share a cache line.
#[repr(align(64))]
struct Slot<E> {
    state: AtomicU64,
    /// The next free place, plus one.
    next: AtomicU32,
    index: u32,
    entry: UnsafeCell<Option<E>>,
}

// SAFETY: the entry is written before the state says open and after it says that nobody uses it;
// in between it is only read. Any thread may look at it, and the one that lets go of it last drops it.
unsafe impl<E: Send + Sync> Sync for Slot<E> {}

// SAFETY: as for its slots, which it owns.
unsafe impl<E: Send + Sync> Sync for Table<E> {}

impl<E> Slot<E> {
    fn new(index: usize) -> Self {
        Self {
            state: AtomicU64::new(1 << GENERATION_SHIFT),
            next: AtomicU32::new(0),
            index: index as u32,
            entry: UnsafeCell::new(None),
        }
    }

    fn generation(&self) -> u64 {
        self.state.load(Ordering::Acquire) >> GENERATION_SHIFT
    }

    /// Changes the state of an open place of this generation.
    fn change(&self, generation: u64, change: impl Fn(u64) -> u64) -> Result<()> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if state >> GENERATION_SHIFT != generation || state & OPEN == 0 {
                return Err(Code::NO_HDL);
            }
            let new = change(state);
            match self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(()),
                Err(now) => state = now,
            }
        }
    }

    /// Gives up one use; true for the last one after the close, whose caller empties the place.
    fn release(&self) -> bool {
        let before = self.state.fetch_sub(1, Ordering::Release);
        let is_last = before & (OPEN | USERS) == 1;
        if is_last {
            fence(Ordering::Acquire);
        }
        is_last
    }

    fn begin_generation(&self) {
        let generation = (self.state.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1;
        let generation = (generation & u64::from(u32::MAX)).max(1);
        self.state.store(generation << GENERATION_SHIFT, Ordering::Release);
    }
}

fn tagged(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

impl<E> Table<E> {
    #[cfg(not(all(loom, test)))]
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            made: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// The place at `index`, where there is one.
    fn slot(&self, index: usize) -> Option<&Slot<E>> {
        let chunk = self.chunks.get(index / CHUNK)?.load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: chunks have CHUNK places and last as long as the table.
        Some(unsafe { &*chunk.add(index % CHUNK) })
    }

    /// The places made so far.
    fn slots(&self) -> impl Iterator<Item = &Slot<E>> {
        let made = self.made.load(Ordering::Acquire) as usize;
        (0..made).filter_map(|index| self.slot(index))
    }

    fn make_chunk(&self, number: usize) -> Option<()> {
        let chunk = self.chunks.get(number)?;
        if !chunk.load(Ordering::Acquire).is_null() {
            return Some(());
        }
        let made: Box<[_]> =
            (0..CHUNK).map(|place| Slot::<E>::new(number * CHUNK + place)).collect();
        let first = Box::into_raw(made).cast::<Slot<E>>();
        let null = ptr::null_mut();
        if chunk.compare_exchange(null, first, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread was first, so nobody else knows of this one.
            unsafe { drop_chunk(first) };
        }
        Some(())
    }

    fn make(&self) -> Option<&Slot<E>> {
        let most = (CHUNK * CHUNKS) as u32;
        let more = |made: u32| (made < most).then_some(made + 1);
        let made = self.made.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let index = made.ok()? as usize;
        self.make_chunk(index / CHUNK)?;
        self.slot(index)
    }

    fn push_free(&self, slot: &Slot<E>) {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            slot.next.store(head as u32, Ordering::Release);
            let new = tagged(head, slot.index + 1);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop_free(&self) -> Option<&Slot<E>> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let first = self.slot((head as u32).checked_sub(1)? as usize)?;
            let new = tagged(head, first.next.load(Ordering::Acquire));
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(now) => head = now,
            }
        }
    }

    /// Opens a handle; returns its cookie.
    pub(super) fn insert(&self, entry: E) -> Result<u64> {
        let slot = self.pop_free().or_else(|| self.make()).ok_or(Code::NOMEM)?;
        // SAFETY: the place was free, so nobody else knows of it.
        slot.entry.with_mut(|place| unsafe { *place = Some(entry) });
        let state = slot.state.load(Ordering::Relaxed);
        slot.state.store(state | OPEN, Ordering::Release);
        Ok(state >> GENERATION_SHIFT << GENERATION_SHIFT | u64::from(slot.index) << INDEX_SHIFT)
    }

    /// The entry of an open handle, which stays while it is held.
    pub(super) fn hold(&self, cookie: u64) -> Result<Held<'_, E, E>> {
        let index = (cookie >> INDEX_SHIFT & INDEX_MASK) as usize;
        let slot = self.slot(index).ok_or(Code::NO_HDL)?;
        Held::new(self, slot, cookie >> GENERATION_SHIFT, |state| state + 1)
    }

    /// What is open just now.
    pub(super) fn open_entries(&self) -> impl Iterator<Item = Held<'_, E, E>> {
        let hold = |slot| Held::new(self, slot, Slot::generation(slot), |state| state + 1).ok();
        self.slots().filter_map(hold)
    }

    /// Closes every handle.
    pub(super) fn close_all(&self) {
        for slot in self.slots() {
            drop(Held::new(self, slot, slot.generation(), |state| (state & !OPEN) + 1));
        }
    }

    /// Makes all handles unknown without ending what they stand for: in a child after a fork that is
    /// still the parent's.
    pub(super) fn forget_all(&self) {
        for slot in self.slots() {
            if slot.state.load(Ordering::Acquire) & (OPEN | USERS) != 0 {
                // SAFETY: the child has but one thread, and it is here.
                std::mem::forget(slot.entry.with_mut(|entry| unsafe { (*entry).take() }));
                slot.begin_generation();
                self.push_free(slot);
            }
        }
    }

    #[cold]
    fn empty(&self, slot: &Slot<E>) {
        // SAFETY: it is closed and this was the last use, so nobody else can get at the entry.
        drop(slot.entry.with_mut(|entry| unsafe { (*entry).take() }));
        slot.begin_generation();
        self.push_free(slot);
    }
}

impl<E> Drop for Table<E> {
    fn drop(&mut self) {
        let chunks = self.chunks.iter().map(|chunk| chunk.load(Ordering::Acquire));
        // SAFETY: nobody can hold anything of a table that is dropped.
        chunks.filter(|chunk| !chunk.is_null()).for_each(|chunk| unsafe { drop_chunk(chunk) });
    }
}

/// # Safety
/// It must be the first of a chunk, which nobody uses after.
unsafe fn drop_chunk<E>(first: *mut Slot<E>) {
    // SAFETY: chunks are made as boxes of so many places.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, CHUNK)) });
}

/// A part of an entry, which stays while this is held.
pub(crate) struct Held<'t, E, T> {
    table: &'t Table<E>,
    slot: &'t Slot<E>,
    it: *const T,
}

// SAFETY: it is a shared reference by another name; the entry may be dropped where it is.
unsafe impl<E: Send + Sync, T: Sync> Send for Held<'_, E, T> {}

impl<'t, E> Held<'t, E, E> {
    fn new(
        table: &'t Table<E>,
        slot: &'t Slot<E>,
        generation: u64,
        change: impl Fn(u64) -> u64,
    ) -> Result<Self> {
        slot.change(generation, change)?;
        // SAFETY: the state was open and counts this use, so the entry is there and stays.
        match slot.entry.with(|entry| unsafe { &*entry }) {
            Some(entry) => Ok(Self { table, slot, it: entry }),
            None => Err(Code::NO_HDL),
        }
    }

    /// Closes the handle, unless another has: it is gone for others, its entry stays while held.
    pub(super) fn close(&self) -> Result<()> {
        match self.slot.state.fetch_and(!OPEN, Ordering::AcqRel) & OPEN {
            0 => Err(Code::NO_HDL),
            _ => Ok(()),
        }
    }

    /// Goes on holding a part only; what has no such part is no fitting handle.
    pub(crate) fn pick<T>(self, pick: impl FnOnce(&E) -> Option<&T>) -> Result<Held<'t, E, T>> {
        let it: *const T = pick(&self).ok_or(Code::NO_HDL)?;
        let (table, slot) = (self.table, self.slot);
        std::mem::forget(self);
        Ok(Held { table, slot, it })
    }
}

impl<E, T> Deref for Held<'_, E, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the entry it is part of stays while this is held.
        unsafe { &*self.it }
    }
}

impl<E, T> Drop for Held<'_, E, T> {
    fn drop(&mut self) {
        if self.slot.release() {
            self.table.empty(self.slot);
        }
    }
}
