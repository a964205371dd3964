//! Python bindings of Esker: the module `esker._esker`, which the package `esker` re-exports.
//!
//! Each class is a thin wrapper around a type of the client. Everything that may block runs in [`call::call`],
//! without the GIL; failures become exceptions of [`errors`].
#![deny(unsafe_code)]

mod array;
mod attributes;
mod buffer;
mod call;
mod container;
mod errors;
mod fields;
mod file;
mod files;
mod key;
mod kv;
mod listing;
mod pool;
mod snapshot;
mod store_name;
mod tensors;
mod text;
mod transaction;
mod view;

use pyo3::pymodule;

/// The store, its pools, containers and objects.
#[pymodule]
mod _esker {
    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::array::Array;
    #[pymodule_export]
    use crate::attributes::Attributes;
    #[pymodule_export]
    use crate::buffer::View;
    #[pymodule_export]
    use crate::container::Container;
    #[pymodule_export]
    use crate::errors::error_table;
    #[pymodule_export]
    use crate::fields::grib::make_grib;
    #[pymodule_export]
    use crate::fields::{Field, FieldStore, Fields, Watch, configured_fields, finish_fields};
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::files::FileSystem;
    #[pymodule_export]
    use crate::kv::Kv;
    #[pymodule_export]
    use crate::listing::Listing;
    #[pymodule_export]
    use crate::pool::Pool;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::tensors::{Tensor, TensorPut, TensorStore};
    #[pymodule_export]
    use crate::transaction::Transaction;
}
