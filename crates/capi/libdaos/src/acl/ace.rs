//! Access control entries, and their texts.
//!
//! In memory an entry has 32 bytes and the name of its principal, padded with NULs to a multiple of 8. Its text is
//! `types:flags:principal:permissions`.
use super::principal::{self, Kind};
use crate::abi::{Bytes, Ptr, Str};
use crate::boundary;
use crate::boundary::guard;
use crate::code::{Code, Result, print};
use crate::memory;
use std::ffi::{c_char, c_int};

pub(crate) const ACE_BYTES: usize = 32;

const ALLOW: u8 = 0x1;
const AUDIT: u8 = 0x2;
const ALARM: u8 = 0x4;
const ACCESS_ALL: u8 = ALLOW | AUDIT | ALARM;
const FLAG_GROUP: u16 = 0x1;
const FLAG_FAIL: u16 = 0x4;
const FLAG_SUCCESS: u16 = 0x8;
const FLAG_ALL: u16 = 0xf;
const PERM_ALL: u64 = 0x1ff;

/// An access control entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ace {
    /// Access types that the entry has: allow, audit, alarm.
    pub(crate) access: u8,
    pub(crate) kind: Kind,
    /// Bits: the principal is a group; notify of successful or of failed accesses.
    pub(crate) flags: u16,
    /// Permissions for each access type: allow, audit, alarm.
    pub(crate) perms: [u64; 3],
    /// The name of the principal, if its kind has one.
    pub(crate) name: String,
}

impl Ace {
    /// Creates an entry that grants nothing yet. `name` is ignored for kinds without a name, such as the owner.
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let flags = if kind.is_group() { FLAG_GROUP } else { 0 };
        let name = if kind.has_name() { name.to_owned() } else { String::new() };
        Self { access: 0, kind, flags, perms: [0; 3], name }
    }

    /// Permissions that the entry grants.
    pub(crate) fn allowed(&self) -> u64 {
        self.perms[0]
    }

    /// Whether this is the entry of the principal. `name` is ignored for kinds without a name.
    pub(crate) fn is(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && (!kind.has_name() || self.name == name)
    }

    /// Whether the fields are consistent: only known bits; permissions only for the types of access in the entry; audit
    /// or alarm exactly if a flag says when to notify.
    pub(crate) fn is_valid(&self) -> bool {
        let is_watched = self.access & (AUDIT | ALARM) != 0;
        let notifies = self.flags & (FLAG_FAIL | FLAG_SUCCESS) != 0;
        let perms_fit = |(index, perms): (usize, &u64)| {
            perms & !PERM_ALL == 0 && (*perms == 0 || self.access & 1 << index != 0)
        };
        self.access != 0
            && self.access & !ACCESS_ALL == 0
            && self.flags & !FLAG_ALL == 0
            && self.kind.is_group() == (self.flags & FLAG_GROUP != 0)
            && is_watched == notifies
            && self.perms.iter().enumerate().all(perms_fit)
            && (!self.kind.has_name() || principal::is_valid(&self.name))
    }

    /// The entry in its memory layout.
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

    /// Decodes the entry at the start of `bytes`. Returns it with its length in bytes. `INVAL` if it is cut off or
    /// malformed.
    pub(super) fn take(bytes: &[u8]) -> Result<(Self, usize)> {
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

    /// Reads an entry from memory of C.
    pub(crate) fn read(at: Bytes) -> Result<Self> {
        Self::take(at.read(len_of(at)? as u64)?).map(|(ace, _)| ace)
    }
}

/// Length in bytes of an entry in memory of C, according to its header.
pub(super) fn len_of(at: Bytes) -> Result<usize> {
    let header = at.needed()?.read(ACE_BYTES as u64)?;
    Ok(ACE_BYTES + usize::from(short(header, 2)))
}

/// Text of a name in an entry: the bytes before the first NUL. `INVAL` if there are bytes without a NUL, or they are
/// not UTF-8.
fn text_of(name: &[u8]) -> Result<String> {
    match name.split(|byte| *byte == 0).next() {
        Some(text) if name.is_empty() || text.len() < name.len() => {
            String::from_utf8(text.to_vec()).map_err(|_| Code::INVAL)
        }
        _ => Err(Code::INVAL),
    }
}

/// Reads the little-endian 16-bit number at offset `at`.
pub(super) fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the little-endian 64-bit number at offset `at`.
fn long(bytes: &[u8], at: usize) -> u64 {
    (0..8).rev().fold(0, |number, index| number << 8 | u64::from(bytes[at + index]))
}

/// Names must be shorter than this, to fit an entry with NUL and padding.
const NAME_MAX: usize = 1 << 15;

/// Creates an entry without permissions, which C frees. Null if the kind or the name is not valid.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_create(kind: u32, name: Str) -> Bytes {
    guard(Ptr::null(), || make(kind, name).unwrap_or(Ptr::null()))
}

/// Makes an entry for a principal in memory that C frees. `name` is read only for kinds that have one.
fn make(kind: u32, name: Str) -> Result<Bytes> {
    let kind = Kind::from_code(kind)?;
    let name = if kind.has_name() { name.text()? } else { "" };
    let ace = Ace::new(kind, name);
    if kind.has_name() && !(1..NAME_MAX).contains(&name.len()) {
        return Err(Code::INVAL);
    }
    Ok(memory::copy(&ace.to_bytes())?.cast())
}

/// Runs `work`, and returns its size or, on failure, the negative code: the result of C functions that return a size.
pub(super) fn size(work: impl FnOnce() -> Result<usize>) -> isize {
    match guard(Err(Code::MISC), work) {
        Ok(size) => size as isize,
        Err(Code(code)) => code as isize,
    }
}

/// Frees an entry.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_free(ace: Bytes) {
    memory::free(ace);
}

/// Returns the length of an entry in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_get_size(ace: Bytes) -> isize {
    size(|| len_of(ace))
}

/// Whether the fields of an entry are consistent.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_is_valid(ace: Bytes) -> bool {
    guard(false, || Ace::read(ace).is_ok_and(|ace| ace.is_valid()))
}

/// Prints an entry on standard output, indented by `tabs` tabs, but at most 64.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_dump(ace: Bytes, tabs: u32) {
    guard((), || {
        let tabs = "\t".repeat(tabs.min(64) as usize);
        match Ace::read(ace) {
            Ok(ace) => print(&format!("{tabs}{}", described(&ace))),
            Err(_) => print(&format!("{tabs}Access Control Entry: none, or not valid")),
        }
    });
}

/// One line that describes an entry.
pub(super) fn described(ace: &Ace) -> String {
    format!(
        "Access Control Entry: access {:#x}, principal {:?} {:?}, flags {:#x}, allow {:#x}, audit \
         {:#x}, alarm {:#x}",
        ace.access, ace.kind, ace.name, ace.flags, ace.perms[0], ace.perms[1], ace.perms[2]
    )
}

/// Returns the name of the principal: a constant, or a pointer into the entry. Null if the entry is malformed.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_get_principal_str(ace: Bytes) -> Ptr<c_char> {
    guard(Ptr::null(), || {
        let Ok(known) = Ace::read(ace) else { return Ptr::null() };
        let special = match known.kind {
            Kind::Owner => c"OWNER@",
            Kind::OwnerGroup => c"GROUP@",
            Kind::Everyone => c"EVERYONE@",
            Kind::User | Kind::Group => {
                // The name follows the fixed part of the entry.
                return ace.cast::<c_char>().at(ACE_BYTES);
            }
        };
        // SAFETY: C only reads the string.
        unsafe { Ptr::new(special.as_ptr().cast_mut()) }
    })
}

/// Parses the text of an entry, and stores a new entry, which C frees, in `ace`.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_from_str(text: Str, ace: Ptr<Bytes>) -> c_int {
    boundary::always(|| {
        let read = parse(text.text()?)?;
        ace.needed()?.set(memory::copy(&read.to_bytes())?.cast());
        Ok(())
    })
}

/// Formats an entry as text in `buf`, a buffer of `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_to_str(ace: Bytes, buf: Str, len: usize) -> c_int {
    boundary::always(|| put(&to_text(&Ace::read(ace)?)?, buf, len))
}

/// Copies text and a NUL to `buf`, a buffer of `len` bytes. If the buffer is too short, the text is cut and the result
/// is `TRUNC`.
pub(super) fn put(text: &str, buf: Str, len: usize) -> Result<()> {
    let room = buf.needed()?.cast::<std::ffi::c_void>().write(len as u64)?;
    let (last, room) = room.split_last_mut().ok_or(Code::INVAL)?;
    let fits = text.len().min(room.len());
    room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
    *room.get_mut(fits).unwrap_or(last) = 0;
    if fits < text.len() { Err(Code::TRUNC) } else { Ok(()) }
}

const TYPES: [(char, u64); 3] = [('A', 0x1), ('U', 0x2), ('L', 0x4)];
const FLAGS: [(char, u64); 4] = [('G', 0x1), ('S', 0x8), ('F', 0x4), ('P', 0x2)];
const PERMS: [(char, u64); 9] = [
    ('r', 0x001),
    ('w', 0x002),
    ('c', 0x004),
    ('d', 0x008),
    ('t', 0x010),
    ('T', 0x020),
    ('a', 0x040),
    ('A', 0x080),
    ('o', 0x100),
];

/// Returns the bits that the letters of a text stand for. `INVAL` for an unknown letter.
fn bits(text: &str, letters: &[(char, u64)]) -> Result<u64> {
    text.chars().try_fold(0, |all, c| {
        let known = letters.iter().find(|(letter, _)| *letter == c);
        known.map(|(_, bit)| all | bit).ok_or(Code::INVAL)
    })
}

/// Returns the letters for the bits that are set: the inverse of [`bits`].
fn letters(bits: u64, letters: &[(char, u64)]) -> String {
    letters.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| letter).collect()
}

/// `DAOS_ACL_MAX_ACE_STR_LEN`.
const TEXT_MAX: usize = 319;

/// Parses an entry in DAOS's notation `types:flags:name:permissions`, such as `A::user@:rw`. `INVAL` if it is not
/// valid.
pub(crate) fn parse(text: &str) -> Result<Ace> {
    if text.len() > TEXT_MAX {
        return Err(Code::INVAL);
    }
    let parts: Vec<_> = text.split(':').collect();
    let [types, flags, name, perms] = parts[..] else { return Err(Code::INVAL) };
    let (access, flags) = (bits(types, &TYPES)?, bits(flags, &FLAGS)?);
    let perms = bits(perms, &PERMS)?;
    let kind = match (name, flags & u64::from(FLAG_GROUP) != 0) {
        ("OWNER@", _) => Kind::Owner,
        ("GROUP@", _) => Kind::OwnerGroup,
        ("EVERYONE@", _) => Kind::Everyone,
        (_, true) => Kind::Group,
        (_, false) => Kind::User,
    };
    if kind.has_name() && !principal::is_valid(name) {
        return Err(Code::INVAL);
    }
    let ace = Ace {
        access: access as u8,
        flags: flags as u16,
        perms: TYPES.map(|(_, bit)| if access & bit == 0 { 0 } else { perms }),
        ..Ace::new(kind, name)
    };
    if ace.is_valid() { Ok(ace) } else { Err(Code::INVAL) }
}

/// Formats an entry as `types:flags:name:permissions`. This notation has one set of permissions for all access types of
/// the entry, so an entry with several different sets is refused with `INVAL`.
pub(super) fn to_text(ace: &Ace) -> Result<String> {
    if !ace.is_valid() {
        return Err(Code::INVAL);
    }
    let access = u64::from(ace.access);
    let mut perms = TYPES.iter().zip(ace.perms).filter(|((_, bit), _)| access & bit != 0);
    let first = perms.next().map_or(0, |(_, perms)| perms);
    if perms.any(|(_, perms)| perms != first) {
        return Err(Code::INVAL);
    }
    let name = ace.kind.special().unwrap_or(&ace.name);
    let flags = letters(u64::from(ace.flags), &FLAGS);
    Ok(format!("{}:{flags}:{name}:{}", letters(access, &TYPES), letters(first, &PERMS)))
}

const TYPE_WORDS: [&str; 3] = ["Allow", "Audit", "Alarm"];
const FLAG_WORDS: [&str; 4] = ["Group", "Access-Success", "Access-Failure", "Pool-Inherit"];
const PERM_WORDS: [&str; 9] = [
    "Read",
    "Write",
    "Create-Container",
    "Delete-Container",
    "Get-Prop",
    "Set-Prop",
    "Get-ACL",
    "Set-ACL",
    "Set-Owner",
];

/// Translates the text of an entry to words.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_str_get_verbose(ace: Str, buf: Str, len: usize) -> c_int {
    boundary::always(|| put(&verbose(ace.text()?)?, buf, len))
}

/// Translates the text of an entry to words, in the order of its letters. The fields need not be consistent.
pub(super) fn verbose(ace: &str) -> Result<String> {
    let parts: Vec<_> = ace.split(':').collect();
    let [types, flags, name, perms] = parts[..] else { return Err(Code::INVAL) };
    if types.is_empty() || !principal::is_valid(name) {
        return Err(Code::INVAL);
    }
    let (types, flags) = (words(types, &TYPES, &TYPE_WORDS)?, words(flags, &FLAGS, &FLAG_WORDS)?);
    let perms = match perms {
        "" => "No-Access".to_owned(),
        perms => words(perms, &PERMS, &PERM_WORDS)?,
    };
    Ok(format!("{types}:{flags}:{}:{perms}", principal_words(name)))
}

/// Returns the principal of an entry for people: `Owner` for `OWNER@`, and so on; the name of a user or group is
/// unchanged.
fn principal_words(name: &str) -> &str {
    let is = |kind: Kind| kind.special() == Some(name);
    match name {
        _ if is(Kind::Owner) => "Owner",
        _ if is(Kind::OwnerGroup) => "Owner-Group",
        _ if is(Kind::Everyone) => "Everyone",
        _ => name,
    }
}

/// Replaces each letter of a part of an entry by its word, and joins the words by `/`. `INVAL` for an unknown letter.
fn words(part: &str, letters: &[(char, u64)], words: &[&str]) -> Result<String> {
    let word = |c: char| {
        let index = letters.iter().position(|(letter, _)| *letter == c).ok_or(Code::INVAL)?;
        Ok(words[index])
    };
    Ok(part.chars().map(word).collect::<Result<Vec<_>>>()?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_a_round_trip() {
        for text in ["A::OWNER@:rwdtTaAo", "A:G:readers@:rt", "AUL:GSF:GROUP@:rw", "A::bob@:"] {
            assert_eq!(to_text(&parse(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn malformed_text_is_rejected() {
        for text in ["", "A", "A::bob:r", "X::bob@:r", "A::GROUP@:r", "A:Z:bob@:r", "U::bob@:r"] {
            assert_eq!(parse(text), Err(Code::INVAL), "{text:?}");
        }
    }
}
