//! `esker tensor export` and `import`: files of HDF5.
use super::open;
use crate::args::{ContainerArg, SnapshotArg};
use crate::commands::files::Sink;
use crate::output::{Answer, Bar, say};
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker_tensors::TensorStore;
use esker_tensors::hdf5::{self, Source};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Write a tensor to a file of HDF5
///
/// The file has one dataset with the name, the attributes and the chunks of the tensor: h5py, netCDF4, h5dump and
/// whatever else uses HDF5 1.10 or later read it. A `/` in the name makes groups; a tensor without a name is `data`.
/// Names of members, byte orders and the bytes of all elements are kept. Dates and texts of UTF-32 become opaque types
/// with numpy's code in their tag, as h5py writes and reads them.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor export tank/tensors t2m t2m.h5
  esker tensor export tank/tensors t2m t2m.h5 --virtual
  esker tensor export tank/tensors t2m - --snapshot monday > t2m.h5")]
pub(crate) struct Export {
    #[command(flatten)]
    container: ContainerArg,
    /// Tensor: its name or UUID
    #[arg(value_name = "TENSOR")]
    tensor: String,
    /// File, or - for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write a file for each chunk to the directory FILE.chunks, and to FILE a virtual dataset over them
    #[arg(long = "virtual")]
    is_virtual: bool,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

impl Export {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let is_stream = self.file == Path::new("-");
        if is_stream && (json || self.is_virtual) {
            let message =
                "standard output is for the JSON document, and for one file only: name a file";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let store = open(&self.container, OpenMode::ReadOnly, self.snapshot.snapshot.as_deref())?;
        let tensor = store.open_tensor(&self.tensor)?;
        let bar = Bar::bytes("writing");
        let progress = &mut |done, total| bar.update(done, total);
        let chunks = match self.is_virtual {
            true => Some(hdf5::write_virtual(&tensor, &self.file, progress)?),
            false if is_stream => {
                let mut sink = Sink::create(&self.file)?;
                sink.refuse_terminal("name a file in place of -")?;
                hdf5::write_to(&tensor, &mut sink, "standard output", progress)?;
                sink.finish().map(|()| None)?
            }
            false => hdf5::write(&tensor, &self.file, progress).map(|()| None)?,
        };
        let response = json!({
            "uuid": tensor.uuid().to_string(),
            "size_bytes": tensor.grid().bytes(),
            "file": self.file.display().to_string(),
            "chunk_files": chunks,
        });
        Ok(Answer::new(response, ""))
    }
}

/// Store a dataset of a file of HDF5 as a tensor
///
/// Shape, type, byte order and attributes are kept, and chunks unless they are very small or larger than 64 MiB.
/// Datasets may be contiguous, compact or chunked, also with deflate, shuffle, fletcher32, nbit, scaleoffset or szip.
/// Elements of variable length, references and virtual datasets are refused. Files of netCDF 4 are files of HDF5.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor import tank/tensors t2m.h5 --name t2m
  esker tensor import tank/tensors era5.nc:t2m --name t2m
  esker tensor import tank/tensors run.h5:/group/u --name u --chunks 1,180,360")]
pub(crate) struct Import {
    #[command(flatten)]
    container: ContainerArg,
    /// File, and a dataset in it [default: its only one]
    #[arg(value_name = "FILE[:DATASET]")]
    file: String,
    /// Name of the tensor
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Shape of the chunks, such as 64,64,64 [default: those of the dataset, or whole rows of up to 4 MiB]
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',')]
    chunks: Option<Vec<u64>>,
}

impl Import {
    pub(super) fn run(self) -> Result<Answer> {
        let (file, dataset) = split(&self.file);
        let source = Source::open(Path::new(file), dataset)?;
        let mut new = source.describe().clone();
        new.chunks = self.chunks.or(new.chunks);
        let total = new.check(self.name.as_deref())?.bytes();
        let pool = self.container.pool.open(OpenMode::ReadWrite)?;
        let store = TensorStore::open_or_create(&pool, &self.container.container)?;
        let bar = Bar::bytes("storing");
        let uuid = source
            .store(&store, &new, self.name.as_deref(), &mut |done| bar.update(done, total))?;
        source.remarks().iter().for_each(say);
        let response = json!({
            "uuid": uuid.to_string(),
            "name": self.name,
            "size_bytes": total,
            "left_out": source.left_out(),
            "remarks": source.remarks().iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        Ok(Answer::new(response, uuid.to_string()))
    }
}

/// Splits `FILE:DATASET`. Both may contain colons, so FILE is the longest prefix that exists as a path. None if no
/// dataset is named.
fn split(text: &str) -> (&str, Option<&str>) {
    let pairs = text.rmatch_indices(':').map(|(at, _)| (&text[..at], Some(&text[at + 1..])));
    let mut all = std::iter::once((text, None)).chain(pairs);
    all.find(|(file, _)| Path::new(file).exists()).unwrap_or((text, None))
}
