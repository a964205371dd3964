//! Keys of the index: one byte for the table, then fields whose order is the order of the table.
//! `docs/format.md` draws them.
use crate::cut::{self, DKEY_ROOM, LeftOut};
use esker_types::info::ContainerId;
use esker_types::limits::KEY_PAIR_MAX;
use esker_types::{Epoch, Error, ErrorKind, KeyBuffer, ObjectId, Result, encoded_len};

/// The tables of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Table {
    /// Attributes and properties of the pool and its containers (target 0).
    Attribute = b'A',
    /// Blocks of pages the index does not use.
    Block = b'B',
    /// Containers by UUID (target 0).
    Container = b'C',
    /// What objects hold now.
    Data = b'D',
    /// Segments whose space the index has.
    Lent = b'E',
    /// What snapshots still need of the past.
    History = b'H',
    /// A transaction over several targets whose outcome is decided.
    Intent = b'I',
    /// Containers by label (target 0).
    Label = b'L',
    /// Number of the next container (target 0).
    Next = b'N',
    /// Next object id of each container (target 0).
    Oid = b'O',
    /// Free pages out of use.
    Parked = b'P',
    /// Bytes of segments that are dead.
    Segment = b'G',
    /// Snapshots of containers.
    Snapshot = b'S',
    /// Containers being emptied.
    Doomed = b'X',
}

impl Table {
    /// All of them.
    const ALL: [Self; 14] = [
        Self::Attribute,
        Self::Block,
        Self::Container,
        Self::Data,
        Self::Lent,
        Self::History,
        Self::Intent,
        Self::Label,
        Self::Next,
        Self::Oid,
        Self::Parked,
        Self::Segment,
        Self::Snapshot,
        Self::Doomed,
    ];

    /// The one that a key is of.
    pub(crate) fn of(key: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|table| Some(&(*table as u8)) == key.first())
    }
}

/// Number of the container that a key is of, where it is of one; 0 for the pool itself.
pub(crate) fn container_of(key: &[u8]) -> Option<u32> {
    let number = key.get(TABLE_LEN..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Marks a single value behind an akey.
pub(crate) const SINGLE: u8 = 1;
/// Marks an extent of an array behind an akey; its first record follows.
pub(crate) const ARRAY: u8 = 2;

const TABLE_LEN: usize = 1;
const CONTAINER_END: usize = TABLE_LEN + 4;
/// Where the dkey begins in a data key.
pub(crate) const OBJECT_END: usize = CONTAINER_END + 16;

/// A key, or the beginning of keys, under construction. Ordinary ones need no allocation.
#[derive(Debug)]
pub(crate) struct Key {
    len: usize,
    short: [u8; SHORT_MAX],
    /// The whole key, once it is longer than [`SHORT_MAX`].
    long: Vec<u8>,
}

/// Bytes that all but unusual dkeys and akeys take.
const SHORT_MAX: usize = 96;

impl Key {
    /// All keys of a table.
    #[inline]
    pub(crate) fn table(table: Table) -> Self {
        let mut short = [0; SHORT_MAX];
        short[0] = table as u8;
        Self { len: 1, short, long: Vec::new() }
    }

    /// All keys of a table that belong to a container.
    #[inline]
    pub(crate) fn container(table: Table, container: ContainerId) -> Self {
        Self::table(table).push(&container.0.to_be_bytes())
    }

    /// All data of an object.
    #[inline]
    pub(crate) fn object(table: Table, container: ContainerId, oid: ObjectId) -> Self {
        Self::container(table, container).push(&oid.to_bytes())
    }

    /// All data under a dkey.
    #[inline]
    pub(crate) fn dkey(
        table: Table,
        container: ContainerId,
        oid: ObjectId,
        dkey: &[u8],
    ) -> Result<Self> {
        let mut key = Self::object(table, container, oid);
        key.put_dkey(oid, dkey)?;
        Ok(key)
    }

    /// Makes the object that `self` stands for a dkey of it: in place, as each read wants it.
    #[inline]
    pub(crate) fn put_dkey(&mut self, oid: ObjectId, dkey: &[u8]) -> Result<()> {
        cut::encode(oid.dkey_kind(), dkey, DKEY_ROOM, self)
    }

    /// All data under an akey of the dkey that `self` stands for.
    #[inline]
    pub(crate) fn akey(&self, oid: ObjectId, akey: &[u8]) -> Result<Self> {
        let mut key = self.clone();
        key.put_akey(oid, akey)?;
        Ok(key)
    }

    /// Makes the dkey that `self` stands for an akey under it, in place.
    #[inline]
    pub(crate) fn put_akey(&mut self, oid: ObjectId, akey: &[u8]) -> Result<()> {
        cut::encode(oid.akey_kind(), akey, self.akey_room(), self)
    }

    /// Bytes an encoded akey can take under the dkey that `self` stands for.
    #[inline]
    fn akey_room(&self) -> usize {
        (OBJECT_END + KEY_PAIR_MAX).saturating_sub(self.len())
    }

    /// What the keys under an akey leave out, of the dkey that `self` stands for.
    pub(crate) fn left_out<'k>(
        &self,
        oid: ObjectId,
        dkey: &'k [u8],
        akey: &'k [u8],
    ) -> LeftOut<'k> {
        LeftOut {
            dkey: cut::left_out(oid.dkey_kind(), dkey, DKEY_ROOM),
            akey: cut::left_out(oid.akey_kind(), akey, self.akey_room()),
        }
    }

    /// The single value of the akey that `self` stands for.
    #[inline]
    pub(crate) fn single(&self) -> Self {
        self.clone().push(&[SINGLE])
    }

    /// The extent that begins at record `start` of the akey that `self` stands for.
    pub(crate) fn extent(&self, start: u64) -> Self {
        self.clone().push(&[ARRAY]).push(&start.to_be_bytes())
    }

    /// With more bytes behind.
    #[inline]
    pub(crate) fn push(mut self, bytes: &[u8]) -> Self {
        self.put(bytes);
        self
    }

    /// The same key in the table of another.
    pub(crate) fn with_table_of(mut self, other: &Self) -> Self {
        if let (Some(mine), Some(theirs)) = (self.bytes_mut().first_mut(), other.first()) {
            *mine = *theirs;
        }
        self
    }

    /// The first key behind all keys that begin with `self`.
    pub(crate) fn successor(&self) -> Self {
        let kept = self.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
        let mut next = Self { len: 0, short: [0; SHORT_MAX], long: Vec::new() }.push(&self[..kept]);
        if let Some(last) = next.bytes_mut().last_mut() {
            *last += 1;
        }
        next
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self.long.is_empty() {
            true => &mut self.short[..self.len],
            false => &mut self.long,
        }
    }

    #[cold]
    fn put_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }
}

impl Clone for Key {
    /// Without a call where nothing is allocated: each read and write makes several.
    #[inline]
    fn clone(&self) -> Self {
        let long = if self.long.is_empty() { Vec::new() } else { self.long.clone() };
        Self { len: self.len, short: self.short, long }
    }
}

impl KeyBuffer for Key {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.short.get_mut(self.len..self.len + bytes.len()) {
            Some(place) if self.long.is_empty() => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            _ => self.put_long(bytes),
        }
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }
}

/// The parts of a data or history key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataKey<'k> {
    whole: &'k [u8],
    /// The object.
    pub(crate) oid: ObjectId,
    dkey_end: usize,
    akey_end: usize,
    /// First record of an extent; `None` for a single value.
    pub(crate) start: Option<u64>,
    /// When the value of a history key was written.
    pub(crate) created: Option<Epoch>,
}

pub(crate) fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "the index holds a damaged key: run `esker pool check`")
}

impl<'k> DataKey<'k> {
    /// Takes a key of table [`Table::Data`] or [`Table::History`] apart.
    pub(crate) fn parse(whole: &'k [u8]) -> Result<Self> {
        Self::try_parse(whole).ok_or_else(damaged)
    }

    fn try_parse(whole: &'k [u8]) -> Option<Self> {
        let oid = ObjectId::from_bytes(whole.get(CONTAINER_END..OBJECT_END)?.try_into().ok()?);
        let dkey_end = OBJECT_END + encoded_len(oid.dkey_kind(), &whole[OBJECT_END..])?;
        let akey_end = dkey_end + encoded_len(oid.akey_kind(), &whole[dkey_end..])?;
        let (kind, mut rest) = whole[akey_end..].split_first()?;
        let start = match *kind {
            SINGLE => None,
            ARRAY => Some(take_u64(&mut rest)?),
            _ => return None,
        };
        let created = match whole.first() {
            Some(&table) if table == Table::History as u8 => Some(Epoch(take_u64(&mut rest)?)),
            _ => None,
        };
        rest.is_empty().then_some(Self { whole, oid, dkey_end, akey_end, start, created })
    }

    /// All of it.
    pub(crate) fn whole(&self) -> &'k [u8] {
        self.whole
    }

    /// The container.
    pub(crate) fn container(&self) -> ContainerId {
        let bytes = self.whole[TABLE_LEN..CONTAINER_END].try_into().unwrap_or_default();
        ContainerId(u32::from_be_bytes(bytes))
    }

    /// As much of the dkey as the key has, and whether that is all.
    pub(crate) fn dkey_start(&self) -> Option<(Vec<u8>, bool)> {
        cut::start(self.oid.dkey_kind(), &self.whole[OBJECT_END..self.dkey_end])
    }

    /// As much of the akey as the key has, and whether that is all.
    pub(crate) fn akey_start(&self) -> Option<(Vec<u8>, bool)> {
        cut::start(self.oid.akey_kind(), &self.whole[self.dkey_end..self.akey_end])
    }

    /// The dkey as its user wrote it. `left_out` is what the record under the key says.
    pub(crate) fn dkey(&self, left_out: LeftOut<'_>) -> Result<Vec<u8>> {
        let encoded = &self.whole[OBJECT_END..self.dkey_end];
        cut::decode(self.oid.dkey_kind(), encoded, left_out.dkey)
    }

    /// The akey as its user wrote it.
    pub(crate) fn akey(&self, left_out: LeftOut<'_>) -> Result<Vec<u8>> {
        let encoded = &self.whole[self.dkey_end..self.akey_end];
        cut::decode(self.oid.akey_kind(), encoded, left_out.akey)
    }

    /// The part of the key up to and with the dkey.
    pub(crate) fn dkey_prefix(&self) -> &'k [u8] {
        &self.whole[..self.dkey_end]
    }

    /// The part of the key up to and with the akey.
    pub(crate) fn akey_prefix(&self) -> &'k [u8] {
        &self.whole[..self.akey_end]
    }

    /// Everything but the table and, for a history key, the epoch: the same in both tables.
    pub(crate) fn body(&self) -> &'k [u8] {
        let tail = if self.created.is_some() { 8 } else { 0 };
        &self.whole[TABLE_LEN..self.whole.len() - tail]
    }
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*head))
}

/// Key of the past of the data key `data`, which was written at `created`.
pub(crate) fn history_key(data: &[u8], created: Epoch) -> Key {
    let body = data.get(TABLE_LEN..).unwrap_or_default();
    Key::table(Table::History).push(body).push(&created.0.to_be_bytes())
}

/// The same position in another table.
pub(crate) fn in_table(table: Table, key: &[u8]) -> Key {
    Key::table(table).push(key.get(TABLE_LEN..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_any_length_are_built_alike() {
        let mut key = Key::table(Table::Data);
        let mut plain = vec![Table::Data as u8];
        for len in (0..SHORT_MAX).chain([1, 500]) {
            let piece = vec![len as u8; len % 7 + len / 100];
            key = key.push(&piece);
            plain.extend(&piece);
            assert_eq!(*key, *plain);
            assert_eq!(*key.clone().with_table_of(&Key::table(Table::Label)), *{
                let mut other = plain.clone();
                other[0] = Table::Label as u8;
                other
            });
        }
        let end = [plain.clone(), vec![0xff; 3]].concat();
        let next = Key::table(Table::Data).push(&end[1..]).successor();
        assert!(*next > *end && *next > *plain && next.len() == plain.len());
    }

    #[test]
    fn random_keys_are_parsed_or_refused() {
        let mut noise = crate::noise::Noise::new(3);
        for round in 0..esker_testing::rounds(50_000) {
            let mut key = noise.bytes(80);
            if let Some(table) = key.first_mut() {
                *table = if round % 2 == 0 { Table::Data as u8 } else { Table::History as u8 };
            }
            // Zeros and small bytes are what keys end with.
            key.iter_mut().skip(OBJECT_END).for_each(|byte| *byte %= 4);
            let Ok(parts) = DataKey::parse(&key) else { continue };
            let left_out = LeftOut { dkey: &[], akey: &[1] };
            let _ = (parts.dkey(left_out), parts.akey(left_out), parts.container());
            assert!(parts.dkey_prefix().len() <= parts.akey_prefix().len());
            assert!(parts.akey_prefix().len() < key.len() && parts.body().len() < key.len());
        }
    }
}
