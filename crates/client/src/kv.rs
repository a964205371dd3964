//! Key-Values: one value of arbitrary bytes per key.
use crate::access::Access;
use crate::container::Container;
use crate::object::Object;
use crate::view::View;
use esker_types::limits::INLINE_MAX;
use esker_types::memory::resize;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value, Wanted, WriteOp,
};
use esker_types::{Error, ErrorKind, FLAT_AKEY, KeyBatch, ObjectId, Result};

/// A Key-Value: an object of type `KvHashed`, `KvInteger` or `KvLexical`. [`Object`] documents keys and the errors
/// that all operations share. Values have up to [`esker_types::limits::SINGLE_VALUE_MAX`] bytes and may be empty.
#[derive(Clone)]
pub struct Kv(Object);

/// Key-Values of a container.
impl Container {
    /// A Key-Value. Nothing is read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the type of `oid` is not a Key-Value type.
    pub fn kv(&self, oid: ObjectId) -> Result<Kv> {
        Kv::new(self.object(oid))
    }
}

impl Kv {
    /// The key must not exist (DAOS: `DAOS_COND_KEY_INSERT`).
    pub const INSERT: Cond = Cond::DKEY_INSERT;
    /// The key must exist (DAOS: `DAOS_COND_KEY_UPDATE`).
    pub const UPDATE: Cond = Cond::DKEY_UPDATE;
    /// A key to be read must exist (DAOS: `DAOS_COND_KEY_GET`).
    pub const GET: Cond = Cond::DKEY_FETCH;
    /// A key to be removed must exist (DAOS: `DAOS_COND_KEY_REMOVE`).
    pub const REMOVE: Cond = Cond::PUNCH;

    /// Fails with `Invalid` if the object is not of a type for Key-Values.
    pub(crate) fn new(object: Object) -> Result<Self> {
        match object.oid().object_type() {
            Some(otype) if otype.is_kv() => Ok(Self(object)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "object {} does not have a Key-Value type: generate its ID with one, such as KvHashed",
                    object.oid()
                ),
            )),
        }
    }

    /// The same Key-Value, but every write fails with [`ErrorKind::NoPermission`].
    #[must_use]
    pub fn read_only(self) -> Self {
        Self(self.0.read_only())
    }

    /// The object id of the Key-Value.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.0.oid()
    }

    /// The underlying object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.0
    }

    /// Reads the value of `key` into `sink` and returns its length in bytes. If the key does not exist, returns 0 and
    /// leaves the sink unchanged. [`Sink::None`] asks for the length only. This is the fastest variant, but it does
    /// not distinguish an empty value from a missing key.
    ///
    /// # Errors
    /// [`ErrorKind::RecordTooBig`] if the sink is too short; [`Error::needed`] is the length of the value.
    pub async fn read(&self, key: &[u8], sink: Sink<'_>, access: Access<'_>) -> Result<u64> {
        self.fetch(key, sink, Cond::NONE, access).await
    }

    /// Reads the value of `key` into `buffer` and returns its length in bytes; `None` if the key does not exist, and
    /// the buffer is left unchanged.
    ///
    /// # Errors
    /// The errors of [`Kv::read`].
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut [u8],
        access: Access<'_>,
    ) -> Result<Option<u64>> {
        loop {
            match self.fetch(key, Sink::One(buffer), Self::GET, access).await {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Err(_) if self.is_missing(key, access).await? => return Ok(None),
                // The key exists by now: read it again.
                Err(_) => {}
            }
        }
    }

    /// True if the key does not exist now. The lookup may have failed for another reason (a missing snapshot, which
    /// is an error), and a key that was missing before may exist now.
    async fn is_missing(&self, key: &[u8], access: Access<'_>) -> Result<bool> {
        match self.fetch(key, Sink::None, Cond::NONE, access).await? {
            // The value is missing or empty.
            0 => self.size(key, access).await.map(|size| size.is_none()),
            _ => Ok(false),
        }
    }

    /// The value of `key`, `None` if the key does not exist.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn get(&self, key: &[u8], access: Access<'_>) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; INLINE_MAX];
        loop {
            match self.get_into(key, &mut value, access).await {
                Ok(found) => return Ok(found.map(|len| shortened(value, len))),
                Err(error) => {
                    let len = longer(&value, error)?;
                    resize(&mut value, len)?;
                }
            }
        }
    }

    /// A view of the value of `key`, without a copy if possible; otherwise a copy if `may_copy`. `None` if the key does
    /// not exist.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if a copy is needed and `may_copy` is false, [`ErrorKind::Overflow`] if this
    /// process has [`esker_types::limits::VIEWS_MAX`] views; errors of the backend.
    pub async fn view(
        &self,
        key: &[u8],
        may_copy: bool,
        access: Access<'_>,
    ) -> Result<Option<View>> {
        let akey = AkeyRef { dkey: key, akey: FLAT_AKEY };
        if let Some(view) = self.0.view(akey, Wanted::Single, access).await? {
            return Ok(Some(view));
        }
        if !may_copy && self.size(key, access).await?.is_some() {
            return Err(View::refused());
        }
        Ok(self.get(key, access).await?.map(View::from_vec))
    }

    /// Length in bytes of the value of `key`, `None` if the key does not exist.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn size(&self, key: &[u8], access: Access<'_>) -> Result<Option<u64>> {
        match self.read(key, Sink::None, access).await? {
            0 => self.empty_or_missing(key, access).await,
            len => Ok(Some(len)),
        }
    }

    /// Length of a value that a plain read has found to be 0: 0 if it is empty, `None` if the key does not exist.
    async fn empty_or_missing(&self, key: &[u8], access: Access<'_>) -> Result<Option<u64>> {
        match self.fetch(key, Sink::None, Self::GET, access).await {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// [`Kv::read`] with a condition: [`Kv::GET`] or none.
    ///
    /// # Errors
    /// The errors of [`Kv::read`]; [`ErrorKind::NotFound`] if the condition fails.
    pub async fn fetch(
        &self,
        key: &[u8],
        sink: Sink<'_>,
        cond: Cond,
        access: Access<'_>,
    ) -> Result<u64> {
        let mut fetch = Fetch::single(FLAT_AKEY, sink);
        if cond.has(Self::GET) {
            fetch.request.cond = Cond::AKEY_FETCH;
        }
        self.0.fetch(key, Cond::NONE, std::slice::from_mut(&mut fetch), access).await?;
        Ok(fetch.reply.size)
    }

    /// Sets the value of `key`. `cond` is [`Kv::INSERT`], [`Kv::UPDATE`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] or [`ErrorKind::NotFound`] if the condition fails (in a transaction, at its commit),
    /// [`ErrorKind::NoPermission`] if writing is not allowed, [`ErrorKind::NoSpace`].
    pub async fn put(
        &self,
        key: &[u8],
        value: &[u8],
        cond: Cond,
        access: Access<'_>,
    ) -> Result<()> {
        let value = Value::Single(Source::One(value));
        let updates = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
        self.0.write(WriteOp::Update { dkey: key, cond, updates: &updates }, access).await
    }

    /// Removes `key`. Removing a missing key is not an error unless `cond` is [`Kv::REMOVE`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the condition fails, [`ErrorKind::NoPermission`] if writing is
    /// not allowed.
    pub async fn remove(&self, key: &[u8], cond: Cond, access: Access<'_>) -> Result<()> {
        self.0.punch_dkey(key, cond, access).await
    }

    /// The next keys after `anchor`, which is advanced: target by target, sorted within each.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn list(
        &self,
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.0.list_dkeys(anchor, limit, access).await
    }

    /// Removes all keys. The Key-Value remains usable.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if writing is not allowed.
    pub async fn destroy(&self, access: Access<'_>) -> Result<()> {
        self.0.punch(Cond::NONE, access).await
    }
}

/// Shortens the buffer of a read to `len`, the length of the value that was read.
fn shortened(mut value: Vec<u8>, len: u64) -> Vec<u8> {
    value.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    value.shrink_to_fit();
    value
}

/// If `error` says that the buffer `value` was too short, the length that the stored value needs; otherwise the error.
fn longer(value: &[u8], error: Error) -> Result<usize> {
    let needed = error.needed().and_then(|needed| usize::try_from(needed).ok());
    match needed {
        Some(needed) if error.kind() == ErrorKind::RecordTooBig && needed > value.len() => {
            Ok(needed)
        }
        _ => Err(error),
    }
}
