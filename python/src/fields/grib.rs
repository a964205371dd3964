//! Decoding and encoding of messages by ecCodes.
use crate::call::call;
use esker::types::{Error, ErrorKind, Result};
use esker_fields::eccodes::{Draft, Library};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMapping};

/// Marker for missing values; no real field contains it.
const MISSING: f64 = -1e100;

/// The numbers of a key with many values; values missing in the bitmap are NaN.
pub(super) fn numbers(message: &[u8], key: &str) -> Result<Vec<f64>> {
    let library = Library::shared()?;
    let field = library.field(message)?;
    if key != "values" || field.long("bitmapPresent") != Ok(1) {
        return field.doubles(key);
    }
    // In a copy of the message, missing values get a number that no field has.
    let mut draft = library.draft(message)?;
    draft.set_double("missingValue", MISSING)?;
    let mut values = draft.values()?;
    values.iter_mut().filter(|value| **value == MISSING).for_each(|value| *value = f64::NAN);
    Ok(values)
}

/// The values of keys as text; None for those the message does not have.
pub(super) fn metadata(message: &[u8], names: &[String]) -> Result<Vec<Option<String>>> {
    let field = Library::shared()?.field(message)?;
    let told = names.iter().map(|name| match field.text(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        told => told.map(Some),
    });
    told.collect()
}

/// Numbers as bytes that numpy can use in place.
pub(super) fn shown<'py>(py: Python<'py>, numbers: &[f64]) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, size_of_val(numbers), |place| {
        for (place, number) in place.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_ne_bytes();
        }
        Ok(())
    })
}

/// The value of a key of a message.
#[derive(FromPyObject)]
enum Value {
    Long(i64),
    Double(f64),
    Text(String),
}

/// Creates a GRIB message from an ecCodes sample, such as "GRIB2" or "regular_ll_sfc_grib2".
///
/// Sets `keys` in their order, with ecCodes names; then encodes `values`, one for each point of the grid.
#[pyfunction]
#[pyo3(signature = (sample, keys, values = None))]
pub(crate) fn make_grib<'py>(
    py: Python<'py>,
    sample: &str,
    keys: &Bound<'py, PyMapping>,
    values: Option<Vec<f64>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let keys: Vec<(String, Value)> = keys.items()?.extract()?;
    let message = call(py, || {
        let mut draft = Library::shared()?.sample(sample)?;
        for (name, value) in &keys {
            set(&mut draft, name, value)?;
        }
        values.as_ref().map_or(Ok(()), |values| pack(&mut draft, values))?;
        draft.message()
    })?;
    Ok(PyBytes::new(py, &message))
}

fn set(draft: &mut Draft<'_>, name: &str, value: &Value) -> Result<()> {
    match value {
        Value::Long(value) => draft.set_long(name, *value),
        Value::Double(value) => draft.set_double(name, *value),
        Value::Text(value) => draft.set_text(name, value),
    }
}

/// Encodes the values; NaN marks a missing one.
fn pack(draft: &mut Draft<'_>, values: &[f64]) -> Result<()> {
    if values.is_empty() {
        return Err(Error::new(ErrorKind::Invalid, "a field has at least one value: pass values"));
    }
    if values.iter().any(|value| value.is_nan()) {
        draft.set_long("bitmapPresent", 1)?;
        draft.set_double("missingValue", MISSING)?;
    }
    let packed = |value: &f64| if value.is_nan() { MISSING } else { *value };
    draft.set_values(&values.iter().map(packed).collect::<Vec<_>>())
}
