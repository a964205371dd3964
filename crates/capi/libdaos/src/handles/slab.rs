//! The table of handles. Slots are allocated in chunks, freed only with the table, and reused under a new generation.
//! Nothing takes a lock, so the child of a fork can use the table at any moment.
#[cfg(all(loom, test))]
mod models;

use crate::code::{Code, Result};
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering;
use sync::{AtomicPtr, AtomicU32, AtomicU64, UnsafeCell, fence};

const INDEX_SHIFT: u32 = 4;
/// Bits of a cookie that are zero here; the caller may use them.
pub(super) const SPARE_MASK: u64 = (1 << INDEX_SHIFT) - 1;
const INDEX_MASK: u64 = 0x0fff_ffff;
const GENERATION_SHIFT: u32 = 32;

/// Slots in a chunk. Models have few, because loom checks each of them.
const CHUNK: usize = if cfg!(all(loom, test)) { 2 } else { 256 };
/// Chunks in a table: a million handles can be open at a time.
const CHUNKS: usize = if cfg!(all(loom, test)) { 2 } else { 4096 };

/// The state of a slot consists of its generation, the flag "open" and the number of references.
const OPEN: u64 = 1 << 31;
const REFERENCES: u64 = OPEN - 1;

/// A table of entries, one in each slot.
pub(super) struct Table<E> {
    chunks: [AtomicPtr<Slot<E>>; CHUNKS],
    /// Slots allocated so far.
    made: AtomicU32,
    /// The first free slot plus one, and a tag in the upper bits that every change increments.
    free: AtomicU64,
}

/// Aligned so that threads with different handles do not share a cache line.
#[repr(align(64))]
struct Slot<E> {
    state: AtomicU64,
    /// The next free slot, plus one.
    next: AtomicU32,
    index: u32,
    entry: UnsafeCell<Option<E>>,
}

// SAFETY: the entry is written before the slot is marked open and after its last reference ended; in between it is
// only read. Any thread may read it, and the one that releases the last reference drops it.
unsafe impl<E: Send + Sync> Sync for Slot<E> {}

// SAFETY: it owns its slots, to which the above applies.
unsafe impl<E: Send + Sync> Sync for Table<E> {}

impl<E> Slot<E> {
    /// A slot without an entry. Generations begin at 1, so that no handle is 0.
    fn new(index: usize) -> Self {
        Self {
            state: AtomicU64::new(1 << GENERATION_SHIFT),
            next: AtomicU32::new(0),
            index: index as u32,
            entry: UnsafeCell::new(None),
        }
    }

    /// The generation of the slot, which cookies contain.
    fn generation(&self) -> u64 {
        self.state.load(Ordering::Acquire) >> GENERATION_SHIFT
    }

    /// Changes the state if the slot is open and has this generation.
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

    /// Releases a reference; true for the last one after the close. The caller then empties the slot.
    fn release(&self) -> bool {
        let before = self.state.fetch_sub(1, Ordering::Release);
        // The handle is closed, and this was the only reference.
        let is_last = before & (OPEN | REFERENCES) == 1;
        if is_last {
            // Accesses by references that other threads released come before the drop of the entry.
            fence(Ordering::Acquire);
        }
        is_last
    }

    /// Begins the next generation of the slot, without references, so that handles of the entry before no longer fit.
    /// The number skips 0 when it wraps around.
    fn begin_generation(&self) {
        let generation = (self.state.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1;
        let generation = (generation & u64::from(u32::MAX)).max(1);
        self.state.store(generation << GENERATION_SHIFT, Ordering::Release);
    }
}

/// The new head of the list of free slots: `first`, the first slot plus one, and the tag of `head` plus one.
fn tagged(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

impl<E> Table<E> {
    /// A table without slots; they are made in chunks when they are needed.
    #[cfg(not(all(loom, test)))]
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            made: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }

    /// The slot at `index`, if it is allocated.
    fn slot(&self, index: usize) -> Option<&Slot<E>> {
        let chunk = self.chunks.get(index / CHUNK)?.load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: chunks have CHUNK slots and live as long as the table.
        Some(unsafe { &*chunk.add(index % CHUNK) })
    }

    /// The slots allocated so far.
    fn slots(&self) -> impl Iterator<Item = &Slot<E>> {
        let made = self.made.load(Ordering::Acquire) as usize;
        (0..made).filter_map(|index| self.slot(index))
    }

    /// Makes chunk `number` of the slots, unless another thread has. `None` if the table is full.
    fn make_chunk(&self, number: usize) -> Option<()> {
        let chunk = self.chunks.get(number)?;
        if !chunk.load(Ordering::Acquire).is_null() {
            return Some(());
        }
        let made: Box<[_]> =
            (0..CHUNK).map(|index| Slot::<E>::new(number * CHUNK + index)).collect();
        let first = Box::into_raw(made).cast::<Slot<E>>();
        let null = ptr::null_mut();
        if chunk.compare_exchange(null, first, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: another thread stored its value first, so this one was never shared.
            unsafe { drop_chunk(first) };
        }
        Some(())
    }

    /// A slot that was never used. `None` if there are too many handles.
    fn allocate(&self) -> Option<&Slot<E>> {
        let most = (CHUNK * CHUNKS) as u32;
        let more = |made: u32| (made < most).then_some(made + 1);
        let made = self.made.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let index = made.ok()? as usize;
        self.make_chunk(index / CHUNK)?;
        self.slot(index)
    }

    /// Puts a slot on the list of free ones. The head has a tag that changes each time, so that a thread notices
    /// changes between its load and its exchange.
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

    /// Takes a slot off the list of free ones.
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
        let slot = self.pop_free().or_else(|| self.allocate()).ok_or(Code::NOMEM)?;
        // SAFETY: the slot was free, so nothing else accesses it.
        slot.entry.with_mut(|cell| unsafe { *cell = Some(entry) });
        let state = slot.state.load(Ordering::Relaxed);
        slot.state.store(state | OPEN, Ordering::Release);
        Ok(state >> GENERATION_SHIFT << GENERATION_SHIFT | u64::from(slot.index) << INDEX_SHIFT)
    }

    /// Takes a reference to the entry of an open handle.
    pub(super) fn hold(&self, cookie: u64) -> Result<Held<'_, E, E>> {
        let index = (cookie >> INDEX_SHIFT & INDEX_MASK) as usize;
        let slot = self.slot(index).ok_or(Code::NO_HDL)?;
        Held::new(self, slot, cookie >> GENERATION_SHIFT, |state| state + 1)
    }

    /// All entries that are open at the moment.
    pub(super) fn open_entries(&self) -> impl Iterator<Item = Held<'_, E, E>> {
        let hold = |slot| Held::new(self, slot, Slot::generation(slot), |state| state + 1).ok();
        self.slots().filter_map(hold)
    }

    /// Closes every handle. The change of state also counts a reference, whose end drops an entry that nothing else
    /// uses.
    pub(super) fn close_all(&self) {
        for slot in self.slots() {
            drop(Held::new(self, slot, slot.generation(), |state| (state & !OPEN) + 1));
        }
    }

    /// Invalidates all handles without dropping their entries: in a child after a fork these still belong to the
    /// parent.
    pub(super) fn forget_all(&self) {
        for slot in self.slots() {
            if slot.state.load(Ordering::Acquire) & (OPEN | REFERENCES) != 0 {
                // SAFETY: the child has a single thread, which runs this.
                std::mem::forget(slot.entry.with_mut(|entry| unsafe { (*entry).take() }));
                slot.begin_generation();
                self.push_free(slot);
            }
        }
    }

    /// Takes the entry out of a closed slot, and makes the slot free. Its old handles become invalid.
    #[cold]
    fn empty(&self, slot: &Slot<E>) -> Option<E> {
        // SAFETY: the slot is closed and this was the last reference, so nothing else accesses the entry.
        let entry = slot.entry.with_mut(|entry| unsafe { (*entry).take() });
        slot.begin_generation();
        self.push_free(slot);
        entry
    }
}

impl<E> Drop for Table<E> {
    fn drop(&mut self) {
        let chunks = self.chunks.iter().map(|chunk| chunk.load(Ordering::Acquire));
        // SAFETY: the table is being dropped, so it has no references.
        chunks.filter(|chunk| !chunk.is_null()).for_each(|chunk| unsafe { drop_chunk(chunk) });
    }
}

/// Frees a chunk.
///
/// # Safety
/// `first` must be the first slot of a chunk that is not used afterwards.
unsafe fn drop_chunk<E>(first: *mut Slot<E>) {
    // SAFETY: chunks are allocated as boxed slices of CHUNK slots.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first, CHUNK)) });
}

/// A reference to an entry or a part of it, which keeps the entry alive.
pub(crate) struct Held<'t, E, T> {
    table: &'t Table<E>,
    slot: &'t Slot<E>,
    it: *const T,
}

// SAFETY: it acts as a shared reference, and any thread may drop the entry.
unsafe impl<E: Send + Sync, T: Sync> Send for Held<'_, E, T> {}

impl<'t, E> Held<'t, E, E> {
    /// Takes a reference to the entry of a slot, if the slot is still of this generation.
    fn new(
        table: &'t Table<E>,
        slot: &'t Slot<E>,
        generation: u64,
        change: impl Fn(u64) -> u64,
    ) -> Result<Self> {
        slot.change(generation, change)?;
        // SAFETY: the slot was open and its state counts this reference, so the entry exists and stays.
        match slot.entry.with(|entry| unsafe { &*entry }) {
            Some(entry) => Ok(Self { table, slot, it: entry }),
            None => Err(Code::NO_HDL),
        }
    }

    /// Closes the handle, unless another thread has. The entry lives until its last reference ends.
    pub(super) fn close(&self) -> Result<()> {
        match self.slot.state.fetch_and(!OPEN, Ordering::AcqRel) & OPEN {
            0 => Err(Code::NO_HDL),
            _ => Ok(()),
        }
    }

    /// Ends the reference. Returns the entry if its handle is closed and this was the last reference.
    pub(crate) fn into_entry(self) -> Option<E> {
        let (table, slot) = (self.table, self.slot);
        std::mem::forget(self);
        if slot.release() { table.empty(slot) } else { None }
    }

    /// Narrows the reference to a part; an entry without this part is of the wrong type.
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
        // SAFETY: the reference keeps the entry alive.
        unsafe { &*self.it }
    }
}

impl<E, T> Drop for Held<'_, E, T> {
    fn drop(&mut self) {
        if self.slot.release() {
            drop(self.table.empty(self.slot));
        }
    }
}

/// Atomics and cells: of the standard library, or of loom where a model runs the table under every order of its
/// threads.
mod sync {
    #[cfg(all(loom, test))]
    pub(super) use loom::{
        cell::UnsafeCell,
        sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence},
    };
    #[cfg(not(all(loom, test)))]
    pub(super) use {
        std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence},
        untracked::UnsafeCell,
    };

    #[cfg(not(all(loom, test)))]
    mod untracked {
        /// A cell with the interface of loom's, which tracks when each access starts and ends.
        pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

        impl<T> UnsafeCell<T> {
            pub(crate) const fn new(it: T) -> Self {
                Self(std::cell::UnsafeCell::new(it))
            }

            pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
                read(self.0.get())
            }

            pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
                write(self.0.get())
            }
        }
    }
}
