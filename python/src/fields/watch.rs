//! Watches: iterators over fields as they are flushed.
use super::{Field, FieldStore};
use crate::call::call;
use esker::types::Result;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// Time to run without the GIL before checking for signals.
const TURN: Duration = Duration::from_millis(100);

/// Yields fields as they are flushed: the result of `FieldStore.watch`.
#[pyclass(module = "esker")]
pub(crate) struct Watch {
    store: Py<FieldStore>,
    /// One per request.
    watches: Vec<esker_fields::Watch>,
    timeout: Option<Duration>,
}

impl Watch {
    pub(super) fn new(
        store: &Bound<'_, FieldStore>,
        watches: Vec<esker_fields::Watch>,
        timeout: Option<f64>,
    ) -> PyResult<Self> {
        let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
        let timeout = timeout.map_err(|_| {
            PyValueError::new_err("a timeout must be a number of seconds, 0 or more")
        })?;
        Ok(Self { store: store.clone().unbind(), watches, timeout })
    }

    /// The next field of any request. Each watch waits for its share of `timeout`, one after the other.
    fn next(&mut self, timeout: Duration) -> Result<Option<esker_fields::Field>> {
        let each = timeout / self.watches.len().max(1) as u32;
        for watch in &mut self.watches {
            if let Some(field) = watch.next(each)? {
                return Ok(Some(field));
            }
        }
        Ok(None)
    }
}

#[pymethods]
impl Watch {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Field>> {
        let begin = Instant::now();
        // Waits are short, so that signals such as that of Ctrl-C are handled between them.
        loop {
            let left = self.timeout.map_or(TURN, |timeout| timeout.saturating_sub(begin.elapsed()));
            if let Some(field) = call(py, || self.next(left.min(TURN)))? {
                return Ok(Some(Field::from_field(self.store.clone_ref(py), field)));
            }
            if left.is_zero() {
                return Ok(None);
            }
            py.check_signals()?;
        }
    }
}
