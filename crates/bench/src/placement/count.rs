//! Places the objects of one case on all threads.
use super::ids::BLOCK;
use super::{Case, Kind};
use crate::clock::thread_cpu_ns;
use crate::interrupt;
use crate::job::Slot;
use esker::backend::Placement;
use esker_types::{ObjectId, ObjectType, Result};
use fastrand::Rng;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of objects of a case that are examined for shards on the same node.
const APART_MAX: u64 = 100_000;

/// Counts of one case.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Dkeys on each target.
    pub(super) targets: Vec<u64>,
    /// Number of objects examined for shards that share a node.
    pub(super) examined: u64,
    /// Number of examined objects without two shards on the same node.
    pub(super) apart: u64,
    /// Time of all threads.
    pub(super) busy: Duration,
}

impl Counts {
    fn for_targets(targets: u32) -> Self {
        Self { targets: vec![0; targets as usize], ..Self::default() }
    }

    fn add(&mut self, other: &Self) {
        self.targets.iter_mut().zip(&other.targets).for_each(|(mine, more)| *mine += more);
        self.examined += other.examined;
        self.apart += other.apart;
        self.busy += other.busy;
    }

    /// Dkeys on each node.
    pub(super) fn nodes(&self, placement: Placement, nodes: u32) -> Vec<u64> {
        let mut counts = vec![0; nodes as usize];
        for (target, count) in (0..).zip(&self.targets) {
            counts[placement.locate(target).node as usize] += count;
        }
        counts
    }
}

/// The objects of a case, which threads take in blocks.
pub(super) struct Work<'w> {
    pub(super) case: &'w Case,
    pub(super) placement: Placement,
    pub(super) seed: u64,
    pub(super) next: AtomicU64,
}

impl Work<'_> {
    /// Places all objects on `threads` threads.
    pub(super) fn count(&self, threads: usize) -> Result<Counts> {
        std::thread::scope(|scope| {
            let started: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| self.count_blocks())).collect();
            let mut all = Counts::for_targets(self.placement.targets());
            for thread in started {
                let counts = thread.join().map_err(|_| super::thread_error())?;
                all.add(&counts?);
            }
            Ok(all)
        })
    }

    fn count_blocks(&self) -> Result<Counts> {
        let mut counts = Counts::for_targets(self.placement.targets());
        let begun = thread_cpu_ns();
        loop {
            let first = self.next.fetch_add(BLOCK, Ordering::Relaxed);
            if first >= self.case.objects {
                break;
            }
            let block = first..(first + BLOCK).min(self.case.objects);
            self.objects(block, |_, oid| self.place(oid, &mut counts.targets));
            interrupt::check()?;
        }
        counts.busy = Duration::from_nanos(thread_cpu_ns() - begun);
        Ok(counts)
    }

    /// Examines the shards of the first objects.
    pub(super) fn examine(&self, counts: &mut Counts) {
        let groups = u64::from(self.case.groups(self.placement)).max(1);
        let examined = self.case.objects.min(APART_MAX / groups).max(1);
        let mut nodes = HashSet::new();
        self.objects(0..examined, |_, oid| {
            nodes.clear();
            let mut shards = self.placement.shards(oid).into_iter();
            counts.apart +=
                u64::from(shards.all(|shard| nodes.insert(self.placement.locate(shard).node)));
        });
        counts.examined = examined;
    }

    fn objects(&self, block: Range<u64>, mut each: impl FnMut(u64, ObjectId)) {
        let mut rng = Rng::with_seed(self.seed ^ block.start);
        for number in block {
            each(number, self.case.oid(number, &mut rng));
        }
    }

    fn place(&self, oid: ObjectId, targets: &mut [u64]) {
        let dkeys = 1..=u64::from(self.case.dkeys);
        match self.case.kind {
            Kind::Array => dkeys.for_each(|chunk| {
                targets[self.placement.shard(oid, &chunk.to_ne_bytes()) as usize] += 1;
            }),
            Kind::Kv => dkeys.for_each(|op| {
                let key = Slot { rank: 0, round: 0, op }.key();
                targets[self.placement.shard(oid, &key) as usize] += 1;
            }),
        }
    }
}

impl Case {
    fn oid(&self, number: u64, rng: &mut Rng) -> ObjectId {
        let (hi, lo) = self.ids.bits(number, rng);
        ObjectId::generate(hi, lo, self.kind.object_type(), self.class)
    }

    /// Groups of an object.
    pub(super) fn groups(&self, placement: Placement) -> u32 {
        self.class.groups_on(placement.targets())
    }
}

impl Kind {
    fn object_type(self) -> ObjectType {
        match self {
            Self::Array => ObjectType::Array,
            Self::Kv => ObjectType::KvHashed,
        }
    }
}
