//! Iterating over a Key-Value, batch by batch.
use crate::call::call;
use crate::key;
use crate::view::View;
use esker::types::Result;
use esker::types::ops::{Anchor, ListLimit};
use esker::{Kv, Wait};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::VecDeque;

/// Number of keys listed at a time.
const KEYS_PER_BATCH: usize = 1024;
/// Bytes of values read at a time; one more value may exceed it.
const VALUE_BYTES_PER_BATCH: usize = 4 << 20;

/// The items that an iterator yields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Keys,
    Values,
    Items,
}

/// An iterator over the keys, values or items of a Key-Value. It tolerates concurrent changes: entries that exist all
/// the time are yielded once; entries added or removed meanwhile may be missed.
#[pyclass(module = "esker")]
pub(crate) struct Listing {
    kv: Kv,
    view: View,
    what: What,
    anchor: Anchor,
    keys: VecDeque<Vec<u8>>,
    ready: VecDeque<(Vec<u8>, Vec<u8>)>,
}

impl Listing {
    pub(crate) fn new(kv: Kv, view: View, what: What) -> Self {
        let (keys, ready) = (VecDeque::new(), VecDeque::new());
        Self { kv, view, what, anchor: Anchor::Start, keys, ready }
    }

    /// Makes sure that an item is ready, unless none are left.
    fn fill(&mut self) -> Result<()> {
        while self.ready.is_empty() && !(self.keys.is_empty() && self.anchor.is_end()) {
            if self.keys.is_empty() {
                self.bring_keys()?;
            }
            match self.what {
                What::Keys => self.ready.extend(self.keys.drain(..).map(|key| (key, Vec::new()))),
                What::Values | What::Items => self.bring_values()?,
            }
        }
        Ok(())
    }

    fn bring_keys(&mut self) -> Result<()> {
        let limit = ListLimit::entries(KEYS_PER_BATCH);
        let batch = self.kv.list(&mut self.anchor, limit, self.view.access()).wait()?;
        self.keys.extend(batch.iter().map(<[u8]>::to_vec));
        Ok(())
    }

    /// Keys that were removed since they were listed are skipped.
    fn bring_values(&mut self) -> Result<()> {
        let mut bytes = 0;
        while bytes < VALUE_BYTES_PER_BATCH
            && let Some(key) = self.keys.front()
        {
            // A key remains until its value is read: an iteration may go on after an error.
            let value = self.kv.get(key, self.view.access()).wait()?;
            let Some(key) = self.keys.pop_front() else { break };
            if let Some(value) = value {
                bytes += value.len();
                self.ready.push_back((key, value));
            }
        }
        Ok(())
    }
}

#[pymethods]
impl Listing {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.ready.is_empty() {
            call(py, || self.fill())?;
        }
        let Some((key, value)) = self.ready.pop_front() else { return Ok(None) };
        let shown_key = || key::shown(py, self.kv.oid(), &key);
        let shown_value = || PyBytes::new(py, &value);
        match self.what {
            What::Keys => shown_key(),
            What::Values => shown_value().into_bound_py_any(py),
            What::Items => (shown_key()?, shown_value()).into_bound_py_any(py),
        }
        .map(Some)
    }
}
