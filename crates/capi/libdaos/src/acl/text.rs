//! Entries as text: `types:flags:principal:permissions`.
use super::fields::{Ace, Kind};
use super::principal;
use crate::code::{Code, Result};

pub(super) const TYPES: [(char, u64); 3] = [('A', 0x1), ('U', 0x2), ('L', 0x4)];
pub(super) const FLAGS: [(char, u64); 4] = [('G', 0x1), ('S', 0x8), ('F', 0x4), ('P', 0x2)];
pub(super) const PERMS: [(char, u64); 9] = [
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

fn bits(text: &str, letters: &[(char, u64)]) -> Result<u64> {
    text.chars().try_fold(0, |all, c| {
        let known = letters.iter().find(|(letter, _)| *letter == c);
        known.map(|(_, bit)| all | bit).ok_or(Code::INVAL)
    })
}

fn letters(bits: u64, letters: &[(char, u64)]) -> String {
    letters.iter().filter(|(_, bit)| bits & bit != 0).map(|(letter, _)| letter).collect()
}

/// `DAOS_ACL_MAX_ACE_STR_LEN`.
const TEXT_MAX: usize = 319;

/// Reads an entry.
pub(crate) fn read(text: &str) -> Result<Ace> {
    if text.len() > TEXT_MAX {
        return Err(Code::INVAL);
    }
    let parts: Vec<_> = text.split(':').collect();
    let [types, flags, name, perms] = parts[..] else { return Err(Code::INVAL) };
    let (access, flags) = (bits(types, &TYPES)?, bits(flags, &FLAGS)?);
    let perms = bits(perms, &PERMS)?;
    let kind = match (name, flags & 1 != 0) {
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

/// Writes an entry, whose permissions must be the same for each kind of access.
pub(super) fn write(ace: &Ace) -> Result<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        for text in ["A::OWNER@:rwdtTaAo", "A:G:readers@:rt", "AUL:GSF:GROUP@:rw", "A::bob@:"] {
            assert_eq!(write(&read(text).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn bad_text_is_refused() {
        for text in ["", "A", "A::bob:r", "X::bob@:r", "A::GROUP@:r", "A:Z:bob@:r", "U::bob@:r"] {
            assert_eq!(read(text), Err(Code::INVAL), "{text:?}");
        }
    }
}
