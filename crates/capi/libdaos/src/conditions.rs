//! Conditions of writes in a transaction. DAOS checks them when the function is called, and not at the commit
//! (`dc_tx_check_existence_task` and `dc_tx_add_update` in its `src/object/obj_tx.c`): a check is a read in the
//! transaction. So it does not see the transaction's own writes, and the commit fails if the data has changed since the
//! check.
use crate::code::{Code, Result};
use esker::types::ErrorKind;
use esker::types::ops::{Anchor, Cond, Fetch, ListLimit, Sink, Update};
use esker::{Access, Object};

/// Checks the conditions of an update of a dkey. In a transaction, removes them from the update, since they have been
/// checked. Returns the remaining condition on the dkey.
pub(crate) async fn check_update(
    object: &Object,
    dkey: &[u8],
    cond: Cond,
    updates: &mut [Update<'_>],
    access: Access<'_>,
) -> Result<Cond> {
    let Access::Tx(_) = access else { return Ok(cond) };
    let (insert, change) = (Cond::DKEY_INSERT, Cond::DKEY_UPDATE);
    if cond.intersects(insert.union(change)) {
        let exists = has_dkey(object, dkey, access).await?;
        check(exists, cond.has(insert), cond.has(change))?;
    }
    let (insert, change) = (Cond::AKEY_INSERT, Cond::AKEY_UPDATE);
    for update in updates.iter_mut().filter(|it| it.cond.intersects(insert.union(change))) {
        let exists = has_akey(object, dkey, update.akey, access).await?;
        check(exists, update.cond.has(insert), update.cond.has(change))?;
        update.cond = Cond::NONE;
    }
    Ok(Cond::NONE)
}

/// Checks the condition of a punch of a dkey, or of some of its akeys. Returns the remaining condition.
pub(crate) async fn check_punch(
    object: &Object,
    dkey: &[u8],
    akeys: &[&[u8]],
    cond: Cond,
    access: Access<'_>,
) -> Result<Cond> {
    let (Access::Tx(_), true) = (access, cond.has(Cond::PUNCH)) else { return Ok(cond) };
    if akeys.is_empty() {
        check(has_dkey(object, dkey, access).await?, false, true)?;
    }
    for akey in akeys {
        check(has_akey(object, dkey, akey, access).await?, false, true)?;
    }
    Ok(Cond::NONE)
}

/// Checks the condition of a punch of an object. Returns the remaining condition.
pub(crate) async fn check_object_punch(
    object: &Object,
    cond: Cond,
    access: Access<'_>,
) -> Result<Cond> {
    let (Access::Tx(_), true) = (access, cond.has(Cond::PUNCH)) else { return Ok(cond) };
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        // One dkey is enough: the object exists while it has any.
        let found = object.list_dkeys(&mut anchor, ListLimit::entries(1), access).await?;
        if !found.is_empty() {
            return Ok(Cond::NONE);
        }
    }
    Err(Code::NONEXIST)
}

/// `EXIST` if the key exists and the write `inserts` it; `NONEXIST` if it is missing and the write `changes` it.
fn check(exists: bool, inserts: bool, changes: bool) -> Result<()> {
    match exists {
        true if inserts => Err(Code::EXIST),
        false if changes => Err(Code::NONEXIST),
        _ => Ok(()),
    }
}

/// Whether the dkey exists.
async fn has_dkey(object: &Object, dkey: &[u8], access: Access<'_>) -> Result<bool> {
    condition_holds(object.fetch(dkey, Cond::DKEY_FETCH, &mut [], access).await)
}

/// Whether the akey exists.
async fn has_akey(object: &Object, dkey: &[u8], akey: &[u8], access: Access<'_>) -> Result<bool> {
    let mut fetch = Fetch::single(akey, Sink::None);
    fetch.request.cond = Cond::AKEY_FETCH;
    let fetches = std::slice::from_mut(&mut fetch);
    condition_holds(object.fetch(dkey, Cond::NONE, fetches, access).await)
}

/// Converts the result of a fetch to whether its condition holds: false if the key is missing. Other errors are
/// returned.
fn condition_holds(fetched: esker::types::Result<()>) -> Result<bool> {
    match fetched {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        fetched => Ok(fetched.map(|()| true)?),
    }
}
