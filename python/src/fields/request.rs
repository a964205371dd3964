//! Requests and keys from Python: dicts or texts.
use esker::types::{Error, ErrorKind, Result};
use esker_fields::request::Request;
use esker_fields::{Date, FieldStore, Key, Selection};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PyString};

/// Requests taken from Python, to be parsed without the GIL.
pub(super) enum Wanted {
    Everything,
    Text(String),
    Pairs(Vec<(String, Vec<String>)>),
}

impl Wanted {
    /// Takes requests from Python: `None` for all fields, a dict, or a text in the MARS language.
    pub(super) fn parse(request: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(request) = request else { return Ok(Self::Everything) };
        if let Ok(text) = request.cast::<PyString>() {
            return Ok(Self::Text(text.to_str()?.to_owned()));
        }
        let Ok(mapping) = request.cast::<PyMapping>() else {
            let message = "a request must be a dict such as {\"step\": [0, 6]}, or a text in the MARS language";
            return Err(PyTypeError::new_err(message));
        };
        if mapping.is_empty()? {
            return Ok(Self::Everything);
        }
        let pairs = mapping.items()?.iter().map(|item| {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
            let values = values(&name, &value)?;
            Ok((name, values))
        });
        pairs.collect::<PyResult<_>>().map(Self::Pairs)
    }

    /// Runs `work` on the selection of each request.
    pub(super) fn each<T>(
        self,
        store: &FieldStore,
        work: impl FnMut(&Selection) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expand(store)?.iter().map(work).collect()
    }

    /// The selection of each request.
    pub(super) fn expand(self, store: &FieldStore) -> Result<Vec<Selection>> {
        let everything = || Ok(vec![Selection::everything(store.schema())]);
        let requests = match self {
            Self::Everything => return everything(),
            Self::Text(text) if text.trim().is_empty() => return everything(),
            Self::Text(text) => parse_some(&text)?,
            Self::Pairs(pairs) => {
                let mut request = Request::default();
                pairs.into_iter().try_for_each(|(name, values)| request.add(&name, values))?;
                vec![request]
            }
        };
        let today = Date::today();
        requests.iter().map(|request| request.expand(store.schema(), today)).collect()
    }
}

/// The requests in a text, at least one.
fn parse_some(text: &str) -> Result<Vec<Request>> {
    let requests = Request::parse_all(text)?;
    if requests.is_empty() {
        let text = "the text has no request, only comments: pass None for all fields";
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    Ok(requests)
}

/// The values of a name: a text with slashes, or any iterable.
fn values(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str()?.split('/').map(|part| part.trim().to_owned()).collect());
    }
    if let Some(number) = usual(value)? {
        return Ok(vec![number]);
    }
    let one_value = value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyDict>();
    match value.try_iter() {
        Ok(several) if !one_value => several.map(|one| spelt(name, &one?)).collect(),
        _ => Ok(vec![spelt(name, value)?]),
    }
}

/// A text or number as it is written in keys, if it has one of Python's own types. Most values do; inspecting other
/// types takes longer than the rest of a short request.
fn usual(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let is_usual = value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>();
    is_usual.then(|| Ok(value.str()?.to_str()?.to_owned())).transpose()
}

/// A value as it is written in keys; dates as 20240610. Accepts texts, numbers and dates, including those of numpy;
/// rejects None, lists and other objects that merely have a string representation.
fn spelt(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Some(usual) = usual(value)? {
        return Ok(usual);
    }
    if value.hasattr("strftime")? {
        return value.call_method1("strftime", ("%Y%m%d",))?.extract();
    }
    let own = if value.hasattr("dtype")? { of_numpy(value)? } else { value.clone() };
    if own.hasattr("strftime")? {
        return own.call_method1("strftime", ("%Y%m%d",))?.extract();
    }
    // Subclasses, such as enumerations, may be shown in another way than their values.
    if let Ok(text) = own.cast::<PyString>() {
        return Ok(text.to_str()?.to_owned());
    }
    if own.is_instance_of::<PyInt>() && !own.is_instance_of::<PyBool>() {
        return Ok(own.call_method0("__index__")?.str()?.to_str()?.to_owned());
    }
    if own.is_instance_of::<PyFloat>() {
        return Ok(PyFloat::new(own.py(), own.extract::<f64>()?).str()?.to_str()?.to_owned());
    }
    let message = format!("{name}={}: a value must be a text, a number or a date", value.repr()?);
    Err(PyTypeError::new_err(message))
}

/// The value of a scalar of numpy in Python's own type. Its method `item` returns dates in nanoseconds as numbers.
fn of_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind = value.getattr("dtype")?.getattr("kind");
    if kind.is_ok_and(|kind| kind.eq("M").unwrap_or(false)) {
        return value.call_method1("astype", ("M8[D]",))?.call_method0("item");
    }
    value.call_method0("item")
}

/// Parses a key from a dict or a text. The inner result is whether the key is valid: the caller turns its error into an
/// exception.
pub(super) fn key(key: &Bound<'_, PyAny>) -> PyResult<Result<Key>> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(Key::parse(text.to_str()?));
    }
    let Ok(mapping) = key.cast::<PyMapping>() else {
        let message = "a key must be a dict, or a text such as \"class=od,date=20240610,...\"";
        return Err(PyTypeError::new_err(message));
    };
    let pairs = mapping.items()?.iter().map(|item| {
        let (name, value): (String, Bound<'_, PyAny>) = item.extract()?;
        let value = spelt(&name, &value)?;
        Ok((name, value))
    });
    Ok(Key::from_pairs(pairs.collect::<PyResult<Vec<_>>>()?))
}

/// A key as a dict.
pub(super) fn shown<'py>(py: Python<'py>, key: &Key) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    key.iter().try_for_each(|(name, value)| shown.set_item(name, value))?;
    Ok(shown)
}
