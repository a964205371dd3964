//! Datasets of HDF5 files, to store as tensors.
use super::source_values::Remark;
use super::{source_bits, source_find, source_types, source_values, unsupported};
use crate::bands::bands;
use crate::dtype::DataType;
use crate::grid::Grid;
use crate::limits::CHUNK_BYTES_MAX;
use crate::store::{NewTensor, Put, TensorStore};
use crate::strided::{Strided, row_major};
use esker_types::{Error, ErrorKind, Result, Uuid};
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::dataspace::DataspaceType;
use hdf5_reader::messages::layout::DataLayout;
use hdf5_reader::{Dataset, Hdf5File, OpenOptions};
use std::collections::HashSet;
use std::path::Path;

/// If chunks of the file are smaller, the tensor gets other chunks, unless the dataset has few.
const SMALL_CHUNK_BYTES: u64 = 64 << 10;
const FEW_CHUNKS: u64 = 1024;

/// A dataset of a file, contiguous, compact or chunked, also with the filters deflate, shuffle, fletcher32, nbit,
/// scaleoffset and szip.
pub struct Source {
    file: Hdf5File,
    dataset: Dataset,
    layout: DataLayout,
    /// Fill value of the dataset; `None` if its creator gave none.
    fill_value: Option<Vec<u8>>,
    new: NewTensor,
    remarks: Vec<Remark>,
}

impl Source {
    /// Opens a dataset by its path in the file; without one, the only dataset of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the file is damaged or not HDF5, [`ErrorKind::NotFound`] if it does not have the
    /// dataset, [`ErrorKind::NotSupported`] if the dataset has no elements, or elements without a fixed size, of a type
    /// that numpy lacks, or in other files; [`ErrorKind::Io`].
    pub fn open(path: &Path, dataset: Option<&str>) -> Result<Self> {
        let name = path.display().to_string();
        let options = OpenOptions::default().with_chunk_cache_bytes(0);
        let file = Hdf5File::open_with_options(path, options);
        Self::from_file(file.map_err(|error| hdf5_error(&name, error))?, &name, dataset)
    }

    /// Prepares the import of a dataset of `file`: the one with the path `dataset`, or the only one. `name` is the name
    /// of the file in errors.
    fn from_file(file: Hdf5File, name: &str, dataset: Option<&str>) -> Result<Self> {
        let dataset = match dataset {
            Some(dataset) => file.dataset(dataset).map_err(|error| hdf5_error(name, error))?,
            None => source_find::only(&file, name)?,
        };
        let (layout, fill_value) = layout(&file, &dataset)?;
        let data_type = data_type(&dataset)?;
        let (attributes, remarks) = source_values::attributes(&dataset);
        let shape = dataset.shape().to_vec();
        let chunks = chunks(&dataset, data_type.size()?);
        let new = NewTensor { data_type, shape, chunks, attributes };
        Ok(Self { file, dataset, layout, fill_value, new, remarks })
    }

    /// Type, shape, chunks and attributes of the dataset. Chunks are those of the file, unless they are very small or
    /// too large for the store.
    #[must_use]
    pub fn describe(&self) -> &NewTensor {
        &self.new
    }

    /// Remarks about attributes that are changed or left out. Complex numbers become lists of two, compounds become
    /// texts in JSON. Long doubles, and integers above 2^63 - 1, become the nearest floating-point number of 8 bytes.
    /// References, lists of variable length, arrays of many dimensions and internal attributes of netCDF are left out.
    #[must_use]
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Names of the attributes that are left out.
    #[must_use]
    pub fn left_out(&self) -> Vec<&str> {
        let left_out = self.remarks.iter().filter(|remark| !remark.is_kept);
        left_out.map(|remark| remark.attribute.as_str()).collect()
    }

    /// Stores the elements as `new`, which has the type and the shape of [`Source::describe`], under `name` or by UUID
    /// only. Calls `progress` with the numbers of stored bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the file is damaged; the errors of [`TensorStore::put`].
    pub fn store(
        &self,
        store: &TensorStore,
        new: &NewTensor,
        name: Option<&str>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Uuid> {
        new.check(name)?;
        let put = store.begin(new)?;
        let stored = self.copy(&put, progress).and_then(|is_whole| put.publish(name, !is_whole));
        stored.inspect_err(|_| {
            // If this fails too, a later collection frees the PUT.
            let _ = put.abort();
        })
    }

    /// Copies the elements into the tensor, by the way in which the file stores them. True if all were written; others
    /// are zero.
    fn copy(&self, put: &Put, progress: &mut dyn FnMut(u64)) -> Result<bool> {
        if put.grid().bytes() == 0 {
            return Ok(true);
        }
        match &self.layout {
            // The file has no space for the elements, which all have the fill value.
            DataLayout::Contiguous { address: u64::MAX, .. } => return self.fill(put),
            DataLayout::Contiguous { address, .. } => {
                self.copy_contiguous(put, *address, progress)?;
            }
            DataLayout::Compact { .. } => {
                let bytes =
                    self.dataset.read_raw_bytes().map_err(|error| self.hdf5_error(error))?;
                self.write(put, &vec![0; self.new.shape.len()], &self.new.shape, &bytes)?;
            }
            DataLayout::Chunked { .. } => return self.copy_chunks(put, progress),
        }
        Ok(true)
    }

    /// Copies a dataset whose elements are in one run, from byte `address` of the file.
    fn copy_contiguous(
        &self,
        put: &Put,
        address: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if address.checked_add(put.grid().bytes()).is_none() {
            let name = self.dataset.name();
            return Err(invalid(format!("{name} starts at byte {address}: the file is damaged")));
        }
        bands(put.grid(), |at, offset, part| {
            let bytes = part.iter().product::<u64>() * put.grid().item();
            let range = self.file.storage().read_range(address + at, bytes as usize);
            let range = range.map_err(|error| self.hdf5_error(error))?;
            self.write(put, offset, part, range.as_ref())?;
            progress(at + bytes);
            Ok(())
        })
    }

    /// Copies a dataset that is stored in chunks. Chunks that the file lacks keep the fill value. True if all elements
    /// were written.
    fn copy_chunks(&self, put: &Put, progress: &mut dyn FnMut(u64)) -> Result<bool> {
        let (shape, item) = (&self.new.shape, put.grid().item());
        let dims = self.dataset.chunks().unwrap_or_default();
        let dims: Vec<u64> = dims.into_iter().map(u64::from).collect();
        let (strides, mut done, mut seen) = (row_major(&dims, item), 0, HashSet::new());
        for chunk in self.dataset.iter_chunks().map_err(|error| self.hdf5_error(error))? {
            let chunk = chunk.map_err(|error| self.hdf5_error(error))?;
            let offset = chunk.offsets();
            let left = shape.iter().zip(offset).map(|(length, at)| length.saturating_sub(*at));
            let part: Vec<u64> = left.zip(&dims).map(|(left, chunk)| left.min(*chunk)).collect();
            // The file may list chunks outside the shape; a damaged one lists some twice.
            if part.contains(&0) || !seen.insert(offset.to_vec()) {
                continue;
            }
            put.write_data(offset, &Strided::new(chunk.bytes(), 0, &part, &strides, item)?)?;
            done += part.iter().product::<u64>() * item;
            progress(done);
        }
        if done < put.grid().bytes() { self.fill_chunks(put, &dims, &seen) } else { Ok(true) }
    }

    /// The fill value, unless it is zero. Elements that were never written read as zero anyway.
    fn fill_value(&self) -> Option<&[u8]> {
        let value = self.fill_value.as_deref()?;
        let size = self.new.data_type.size().ok()?;
        (value.len() as u64 == size && value.iter().any(|byte| *byte != 0)).then_some(value)
    }

    /// Writes the fill value to the chunks that the file does not have. `dims` is the shape of a chunk in the file;
    /// `seen` has the first indexes of its stored chunks. False if that value is zero: then nothing is written.
    fn fill_chunks(&self, put: &Put, dims: &[u64], seen: &HashSet<Vec<u64>>) -> Result<bool> {
        let Some(value) = self.fill_value() else { return Ok(false) };
        let grid = Grid::with_any_chunks(&self.new.shape, dims, put.grid().item())?;
        for slabs in (0..grid.chunk_count()).map(|chunk| grid.chunk_slabs(chunk)) {
            let start: Vec<u64> = slabs.iter().map(|slab| slab.start).collect();
            if !seen.contains(&start) {
                let shape: Vec<u64> = slabs.iter().map(|slab| slab.count).collect();
                self.fill_box(put, value, &start, &shape)?;
            }
        }
        Ok(true)
    }

    /// Writes the dataset's fill value to all elements of the tensor, for a dataset without stored data. False if that
    /// value is zero: then nothing is written.
    fn fill(&self, put: &Put) -> Result<bool> {
        let Some(value) = self.fill_value() else { return Ok(false) };
        self.fill_box(put, value, &vec![0; self.new.shape.len()], &self.new.shape)?;
        Ok(true)
    }

    /// Writes the fill value to a box of elements, some at a time.
    fn fill_box(&self, put: &Put, value: &[u8], start: &[u64], shape: &[u64]) -> Result<()> {
        bands(&Grid::new(shape, None, put.grid().item())?, |_, offset, part| {
            let offset: Vec<u64> = start.iter().zip(offset).map(|(start, at)| start + at).collect();
            let bytes = value.repeat(part.iter().product::<u64>() as usize);
            self.write(put, &offset, part, &bytes)
        })
    }

    /// Writes `bytes` as the elements of the box at `offset` with the shape `part`.
    fn write(&self, put: &Put, offset: &[u64], part: &[u64], bytes: &[u8]) -> Result<()> {
        put.write_data(offset, &Strided::contiguous(bytes, part, put.grid().item())?)
    }

    #[cold]
    fn hdf5_error(&self, error: hdf5_reader::error::Error) -> Error {
        hdf5_error(self.dataset.name(), error)
    }
}

/// The layout of the elements in the file, and the fill value. HDF5 does not use the attribute `_FillValue`, which the
/// reader would return for datasets without a fill value.
fn layout(file: &Hdf5File, dataset: &Dataset) -> Result<(DataLayout, Option<Vec<u8>>)> {
    let name = dataset.name();
    let header =
        file.get_or_parse_header(dataset.address()).map_err(|error| hdf5_error(name, error))?;
    let (mut layout, mut fill_value) = (None, None);
    for message in &header.messages {
        match message {
            HdfMessage::DataLayout(found) => layout = Some(found.layout.clone()),
            HdfMessage::FillValue(found) => fill_value = found.value.clone().or(fill_value),
            HdfMessage::Dataspace(space) if space.dataspace_type == DataspaceType::Null => {
                return Err(unsupported(format!("{name} has no elements, not even a shape")));
            }
            HdfMessage::ExternalFiles(_) => {
                return Err(unsupported(format!(
                    "the elements of {name} are in other files: h5repack brings them into one"
                )));
            }
            _ => {}
        }
    }
    let layout =
        layout.ok_or_else(|| invalid(format!("{name} has no layout: the file is damaged")));
    Ok((layout?, fill_value))
}

/// Type of the elements. An error if numpy has no such type.
fn data_type(dataset: &Dataset) -> Result<DataType> {
    let name = dataset.name();
    let data_type = source_types::decode(dataset.dtype())
        .map_err(|error| Error::new(error.kind(), format!("{name}: {}", error.message())))?;
    let described = dataset.raw_datatype().map_err(|error| hdf5_error(name, error))?;
    if source_bits::are_usual(&described) {
        return Ok(data_type);
    }
    Err(unsupported(format!(
        "{name}: its numbers have a bit layout that numpy does not know, like bfloat16: convert the dataset \
         first"
    )))
}

/// The shape of the chunks of a dataset with elements of `item` bytes; `None` if it does not suit the store.
fn chunks(dataset: &Dataset, item: u64) -> Option<Vec<u64>> {
    let chunks: Vec<u64> = dataset.chunks()?.iter().map(|length| u64::from(*length)).collect();
    let bytes = chunks.iter().try_fold(item, |bytes, length| bytes.checked_mul(*length))?;
    let counts =
        dataset.shape().iter().zip(&chunks).map(|(length, chunk)| length.div_ceil((*chunk).max(1)));
    let is_few = counts.fold(1, u64::saturating_mul) <= FEW_CHUNKS;
    let suits = (bytes >= SMALL_CHUNK_BYTES || is_few) && bytes <= CHUNK_BYTES_MAX;
    (suits && chunks.len() == dataset.shape().len()).then_some(chunks)
}

#[cold]
pub(super) fn invalid(text: String) -> Error {
    Error::new(ErrorKind::Invalid, text)
}

/// Converts an error of the HDF5 reader. `what` names the file or the dataset in the message.
#[cold]
pub(super) fn hdf5_error(what: &str, error: hdf5_reader::error::Error) -> Error {
    use hdf5_reader::error::Error as Of;
    let mut inner = &error;
    while let Of::Context { source, .. } = inner {
        inner = source;
    }
    match inner {
        Of::Io(error) => Error::io(format!("reading {what}"), error),
        Of::DatasetNotFound(name) | Of::GroupNotFound(name) => {
            let text = format!("{what} has no {name}: look at its datasets with h5ls -r");
            Error::new(ErrorKind::NotFound, text)
        }
        Of::UnsupportedLayoutClass(_)
        | Of::UnsupportedFilter(_)
        | Of::UnsupportedDatatypeClass(_) => {
            unsupported(format!("{what}: {error}: rewrite it with h5repack -l CONTI -f NONE"))
        }
        Of::InvalidMagic => invalid(format!(
            "{what} is not an HDF5 file: nccopy -k nc4 makes one of a netCDF 3 file"
        )),
        _ => invalid(format!("{what} cannot be read, so the file is damaged or too new: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::draft::Draft;
    use crate::messages::{Attribute, Value};
    use crate::slab::Slab;
    use esker_conformance::faulty::{Fault, Faulty};
    use esker_types::info::OpenMode;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn new_store() -> TensorStore {
        let pool: Arc<dyn esker::backend::Pool> = Arc::new(Faulty::new(Fault::None));
        let pool = esker::Pool::from_backend(pool, OpenMode::ReadWrite);
        TensorStore::create(&pool, "tensors").unwrap()
    }

    /// A file with a dataset at `path` that has no stored elements.
    fn file_without_data(path: Vec<String>, attributes: &BTreeMap<String, Attribute>) -> Hdf5File {
        let data_type = DataType::parse("<i2").unwrap();
        let draft = Draft::new(path, &data_type, &[3], attributes).unwrap();
        let layout = [&[3, 1][..], &u64::MAX.to_le_bytes(), &6u64.to_le_bytes()].concat();
        Hdf5File::from_vec(draft.finish(0, |_| layout.clone()).unwrap()).unwrap()
    }

    #[test]
    fn attribute_with_a_fill_value_fills_nothing() {
        let attributes = BTreeMap::from([("_FillValue".into(), Value::Integer(-1).into())]);
        let file = file_without_data(vec!["data".into()], &attributes);
        let source = Source::from_file(file, "file", None).unwrap();
        assert!(source.describe().attributes.contains_key("_FillValue"));
        let store = new_store();
        source.store(&store, source.describe(), Some("t"), &mut |_| {}).unwrap();
        let tensor = store.open_tensor("t").unwrap();
        assert_eq!(tensor.read_to_vec(&Slab::whole(&[3])).unwrap(), [0; 6]);
    }

    #[test]
    fn only_dataset_is_found_below_many_groups() {
        let path = vec!["group".to_owned(); 90];
        let file = file_without_data(path.clone(), &BTreeMap::new());
        let source = Source::from_file(file, "file", None).unwrap();
        assert_eq!(source.describe().shape, [3]);
    }

    #[test]
    fn fuzz_sources() {
        let store = new_store();
        esker_testing::fuzz("hdf5", &[], |bytes| {
            let file = Hdf5File::from_vec(bytes.to_vec());
            let Ok(source) = file.map(|file| Source::from_file(file, "file", None)) else { return };
            let Ok(source) = source else { return };
            let is_small = |grid: Grid| grid.bytes() < 1 << 16 && grid.chunk_count() < 1 << 10;
            if source.describe().check(None).is_ok_and(is_small) {
                let stored = source.store(&store, source.describe(), None, &mut |_| {});
                stored.map_or_else(drop, |uuid| drop(store.remove(&uuid.to_string())));
            }
        });
    }
}
