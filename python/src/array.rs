//! Arrays.
use crate::buffer::{self, Readable, Writable};
use crate::call::call;
use crate::container::Container;
use crate::view::{At, View};
use esker::types::ops::{Sink, Source};
use esker::types::{Error, ErrorKind, Extent, ObjectId, Result};
use esker::{Access, ArrayAttributes, Wait};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Default chunk size in bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// The sizes of a new Array: `cell_size` in bytes, `chunk_size` in cells, by default 1 MiB. With `exist_ok`, an
/// existing Array is opened.
pub(crate) struct Shape {
    pub(crate) cell_size: u64,
    pub(crate) chunk_size: Option<u64>,
    pub(crate) exist_ok: bool,
}

impl Shape {
    /// Creates the Array, or opens an existing one.
    pub(crate) fn create(
        &self,
        container: &esker::Container,
        oid: ObjectId,
        access: Access<'_>,
    ) -> Result<esker::Array> {
        let usual = || (CHUNK_BYTES / self.cell_size.max(1)).max(1);
        let chunk_size = self.chunk_size.unwrap_or_else(usual);
        let attributes = ArrayAttributes { cell_size: self.cell_size, chunk_size };
        match container.create_array(oid, attributes, access).wait() {
            Err(error) if self.exist_ok && error.kind() == ErrorKind::Exists => {
                container.open_array(oid, access).wait()
            }
            made => made,
        }
    }
}

/// An Array: a sequence of cells of equal size, split into chunks. `Container.array` and `Container.create_array`
/// return it.
///
/// Offsets and counts are in cells. Buffers are used without a copy: bytes, bytearray, memoryview, numpy arrays, and
/// any other object with a contiguous buffer.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Array {
    container: Py<Container>,
    /// The name or object id it was opened by.
    name: String,
    array: esker::Array,
    view: View,
}

impl Array {
    pub(crate) fn new(
        container: &Bound<'_, Container>,
        name: &str,
        array: esker::Array,
        view: View,
    ) -> Self {
        Self { container: container.clone().unbind(), name: name.to_owned(), array, view }
    }

    /// The range of cells that `bytes` bytes cover, starting at `offset`.
    fn range(&self, offset: u64, bytes: usize) -> Result<[Extent; 1]> {
        let cell = self.cell_size();
        match (bytes as u64).is_multiple_of(cell) {
            true => Ok([Extent::new(offset, bytes as u64 / cell)]),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!("a buffer of {bytes} bytes is not a multiple of cells of {cell} bytes"),
            )),
        }
    }

    /// Reads cells from cell `offset` on into `place`. Cells that were never written leave it unchanged.
    fn fill(&self, offset: u64, place: &mut [u8]) -> Result<()> {
        let range = self.range(offset, place.len())?;
        self.array.read(&range, Sink::One(place), self.view.access()).wait().map(drop)
    }
}

#[pymethods]
impl Array {
    /// Its container.
    #[getter]
    fn container(&self, py: Python<'_>) -> Py<Container> {
        self.container.clone_ref(py)
    }

    /// Its object id, "HI.LO".
    #[getter]
    fn oid(&self) -> String {
        self.array.oid().to_string()
    }

    /// Size of a cell in bytes.
    #[getter]
    fn cell_size(&self) -> u64 {
        self.array.attributes().cell_size
    }

    /// Cells per chunk; each chunk is on one target.
    #[getter]
    fn chunk_size(&self) -> u64 {
        self.array.attributes().chunk_size
    }

    /// The same Array at a snapshot, read-only, or in a transaction. None selects the latest state.
    #[pyo3(signature = (at))]
    fn at(&self, py: Python<'_>, at: Option<At<'_>>) -> PyResult<Self> {
        let view = View::open(py, self.container.get().client(), at)?;
        let (container, name) = (self.container.clone_ref(py), self.name.clone());
        Ok(Self { container, name, array: self.array.clone(), view })
    }

    /// Writes the cells of `buffer` (complete cells) starting at cell `offset`, atomically.
    fn write(&self, py: Python<'_>, offset: u64, buffer: Readable) -> PyResult<()> {
        let data = buffer.bytes();
        call(py, || {
            let range = self.range(offset, data.len())?;
            self.array.write(&range, Source::One(data), self.view.access()).wait()
        })
    }

    /// `count` cells starting at cell `offset`, as bytes. Cells that were never written read as zeros.
    fn read<'py>(&self, py: Python<'py>, offset: u64, count: u64) -> PyResult<Bound<'py, PyBytes>> {
        let len = call(py, || self.array.bytes_of(count))?;
        let range = [Extent::new(offset, count)];
        buffer::filled(py, len, |place| {
            self.array.read_or_zero(&range, Sink::One(place), self.view.access()).wait()
        })
    }

    /// A read-only view of `count` cells starting at cell `offset` (by default, all the rest), in place if possible:
    /// `numpy.frombuffer(array.view(), dtype="f8")` copies nothing.
    ///
    /// The view is in place if the pool is in memory and the cells are more than 1024 bytes that one write put into one
    /// chunk, at most 4 MiB. Otherwise it is a copy, or with `copy=False` NotSupported is raised. A view prevents its
    /// segment of the pool from being reused; a process has at most 4096 views.
    #[pyo3(signature = (offset = 0, count = None, *, copy = None))]
    fn view(
        &self,
        py: Python<'_>,
        offset: u64,
        count: Option<u64>,
        copy: Option<bool>,
    ) -> PyResult<buffer::View> {
        let view = call(py, || {
            let count = match count {
                Some(count) => count,
                None => self.array.size(self.view.access()).wait()?.saturating_sub(offset),
            };
            let range = Extent::new(offset, count);
            self.array.view(range, copy != Some(false), self.view.access()).wait()
        })?;
        Ok(buffer::View::from_view(view))
    }

    /// Fills `buffer` (complete cells, writable) with the cells starting at cell `offset`. Parts of the buffer whose
    /// cells were never written are left unchanged.
    fn read_into(&self, py: Python<'_>, offset: u64, mut buffer: Writable) -> PyResult<()> {
        let place = buffer.bytes();
        call(py, || self.fill(offset, place))
    }

    /// Its size in cells: one more than the index of the last existing cell.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || self.array.size(self.view.access()).wait())
    }

    /// Truncates it to `size` cells, or extends it with cells of zeros.
    fn set_size(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        call(py, || self.array.set_size(size, self.view.access()).wait())
    }

    /// Removes `count` cells starting at cell `offset`: they become holes.
    fn punch(&self, py: Python<'_>, offset: u64, count: u64) -> PyResult<()> {
        let range = [Extent::new(offset, count)];
        call(py, || self.array.punch(&range, self.view.access()).wait())
    }

    /// Removes it with its attributes; opening it fails from then on.
    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.array.destroy(self.view.access()).wait())
    }

    /// Its size in cells.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let size = self.size(py)?;
        usize::try_from(size).map_err(Into::into)
    }

    /// Pickles as URL, UUID and object id, so that other processes can open it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let container = Container::viewing(py, &self.container, self.view.clone());
        Ok((Bound::new(py, container)?.getattr("array")?, (self.oid(),)))
    }

    fn __repr__(&self) -> String {
        let ArrayAttributes { cell_size, chunk_size } = self.array.attributes();
        format!(
            "<esker.Array {:?} in {:?} of {cell_size}-byte cells, {chunk_size} per chunk>",
            self.name,
            self.container.get().shown()
        )
    }
}
