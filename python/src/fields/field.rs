//! Fields found in a store.
use super::{FieldStore, grib, request};
use crate::buffer::{self, Writable};
use crate::call::call;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::{Holder, Key};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PySlice};
use std::time::UNIX_EPOCH;

/// Arguments from which a pickled field is found again: its store and its key.
type ReducedField = (Py<FieldStore>, String);

/// A field of a store: Field(store, key). Nothing is read until it is needed.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Field {
    store: Py<FieldStore>,
    field: esker_fields::Field,
    /// True if a later field with its key has replaced it.
    is_masked: bool,
}

impl Field {
    pub(super) fn from_field(store: Py<FieldStore>, field: esker_fields::Field) -> Self {
        Self { store, field, is_masked: false }
    }

    fn all(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        call(py, || self.field.read())
    }
}

#[pymethods]
impl Field {
    #[new]
    fn new(store: &Bound<'_, FieldStore>, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, key, fields) = (store.py(), request::key(key)?, store.get().store(store.py())?);
        let field = call(py, || fields.field(&key?))?;
        Ok(Self::from_field(store.clone().unbind(), field))
    }

    /// Its store.
    #[getter]
    fn store(&self, py: Python<'_>) -> Py<FieldStore> {
        self.store.clone_ref(py)
    }

    /// Its complete key, with values as text, in the order of the schema.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        request::shown(py, self.field.key())
    }

    /// Its key as the schema splits it: the dicts of its database, its index and its datum.
    #[getter]
    fn levels<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyDict>; 3]> {
        let store = self.store.get().store(py)?;
        let split = call(py, || store.schema().split(self.field.key()))?;
        Ok([
            request::shown(py, &split.database)?,
            request::shown(py, &split.index)?,
            request::shown(py, &split.datum)?,
        ])
    }

    /// Its length in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.field.bytes()
    }

    /// The time it was archived, in seconds since 1970.
    #[getter]
    fn archived(&self) -> f64 {
        let since = self.field.location().archived.duration_since(UNIX_EPOCH);
        since.unwrap_or_default().as_secs_f64()
    }

    /// For an adopted field, the file that contains it and its offset; otherwise None.
    #[getter]
    fn adopted(&self) -> Option<(String, u64)> {
        match &self.field.location().holder {
            Holder::File { path, offset } => Some((path.display().to_string(), *offset)),
            Holder::Array(_) => None,
        }
    }

    /// All its bytes, read at each access.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.read(py)
    }

    /// All its bytes, verified against their checksums.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.read_range(py, 0, self.field.bytes())
    }

    /// `count` bytes starting at `offset`.
    fn read_range<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        count: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.field.bytes();
        if offset.checked_add(count).is_none_or(|end| end > bytes) {
            let message = format!(
                "the range of {count} bytes from {offset} on exceeds the end of a field of {bytes} bytes"
            );
            return Err(PyValueError::new_err(message));
        }
        buffer::filled(py, count as usize, |place| self.field.read_at(offset, place))
    }

    /// A read-only view of all its bytes, verified against their checksums; see `Array.view`. In place for fields of
    /// at most 4 MiB in a pool in memory; otherwise, and for adopted fields, a copy.
    #[pyo3(signature = (*, copy = None))]
    fn view(&self, py: Python<'_>, copy: Option<bool>) -> PyResult<buffer::View> {
        call(py, || self.field.view(copy != Some(false))).map(buffer::View::from_view)
    }

    /// Fills `buffer` (writable) with its bytes starting at `offset`.
    #[pyo3(signature = (buffer, offset = 0))]
    fn read_into(&self, py: Python<'_>, mut buffer: Writable, offset: u64) -> PyResult<()> {
        let place = buffer.bytes();
        call(py, || self.field.read_at(offset, place))
    }

    /// The numbers of an ecCodes key with many values: a bytearray of 8-byte floats.
    fn _numbers<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyByteArray>> {
        let numbers = call(py, || grib::numbers(&self.field.read()?, key))?;
        grib::shown(py, &numbers)
    }

    /// The checksum of the section that describes its grid, None if it has no such section, and its values as
    /// `_numbers` returns them. Reads the message once.
    fn _section_and_values<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Option<String>, Bound<'py, PyByteArray>)> {
        let names = ["md5GridSection".to_owned()];
        let (section, numbers) = call(py, || {
            let message = self.field.read()?;
            Ok((
                grib::metadata(&message, &names)?.pop().flatten(),
                grib::numbers(&message, "values")?,
            ))
        })?;
        Ok((section, grib::shown(py, &numbers)?))
    }

    /// Metadata of the message from ecCodes: a text for one name, a dict for several; None for keys that the message
    /// does not have. Names are ecCodes keys, such as "shortName" or "gridType".
    #[pyo3(signature = (*names))]
    fn metadata<'py>(&self, py: Python<'py>, names: Vec<String>) -> PyResult<Bound<'py, PyAny>> {
        let message = self.all(py)?;
        let told = call(py, || grib::metadata(&message, &names))?;
        if let [value] = &told[..] {
            return Ok(value.into_pyobject(py)?.into_any());
        }
        let shown = PyDict::new(py);
        names.iter().zip(told).try_for_each(|(name, value)| shown.set_item(name, value))?;
        Ok(shown.into_any())
    }

    /// Pickles as its key, so that other processes can find it.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, ReducedField)> {
        let this = slf.get();
        refuse_masked(this.is_masked)?;
        let arguments = (this.store.clone_ref(slf.py()), this.field.key().to_string());
        Ok((slf.get_type().into_any(), arguments))
    }

    fn __repr__(&self) -> String {
        format!("<esker.Field {} of {} bytes>", self.field.key(), self.field.bytes())
    }
}

/// Refuses to pickle masked fields: their keys lead to the fields that replaced them.
fn refuse_masked(is_masked: bool) -> PyResult<()> {
    match is_masked {
        false => Ok(()),
        true => Err(PyTypeError::new_err(
            "masked fields cannot be pickled: their keys lead to later fields; pickle the bytes that read() returns",
        )),
    }
}

/// Fields of a store, in order: the result of `FieldStore.retrieve` and `FieldStore.list`.
#[pyclass(frozen, module = "esker", sequence)]
pub(crate) struct Fields {
    store: Py<FieldStore>,
    found: esker_fields::Found,
    /// True if later fields with their keys have replaced them.
    are_masked: bool,
}

/// The arguments that recreate the fields.
type Reduced = (Py<FieldStore>, Vec<String>, Vec<String>, u64);

impl Fields {
    pub(super) fn new(
        store: &Bound<'_, FieldStore>,
        found: esker_fields::Found,
        are_masked: bool,
    ) -> Self {
        Self { store: store.clone().unbind(), found, are_masked }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.fields.is_empty()
    }

    /// The fields that a slice selects.
    fn part(&self, py: Python<'_>, slice: &Bound<'_, PySlice>) -> PyResult<Self> {
        let all = &self.found.fields;
        let range = slice.indices(all.len() as isize)?;
        let at = |number: usize| (range.start + number as isize * range.step) as usize;
        let fields = (0..range.slicelength).filter_map(|number| all.get(at(number)).cloned());
        let found =
            esker_fields::Found { fields: fields.collect(), missing: Vec::new(), missing_count: 0 };
        Ok(Self { store: self.store.clone_ref(py), found, are_masked: self.are_masked })
    }
}

#[pymethods]
impl Fields {
    /// The fields of given keys, and the first of the missing ones: the content of a pickle.
    #[new]
    #[pyo3(signature = (store, keys, missing = Vec::new(), missing_count = 0))]
    fn of_keys(
        store: &Bound<'_, FieldStore>,
        keys: Vec<String>,
        missing: Vec<String>,
        missing_count: u64,
    ) -> PyResult<Self> {
        let (py, fields) = (store.py(), store.get().store(store.py())?);
        let found = call(py, || {
            let found = keys.iter().map(|key| fields.field(&Key::parse(key)?));
            let missing = missing.iter().map(|key| Key::parse(key));
            let (fields, missing) =
                (found.collect::<Result<_>>()?, missing.collect::<Result<_>>()?);
            Ok(esker_fields::Found { fields, missing, missing_count })
        })?;
        Ok(Self { store: store.clone().unbind(), found, are_masked: false })
    }

    /// Pickles as keys, so that other processes can find the fields.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        let Self { store, found, are_masked } = slf.get();
        refuse_masked(*are_masked)?;
        let keys = found.fields.iter().map(|field| field.key().to_string()).collect();
        let missing = found.missing.iter().map(Key::to_string).collect();
        let arguments = (store.clone_ref(slf.py()), keys, missing, found.missing_count);
        Ok((slf.get_type().into_any(), arguments))
    }

    /// The first of the keys that the request names and the store does not have.
    #[getter(missing)]
    fn missing_keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.found.missing.iter().map(|key| request::shown(py, key)).collect()
    }

    /// Total number of missing fields.
    #[getter]
    fn missing_count(&self) -> u64 {
        self.found.missing_count
    }

    /// Total size of all fields in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        esker_fields::bytes_of(&self.found.fields)
    }

    /// The concatenated bytes of all fields. Several threads read large amounts.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let too_long = |_| {
            Error::new(ErrorKind::Overflow, "the fields do not fit in memory: read them one by one")
        };
        let bytes = call(py, || usize::try_from(self.nbytes()).map_err(too_long))?;
        let fields = &self.found.fields;
        buffer::filled(py, bytes, |place| esker_fields::read_together(fields, place))
    }

    /// Fills `buffer` (writable, `nbytes` bytes) with the concatenated bytes of all fields. Several threads read large
    /// amounts.
    fn read_into(&self, py: Python<'_>, mut buffer: Writable) -> PyResult<()> {
        let place = buffer.bytes();
        call(py, || esker_fields::read_together(&self.found.fields, place))
    }

    fn __len__(&self) -> usize {
        self.found.fields.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            return Ok(Bound::new(py, self.part(py, slice)?)?.into_any());
        }
        let (index, len) = (index.extract::<isize>()?, self.found.fields.len() as isize);
        let at = if index < 0 { index + len } else { index };
        let field = usize::try_from(at).ok().and_then(|at| self.found.fields.get(at));
        let field = field.ok_or_else(|| PyIndexError::new_err("field index out of range"))?;
        let (store, is_masked) = (self.store.clone_ref(py), self.are_masked);
        Ok(Bound::new(py, Field { store, field: field.clone(), is_masked })?.into_any())
    }

    fn __repr__(&self) -> String {
        let (count, bytes) = (self.found.fields.len(), self.nbytes());
        format!("<esker.Fields of {:?}: {count} of {bytes} bytes>", self.store.get().name())
    }
}
