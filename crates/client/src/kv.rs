//! Key-Values: one value of any bytes under each key.
use crate::access::Access;
use crate::object::Object;
use crate::view::View;
use esker_types::limits::INLINE_MAX;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Fetch, ListLimit, Sink, Source, Update, Value, Wanted, WriteOp,
};
use esker_types::{Error, ErrorKind, KeyBatch, ObjectId, Result};

/// The akey that holds the value of each key (a dkey).
const AKEY: &[u8] = b"0";

/// A Key-Value: an object of type `KvHashed`, `KvInteger` or `KvLexical`. Keys and the errors that all
/// operations share are those of [`Object`]; values have up to
/// [`esker_types::limits::SINGLE_VALUE_MAX`] bytes and may be empty.
#[derive(Clone)]
pub struct Kv(Object);

impl Kv {
    /// The key must not exist (DAOS: `DAOS_COND_KEY_INSERT`).
    pub const INSERT: Cond = Cond::DKEY_INSERT;
    /// The key must exist (DAOS: `DAOS_COND_KEY_UPDATE`).
    pub const UPDATE: Cond = Cond::DKEY_UPDATE;
    /// A key to be removed must exist (DAOS: `DAOS_COND_KEY_REMOVE`).
    pub const REMOVE: Cond = Cond::PUNCH;

    pub(crate) fn new(object: Object) -> Result<Self> {
        match object.oid().object_type() {
            Some(otype) if otype.is_kv() => Ok(Self(object)),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("object {} is of no Key-Value type", object.oid()),
            )),
        }
    }

    /// The same Key-Value, refusing every write with [`ErrorKind::NoPermission`].
    #[must_use]
    pub fn read_only(self) -> Self {
        Self(self.0.read_only())
    }

    /// Its id.
    #[must_use]
    pub fn oid(&self) -> ObjectId {
        self.0.oid()
    }

    /// The object it is.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.0
    }

    /// Reads the value of `key` into `sink` and returns its length in bytes: 0, with the sink as it
    /// was, where there is no such key. [`Sink::None`] asks for the length only. This is the leanest
    /// way, at the price that an empty value looks like none.
    ///
    /// # Errors
    /// [`ErrorKind::RecordTooBig`] where the sink is too short; [`Error::needed`] says how long the
    /// value is.
    pub async fn read(&self, key: &[u8], sink: Sink<'_>, access: Access<'_>) -> Result<u64> {
        self.fetch(key, sink, Cond::NONE, access).await
    }

    /// Reads the value of `key` into `buffer` and returns its length in bytes; `None`, with the
    /// buffer as it was, where there is no such key.
    ///
    /// # Errors
    /// As [`Kv::read`].
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut [u8],
        access: Access<'_>,
    ) -> Result<Option<u64>> {
        loop {
            match self.fetch(key, Sink::One(buffer), Cond::AKEY_FETCH, access).await {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Err(_) if self.is_missing(key, access).await? => return Ok(None),
                Err(_) => {}
            }
        }
    }

    /// True where there is no such key now. What was not found may be something else (a snapshot, which
    /// is an error), and what was missing a moment ago may be there.
    async fn is_missing(&self, key: &[u8], access: Access<'_>) -> Result<bool> {
        match self.fetch(key, Sink::None, Cond::NONE, access).await? {
            0 => self.size(key, access).await.map(|size| size.is_none()),
            _ => Ok(false),
        }
    }

    /// The value of `key`, `None` where there is no such key.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn get(&self, key: &[u8], access: Access<'_>) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; INLINE_MAX];
        loop {
            match self.get_into(key, &mut value, access).await {
                Ok(found) => return Ok(found.map(|len| shortened(value, len))),
                Err(error) => value.resize(longer(&value, error)?, 0),
            }
        }
    }

    /// The value of `key` where it lies, or, where `may_copy`, a copy; `None` where there is no such key.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where it would have to be copied and may not,
    /// [`ErrorKind::Overflow`] where this process has [`esker_types::limits::VIEWS_MAX`] views; what the
    /// backend meets.
    pub async fn view(
        &self,
        key: &[u8],
        may_copy: bool,
        access: Access<'_>,
    ) -> Result<Option<View>> {
        let place = AkeyRef { dkey: key, akey: AKEY };
        if let Some(view) = self.0.view(place, Wanted::Single, access).await? {
            return Ok(Some(view));
        }
        if !may_copy && self.size(key, access).await?.is_some() {
            return Err(View::refused());
        }
        Ok(self.get(key, access).await?.map(View::of))
    }

    /// Length in bytes of the value of `key`, `None` where there is no such key.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn size(&self, key: &[u8], access: Access<'_>) -> Result<Option<u64>> {
        match self.read(key, Sink::None, access).await? {
            0 => self.empty_or_missing(key, access).await,
            len => Ok(Some(len)),
        }
    }

    async fn empty_or_missing(&self, key: &[u8], access: Access<'_>) -> Result<Option<u64>> {
        match self.fetch(key, Sink::None, Cond::AKEY_FETCH, access).await {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn fetch(
        &self,
        key: &[u8],
        sink: Sink<'_>,
        cond: Cond,
        access: Access<'_>,
    ) -> Result<u64> {
        let mut fetch = Fetch::single(AKEY, sink);
        fetch.request.cond = cond;
        self.0.fetch(key, Cond::NONE, std::slice::from_mut(&mut fetch), access).await?;
        Ok(fetch.reply.size)
    }

    /// Sets the value of `key`. `cond` is [`Kv::INSERT`], [`Kv::UPDATE`] or none.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] or [`ErrorKind::NotFound`] where the condition fails (in a transaction:
    /// at its commit), [`ErrorKind::NoPermission`] where writing is not allowed,
    /// [`ErrorKind::NoSpace`].
    pub async fn put(
        &self,
        key: &[u8],
        value: &[u8],
        cond: Cond,
        access: Access<'_>,
    ) -> Result<()> {
        let value = Value::Single(Source::One(value));
        let updates = [Update { akey: AKEY, value, cond: Cond::NONE }];
        self.0.write(WriteOp::Update { dkey: key, cond, updates: &updates }, access).await
    }

    /// Removes `key`. A missing one is no error unless `cond` is [`Kv::REMOVE`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where the condition fails, [`ErrorKind::NoPermission`] where writing is
    /// not allowed.
    pub async fn remove(&self, key: &[u8], cond: Cond, access: Access<'_>) -> Result<()> {
        self.0.punch_dkey(key, cond, access).await
    }

    /// Next keys after `anchor`, which moves on. Target by target, sorted in each.
    ///
    /// # Errors
    /// What the backend meets.
    pub async fn list(
        &self,
        anchor: &mut Anchor,
        limit: ListLimit,
        access: Access<'_>,
    ) -> Result<KeyBatch> {
        self.0.list_dkeys(anchor, limit, access).await
    }

    /// Removes all keys. The Key-Value can be used on.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] where writing is not allowed.
    pub async fn destroy(&self, access: Access<'_>) -> Result<()> {
        self.0.punch(Cond::NONE, access).await
    }
}

fn shortened(mut value: Vec<u8>, len: u64) -> Vec<u8> {
    value.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    value.shrink_to_fit();
    value
}

/// The length to try next, where `error` says that `value` was too short.
fn longer(value: &[u8], error: Error) -> Result<usize> {
    let needed = error.needed().and_then(|needed| usize::try_from(needed).ok());
    match needed {
        Some(needed) if error.kind() == ErrorKind::RecordTooBig && needed > value.len() => {
            Ok(needed)
        }
        _ => Err(error),
    }
}
