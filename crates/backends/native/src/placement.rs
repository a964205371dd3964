//! Which targets an object's dkeys lie on: a pure function of the object id and the dkey.
use esker_types::StableHash;
use esker_types::ops::{Write, WriteOp};
use esker_types::{KeyKind, ObjectId, key_to_u64};
use std::hash::{BuildHasher, Hasher};

/// Places objects on the targets of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    targets: u32,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = StableHash.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

impl Placement {
    pub(super) fn new(targets: u32) -> Self {
        Self { targets: targets.max(1) }
    }

    pub(super) fn targets(self) -> u32 {
        self.targets
    }

    /// First target of an object.
    fn first(self, oid: ObjectId) -> u32 {
        (hash(&oid.to_bytes()) % u64::from(self.targets)) as u32
    }

    /// Targets of an object, in rising order.
    pub(super) fn shards(self, oid: ObjectId) -> Vec<u32> {
        let first = self.first(oid);
        let groups = oid.class().groups_on(self.targets);
        let mut shards: Vec<u32> =
            (0..groups).map(|group| (first + group) % self.targets).collect();
        shards.sort_unstable();
        shards
    }

    /// Target of a dkey: integers go round robin, so that neighbouring chunks of an array lie on
    /// different targets; other keys by hash.
    pub(super) fn shard(self, oid: ObjectId, dkey: &[u8]) -> u32 {
        let groups = u64::from(oid.class().groups_on(self.targets));
        let group = match groups {
            1 => 0,
            _ if oid.dkey_kind() == KeyKind::Integer => key_to_u64(dkey).unwrap_or(0) % groups,
            _ => hash(dkey) % groups,
        };
        (self.first(oid) + group as u32) % self.targets
    }

    /// Targets a write changes.
    pub(super) fn shards_of(self, write: &Write<'_>) -> Vec<u32> {
        match self.only_shard_of(write) {
            Some(shard) => vec![shard],
            None => self.shards(write.oid),
        }
    }

    /// The one target a write changes, if it is one.
    pub(super) fn only_shard_of(self, write: &Write<'_>) -> Option<u32> {
        match write.op {
            WriteOp::Update { dkey, .. }
            | WriteOp::PunchDkey { dkey, .. }
            | WriteOp::PunchAkeys { dkey, .. } => Some(self.shard(write.oid, dkey)),
            WriteOp::PunchObject { .. } => {
                let one = oid_groups(write.oid, self.targets) == 1;
                one.then(|| self.first(write.oid))
            }
        }
    }
}

fn oid_groups(oid: ObjectId, targets: u32) -> u32 {
    oid.class().groups_on(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::{ObjectClass, ObjectType};

    #[test]
    fn chunks_of_a_striped_array_go_round() {
        let placement = Placement::new(4);
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
        let placement = Placement::new(4);
        let mut counts = [0; 4];
        for lo in 0..4000 {
            let oid = ObjectId::generate(0, lo, ObjectType::Array, ObjectClass::S1);
            counts[placement.shard(oid, &7u64.to_ne_bytes()) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (800..1200).contains(&count)), "{counts:?}");
    }
}
