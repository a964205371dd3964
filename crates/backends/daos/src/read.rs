//! Readers of one object, at the latest state, in a snapshot, or in a transaction of DAOS that verifies what was read.
use super::container::Opened;
use super::proof::{Digest, Read};
use crate::binding::{Object, Tx};
use esker_types::ops::{KeyQuery, ReadTokens, View};
use esker_types::{Epoch, ObjectId, Result};

/// Reads an object.
pub(super) struct Reader<'a> {
    pub(super) opened: &'a Opened,
    pub(super) object: Object,
    pub(super) oid: ObjectId,
    /// The snapshot, or the transaction.
    pub(super) tx: Option<Tx>,
    pub(super) view: View,
    pub(super) tokens: Option<&'a ReadTokens>,
}

impl Reader<'_> {
    pub(super) fn tx(&self) -> Option<&Tx> {
        self.tx.as_ref()
    }

    /// True within a transaction of DAOS.
    pub(super) fn is_transaction(&self) -> bool {
        self.tx.is_some() && self.view == View::Latest
    }

    /// Notes what was read, if somebody wants to prove it later. Snapshots do not change.
    pub(super) fn note(&self, read: impl FnOnce() -> Read, digest: impl FnOnce() -> Digest) {
        if let (Some(tokens), View::Latest) = (self.tokens, self.view) {
            tokens.add(&read().to_token(self.oid, digest()));
        }
    }

    /// The epoch of the object's last modification; zero if it has no key, or not the dkey that is asked for: DAOS does not
    /// tell when that changed. In a snapshot DAOS tells the latest modification of all, so it is at most the epoch of the
    /// snapshot.
    pub(super) async fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        if dkey.is_some() && self.query(KeyQuery { dkey, ..KeyQuery::FIRST_DKEY }).await?.is_none()
        {
            return Ok(Epoch::default());
        }
        let epoch = self.latest_epoch().await?;
        self.note(|| Read::Epoch, || Digest::of_number(epoch.0));
        Ok(epoch)
    }

    /// The epoch of the latest change of all keys. It is asked for outside a transaction, because libdaos ends the program
    /// when a transaction commits that asked for it. The transaction has listed the dkeys before, so a change between
    /// its epoch and this answer either restarts it or is in the answer.
    pub(super) async fn latest_epoch(&self) -> Result<Epoch> {
        if !self.exists().await? {
            return Ok(Epoch::default());
        }
        let tx = self.tx().filter(|_| !self.is_transaction());
        let epoch = Epoch(self.object.max_epoch(tx).await?);
        Ok(match self.view {
            View::Latest => epoch,
            View::Snapshot(taken) => epoch.min(taken),
        })
    }
}
