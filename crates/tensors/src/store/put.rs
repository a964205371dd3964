//! PUTs: tensors that are being written, and their commit.
use super::names::{aborted_put_error, all_keys, check_name, check_pending};
use super::pieces::Selection;
use super::records::now_ms;
use super::{TensorStore, layout, write};
use crate::audit;
use crate::dtype::DataType;
use crate::grid::Grid;
use crate::limits::{DEPTH_MAX, PARTS_MAX};
use crate::messages::{Attribute, Part, TensorRecord};
use crate::slab::{self, Slab};
use crate::strided::Strided;
use esker::{Access, Wait, side_by_side, task};
use esker_types::ops::Cond;
use esker_types::{Error, ErrorKind, Result, Uuid};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt;

/// Parts that are read concurrently.
const AT_A_TIME: usize = 64;

/// Description of a new tensor: type, shape, chunks and attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTensor {
    /// The type of its elements.
    pub data_type: DataType,
    /// Its shape; without dimensions it has one element.
    pub shape: Vec<u64>,
    /// The shape of its chunks; `None` for complete rows of up to 4 MiB.
    pub chunks: Option<Vec<u64>>,
    /// Its attributes, by name.
    pub attributes: BTreeMap<String, Attribute>,
}

impl NewTensor {
    /// A tensor with default chunks and no attributes.
    #[must_use]
    pub fn new(data_type: DataType, shape: &[u64]) -> Self {
        let (shape, attributes) = (shape.to_vec(), BTreeMap::new());
        Self { data_type, shape, chunks: None, attributes }
    }

    /// Checks type, shape, chunks, attributes and the future name. Returns its shape and chunks.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]; the message names the invalid value.
    pub fn check(&self, name: Option<&str>) -> Result<Grid> {
        name.map_or(Ok(()), check_name)?;
        self.data_type.check()?;
        let mut attributes = self.attributes.iter();
        if let Some((name, _)) = attributes.find(|(_, value)| value.is_deeper_than(DEPTH_MAX)) {
            let text = format!(
                "the attribute {name:?} has lists in more than {DEPTH_MAX} levels (DEPTH_MAX): store it as a tensor \
                 of its own"
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Grid::new(&self.shape, self.chunks.as_deref(), self.data_type.size()?)
    }
}

/// A tensor that is being written. No reader sees it before [`Put::commit`].
///
/// Any process may write parts of it: with this handle, with an inherited one after a fork, or with one that
/// [`TensorStore::resume`] makes from the token. All writers must finish before the commit.
#[derive(Clone)]
pub struct Put {
    store: TensorStore,
    uuid: Uuid,
    record: TensorRecord,
    grid: Grid,
}

impl TensorStore {
    /// Begins a tensor.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if type, shape, chunks or attributes are invalid, [`ErrorKind::RecordTooBig`] for too
    /// many attributes; errors of the backend.
    pub fn begin(&self, new: &NewTensor) -> Result<Put> {
        self.check_writable()?;
        let grid = new.check(None)?;
        let record = TensorRecord {
            data_type: Some(new.data_type.clone()),
            shape: new.shape.clone(),
            chunks: grid.chunks().to_vec(),
            attributes: new.attributes.clone(),
            begun_ms: now_ms(),
            object_class: layout::new_class(&self.container),
            ..TensorRecord::default()
        };
        let uuid = esker_os::random_uuid()?;
        self.put_record(uuid, &record, Access::Latest)?;
        Ok(Put { store: self.clone(), uuid, record, grid })
    }

    /// The PUT with a token that [`Put::token`] returned, in this or another process.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid token, [`ErrorKind::NotFound`] if the PUT was aborted or collected,
    /// [`ErrorKind::Already`] if it was committed.
    pub fn resume(&self, token: &str) -> Result<Put> {
        let uuid = Uuid::parse(token).ok_or_else(|| {
            let text = format!("{token:?} is not a token of a PUT: pass the result of Put::token");
            Error::new(ErrorKind::Invalid, text)
        })?;
        let record = self.record(uuid, Access::Latest)?.ok_or_else(|| aborted_put_error(uuid))?;
        check_pending(uuid, &record)?;
        let grid = record.grid()?;
        Ok(Put { store: self.clone(), uuid, record, grid })
    }

    /// Stores a complete tensor, and makes it visible under `name`, or by its UUID only. It replaces a tensor with that
    /// name: readers see the old one or the new one.
    ///
    /// # Errors
    /// The errors of [`TensorStore::begin`]; [`ErrorKind::Invalid`] if `data` has another shape or `name` is not
    /// allowed.
    pub fn put(&self, new: &NewTensor, data: &Strided<'_>, name: Option<&str>) -> Result<Uuid> {
        new.check(name)?;
        let put = self.begin(new)?;
        let stored = put.write_whole(data).and_then(|()| put.publish(name, false));
        if stored.is_err() {
            // If this fails too, a later collection frees the PUT.
            let _ = put.abort();
        }
        stored
    }
}

impl Put {
    /// The UUID of the tensor.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The token that other processes pass to [`TensorStore::resume`].
    #[must_use]
    pub fn token(&self) -> String {
        self.uuid.to_string()
    }

    /// The shape and chunks of the tensor.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The type of its elements.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if its record is damaged.
    pub fn data_type(&self) -> Result<&DataType> {
        self.record.data_type()
    }

    /// The store of the tensor.
    #[must_use]
    pub fn store(&self) -> &TensorStore {
        &self.store
    }

    /// Writes a part: `data`, with the first index `offset`. Parts need not match chunks, but complete chunks are
    /// written faster. When it returns, the part is stored.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the part does not fit, [`ErrorKind::Already`] if the tensor was committed,
    /// [`ErrorKind::NotFound`] if the PUT was aborted or collected; errors of the backend.
    pub fn write(&self, offset: &[u64], data: &Strided<'_>) -> Result<()> {
        let record = self.store.record(self.uuid, Access::Latest)?;
        check_pending(self.uuid, &record.ok_or_else(|| aborted_put_error(self.uuid))?)?;
        self.write_data(offset, data)?;
        let part = Part { offset: offset.to_vec(), shape: data.shape.clone() }.encode_to_vec();
        let parts = self.store.parts(self.uuid, &self.record)?;
        // Each part has its own key, also in a child made by fork.
        let key = esker_os::random_uuid()?.to_string();
        parts.put(key.as_bytes(), &part, Cond::NONE, Access::Latest).wait()
    }

    /// Writes all elements of the tensor. The data must have its shape.
    fn write_whole(&self, data: &Strided<'_>) -> Result<()> {
        if data.shape != self.grid.shape() {
            let shape = self.grid.shape();
            let text = format!("data of the shape {:?} for a tensor of {shape:?}", data.shape);
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.write_data(&vec![0; data.shape.len()], data)
    }

    /// Writes elements without recording the part, for callers that write all parts themselves.
    pub(crate) fn write_data(&self, offset: &[u64], data: &Strided<'_>) -> Result<()> {
        if data.item != self.grid.item() {
            let (given, wanted) = (data.item, self.grid.item());
            let text = format!(
                "elements of {given} bytes for a tensor whose elements have {wanted}: convert them first"
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let starts = offset.iter().zip(&data.shape);
        let slabs: Vec<Slab> = starts.map(|(start, count)| Slab::new(*start, *count)).collect();
        let dimensions = self.grid.shape().len();
        if offset.len() != dimensions || data.shape.len() != dimensions {
            let text = format!(
                "a part at {offset:?} of the shape {:?} does not fit in the shape {:?}",
                data.shape,
                self.grid.shape()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        slab::check(&slabs, self.grid.shape())?;
        let selection = Selection::strided(&self.grid, &slabs, data.strides.clone(), data.first);
        let (container, class) = (&self.store.container, self.record.object_class);
        let array = layout::data(container, self.uuid, class, &self.grid)?;
        write::write(&array, &selection, data.bytes)
    }

    /// The parts written so far: the first index and the shape of each, in arbitrary order.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if there are more than [`PARTS_MAX`]; errors of the backend.
    fn parts(&self) -> Result<Vec<Part>> {
        let parts = self.store.parts(self.uuid, &self.record)?;
        let keys = all_keys(&parts, Access::Latest)?;
        if keys.len() > PARTS_MAX {
            let text = format!("{} parts are more than {PARTS_MAX} (PARTS_MAX)", keys.len());
            return Err(Error::new(ErrorKind::Overflow, text));
        }
        let get = |key: &'_ String| {
            let (parts, key) = (parts.clone(), key.clone());
            task(async move { parts.get(key.as_bytes(), Access::Latest).await })
        };
        let found = side_by_side(keys.iter().map(get).collect(), AT_A_TIME).wait();
        let part = |found: Result<Option<Vec<u8>>>| match found? {
            Some(bytes) => Part::parse(&bytes).map(Some),
            None => Ok(None),
        };
        found.into_iter().filter_map(|found| part(found).transpose()).collect()
    }

    /// Atomically makes the tensor visible under `name`, or by its UUID only. It replaces a tensor with that name; of
    /// two commits to one name, the last counts. Returns the UUID.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if parts overlap, are missing or do not fit, each of which is named, or if `name` is not
    /// allowed; [`ErrorKind::Already`] if it was committed; [`ErrorKind::NotFound`] if it was aborted or collected.
    /// The PUT remains, so that missing parts can be written.
    pub fn commit(&self, name: Option<&str>) -> Result<Uuid> {
        name.map_or(Ok(()), check_name)?;
        let record = self.store.record(self.uuid, Access::Latest)?;
        check_pending(self.uuid, &record.ok_or_else(|| aborted_put_error(self.uuid))?)?;
        match audit::faults(self.grid.shape(), &self.parts()?) {
            None => self.publish(name, false),
            Some(faults) => {
                let text = format!("tensor {} cannot be committed: {faults}", self.uuid);
                Err(Error::new(ErrorKind::Invalid, text))
            }
        }
    }

    /// Makes the tensor visible without checking its parts. `sparse` says that chunks whose elements are zero may be
    /// missing.
    pub(crate) fn publish(&self, name: Option<&str>, sparse: bool) -> Result<Uuid> {
        let store = &self.store;
        let publish = |access: Access<'_>| store.publish(self.uuid, (name, sparse), access);
        let replaced = store.atomically(publish)?;
        // The tensor is visible from here on. If freeing the parts fails, a collection frees them.
        let parts = store.parts(self.uuid, &self.record)?;
        let _ = parts.destroy(Access::Latest).wait();
        if let Some(replaced) = replaced {
            let _ = store.retire(replaced);
        }
        Ok(self.uuid)
    }

    /// Aborts the PUT, and frees the written elements. All writers must be finished.
    ///
    /// # Errors
    /// [`ErrorKind::Already`] if it was committed; errors of the backend.
    pub fn abort(&self) -> Result<()> {
        match self.store.record(self.uuid, Access::Latest)? {
            Some(record) => {
                check_pending(self.uuid, &record)?;
                match self.store.free(self.uuid, &record)? {
                    true => Ok(()),
                    // Its state has just changed, so it is examined again.
                    false => self.abort(),
                }
            }
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put")
            .field("uuid", &self.uuid)
            .field("grid", &self.grid)
            .finish_non_exhaustive()
    }
}
