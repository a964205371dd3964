//! Types of elements and attributes as Python objects.
use esker::types::Result;
use esker_tensors::{Attribute, AttributeList, DataType, Field, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyList, PyString, PyTuple};
use std::collections::BTreeMap;

/// A member: name, title, offset, type and shape.
type Member<'py> = (String, String, u64, Bound<'py, PyAny>, Vec<u64>);

/// A type from Python: its code, or the size in bytes of a structured one and its members. The inner result is the
/// store's check.
pub(super) fn data_type(of: &Bound<'_, PyAny>) -> PyResult<Result<DataType>> {
    if let Ok(code) = of.extract::<String>() {
        return Ok(DataType::parse(&code));
    }
    let (size, members): (u64, Vec<Member<'_>>) = of.extract()?;
    let mut fields = Vec::with_capacity(members.len());
    for (name, title, offset, of, shape) in members {
        match data_type(&of)? {
            Ok(of) => fields.push(Field { name, offset, data_type: Some(of), shape, title }),
            refused => return Ok(refused),
        }
    }
    Ok(DataType::structured(size, fields))
}

/// A type of the store as Python objects.
pub(super) fn shown_data_type<'py>(py: Python<'py>, of: &DataType) -> PyResult<Bound<'py, PyAny>> {
    if of.fields.is_empty() {
        return Ok(PyString::new(py, &of.code).into_any());
    }
    // The code of a structured type is `|V` and its size in bytes.
    let size: u64 = of.code.trim_start_matches("|V").parse()?;
    let none = DataType::default();
    let members = of.fields.iter().map(|field| {
        let inner = shown_data_type(py, field.data_type.as_ref().unwrap_or(&none))?;
        Ok((&field.name, &field.title, field.offset, inner, PyTuple::new(py, &field.shape)?))
    });
    let members = members.collect::<PyResult<Vec<_>>>()?;
    Ok((size, members).into_pyobject(py)?.into_any())
}

/// The attributes of a tensor, from a dict.
pub(super) fn attributes(of: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, Attribute>> {
    of.iter().map(|(name, value)| Ok((name.extract()?, attribute(&value)?))).collect()
}

fn attribute(of: &Bound<'_, PyAny>) -> PyResult<Attribute> {
    let value = if let Ok(flag) = of.cast::<PyBool>() {
        Value::Flag(flag.is_true())
    } else if let Ok(text) = of.cast::<PyString>() {
        Value::Text(text.extract()?)
    } else if let Ok(bytes) = of.cast::<PyBytes>() {
        Value::Octets(bytes.as_bytes().to_vec())
    } else if of.is_instance_of::<PyList>() || of.is_instance_of::<PyTuple>() {
        let items = of.try_iter()?.map(|item| attribute(&item?)).collect::<PyResult<_>>()?;
        Value::List(AttributeList { items })
    } else if of.is_instance_of::<pyo3::types::PyInt>() {
        Value::Integer(of.extract()?)
    } else if of.is_instance_of::<pyo3::types::PyFloat>() {
        Value::Real(of.extract()?)
    } else {
        let text = format!(
            "attributes are bool, int, float, str, bytes and lists of them, not {}",
            of.get_type().name()?
        );
        return Err(PyTypeError::new_err(text));
    };
    Ok(value.into())
}

/// The attributes of a tensor, as a new dict.
pub(super) fn shown_attributes<'py>(
    py: Python<'py>,
    of: &BTreeMap<String, Attribute>,
) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    of.iter().try_for_each(|(name, value)| shown.set_item(name, shown_attribute(py, value)?))?;
    Ok(shown)
}

fn shown_attribute<'py>(py: Python<'py>, of: &Attribute) -> PyResult<Bound<'py, PyAny>> {
    Ok(match &of.value {
        None => py.None().into_bound(py),
        Some(Value::Flag(flag)) => PyBool::new(py, *flag).to_owned().into_any(),
        Some(Value::Integer(number)) => number.into_pyobject(py)?.into_any(),
        Some(Value::Real(number)) => number.into_pyobject(py)?.into_any(),
        Some(Value::Text(text)) => PyString::new(py, text).into_any(),
        Some(Value::Octets(bytes)) => PyBytes::new(py, bytes).into_any(),
        Some(Value::List(list)) => {
            let items = list.items.iter().map(|item| shown_attribute(py, item));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
    })
}
