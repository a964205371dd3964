//! Open files.
use crate::buffer::{Readable, Writable};
use crate::call::call;
use crate::errors;
use esker::types::{ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that is open, without a position: `FileSystem.open_file` makes it. Offsets and sizes are in bytes.
#[pyclass(frozen, module = "esker")]
pub(crate) struct File {
    /// None once it is closed.
    file: Mutex<Option<Arc<dfs::File>>>,
    append: bool,
}

impl File {
    pub(crate) fn new(file: dfs::File, append: bool) -> Self {
        Self { file: Mutex::new(Some(Arc::new(file))), append }
    }

    /// The file itself. The lock is never held without that of the interpreter, so no fork finds it taken.
    fn open(&self, py: Python<'_>) -> PyResult<Arc<dfs::File>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| errors::raise(py, ErrorKind::NoHandle, "the file is closed"))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&dfs::File) -> Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.open(py)?;
        call(py, move || work(&file))
    }
}

#[pymethods]
impl File {
    /// True where it may be read.
    #[getter]
    fn readable(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |file| Ok(file.mode().read))
    }

    /// True where it may be written.
    #[getter]
    fn writable(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |file| Ok(file.mode().write))
    }

    /// True once it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Up to `count` bytes from `offset` on; fewer only at the end of the file.
    fn read<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        count: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let left = self.size(py)?.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(count);
        let mut got = 0;
        let bytes = PyBytes::new_with(py, len, |place| {
            got = self.with(py, |file| file.read_at(offset, place))?;
            Ok(())
        })?;
        // Another may have cut the file meanwhile.
        match got == len {
            true => Ok(bytes),
            false => Ok(PyBytes::new(py, &bytes.as_bytes()[..got])),
        }
    }

    /// Reads into `buffer` from `offset` on and returns how many bytes there were; fewer than fit only at
    /// the end of the file.
    fn read_into(&self, py: Python<'_>, offset: u64, mut buffer: Writable) -> PyResult<usize> {
        let place = buffer.bytes();
        self.with(py, |file| file.read_at(offset, place))
    }

    /// Writes all of `buffer` from `offset` on; where it was opened for appending, at its end. Returns
    /// the offset behind what was written.
    fn write(&self, py: Python<'_>, offset: u64, buffer: Readable) -> PyResult<u64> {
        let data = buffer.bytes();
        self.with(py, |file| {
            let begin = match self.append {
                true => file.append(data)?,
                false => file.write_at(offset, data).map(|_| offset)?,
            };
            Ok(begin + data.len() as u64)
        })
    }

    /// Its size.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, dfs::File::size)
    }

    /// Cuts it to `size` bytes, or adds a hole up to there.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.set_len(size))
    }

    /// Makes its times as durable as its content, which is so when a write returns.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, dfs::File::sync)
    }

    /// Closes it. Closing twice is no error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || match file.map(Arc::try_unwrap) {
            Some(Ok(file)) => file.close(),
            _ => Ok(()),
        })
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
