//! Open files.
use crate::buffer::{Readable, Writable};
use crate::call::call;
use crate::errors;
use crate::files::FileSystem;
use esker::types::{ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The path and the mode that open a file again.
type Reduced = (PathBuf, &'static str);

/// An open file without a position: the result of `FileSystem.open_file`. Offsets and sizes are in bytes.
#[pyclass(frozen, module = "esker")]
pub(crate) struct File {
    /// None once it is closed.
    file: Mutex<Option<Arc<dfs::File>>>,
    append: bool,
    files: Py<FileSystem>,
    path: PathBuf,
}

impl File {
    pub(crate) fn new(
        files: &Bound<'_, FileSystem>,
        path: PathBuf,
        file: dfs::File,
        append: bool,
    ) -> Self {
        let files = files.clone().unbind();
        Self { file: Mutex::new(Some(Arc::new(file))), append, files, path }
    }

    /// The file. Its lock is only taken while the GIL is held, so it is never held during a fork.
    fn open(&self, py: Python<'_>) -> PyResult<Arc<dfs::File>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.clone().ok_or_else(|| errors::raise(py, ErrorKind::NoHandle, "the file is closed"))
    }

    /// Runs `work` on the open file, without the GIL.
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
    /// True if it is readable.
    #[getter]
    fn readable(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |file| Ok(file.mode().read))
    }

    /// True if it is writable.
    #[getter]
    fn writable(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |file| Ok(file.mode().write))
    }

    /// True once it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Up to `count` bytes starting at `offset`; fewer only at the end of the file.
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
        // Another process may have truncated the file meanwhile.
        match got == len {
            true => Ok(bytes),
            false => Ok(PyBytes::new(py, &bytes.as_bytes()[..got])),
        }
    }

    /// Reads into `buffer` starting at `offset` and returns the number of bytes; fewer than the buffer holds only at
    /// the end of the file.
    fn read_into(&self, py: Python<'_>, offset: u64, mut buffer: Writable) -> PyResult<usize> {
        let place = buffer.bytes();
        self.with(py, |file| file.read_at(offset, place))
    }

    /// Writes all of `buffer` at `offset` or, if the file was opened for appending, at its end. Returns the offset
    /// after the written bytes.
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

    /// Truncates it to `size` bytes, or extends it with a hole.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.set_len(size))
    }

    /// Makes its times durable. Its content is as durable as the pool guarantees when a write returns.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, dfs::File::sync)
    }

    /// Closes it. Closing it twice is not an error.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        call(py, || match file.map(Arc::try_unwrap) {
            Some(Ok(file)) => file.close(),
            // It was closed before, or an operation of another thread still uses it, after which it is dropped.
            _ => Ok(()),
        })
    }

    /// Pickles as its path, and is opened there without creating or truncating the file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        let mode = match (self.append, self.readable(py)?, self.writable(py)?) {
            (true, false, _) => "a",
            (true, true, _) => "a+",
            (_, _, true) => "r+",
            _ => "r",
        };
        Ok((self.files.bind(py).getattr("open_file")?, (self.path.clone(), mode)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let files = self.files.bind(py).repr()?;
        Ok(format!("<esker.File {:?} of {files}>", self.path))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_details))]
    fn __exit__(&self, py: Python<'_>, _details: Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}
