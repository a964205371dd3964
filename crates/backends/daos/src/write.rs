//! Changes. One that concerns a single dkey or object is one call of DAOS; others, and those that depend on what was
//! read, are transactions of DAOS.
use super::RECORDS_END;
use super::container::Opened;
use super::earlier::Earlier;
use super::fetch::{are_apart, contended};
use super::listing::Survivors;
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
                let earlier = Earlier { oid: write.oid, writes: &[] };
                self.apply(None, write, earlier).await?;
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
        for (index, write) in change.writes.iter().enumerate() {
            let earlier = Earlier { oid: write.oid, writes: &change.writes[..index] };
            self.apply(Some(tx), write, earlier).await?;
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

    async fn apply(&self, tx: Option<&Tx>, write: &Write<'_>, earlier: Earlier<'_>) -> Result<()> {
        let object = self.opened.container.object(write.oid, true)?;
        let reader = self.reader(&object, write.oid, tx);
        match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                update(&reader, earlier, dkey, cond, updates).await
            }
            WriteOp::PunchObject { cond } => {
                if is_checked_here(&write.op) {
                    self.expect_exists(&object, write.oid, tx).await?;
                }
                object.punch(tx, cond.bits()).await
            }
            WriteOp::PunchDkey { dkey, cond } => punch_dkey(&reader, earlier, dkey, cond).await,
            WriteOp::PunchAkeys { akeys: [], .. } => Ok(()),
            WriteOp::PunchAkeys { dkey, akeys, cond } if rules::is_flat(write.oid) => {
                match (akeys.contains(&FLAT_AKEY), cond.has(Cond::PUNCH)) {
                    (_, true) if akeys.iter().any(|akey| *akey != FLAT_AKEY) => {
                        Err(Error::new(ErrorKind::NotFound, "an akey does not exist"))
                    }
                    (true, _) => punch_dkey(&reader, earlier, dkey, cond).await,
                    (false, _) => Ok(()),
                }
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                punch_akeys(&reader, earlier, dkey, akeys, cond).await
            }
        }
    }
}

/// True for a change that takes a look first, in the transaction that makes it. The punch of an object that is not there
/// succeeds, whatever its condition. An akey whose records were all punched stays, so its last punch must remove it.
fn is_checked_here(op: &WriteOp<'_>) -> bool {
    match op {
        WriteOp::PunchObject { cond } => cond.has(Cond::PUNCH),
        WriteOp::Update { updates, .. } => has_punch(updates),
        WriteOp::PunchDkey { .. } | WriteOp::PunchAkeys { .. } => false,
    }
}

fn has_punch(updates: &[Update<'_>]) -> bool {
    updates.iter().any(|update| matches!(update.value, Value::PunchExtents(_)))
}

async fn punch_dkey(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    cond: Cond,
) -> Result<()> {
    let is_checked = cond.has(Cond::PUNCH) && earlier.concern(dkey);
    if is_checked && !reader.has_dkey_after(earlier, dkey).await? {
        return Err(Error::new(ErrorKind::NotFound, "the dkey does not exist"));
    }
    let cond = if is_checked { Cond::NONE } else { cond };
    reader.object.punch_dkey(reader.tx(), dkey, cond.bits()).await
}

async fn punch_akeys(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    akeys: &[&[u8]],
    cond: Cond,
) -> Result<()> {
    let is_checked = cond.has(Cond::PUNCH) && earlier.concern(dkey);
    for akey in akeys.iter().filter(|_| is_checked) {
        if !reader.has_akey_after(earlier, dkey, akey).await? {
            return Err(Error::new(ErrorKind::NotFound, "an akey does not exist"));
        }
    }
    let cond = if is_checked { Cond::NONE } else { cond };
    let akeys = akeys.iter().map(|akey| akey.to_vec()).collect();
    reader.object.punch_akeys(reader.tx(), dkey, akeys, cond.bits()).await
}

/// Updates akeys. DAOS checks the conditions, unless they depend on earlier writes of the change.
async fn update(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    cond: Cond,
    updates: &[Update<'_>],
) -> Result<()> {
    let mut wanted = updates.iter().map(prepared).collect::<Result<Vec<_>>>()?;
    let (mut cond, mut emptied) = (cond, Vec::new());
    if reader.is_transaction() && (has_punch(updates) || earlier.concern(dkey)) {
        check_conditions(reader, earlier, dkey, cond, updates).await?;
        wanted.iter_mut().flatten().for_each(|update| update.cond = 0);
        cond = Cond::NONE;
        emptied = leave_out_absent(reader, earlier, dkey, &mut wanted).await?;
    }
    let wanted: Vec<_> = wanted.into_iter().flatten().collect();
    send(reader, dkey, cond, wanted).await?;
    match emptied.is_empty() {
        true => Ok(()),
        false if rules::is_flat(reader.oid) => reader.object.punch_dkey(reader.tx(), dkey, 0).await,
        false => reader.object.punch_akeys(reader.tx(), dkey, emptied, 0).await,
    }
}

async fn check_conditions(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    cond: Cond,
    updates: &[Update<'_>],
) -> Result<()> {
    check_dkey(reader, earlier, dkey, cond).await?;
    let (insert, change) = (Cond::AKEY_INSERT, Cond::AKEY_UPDATE);
    for update in updates.iter().filter(|it| it.cond.intersects(insert.union(change))) {
        let exists = reader.has_akey_after(earlier, dkey, update.akey).await?;
        check_existence("akey", exists, update.cond.has(insert), update.cond.has(change))?;
    }
    Ok(())
}

/// Leaves out punches of records of akeys that do not exist, for which DAOS would make them. Returns the akeys without
/// any record after the update.
async fn leave_out_absent(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    updates: &mut [Option<AkeyUpdate>],
) -> Result<Vec<Vec<u8>>> {
    let mut emptied = Vec::new();
    for wanted in updates {
        let Some(AkeyUpdate { akey, content: Content::Punch(extents), .. }) = wanted else {
            continue;
        };
        match reader.survivors_after(earlier, (dkey, akey), extents).await? {
            Survivors::Some => {}
            Survivors::None => emptied.push(akey.clone()),
            Survivors::Absent => *wanted = None,
        }
    }
    Ok(emptied)
}

/// Sends an update. In a transaction, akeys with conditions are updated one by one: libdaos would check several conditions
/// as one, and ends the program if each akey has its own. The condition on the dkey is checked here then, and also if
/// no akey is updated, for which DAOS would not check it.
async fn send(
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
    check_dkey(reader, Earlier { oid: reader.oid, writes: &[] }, dkey, cond).await?;
    for update in updates {
        object.update(tx, dkey, 0, vec![update]).await?;
    }
    Ok(())
}

/// Checks a condition of an update that DAOS does not check.
async fn check_dkey(
    reader: &Reader<'_>,
    earlier: Earlier<'_>,
    dkey: &[u8],
    cond: Cond,
) -> Result<()> {
    let (insert, change) = (Cond::DKEY_INSERT, Cond::DKEY_UPDATE);
    if !cond.intersects(insert.union(change)) {
        return Ok(());
    }
    let exists = reader.has_dkey_after(earlier, dkey).await?;
    check_existence("dkey", exists, cond.has(insert), cond.has(change))
}

/// Checks the conditions that something must not exist (`inserts`), or must exist (`changes`).
fn check_existence(what: &str, exists: bool, inserts: bool, changes: bool) -> Result<()> {
    match exists {
        true if inserts => Err(Error::new(ErrorKind::Exists, format!("the {what} exists"))),
        false if changes => {
            Err(Error::new(ErrorKind::NotFound, format!("the {what} does not exist")))
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
