//! The key space of random operations: few objects and few keys, so that operations often hit the same key.
use esker_backend::Capabilities;
use esker_testing::Random;
use esker_types::{Extent, KeyKind, ObjectClass, ObjectId, ObjectType};

const BYTE_KEYS: [&[u8]; 7] =
    [b"a", b"ab", b"a\0", b"\0", b"\xff\xff", b"0", b"a key that is longer than the others"];
const INTEGER_KEYS: [u64; 6] = [0, 1, 2, 255, 256, u64::MAX];
/// Most records are below this index.
const RECORDS: u64 = 3000;

const TYPES: [ObjectType; 6] = [
    ObjectType::MultiHashed,
    ObjectType::MultiInteger,
    ObjectType::KvLexical,
    ObjectType::KvInteger,
    ObjectType::Array,
    ObjectType::AkeyInteger,
];

/// The objects that operations work on.
#[derive(Clone)]
pub(super) struct Space {
    pub(super) oids: Vec<ObjectId>,
    /// True if the backend remembers whether a removed akey had a single value or an array. Reads of the other kind
    /// then find nothing.
    pub(super) lasting_kinds: bool,
}

impl Space {
    /// Objects of all types and classes that a backend with these capabilities accepts.
    pub(super) fn new(able: Capabilities) -> Self {
        let classes = [ObjectClass::S1, ObjectClass::SX];
        let fitted = classes.map(|class| class.fit(able.targets, able.domains));
        let classes: Vec<_> = fitted.into_iter().flatten().collect();
        let types = TYPES.iter().filter(|otype| able.any_akeys || !otype.is_flat());
        let ids = types.zip(1..).flat_map(|(otype, number)| {
            classes.iter().map(move |class| ObjectId::generate(0, number, *otype, *class))
        });
        Self { oids: ids.collect(), lasting_kinds: able.lasting_kinds }
    }

    /// A space of two random objects of this one, which may be the same object.
    pub(super) fn focus(&self, random: &mut Random) -> Self {
        Self { oids: vec![self.oid(random), self.oid(random)], ..*self }
    }

    pub(super) fn oid(&self, random: &mut Random) -> ObjectId {
        *pick(random, &self.oids)
    }
}

pub(super) fn pick<'a, T>(random: &mut Random, all: &'a [T]) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

pub(super) fn dkey(random: &mut Random, oid: ObjectId) -> Vec<u8> {
    key(random, oid.dkey_kind())
}

/// Some distinct akeys, at least one.
pub(super) fn akeys(random: &mut Random, oid: ObjectId) -> Vec<Vec<u8>> {
    let count = if random.one_in(3) { 1 + random.below(3) } else { 1 };
    let mut akeys: Vec<_> = (0..count).map(|_| key(random, oid.akey_kind())).collect();
    akeys.sort();
    akeys.dedup();
    akeys
}

/// Sum of the bytes of an akey, which determines its usual content.
pub(super) fn sum(akey: &[u8]) -> u8 {
    akey.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte))
}

/// True if the akey usually has records; false if it usually has a single value.
pub(super) fn is_usually_array(akey: &[u8]) -> bool {
    sum(akey).is_multiple_of(2)
}

fn key(random: &mut Random, kind: KeyKind) -> Vec<u8> {
    match kind {
        KeyKind::Bytes => pick(random, &BYTE_KEYS).to_vec(),
        KeyKind::Integer => pick(random, &INTEGER_KEYS).to_ne_bytes().to_vec(),
    }
}

/// Length of a single value: mostly short, sometimes around a limit of the store.
pub(super) fn value_len(random: &mut Random) -> u64 {
    match random.below(12) {
        0 => 0,
        1 => 1020 + random.below(10),
        2 => random.below(5000),
        3 => (32 << 10) - 2 + random.below(5),
        4 => random.below(150_000),
        _ => random.below(100),
    }
}

/// An extent with at least one record.
pub(super) fn extent(random: &mut Random) -> Extent {
    let count = match random.below(4) {
        0 => random.below(RECORDS),
        1 => 0,
        _ => random.below(60),
    };
    Extent::new(random.below(RECORDS), 1 + count)
}

/// Extents that do not overlap, in random order.
pub(super) fn extents_apart(random: &mut Random) -> Vec<Extent> {
    let count = if random.one_in(3) { 2 + random.below(4) } else { 1 };
    let mut extents: Vec<Extent> = Vec::new();
    for _ in 0..count {
        let extent = extent(random);
        if extents.iter().all(|other| other.intersect(extent).is_none()) {
            extents.push(extent);
        }
    }
    extents
}
