//! A small client of a pool over nodes, for tests. It opens the pools of all nodes itself, commits in two phases, and
//! resolves commits that other clients have left in doubt.
//!
//! It stores numbers under numbered keys. Each value is longer than an inline value, so that it uses a segment.
use esker_backend::{NewContainer, OpenContainer, Placement, Pool};
use esker_types::info::{ContainerRef, OpenMode, Part};
use esker_types::ops::{
    Change, Commit, CommitId, Cond, DkeyFetch, Fetch, Outcome, Preparation, ReadAt, ReadTokens,
    Sink, Source, Update, Value, View, Write, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a value.
const LEN: usize = 3000;

/// Attempts of an operation that is blocked by a commit in doubt, before it aborts that commit.
const ATTEMPTS: u32 = 50;

/// The pools of all nodes, with one container.
pub struct Parts {
    pools: Vec<Arc<dyn Pool>>,
    containers: Vec<Box<dyn OpenContainer>>,
    oid: ObjectId,
    placement: Placement,
    /// Number of this client. It is part of the ids of its commits, which are unique because no other client has it.
    origin: u64,
    commits: AtomicU64,
}

impl Parts {
    /// A client of these pools, one per node in the order of nodes. Creates the container if it does not exist, and
    /// opens it on each node. `origin` is the number of the client: no other client may have the same.
    ///
    /// # Errors
    /// The errors of creating and opening the container.
    pub fn open(pools: Vec<Arc<dyn Pool>>, origin: u64) -> Result<Self> {
        let nodes = pools.len() as u32;
        let targets = pools.first().map_or(1, |pool| pool.capabilities().targets);
        let placement = Placement::new(targets / nodes, Part { node: 0, nodes });
        let class = ObjectClass::SX.fit(targets, 1).map_err(|_| ErrorKind::Invalid)?;
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, class);
        let mut parts = Self {
            pools,
            containers: Vec::new(),
            oid,
            placement,
            origin,
            commits: AtomicU64::new(0),
        };
        for node in 0..parts.pools.len() {
            let container = parts.resolved(node, || open_container(&*parts.pools[node]))?;
            parts.containers.push(container);
        }
        Ok(parts)
    }

    /// The pool of a node.
    #[must_use]
    pub fn pool(&self, node: usize) -> &dyn Pool {
        &*self.pools[node]
    }

    /// The container on a node.
    #[must_use]
    pub fn container(&self, node: usize) -> &dyn OpenContainer {
        &*self.containers[node]
    }

    /// A new commit, coordinated by a node.
    #[must_use]
    pub fn new_commit(&self, coordinator: usize) -> Commit {
        let number = self.commits.fetch_add(1, Ordering::Relaxed);
        // The start is earlier than the clock of every node: real clients do not know these clocks either.
        self.commit_from(Epoch(number), coordinator)
    }

    /// A new commit that starts at epoch `start`. No other commit of this client may have the same start.
    #[must_use]
    pub fn commit_from(&self, start: Epoch, coordinator: usize) -> Commit {
        let id = CommitId::new(start, Uuid(u128::from(self.origin).to_be_bytes()));
        Commit { id, coordinator: coordinator as u32 }
    }

    /// The key for `number` on a node: the number-th of the keys that the placement stores there.
    fn dkey(&self, node: usize, number: u64) -> Vec<u8> {
        let keys = (0..u64::MAX).map(|key| format!("key {key}").into_bytes());
        let mut here = keys.filter(|key| {
            self.placement.locate(self.placement.shard(self.oid, key)).node as usize == node
        });
        here.nth(number as usize).unwrap_or_default()
    }

    /// Builds the write of `value` as number `number` of a node, and calls `work` with it.
    fn with_write<T>(
        &self,
        (node, number, value): (usize, u64, u64),
        work: impl FnOnce(Write<'_>) -> T,
    ) -> T {
        let dkey = self.dkey(node, number);
        let mut bytes = vec![value as u8; LEN];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let value = Value::Single(Source::One(&bytes));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates };
        work(Write { oid: self.oid, op })
    }

    /// Reads a number once; 0 if there is none.
    ///
    /// # Errors
    /// `InDoubt` if a commit blocks it, and those of reads.
    pub fn try_get(&self, node: usize, number: u64, at: ReadAt<'_>) -> Result<u64> {
        let mut value = vec![0; LEN];
        let mut akeys = [Fetch::single(b"a", Sink::One(&mut value))];
        let dkey = self.dkey(node, number);
        let mut dkeys = [DkeyFetch { dkey: &dkey, cond: Cond::NONE, akeys: &mut akeys }];
        self.containers[node].fetch(self.oid, &mut dkeys, at).wait()?;
        let size = akeys[0].reply.size as usize;
        let (number, rest) = value.split_at(8);
        let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
        let is_whole = size == 0 || rest.iter().all(|byte| *byte == number as u8);
        if is_whole { Ok(number) } else { Err(ErrorKind::Corrupt.into()) }
    }

    /// Writes a number once.
    ///
    /// # Errors
    /// `InDoubt` if a commit blocks it, and those of writes.
    pub fn try_put(&self, node: usize, number: u64, value: u64) -> Result<Epoch> {
        self.with_write((node, number, value), |write| {
            self.containers[node].write(Change::from_writes(&[write])).wait()
        })
    }

    /// Prepares the write of a number: `put` is the node, the number and its value. The write depends on the reads of
    /// `tokens`.
    ///
    /// # Errors
    /// The errors of [`OpenContainer::prepare`].
    pub fn prepare_put(
        &self,
        commit: Commit,
        put: (usize, u64, u64),
        tokens: Option<&ReadTokens>,
    ) -> Result<Epoch> {
        self.with_write(put, |write| {
            let writes = [write];
            let what = Preparation::Change(Change { tokens, ..Change::from_writes(&writes) });
            self.containers[put.0].prepare(commit, what).wait()
        })
    }

    /// Reads a number.
    ///
    /// # Errors
    /// The errors of reads.
    pub fn get(&self, node: usize, number: u64, at: ReadAt<'_>) -> Result<u64> {
        self.resolved(node, || self.try_get(node, number, at))
    }

    /// Writes a number.
    ///
    /// # Errors
    /// The errors of writes.
    pub fn put(&self, node: usize, number: u64, value: u64) -> Result<Epoch> {
        self.resolved(node, || self.try_put(node, number, value))
    }

    /// Runs `work` on a node. If a commit in doubt blocks it, resolves that commit and runs `work` again.
    ///
    /// # Errors
    /// The errors of `work`, and of resolving a commit.
    pub fn resolved<T>(&self, node: usize, work: impl Fn() -> Result<T>) -> Result<T> {
        for tried in 0.. {
            match work() {
                Err(error) if error.kind() == ErrorKind::InDoubt => {
                    self.resolve(node, tried >= ATTEMPTS)?;
                    esker_testing::pause(200);
                }
                done => return done,
            }
        }
        Err(Error::from(ErrorKind::InDoubt))
    }

    /// Asks the coordinators of all commits that are prepared on a node for their decisions, and commits or aborts each
    /// on the node accordingly. With `decide`, the coordinator aborts a commit that is undecided.
    ///
    /// # Errors
    /// The errors of the pools.
    pub fn resolve(&self, node: usize, decide: bool) -> Result<()> {
        let pool = &self.pools[node];
        for commit in pool.prepared().wait()? {
            let coordinator = &self.pools[commit.coordinator as usize];
            match coordinator.outcome(commit, decide).wait()? {
                Outcome::Undecided => {}
                // The coordinator has followed its own decision, and may have removed it by now.
                _ if commit.coordinator as usize == node => {}
                Outcome::Committed(epoch) => pool.commit(commit, epoch).wait()?,
                Outcome::Aborted | Outcome::Unknown => pool.abort(commit).wait()?,
            }
        }
        Ok(())
    }

    /// Runs `prepare` on each node in turn, and then commits what it prepared.
    ///
    /// # Errors
    /// `TxRestart` if others have aborted it, and those of `prepare`.
    pub fn commit(&self, prepare: &dyn Fn(usize, Commit) -> Result<Epoch>) -> Result<Epoch> {
        let commit = self.new_commit(0);
        let nodes = 0..self.pools.len();
        let epochs = nodes.clone().map(|node| self.resolved(node, || prepare(node, commit)));
        let epoch = match epochs.collect::<Result<Vec<_>>>() {
            Ok(epochs) => epochs.into_iter().max().unwrap_or_default(),
            Err(error) => {
                nodes.clone().try_for_each(|node| self.pools[node].abort(commit).wait())?;
                return Err(error);
            }
        };
        for node in nodes {
            let done = self.pools[node].commit(commit, epoch).wait();
            // Node 0 is the coordinator: as long as it has not committed, the others can abort.
            if node == 0 && done.is_err() {
                self.pools.iter().try_for_each(|pool| pool.abort(commit).wait())?;
            }
            done?;
        }
        self.pools[0].forget(commit).wait()?;
        Ok(epoch)
    }

    /// Moves `amount` from a number on node 0 to one on node 1, or all of it if it is less. The transaction also sets
    /// the number `mark.0` to `mark.1` on both nodes. It is repeated after each conflict.
    ///
    /// # Errors
    /// The errors of reads and commits.
    pub fn transfer(&self, numbers: [u64; 2], amount: u64, mark: (u64, u64)) -> Result<Epoch> {
        loop {
            let tokens = [ReadTokens::default(), ReadTokens::default()];
            let at = |node: usize| ReadAt { view: View::Latest, tokens: Some(&tokens[node]) };
            let read = |node: usize| self.get(node, numbers[node], at(node));
            let (from, to) = (read(0)?, read(1)?);
            let moved = amount.min(from);
            let values = [from - moved, to + moved];
            let committed = self.commit(&|node, commit| {
                self.with_write((node, numbers[node], values[node]), |first| {
                    self.with_write((node, mark.0, mark.1), |second| {
                        let writes = [first, second];
                        let change =
                            Change { tokens: Some(&tokens[node]), ..Change::from_writes(&writes) };
                        let what = Preparation::Change(change);
                        self.containers[node].prepare(commit, what).wait()
                    })
                })
            });
            match committed {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                done => return done,
            }
        }
    }

    /// Takes a snapshot of all nodes.
    ///
    /// # Errors
    /// The errors of commits.
    pub fn snapshot(&self, name: &str) -> Result<Epoch> {
        loop {
            let taken = self.commit(&|node, commit| {
                self.containers[node].prepare(commit, Preparation::Snapshot(name)).wait()
            });
            match taken {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                done => return done,
            }
        }
    }
}

/// Opens the container of a node. Creates it if it does not exist.
fn open_container(pool: &dyn Pool) -> Result<Box<dyn OpenContainer>> {
    match pool.create_container(&NewContainer::named("parts")).wait() {
        Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
        _ => {}
    }
    pool.open_container(ContainerRef::Label("parts"), OpenMode::ReadWrite).wait()
}
