//! Learned identities, so that ecCodes need not decode every message.
use super::header::{Header, Slot};
use super::identify::Identify;
use crate::Key;
use crate::limits::GRIB_KINDS_BYTES_MAX;
use esker_os::PerProcess;
use esker_types::{Result, checksum::Checksum};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values given to the quantities of a message to see how its key changes: date, time, step, level, number. One row
/// is low and the other is high, so that a rule that changes in between is noticed. No two values of a row, and no
/// two values of a quantity, are spelt alike.
const PROBES: [[u64; 5]; 2] = [[19_010_101, 0, 3, 2, 4], [20_991_231, 2_359, 251, 1_007, 249]];

/// Learns the keys of another [`Identify`], the teacher, by kinds of messages.
///
/// Messages of a kind differ only in their data and plain quantities: date, time, step, level and number, in octets
/// that mean nothing else. On the second message of a kind, the teacher is asked for the key of the message and of two
/// copies with other quantities. If each value of the key stays the same, or follows one quantity in all three, that
/// becomes the rule of the kind. Otherwise its messages are learned one by one, by their complete header. For a message
/// of several fields the teacher is always asked.
///
/// Learned identities take at most [`GRIB_KINDS_BYTES_MAX`] bytes; the least recently used ones are dropped.
#[derive(Debug)]
pub struct Learned<I> {
    teacher: I,
    /// A forked child starts with an empty cache, since a thread of its parent may hold the lock.
    cache: PerProcess<Mutex<IdentityCache>>,
    asked: AtomicU64,
}

impl<I: Identify> Learned<I> {
    /// Makes an empty cache of identities by `teacher`.
    pub fn new(teacher: I) -> Self {
        Self { teacher, cache: PerProcess::empty(), asked: AtomicU64::new(0) }
    }

    /// How many times the teacher was asked.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks the teacher for the key of a message, and counts that.
    fn ask(&self, message: &[u8]) -> Result<Key> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.teacher.identify(message)
    }

    /// Locks the cache, which is valid even if a thread panicked while it held the lock.
    fn lock_cache(&self) -> MutexGuard<'_, IdentityCache> {
        let cache = self.cache.get_or_create(Mutex::default);
        cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the teacher for the key of a message whose kind is new. Stores the key for exactly this header and, if the
    /// kind has quantities, that it was seen once.
    fn ask_about_first(&self, header: &Header<'_>) -> Result<Key> {
        let key = self.ask(header.message())?;
        if !header.slots().is_empty() {
            self.lock_cache().keep(|kind| header.write_kind(kind), LearnedRule::Seen);
        }
        self.keep_exactly(header, &key);
        Ok(key)
    }

    /// Asks the teacher for the keys of the second message of a kind and of variants of it.
    fn learn(&self, header: &Header<'_>) -> Result<Key> {
        let key = self.ask(header.message())?;
        let rule = self.rule(header, &key);
        if rule.is_none() {
            self.keep_exactly(header, &key);
        }
        let learnt = rule.map_or(LearnedRule::NoRule, LearnedRule::Rule);
        self.lock_cache().keep(|kind| header.write_kind(kind), learnt);
        Ok(key)
    }

    /// Stores the key of the messages that have exactly this header.
    fn keep_exactly(&self, header: &Header<'_>, key: &Key) {
        let rule = LearnedRule::Rule(Rule::constant(key));
        self.lock_cache().keep(|kind| header.write_exact(kind), rule);
    }

    /// Derives the rule of a kind from a message, its `key`, and the teacher's keys of two copies with other
    /// quantities. `None` if a value of the key neither stays the same nor follows one quantity.
    fn rule(&self, header: &Header<'_>, key: &Key) -> Option<Rule> {
        let mut copy = header.message().to_vec();
        let mut examples = vec![Example::new(header.message(), header, key.clone())?];
        for values in PROBES {
            for slot in header.slots() {
                slot.write(&mut copy, values[slot.quantity as usize]);
            }
            examples.push(Example::new(&copy, header, self.ask(&copy).ok()?)?);
        }
        Rule::constant(key).fit_to(&examples, header)
    }
}

impl<I: Identify> Identify for Learned<I> {
    /// The key by a learned rule, or the teacher's. The first messages of a kind teach its rule.
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let Some(header) = Header::parse(message) else { return self.ask(message) };
        let found = self.lock_cache().find(&header);
        match found {
            Lookup::Key(key) => Ok(key),
            Lookup::Nothing => self.ask_about_first(&header),
            Lookup::Kind => self.learn(&header),
            Lookup::NoRule => {
                let key = self.ask(message)?;
                self.keep_exactly(&header, &key);
                Ok(key)
            }
        }
    }
}

/// A message and its key, by the values of its slots as the key would spell them.
struct Example {
    spelt: Vec<String>,
    key: Key,
}

impl Example {
    /// Remembers the words of `message` at the slots of its header, and that they mean `key`. `None` if a slot cannot
    /// be spelt.
    fn new(message: &[u8], header: &Header<'_>, key: Key) -> Option<Self> {
        let spell = |slot: &Slot| {
            let mut text = String::new();
            slot.spell(slot.read(message)?, &mut text);
            Some(text)
        };
        Some(Self { spelt: header.slots().iter().map(spell).collect::<Option<_>>()?, key })
    }
}

/// Rule that derives the key of a message of a kind.
#[derive(Debug)]
struct Rule {
    parts: Vec<(Box<str>, Value)>,
    /// Capacity to reserve for a key.
    bytes: usize,
}

#[derive(Debug)]
enum Value {
    Constant(Box<str>),
    Quantity(Slot),
}

impl Rule {
    /// A rule whose values are all constant, so that each message has this key.
    fn constant(key: &Key) -> Self {
        let part = |(name, value): (&str, &str)| (name.into(), Value::Constant(value.into()));
        Self { parts: key.iter().map(part).collect(), bytes: key.as_str().len() + 16 }
    }

    /// The rule that explains how the keys of the examples differ: each value is constant, or follows one quantity.
    /// `None` if a value does neither.
    fn fit_to(mut self, examples: &[Example], header: &Header<'_>) -> Option<Self> {
        for (index, (name, value)) in self.parts.iter_mut().enumerate() {
            let values: Option<Vec<_>> = examples.iter().map(|e| e.key.iter().nth(index)).collect();
            let values = values?;
            if values.iter().any(|(other, _)| *other != &**name) {
                return None;
            }
            if values.iter().any(|(_, other)| *other != values[0].1) {
                let follows = |place: &usize| {
                    examples.iter().zip(&values).all(|(e, (_, value))| e.spelt[*place] == *value)
                };
                let place = (0..header.slots().len()).find(follows)?;
                *value = Value::Quantity(header.slots()[place]);
            }
        }
        let count = self.parts.len();
        examples.iter().all(|example| example.key.len() == count).then_some(self)
    }

    /// Computes the key of a message of this kind: constant values, and quantities read from the message. `None` if a
    /// quantity is not plain, or the message is too short for it.
    fn key(&self, message: &[u8]) -> Option<Key> {
        let mut key = Key::with_capacity(self.bytes);
        let mut text = String::new();
        for (name, value) in &self.parts {
            match value {
                Value::Constant(value) => key.push(name, value),
                Value::Quantity(slot) => {
                    text.clear();
                    slot.spell(slot.read(message)?, &mut text);
                    key.push(name, &text);
                }
            }
        }
        Some(key)
    }
}

/// Entry of the cache for a kind, or for one header.
#[derive(Debug)]
enum LearnedRule {
    Rule(Rule),
    /// One message of it was seen.
    Seen,
    /// Its messages are learned one by one.
    NoRule,
}

/// Result of looking up a message in the cache.
enum Lookup {
    Key(Key),
    Nothing,
    /// Its kind was seen.
    Kind,
    /// Its kind has no rule.
    NoRule,
}

type Kinds = HashMap<Box<[u8]>, LearnedRule, BuildHasherDefault<Crc>>;

/// Learned identities in two generations: entries that are used move to the younger one; when that is full, the older
/// one is dropped.
#[derive(Debug, Default)]
struct IdentityCache {
    young: Kinds,
    old: Kinds,
    /// Bytes of the younger generation.
    bytes: usize,
    /// Buffer for the key of a look-up.
    kind: Vec<u8>,
}

impl IdentityCache {
    /// Looks for what is known of messages of this kind. If no rule is known, looks for the key of exactly this header.
    fn find(&mut self, header: &Header<'_>) -> Lookup {
        header.write_kind(&mut self.kind);
        let otherwise = match self.get() {
            None => return Lookup::Nothing,
            Some(LearnedRule::Rule(rule)) => {
                return rule.key(header.message()).map_or(Lookup::NoRule, Lookup::Key);
            }
            Some(LearnedRule::Seen) => Lookup::Kind,
            Some(LearnedRule::NoRule) => Lookup::NoRule,
        };
        header.write_exact(&mut self.kind);
        match self.get() {
            Some(LearnedRule::Rule(rule)) => {
                rule.key(header.message()).map_or(otherwise, Lookup::Key)
            }
            _ => otherwise,
        }
    }

    /// Looks up the entry for the kind in the buffer. An entry of the older half moves to the younger one.
    fn get(&mut self) -> Option<&LearnedRule> {
        if let Some((kind, learnt)) = self.old.remove_entry(self.kind.as_slice()) {
            self.insert(kind, learnt);
        }
        self.young.get(self.kind.as_slice())
    }

    /// Stores `learnt` for a kind, whose bytes `write` appends to an empty buffer.
    fn keep(&mut self, write: impl FnOnce(&mut Vec<u8>), learnt: LearnedRule) {
        write(&mut self.kind);
        let kind = self.kind.as_slice().into();
        self.insert(kind, learnt);
    }

    /// Stores `learnt` under `kind` in the younger half. If that half exceeds half of [`GRIB_KINDS_BYTES_MAX`], it
    /// becomes the older half, whose entries are dropped.
    fn insert(&mut self, kind: Box<[u8]>, learnt: LearnedRule) {
        let bytes = kind.len() + learnt.bytes();
        if self.bytes + bytes > GRIB_KINDS_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.young.insert(kind, learnt);
    }
}

impl LearnedRule {
    /// Approximate size in memory, including its slot in a table.
    fn bytes(&self) -> usize {
        const SLOT: usize = 128;
        match self {
            Self::Rule(rule) => {
                SLOT + rule.bytes + rule.parts.len() * size_of::<(Box<str>, Value)>()
            }
            Self::Seen | Self::NoRule => SLOT,
        }
    }
}

/// Hash of kinds, which are some kilobytes long and come from the user's own files. A checksum spreads them well and is
/// faster than a hash that withstands attackers. The table compares complete kinds.
#[derive(Debug, Default)]
struct Crc(u64);

impl Hasher for Crc {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = self.0.rotate_left(32) ^ Checksum::Crc64.sum(bytes);
    }

    // The number of bytes of a kind, which need not count: the table compares complete kinds.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
