//! Conditions of the writes of a change, checked in its transaction. Each depends on the stored state and on the
//! earlier writes of the change.
use super::listing::Survivors;
use super::net::{NetAkey, NetDkey, NetObject};
use super::read::Reader;
use super::rules::is_flat;
use esker_types::ops::{Cond, Update, WriteOp};
use esker_types::{Error, ErrorKind, FLAT_AKEY, Result};
use std::collections::BTreeSet;

/// The effect of the earlier writes on an object; `None` if there is none.
type Before<'a> = Option<&'a NetObject<'a>>;

impl Reader<'_> {
    /// Checks the conditions of a write against what is stored and what the writes `before` it in the same change do.
    /// Fails if one is not fulfilled.
    ///
    /// # Errors
    /// `Exists` or `NotFound` for a condition that does not hold; errors of DAOS.
    pub(super) async fn check(&self, before: Before<'_>, op: &WriteOp<'_>) -> Result<()> {
        match *op {
            WriteOp::Update { dkey, cond, updates } => {
                self.check_dkey(before, dkey, cond).await?;
                for update in updates {
                    self.check_akey(before, dkey, update).await?;
                }
                Ok(())
            }
            WriteOp::PunchObject { cond } if cond.has(Cond::PUNCH) => {
                expect_exists("object", self.exists_after(before).await?)
            }
            WriteOp::PunchDkey { dkey, cond } if cond.has(Cond::PUNCH) => {
                expect_exists("dkey", self.has_dkey_after(before, dkey).await?)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } if cond.has(Cond::PUNCH) => {
                for akey in akeys {
                    expect_exists("akey", self.has_akey_after(before, dkey, akey).await?)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks the condition of an update on its dkey.
    async fn check_dkey(&self, before: Before<'_>, dkey: &[u8], cond: Cond) -> Result<()> {
        let (insert, change) = (Cond::DKEY_INSERT, Cond::DKEY_UPDATE);
        if !cond.intersects(insert.union(change)) {
            return Ok(());
        }
        let exists = self.has_dkey_after(before, dkey).await?;
        check_existence("dkey", exists, cond.has(insert), cond.has(change))
    }

    /// Checks the condition of an update on its akey.
    async fn check_akey(&self, before: Before<'_>, dkey: &[u8], update: &Update<'_>) -> Result<()> {
        let (insert, change) = (Cond::AKEY_INSERT, Cond::AKEY_UPDATE);
        if !update.cond.intersects(insert.union(change)) {
            return Ok(());
        }
        let exists = self.has_akey_after(before, dkey, update.akey).await?;
        check_existence("akey", exists, update.cond.has(insert), update.cond.has(change))
    }

    /// True if the object exists after the writes `before` this one in the same change.
    async fn exists_after(&self, before: Before<'_>) -> Result<bool> {
        let Some(object) = before else { return self.exists().await };
        let mut dkeys: BTreeSet<Vec<u8>> = object.dkeys.keys().map(|dkey| dkey.to_vec()).collect();
        if !object.is_removed {
            dkeys.extend(self.stored_dkeys().await?);
        }
        for dkey in dkeys {
            if self.has_dkey_after(before, &dkey).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the dkey exists after the writes `before` this one in the same change.
    async fn has_dkey_after(&self, before: Before<'_>, dkey: &[u8]) -> Result<bool> {
        let Some(object) = before else { return self.has_akeys(dkey).await };
        match object.dkeys.get(dkey) {
            Some(net) if net.writes() => Ok(true),
            Some(net) => self.has_akeys_after(before, dkey, net).await,
            None => Ok(!object.is_removed && self.has_akeys(dkey).await?),
        }
    }

    /// True if the change, whose effect on the dkey is `net`, leaves one of the stored akeys of the dkey.
    async fn has_akeys_after(
        &self,
        before: Before<'_>,
        dkey: &[u8],
        net: &NetDkey<'_>,
    ) -> Result<bool> {
        if net.is_removed {
            return Ok(false);
        }
        for akey in self.akeys(dkey).await? {
            if self.has_akey_after(before, dkey, &akey).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the akey exists after the writes `before` this one in the same change.
    async fn has_akey_after(&self, before: Before<'_>, dkey: &[u8], akey: &[u8]) -> Result<bool> {
        let Some(object) = before else { return self.has_akey(dkey, akey).await };
        let Some(net) = object.dkeys.get(dkey) else {
            return Ok(!object.is_removed && self.has_akey(dkey, akey).await?);
        };
        match net.akeys.get(akey) {
            Some(net) => Ok(self.left(dkey, (akey, net)).await? == Survivors::Some),
            None => Ok(!net.is_removed && self.has_akey(dkey, akey).await?),
        }
    }

    /// The state of an akey after the earlier writes, whose effect on it is `net`.
    pub(super) async fn left(
        &self,
        dkey: &[u8],
        (akey, net): (&[u8], &NetAkey<'_>),
    ) -> Result<Survivors> {
        match net {
            net if net.writes() => Ok(Survivors::Some),
            NetAkey { is_removed: true, .. } => Ok(Survivors::None),
            NetAkey { punched, .. } if punched.is_empty() => {
                let exists = self.has_akey(dkey, akey).await?;
                Ok(if exists { Survivors::Some } else { Survivors::Absent })
            }
            NetAkey { punched, .. } => self.survivors((dkey, akey), punched).await,
        }
    }

    /// Returns the akeys of a dkey. For a flat object, no listing is necessary: a dkey that exists has one known akey.
    pub(super) async fn akeys(&self, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        match is_flat(self.oid) {
            true => {
                Ok(self.has_akeys(dkey).await?.then(|| FLAT_AKEY.to_vec()).into_iter().collect())
            }
            false => self.stored_akeys(dkey).await,
        }
    }
}

/// Checks the conditions that something must not exist (`inserts`), or must exist (`changes`). `what` names it in
/// errors.
fn check_existence(what: &str, exists: bool, inserts: bool, changes: bool) -> Result<()> {
    match exists {
        true if inserts => Err(Error::new(ErrorKind::Exists, format!("the {what} exists"))),
        false if changes => {
            Err(Error::new(ErrorKind::NotFound, format!("the {what} does not exist")))
        }
        _ => Ok(()),
    }
}

/// Fails with `NotFound` if something does not exist that must exist; `what` names it.
fn expect_exists(what: &str, exists: bool) -> Result<()> {
    check_existence(what, exists, false, true)
}
