//! Counting served calls, for `esker run --report`.
//!
//! Each process appends lines to one file as it ends or becomes another program: `served NAME COUNT` and
//! `note TEXT`. Without that file nothing is counted.
use crate::config;
use crate::edge::Text;
use crate::limits::NOTES_MAX;
use crate::raw;
use esker::types::Error;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// The number of served calls of one function. Functions with served calls form a linked list. It is zero at first, so
/// that the loader need not write to it.
pub(crate) struct Counter {
    /// Set before it is in the list.
    name: AtomicPtr<c_char>,
    count: AtomicU64,
    linked: AtomicBool,
    next: AtomicPtr<Counter>,
}

static ENABLED: AtomicBool = AtomicBool::new(false);
static FIRST: AtomicPtr<Counter> = AtomicPtr::new(null_mut());
static NOTES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// Counter and name of the function that the thread called last, until it is counted.
    static CURRENT: Cell<Option<(&'static Counter, &'static CStr)>> = const { Cell::new(None) };
}

impl Counter {
    pub(crate) const fn new() -> Self {
        let (count, linked) = (AtomicU64::new(0), AtomicBool::new(false));
        let (name, next) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        Self { name, count, linked, next }
    }

    fn name(&self) -> &'static str {
        let name = Text::at(self.name.load(Ordering::Relaxed) as usize).bytes();
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// Counts a call of the function `name`, and links the counter into the list at its first use.
    fn add(&'static self, name: &'static CStr) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if !self.linked.swap(true, Ordering::Relaxed) {
            self.name.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
            let this = std::ptr::from_ref(self).cast_mut();
            let link = |first| {
                self.next.store(first, Ordering::Relaxed);
                Some(this)
            };
            // `link` never refuses, so this does not fail.
            let _ = FIRST.fetch_update(Ordering::Release, Ordering::Relaxed, link);
        }
    }
}

/// Lets this process count the intercepted calls, for the report of `esker run`.
pub(crate) fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Records which function the thread called.
#[inline]
pub(crate) fn enter(counter: &'static Counter, name: &'static CStr) {
    if ENABLED.load(Ordering::Relaxed) {
        CURRENT.with(|current| current.set(Some((counter, name))));
    }
}

/// Counts the last function that the thread called as served.
#[inline]
pub(crate) fn served() {
    if ENABLED.load(Ordering::Relaxed)
        && let Some((counter, name)) = CURRENT.with(Cell::take)
    {
        counter.add(name);
    }
}

/// Adds a note to the report, and writes it to standard error if this process has not done so. Called inside the store
/// only.
#[cold]
pub(crate) fn warn_once(text: &'static str) {
    static WARNED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    note(text);
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if !warned.contains(&text) {
        warned.push(text);
        let _ = raw::write(libc::STDERR_FILENO, format!("esker: warning: {text}\n").as_bytes());
    }
}

/// Adds a note to the report. Called inside the store only, because it allocates memory.
#[cold]
pub(crate) fn note(text: &str) {
    if !ENABLED.load(Ordering::Relaxed) {
        return;
    }
    let mut notes = match NOTES.try_lock() {
        Ok(notes) => notes,
        Err(TryLockError::Poisoned(notes)) => notes.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if notes.len() < NOTES_MAX || notes.contains_key(text) {
        *notes.entry(text.replace('\n', " ")).or_default() += 1;
    }
}

/// Adds the message of an error to the report, because its errno does not explain it.
#[cold]
pub(crate) fn report_error(error: &Error) {
    note(&format!("failed: {error}"));
}

/// Sets all counts to zero in a forked child, because the parent reports the calls before the fork.
pub(crate) fn forget() {
    for_each_counter(|counter| counter.count.store(0, Ordering::Relaxed));
    if let Ok(mut notes) = NOTES.try_lock() {
        notes.clear();
    }
}

/// Appends the counts to the file of the report.
pub(crate) fn write() {
    let Some(path) = config::get().report.as_deref() else { return };
    let mut lines = String::new();
    for_each_counter(|counter| match counter.count.swap(0, Ordering::Relaxed) {
        0 => {}
        count => lines.push_str(&format!("served {} {count}\n", counter.name())),
    });
    let notes = NOTES.try_lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default();
    for text in notes.keys() {
        lines.push_str(&format!("note {text}\n"));
    }
    if lines.is_empty() {
        return;
    }
    let flags: c_int = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    if let Ok(fd) = raw::open(path, flags, 0o600) {
        let _ = raw::write(fd, lines.as_bytes());
        raw::close(fd);
    }
}

/// Calls `work` for each counter.
fn for_each_counter(mut work: impl FnMut(&'static Counter)) {
    let mut next = FIRST.load(Ordering::Acquire);
    // SAFETY: the list consists of counters, which are all static.
    while let Some(counter) = unsafe { next.as_ref() } {
        work(counter);
        next = counter.next.load(Ordering::Relaxed);
    }
}
