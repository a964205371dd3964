//! Which targets an object's dkeys lie on: a pure function of the object id and the dkey.
use esker_types::StableHash;
use esker_types::info::Part;
use esker_types::ops::{Write, WriteOp};
use esker_types::{KeyKind, ObjectId, key_to_u64};
use std::hash::{BuildHasher, Hasher};

/// Places objects on the targets of a pool. Targets are numbered over all nodes, and those of each node come in turn:
/// target `t` is target `t / nodes` of node `t % nodes`, so that adjacent ones lie on different nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    targets: u32,
    part: Part,
}

/// Where a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of its node.
    pub node: u32,
    /// Its number on this node.
    pub target: u32,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

impl Placement {
    /// Placement on a pool whose nodes have `targets` each, as seen by the node of `part`.
    #[must_use]
    pub fn new(targets: u32, part: Part) -> Self {
        Self { targets: targets.max(1) * part.nodes, part }
    }

    /// Number of targets, over all nodes.
    #[must_use]
    pub fn targets(self) -> u32 {
        self.targets
    }

    /// Where a target is.
    #[must_use]
    pub fn locate(self, target: u32) -> Location {
        Location { node: target % self.part.nodes, target: target / self.part.nodes }
    }

    /// The number that a target of this node has there; `None` for those of other nodes.
    #[must_use]
    pub fn own(self, target: u32) -> Option<u32> {
        let Location { node, target } = self.locate(target);
        (node == self.part.node).then_some(target)
    }

    /// First target of an object.
    #[must_use]
    pub fn first(self, oid: ObjectId) -> u32 {
        (hash(&oid.to_bytes()) % u64::from(self.targets)) as u32
    }

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

    /// Target of a dkey: integers go round robin, so that neighbouring chunks of an array lie on
    /// different targets; other keys by hash.
    #[must_use]
    pub fn shard(self, oid: ObjectId, dkey: &[u8]) -> u32 {
        let groups = u64::from(self.groups(oid));
        let group = match groups {
            1 => 0,
            _ if oid.dkey_kind() == KeyKind::Integer => key_to_u64(dkey).unwrap_or(0) % groups,
            _ => hash(dkey) % groups,
        };
        (self.first(oid) + group as u32) % self.targets
    }

    /// Targets a write changes.
    #[must_use]
    pub fn shards_of(self, write: &Write<'_>) -> Vec<u32> {
        match self.only_shard_of(write) {
            Some(shard) => vec![shard],
            None => self.shards(write.oid),
        }
    }

    /// The one target a write changes, if it is one.
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
    use esker_types::{ObjectClass, ObjectType};

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
    fn neighbouring_chunks_lie_on_different_nodes() {
        let placement = Placement::new(2, Part { node: 0, nodes: 3 });
        let class = ObjectClass::SX.fit(6, 1).unwrap();
        let oid = ObjectId::generate(1, 2, ObjectType::Array, class);
        let node = |n: u64| placement.locate(placement.shard(oid, &n.to_ne_bytes())).node;
        let nodes: std::collections::BTreeSet<u32> = (0..3).map(node).collect();
        assert_eq!(nodes.len(), 3);
    }
}
