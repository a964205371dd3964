//! Texts of failures of the calls of `esker.h`, by event.
use super::private::Ev;
use crate::per_process::PerProcess;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Texts that are kept; a new one replaces the oldest.
const TEXTS_MAX: usize = 1024;

/// Event, code of its failure, and text, the latest last.
#[derive(Default)]
struct Texts(Mutex<VecDeque<(Ev, c_int, String)>>);

static TEXTS: PerProcess<Texts> = PerProcess::new();
/// Number of texts. While it is 0, starting an event takes no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl Texts {
    fn all(&self) -> MutexGuard<'_, VecDeque<(Ev, c_int, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the text of a failure until the event is started again.
pub(super) fn keep(ev: Ev, code: c_int, text: String) {
    let texts = TEXTS.get();
    let mut all = texts.all();
    if all.len() == TEXTS_MAX {
        all.pop_front();
    }
    all.push_back((ev, code, text));
    COUNT.store(all.len(), Ordering::Release);
}

/// Drops the error text that was recorded for an event, if there is one.
pub(super) fn forget(ev: Ev) {
    if COUNT.load(Ordering::Acquire) > 0 {
        let texts = TEXTS.get();
        let mut all = texts.all();
        all.retain(|(known, ..)| *known != ev);
        COUNT.store(all.len(), Ordering::Release);
    }
}

/// The text of an event that completed with this code.
pub(super) fn text_of(ev: Ev, code: c_int) -> Option<String> {
    let texts = TEXTS.get();
    let all = texts.all();
    let found = all.iter().rev().find(|(known, other, _)| *known == ev && *other == code);
    found.map(|(.., text)| text.clone())
}
