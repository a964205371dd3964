//! Names of stores: "POOL/CONTAINER", or a Pool and the label of a container.
use crate::pool::Pool;
use esker::types::{Error, ErrorKind, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// A pool that is open, and its URL.
pub(crate) type OpenPool = (esker::Pool, String);

/// The name of a store from arguments of Python, and its pool if that is open already.
pub(crate) fn parse(
    store: &Bound<'_, PyAny>,
    label: Option<&str>,
) -> PyResult<(String, Option<OpenPool>)> {
    let Ok(pool) = store.cast::<Pool>() else { return Ok((named(store, label)?, None)) };
    let label = label
        .ok_or_else(|| PyTypeError::new_err("the container of the pool is missing: pass label="))?;
    let pool = pool.get();
    let open = (pool.opened(store.py())?, pool.url().to_owned());
    Ok((format!("{}/{label}", pool.name()), Some(open)))
}

/// The name of a store in a pool that is not open.
pub(crate) fn named(store: &Bound<'_, PyAny>, label: Option<&str>) -> PyResult<String> {
    let name: String = store.extract().map_err(|_| {
        PyTypeError::new_err("store must be \"POOL/CONTAINER\", or a Pool with label=")
    })?;
    Ok(label.map_or(name.clone(), |label| format!("{name}/{label}")))
}

/// The name by which other processes find a container of a pool with this URL: they may find another pool by a label.
pub(crate) fn everywhere(url: &str, container: &esker::Container) -> String {
    format!("{url}/{}", container.info().uuid)
}

/// The pool and the container of a store's name, which looks like `example`.
pub(crate) fn split<'n>(name: &'n str, example: &str) -> Result<(&'n str, &'n str)> {
    let parts = name.rsplit_once('/');
    parts.filter(|(pool, label)| !pool.is_empty() && !label.is_empty()).ok_or_else(|| {
        let text = format!("{name:?} has no container: use POOL/CONTAINER, such as {example}");
        Error::new(ErrorKind::Invalid, text)
    })
}
