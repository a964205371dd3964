//! `esker tensor`: n-dimensional arrays.
mod change;
mod hdf5;
mod inspect;
mod transfer;

use crate::args::ContainerArg;
use crate::output::Answer;
use crate::shapes;
use clap::Subcommand;
use esker::Wait;
use esker::types::Result;
use esker::types::info::OpenMode;
use esker_tensors::{Attribute, DataType, TensorStore, Value as Of, npy};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Store, read and manage immutable n-dimensional arrays by name and UUID
///
/// A tensor has a type of elements, a shape, chunks and attributes. Files are those of numpy.save (.npy). A tensor
/// becomes visible at once when all of it is stored, and never changes; storing another under its name replaces it, for
/// readers at one moment. Tensors are kept in a container of their own, which the first `put` creates.
#[derive(Subcommand)]
pub(crate) enum TensorCommand {
    Put(transfer::Put),
    Get(transfer::Get),
    Export(hdf5::Export),
    Import(hdf5::Import),
    #[command(visible_alias = "ls")]
    List(inspect::List),
    Show(inspect::Show),
    #[command(visible_alias = "mv")]
    Rename(change::Rename),
    Rm(change::Remove),
    Gc(change::Collect),
    Check(inspect::Check),
}

impl TensorCommand {
    pub(crate) fn run(self, json: bool) -> Result<Answer> {
        match self {
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(json),
            Self::Export(export) => export.run(json),
            Self::Import(import) => import.run(),
            Self::List(list) => list.run(),
            Self::Show(show) => show.run(),
            Self::Rename(rename) => rename.run(),
            Self::Rm(remove) => remove.run(),
            Self::Gc(collect) => collect.run(),
            Self::Check(check) => check.run(),
        }
    }
}

/// Opens a store, in the state that a snapshot shows if one is given.
fn open(named: &ContainerArg, mode: OpenMode, snapshot: Option<&str>) -> Result<TensorStore> {
    let store = TensorStore::open(&named.pool.open(mode)?, &named.container, mode)?;
    match snapshot {
        Some(name) => store.at(store.container().find_snapshot(name).wait()?),
        None => Ok(store),
    }
}

/// A type of elements as people write it.
fn type_text(data_type: &DataType) -> String {
    // Members that overlap cannot be written as a list.
    npy::descr(data_type)
        .map_or_else(|_| data_type.code.clone(), |text| text.trim_matches('\'').to_owned())
}

fn time(when: SystemTime) -> String {
    let since = when.duration_since(UNIX_EPOCH).unwrap_or_default();
    shapes::time(since.as_secs() as i64, 0, 0)
}

fn shape_text(shape: &[u64]) -> String {
    let lengths: Vec<_> = shape.iter().map(u64::to_string).collect();
    if lengths.is_empty() { "scalar".to_owned() } else { lengths.join(" x ") }
}

/// The value of an attribute, in JSON.
fn attribute(of: &Attribute) -> Value {
    match &of.value {
        None => Value::Null,
        Some(Of::Flag(flag)) => json!(flag),
        Some(Of::Integer(number)) => json!(number),
        Some(Of::Real(number)) => json!(number),
        Some(Of::Text(text)) => json!(text),
        Some(Of::Octets(bytes)) => shapes::bytes(bytes),
        Some(Of::List(list)) => list.items.iter().map(attribute).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_shapes_read_well() {
        let plain = DataType::parse("<f8").unwrap();
        assert_eq!((type_text(&plain), shape_text(&[3, 4])), ("<f8".into(), "3 x 4".into()));
        let field =
            esker_tensors::Field { name: "a".into(), data_type: Some(plain), ..Default::default() };
        let structured = DataType::structured(8, vec![field]).unwrap();
        assert_eq!(
            (type_text(&structured), shape_text(&[])),
            ("[('a', '<f8')]".into(), "scalar".into())
        );
    }
}
