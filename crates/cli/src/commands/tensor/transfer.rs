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
    Attribute, Grid, NewTensor, Put as Writing, Slab, Strided, Tensor, TensorStore, Value as Of,
    bands,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// Writes the elements of a file, in the order of the file and some at a time.
fn write(writing: &Writing, header: &Header, source: &mut files::Source) -> Result<()> {
    let (grid, item) = (writing.grid(), writing.grid().item());
    let (bar, total) = (Bar::bytes("storing"), grid.bytes());
    if total == 0 {
        let nothing = Strided::contiguous(&[], grid.shape(), item)?;
        return writing.write(&vec![0; grid.shape().len()], &nothing);
    }
    // Lengths or indexes with the dimension first that varies slowest in the file, and back.
    let ordered = |lengths: &[u64]| {
        let mut lengths = lengths.to_vec();
        if header.fortran_order {
            lengths.reverse();
        }
        lengths
    };
    let in_file = Grid::new(&ordered(grid.shape()), Some(&ordered(grid.chunks())), item)?;
    let mut buffer = Vec::new();
    bands(&in_file, |at, offset, part| {
        buffer.resize((part.iter().product::<u64>() * item) as usize, 0);
        read_exactly(source, &mut buffer)?;
        let (offset, part) = (ordered(offset), ordered(part));
        let strides = strides(&part, item, header.fortran_order);
        writing.write(&offset, &Strided::new(&buffer, 0, &part, &strides, item)?)?;
        bar.update(at + buffer.len() as u64, total);
        Ok(())
    })
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
        sink.refuse_terminal(files::WITH_OPTION)?;
        sink.write(&header)?;
        let bytes = copy(&tensor, &slabs, &mut sink)?;
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

/// Writes the selected elements to `sink`, some at a time. Returns the number of bytes written.
fn copy(tensor: &Tensor, slabs: &[Slab], sink: &mut files::Sink) -> Result<u64> {
    let (grid, counts) = (tensor.grid(), slabs.iter().map(|slab| slab.count));
    let selected = Grid::new(&counts.collect::<Vec<_>>(), Some(grid.chunks()), grid.item())?;
    let total = selected.bytes();
    if total == 0 {
        return Ok(total);
    }
    let (bar, mut buffer) = (sink.bar("reading"), Vec::new());
    bands(&selected, |at, offset, part| {
        let parts = offset.iter().zip(part);
        let within = slabs.iter().zip(parts).map(|(slab, (offset, count))| Slab {
            start: slab.start + offset * slab.step,
            count: *count,
            ..*slab
        });
        buffer.resize((part.iter().product::<u64>() * grid.item()) as usize, 0);
        tensor.read(&within.collect::<Vec<_>>(), &mut buffer)?;
        sink.write(&buffer)?;
        bar.update(at + buffer.len() as u64, total);
        Ok(())
    })?;
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
}
