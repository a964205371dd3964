//! Changes. One that concerns a single dkey or object is one call of DAOS; others, and those that depend on what was
//! read, are transactions of DAOS.
use super::RECORDS_END;
use super::container::Opened;
use super::fetch::{are_apart, contended};
use super::proof::{Holds, holds};
use super::read::Reader;
use super::rules;
use crate::binding::{AkeyUpdate, Content, Object, Tx};
use esker_backend::check::check_write;
use esker_types::limits::DAOS_TRIES_MAX;
use esker_types::ops::{Change, Cond, Update, Value, View, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, FLAT_AKEY, ObjectId, Result};

/// Applies changes.
pub(super) struct Writer<'a> {
    pub(super) opened: &'a Opened,
}

impl Writer<'_> {
    /// Applies a change. DAOS tells the epoch of a transaction; that of a single call is taken from the clock.
    pub(super) async fn write(&self, change: &Change<'_>) -> Result<Epoch> {
        if change.id.is_some() {
            let message = "a daos: pool does not remember changes: send each once";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        change.writes.iter().try_for_each(check_write)?;
        change.writes.iter().try_for_each(rules::check)?;
        match change.writes {
            [write] if change.tokens.is_none() && !is_checked_here(&write.op) => {
                self.apply(None, write).await?;
                Ok(Epoch::now())
            }
            [] if change.tokens.is_none() => Ok(Epoch::now()),
            _ => self.transact(change).await,
        }
    }

    /// Applies a change as a transaction. It repeats the reads of the caller, so that DAOS detects clients that change the
    /// same data meanwhile.
    async fn transact(&self, change: &Change<'_>) -> Result<Epoch> {
        for _ in 0..DAOS_TRIES_MAX {
            let tx = self.opened.container.transaction()?;
            match self.try_commit(&tx, change).await {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                Ok(None) => return Err(changed()),
                Ok(Some(0)) => return Ok(Epoch::now()),
                Ok(Some(epoch)) => return Ok(Epoch(epoch)),
                Err(error) => return Err(error),
            }
        }
        Err(if change.tokens.is_some() { changed() } else { contended() })
    }

    /// The epoch of the commit; `None` if what was read has changed.
    async fn try_commit(&self, tx: &Tx, change: &Change<'_>) -> Result<Option<u64>> {
        if let Some(tokens) = change.tokens {
            for token in tokens.map(<[u8]>::to_vec) {
                if holds(self.opened, tx, &token).await? == Holds::No {
                    return Ok(None);
                }
            }
        }
        for write in change.writes {
            self.apply(Some(tx), write).await?;
        }
        tx.commit().await.map(Some)
    }

    fn reader(&self, object: &Object, oid: ObjectId, tx: Option<&Tx>) -> Reader<'_> {
        let (opened, object, tx) = (self.opened, object.clone(), tx.cloned());
        Reader { opened, object, oid, tx, view: View::Latest, tokens: None }
    }

    async fn expect_exists(&self, object: &Object, oid: ObjectId, tx: Option<&Tx>) -> Result<()> {
        match self.reader(object, oid, tx).exists().await? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, "the object does not exist")),
        }
    }

    async fn apply(&self, tx: Option<&Tx>, write: &Write<'_>) -> Result<()> {
        let object = self.opened.container.object(write.oid, true)?;
        match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                let updates = updates.iter().map(prepared).collect::<Result<Vec<_>>>()?;
                let updates: Vec<_> = updates.into_iter().flatten().collect();
                update(&self.reader(&object, write.oid, tx), dkey, cond, updates).await
            }
            WriteOp::PunchObject { cond } => {
                if is_checked_here(&write.op) {
                    self.expect_exists(&object, write.oid, tx).await?;
                }
                object.punch(tx, cond.bits()).await
            }
            WriteOp::PunchDkey { dkey, cond } => object.punch_dkey(tx, dkey, cond.bits()).await,
            WriteOp::PunchAkeys { akeys: [], .. } => Ok(()),
            WriteOp::PunchAkeys { dkey, akeys, cond } if rules::is_flat(write.oid) => {
                match (akeys.contains(&FLAT_AKEY), cond.has(Cond::PUNCH)) {
                    (_, true) if akeys.iter().any(|akey| *akey != FLAT_AKEY) => {
                        Err(Error::new(ErrorKind::NotFound, "an akey does not exist"))
                    }
                    (true, _) => object.punch_dkey(tx, dkey, cond.bits()).await,
                    (false, _) => Ok(()),
                }
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let akeys = akeys.iter().map(|akey| akey.to_vec()).collect();
                object.punch_akeys(tx, dkey, akeys, cond.bits()).await
            }
        }
    }
}

/// True for a change whose condition DAOS does not check: the punch of an object that is not there succeeds.
fn is_checked_here(op: &WriteOp<'_>) -> bool {
    matches!(op, WriteOp::PunchObject { cond } if cond.has(Cond::PUNCH))
}

/// Updates akeys. In a transaction, akeys with conditions are updated one by one: libdaos would check several conditions as
/// one, and ends the program if each akey has its own. The condition on the dkey is checked here then, and also if there is
/// no akey to update, for which DAOS would not check it.
async fn update(
    reader: &Reader<'_>,
    dkey: &[u8],
    cond: Cond,
    updates: Vec<AkeyUpdate>,
) -> Result<()> {
    let (object, tx) = (&reader.object, reader.tx());
    let is_split = tx.is_some() && updates.iter().any(|update| update.cond != 0);
    if !is_split && !updates.is_empty() {
        return object.update(tx, dkey, cond.bits(), updates).await;
    }
    check_dkey(reader, dkey, cond).await?;
    for update in updates {
        object.update(tx, dkey, 0, vec![update]).await?;
    }
    Ok(())
}

/// Checks a condition of an update that DAOS does not check.
async fn check_dkey(reader: &Reader<'_>, dkey: &[u8], cond: Cond) -> Result<()> {
    if !cond.intersects(Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE)) {
        return Ok(());
    }
    let exists = reader.has_akeys(dkey).await?;
    let refuse = |kind, text: &str| Err(Error::new(kind, text));
    match exists {
        true if cond.has(Cond::DKEY_INSERT) => refuse(ErrorKind::Exists, "the dkey exists"),
        false if cond.has(Cond::DKEY_UPDATE) => {
            refuse(ErrorKind::NotFound, "the dkey does not exist")
        }
        _ => Ok(()),
    }
}

/// An update as DAOS takes it; `None` if it concerns no record.
fn prepared(update: &Update<'_>) -> Result<Option<AkeyUpdate>> {
    let content = match update.value {
        Value::Single(data) => Content::Single(data.part(0, data.len()).into_owned()),
        Value::Array { record_size, extents, data } => {
            let extents = not_empty(extents);
            if !are_apart(extents.clone()) {
                return Err(unfit());
            }
            let data = data.part(0, data.len()).into_owned();
            Content::Array { record_size, extents, data }
        }
        Value::PunchExtents(extents) => {
            let all = Extent::new(0, RECORDS_END);
            let inside = not_empty(extents).into_iter().filter_map(|it| it.intersect(all));
            Content::Punch(inside.collect())
        }
    };
    let is_nothing = match &content {
        Content::Single(_) => false,
        Content::Array { extents, .. } | Content::Punch(extents) => extents.is_empty(),
    };
    let (akey, cond) = (update.akey.to_vec(), update.cond.bits());
    Ok((!is_nothing).then_some(AkeyUpdate { akey, content, cond }))
}

fn not_empty(extents: &[Extent]) -> Vec<Extent> {
    extents.iter().copied().filter(|extent| !extent.is_empty()).collect()
}

#[cold]
fn unfit() -> Error {
    let message = format!(
        "DAOS takes extents of one write that do not overlap and end at record {RECORDS_END} or before: write them one \
         after the other, or elsewhere"
    );
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn changed() -> Error {
    Error::new(
        ErrorKind::TxRestart,
        "data read by this transaction has changed: restart the transaction",
    )
}
