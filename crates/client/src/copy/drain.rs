//! Draining: copies new data of one container to another, and removes it from the first.
use super::drain_lock::DrainLock;
use super::marks::Marks;
use super::progress::add;
use super::state::{self, DrainState};
use super::stride::{Stride, Walk};
use super::{Options, Progress, Summary, check};
use crate::access::Access;
use crate::container::Container;
use crate::pool::Pool;
use esker_os::executor::Wait;
use esker_types::check_label;
use esker_types::ops::{Anchor, Cond};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};

/// A drain in progress. Call [`Drain::round`] repeatedly.
pub struct Drain<'a> {
    from: &'a Container,
    to: Container,
    options: &'a Options,
    progress: &'a Progress,
    keep: bool,
    state: DrainState,
    /// Released last.
    _lock: DrainLock,
}

/// The result of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Objects that were new or modified, and were copied.
    pub copied: u64,
    /// Objects that were unmodified since they were copied, and were removed from the source.
    pub removed: u64,
    /// Objects left for the next round.
    pub left: u64,
}

impl Round {
    /// True if the round copied and removed nothing, and left nothing for the next.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

impl<'a> Drain<'a> {
    /// Starts to drain `from` into the container `label` of `pool`, which is created if it does not exist. Continues
    /// an earlier drain. With `keep`, nothing is removed from the source.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the options name a snapshot: a drain follows the latest state;
    /// [`ErrorKind::NotSupported`] if the source has no snapshots and transactions, so that modified objects cannot
    /// be told from unmodified ones; [`ErrorKind::Busy`] if another process drains the source; [`ErrorKind::Exists`] if
    /// the destination was not made by this drain.
    pub fn begin(
        from: &'a Container,
        pool: &Pool,
        label: &str,
        keep: bool,
        options: &'a Options,
        progress: &'a Progress,
    ) -> Result<Self> {
        check_label(label)?;
        if options.snapshot.is_some() {
            let why = "a drain follows the latest state of the source: give no snapshot";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        let capabilities = from.capabilities();
        if !capabilities.snapshots || !capabilities.transactions {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "draining needs a pool with snapshots and transactions, which this one does not have: use \
                 `esker cont copy` instead",
            ));
        }
        let lock = DrainLock::take(from)?;
        let (to, state) = state::begin_drain(from, pool, label)?;
        Ok(Self { from, to, options, progress, keep, state, _lock: lock })
    }

    /// The container to which objects are copied.
    #[must_use]
    pub fn destination(&self) -> &Container {
        &self.to
    }

    /// Takes a snapshot and copies the objects that changed since the last round. Removes from the source the objects
    /// that have not changed since they were copied. Each is removed by a transaction that fails if the object was
    /// changed. The destination syncs its copies and records them before any later round removes the objects.
    ///
    /// # Errors
    /// The errors of [`super::copy`]. No data is lost: the next round continues this one.
    pub fn round(&mut self) -> Result<Round> {
        let snapshot = state::new_snapshot(self.from, &self.to)?;
        let result = self.round_at(snapshot);
        let destroyed = self.from.destroy_snapshot(snapshot).wait();
        // The error of the round says more than that of the snapshot.
        let round = result?;
        destroyed.map(|()| round)
    }

    /// Copies what has changed between the last round and `snapshot`.
    fn round_at(&mut self, snapshot: Epoch) -> Result<Round> {
        let access = Access::Snapshot(snapshot);
        let (from, to, options, progress) = (self.from, &self.to, self.options, self.progress);
        let marks = Marks::between(from, to)?;
        let walk = Walk { from, to, options, progress, marks, access };
        // Holes are not refused, as an earlier round may have moved the data that seems to be missing. True holes
        // become zeros.
        let (able, zeros) = (to.capabilities(), Options { zeros: true, ..options.clone() });
        let (mut round, mut stride) = (Round::default(), Stride::default());
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            for oid in from.list_objects(&mut anchor, super::stride::OBJECTS, access).wait()? {
                if from.object(oid).epoch(access).wait()? > self.state.until {
                    check::check_object(&from.object(oid), able, access, &zeros)?;
                    walk.add(oid, &mut stride)?;
                    round.copied += 1;
                } else if !self.keep {
                    self.remove(oid, &mut round)?;
                }
            }
            walk.copy_if_long(&mut stride)?;
        }
        walk.copy(&mut stride)?;
        if round.copied > 0 {
            // Fails if the snapshot was destroyed meanwhile: objects may then have seemed empty.
            from.at(snapshot).wait()?;
        }
        let is_changed = state::copy_metadata(from, to)?;
        if is_changed || round.copied > 0 {
            // Later rounds remove the originals, which may survive power loss.
            to.sync().wait()?;
        }
        if round.copied > 0 {
            self.state.until = snapshot;
            self.state.save(to)?;
        }
        if !self.keep {
            round.left += round.copied;
        }
        Ok(round)
    }

    /// Removes a copied object from the source, in a transaction. If the object was written after it was copied, or is
    /// written before this transaction commits, it stays and counts as left.
    fn remove(&self, oid: ObjectId, round: &mut Round) -> Result<()> {
        let transaction = self.from.transaction()?;
        let (object, access) = (self.from.object(oid), Access::Tx(&transaction));
        if object.epoch(access).wait()? > self.state.until {
            round.left += 1;
            return Ok(());
        }
        object.punch(Cond::NONE, access).wait()?;
        match transaction.commit().wait() {
            Ok(()) => {
                round.removed += 1;
                add(&self.progress.removed, 1);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::TxRestart => {
                round.left += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Totals of all rounds.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let epoch = Some(self.state.until).filter(|epoch| *epoch > Epoch(0));
        Summary { epoch, resumed: self.state.resumed, ..self.progress.summary() }
    }
}
