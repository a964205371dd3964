//! Operations on the RADOS objects of one namespace. Each is atomic and none sees a transaction half done.
use super::blobs::Owner;
use super::names::{self, LOCK};
use super::patch::Patch;
use super::piece::{Location, Piece, damaged_pool_error};
use super::transaction::Resolution;
use crate::librados::{Compare, Entry, Found, IoContext, ReadOp};
use esker_types::limits::{RADOS_PAGE, RADOS_TRIES_MAX};
use esker_types::{Checksum, Error, ErrorKind, Result};

/// Error codes of librados that are expected here.
pub(super) const ABSENT: i32 = -2;
pub(super) const EXISTS: i32 = -17;
const OLDER: i32 = -34;
const NEWER: i32 = -75;
const GUARDED: i32 = -125;

/// The namespace of a container, or of the pool.
#[derive(Clone)]
pub(super) struct Space {
    pub(super) io: IoContext,
    pub(super) checksum: Checksum,
}

/// The result of a guarded change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The change was applied.
    Done,
    /// A condition does not hold; nothing was changed.
    Conflict,
}

/// Part of the omap of an object.
pub(super) struct Page {
    /// `None` if the object does not exist.
    pub(super) version: Option<u64>,
    pub(super) entries: Vec<Entry>,
    /// True if there are more entries.
    pub(super) more: bool,
}

impl Page {
    /// The entries of a listing, without those of the lock, which follow all others.
    fn without_lock(mut found: Found) -> Self {
        found.entries.retain(|entry| !entry.key.starts_with(LOCK));
        Self { version: Some(found.version), entries: found.entries, more: found.more }
    }
}

impl Space {
    /// The entries with these keys, and with `data` the bytes of the object's data at this offset and of this length.
    /// `None` if the object does not exist.
    pub(super) async fn entries(
        &self,
        object: &str,
        keys: &[&[u8]],
        data: Option<(u64, usize)>,
    ) -> Result<Option<Found>> {
        let mut wanted = keys.to_vec();
        wanted.push(LOCK);
        for _ in 0..RADOS_TRIES_MAX {
            let mut op = ReadOp::new()?;
            op.keys(&wanted);
            if let Some((offset, len)) = data {
                op.data(offset, len);
            }
            let mut found = match self.io.read(object, op).await {
                Ok(found) => found,
                Err(ABSENT) => return Ok(None),
                Err(code) => return Err(IoContext::error(code, "reading", object)),
            };
            let lock = found.entries.iter().position(|entry| entry.key == LOCK);
            let Some(lock) = lock else { return Ok(Some(found)) };
            let id = found.entries.remove(lock).value;
            // A pending transaction has not changed the object yet.
            if self.resolve_for_reading(object, &id).await? == Resolution::Pending {
                return Ok(Some(found));
            }
        }
        Err(contended_error(object))
    }

    /// Returns the omap value of `key` in a RADOS object. None if there is no such object or key.
    pub(super) async fn value(&self, object: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.entries(object, &[key], None).await?;
        Ok(found.and_then(|found| found.entries.into_iter().next()).map(|entry| entry.value))
    }

    /// At most `most` entries after `after` with this prefix. While a transaction is pending, they are in the state before
    /// it.
    pub(super) async fn page(
        &self,
        object: &str,
        after: &[u8],
        prefix: &[u8],
        most: u64,
    ) -> Result<Page> {
        // The transaction that has locked the object; empty if none has.
        let mut lock = Vec::new();
        for _ in 0..RADOS_TRIES_MAX {
            let mut op = ReadOp::new()?;
            op.add_comparison(LOCK, Compare::Equal, &lock).list(
                after,
                prefix,
                most.clamp(1, RADOS_PAGE),
            );
            match self.io.read(object, op).await {
                Ok(found) if self.is_unchanged(object, &lock).await? => {
                    return Ok(Page::without_lock(found));
                }
                Ok(_) => lock.clear(),
                Err(ABSENT) => return Ok(Page { version: None, entries: vec![], more: false }),
                Err(GUARDED) => lock = self.lock_of(object).await?.unwrap_or_default(),
                Err(code) => return Err(IoContext::error(code, "listing", object)),
            }
        }
        Err(contended_error(object))
    }

    /// True if the object was in its current state when the transaction `lock` (empty: none) was found to lock it: the
    /// transaction is still pending, so it has changed nothing.
    async fn is_unchanged(&self, object: &str, lock: &[u8]) -> Result<bool> {
        Ok(lock.is_empty() || self.resolve_for_reading(object, lock).await? == Resolution::Pending)
    }

    /// All entries with this prefix from one consistent state, and the object's version at that time.
    pub(super) async fn all(&self, object: &str, prefix: &[u8]) -> Result<Page> {
        for _ in 0..RADOS_TRIES_MAX {
            let mut all = self.page(object, b"", prefix, RADOS_PAGE).await?;
            let mut same = true;
            while all.more && same {
                let last = all.entries.last().map(|entry| entry.key.clone()).unwrap_or_default();
                let next = self.page(object, &last, prefix, RADOS_PAGE).await?;
                same = next.version == all.version;
                all.entries.extend(next.entries);
                all.more = next.more;
            }
            if same {
                return Ok(all);
            }
        }
        Err(contended_error(object))
    }

    /// Part of the object's data, if the entry `key` is still `record`; otherwise `None`.
    pub(super) async fn data_of(
        &self,
        object: &str,
        (key, record): (&[u8], &[u8]),
        (offset, len): (u64, u64),
    ) -> Result<Option<Vec<u8>>> {
        let mut op = ReadOp::new()?;
        op.add_comparison(key, Compare::Equal, record).data(offset, len as usize);
        match self.io.read(object, op).await {
            Ok(found) => Ok(Some(found.data)),
            Err(ABSENT | GUARDED) => Ok(None),
            Err(code) => Err(IoContext::error(code, "reading", object)),
        }
    }

    /// Part of a blob; `None` if it is gone.
    pub(super) async fn blob(
        &self,
        id: [u8; 16],
        (offset, len): (u64, u64),
    ) -> Result<Option<Vec<u8>>> {
        let object = names::blob(id);
        let mut op = ReadOp::new()?;
        op.data(offset, len as usize);
        match self.io.read(&object, op).await {
            Ok(found) => Ok(Some(found.data)),
            Err(ABSENT) => Ok(None),
            Err(code) => Err(IoContext::error(code, "reading", &object)),
        }
    }

    /// Part of the stored bytes of a piece, as an offset in its body and a length. `None` if its record was changed
    /// since it was read, or the bytes are in the record itself.
    pub(super) async fn stored_bytes(
        &self,
        piece: &Piece,
        (object, key, record): Owner<'_>,
        (offset, len): (u64, u64),
    ) -> Result<Option<Vec<u8>>> {
        let id = match piece.body.location {
            Location::Inline(_) => return Ok(None),
            Location::Blob(id) => id,
            Location::ObjectData(start) => {
                return self.data_of(object, (key, record), (start + offset, len)).await;
            }
        };
        if let Some(data) = self.blob(id, (offset, len)).await? {
            return Ok(Some(data));
        }
        // A blob is removed only after the record that refers to it was replaced.
        match self.value(object, key).await? {
            Some(current) if current == record => {
                Err(damaged_pool_error(&format!("the RADOS object {} is missing", names::blob(id))))
            }
            _ => Ok(None),
        }
    }

    /// Changes one object. If a transaction has it locked, that is resolved first, and the change is tried again.
    pub(super) async fn apply(&self, patch: &Patch<'_>) -> Result<Outcome> {
        for _ in 0..RADOS_TRIES_MAX {
            match self.io.write(&patch.object, patch.alone()?).await {
                Ok(_) => return Ok(Outcome::Done),
                Err(ABSENT) if patch.remove => return Ok(Outcome::Done),
                Err(code) if is_conflict(code) => match self.lock_of(&patch.object).await? {
                    Some(id) => self.resolve_for_writing(&patch.object, &id).await?,
                    // Only a lock can have caused the conflict, and it is gone now.
                    None if patch.holds_anyway() => {}
                    None => return Ok(Outcome::Conflict),
                },
                Err(code) => return Err(IoContext::error(code, "writing", &patch.object)),
            }
        }
        Err(contended_error(&patch.object))
    }

    /// Returns the id of the transaction that has locked a RADOS object. None if it is not locked or does not exist.
    pub(super) async fn lock_of(&self, object: &str) -> Result<Option<Vec<u8>>> {
        let mut op = ReadOp::new()?;
        op.keys(&[LOCK]);
        match self.io.read(object, op).await {
            Ok(found) => Ok(found.entries.into_iter().next().map(|entry| entry.value)),
            Err(ABSENT) => Ok(None),
            Err(code) => Err(IoContext::error(code, "reading", object)),
        }
    }

    /// Checks the conditions of a patch that changes nothing, without writing.
    pub(super) async fn verify(&self, patch: &Patch<'_>) -> Result<Outcome> {
        let outcome = |holds| if holds { Outcome::Done } else { Outcome::Conflict };
        for _ in 0..RADOS_TRIES_MAX {
            match self.io.read(&patch.object, patch.verification()?).await {
                Ok(found) => return Ok(outcome(patch.has_base(found.version))),
                Err(ABSENT) => return Ok(outcome(patch.holds_if_missing())),
                Err(GUARDED) => match self.lock_of(&patch.object).await? {
                    Some(id) => self.resolve_for_writing(&patch.object, &id).await?,
                    None => return Ok(Outcome::Conflict),
                },
                Err(code) => return Err(IoContext::error(code, "reading", &patch.object)),
            }
        }
        Err(contended_error(&patch.object))
    }

    /// Removes a RADOS object, whatever it contains. Succeeds if it does not exist.
    pub(super) async fn remove(&self, object: &str) -> Result<()> {
        let mut op = crate::librados::WriteOp::new()?;
        op.remove();
        match self.io.write(object, op).await {
            Ok(_) | Err(ABSENT) => Ok(()),
            Err(code) => Err(IoContext::error(code, "removing", object)),
        }
    }
}

/// True for error codes of guards that did not hold. A removed object that was expected to have a version counts.
pub(super) fn is_conflict(code: i32) -> bool {
    matches!(code, GUARDED | EXISTS | OLDER | NEWER | ABSENT)
}

#[cold]
pub(super) fn contended_error(object: &str) -> Error {
    let message = format!(
        "other clients changed the RADOS object {object} during all {RADOS_TRIES_MAX} attempts (RADOS_TRIES_MAX) \
         of this operation: try again"
    );
    Error::new(ErrorKind::Again, message)
}
