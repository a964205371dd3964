//! A queue and the life of its events.
use super::callbacks;
use super::private::{Ev, State};
use crate::abi::Handle;
use crate::code::{Code, Result};
use crate::handles;
use crate::per_process::PerProcess;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An event queue, or what stands in for one with events that have none.
#[derive(Default)]
pub struct Queue {
    events: Mutex<Events>,
    changed: Condvar,
}

#[derive(Default)]
struct Events {
    /// Launched, and children of nobody.
    running: BTreeSet<Ev>,
    completed: VecDeque<Ev>,
    /// Work in other threads that knows of an event of this queue.
    jobs: usize,
}

/// Stands in where an event has no queue.
static NO_QUEUE: PerProcess<Queue> = PerProcess::new();

/// The queue of this handle; 0 stands for none.
pub(super) fn find(cookie: u64) -> Result<Arc<Queue>> {
    match cookie {
        0 => Ok(NO_QUEUE.get()),
        _ => handles::queue(Handle { cookie }),
    }
}

pub(super) fn of(ev: Ev) -> Result<Arc<Queue>> {
    find(ev.get().queue)
}

impl Queue {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that looks at or changes an event.
    pub(super) fn locked<T>(&self, work: impl FnOnce() -> T) -> T {
        let _events = self.events();
        work()
    }

    /// Makes `child` the last child of `parent`.
    pub(super) fn adopt(&self, parent: Ev, child: Ev) -> Result<()> {
        self.locked(|| {
            let known = parent.get();
            if known.parent.is_some() {
                return Err(Code::NO_PERM);
            }
            if known.state != State::Ready {
                return Err(Code::INVAL);
            }
            match parent.children().last() {
                Some(last) => last.change(|last| last.sibling = Some(child)),
                None => parent.change(|parent| parent.child = Some(child)),
            }
            parent.change(|parent| parent.children += 1);
            child.change(|child| child.parent = Some(parent));
            Ok(())
        })
    }

    /// From ready to running.
    pub(super) fn start(&self, ev: Ev) -> Result<()> {
        let mut events = self.events();
        let known = ev.get();
        if known.state != State::Ready {
            return Err(Code::NO_PERM);
        }
        let failed = ev.children().find(|child| has_failed(*child));
        ev.set_error(failed.map_or(0, Ev::error));
        ev.change(|ev| {
            ev.state = State::Running;
            ev.pending = 1 + ev.children - ev.children_done.min(ev.children);
        });
        if known.parent.is_none() {
            events.running.insert(ev);
        }
        Ok(())
    }

    /// Ends the event's own work. With the last child it completes, and may complete its parent.
    pub(super) fn settle(&self, mut ev: Ev, mut code: c_int) {
        while self.end_one(ev, code) {
            callbacks::call(self.locked(|| callbacks::take(ev)), ev);
            code = ev.error();
            match self.complete(ev) {
                Some(parent) => ev = parent,
                None => break,
            }
        }
    }

    /// True where nothing is pending any more.
    fn end_one(&self, ev: Ev, code: c_int) -> bool {
        self.locked(|| {
            if ev.error() == 0 {
                ev.set_error(code);
            }
            ev.change(|ev| ev.pending = ev.pending.saturating_sub(1));
            ev.get().pending == 0
        })
    }

    /// From running to completed. Afterwards an event without a parent is its user's again.
    fn complete(&self, ev: Ev) -> Option<Ev> {
        let mut events = self.events();
        ev.change(|ev| ev.state = State::Completed);
        let Some(parent) = ev.get().parent else {
            events.running.remove(&ev);
            events.completed.push_back(ev);
            self.changed.notify_all();
            return None;
        };
        parent.change(|parent| parent.children_done += 1);
        (parent.get().state == State::Running).then_some(parent)
    }

    /// Waits for an event and takes it; true where it is not running any more.
    pub(super) fn wait_for(&self, ev: Ev, until: Option<Instant>) -> bool {
        let mut events = self.events();
        loop {
            match ev.get().state {
                State::Running => {}
                State::Ready => return true,
                State::Completed => {
                    events.completed.retain(|known| *known != ev);
                    rest(ev);
                    return true;
                }
            }
            match self.sleep(events, until) {
                Some(woken) => events = woken,
                None => return false,
            }
        }
    }

    /// Takes up to `most` completed events, waiting for the first.
    pub(super) fn poll(&self, most: usize, only_running: bool, until: Option<Instant>) -> Vec<Ev> {
        let mut events = self.events();
        while events.completed.is_empty() {
            if only_running && events.running.is_empty() {
                return Vec::new();
            }
            match self.sleep(events, until) {
                Some(woken) => events = woken,
                None => return Vec::new(),
            }
        }
        let count = most.min(events.completed.len());
        let taken: Vec<_> = events.completed.drain(..count).collect();
        taken.iter().copied().for_each(rest);
        taken
    }

    /// `None` where the time ran out.
    fn sleep<'a>(
        &self,
        events: MutexGuard<'a, Events>,
        until: Option<Instant>,
    ) -> Option<MutexGuard<'a, Events>> {
        let Some(until) = until else {
            return Some(self.changed.wait(events).unwrap_or_else(PoisonError::into_inner));
        };
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        let woken = self.changed.wait_timeout(events, left);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn state_of(&self, ev: Ev) -> State {
        self.locked(|| ev.get().state)
    }

    /// Ends an event that neither runs nor has a child that does.
    pub(super) fn let_go(&self, ev: Ev) -> Result<()> {
        let mut events = self.events();
        let runs = |ev: Ev| ev.get().state == State::Running;
        if runs(ev) || ev.children().any(runs) {
            return Err(Code::BUSY);
        }
        events.completed.retain(|known| *known != ev);
        drop(callbacks::take(ev));
        let children: Vec<_> = ev.children().collect();
        for child in children {
            child.change(|child| (child.parent, child.sibling) = (None, None));
        }
        unlink(ev);
        ev.forget();
        Ok(())
    }

    /// Completed and running events.
    pub(super) fn list(&self, completed: bool, running: bool) -> Vec<Ev> {
        let events = self.events();
        let completed = events.completed.iter().filter(|_| completed);
        completed.chain(events.running.iter().filter(|_| running)).copied().collect()
    }

    pub(super) fn begin_job(&self) {
        self.events().jobs += 1;
    }

    pub(super) fn end_job(&self) {
        self.events().jobs -= 1;
        self.changed.notify_all();
    }

    /// Waits for work in other threads, then lets all events be.
    pub(super) fn end(&self) {
        let mut events = self.events();
        while events.jobs > 0 {
            match self.sleep(events, None) {
                Some(woken) => events = woken,
                None => return,
            }
        }
        events.completed.drain(..).for_each(rest);
    }
}

/// Completed before its parent was launched, and not well.
fn has_failed(child: Ev) -> bool {
    child.get().state == State::Completed && child.error() != 0
}

/// Back to ready, with all children.
fn rest(ev: Ev) {
    ev.children().for_each(|child| child.change(|child| child.state = State::Ready));
    ev.change(|ev| {
        ev.state = State::Ready;
        ev.children_done = 0;
    });
}

/// Takes a child out of its parent's list.
fn unlink(ev: Ev) {
    let known = ev.get();
    let Some(parent) = known.parent else { return };
    match parent.children().find(|other| other.get().sibling == Some(ev)) {
        Some(before) => before.change(|before| before.sibling = known.sibling),
        None => parent.change(|parent| parent.child = known.sibling),
    }
    let was_done = u32::from(known.state == State::Completed);
    parent.change(|parent| {
        parent.children -= 1;
        parent.children_done -= was_done;
    });
}
