//! State of a container that an operation works on: the latest, a snapshot, or that of a transaction.
use crate::container::Container;
use crate::transaction::{Reading, Transaction};
use esker_types::ops::{Anchor, Change, View, Write};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};

/// State that an operation reads, and destination of its writes (DAOS: the `th` argument).
#[derive(Clone, Copy, Default)]
pub enum Access<'a> {
    /// Reads see everything committed so far; writes take effect at once (DAOS: `DAOS_TX_NONE`).
    #[default]
    Latest,
    /// Reads see the snapshot of this epoch; writes fail with [`esker_types::ErrorKind::NoPermission`].
    Snapshot(Epoch),
    /// Reads are recorded, and the commit verifies that they still hold; writes are buffered until the commit. Reads
    /// do not see the transaction's own writes.
    Tx(&'a Transaction),
}

impl<'a> From<&'a Transaction> for Access<'a> {
    fn from(transaction: &'a Transaction) -> Self {
        Self::Tx(transaction)
    }
}

impl Access<'_> {
    /// The view of a read, and the attempt of the transaction that records it. Fails if the transaction has ended, or
    /// belongs to another container.
    pub(crate) fn reading(self, container: &Container) -> Result<Reading> {
        match self {
            Self::Latest => Ok(Reading { view: View::Latest, attempt: None }),
            Self::Snapshot(epoch) => Ok(Reading { view: View::Snapshot(epoch), attempt: None }),
            Self::Tx(transaction) => transaction.reading(container),
        }
    }
}

/// Reads and writes of a container as a whole.
impl Container {
    /// The view of an existing snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none at `epoch`.
    pub async fn at(&self, epoch: Epoch) -> Result<Access<'static>> {
        self.check_snapshot(epoch).await?;
        Ok(Access::Snapshot(epoch))
    }

    /// At most `entries` objects after `anchor`, which is advanced, of the latest state or a snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] in a transaction that does not read a snapshot, because its commit could not
    /// verify that no object was added or removed; errors of the backend.
    pub async fn list_objects(
        &self,
        anchor: &mut Anchor,
        entries: usize,
        access: Access<'_>,
    ) -> Result<Vec<ObjectId>> {
        let reading = access.reading(self)?;
        if reading.attempt.is_some() {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "objects cannot be listed in a transaction; use a snapshot",
            ));
        }
        self.opened()?.list_objects(anchor, entries, reading.at()).await
    }

    /// Applies `writes`, to any objects of the container, at one epoch and all or none. In a transaction they are
    /// buffered until its commit.
    ///
    /// # Errors
    /// Errors of the operations; [`ErrorKind::NoPermission`] for a snapshot and if the container is open read-only.
    pub async fn write(&self, writes: &[Write<'_>], access: Access<'_>) -> Result<()> {
        self.apply(Change::from_writes(writes), access).await
    }

    /// Applies writes. On a pool over nodes, each is applied as a whole, independent of the others.
    pub(crate) async fn write_by_node(
        &self,
        writes: &[Write<'_>],
        access: Access<'_>,
    ) -> Result<()> {
        self.apply(Change { one_by_one: true, ..Change::from_writes(writes) }, access).await
    }

    /// Makes a change at once, or buffers it in a transaction.
    async fn apply(&self, change: Change<'_>, access: Access<'_>) -> Result<()> {
        let opened = self.writable()?;
        match access {
            Access::Latest => opened.write(change).await.map(drop),
            Access::Tx(transaction) => transaction.buffer(self, change.writes),
            Access::Snapshot(_) => Err(Error::new(
                ErrorKind::NoPermission,
                "a snapshot is read-only: write to the latest state",
            )),
        }
    }
}
