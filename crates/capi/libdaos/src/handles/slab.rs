//! The table behind handles. Places are made in chunks, never freed, and used again under a new
//! generation. Nothing locks, so a fork at any moment leaves the table usable in the child.
use super::Entry;
use crate::code::{Code, Result};
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Bits of a cookie that tell its type.
pub(super) const KIND_MASK: u64 = 0xf;
const INDEX_SHIFT: u32 = 4;
const INDEX_MASK: u64 = 0x0fff_ffff;
const GENERATION_SHIFT: u32 = 32;

const CHUNK: usize = 256;
/// Handles that can be open at a time: a million.
const CHUNKS: usize = 4096;

/// A state is a generation, whether the handle is open, and how many use it just now.
const OPEN: u64 = 1 << 31;
const USERS: u64 = OPEN - 1;

/// Threads that use different handles do not share a cache line.
#[repr(align(64))]
struct Slot {
    state: AtomicU64,
    /// The next free place, plus one.
    next: AtomicU32,
    index: u32,
    entry: UnsafeCell<Option<Entry>>,
}

// SAFETY: the entry is written before the state says open and after it says that nobody uses it;
// in between it is only read.
unsafe impl Sync for Slot {}

/// Any thread may look at an entry, and the one that lets go of it last drops it.
const _: () = {
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<Entry>();
};

static TABLE: [AtomicPtr<Slot>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// Places made so far.
static MADE: AtomicU32 = AtomicU32::new(0);
/// The first free place plus one, below a tag that changes with every change.
static FREE: AtomicU64 = AtomicU64::new(0);

/// The place at `index`, where there is one.
fn slot(index: usize) -> Option<&'static Slot> {
    let chunk = TABLE.get(index / CHUNK)?.load(Ordering::Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: chunks have CHUNK places and are never freed.
    Some(unsafe { &*chunk.add(index % CHUNK) })
}

fn make_chunk(number: usize) -> Option<()> {
    let chunk = TABLE.get(number)?;
    if !chunk.load(Ordering::Acquire).is_null() {
        return Some(());
    }
    let made: Box<[Slot]> = (0..CHUNK).map(|place| Slot::new(number * CHUNK + place)).collect();
    let made = Box::into_raw(made);
    let first = made.cast::<Slot>();
    let null = std::ptr::null_mut();
    if chunk.compare_exchange(null, first, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: another thread was first, so nobody else knows of this one.
        drop(unsafe { Box::from_raw(made) });
    }
    Some(())
}

impl Slot {
    fn new(index: usize) -> Self {
        Self {
            state: AtomicU64::new(1 << GENERATION_SHIFT),
            next: AtomicU32::new(0),
            index: index as u32,
            entry: UnsafeCell::new(None),
        }
    }

    /// Gives up one use; the last one after the close empties the place.
    fn release(&self) {
        let before = self.state.fetch_sub(1, Ordering::Release);
        if before & (OPEN | USERS) == 1 {
            fence(Ordering::Acquire);
            self.empty();
        }
    }

    #[cold]
    fn empty(&self) {
        // SAFETY: it is closed and this was the last use, so nobody else can get at the entry.
        drop(unsafe { (*self.entry.get()).take() });
        self.begin_generation();
        self.push_free();
    }

    fn begin_generation(&self) {
        let generation = (self.state.load(Ordering::Relaxed) >> GENERATION_SHIFT) + 1;
        let generation = (generation & u64::from(u32::MAX)).max(1);
        self.state.store(generation << GENERATION_SHIFT, Ordering::Release);
    }

    fn push_free(&self) {
        let mut head = FREE.load(Ordering::Acquire);
        loop {
            self.next.store(head as u32, Ordering::Release);
            let new = tagged(head, self.index + 1);
            match FREE.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
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
}

fn tagged(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

fn pop_free() -> Option<&'static Slot> {
    let mut head = FREE.load(Ordering::Acquire);
    loop {
        let first = slot((head as u32).checked_sub(1)? as usize)?;
        let new = tagged(head, first.next.load(Ordering::Acquire));
        match FREE.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(first),
            Err(now) => head = now,
        }
    }
}

fn make() -> Option<&'static Slot> {
    let most = (CHUNK * CHUNKS) as u32;
    let more = |made: u32| (made < most).then_some(made + 1);
    let index = MADE.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()? as usize;
    make_chunk(index / CHUNK)?;
    slot(index)
}

/// Opens a handle; returns its cookie.
pub(super) fn insert(entry: Entry) -> Result<u64> {
    let kind = entry.kind();
    let slot = pop_free().or_else(make).ok_or(Code::NOMEM)?;
    // SAFETY: the place was free, so nobody else knows of it.
    unsafe { *slot.entry.get() = Some(entry) };
    let state = slot.state.load(Ordering::Relaxed);
    slot.state.store(state | OPEN, Ordering::Release);
    Ok(state >> GENERATION_SHIFT << GENERATION_SHIFT | u64::from(slot.index) << INDEX_SHIFT | kind)
}

/// The entry of an open handle, which stays while it is held.
pub(super) fn hold(cookie: u64) -> Result<Held<Entry>> {
    let index = (cookie >> INDEX_SHIFT & INDEX_MASK) as usize;
    let slot = slot(index).ok_or(Code::NO_HDL)?;
    let held = Held::new(slot, cookie >> GENERATION_SHIFT, |state| state + 1)?;
    // A type that is not the entry's was made up.
    match held.kind() == cookie & KIND_MASK {
        true => Ok(held),
        false => Err(Code::NO_HDL),
    }
}

/// Closes a handle of one of these types: it is gone for others, its entry stays while held.
pub(crate) fn close(cookie: u64, kinds: &[u64]) -> Result<Held<Entry>> {
    if !kinds.contains(&(cookie & KIND_MASK)) {
        return Err(Code::NO_HDL);
    }
    let held = hold(cookie)?;
    held.slot.change(cookie >> GENERATION_SHIFT, |state| state & !OPEN)?;
    Ok(held)
}

/// What is open just now.
pub(crate) fn open_entries() -> impl Iterator<Item = Held<Entry>> {
    let made = MADE.load(Ordering::Acquire) as usize;
    (0..made).filter_map(slot).filter_map(|slot| {
        let generation = slot.state.load(Ordering::Acquire) >> GENERATION_SHIFT;
        Held::new(slot, generation, |state| state + 1).ok()
    })
}

/// Closes every handle.
pub(crate) fn close_all() {
    let made = MADE.load(Ordering::Acquire) as usize;
    for slot in (0..made).filter_map(slot) {
        let generation = slot.state.load(Ordering::Acquire) >> GENERATION_SHIFT;
        drop(Held::new(slot, generation, |state| (state & !OPEN) + 1));
    }
}

/// Makes all handles unknown without ending what they stand for: in a child after a fork that is
/// still the parent's.
pub(crate) fn forget_all() {
    let made = MADE.load(Ordering::Acquire) as usize;
    for slot in (0..made).filter_map(slot) {
        if slot.state.load(Ordering::Acquire) & (OPEN | USERS) != 0 {
            // SAFETY: the child has but one thread, and it is here.
            std::mem::forget(unsafe { (*slot.entry.get()).take() });
            slot.begin_generation();
            slot.push_free();
        }
    }
}

/// A part of an entry, which stays while this is held.
pub(crate) struct Held<T: 'static> {
    slot: &'static Slot,
    it: *const T,
}

// SAFETY: it is a shared reference by another name.
unsafe impl<T: Sync> Send for Held<T> {}

impl Held<Entry> {
    fn new(slot: &'static Slot, generation: u64, change: impl Fn(u64) -> u64) -> Result<Self> {
        slot.change(generation, change)?;
        // SAFETY: the state was open and counts this use, so the entry is there and stays.
        match unsafe { &*slot.entry.get() } {
            Some(entry) => Ok(Self { slot, it: entry }),
            None => Err(Code::NO_HDL),
        }
    }

    /// Goes on holding a part only; what has no such part is no fitting handle.
    pub(crate) fn pick<T>(self, pick: impl FnOnce(&Entry) -> Option<&T>) -> Result<Held<T>> {
        let it: *const T = pick(&self).ok_or(Code::NO_HDL)?;
        let slot = self.slot;
        std::mem::forget(self);
        Ok(Held { slot, it })
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the entry it is part of stays while this is held.
        unsafe { &*self.it }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        self.slot.release();
    }
}
