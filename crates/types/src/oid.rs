//! Object ids: 128 bits, 96 of them the user's (DAOS: `daos_obj_id_t`).
use crate::{KeyKind, ObjectClass};
use std::fmt;

/// Id of an object in a container.
///
/// Bits 63..56 of `hi` hold the object type, 55..48 the redundancy of its class, 47..32 the number of groups. The low
/// half of `hi` and all of `lo` belong to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ObjectId {
    /// Upper word: type, class and 32 user bits.
    pub hi: u64,
    /// Lower word: 64 user bits.
    pub lo: u64,
}

const TYPE_SHIFT: u32 = 56;
const REDUNDANCY_SHIFT: u32 = 48;
const GROUPS_SHIFT: u32 = 32;
const USER_MASK: u64 = 0xffff_ffff;

impl ObjectId {
    /// An id made of the user's 96 bits, a type and a fitted class. Drops the upper half of `hi`, as
    /// `daos_obj_generate_oid` does.
    #[must_use]
    pub fn generate(hi: u64, lo: u64, otype: ObjectType, class: ObjectClass) -> Self {
        let hi = hi & USER_MASK
            | u64::from(otype as u8) << TYPE_SHIFT
            | u64::from(class.redundancy_code()) << REDUNDANCY_SHIFT
            | u64::from(class.groups()) << GROUPS_SHIFT;
        Self { hi, lo }
    }

    /// The type in the id; `None` if it is unknown.
    #[must_use]
    pub fn object_type(self) -> Option<ObjectType> {
        ObjectType::from_code((self.hi >> TYPE_SHIFT) as u8)
    }

    /// The class in the id, fitted to the pool when the id was generated.
    #[must_use]
    pub fn class(self) -> ObjectClass {
        let redundancy = (self.hi >> REDUNDANCY_SHIFT & 0xff) as u32;
        let groups = (self.hi >> GROUPS_SHIFT & 0xffff) as u32;
        ObjectClass::from_code(redundancy << 24 | groups)
    }

    /// True if both words are zero.
    #[must_use]
    pub fn is_nil(self) -> bool {
        self.hi == 0 && self.lo == 0
    }

    /// Order of this object's dkeys.
    #[must_use]
    pub fn dkey_kind(self) -> KeyKind {
        self.object_type().map_or(KeyKind::Bytes, ObjectType::dkey_kind)
    }

    /// Order of this object's akeys.
    #[must_use]
    pub fn akey_kind(self) -> KeyKind {
        self.object_type().map_or(KeyKind::Bytes, ObjectType::akey_kind)
    }

    /// The id as 16 bytes in big-endian order, so that they sort as ids do.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.hi.to_be_bytes());
        bytes[8..].copy_from_slice(&self.lo.to_be_bytes());
        bytes
    }

    /// The id whose [`ObjectId::to_bytes`] are `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let whole = u128::from_be_bytes(bytes);
        Self { hi: (whole >> 64) as u64, lo: whole as u64 }
    }

    /// Reads `HI.LO`, both decimal or `0x` hexadecimal; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (hi, lo) = text.split_once('.')?;
        Some(Self { hi: parse_word(hi)?, lo: parse_word(lo)? })
    }
}

/// Parses one half of an object ID, in decimal or in hexadecimal after `0x`.
fn parse_word(text: &str) -> Option<u64> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    // `from_str_radix` accepts a plus too, but `+1.2` is a name, not an ID.
    let is_number = !digits.starts_with('+');
    u64::from_str_radix(digits, radix).ok().filter(|_| is_number)
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.hi, self.lo)
    }
}

/// The akey of flat objects ([`ObjectType::is_flat`]). It has the value of a key of a Key-Value, or the cells of a
/// chunk of an Array.
pub const FLAT_AKEY: &[u8] = b"0";

/// The type of an object, which determines how its keys compare (DAOS: `enum daos_otype_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ObjectType {
    /// Hashed dkeys and akeys.
    MultiHashed = 0,
    /// Object id table of a snapshot.
    Oit = 1,
    /// Integer dkeys.
    DkeyInteger = 2,
    /// Integer akeys.
    AkeyInteger = 3,
    /// Integer dkeys and akeys.
    MultiInteger = 4,
    /// Sorted dkeys.
    DkeyLexical = 5,
    /// Sorted akeys.
    AkeyLexical = 6,
    /// Sorted dkeys and akeys.
    MultiLexical = 7,
    /// Key-Value with hashed keys.
    KvHashed = 8,
    /// Key-Value with integer keys.
    KvInteger = 9,
    /// Key-Value with sorted keys.
    KvLexical = 10,
    /// Array that stores its own cell and chunk size.
    Array = 11,
    /// Array whose cell and chunk size the user passes on each open.
    ArrayAttr = 12,
    /// Array of bytes: reads fill holes with zeros and end at the array's size.
    ArrayByte = 13,
    /// Object id table, second version.
    OitV2 = 14,
}

/// All types, by their numbers.
const TYPES: [ObjectType; 15] = {
    use ObjectType::*;
    [
        MultiHashed,
        Oit,
        DkeyInteger,
        AkeyInteger,
        MultiInteger,
        DkeyLexical,
        AkeyLexical,
        MultiLexical,
        KvHashed,
        KvInteger,
        KvLexical,
        Array,
        ArrayAttr,
        ArrayByte,
        OitV2,
    ]
};

impl ObjectType {
    /// The type with this number, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        TYPES.get(usize::from(code)).copied()
    }

    /// Order of the dkeys of such an object.
    #[must_use]
    pub fn dkey_kind(self) -> KeyKind {
        use ObjectType::*;
        match self {
            DkeyInteger | MultiInteger | KvInteger | Array | ArrayAttr | ArrayByte => {
                KeyKind::Integer
            }
            _ => KeyKind::Bytes,
        }
    }

    /// Order of the akeys of such an object.
    #[must_use]
    pub fn akey_kind(self) -> KeyKind {
        use ObjectType::*;
        match self {
            AkeyInteger | MultiInteger => KeyKind::Integer,
            _ => KeyKind::Bytes,
        }
    }

    /// True for the three array types.
    #[must_use]
    pub fn is_array(self) -> bool {
        matches!(self, Self::Array | Self::ArrayAttr | Self::ArrayByte)
    }

    /// True for the types of Key-Values and Arrays, whose convention is one akey under a dkey. DAOS stores them flat,
    /// without the name of the akey.
    #[must_use]
    pub fn is_flat(self) -> bool {
        self.is_kv() || self.is_array()
    }

    /// True if dkeys are sorted by their bytes.
    #[must_use]
    pub fn has_lexical_dkeys(self) -> bool {
        matches!(self, Self::MultiLexical | Self::DkeyLexical | Self::KvLexical)
    }

    /// True if akeys are sorted by their bytes.
    #[must_use]
    pub fn has_lexical_akeys(self) -> bool {
        matches!(self, Self::MultiLexical | Self::AkeyLexical)
    }

    /// True for the three Key-Value types.
    #[must_use]
    pub fn is_kv(self) -> bool {
        matches!(self, Self::KvHashed | Self::KvInteger | Self::KvLexical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_word_has_class_and_type() {
        let class = ObjectClass::from_name("S2").unwrap();
        let oid = ObjectId::generate(0xdead_beef_0000_0001, 7, ObjectType::Array, class);
        assert_eq!(oid.hi, 0x0b01_0002_0000_0001);
        assert_eq!(oid.class(), class);
        assert_eq!(oid.object_type(), Some(ObjectType::Array));
        assert_eq!(ObjectId::from_bytes(oid.to_bytes()), oid);
        assert_eq!(ObjectId::parse(&oid.to_string()), Some(oid));
    }

    #[test]
    fn id_is_two_numbers_without_signs() {
        assert_eq!(ObjectId::parse("1.0xfF"), Some(ObjectId { hi: 1, lo: 255 }));
        for wrong in ["+1.2", "1.+2", "0x+1.2", "-1.2", "0x.1", "1.", "1", "1.2.3", " 1.2"] {
            assert_eq!(ObjectId::parse(wrong), None, "{wrong}");
        }
    }
}
