//! `esker tensor put` and `get`: files of numpy.
use super::super::files;
use super::open;
use crate::args::{ContainerArg, SnapshotArg};
use crate::output::{Answer, Bar};
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_tensors::npy::Header;
use esker_tensors::{
    Attribute, NewTensor, Put as Writing, Slab, Strided, Tensor, TensorStore, Value as Of,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time, approximately.
const PIECE_BYTES: u64 = 32 << 20;

/// Store a .npy file as a tensor
///
/// The tensor becomes visible when all of it is stored. If another has its name, it is replaced: readers see the old
/// one or the new one. Without a name it is found by the UUID that is printed.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor put tank/tensors t2m.npy --name t2m
  esker tensor put tank/tensors t2m.npy --name t2m --chunks 1,180,360 --attr units=K --attr step=24
  python3 make.py | esker tensor put tank/tensors - --name made")]
pub(crate) struct Put {
    #[command(flatten)]
    container: ContainerArg,
    /// File that numpy.save wrote, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the tensor
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Shape of the chunks, such as 64,64,64 [default: whole rows of up to 4 MiB]
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',')]
    chunks: Option<Vec<u64>>,
    /// Attribute: an integer, a number, true, false or a text (may be given several times)
    #[arg(long = "attr", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    attributes: Vec<(String, Attribute)>,
}

/// Write a tensor, or a part of it, to a .npy file
///
/// The file can be read by numpy.load, also with mmap_mode.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor get tank/tensors t2m -o t2m.npy
  esker tensor get tank/tensors t2m --slab '10:20, ::2' -o part.npy
  esker tensor get tank/tensors t2m --snapshot monday > t2m.npy

SLAB is written as in Python: START:STOP or START:STOP:STEP for each dimension, with a positive step, or an index, \
which selects a dimension of length 1. Dimensions that are left out at the end are taken whole.")]
pub(crate) struct Get {
    #[command(flatten)]
    container: ContainerArg,
    /// Tensor: its name or UUID
    #[arg(value_name = "TENSOR")]
    tensor: String,
    /// File, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Part to write [default: all of it]
    #[arg(long, value_name = "SLAB", allow_hyphen_values = true)]
    slab: Option<String>,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Value parser for the name and the value of an attribute.
fn parse_attribute(text: &str) -> std::result::Result<(String, Attribute), String> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    let number = || value.parse().ok().filter(|number: &f64| number.is_finite()).map(Of::Real);
    let value = match value {
        "true" => Of::Flag(true),
        "false" => Of::Flag(false),
        _ => value.parse().map(Of::Integer).ok().or_else(number).unwrap_or(Of::Text(value.into())),
    };
    Ok((name.to_owned(), value.into()))
}

impl Put {
    pub(super) fn run(self) -> Result<Answer> {
        let mut source = files::Source::open(&self.file)?;
        let header = Header::read(&mut source).map_err(|error| source.named(&error))?;
        let attributes: BTreeMap<_, _> = self.attributes.into_iter().collect();
        let (data_type, shape) = (header.data_type.clone(), header.shape.clone());
        let new = NewTensor { data_type, shape, chunks: self.chunks, attributes };
        new.check(self.name.as_deref())?;
        let pool = self.container.pool.open(OpenMode::ReadWrite)?;
        let store = TensorStore::open_or_create(&pool, &self.container.container)?;
        let writing = store.begin(&new)?;
        let stored = write(&writing, &header, &mut source)
            .and_then(|()| writing.commit(self.name.as_deref()));
        let uuid = stored.inspect_err(|_| {
            // If the abort fails, a later collection removes the rest.
            let _ = writing.abort();
        })?;
        let response = json!({
            "uuid": uuid.to_string(),
            "name": self.name,
            "size_bytes": writing.grid().bytes(),
        });
        Ok(Answer::new(response, uuid.to_string()))
    }
}

/// Writes the elements of a file, some indexes of the dimension that varies slowest at a time.
fn write(writing: &Writing, header: &Header, source: &mut files::Source) -> Result<()> {
    let (shape, item) = (&header.shape, writing.grid().item());
    let slow = if header.fortran_order { shape.len().saturating_sub(1) } else { 0 };
    let strides = strides(shape, item, header.fortran_order);
    let (bar, total) = (Bar::bytes("storing"), writing.grid().bytes());
    if shape.is_empty() || total == 0 {
        let mut element = vec![0; total as usize];
        read_exactly(source, &mut element)?;
        return writing
            .write(&vec![0; shape.len()], &Strided::new(&element, 0, shape, &strides, item)?);
    }
    // `row`: bytes of one index of the slow dimension.
    let (row, mut at, mut buffer) = (total / shape[slow], 0, Vec::new());
    let step = rows(row, writing.grid().chunks()[slow]);
    while at < shape[slow] {
        let count = step.min(shape[slow] - at);
        buffer.resize((count * row) as usize, 0);
        read_exactly(source, &mut buffer)?;
        let (mut offset, mut part) = (vec![0; shape.len()], shape.clone());
        (offset[slow], part[slow]) = (at, count);
        // No stride depends on the length of the slow dimension, so those of the whole are also those of the part.
        writing.write(&offset, &Strided::new(&buffer, 0, &part, &strides, item)?)?;
        at += count;
        bar.update(at * row, total);
    }
    Ok(())
}

/// Returns the distance in bytes between neighbouring elements along each dimension. `item` is the size of an element
/// in bytes.
fn strides(shape: &[u64], item: u64, fortran_order: bool) -> Vec<i64> {
    let (mut strides, mut bytes) = (vec![0; shape.len()], item);
    let mut dimensions: Vec<usize> = (0..shape.len()).collect();
    if !fortran_order {
        dimensions.reverse();
    }
    for dimension in dimensions {
        strides[dimension] = bytes.cast_signed();
        bytes = bytes.saturating_mul(shape[dimension]);
    }
    strides
}

/// How many indexes of the slowest dimension go together: whole chunks of about [`PIECE_BYTES`].
fn rows(row: u64, chunk: u64) -> u64 {
    (PIECE_BYTES / (row * chunk).max(1)).max(1) * chunk
}

/// Fills the buffer from a file. An error if the file is too short.
fn read_exactly(source: &mut files::Source, buffer: &mut [u8]) -> Result<()> {
    match source.fill(buffer)? {
        filled if filled == buffer.len() => Ok(()),
        _ => {
            let text = "it ends before its last element: write it again";
            Err(source.named(&Error::new(ErrorKind::Invalid, text)))
        }
    }
}

impl Get {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        if json && self.output == Path::new("-") {
            let message = "standard output is for the JSON document: name a file with --output";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let store = open(&self.container, OpenMode::ReadOnly, self.snapshot.snapshot.as_deref())?;
        let tensor = store.open_tensor(&self.tensor)?;
        let slabs = Slab::parse(self.slab.as_deref().unwrap_or_default(), tensor.grid().shape())?;
        let shape: Vec<u64> = slabs.iter().map(|slab| slab.count).collect();
        let header = Header {
            data_type: tensor.data_type().clone(),
            shape: shape.clone(),
            fortran_order: false,
        };
        let header = header.to_bytes()?;
        let mut sink = files::Sink::create(&self.output)?;
        sink.refuse_terminal()?;
        sink.write(&header)?;
        let bytes = copy(&tensor, slabs, &mut sink)?;
        sink.finish()?;
        let response = json!({
            "uuid": tensor.uuid().to_string(),
            "shape": shape,
            "size_bytes": bytes,
            "output": self.output.display().to_string(),
        });
        Ok(Answer::new(response, ""))
    }
}

/// Writes the selected elements to `sink`, a number of indexes of the first dimension at a time. Returns the number of
/// bytes written.
fn copy(tensor: &Tensor, mut slabs: Vec<Slab>, sink: &mut files::Sink) -> Result<u64> {
    let grid = tensor.grid();
    let total = slabs.iter().map(|slab| slab.count).product::<u64>() * grid.item();
    let Some(whole) = slabs.first().copied().filter(|_| total > 0) else {
        sink.write(&tensor.read_to_vec(&slabs)?)?;
        return Ok(total);
    };
    let (bar, mut at) = (sink.bar("reading"), 0);
    let row = total / whole.count;
    let step = rows(row, grid.chunks()[0]);
    let mut buffer = Vec::new();
    while at < whole.count {
        let count = step.min(whole.count - at);
        slabs[0] = Slab { start: whole.start + at * whole.step, count, ..whole };
        buffer.resize((count * row) as usize, 0);
        tensor.read(&slabs, &mut buffer)?;
        sink.write(&buffer)?;
        at += count;
        bar.update(at * row, total);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_numbers_flags_or_texts() {
        let value = |text| parse_attribute(text).unwrap().1.value.unwrap();
        assert_eq!(value("a=-3"), Of::Integer(-3));
        assert_eq!(value("a=0.5"), Of::Real(0.5));
        assert_eq!(value("a=true"), Of::Flag(true));
        assert_eq!(value("a=b=c"), Of::Text("b=c".into()));
        assert_eq!(value("a=nan"), Of::Text("nan".into()));
        assert!(parse_attribute("a").is_err() && parse_attribute("=3").is_err());
    }

    #[test]
    fn pieces_contain_complete_chunks() {
        assert_eq!(rows(1 << 20, 5), 30);
        assert_eq!(rows(1 << 30, 5), 5);
    }
}
