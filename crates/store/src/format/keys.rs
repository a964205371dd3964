//! Keys of the index: one byte for the table, followed by fields that sort in the order of the table. `docs/format.md`
//! has their layout.
use super::long_keys::{self, DKEY_ROOM, LeftOut, damaged_error};
use esker_types::info::ContainerId;
use esker_types::limits::KEY_PAIR_MAX;
use esker_types::{Epoch, KeyBuffer, ObjectId, Result, encoded_len};

/// The tables of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Table {
    /// Attributes and properties of the pool and its containers (target 0).
    Attribute = b'A',
    /// Existing keys mean that a Key-Value object has an array.
    Arrays = b'K',
    /// Blocks of pages that the index does not use.
    Block = b'B',
    /// Containers by UUID (target 0).
    Container = b'C',
    /// Current content of objects.
    Data = b'D',
    /// Segments whose space the index uses.
    IndexSegment = b'E',
    /// The last write buffer that a commit includes.
    Flushed = b'F',
    /// Earlier content that snapshots contain.
    History = b'H',
    /// Intent of a commit over several targets, which is decided by it.
    Intent = b'I',
    /// Containers by label (target 0).
    Label = b'L',
    /// Number of the next container (target 0).
    Next = b'N',
    /// Next object id of each container (target 0).
    Oid = b'O',
    /// Commits over several nodes that are prepared on this node.
    Prepared = b'W',
    /// Reserved free pages.
    ReservedPages = b'P',
    /// Reply cache: last change of each slot of each session.
    Reply = b'R',
    /// Number of dead bytes of each segment.
    Segment = b'G',
    /// Snapshots of containers.
    Snapshot = b'S',
    /// Decisions of this node about commits over several nodes.
    Decision = b'V',
    /// Watermark below which decisions may have been swept, and the number of remaining decisions.
    Watermark = b'M',
    /// Destroyed containers and snapshots whose content must still be freed.
    Destroyed = b'X',
}

impl Table {
    /// All tables.
    const ALL: [Self; 20] = [
        Self::Attribute,
        Self::Arrays,
        Self::Block,
        Self::Container,
        Self::Data,
        Self::IndexSegment,
        Self::Flushed,
        Self::History,
        Self::Intent,
        Self::Label,
        Self::Next,
        Self::Oid,
        Self::Prepared,
        Self::Decision,
        Self::Watermark,
        Self::ReservedPages,
        Self::Reply,
        Self::Segment,
        Self::Snapshot,
        Self::Destroyed,
    ];

    /// The table of a key; `None` if its first byte is not that of a table.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|table| Some(&(*table as u8)) == key.first())
    }
}

/// True for a Key-Value object.
pub(crate) fn is_kv(oid: ObjectId) -> bool {
    oid.object_type().is_some_and(|kind| kind.is_kv())
}

/// Number of the container that a key belongs to, if its table has one; 0 for the pool.
pub(crate) fn container_of(key: &[u8]) -> Option<u32> {
    let number = key.get(TABLE_LEN..)?.first_chunk()?;
    Some(u32::from_be_bytes(*number))
}

/// Byte after the akey in the key of a single value.
pub(crate) const SINGLE: u8 = 1;
/// Byte after the akey in the key of an extent of an array. The index of its first record follows.
pub(crate) const ARRAY: u8 = 2;

const TABLE_LEN: usize = 1;
const CONTAINER_END: usize = TABLE_LEN + 4;
/// Offset of the dkey in a data key.
pub(crate) const OBJECT_END: usize = CONTAINER_END + 16;

/// A key, or a prefix of keys, under construction. Ordinary keys need no allocation.
#[derive(Debug)]
pub(crate) struct Key {
    len: usize,
    short: [u8; SHORT_MAX],
    /// The complete key, if it is longer than [`SHORT_MAX`].
    long: Vec<u8>,
}

/// Number of bytes that suffice for all but unusually long dkeys and akeys.
const SHORT_MAX: usize = 96;

impl Key {
    /// Prefix of all keys of a table.
    #[inline]
    pub(crate) fn table(table: Table) -> Self {
        let mut short = [0; SHORT_MAX];
        short[0] = table as u8;
        Self { len: 1, short, long: Vec::new() }
    }

    /// Prefix of all keys of a table that belong to a container.
    #[inline]
    pub(crate) fn container(table: Table, container: ContainerId) -> Self {
        let mut key = Self::table(table);
        key.put(&container.0.to_be_bytes());
        key
    }

    /// Prefix of all data of an object.
    #[inline]
    pub(crate) fn object(table: Table, container: ContainerId, oid: ObjectId) -> Self {
        let mut key = Self::container(table, container);
        key.put(&oid.to_bytes());
        key
    }

    /// Prefix of all data under a dkey.
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

    /// Appends a dkey to the prefix of an object, in place.
    #[inline]
    pub(crate) fn put_dkey(&mut self, oid: ObjectId, dkey: &[u8]) -> Result<()> {
        long_keys::encode(oid.dkey_kind(), dkey, DKEY_ROOM, self)
    }

    /// Prefix of all data under an akey; `self` is the prefix of its dkey.
    #[inline]
    pub(crate) fn akey(&self, oid: ObjectId, akey: &[u8]) -> Result<Self> {
        let mut key = self.clone();
        key.put_akey(oid, akey)?;
        Ok(key)
    }

    /// Appends an akey to the prefix of a dkey, in place.
    #[inline]
    pub(crate) fn put_akey(&mut self, oid: ObjectId, akey: &[u8]) -> Result<()> {
        long_keys::encode(oid.akey_kind(), akey, self.akey_room(), self)
    }

    /// Maximum length of an encoded akey; `self` is the prefix of its dkey.
    #[inline]
    fn akey_room(&self) -> usize {
        (OBJECT_END + KEY_PAIR_MAX).saturating_sub(self.len())
    }

    /// Bytes of dkey and akey that the keys under the akey omit; `self` is the prefix of its dkey.
    pub(crate) fn left_out<'k>(
        &self,
        oid: ObjectId,
        dkey: &'k [u8],
        akey: &'k [u8],
    ) -> LeftOut<'k> {
        LeftOut {
            dkey: long_keys::left_out(oid.dkey_kind(), dkey, DKEY_ROOM),
            akey: long_keys::left_out(oid.akey_kind(), akey, self.akey_room()),
        }
    }

    /// Key of the single value; `self` is the prefix of its akey.
    #[inline]
    pub(crate) fn single(&self) -> Self {
        let mut key = self.clone();
        key.put(&[SINGLE]);
        key
    }

    /// Prefix of the akey; `self` is the key of its single value.
    pub(crate) fn akey_of_single(&self) -> Self {
        let mut akey = self.clone();
        match akey.long.is_empty() {
            true => akey.len -= 1,
            false => akey.long.truncate(akey.long.len() - 1),
        }
        akey
    }

    /// Prefix of the keys of all extents of an array; `self` is the prefix of its akey.
    pub(crate) fn array(&self) -> Self {
        self.clone().push(&[ARRAY])
    }

    /// Key of the extent that begins at record `start`; `self` is the prefix of its akey.
    pub(crate) fn extent(&self, start: u64) -> Self {
        self.array().push(&start.to_be_bytes())
    }

    /// Appends bytes to the key.
    #[inline]
    pub(crate) fn push(mut self, bytes: &[u8]) -> Self {
        self.put(bytes);
        self
    }

    /// Moves the key to the table of `other`. The first byte of a key is its table.
    pub(crate) fn with_table_of(mut self, other: &Self) -> Self {
        if let (Some(table), Some(new_table)) = (self.bytes_mut().first_mut(), other.first()) {
            *table = *new_table;
        }
        self
    }

    /// The first key after all keys that begin with `self`.
    pub(crate) fn successor(&self) -> Self {
        let len = self.iter().rposition(|&byte| byte != 0xff).map_or(0, |last| last + 1);
        let mut next = Self { len: 0, short: [0; SHORT_MAX], long: Vec::new() }.push(&self[..len]);
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

    /// Appends bytes to a long key. A short key becomes a long one.
    #[cold]
    fn put_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
        }
        self.long.extend_from_slice(bytes);
    }
}

impl Clone for Key {
    /// Inlined, and without a call for short keys, since each read and write makes several.
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

/// The parsed parts of a data or history key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataKey<'k> {
    whole: &'k [u8],
    /// The object.
    pub(crate) oid: ObjectId,
    dkey_end: usize,
    akey_end: usize,
    /// First record of an extent; `None` for a single value.
    pub(crate) start: Option<u64>,
    /// Epoch at which the value of a history key was written.
    pub(crate) created: Option<Epoch>,
}

impl<'k> DataKey<'k> {
    /// Parses a key of table [`Table::Data`] or [`Table::History`].
    pub(crate) fn parse(whole: &'k [u8]) -> Result<Self> {
        Self::try_parse(whole).ok_or_else(damaged_error)
    }

    /// Parses a key; `None` if it is damaged.
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

    /// The complete key.
    pub(crate) fn whole(&self) -> &'k [u8] {
        self.whole
    }

    /// Number of the container.
    pub(crate) fn container(&self) -> ContainerId {
        let bytes = self.whole[TABLE_LEN..CONTAINER_END].try_into().unwrap_or_default();
        ContainerId(u32::from_be_bytes(bytes))
    }

    /// Bytes of the dkey that the key contains, and true if these are all of them; `None` if they are damaged.
    pub(crate) fn dkey_start(&self) -> Option<(Vec<u8>, bool)> {
        long_keys::start(self.oid.dkey_kind(), &self.whole[OBJECT_END..self.dkey_end])
    }

    /// Bytes of the akey that the key contains, and true if these are all of them; `None` if they are damaged.
    pub(crate) fn akey_start(&self) -> Option<(Vec<u8>, bool)> {
        long_keys::start(self.oid.akey_kind(), &self.whole[self.dkey_end..self.akey_end])
    }

    /// The dkey, as the user wrote it. `left_out` comes from the record under the key.
    pub(crate) fn dkey(&self, left_out: LeftOut<'_>) -> Result<Vec<u8>> {
        let encoded = &self.whole[OBJECT_END..self.dkey_end];
        long_keys::decode(self.oid.dkey_kind(), encoded, left_out.dkey)
    }

    /// The akey, as the user wrote it. `left_out` comes from the record under the key.
    pub(crate) fn akey(&self, left_out: LeftOut<'_>) -> Result<Vec<u8>> {
        let encoded = &self.whole[self.dkey_end..self.akey_end];
        long_keys::decode(self.oid.akey_kind(), encoded, left_out.akey)
    }

    /// The key up to the end of the dkey.
    pub(crate) fn dkey_prefix(&self) -> &'k [u8] {
        &self.whole[..self.dkey_end]
    }

    /// The key up to the end of the akey, in the data table.
    pub(crate) fn akey_in_data(&self) -> Key {
        Key::table(Table::Data).push(&self.akey_prefix()[TABLE_LEN..])
    }

    /// The key up to the end of the akey.
    pub(crate) fn akey_prefix(&self) -> &'k [u8] {
        &self.whole[..self.akey_end]
    }

    /// The key without the table and, for a history key, without the epoch. It is the same in both tables.
    pub(crate) fn body(&self) -> &'k [u8] {
        let tail = if self.created.is_some() { 8 } else { 0 };
        &self.whole[TABLE_LEN..self.whole.len() - tail]
    }
}

/// Decodes a big-endian number from the start of `bytes`, and removes its bytes from there.
fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*head))
}

/// History key for the data key `data`, whose value was written at `created`.
pub(crate) fn history_key(data: &[u8], created: Epoch) -> Key {
    let body = data.get(TABLE_LEN..).unwrap_or_default();
    Key::table(Table::History).push(body).push(&created.0.to_be_bytes())
}

/// A copy of `key` in another table.
pub(crate) fn in_table(table: Table, key: &[u8]) -> Key {
    Key::table(table).push(key.get(TABLE_LEN..).unwrap_or_default())
}

/// Number of the segment in a key of [`Table::Segment`] or [`Table::IndexSegment`]; `None` if the key is damaged.
pub(crate) fn segment_of(key: &[u8]) -> Option<u32> {
    let (_table, number) = key.split_first()?;
    number.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends pieces to a key until it needs an allocation, and compares it with a vector.
    #[test]
    fn short_and_long_keys_are_built_alike() {
        let mut key = Key::table(Table::Data);
        let mut plain = vec![Table::Data as u8];
        for len in (0..SHORT_MAX).chain([1, 500]) {
            let piece = vec![len as u8; len % 7 + len / 100];
            key = key.push(&piece);
            plain.extend(&piece);
            assert_eq!(*key, *plain);
            assert_eq!(*key.single().akey_of_single(), *plain);
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

    /// Damaged keys must not cause a panic.
    #[test]
    fn random_keys_are_parsed_or_refused() {
        let mut random = crate::tests::Random::new(3);
        for round in 0..esker_testing::rounds(50_000) {
            let mut key = random.bytes(80);
            if let Some(table) = key.first_mut() {
                *table = if round % 2 == 0 { Table::Data as u8 } else { Table::History as u8 };
            }
            // An encoded key ends with zeros and a small byte, so small bytes make more of the keys valid.
            key.iter_mut().skip(OBJECT_END).for_each(|byte| *byte %= 4);
            let Ok(parts) = DataKey::parse(&key) else { continue };
            let left_out = LeftOut { dkey: &[], akey: &[1] };
            let _ = (parts.dkey(left_out), parts.akey(left_out), parts.container());
            assert!(parts.dkey_prefix().len() <= parts.akey_prefix().len());
            assert!(parts.akey_prefix().len() < key.len() && parts.body().len() < key.len());
        }
    }
}
