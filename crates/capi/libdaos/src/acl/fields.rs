//! Entries taken apart, and lists of them put together.
//!
//! An entry has 32 bytes and the name of its principal, padded with NULs to a multiple of 8; a list
//! has a header of 8 bytes (version, length of what follows) and entries one after the other.
use super::principal;
use crate::abi::Bytes;
use crate::code::{Code, Result};

pub(crate) const ACE_BYTES: usize = 32;
pub(crate) const LIST_BYTES: usize = 8;
const VERSION: u16 = 1;
/// `DAOS_ACL_MAX_ACE_LEN`.
const ENTRIES_BYTES_MAX: usize = 65536;

const ALLOW: u8 = 0x1;
const AUDIT: u8 = 0x2;
const ALARM: u8 = 0x4;
const ACCESS_ALL: u8 = ALLOW | AUDIT | ALARM;
const FLAG_GROUP: u16 = 0x1;
const FLAG_FAIL: u16 = 0x4;
const FLAG_SUCCESS: u16 = 0x8;
const FLAG_ALL: u16 = 0xf;
const PERM_ALL: u64 = 0x1ff;

/// Kinds of principal, in the order they stand in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Owner = 0,
    User = 1,
    OwnerGroup = 2,
    Group = 3,
    Everyone = 4,
}

impl Kind {
    pub(crate) fn from_code(code: u32) -> Result<Self> {
        let all = [Self::Owner, Self::User, Self::OwnerGroup, Self::Group, Self::Everyone];
        all.get(code as usize).copied().ok_or(Code::INVAL)
    }

    pub(crate) fn has_name(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }

    fn is_group(self) -> bool {
        matches!(self, Self::OwnerGroup | Self::Group)
    }

    /// What stands for it in text.
    pub(crate) fn special(self) -> Option<&'static str> {
        match self {
            Self::Owner => Some("OWNER@"),
            Self::OwnerGroup => Some("GROUP@"),
            Self::Everyone => Some("EVERYONE@"),
            Self::User | Self::Group => None,
        }
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ace {
    pub(crate) access: u8,
    pub(crate) kind: Kind,
    pub(crate) flags: u16,
    /// Permissions for each kind of access.
    pub(crate) perms: [u64; 3],
    /// The principal, where its kind has a name.
    pub(crate) name: String,
}

impl Ace {
    /// An entry without permissions.
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let flags = if kind.is_group() { FLAG_GROUP } else { 0 };
        let name = if kind.has_name() { name.to_owned() } else { String::new() };
        Self { access: 0, kind, flags, perms: [0; 3], name }
    }

    pub(crate) fn allowed(&self) -> u64 {
        self.perms[0]
    }

    pub(crate) fn is(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && (!kind.has_name() || self.name == name)
    }

    /// Whether the fields go together.
    pub(crate) fn is_valid(&self) -> bool {
        let watched = self.access & (AUDIT | ALARM) != 0;
        let told = self.flags & (FLAG_FAIL | FLAG_SUCCESS) != 0;
        let perms_fit = |(index, perms): (usize, &u64)| {
            perms & !PERM_ALL == 0 && (*perms == 0 || self.access & 1 << index != 0)
        };
        self.access != 0
            && self.access & !ACCESS_ALL == 0
            && self.flags & !FLAG_ALL == 0
            && self.kind.is_group() == (self.flags & FLAG_GROUP != 0)
            && watched == told
            && self.perms.iter().enumerate().all(perms_fit)
            && (!self.kind.has_name() || principal::is_valid(&self.name))
    }

    /// The entry as it lies in memory.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let name_len = match self.kind.has_name() {
            true => (self.name.len() + 1).next_multiple_of(8),
            false => 0,
        };
        let mut bytes = vec![self.access, self.kind as u8];
        bytes.extend_from_slice(&(name_len as u16).to_le_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        self.perms.iter().for_each(|perms| bytes.extend_from_slice(&perms.to_le_bytes()));
        if name_len > 0 {
            bytes.extend_from_slice(self.name.as_bytes());
        }
        bytes.resize(ACE_BYTES + name_len, 0);
        bytes
    }

    /// Reads the entry that `bytes` begin with, and its length.
    fn take(bytes: &[u8]) -> Result<(Self, usize)> {
        let header = bytes.get(..ACE_BYTES).ok_or(Code::INVAL)?;
        let name_len = usize::from(short(header, 2));
        let name = bytes.get(ACE_BYTES..ACE_BYTES + name_len).ok_or(Code::INVAL)?;
        let kind = Kind::from_code(u32::from(header[1]))?;
        if name_len % 8 != 0 || kind.has_name() != (name_len > 0) {
            return Err(Code::INVAL);
        }
        let ace = Self {
            access: header[0],
            kind,
            flags: short(header, 4),
            perms: [long(header, 8), long(header, 16), long(header, 24)],
            name: text_of(name)?,
        };
        Ok((ace, ACE_BYTES + name_len))
    }

    /// Reads an entry of C.
    pub(crate) fn read(at: Bytes) -> Result<Self> {
        Self::take(at.read(len_of(at)? as u64)?).map(|(ace, _)| ace)
    }
}

/// Bytes of an entry of C, as it says itself.
pub(crate) fn len_of(at: Bytes) -> Result<usize> {
    let header = at.needed()?.read(ACE_BYTES as u64)?;
    Ok(ACE_BYTES + usize::from(short(header, 2)))
}

fn text_of(name: &[u8]) -> Result<String> {
    match name.split(|byte| *byte == 0).next() {
        Some(text) if name.is_empty() || text.len() < name.len() => {
            String::from_utf8(text.to_vec()).map_err(|_| Code::INVAL)
        }
        _ => Err(Code::INVAL),
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    (0..8).rev().fold(0, |number, index| number << 8 | u64::from(bytes[at + index]))
}

/// Bytes of a list of C, as it says itself.
pub(crate) fn list_len(at: Bytes) -> Result<usize> {
    let header = at.needed()?.read(LIST_BYTES as u64)?;
    let len = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    Ok(LIST_BYTES + len as usize)
}

/// The bytes of a list of C, header included, as far as its lengths are sound.
pub(crate) fn bytes_of<'a>(at: Bytes) -> Result<&'a [u8]> {
    let (version, len) = (short(at.needed()?.read(LIST_BYTES as u64)?, 0), list_len(at)?);
    match version == VERSION && len <= LIST_BYTES + ENTRIES_BYTES_MAX {
        true => at.read(len as u64),
        false => Err(Code::INVAL),
    }
}

/// The bytes of a valid list of C.
pub(crate) fn checked<'a>(at: Bytes) -> Result<&'a [u8]> {
    valid(bytes_of(at)?)
}

/// A list whose entries are valid, in order, and of one principal each.
pub(crate) fn valid(bytes: &[u8]) -> Result<&[u8]> {
    let aces = unpack(bytes)?;
    let in_order = aces.windows(2).all(|pair| pair[0].kind <= pair[1].kind);
    let repeats =
        |(index, ace): (usize, &Ace)| aces[..index].iter().any(|a| a.is(ace.kind, &ace.name));
    match in_order && aces.iter().all(Ace::is_valid) && !aces.iter().enumerate().any(repeats) {
        true => Ok(bytes),
        false => Err(Code::INVAL),
    }
}

/// The entries of a list.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<Ace>> {
    let mut rest = bytes.get(LIST_BYTES..).ok_or(Code::INVAL)?;
    let mut aces = Vec::new();
    while !rest.is_empty() {
        let (ace, len) = Ace::take(rest)?;
        aces.push(ace);
        rest = &rest[len..];
    }
    Ok(aces)
}

/// A list of these entries, in their proper order.
pub(crate) fn pack(mut aces: Vec<Ace>) -> Result<Vec<u8>> {
    aces.sort_by_key(|ace| ace.kind);
    let entries: Vec<u8> = aces.iter().flat_map(Ace::to_bytes).collect();
    if entries.len() > ENTRIES_BYTES_MAX {
        return Err(Code::INVAL);
    }
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&entries);
    Ok(bytes)
}
