//! What the library keeps inside an event. An event needs no end, so nothing in it is owned but
//! callbacks that were registered and never called.
use super::callbacks::Callback;
use crate::abi::{Event, Ptr};
use crate::code::{Code, Result};
use std::ffi::c_int;

/// Marks an event that was made ready.
const MAGIC: u64 = 0x6573_6b65_725f_6576;

/// Where an event is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Running,
    Completed,
}

/// The library's part of an event; it changes under the lock of the event's queue only.
#[derive(Clone, Copy)]
pub(super) struct Private {
    magic: u64,
    /// Handle of its queue, 0 for none.
    pub(super) queue: u64,
    pub(super) state: State,
    /// What must still complete before it does: its own work and its children.
    pub(super) pending: u32,
    pub(super) children: u32,
    pub(super) children_done: u32,
    pub(super) parent: Option<Ev>,
    /// Its first child.
    pub(super) child: Option<Ev>,
    /// The next child of its parent.
    pub(super) sibling: Option<Ev>,
    /// The first callback.
    pub(super) callback: *mut Callback,
}

impl Private {
    pub(super) fn new(queue: u64) -> Self {
        Self {
            magic: MAGIC,
            queue,
            state: State::Ready,
            pending: 0,
            children: 0,
            children_done: 0,
            parent: None,
            child: None,
            sibling: None,
            callback: std::ptr::null_mut(),
        }
    }
}

const _: () = assert!(size_of::<Private>() <= 160 && align_of::<Private>() <= 8);

/// The first word of the library's part, read on its own: what follows may be anything.
type Magic = u64;

/// The address of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ev(usize);

impl Ev {
    /// An event that was made ready.
    ///
    /// # Errors
    /// [`Code::INVAL`] for no event, and for one that `daos_event_init` has not seen.
    pub(super) fn known(ev: Ptr<Event>) -> Result<Self> {
        ev.needed()?;
        let it = Self(ev.raw() as usize);
        let magic = it.part().cast::<Magic>().at(std::mem::offset_of!(Private, magic) / 8).get()?;
        if magic == MAGIC { Ok(it) } else { Err(Code::INVAL) }
    }

    /// Makes memory an event.
    pub(super) fn fresh(ev: Ptr<Event>, private: Private) -> Self {
        let it = Self(ev.raw() as usize);
        it.part().set(private);
        it.set_error(0);
        it
    }

    /// The event as C knows it.
    pub(super) fn pointer(ev: Option<Self>) -> Ptr<Event> {
        let address = ev.map_or(0, |ev| ev.0);
        // SAFETY: it came from C as a pointer to an event, or is null.
        unsafe { Ptr::new(address as *mut Event) }
    }

    fn part(self) -> Ptr<Private> {
        let event = Self::pointer(Some(self)).raw();
        // SAFETY: the part lies inside an event that the caller vouches for.
        unsafe { Ptr::new((&raw mut (*event).space).cast()) }
    }

    pub(super) fn get(self) -> Private {
        self.part().get().unwrap_or_else(|_| Private::new(0))
    }

    pub(super) fn change(self, change: impl FnOnce(&mut Private)) {
        let mut private = self.get();
        change(&mut private);
        self.part().set(private);
    }

    /// Forgets that it is an event.
    pub(super) fn forget(self) {
        self.change(|private| private.magic = 0);
    }

    pub(super) fn error(self) -> c_int {
        Self::pointer(Some(self)).cast::<c_int>().get().unwrap_or(0)
    }

    pub(super) fn set_error(self, code: c_int) {
        Self::pointer(Some(self)).cast::<c_int>().set(code);
    }

    /// The children, in order.
    pub(super) fn children(self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.get().child, |child| child.get().sibling)
    }
}
