//! Draining: what is written to one container arrives in another, and goes from the first.
use super::progress::add;
use super::state::{self, Drained};
use super::stride::{Stride, Walk};
use super::{Options, Progress, Summary, check};
use crate::access::Access;
use crate::container::Container;
use crate::pool::Pool;
use esker_os::executor::Wait;
use esker_types::check_label;
use esker_types::ops::{Anchor, Cond};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};

/// A drain under way: call [`Drain::round`] again and again.
pub struct Drain<'a> {
    from: &'a Container,
    to: Container,
    options: &'a Options,
    progress: &'a Progress,
    keep: bool,
    state: Drained,
}

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Objects that were new or had changed, and were copied.
    pub copied: u64,
    /// Objects that had not changed since they were copied, and were removed from the source.
    pub removed: u64,
    /// Objects that stay for the next round.
    pub left: u64,
}

impl Round {
    /// True where nothing was to be done, and nothing is.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

impl<'a> Drain<'a> {
    /// Begins to drain `from` into the container `label` of `pool`, which is made where it is not there; goes
    /// on with a drain that ended. With `keep` nothing is removed.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] where the source has no snapshots and transactions: what changes
    /// could not be told from what does not; [`ErrorKind::Exists`] where the container is somebody else's.
    pub fn begin(
        from: &'a Container,
        pool: &Pool,
        label: &str,
        keep: bool,
        options: &'a Options,
        progress: &'a Progress,
    ) -> Result<Self> {
        check_label(label)?;
        let able = from.capabilities();
        if !able.snapshots || !able.transactions {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "a container can be drained where its pool has snapshots and transactions, and this one has \
                 not: use `esker cont copy`",
            ));
        }
        let (to, state) = state::begin_drain(from, pool, label)?;
        Ok(Self { from, to, options, progress, keep, state })
    }

    /// Where it goes.
    #[must_use]
    pub fn target(&self) -> &Container {
        &self.to
    }

    /// Copies what changed since the last round, as it is at this moment, and removes what has not changed
    /// since it was copied. An object goes by a transaction that proves that it is still the one
    /// which the target has; what was copied is noted in the target first.
    ///
    /// # Errors
    /// Those of [`super::copy`]; nothing is lost, and the next round does what this one did not.
    pub fn round(&mut self) -> Result<Round> {
        let snapshot = state::new_snapshot(self.from, &self.to)?;
        let result = self.round_at(snapshot);
        let destroyed = self.from.destroy_snapshot(snapshot).wait();
        let round = result?;
        destroyed.map(|()| round)
    }

    fn round_at(&mut self, snapshot: Epoch) -> Result<Round> {
        let access = Access::Snapshot(snapshot);
        let (from, to, options, progress) = (self.from, &self.to, self.options, self.progress);
        let walk = Walk { from, to, options, progress, access };
        // What looks like a hole may have been drained before; where it was none, it becomes zeros.
        let (able, zeros) = (to.capabilities(), Options { zeros: true, ..options.clone() });
        let (mut round, mut stride) = (Round::default(), Stride::default());
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            for oid in from.list_objects(&mut anchor, super::stride::OBJECTS, access).wait()? {
                if from.object(oid).epoch(access).wait()? > self.state.until {
                    check::object(&from.object(oid), able, access, &zeros)?;
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
            from.at(snapshot).wait()?;
            state::copy_metadata(from, to)?;
            state::copy_next_oid(from, to)?;
            self.state.until = snapshot;
            self.state.save(to)?;
        }
        if !self.keep {
            round.left += round.copied;
        }
        Ok(round)
    }

    /// Whoever writes to it meanwhile comes before or after, and the object stays.
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

    /// All that was done so far.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let epoch = Some(self.state.until).filter(|epoch| *epoch > Epoch(0));
        Summary { epoch, resumed: self.state.resumed, ..self.progress.summary() }
    }
}
