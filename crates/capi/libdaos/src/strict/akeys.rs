//! Akeys in strict mode. DAOS remembers the kind of value and the record size of a removed akey. It also keeps an akey
//! whose records were all punched.
use super::{is_flat, is_on};
use crate::code::{Code, Result};
use esker::types::ops::{Anchor, ListLimit};
use esker::types::{FLAT_AKEY, ObjectId, Uuid};
use esker::{Access, Container, Object, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Change of an akey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) akey: &'a [u8],
    pub(crate) content: Content,
}

/// New content of an akey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Single,
    /// Records of this size.
    Records(u64),
    /// Records are removed.
    Punch,
}

/// Kind of value of an akey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Single,
    /// Records of this size; 0 if records were only punched.
    Array(u64),
}

/// Identifies an akey of any container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    container: [u8; 16],
    oid: ObjectId,
    dkey: Vec<u8>,
    /// Empty in flat objects.
    akey: Vec<u8>,
}

/// Kinds of the akeys that this process has written.
static KINDS: Mutex<BTreeMap<Name, Kind>> = Mutex::new(BTreeMap::new());

/// Changes of open transactions, by the address of each.
static BUFFERED: Mutex<BTreeMap<usize, Buffered>> = Mutex::new(BTreeMap::new());

/// Akeys that a transaction is about to change.
#[derive(Default)]
pub(crate) struct Buffered {
    /// Akeys with a new value or new records.
    written: BTreeSet<Name>,
    /// Akeys of which records are punched.
    punched: BTreeSet<Name>,
    removed: Vec<Removal>,
}

/// An object, a dkey, or akeys that a transaction is about to remove.
struct Removal {
    oid: ObjectId,
    dkey: Option<Vec<u8>>,
    akeys: Option<Vec<Vec<u8>>>,
}

impl Removal {
    /// True if the punch removes the akey.
    fn covers(&self, name: &Name) -> bool {
        name.oid == self.oid
            && self.dkey.as_ref().is_none_or(|dkey| name.dkey == *dkey)
            && self.akeys.as_ref().is_none_or(|akeys| akeys.contains(&name.akey))
    }
}

/// Locks a mutex, even if a thread panicked while it held the lock.
fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of the transaction in [`BUFFERED`].
fn address(tx: &Transaction) -> usize {
    std::ptr::from_ref(tx) as usize
}

/// Identifies an akey of an object in a container.
fn name(container: Uuid, oid: ObjectId, dkey: &[u8], akey: &[u8]) -> Name {
    let akey = if is_flat(oid) { Vec::new() } else { akey.to_vec() };
    Name { container: container.0, oid, dkey: dkey.to_vec(), akey }
}

/// Identifies an akey of an object.
fn name_in(object: &Object, dkey: &[u8], akey: &[u8]) -> Name {
    name(object.container().info().uuid, object.oid(), dkey, akey)
}

impl Kind {
    /// Refuses a change to another kind of value (`NO_PERM`) or to another record size (`INVAL`).
    fn check(self, content: Content) -> Result<()> {
        match (self, content) {
            (Self::Single, Content::Single)
            | (Self::Array(_), Content::Punch)
            | (Self::Array(0), Content::Records(_)) => Ok(()),
            (Self::Array(stored), Content::Records(size)) if stored == size => Ok(()),
            (Self::Array(_), Content::Records(_)) => Err(Code::INVAL),
            _ => Err(Code::NO_PERM),
        }
    }

    /// Returns the kind of value that an akey has after a change. After a punch, that is the kind it had before, or an
    /// array if it had none.
    fn after(before: Option<Self>, content: Content) -> Self {
        match (before, content) {
            (_, Content::Single) => Self::Single,
            (_, Content::Records(size)) => Self::Array(size),
            (before, Content::Punch) => before.unwrap_or(Self::Array(0)),
        }
    }
}

/// Refuses three changes. An akey must not get another kind of value than it had. Records of a missing akey must not be
/// punched, since DAOS would create the akey. A key that the transaction has punched must not be updated, since later
/// updates that depend on the key would find it absent.
pub(crate) async fn check(
    object: &Object,
    dkey: &[u8],
    changes: &[Change<'_>],
    access: Access<'_>,
) -> Result<()> {
    for change in changes {
        let name = name_in(object, dkey, change.akey);
        let kind = locked(&KINDS).get(&name).copied();
        kind.map_or(Ok(()), |kind| kind.check(change.content))?;
        if is_removed(&name, access) {
            return Err(Code::INVAL);
        }
        let is_made = change.content == Content::Punch
            && !is_buffered(&name, access)
            && !exists(object, dkey, change.akey).await?;
        if is_made {
            return Err(Code::INVAL);
        }
    }
    Ok(())
}

/// Records the kinds of changed akeys. Refuses an update after which an akey has no records, because DAOS would keep
/// the akey.
pub(crate) async fn finish(
    object: &Object,
    dkey: &[u8],
    changes: &[Change<'_>],
    access: Access<'_>,
) -> Result<()> {
    for change in changes {
        let name = name_in(object, dkey, change.akey);
        note_kind(&name, change.content);
        match (access, change.content) {
            (Access::Tx(tx), content) => buffer(tx, name, content),
            (_, Content::Punch) => expect_exists(object, dkey, change.akey).await?,
            _ => {}
        }
    }
    Ok(())
}

/// Records the kind of value that an akey has now.
fn note_kind(name: &Name, content: Content) {
    let mut kinds = locked(&KINDS);
    let kind = Kind::after(kinds.get(name).copied(), content);
    kinds.insert(name.clone(), kind);
}

/// Whether the transaction has written the akey and not punched it afterwards.
fn is_buffered(name: &Name, access: Access<'_>) -> bool {
    let Access::Tx(tx) = access else { return false };
    locked(&BUFFERED).get(&address(tx)).is_some_and(|buffered| buffered.written.contains(name))
}

/// Whether the transaction has already removed the akey.
fn is_removed(name: &Name, access: Access<'_>) -> bool {
    let Access::Tx(tx) = access else { return false };
    let covers = |buffered: &Buffered| buffered.removed.iter().any(|removal| removal.covers(name));
    locked(&BUFFERED).get(&address(tx)).is_some_and(covers)
}

/// Records a change in a transaction that is not committed yet.
fn buffer(tx: &Transaction, name: Name, content: Content) {
    let mut all = locked(&BUFFERED);
    let buffered = all.entry(address(tx)).or_default();
    match content {
        Content::Punch => buffered.punched.insert(name),
        _ => buffered.written.insert(name),
    };
}

/// Records that a transaction will remove an object, the `dkey` of it, or the `akeys` of that. Does nothing outside a
/// transaction.
pub(crate) fn note_punch(
    object: &Object,
    dkey: Option<&[u8]>,
    akeys: Option<&[&[u8]]>,
    access: Access<'_>,
) {
    let Access::Tx(tx) = access else { return };
    let removal = Removal {
        oid: object.oid(),
        dkey: dkey.map(<[u8]>::to_vec),
        akeys: akeys.map(|akeys| akeys.iter().map(|akey| akey.to_vec()).collect()),
    };
    let mut all = locked(&BUFFERED);
    let buffered = all.entry(address(tx)).or_default();
    buffered.punched.retain(|name| !removal.covers(name));
    buffered.written.retain(|name| !removal.covers(name));
    buffered.removed.push(removal);
}

/// Removes and returns the recorded changes of a transaction that ends or restarts.
pub(crate) fn take(tx: &Transaction) -> Option<Buffered> {
    if is_on() { locked(&BUFFERED).remove(&address(tx)) } else { None }
}

/// Refuses a commit after which an akey exists without records, because DAOS would keep the akey.
pub(crate) async fn check_committed(
    container: &Container,
    buffered: Option<Buffered>,
) -> Result<()> {
    for name in buffered.into_iter().flat_map(|buffered| buffered.punched) {
        let akey = if is_flat(name.oid) { FLAT_AKEY } else { &name.akey };
        expect_exists(&container.object(name.oid), &name.dkey, akey).await?;
    }
    Ok(())
}

/// `INVAL` unless the akey exists.
async fn expect_exists(object: &Object, dkey: &[u8], akey: &[u8]) -> Result<()> {
    if exists(object, dkey, akey).await? { Ok(()) } else { Err(Code::INVAL) }
}

/// True if the dkey has this akey in the latest state.
async fn exists(object: &Object, dkey: &[u8], akey: &[u8]) -> Result<bool> {
    let (mut anchor, limit) = (Anchor::Start, ListLimit::entries(1000));
    while !anchor.is_end() {
        let page = object.list_akeys(dkey, &mut anchor, limit, Access::Latest).await?;
        if page.iter().any(|other| other == akey) {
            return Ok(true);
        }
    }
    Ok(false)
}
