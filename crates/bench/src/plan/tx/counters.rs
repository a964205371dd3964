//! Counters that the transactions of all processes share.
use super::TxJob;
use super::limits::{COUNT_BYTES, COUNTERS_MAX, RESTARTS_MAX};
use crate::errors::ensure_intact;
use crate::job::Slot;
use crate::load::missing_store;
use crate::payload::Payload;
use esker::backend::Placement;
use esker::types::info::{OpenMode, Part};
use esker::types::ops::Cond;
use esker::{Access, Container, Kv, Pool, Wait};
use esker_types::{ObjectClass, ObjectType, Result};
use fastrand::Rng;
use std::cell::Cell;

/// Values of a Key-Value over all targets: a count, then bytes that depend on the counter and the count.
pub(super) struct Counters {
    container: Container,
    kv: Kv,
    /// Number of the Key-Value, and rank in its slots: the first that no process has.
    number: u32,
    payload: Payload,
    value_bytes: usize,
    /// The target of each counter.
    targets: Vec<u32>,
    /// Not all counters are on the same target.
    is_spread: bool,
}

impl Counters {
    /// Counters in the container of a job.
    pub(super) fn new(pool: &Pool, job: &TxJob) -> Result<Self> {
        let store = job.job.store.as_ref().ok_or_else(missing_store)?;
        let container = pool.open_container(&store.container, OpenMode::ReadWrite).wait()?;
        let number = job.job.member.procs;
        let class = ObjectClass::from_name("SX");
        let oid = container.generate_oid(0, number.into(), ObjectType::KvHashed, class, 0)?;
        let placement = Placement::new(job.targets, Part::WHOLE);
        let target = |counter| placement.shard(oid, &slot(number, counter, 0).key());
        let targets: Vec<_> = (0..job.counters).map(target).collect();
        Ok(Self {
            kv: container.kv(oid)?,
            container,
            number,
            payload: Payload::new(job.job.member.seed, job.job.size_bytes)?,
            value_bytes: job.job.size_bytes as usize,
            is_spread: targets.iter().any(|target| targets.first() != Some(target)),
            targets,
        })
    }

    fn len(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Sets the counters of one process to zero.
    pub(super) fn reset(&self, rank: u32) -> Result<()> {
        let mut own = (u64::from(rank)..self.len()).step_by(self.number.max(1) as usize);
        own.try_for_each(|counter| self.put(counter, 0, Access::Latest))
    }

    /// Chooses two counters at random, on different targets if possible.
    pub(super) fn draw(&self, random: &mut Rng) -> [u64; 2] {
        let (first, start) = (random.u64(..self.len()), random.u64(..self.len()));
        let is_other = |counter: &u64| match self.is_spread {
            true => self.targets.get(*counter as usize) != self.targets.get(first as usize),
            false => *counter != first,
        };
        let second = (start..self.len()).chain(0..start).find(is_other);
        [first, second.unwrap_or(first)]
    }

    /// Increments two counters in a transaction. Returns the number of commits that conflicts refused.
    pub(super) fn increment(&self, pair: [u64; 2]) -> Result<u64> {
        self.increment_after(pair, |_| Ok(()))
    }

    /// Same as [`Counters::increment`]. After the reads of each attempt, calls `before_puts` with its number, from 1.
    fn increment_after(
        &self,
        pair: [u64; 2],
        before_puts: impl Fn(u64) -> Result<()>,
    ) -> Result<u64> {
        let attempts = Cell::new(0);
        self.container.transact(RESTARTS_MAX, |transaction| {
            attempts.set(attempts.get() + 1);
            let access = Access::Tx(transaction);
            let counts = [self.get(pair[0], access)?, self.get(pair[1], access)?];
            before_puts(attempts.get())?;
            pair.iter().zip(counts).try_for_each(|(&one, count)| self.put(one, count + 1, access))
        })?;
        Ok(attempts.get() - 1)
    }

    /// Checks the value of each counter, and that all were incremented `increments` times.
    pub(super) fn check_sum(&self, increments: u64) -> Result<()> {
        let counts = (0..self.len()).map(|counter| self.get(counter, Access::Latest));
        let sum = counts.sum::<Result<u64>>()?;
        ensure_intact(sum == increments, || {
            format!("the counters were incremented {increments} times, and their sum is {sum}")
        })
    }

    /// Reads the count of a counter. Fails if the value is not one that was put for this counter.
    fn get(&self, counter: u64, access: Access<'_>) -> Result<u64> {
        let mut value = vec![0; self.value_bytes];
        let key = slot(self.number, counter, 0).key();
        let len = self.kv.get_into(&key, &mut value, access).wait()?;
        let count =
            value.first_chunk::<COUNT_BYTES>().map_or(0, |count| u64::from_le_bytes(*count));
        let is_intact = len == Some(self.value_bytes as u64) && value == self.value(counter, count);
        ensure_intact(is_intact, || {
            format!("the value of counter {counter} is not one that was put")
        })?;
        Ok(count)
    }

    fn put(&self, counter: u64, count: u64, access: Access<'_>) -> Result<()> {
        let key = slot(self.number, counter, 0).key();
        self.kv.put(&key, &self.value(counter, count), Cond::NONE, access).wait()
    }

    /// Value of a counter: its count, then data that depends on it.
    fn value(&self, counter: u64, count: u64) -> Vec<u8> {
        let mut value = self.payload.block(slot(self.number, counter, count)).to_vec();
        let count = count.to_le_bytes();
        value.iter_mut().zip(count).for_each(|(byte, of_count)| *byte = of_count);
        value
    }
}

/// The slot of a counter at a count. Its key is that of count 0.
fn slot(number: u32, counter: u64, count: u64) -> Slot {
    Slot { rank: number, round: 0, op: counter + count.wrapping_mul(COUNTERS_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Member, Workload};
    use esker::backend::NewContainer;
    use esker::backend::memory::Memory;
    use esker_types::ErrorKind;
    use std::sync::Arc;

    fn counters() -> Counters {
        let pool = Pool::from_backend(Arc::new(Memory::new(4)), OpenMode::ReadWrite);
        pool.create_container(&NewContainer::named("bench")).wait().unwrap();
        let member = Member { procs: 2, seed: 1, ..Member::default() };
        let job = Job { size_bytes: 64, ..Job::for_test(member, Workload::Kv) };
        let job = TxJob { job, every: 10, counters: 5, targets: 4 };
        let counters = Counters::new(&pool, &job).unwrap();
        [0, 1].into_iter().for_each(|rank| counters.reset(rank).unwrap());
        counters
    }

    #[test]
    fn counters_of_a_transaction_are_on_different_targets() {
        let counters = counters();
        assert!(counters.is_spread, "{:?}", counters.targets);
        let mut random = Rng::with_seed(1);
        for _ in 0..100 {
            let pair = counters.draw(&mut random).map(|counter| counters.targets[counter as usize]);
            assert_ne!(pair[0], pair[1]);
        }
    }

    #[test]
    fn refused_commit_is_counted_and_repeated() {
        let counters = counters();
        assert_eq!(counters.increment([0, 1]).unwrap(), 0);
        let interfere = |attempt| match attempt {
            1 | 2 => counters.increment([1, 2]).map(drop),
            _ => Ok(()),
        };
        assert_eq!(counters.increment_after([0, 1], interfere).unwrap(), 2);
        counters.check_sum(2 * 4).unwrap();
    }

    #[test]
    fn transaction_that_is_always_refused_fails_after_restarts_max() {
        let counters = counters();
        let error =
            counters.increment_after([0, 1], |_| counters.increment([1, 2]).map(drop)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Again);
        assert!(error.message().contains(&format!("each of {RESTARTS_MAX} attempts")), "{error}");
        counters.check_sum(2 * u64::from(RESTARTS_MAX)).unwrap();
    }

    #[test]
    fn wrong_counts_and_values_are_found() {
        let counters = counters();
        counters.increment([3, 4]).unwrap();
        counters.check_sum(2).unwrap();
        assert_eq!(counters.check_sum(4).unwrap_err().kind(), ErrorKind::Corrupt);
        let key = slot(counters.number, 3, 0).key();
        let mut value = counters.value(3, 1);
        value[63] ^= 1;
        counters.kv.put(&key, &value, Cond::NONE, Access::Latest).wait().unwrap();
        let error = counters.check_sum(2).unwrap_err();
        assert!(error.message().contains("counter 3"), "{error}");
    }
}
