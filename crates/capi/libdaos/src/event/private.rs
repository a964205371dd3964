//! Data of the library inside an event. Programs need not finalize events, so an event owns nothing but callbacks
//! that were registered and never called.
use super::callbacks::Callback;
use super::queue::Events;
use crate::abi::{Event, Ptr};
use crate::code::{Code, Result};
use std::ffi::c_int;

/// Marks an event that was initialized.
const MAGIC: u64 = 0x6573_6b65_725f_6576;

/// The status of an event (`enum daos_ev_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventStatus {
    Ready,
    Running,
    Completed,
}

/// The library's part of an event. `daos_event_init` sets the first two fields, which then are read without a lock and
/// never written again.
#[derive(Clone, Copy)]
struct Private {
    magic: u64,
    /// Handle of its queue, 0 for none.
    queue: u64,
    shared: Shared,
}

/// Fields that the library reads and changes only while it holds the queue's lock.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) status: EventStatus,
    /// True if the event has completed and was not launched again: its parent does not wait for it.
    pub(super) done: bool,
    /// Number of operations that must complete before the event does: its own and its children.
    pub(super) pending: u32,
    /// Number of its children.
    pub(super) children: u32,
    /// Number of its children that are done.
    pub(super) children_done: u32,
    pub(super) parent: Option<Ev>,
    /// Its first child.
    pub(super) child: Option<Ev>,
    /// The next child of its parent.
    pub(super) sibling: Option<Ev>,
    /// The first callback.
    pub(super) callback: *mut Callback,
}

impl Shared {
    /// The state of an event that was just initialized.
    fn new() -> Self {
        Self {
            status: EventStatus::Ready,
            done: false,
            pending: 0,
            children: 0,
            children_done: 0,
            parent: None,
            child: None,
            sibling: None,
            callback: std::ptr::null_mut(),
        }
    }

    /// Returns the initial state of an event, which keeps only its callback: no parent and no children.
    pub(super) fn alone(&self) -> Self {
        Self { callback: self.callback, ..Self::new() }
    }
}

// The private data must fit in `space` of an event.
const _: () = assert!(size_of::<Private>() <= 160 && align_of::<Private>() <= 8);

/// The address of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ev(usize);

impl Ev {
    /// Checks that `daos_event_init` has initialized the event.
    ///
    /// # Errors
    /// [`Code::INVAL`] for a null pointer, and for an event that is not initialized.
    pub(super) fn initialized(ev: Ptr<Event>) -> Result<Self> {
        ev.needed()?;
        let it = Self(ev.raw() as usize);
        let magic = it.word(std::mem::offset_of!(Private, magic));
        if magic == MAGIC { Ok(it) } else { Err(Code::INVAL) }
    }

    /// Initializes memory as an event of the queue with this handle.
    pub(super) fn fresh(ev: Ptr<Event>, queue: u64) -> Self {
        let it = Self(ev.raw() as usize);
        it.part().set(Private { magic: MAGIC, queue, shared: Shared::new() });
        it.set_error(0);
        it
    }

    /// Converts an event to the pointer by which C knows it; None becomes null.
    pub(super) fn pointer(ev: Option<Self>) -> Ptr<Event> {
        let address = ev.map_or(0, |ev| ev.0);
        // SAFETY: it came from C as a pointer to an event, or is null.
        unsafe { Ptr::new(address as *mut Event) }
    }

    /// The part of an event that is private to this library.
    fn part(self) -> Ptr<Private> {
        let event = Self::pointer(Some(self)).raw();
        // SAFETY: `space` is a field of an event that the caller vouches for.
        unsafe { Ptr::new((&raw mut (*event).space).cast()) }
    }

    /// Reads one word that does not change, and nothing else of the event. Other threads may write the fields next to
    /// it, and memory that is not an event may contain any bytes.
    fn word(self, offset: usize) -> u64 {
        self.part().cast::<u8>().at(offset).cast().get().unwrap_or(0)
    }

    /// Returns the handle of the event's queue, 0 if it has none.
    pub(super) fn queue(self) -> u64 {
        self.word(std::mem::offset_of!(Private, queue))
    }

    /// The address of the fields that the lock of the queue guards.
    fn shared(self) -> Ptr<Shared> {
        self.part().cast::<u8>().at(std::mem::offset_of!(Private, shared)).cast()
    }

    /// Returns a copy of the shared fields. The caller must hold the lock of the event's queue.
    pub(super) fn get(self, _held: &Events) -> Shared {
        self.shared().get().unwrap_or_else(|_| Shared::new())
    }

    /// Changes the shared fields only: other threads may read the other fields at any time. The caller must hold the
    /// lock of the event's queue.
    pub(super) fn change(self, held: &Events, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.get(held);
        change(&mut shared);
        self.shared().set(shared);
    }

    /// The result of the event, which is its first field.
    pub(super) fn error(self) -> c_int {
        Self::pointer(Some(self)).cast::<c_int>().get().unwrap_or(0)
    }

    /// Sets the result of the event.
    pub(super) fn set_error(self, code: c_int) {
        Self::pointer(Some(self)).cast::<c_int>().set(code);
    }

    /// The children, in order.
    pub(super) fn children(self, held: &Events) -> impl Iterator<Item = Self> {
        std::iter::successors(self.get(held).child, |child| child.get(held).sibling)
    }
}
