//! A queue and the life of its events.
use super::callbacks;
use super::private::{Ev, EventStatus};
use super::texts;
use crate::abi::Handle;
use crate::code::{Code, Result};
use crate::handles;
use crate::per_process::PerProcess;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An event queue. Events without a queue share one that has no handle.
#[derive(Default)]
pub struct Queue {
    events: Mutex<Events>,
    changed: Condvar,
}

/// State behind the lock of a queue. The thread that holds the lock may also read and change the queue's events.
#[derive(Default)]
pub(super) struct Events {
    /// Events that were launched and have no parent.
    running: BTreeSet<Ev>,
    completed: Completed,
    /// Operations in progress that will complete an event of this queue.
    jobs: usize,
    /// Whether the queue was destroyed.
    closed: bool,
}

/// Events of a queue with a handle that have completed and that the program has not taken.
#[derive(Default)]
struct Completed {
    /// The events by their numbers, which ascend in the order of completion.
    events: BTreeMap<u64, Ev>,
    numbers: BTreeMap<Ev, u64>,
    /// Number of the latest event.
    latest: u64,
}

impl Completed {
    /// Adds an event as the latest one. A program may have launched it anew without taking it.
    fn push(&mut self, ev: Ev) {
        self.remove(ev);
        self.latest += 1;
        self.events.insert(self.latest, ev);
        self.numbers.insert(ev, self.latest);
    }

    /// Removes an event, if it is there.
    fn remove(&mut self, ev: Ev) {
        if let Some(number) = self.numbers.remove(&ev) {
            self.events.remove(&number);
        }
    }

    /// Takes the first event.
    fn pop(&mut self) -> Option<Ev> {
        let (_, ev) = self.events.pop_first()?;
        self.numbers.remove(&ev);
        Some(ev)
    }
}

/// The queue of events that were initialized without one.
static NO_QUEUE: PerProcess<Queue> = PerProcess::new();

/// The queue of a handle; 0 means no queue.
pub(super) fn find(cookie: u64) -> Result<Arc<Queue>> {
    match cookie {
        0 => Ok(NO_QUEUE.get()),
        _ => handles::queue(Handle { cookie }),
    }
}

pub(super) fn find_for_event(ev: Ev) -> Result<Arc<Queue>> {
    find(ev.queue())
}

impl Queue {
    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the lock held.
    pub(super) fn locked<T>(&self, work: impl FnOnce(&Events) -> T) -> T {
        work(&self.events())
    }

    /// Makes `child` the last child of `parent`. `NO_PERM` if the parent is a child itself, `INVAL` if it was launched.
    pub(super) fn adopt(&self, parent: Ev, child: Ev) -> Result<()> {
        self.locked(|held| {
            let known = parent.get(held);
            if known.parent.is_some() {
                return Err(Code::NO_PERM);
            }
            if known.status != EventStatus::Ready {
                return Err(Code::INVAL);
            }
            match parent.children(held).last() {
                Some(last) => last.change(held, |last| last.sibling = Some(child)),
                None => parent.change(held, |parent| parent.child = Some(child)),
            }
            parent.change(held, |parent| parent.children += 1);
            child.change(held, |child| child.parent = Some(parent));
            Ok(())
        })
    }

    /// Returns the next child of `parent` after `child`, or the first one. None after the last.
    pub(super) fn child_after(&self, parent: Ev, child: Option<Ev>) -> Option<Ev> {
        self.locked(|held| match child.map(|child| child.get(held)) {
            None => parent.get(held).child,
            Some(child) if child.parent == Some(parent) => child.sibling,
            Some(_) => None,
        })
    }

    /// Makes a ready event a running one. A parent can be started once all its children have been launched; it takes
    /// over the error of a child that has failed. `NONEXIST` if the queue was destroyed.
    pub(super) fn start(&self, ev: Ev) -> Result<()> {
        let mut events = self.events();
        if events.closed {
            return Err(Code::NONEXIST);
        }
        let known = ev.get(&events);
        let idle = |child: Ev| {
            let child = child.get(&events);
            child.status == EventStatus::Ready && !child.done
        };
        if known.status != EventStatus::Ready || ev.children(&events).any(idle) {
            return Err(Code::NO_PERM);
        }
        let failed = ev.children(&events).find(|child| has_failed(&events, *child));
        ev.set_error(failed.map_or(0, Ev::error));
        texts::forget(ev);
        ev.change(&events, |ev| {
            ev.status = EventStatus::Running;
            ev.done = false;
            // The event itself, and its children that are not done.
            ev.pending = 1 + ev.children - ev.children_done.min(ev.children);
        });
        match known.parent {
            None => drop(events.running.insert(ev)),
            // The parent has counted this child as done, and now waits for it again.
            Some(parent) if known.done => {
                parent.change(&events, |parent| parent.children_done -= 1);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Ends the event's own work with the result `code`. The event completes once its children have, too, and then may
    /// complete its parent. Callbacks run without the lock, so that they can use events.
    pub(super) fn end_operation(&self, mut ev: Ev, mut code: c_int) {
        while self.end_one(ev, code) {
            callbacks::call(self.locked(|held| callbacks::take(held, ev)), ev);
            code = ev.error();
            match self.complete(ev) {
                Some(parent) => ev = parent,
                None => break,
            }
        }
    }

    /// Records one result; true if nothing is pending any more.
    fn end_one(&self, ev: Ev, code: c_int) -> bool {
        self.locked(|held| {
            if ev.error() == 0 {
                ev.set_error(code);
            }
            ev.change(held, |ev| ev.pending = ev.pending.saturating_sub(1));
            ev.get(held).pending == 0
        })
    }

    /// Makes a running event a completed one, and returns its parent if that is running. An event without a parent
    /// belongs to its user from here on.
    fn complete(&self, ev: Ev) -> Option<Ev> {
        let mut events = self.events();
        ev.change(&events, |ev| (ev.status, ev.done) = (EventStatus::Completed, true));
        let Some(parent) = ev.get(&events).parent else {
            events.running.remove(&ev);
            // Nothing polls the queue without a handle.
            if ev.queue() != 0 {
                events.completed.push(ev);
            }
            self.changed.notify_all();
            return None;
        };
        parent.change(&events, |parent| parent.children_done += 1);
        (parent.get(&events).status == EventStatus::Running).then_some(parent)
    }

    /// Waits for an event and takes it out of the queue; false if time ran out. A child is taken with its parent.
    pub(super) fn wait_for(&self, ev: Ev, until: Option<Instant>) -> Result<bool> {
        let mut events = self.events();
        loop {
            let known = ev.get(&events);
            match known.status {
                _ if known.parent.is_some() => return Err(Code::NO_PERM),
                EventStatus::Running => {}
                EventStatus::Ready => return Ok(true),
                EventStatus::Completed => {
                    events.completed.remove(ev);
                    make_ready(&events, ev);
                    return Ok(true);
                }
            }
            match self.sleep(events, until) {
                Some(woken) => events = woken,
                None => return Ok(false),
            }
        }
    }

    /// Waits for the first completed event, removes up to `most` completed events from the queue and returns them.
    /// Returns none if the time `until` comes first, or, with `only_running`, if no operation is running. `NONEXIST` if
    /// the queue was destroyed, also during the wait.
    pub(super) fn poll(
        &self,
        most: usize,
        only_running: bool,
        until: Option<Instant>,
    ) -> Result<Vec<Ev>> {
        let mut events = self.events();
        while events.completed.events.is_empty() {
            if events.closed {
                return Err(Code::NONEXIST);
            }
            if only_running && events.running.is_empty() {
                return Ok(Vec::new());
            }
            match self.sleep(events, until) {
                Some(woken) => events = woken,
                None => return Ok(Vec::new()),
            }
        }
        let first = std::iter::from_fn(|| events.completed.pop());
        let taken: Vec<_> = first.take(most).collect();
        taken.iter().for_each(|ev| make_ready(&events, *ev));
        Ok(taken)
    }

    /// Waits for a change; `None` if time ran out.
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

    pub(super) fn status_of(&self, ev: Ev) -> EventStatus {
        self.locked(|held| ev.get(held).status)
    }

    /// Finalizes an event. It is refused while the event or one of its children runs, or its parent is not ready.
    pub(super) fn finalize(&self, ev: Ev) -> Result<()> {
        let mut events = self.events();
        let runs = |ev: Ev| ev.get(&events).status == EventStatus::Running;
        if runs(ev) || ev.children(&events).any(runs) {
            return Err(Code::BUSY);
        }
        let parent = ev.get(&events).parent;
        if parent.is_some_and(|parent| parent.get(&events).status != EventStatus::Ready) {
            return Err(Code::INVAL);
        }
        events.completed.remove(ev);
        drop(callbacks::take(&events, ev));
        let children: Vec<_> = ev.children(&events).collect();
        children.into_iter().for_each(|child| orphan(&events, child));
        unlink(&events, ev);
        orphan(&events, ev);
        Ok(())
    }

    /// The events that have completed, if `completed`, and those that are running, if `running`.
    pub(super) fn list(&self, completed: bool, running: bool) -> Vec<Ev> {
        let events = self.events();
        let completed = events.completed.events.values().filter(|_| completed);
        completed.chain(events.running.iter().filter(|_| running)).copied().collect()
    }

    /// Counts an operation in progress, for which [`Queue::end`] waits.
    pub(super) fn start_job(&self, ev: Ev) -> Result<()> {
        self.events().jobs += 1;
        self.start(ev).inspect_err(|_| self.forget_job())
    }

    /// Ends the operation of an event with a code.
    pub(super) fn end_job(&self, ev: Ev, code: c_int) {
        self.end_operation(ev, code);
        self.forget_job();
    }

    /// Counts an operation as ended, and wakes [`Queue::end`] if that waits.
    fn forget_job(&self) {
        let mut events = self.events();
        events.jobs -= 1;
        if events.closed {
            self.changed.notify_all();
        }
    }

    /// Refuses new operations, and wakes the threads that poll the queue.
    pub(super) fn close(&self) {
        self.events().closed = true;
        self.changed.notify_all();
    }

    /// Closes the queue, waits for the operations in progress, then makes all events ready.
    pub(super) fn end(&self) {
        self.close();
        let mut events = self.events();
        while events.jobs > 0 {
            match self.sleep(events, None) {
                Some(woken) => events = woken,
                None => return,
            }
        }
        let completed = std::mem::take(&mut events.completed);
        completed.events.into_values().for_each(|ev| make_ready(&events, ev));
    }
}

/// True if a child failed before its parent was launched.
fn has_failed(held: &Events, child: Ev) -> bool {
    child.get(held).status == EventStatus::Completed && child.error() != 0
}

/// Makes an event and its children ready.
fn make_ready(held: &Events, ev: Ev) {
    for ev in ev.children(held).chain([ev]) {
        ev.change(held, |ev| ev.status = EventStatus::Ready);
    }
}

/// Makes an event ready, without parent and children.
fn orphan(held: &Events, ev: Ev) {
    ev.change(held, |ev| *ev = ev.alone());
}

/// Removes a child from the list of its parent's children, and from its counts.
fn unlink(held: &Events, ev: Ev) {
    let known = ev.get(held);
    let Some(parent) = known.parent else { return };
    match parent.children(held).find(|other| other.get(held).sibling == Some(ev)) {
        Some(before) => before.change(held, |before| before.sibling = known.sibling),
        None => parent.change(held, |parent| parent.child = known.sibling),
    }
    parent.change(held, |parent| {
        parent.children -= 1;
        parent.children_done -= u32::from(known.done);
    });
}
