//! `esker tensor list`, `show` and `check`.
use super::{attribute, open, shape_text, time, type_text};
use crate::args::{ContainerArg, SnapshotArg};
use crate::output::{Answer, Table};
use crate::shapes;
use crate::units::Bytes;
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_tensors::{Checked, Listed, Tensor};
use serde_json::{Map, Value, json};

/// List the tensors: those with names first, then the others by time
///
/// The exit status is 1 if the list lacks tensors because their records or names are damaged.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor list tank/tensors
  esker tensor list tank/tensors --snapshot monday --json")]
pub(crate) struct List {
    #[command(flatten)]
    container: ContainerArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Show type, shape, chunks and attributes of a tensor
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor show tank/tensors t2m
  esker tensor show tank/tensors 67e55044-10b1-426f-9247-bb680e5fe0c8 --json")]
pub(crate) struct Show {
    #[command(flatten)]
    container: ContainerArg,
    /// Tensor: its name or UUID
    #[arg(value_name = "TENSOR")]
    tensor: String,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Check that names lead to tensors, and that tensors have all their chunks
///
/// With --data, all elements are read, so that their checksums are verified. The exit status is 1 if there is a
/// problem.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor check tank/tensors
  esker tensor check tank/tensors --data")]
pub(crate) struct Check {
    #[command(flatten)]
    container: ContainerArg,
    /// Read all elements
    #[arg(long)]
    data: bool,
}

impl List {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadOnly, self.snapshot.snapshot.as_deref())?;
        let (listed, damaged) = store.list_with_damaged()?;
        let mut table = Table::new(&["NAME", "UUID", "TYPE", "SHAPE", "SIZE", "STORED"]);
        for one in &listed {
            table.row([
                one.name.clone().unwrap_or_default(),
                one.uuid.to_string(),
                type_text(&one.data_type),
                shape_text(&one.shape),
                Bytes(one.bytes).to_string(),
                time(one.committed),
            ]);
        }
        let response = listed.iter().map(shown).collect::<Vec<_>>();
        Ok(Answer::new(json!(response), table.text()).with_trouble(damage_error(&damaged)))
    }
}

/// The error that names the damaged tensors, if there are any.
fn damage_error(damaged: &[String]) -> Option<Error> {
    let tensors = match damaged {
        [] => return None,
        [one] => format!("tensor {one:?}"),
        [one, others @ ..] => {
            format!("tensor {one:?} and {}", shapes::count(others.len() as u64, "other"))
        }
    };
    let text = format!("{tensors} cannot be listed: run `esker tensor check`");
    Some(Error::new(ErrorKind::Corrupt, text))
}

/// A tensor as JSON.
fn shown(listed: &Listed) -> Value {
    json!({
        "uuid": listed.uuid.to_string(),
        "name": listed.name,
        "dtype": type_text(&listed.data_type),
        "shape": listed.shape,
        "size_bytes": listed.bytes,
        "stored": time(listed.committed),
    })
}

impl Show {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadOnly, self.snapshot.snapshot.as_deref())?;
        let tensor = store.open_tensor(&self.tensor)?;
        let attributes = tensor.attributes().iter();
        let attributes: Map<_, _> =
            attributes.map(|(name, value)| (name.clone(), attribute(value))).collect();
        let grid = tensor.grid();
        let response = json!({
            "uuid": tensor.uuid().to_string(),
            "name": tensor.name(),
            "dtype": type_text(tensor.data_type()),
            "shape": grid.shape(),
            "size_bytes": grid.bytes(),
            "chunks": grid.chunks(),
            "chunk_count": grid.chunk_count(),
            "chunk_bytes": grid.chunk_bytes(),
            "oid": tensor.array().oid().to_string(),
            "stored": time(tensor.committed()),
            "attributes": attributes,
        });
        let text = describe(&tensor, &attributes);
        Ok(Answer::new(response, text))
    }
}

/// Text of the answer.
fn describe(tensor: &Tensor, attributes: &Map<String, Value>) -> String {
    let grid = tensor.grid();
    let mut lines = vec![
        format!("uuid    {}", tensor.uuid()),
        format!("type    {}", type_text(tensor.data_type())),
        format!("shape   {}", shape_text(grid.shape())),
        format!("size    {}", Bytes(grid.bytes())),
        format!(
            "chunks  {} of {}, {} each",
            grid.chunk_count(),
            shape_text(grid.chunks()),
            Bytes(grid.chunk_bytes())
        ),
        format!("oid     {}", tensor.array().oid()),
        format!("stored  {}", time(tensor.committed())),
    ];
    if let Some(name) = tensor.name() {
        lines.insert(0, format!("name    {name}"));
    }
    lines.extend(attributes.iter().map(|(name, value)| format!("{name} = {value}")));
    lines.join("\n")
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadOnly, None)?;
        let Checked { tensors, bytes, hidden, problems } = store.check(self.data)?;
        let mut lines = problems.clone();
        lines.push(format!(
            "{} of {}, {} that gc may free",
            shapes::count(tensors, "tensor"),
            Bytes(bytes),
            shapes::count(hidden, "other")
        ));
        let response = json!({"tensors": tensors, "size_bytes": bytes, "hidden": hidden, "problems": problems});
        let trouble = (!problems.is_empty()).then(|| {
            let text = format!(
                "{}: run `esker pool check`, and store the tensors again",
                shapes::count(problems.len() as u64, "problem")
            );
            Error::new(ErrorKind::Corrupt, text)
        });
        Ok(Answer::new(response, lines.join("\n")).with_trouble(trouble))
    }
}
