//! Placement of an object's dkeys on targets: a pure function of the object id and the dkey.
use esker_types::StableHash;
use esker_types::info::Part;
use esker_types::ops::{Write, WriteOp};
use esker_types::{KeyKind, ObjectId, key_to_u64};
use std::hash::{BuildHasher, Hasher};
use twox_hash::XxHash3_64;

/// Places objects on the targets of a pool. Targets are numbered over all nodes, round robin: target `t` is target `t /
/// nodes` of node `t % nodes`, so that adjacent ones are on different nodes.
///
/// Placement is part of the format: that on one node of versions 1 and 2, that over nodes of version 3. They differ in
/// the hash (docs/decisions/0035-placement-over-nodes.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    targets: u32,
    part: Part,
}

/// Node of a target, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of its node.
    pub node: u32,
    /// Its number on this node.
    pub target: u32,
}

impl Placement {
    /// Placement on a pool whose nodes have `targets` each, for the node of `part`.
    #[must_use]
    pub fn new(targets: u32, part: Part) -> Self {
        Self { targets: targets.max(1) * part.nodes, part }
    }

    /// The position of this node in the pool.
    #[must_use]
    pub fn part(self) -> Part {
        self.part
    }

    /// Number of targets, over all nodes.
    #[must_use]
    pub fn targets(self) -> u32 {
        self.targets
    }

    /// Node of a target, and its number there.
    #[must_use]
    pub fn locate(self, target: u32) -> Location {
        Location { node: target % self.part.nodes, target: target / self.part.nodes }
    }

    /// The number of a target on this node; `None` for targets of other nodes.
    #[must_use]
    pub fn own(self, target: u32) -> Option<u32> {
        let Location { node, target } = self.locate(target);
        (node == self.part.node).then_some(target)
    }

    /// First target of an object.
    #[must_use]
    pub fn first(self, oid: ObjectId) -> u32 {
        self.pick(&oid.to_bytes(), self.targets)
    }

    /// A number below `count` by the hash of `bytes`. On one node [`StableHash`] is used as it is. Over nodes it is
    /// mixed further, because there are more targets than its low bits mix.
    fn pick(self, bytes: &[u8], count: u32) -> u32 {
        if self.part.nodes > 1 {
            let hash = u128::from(XxHash3_64::oneshot(bytes));
            return ((hash * u128::from(count)) >> 64) as u32;
        }
        let mut hasher = StableHash.build_hasher();
        hasher.write(bytes);
        (hasher.finish() % u64::from(count)) as u32
    }

    /// Number of targets over which the dkeys of an object are spread.
    fn groups(self, oid: ObjectId) -> u32 {
        oid.class().groups_on(self.targets)
    }

    /// Targets of an object, in rising order.
    #[must_use]
    pub fn shards(self, oid: ObjectId) -> Vec<u32> {
        let first = self.first(oid);
        let mut shards: Vec<u32> =
            (0..self.groups(oid)).map(|group| (first + group) % self.targets).collect();
        shards.sort_unstable();
        shards
    }

    /// Nodes that have targets of an object, in rising order: its targets are adjacent, and the nodes come round robin.
    #[must_use]
    pub fn nodes(self, oid: ObjectId) -> Vec<u32> {
        let (all, first) = (self.part.nodes, self.locate(self.first(oid)).node);
        let mut nodes: Vec<u32> =
            (0..self.groups(oid).min(all)).map(|group| (first + group) % all).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Target of a dkey: integers go round robin, so that neighbouring chunks of an array are on different targets;
    /// other keys by hash.
    #[must_use]
    pub fn shard(self, oid: ObjectId, dkey: &[u8]) -> u32 {
        let groups = self.groups(oid);
        let group = match groups {
            1 => 0,
            _ if oid.dkey_kind() == KeyKind::Integer => {
                (key_to_u64(dkey).unwrap_or(0) % u64::from(groups)) as u32
            }
            _ => self.pick(dkey, groups),
        };
        (self.first(oid) + group) % self.targets
    }

    /// The target that a write changes, if it is only one.
    #[must_use]
    pub fn only_shard_of(self, write: &Write<'_>) -> Option<u32> {
        match write.op {
            WriteOp::Update { dkey, .. }
            | WriteOp::PunchDkey { dkey, .. }
            | WriteOp::PunchAkeys { dkey, .. } => Some(self.shard(write.oid, dkey)),
            WriteOp::PunchObject { .. } => {
                (self.groups(write.oid) == 1).then(|| self.first(write.oid))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::{Checksum, ObjectClass, ObjectType};

    const OVER_NODES: Part = Part { node: 0, nodes: 8 };

    /// Checksum over the locations of 1,000 objects and their dkeys.
    fn digest(placement: Placement) -> u64 {
        let mut places = Vec::new();
        for number in 0..1000u64 {
            let class = ObjectClass::from_name(["S1", "S2", "S8", "SX"][number as usize % 4]);
            let class = class.and_then(|class| class.fit(placement.targets(), 1).ok()).unwrap();
            for otype in [ObjectType::Array, ObjectType::KvHashed] {
                let oid = ObjectId::generate(number % 7, number, otype, class);
                let key = format!("key {number}");
                places.extend(placement.shard(oid, &number.to_ne_bytes()).to_le_bytes());
                places.extend(placement.shard(oid, key.as_bytes()).to_le_bytes());
                let shards = placement.shards(oid).into_iter();
                places.extend(shards.flat_map(u32::to_le_bytes));
            }
        }
        Checksum::Crc32c.sum(&places)
    }

    /// The digests may only change together with the version of the format: pools in use would lose their data.
    #[test]
    fn placement_is_that_of_the_format() {
        assert_eq!(digest(Placement::new(8, Part::WHOLE)), 1_852_105_487, "versions 1 and 2");
        assert_eq!(digest(Placement::new(24, Part::WHOLE)), 165_597_187, "versions 1 and 2");
        assert_eq!(digest(Placement::new(8, OVER_NODES)), 166_329_689, "version 3");
        assert_eq!(digest(Placement::new(3, Part { node: 1, nodes: 5 })), 401_885_778, "version 3");
    }

    /// The sum over targets of the squared distance from the mean, relative to that of a perfect hash.
    fn unevenness(placement: Placement, targets: impl Iterator<Item = u32>) -> f64 {
        let mut counts = vec![0.0; placement.targets() as usize];
        targets.for_each(|target| counts[target as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let squares: f64 = counts.iter().map(|count| (count - mean) * (count - mean)).sum();
        squares / mean / (counts.len() - 1) as f64
    }

    /// Objects and keys whose numbers follow a pattern are spread like random ones. For these the unevenness is about
    /// 1; the limits leave room for chance.
    #[test]
    fn regular_ids_and_keys_are_spread_evenly_over_nodes() {
        type Id = fn(u64) -> (u64, u64);
        let ids: [Id; 5] = [
            |n| (0, n),
            |n| (0, n << 4),
            |n| (0, n << 12),
            |n| (n % 64, n / 64),
            |n| (0, ((n % 64) << 32) | (n / 64)),
        ];
        let place = Placement::new(8, OVER_NODES);
        for id in ids {
            let oid = |(hi, lo)| ObjectId::generate(hi, lo, ObjectType::Array, ObjectClass::S1);
            let found = unevenness(place, (0..40_960).map(|n| place.first(oid(id(n)))));
            assert!((0.4..1.8).contains(&found), "{found}");
        }
        let class = ObjectClass::SX.fit(place.targets(), 1).unwrap();
        let oid = ObjectId::generate(0, 1, ObjectType::KvHashed, class);
        let key = |n: u32| format!("{:04}/{:03}/{:03}/{:04}", n % 10, n / 10 % 10, n / 100, 7);
        let found = unevenness(place, (0..40_960).map(|n| place.shard(oid, key(n).as_bytes())));
        assert!((0.4..1.8).contains(&found), "{found}");
    }

    #[test]
    fn shards_are_on_different_nodes_if_there_are_enough() {
        let place = Placement::new(3, OVER_NODES);
        for (name, nodes) in [("S2", 2), ("S4", 4), ("S8", 8), ("S16", 8), ("SX", 8)] {
            let class = ObjectClass::from_name(name).unwrap().fit(place.targets(), 1).unwrap();
            for number in 0..100 {
                let oid = ObjectId::generate(0, number, ObjectType::Array, class);
                let shards = place.shards(oid).into_iter();
                let seen: std::collections::BTreeSet<u32> =
                    shards.map(|shard| place.locate(shard).node).collect();
                assert_eq!(seen.len(), nodes, "{name}");
                assert_eq!(place.nodes(oid), seen.into_iter().collect::<Vec<_>>(), "{name}");
            }
        }
    }

    /// Consecutive chunks, as many as there are targets, are each on another target.
    #[test]
    fn chunks_of_a_striped_array_go_round() {
        let placement = Placement::new(4, Part::WHOLE);
        let class = ObjectClass::SX.fit(4, 1).unwrap();
        let oid = ObjectId::generate(1, 2, ObjectType::Array, class);
        let shards: Vec<u32> = (0..4u64).map(|n| placement.shard(oid, &n.to_ne_bytes())).collect();
        let mut sorted = shards.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
        assert_eq!(placement.shards(oid), [0, 1, 2, 3]);
    }

    #[test]
    fn single_target_objects_spread_evenly() {
        let placement = Placement::new(4, Part::WHOLE);
        let mut counts = [0; 4];
        for lo in 0..4000 {
            let oid = ObjectId::generate(0, lo, ObjectType::Array, ObjectClass::S1);
            counts[placement.shard(oid, &7u64.to_ne_bytes()) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (800..1200).contains(&count)), "{counts:?}");
    }

    /// Each of the 12 targets belongs to one of three nodes, which number their own targets from 0 on.
    #[test]
    fn every_target_is_one_of_one_node() {
        let mut seen = std::collections::BTreeSet::new();
        for node in 0..3 {
            let placement = Placement::new(4, Part { node, nodes: 3 });
            let own = (0..12).filter_map(|target| placement.own(target));
            assert_eq!(own.collect::<Vec<_>>(), [0, 1, 2, 3]);
            seen.extend((0..12).filter(|target| placement.own(*target).is_some()));
        }
        assert_eq!(seen.len(), 12);
    }

    #[test]
    fn neighbouring_chunks_are_on_different_nodes() {
        let placement = Placement::new(2, Part { node: 0, nodes: 3 });
        let class = ObjectClass::SX.fit(6, 1).unwrap();
        let oid = ObjectId::generate(1, 2, ObjectType::Array, class);
        let node = |n: u64| placement.locate(placement.shard(oid, &n.to_ne_bytes())).node;
        let nodes: std::collections::BTreeSet<u32> = (0..3).map(node).collect();
        assert_eq!(nodes.len(), 3);
    }
}
