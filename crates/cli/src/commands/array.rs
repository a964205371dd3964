//! `esker array`: files as Arrays.
use super::files;
use super::object::list;
use crate::args::{ContainerArg, NAMING, ObjectArg, SnapshotArg};
use crate::output::{Answer, Bar};
use crate::shapes;
use crate::units::Bytes;
use clap::{Args, Subcommand};
use esker::types::info::OpenMode;
use esker::types::ops::{Sink, Source};
use esker::types::{Error, ErrorKind, Extent, ObjectId, ObjectType, Result};
use esker::{Access, Array, ArrayAttributes, Container, Wait};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time, approximately.
const PIECE_BYTES: u64 = 4 << 20;

/// Default bytes of a chunk of a new Array, approximately.
const CHUNK_BYTES: u64 = 1 << 20;

/// Attempts to remove an incomplete Array while other processes write to it.
const DISCARD_TRIES_MAX: u32 = 16;

/// Store files as Array objects, read them back, list and remove them, and show their sizes
#[derive(Subcommand)]
pub(crate) enum ArrayCommand {
    Put(Put),
    Get(Get),
    Stat(Stat),
    #[command(visible_alias = "ls")]
    List(List),
    Rm(Remove),
}

/// Store a file as an Array
///
/// An existing Array is overwritten and truncated to the length of the file. The file is copied piece by piece, so
/// readers may see a part of it before it is complete.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker array put tank/run1 field-1 field.grib
  esker array put tank/run1 numbers numbers.bin --cell-size 8

{NAMING}"))]
pub(crate) struct Put {
    #[command(flatten)]
    array: ObjectArg,
    /// File, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Cell size of a new Array
    #[arg(long, value_name = "SIZE", default_value = "1")]
    cell_size: Bytes,
    /// Chunk size of a new Array, a multiple of the cell size; each chunk is stored on one target [default: about 1MiB]
    #[arg(long, value_name = "SIZE")]
    chunk_size: Option<Bytes>,
}

/// Write an Array to a file
///
/// Cells that were never written read as zeros.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker array get tank/run1 field-1 -o field.grib
  esker array get tank/run1 field-1 --snapshot monday | md5sum

{NAMING}"))]
pub(crate) struct Get {
    #[command(flatten)]
    array: ObjectArg,
    /// File, or - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Show the size of an Array and when it last changed
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker array stat tank/run1 field-1

{NAMING}"))]
pub(crate) struct Stat {
    #[command(flatten)]
    array: ObjectArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// List the Arrays of a container
///
/// An Array has a name in the listing if `esker array put` created it by name. `esker array stat` shows its size.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker array list tank/run1")]
pub(crate) struct List {
    #[command(flatten)]
    container: ContainerArg,
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Remove an Array
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker array rm tank/run1 field-1

{NAMING}"))]
pub(crate) struct Remove {
    #[command(flatten)]
    array: ObjectArg,
}

impl ArrayCommand {
    pub(crate) fn run(self, json: bool) -> Result<Answer> {
        match self {
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(json),
            Self::Stat(stat) => stat.run(),
            Self::List(list) => list.run(),
            Self::Rm(remove) => remove.run(),
        }
    }
}

/// Opens an Array. If there is none, the error names it as the user did.
fn existing(
    name: &ObjectArg,
    container: &Container,
    oid: ObjectId,
    access: Access<'_>,
) -> Result<Array> {
    container.open_array(oid, access).wait().map_err(|error| match error.kind() {
        ErrorKind::NotFound => name.not_found_error("Array"),
        _ => error,
    })
}

impl Put {
    fn run(self) -> Result<Answer> {
        let mut source = files::Source::open(&self.file)?;
        let (container, oid) = self.array.open(OpenMode::ReadWrite, ObjectType::Array)?;
        let (array, is_new) = self.open_or_create(&container, oid)?;
        let mut done = Stored::default();
        // Listings show the name from now on.
        let recorded = self.array.record(&container);
        let stored = recorded.and_then(|()| store(&array, &mut source, &mut done));
        stored.map_err(|error| match is_new.then(|| self.discard(&container, &array, &done)) {
            Some(Ok(true)) => error,
            Some(Ok(false)) => self.kept_array_error(&error),
            Some(Err(_)) | None => self.incomplete_array_error(&error),
        })?;
        let bytes = done.cells * array.attributes().cell_size;
        let response = json!({"oid": oid.to_string(), "size_bytes": bytes});
        Ok(Answer::new(response, ""))
    }

    /// Removes a new Array, because half of a file must not read as a whole one. Keeps an Array of another size than this
    /// command has given it: another process has stored into it, or the last write has failed half done. True if it was
    /// removed.
    fn discard(&self, container: &Container, array: &Array, done: &Stored) -> Result<bool> {
        let remove = |access: Access<'_>| {
            let is_own = array.size(access).wait()? == done.cells;
            if is_own {
                array.destroy(access).wait()?;
            }
            Ok(is_own)
        };
        let is_removed = match container.capabilities().transactions {
            true => container.transact(DISCARD_TRIES_MAX, |tx| remove(Access::Tx(tx)))?,
            false => remove(Access::Latest)?,
        };
        if is_removed {
            container.forget_name(&self.array.object).wait()?;
        }
        Ok(is_removed)
    }

    #[cold]
    fn kept_array_error(&self, error: &Error) -> Error {
        let message = format!(
            "{error}; the Array {:?} has a part of the file, or what another process has stored: check its content",
            self.array.object
        );
        Error::new(error.kind(), message)
    }

    #[cold]
    fn incomplete_array_error(&self, error: &Error) -> Error {
        let message = format!(
            "{error}; the Array {:?} is incomplete: store the file again",
            self.array.object
        );
        Error::new(error.kind(), message)
    }

    /// Opens the Array, or creates it if it does not exist. True means that this call created it: of two processes that
    /// do so at the same time, only one gets true.
    fn open_or_create(&self, container: &Container, oid: ObjectId) -> Result<(Array, bool)> {
        let cell_size = self.cell_size.0;
        let chunk_size = chunk_cells(self.chunk_size.map(|chunk| chunk.0), cell_size)?;
        let attributes = ArrayAttributes { cell_size, chunk_size };
        match container.create_array(oid, attributes, Access::Latest).wait() {
            Err(error) if error.kind() == ErrorKind::Exists => {
                Ok((existing(&self.array, container, oid, Access::Latest)?, false))
            }
            created => Ok((created?, true)),
        }
    }
}

/// Number of cells of a chunk: as many as are given in bytes, else of about [`CHUNK_BYTES`].
fn chunk_cells(chunk_bytes: Option<u64>, cell_size: u64) -> Result<u64> {
    let cell = cell_size.max(1);
    match chunk_bytes {
        None => Ok((CHUNK_BYTES / cell).max(1)),
        Some(bytes) if bytes.is_multiple_of(cell) => Ok(bytes / cell),
        Some(bytes) => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "a chunk of {bytes} bytes is not a whole number of cells of {cell} bytes: choose --chunk-size {}",
                bytes.next_multiple_of(cell)
            ),
        )),
    }
}

/// Progress of storing a file in an Array.
#[derive(Default)]
struct Stored {
    /// Cells that are stored.
    cells: u64,
}

/// Stores a file in an Array, from its first cell on.
fn store(array: &Array, source: &mut files::Source, done: &mut Stored) -> Result<()> {
    let cell = array.attributes().cell_size;
    let mut buffer = vec![0; piece_bytes(cell)];
    let bar = Bar::bytes("storing");
    loop {
        let bytes = source.fill(&mut buffer)?;
        let piece = whole_cells(bytes, cell)?;
        let range = [Extent::new(done.cells, piece)];
        array.write(&range, Source::One(&buffer[..bytes]), Access::Latest).wait()?;
        done.cells += piece;
        bar.update(done.cells * cell, source.len.unwrap_or(done.cells * cell));
        if bytes < buffer.len() {
            break;
        }
    }
    // The writes have given a shorter Array its length. A drain may have moved it since; setting the length would then
    // create another Array, of zeros.
    if array.size(Access::Latest).wait()? > done.cells {
        array.set_size(done.cells, Access::Latest).wait()?;
    }
    Ok(())
}

/// Returns the number of bytes to copy at a time: at most [`PIECE_BYTES`], rounded down to whole cells, but at least
/// one cell.
fn piece_bytes(cell_size: u64) -> usize {
    ((PIECE_BYTES / cell_size).max(1) * cell_size) as usize
}

/// The length of a file in cells. Fails if it is not a whole number of them.
fn whole_cells(bytes: usize, cell_size: u64) -> Result<u64> {
    let bytes = bytes as u64;
    match bytes.is_multiple_of(cell_size) {
        true => Ok(bytes / cell_size),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the length of the file is not a multiple of the Array's cell size, {cell_size} bytes"
            ),
        )),
    }
}

impl Get {
    fn run(self, json: bool) -> Result<Answer> {
        let to_stdout = self.output == Path::new("-");
        if json && to_stdout {
            let message = "standard output is for the JSON document: name a file with --output";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (container, oid, access) = self.array.open_at(&self.snapshot, ObjectType::Array)?;
        let array = existing(&self.array, &container, oid, access)?;
        let bytes = self.copy(&array, access)?;
        let response = json!({
            "oid": oid.to_string(),
            "size_bytes": bytes,
            "output": self.output.display().to_string(),
        });
        Ok(Answer::new(response, ""))
    }

    /// Writes the Array to the file; returns the number of bytes.
    fn copy(&self, array: &Array, access: Access<'_>) -> Result<u64> {
        let cell = array.attributes().cell_size;
        let cells = array.size(access).wait()?;
        let mut sink = files::Sink::create(&self.output)?;
        let mut buffer = vec![0; piece_bytes(cell)];
        let (bar, mut at) = (sink.bar("reading"), 0);
        while at < cells {
            let piece = (buffer.len() as u64 / cell).min(cells - at);
            let piece_buffer = &mut buffer[..(piece * cell) as usize];
            piece_buffer.fill(0);
            array.read(&[Extent::new(at, piece)], Sink::One(piece_buffer), access).wait()?;
            sink.write(piece_buffer)?;
            at += piece;
            bar.update(at * cell, cells * cell);
        }
        sink.finish()?;
        Ok(cells * cell)
    }
}

impl List {
    fn run(self) -> Result<Answer> {
        let container = self.container.open(OpenMode::ReadOnly)?;
        let access = self.snapshot.access(&container)?;
        list(&container, access, |oid| oid.object_type().is_some_and(ObjectType::is_array))
    }
}

impl ObjectArg {
    /// Removes the Array and its name.
    fn remove(&self, container: &Container, array: &Array) -> Result<()> {
        array.destroy(Access::Latest).wait()?;
        container.forget_name(&self.object).wait()
    }
}

impl Remove {
    fn run(self) -> Result<Answer> {
        let (container, oid) = self.array.open(OpenMode::ReadWrite, ObjectType::Array)?;
        let array = existing(&self.array, &container, oid, Access::Latest)?;
        self.array.remove(&container, &array)?;
        Ok(Answer::new(json!({"oid": oid.to_string()}), ""))
    }
}

impl Stat {
    fn run(self) -> Result<Answer> {
        let (container, oid, access) = self.array.open_at(&self.snapshot, ObjectType::Array)?;
        let array = existing(&self.array, &container, oid, access)?;
        let stat = array.stat(access).wait()?;
        let ArrayAttributes { cell_size, chunk_size } = array.attributes();
        let mut response = shapes::object(oid);
        response["cells"] = json!(stat.size);
        response["cell_bytes"] = json!(cell_size);
        response["chunk_cells"] = json!(chunk_size);
        response["size_bytes"] = json!(stat.size.saturating_mul(cell_size));
        response["changed"] = json!(shapes::utc(stat.epoch));
        response["epoch"] = json!(stat.epoch.0);
        let text = describe(&response);
        Ok(Answer::new(response, text))
    }
}

/// The answer of the command as text.
fn describe(response: &Value) -> String {
    let number = |name: &str| response[name].as_u64().unwrap_or_default();
    let text = |name: &str| response[name].as_str().unwrap_or_default().to_owned();
    format!(
        "oid      {}\nclass    {}\nsize     {} ({} cells of {})\nchunk    {} cells\nchanged  {}",
        text("oid"),
        text("class"),
        Bytes(number("size_bytes")),
        number("cells"),
        Bytes(number("cell_bytes")),
        number("chunk_cells"),
        text("changed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_contain_complete_cells() {
        assert_eq!(piece_bytes(1), 4 << 20);
        assert_eq!(piece_bytes(3) % 3, 0);
        assert_eq!(piece_bytes(5 << 20), 5 << 20);
        assert_eq!(whole_cells(12, 4).unwrap(), 3);
        assert_eq!(whole_cells(13, 4).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
