//! Arrays: sequences of cells of equal size, split into chunks that are distributed over the targets.
mod cells;
mod io;
mod punch;
mod resize;
mod seek;
mod stripe_mark;

pub use io::ArrayRead;
pub use stripe_mark::STRIPE_MARKS;

use crate::access::Access;
use crate::container::Container;
use crate::object::Object;
use cells::Layout;
use esker_backend::OpenContainer;
use esker_types::ops::{
    Cond, Edge, Fetch, KeyFound, KeyQuery, LAST_OF_FIRST, ReadAt, Sink, Update, Write, WriteOp,
};
use esker_types::{
    ArrayAttributes, Epoch, Error, ErrorKind, FLAT_AKEY, ObjectId, ObjectType, Result,
};
use stripe_mark::StripeMark;

/// The dkey under which an array stores its attributes. Chunk `n` has dkey `n + 1`.
pub const ATTRIBUTES_DKEY: [u8; 8] = 0u64.to_ne_bytes();
/// Arrays whose sizes are requested in one message.
const SIZES_BATCH: usize = 2048;
/// Finds the last extent.
const LAST_CELL: KeyQuery<'_> = KeyQuery {
    edge: Edge::Max,
    dkey: None,
    after: None,
    akey: Some(FLAT_AKEY),
    want_akey: false,
    want_extent: true,
};
/// The result of [`Array::stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayStat {
    /// One more than the index of the last existing cell.
    pub size: u64,
    /// Epoch of the array's last modification.
    pub epoch: Epoch,
}

/// An array: an object of type `Array` (its attributes are stored with it), `ArrayAttr` (the caller keeps them) or
/// `ArrayByte` (reads fill holes with zeros and stop at the array's size). [`Object`] documents the errors that all
/// operations share.
#[derive(Clone)]
pub struct Array {
    object: Object,
    layout: Layout,
    /// The type is `ArrayByte`.
    bytes: bool,
    /// `None` for an array without a stripe mark.
    mark: Option<StripeMark>,
}

/// Arrays of a container.
impl Container {
    /// Creates an array and stores its attributes with it; `oid` may have any array type.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; [`ErrorKind::Invalid`] if the type is not an array type or a size is 0;
    /// [`ErrorKind::NoPermission`] if the container is open read-only. In a transaction, `Exists` is reported by the
    /// commit.
    pub async fn create_array(
        &self,
        oid: ObjectId,
        attributes: ArrayAttributes,
        access: Access<'_>,
    ) -> Result<Array> {
        let conds = [Cond::DKEY_INSERT, Cond::AKEY_INSERT];
        Array::create(self.object(oid), attributes, conds, access).await
    }

    /// Creates an array as [`Container::create_array`] does, but replaces attributes that exist: for callers that have
    /// checked that there are none.
    ///
    /// # Errors
    /// The errors of [`Container::create_array`], but not `Exists`.
    pub async fn create_array_unchecked(
        &self,
        oid: ObjectId,
        attributes: ArrayAttributes,
        access: Access<'_>,
    ) -> Result<Array> {
        Array::create(self.object(oid), attributes, [Cond::NONE; 2], access).await
    }

    /// Opens an array created by [`Container::create_array`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the type is not [`ObjectType::Array`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::NoPermission`] if the stored attributes are not those of an array.
    pub async fn open_array(&self, oid: ObjectId, access: Access<'_>) -> Result<Array> {
        Array::open(self.object(oid), access).await
    }

    /// An array whose attributes are kept by the caller. Nothing is read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the type is neither [`ObjectType::ArrayAttr`] nor
    /// [`ObjectType::ArrayByte`], or a size is 0.
    pub fn open_array_with_attributes(
        &self,
        oid: ObjectId,
        attributes: ArrayAttributes,
    ) -> Result<Array> {
        Array::with_attributes(self.object(oid), attributes)
    }
}

impl Array {
    /// Creates an array: stores its attributes under the conditions `conds` of their dkey and akey.
    pub(crate) async fn create(
        object: Object,
        attributes: ArrayAttributes,
        conds: [Cond; 2],
        access: Access<'_>,
    ) -> Result<Self> {
        check_type(&object, ObjectType::is_array)?;
        attributes.check()?;
        let array = Self::new(object, attributes);
        array.put_attributes(conds, access).await?;
        Ok(array)
    }

    /// Opens an array: reads its attributes.
    pub(crate) async fn open(object: Object, access: Access<'_>) -> Result<Self> {
        check_type(&object, |otype| otype == ObjectType::Array)?;
        let mut stored = [0; ArrayAttributes::STORED_BYTES];
        let mut fetch = Fetch::single(FLAT_AKEY, Sink::One(&mut stored));
        let fetches = std::slice::from_mut(&mut fetch);
        let fetched = object.fetch(&ATTRIBUTES_DKEY, Cond::NONE, fetches, access).await;
        match (fetch.reply.size as usize, fetched) {
            // `RecordTooBig`: the value is longer than attributes are.
            (_, Err(error)) if error.kind() != ErrorKind::RecordTooBig => return Err(error),
            (0, Ok(())) => return Err(no_array(&object)),
            (ArrayAttributes::STORED_BYTES, Ok(())) => {}
            _ => return Err(no_attributes_error(&object)),
        }
        let attributes =
            ArrayAttributes::in_bytes(&stored).ok_or_else(|| no_attributes_error(&object))?;
        Ok(Self::new(object, attributes))
    }

    /// The array in `object` with `attributes`, which the caller keeps.
    ///
    /// # Errors
    /// `Invalid` if the object is not of a type for arrays, or the attributes are not allowed.
    pub(crate) fn with_attributes(object: Object, attributes: ArrayAttributes) -> Result<Self> {
        let allowed = [ObjectType::ArrayAttr, ObjectType::ArrayByte];
        check_type(&object, |otype| allowed.contains(&otype))?;
        attributes.check()?;
        Ok(Self::new(object, attributes))
    }

    /// The array in `object`. The callers have checked the type of the object and the attributes.
    fn new(object: Object, attributes: ArrayAttributes) -> Self {
        let bytes = object.oid().object_type() == Some(ObjectType::ArrayByte);
        let mark = StripeMark::of_array(object.container(), object.oid());
        Self { object, layout: Layout(attributes), bytes, mark }
    }

    /// The same array, but every write fails with [`ErrorKind::NoPermission`].
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { object: self.object.read_only(), ..self }
    }

    /// The object id of the array.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.object.oid()
    }

    /// The underlying object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The cell and chunk size of the array.
    #[must_use]
    pub fn attributes(&self) -> ArrayAttributes {
        self.layout.0
    }

    /// The size of the array in cells: one more than the index of the last existing cell, 0 if no cell exists.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn size(&self, access: Access<'_>) -> Result<u64> {
        if self.first_chunk_tells() {
            let found = self.object.query_key(LAST_OF_FIRST, access).await?;
            if let Some(size) = self.size_by_first(found.as_ref())? {
                return Ok(size);
            }
        }
        let found = self.object.query_key(LAST_CELL, access).await?;
        self.size_of(found.as_ref())
    }

    /// The sizes of several arrays of a container, in their order: one message to each node that has a part of them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if they are in several containers; errors of the backend.
    pub async fn sizes(arrays: &[Self], access: Access<'_>) -> Result<Vec<u64>> {
        let Some(first) = arrays.first() else { return Ok(Vec::new()) };
        let container = first.object.container();
        if arrays.iter().any(|array| !array.object.container().is_same(container)) {
            let message =
                "the arrays are in several containers: ask for the sizes of each by itself";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let reading = access.reading(container)?;
        let (opened, at) = (container.opened()?, reading.at());
        let mut sizes = vec![0; arrays.len()];
        let of_all = arrays.iter().zip(&mut sizes);
        let (short, mut long): (Vec<_>, Vec<_>) =
            of_all.partition(|(array, _)| array.first_chunk_tells());
        let found = query_each(opened, &short, LAST_OF_FIRST, at).await?;
        for ((array, size), found) in short.into_iter().zip(found) {
            match array.size_by_first(found.as_ref())? {
                Some(found) => *size = found,
                None => long.push((array, size)),
            }
        }
        let found = query_each(opened, &long, LAST_CELL, at).await?;
        for ((array, size), found) in long.into_iter().zip(found) {
            *size = array.size_of(found.as_ref())?;
        }
        Ok(sizes)
    }

    /// The size in cells, from the last extent that a query has found; 0 if it has found none.
    fn size_of(&self, last: Option<&KeyFound>) -> Result<u64> {
        last.map_or(Ok(0), |last| self.layout.size_from(last))
    }

    /// The size of the array, and the time of its last modification.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn stat(&self, access: Access<'_>) -> Result<ArrayStat> {
        let size = self.size(access).await?;
        Ok(ArrayStat { size, epoch: self.object.epoch(access).await? })
    }

    /// Removes the array and its attributes. Opening it fails from then on; this handle keeps working. Outside a
    /// transaction, a pool over nodes removes it node by node.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if writing is not allowed.
    pub async fn destroy(&self, access: Access<'_>) -> Result<()> {
        self.object.check_writable()?;
        let op = WriteOp::PunchObject { cond: Cond::NONE };
        let punch = [Write { oid: self.object.oid(), op }];
        self.object.container().write_by_node(&punch, access).await?;
        self.forget_mark();
        Ok(())
    }

    /// The write of `updates` under a dkey of the array.
    fn write_op<'a>(&self, dkey: &'a [u8], updates: &'a [Update<'a>]) -> Write<'a> {
        Write { oid: self.object.oid(), op: WriteOp::Update { dkey, cond: Cond::NONE, updates } }
    }
}

/// Results of one query on each array. Each request covers at most `SIZES_BATCH` arrays.
async fn query_each<T>(
    opened: &dyn OpenContainer,
    arrays: &[(&Array, T)],
    query: KeyQuery<'_>,
    at: ReadAt<'_>,
) -> Result<Vec<Option<KeyFound>>> {
    let oids: Vec<ObjectId> = arrays.iter().map(|(array, _)| array.oid()).collect();
    let mut found = Vec::with_capacity(oids.len());
    for oids in oids.chunks(SIZES_BATCH) {
        found.extend(opened.query_keys(oids, query, at).await?);
    }
    Ok(found)
}

/// Fails with `Invalid` if the type in the object ID is not `allowed`.
fn check_type(object: &Object, allowed: impl Fn(ObjectType) -> bool) -> Result<()> {
    match object.oid().object_type() {
        Some(otype) if allowed(otype) => Ok(()),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!("object {} has the wrong type for this kind of array", object.oid()),
        )),
    }
}

#[cold]
fn no_array(object: &Object) -> Error {
    Error::new(ErrorKind::NotFound, format!("array {} does not exist", object.oid()))
}

#[cold]
fn no_attributes_error(object: &Object) -> Error {
    Error::new(
        ErrorKind::NoPermission,
        format!("object {} does not hold the attributes of an array", object.oid()),
    )
}
