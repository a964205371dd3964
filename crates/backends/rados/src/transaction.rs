//! Changes to several RADOS objects that happen together, or not at all (docs/format.md, "The rados layout").
//!
//! A record of all changes is written first. Then each object is given to the transaction, if what must hold
//! for it does; then the record's state changes from pending to committed, which is the moment it happens;
//! then each object is changed and set free. Whoever meets an object that is not free carries a committed
//! transaction out, and ends a pending one whose process does not go on, so nobody waits for the dead.
use super::names::{self, LOCK, STATE};
use super::patch::Patch;
use super::space::{Outcome, Space, contended, is_conflict};
use crate::join_all;
use esker_backend::encoding::{Parts, begin, finish};
use esker_librados::{Compare, IoContext, ReadOp, WriteOp};
use esker_os::executor::task;
use esker_types::limits::{RADOS_TRIES_MAX, RADOS_TX_BYTES_MAX};
use esker_types::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

const MAGIC: &[u8; 8] = b"ESKRRTXN";
const PENDING: &[u8] = b"p";
const COMMITTED: &[u8] = b"c";
const ABORTED: &[u8] = b"a";

/// How long a pending transaction of somebody else is waited for before it is ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was found out about an object that a transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The transaction has changed nothing yet.
    StandsStill,
    /// Look again.
    Changed,
}

/// A transaction somebody has begun.
struct Begun {
    state: Vec<u8>,
    patches: Vec<Patch<'static>>,
}

impl Space {
    /// Does all changes, or none.
    pub(super) async fn commit(&self, mut patches: Vec<Patch<'_>>) -> Result<Outcome> {
        if patches.len() < 2 {
            return match patches.pop() {
                Some(patch) => self.apply(&patch).await,
                None => Ok(Outcome::Done),
            };
        }
        patches.sort_by(|a, b| a.object.cmp(&b.object));
        let id = esker_os::random_bytes()?;
        self.begin(&id, &patches).await?;
        let outcome = self.take_all(&id, &patches).await;
        match outcome {
            Ok(Outcome::Done) if self.turn(&id, COMMITTED).await? => {
                self.finish(&id, &patches).await?;
                Ok(Outcome::Done)
            }
            other => {
                self.turn(&id, ABORTED).await?;
                self.release(&id, &patches).await?;
                other.map(|_| Outcome::Conflict)
            }
        }
    }

    async fn begin(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        let bytes: usize = patches.iter().map(Patch::bytes).sum();
        if bytes > RADOS_TX_BYTES_MAX {
            return Err(too_large(bytes));
        }
        let mut record = begin(MAGIC);
        esker_backend::encoding::put_u32(&mut record, patches.len() as u32);
        patches.iter().for_each(|patch| patch.put(&mut record));
        let object = names::transaction(id);
        let mut op = WriteOp::new()?;
        op.create_new().write_full(&finish(record)).set([(STATE, PENDING)]);
        let done = self.place.write(&object, op).await;
        done.map(drop).map_err(|code| IoContext::error(code, "writing", &object))
    }

    /// Gives all objects to the transaction, in their order.
    async fn take_all(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<Outcome> {
        for patch in patches {
            if self.take(id, patch).await? == Outcome::Conflict {
                return Ok(Outcome::Conflict);
            }
        }
        Ok(Outcome::Done)
    }

    async fn take(&self, id: &[u8], patch: &Patch<'_>) -> Result<Outcome> {
        for _ in 0..RADOS_TRIES_MAX {
            match self.place.write(&patch.object, patch.lock(id)?).await {
                Ok(_) => return Ok(Outcome::Done),
                Err(code) if is_conflict(code) => match self.lock_of(&patch.object).await? {
                    Some(other) => self.settle_for_writing(&patch.object, &other).await?,
                    None => return Ok(Outcome::Conflict),
                },
                Err(code) => return Err(IoContext::error(code, "writing", &patch.object)),
            }
        }
        Err(contended(&patch.object))
    }

    /// Changes the state of a pending transaction; false where it is pending no more.
    async fn turn(&self, id: &[u8], state: &[u8]) -> Result<bool> {
        let object = names::transaction(id);
        let mut op = WriteOp::new()?;
        op.guard(STATE, Compare::Equal, PENDING).set([(STATE, state)]);
        match self.place.write(&object, op).await {
            Ok(_) => Ok(true),
            Err(code) if is_conflict(code) => Ok(false),
            Err(code) => Err(IoContext::error(code, "writing", &object)),
        }
    }

    /// Does the changes of a committed transaction where nobody has yet.
    async fn finish(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        self.end(id, patches, |patch| patch.finish(id)).await
    }

    /// Takes the objects away from a transaction that is over.
    async fn release(&self, id: &[u8], patches: &[Patch<'_>]) -> Result<()> {
        self.end(id, patches, |_| free(id)).await
    }

    /// The last step of all objects, then that of the record.
    async fn end(
        &self,
        id: &[u8],
        patches: &[Patch<'_>],
        step: impl Fn(&Patch<'_>) -> Result<WriteOp>,
    ) -> Result<()> {
        let steps = patches.iter().map(|patch| Ok(task(self.unless(&patch.object, step(patch)?))));
        join_all(steps.collect::<Result<_>>()?).await.into_iter().collect::<Result<()>>()?;
        self.remove(&names::transaction(id)).await
    }

    /// Does something, unless somebody has done it before.
    async fn unless(&self, object: &str, op: WriteOp) -> Result<()> {
        match self.place.write(object, op).await {
            Ok(_) => Ok(()),
            Err(code) if is_conflict(code) => Ok(()),
            Err(code) => Err(IoContext::error(code, "writing", object)),
        }
    }

    /// The state of a transaction; `None` where it is over and cleared away.
    async fn begun(&self, id: &[u8]) -> Result<Option<Begun>> {
        let object = names::transaction(id);
        let mut op = ReadOp::new()?;
        op.keys(&[STATE]).data(0, RADOS_TX_BYTES_MAX + (1 << 20));
        let found = match self.place.read(&object, op).await {
            Ok(found) => found,
            Err(code) if is_conflict(code) => return Ok(None),
            Err(code) => return Err(IoContext::error(code, "reading", &object)),
        };
        let state = found.entries.into_iter().next().map(|entry| entry.value).unwrap_or_default();
        let patches = read_patches(&found.data).ok_or_else(|| damaged(&object))?;
        Ok(Some(Begun { state, patches }))
    }

    /// What a reader makes of an object that the transaction `id` has.
    pub(super) async fn settle_for_reading(&self, object: &str, id: &[u8]) -> Result<Settled> {
        match self.begun(id).await? {
            Some(begun) if begun.state == PENDING => Ok(Settled::StandsStill),
            begun => self.settle(object, id, begun).await.map(|()| Settled::Changed),
        }
    }

    /// Waits until the transaction `id` no longer has the object, or sees to it.
    pub(super) async fn settle_for_writing(&self, object: &str, id: &[u8]) -> Result<()> {
        let since = Instant::now();
        loop {
            match self.begun(id).await? {
                Some(begun) if begun.state == PENDING => {
                    if since.elapsed() > PATIENCE {
                        self.turn(id, ABORTED).await?;
                    }
                }
                begun => return self.settle(object, id, begun).await,
            }
        }
    }

    async fn settle(&self, object: &str, id: &[u8], begun: Option<Begun>) -> Result<()> {
        match begun {
            Some(begun) if begun.state == COMMITTED => self.finish(id, &begun.patches).await,
            Some(begun) => self.release(id, &begun.patches).await,
            // Its process took the object after somebody had ended the transaction, or has just let go.
            None => self.unless(object, free(id)?).await,
        }
    }
}

/// Takes an object away from a transaction, if that has it.
fn free(id: &[u8]) -> Result<WriteOp> {
    let mut op = WriteOp::new()?;
    op.guard(LOCK, Compare::Equal, id).unset(&[LOCK]);
    Ok(op)
}

fn read_patches(record: &[u8]) -> Option<Vec<Patch<'static>>> {
    let mut parts = Parts::of(MAGIC, record)?;
    let count = parts.u32()?;
    (0..count).map(|_| Patch::take(&mut parts)).collect()
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let message = format!(
        "a transaction of {bytes} bytes of keys, records and small values: a rados pool takes \
         {RADOS_TX_BYTES_MAX} (RADOS_TX_BYTES_MAX): make smaller ones"
    );
    Error::new(ErrorKind::Overflow, message).with_needed(bytes as u64)
}

#[cold]
fn damaged(object: &str) -> Error {
    let message =
        format!("the RADOS object {object}, a transaction, is damaged: see `ceph health detail`");
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_come_back_and_damage_is_seen() {
        let mut patch = Patch::of("o.1");
        patch.sets.push((b"k".to_vec(), b"v".to_vec()));
        patch.unsets.push(b"u".to_vec());
        let gone = Patch { remove: true, ..Patch::of("o.2") };
        let mut record = begin(MAGIC);
        esker_backend::encoding::put_u32(&mut record, 2);
        [&patch, &gone].into_iter().for_each(|patch| patch.put(&mut record));
        let record = finish(record);
        let read = read_patches(&record).unwrap();
        assert_eq!(
            (read.len(), read[0].sets.clone(), read[0].unsets.clone()),
            (2, patch.sets, patch.unsets)
        );
        assert!(read[1].remove && read[1].object == "o.2");
        (0..record.len()).for_each(|len| assert!(read_patches(&record[..len]).is_none()));
    }
}
