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
    /// The snapshot or transaction to read in; `None` for the latest state.
    pub(super) fn tx(&self) -> Option<&Tx> {
        self.tx.as_ref()
    }

    /// True if reads are part of a transaction of DAOS. Reads of a snapshot are not.
    pub(super) fn is_transaction(&self) -> bool {
        self.tx.is_some() && self.view == View::Latest
    }

    /// Records a read, if the caller wants to verify it later. Reads of snapshots are not recorded, since snapshots do
    /// not change.
    pub(super) fn note(&self, read: impl FnOnce() -> Read, digest: impl FnOnce() -> Digest) {
        if let (Some(tokens), View::Latest) = (self.tokens, self.view) {
            tokens.add(&read().to_token(self.oid, digest()));
        }
    }

    /// The epoch of the object's last modification. DAOS does not report it for a single dkey, so a query for a dkey
    /// returns it as well. Zero if the object has no key, or not this dkey. For a snapshot, DAOS returns the epoch of
    /// the latest state, which is limited to the epoch of the snapshot.
    pub(super) async fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        if dkey.is_some() && self.query(KeyQuery { dkey, ..KeyQuery::FIRST_DKEY }).await?.is_none()
        {
            return Ok(Epoch::default());
        }
        let epoch = self.latest_epoch().await?;
        self.note(|| Read::Epoch, || Digest::of_number(epoch.0));
        Ok(epoch)
    }

    /// The epoch of the latest change of all keys. It is queried outside the transaction: libdaos ends the program when
    /// a transaction commits that has queried it. The transaction has listed the dkeys before. So a change after the
    /// epoch of the transaction either restarts the transaction or is included in the result.
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
