//! Changes. A change of a single dkey or object is one call of DAOS. Other changes, and changes that depend on reads,
//! are transactions of DAOS.
use super::RECORDS_END;
use super::container::Opened;
use super::fetch::{are_apart, contended_error};
use super::listing::Survivors;
use super::net::{Net, NetAkey, NetDkey, NetObject};
use super::proof::{Holds, holds};
use super::read::Reader;
use super::rules;
use crate::binding::{AkeyUpdate, Content, Tx};
use esker_backend::check::check_write;
use esker_types::limits::DAOS_TRIES_MAX;
use esker_types::ops::{Change, Cond, Update, Value, View, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, FLAT_AKEY, ObjectId, Result};
use std::collections::{BTreeMap, HashSet};

/// Applies changes.
pub(super) struct Writer<'a> {
    pub(super) opened: &'a Opened,
}

impl Writer<'_> {
    /// Applies a change. DAOS reports the epoch of a transaction. The epoch of a single call is taken from the clock.
    pub(super) async fn write(&self, change: &Change<'_>) -> Result<Epoch> {
        if change.id.is_some() {
            let message = "a daos: pool does not remember changes: send each once";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        change.writes.iter().try_for_each(check_write)?;
        change.writes.iter().try_for_each(rules::check)?;
        change.writes.iter().try_for_each(check_extents)?;
        match change.writes {
            [write] if change.tokens.is_none() && !is_checked_here(write) => {
                self.apply_alone(write).await?;
                Ok(Epoch::now())
            }
            [] if change.tokens.is_none() => Ok(Epoch::now()),
            _ => self.transact(change).await,
        }
    }

    /// Applies a change as a transaction. It repeats the reads of the caller, so that DAOS detects clients that change
    /// the same data meanwhile.
    async fn transact(&self, change: &Change<'_>) -> Result<Epoch> {
        for _ in 0..DAOS_TRIES_MAX {
            let tx = self.opened.container.transaction()?;
            match self.try_commit(&tx, change).await {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                Ok(None) => return Err(changed_read_error()),
                // DAOS does not report the epoch.
                Ok(Some(0)) => return Ok(Epoch::now()),
                Ok(Some(epoch)) => return Ok(Epoch(epoch)),
                Err(error) => return Err(error),
            }
        }
        Err(if change.tokens.is_some() { changed_read_error() } else { contended_error() })
    }

    /// The epoch of the commit; `None` if data that was read has changed.
    async fn try_commit(&self, tx: &Tx, change: &Change<'_>) -> Result<Option<u64>> {
        if let Some(tokens) = change.tokens {
            for token in tokens.map(<[u8]>::to_vec) {
                if holds(self.opened, tx, &token).await? == Holds::No {
                    return Ok(None);
                }
            }
        }
        let mut net = Net::default();
        for write in change.writes {
            let reader = self.reader(write.oid, Some(tx))?;
            reader.check(net.object(write.oid), &write.op).await?;
            net.add(write);
        }
        for (oid, net) in net.objects() {
            self.reader(oid, Some(tx))?.send(net).await?;
        }
        tx.commit().await.map(Some)
    }

    /// Returns a reader of the state of the object before the change, in the transaction `tx`.
    fn reader(&self, oid: ObjectId, tx: Option<&Tx>) -> Result<Reader<'_>> {
        let (opened, tx) = (self.opened, tx.cloned());
        let object = opened.container.object(oid, true)?;
        Ok(Reader { opened, object, oid, tx, view: View::Latest, tokens: None })
    }

    /// Applies a write by one call, which checks its conditions.
    async fn apply_alone(&self, write: &Write<'_>) -> Result<()> {
        let object = self.opened.container.object(write.oid, true)?;
        match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                let wanted = updates.iter().filter(|it| !is_nothing(it));
                let wanted = wanted.map(|it| AkeyUpdate { cond: it.cond.bits(), ..prepared(it) });
                object.update(None, dkey, cond.bits(), wanted.collect()).await
            }
            WriteOp::PunchObject { cond } => object.punch(None, cond.bits()).await,
            WriteOp::PunchDkey { dkey, cond } | WriteOp::PunchAkeys { dkey, cond, .. } => {
                object.punch_dkey(None, dkey, cond.bits()).await
            }
        }
    }
}

/// True for a write that requires a read first, in the same transaction, for one of these reasons. DAOS punches a
/// missing object successfully, whatever the condition. An akey without records, or a dkey without akeys, would remain
/// after the punch of its last content, so it must be punched itself. DAOS checks at most one of the conditions on a
/// dkey and on an akey, and none if there is no akey. In a flat object, a dkey has only one akey, which is removed with
/// it.
fn is_checked_here(write: &Write<'_>) -> bool {
    match write.op {
        WriteOp::PunchObject { cond } => cond.has(Cond::PUNCH),
        WriteOp::Update { cond, updates, .. } => {
            let on_dkey = cond.intersects(Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE));
            updates.iter().all(is_nothing)
                || updates.iter().any(|it| matches!(it.value, Value::PunchExtents(_)))
                || on_dkey && updates.iter().any(|it| it.cond != Cond::NONE)
        }
        WriteOp::PunchDkey { .. } => false,
        WriteOp::PunchAkeys { akeys, .. } => !rules::is_flat(write.oid) || akeys != [FLAT_AKEY],
    }
}

/// The net effect of a change on an object, sent in its transaction.
impl Reader<'_> {
    /// Sends the net effect of a change on an object.
    async fn send(&self, net: &NetObject<'_>) -> Result<()> {
        if net.is_removed && !net.writes() {
            return self.object.punch(self.tx(), 0).await;
        }
        if net.is_removed {
            for dkey in self.stored_dkeys().await? {
                if !net.dkeys.contains_key(dkey.as_slice()) {
                    self.object.punch_dkey(self.tx(), &dkey, 0).await?;
                }
            }
        }
        for (dkey, net) in &net.dkeys {
            self.send_dkey(dkey, net).await?;
        }
        Ok(())
    }

    /// Sends the effect of a change on one dkey: what it removes, then what it writes.
    async fn send_dkey(&self, dkey: &[u8], net: &NetDkey<'_>) -> Result<()> {
        if net.is_removed && !net.writes() {
            return self.object.punch_dkey(self.tx(), dkey, 0).await;
        }
        let mut removed = Vec::new();
        if net.is_removed {
            removed = self.akeys(dkey).await?;
            removed.retain(|akey| !net.akeys.contains_key(akey.as_slice()));
        }
        // One call of DAOS takes one update of each akey: the first updates of all akeys, then the second ones, and so
        // on.
        let mut rounds = BTreeMap::<usize, Vec<AkeyUpdate>>::new();
        for (akey, net) in &net.akeys {
            let updates = self.updates_of(dkey, (akey, net), &mut removed).await?;
            let numbered = updates.into_iter().enumerate();
            numbered.for_each(|(round, update)| rounds.entry(round).or_default().push(update));
        }
        for updates in rounds.into_values() {
            self.object.update(self.tx(), dkey, 0, updates).await?;
        }
        if removed.is_empty() {
            return Ok(());
        }
        // A dkey that loses its last akey must be removed itself.
        match !net.writes() && !self.has_other_akey(dkey, &removed).await? {
            true => self.object.punch_dkey(self.tx(), dkey, 0).await,
            false => self.object.punch_akeys(self.tx(), dkey, removed, 0).await,
        }
    }

    /// True if a dkey has an akey that is not removed.
    async fn has_other_akey(&self, dkey: &[u8], removed: &[Vec<u8>]) -> Result<bool> {
        let removed: HashSet<&[u8]> = removed.iter().map(Vec::as_slice).collect();
        match rules::is_flat(self.oid) {
            true => Ok(!removed.contains(FLAT_AKEY) && self.has_akeys(dkey).await?),
            false => self.has_akey_that(dkey, |akey| !removed.contains(akey)).await,
        }
    }

    /// The updates of an akey, in order. An akey without remaining content is added to `removed`, the akeys to remove.
    /// Records of a missing akey are not punched, because DAOS would create the akey.
    async fn updates_of(
        &self,
        dkey: &[u8],
        (akey, net): (&[u8], &NetAkey<'_>),
        removed: &mut Vec<Vec<u8>>,
    ) -> Result<Vec<AkeyUpdate>> {
        let is_punch = |it: &Update<'_>| matches!(it.value, Value::PunchExtents(_));
        if net.writes() {
            let punches_first = net.records.first().is_some_and(|it| is_punch(it));
            let is_asked = net.single.is_none() && (net.is_removed || punches_first);
            let is_stored = is_asked && self.has_akey(dkey, akey).await?;
            // The akey must not be punched, because it is written in the same transaction: its records are.
            let cleared = (is_stored && net.is_removed).then(|| emptied(akey));
            let records = net.records.iter().skip_while(|it| is_punch(it) && !is_stored);
            let wanted = net.single.iter().chain(records).filter(|it| !is_nothing(it));
            return Ok(cleared.into_iter().chain(wanted.map(|it| prepared(it))).collect());
        }
        let left = self.left(dkey, (akey, net)).await?;
        if left == Survivors::None {
            removed.push(akey.to_vec());
        }
        if left == Survivors::Absent || net.is_removed {
            return Ok(Vec::new());
        }
        let punches = net.records.iter().filter(|it| is_punch(it) && !is_nothing(it));
        Ok(punches.map(|it| prepared(it)).collect())
    }
}

/// Creates an update that punches all records of an akey.
fn emptied(akey: &[u8]) -> AkeyUpdate {
    let content = Content::Punch(vec![Extent::new(0, RECORDS_END)]);
    AkeyUpdate { akey: akey.to_vec(), content, cond: 0 }
}

/// Refuses extents that DAOS does not accept: extents of one update that overlap, or end above [`RECORDS_END`].
fn check_extents(write: &Write<'_>) -> Result<()> {
    let WriteOp::Update { updates, .. } = write.op else { return Ok(()) };
    let fits = |update: &Update<'_>| match update.value {
        Value::Array { extents, .. } => are_apart(not_empty(extents)),
        Value::Single(_) | Value::PunchExtents(_) => true,
    };
    if updates.iter().all(fits) { Ok(()) } else { Err(unsupported_extents_error()) }
}

/// True if an update changes no record, because all of its extents are empty.
fn is_nothing(update: &Update<'_>) -> bool {
    match update.value {
        Value::Single(_) => false,
        Value::Array { extents, .. } => not_empty(extents).is_empty(),
        Value::PunchExtents(extents) => punched(extents).is_empty(),
    }
}

/// An update in the form of DAOS, without its condition.
fn prepared(update: &Update<'_>) -> AkeyUpdate {
    let content = match update.value {
        Value::Single(data) => Content::Single(data.part(0, data.len()).into_owned()),
        Value::Array { record_size, extents, data } => {
            let data = data.part(0, data.len()).into_owned();
            Content::Array { record_size, extents: not_empty(extents), data }
        }
        Value::PunchExtents(extents) => Content::Punch(punched(extents)),
    };
    AkeyUpdate { akey: update.akey.to_vec(), content, cond: 0 }
}

/// The extents without those that are empty, and without indexes above [`RECORDS_END`], where DAOS has no records.
fn punched(extents: &[Extent]) -> Vec<Extent> {
    let all = Extent::new(0, RECORDS_END);
    not_empty(extents).into_iter().filter_map(|extent| extent.intersect(all)).collect()
}

/// The extents that are not empty.
fn not_empty(extents: &[Extent]) -> Vec<Extent> {
    extents.iter().copied().filter(|extent| !extent.is_empty()).collect()
}

#[cold]
fn unsupported_extents_error() -> Error {
    let message = format!(
        "DAOS takes extents of one write that do not overlap and end at record {RECORDS_END} or before: write them one \
         after the other, or elsewhere"
    );
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn changed_read_error() -> Error {
    Error::new(
        ErrorKind::TxRestart,
        "data read by this transaction has changed: restart the transaction",
    )
}
