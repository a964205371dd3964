//! Entries in words.
use super::entry::put;
use super::{Kind, principal, pure, text};
use crate::abi::Str;
use crate::code::{Code, Result};
use std::ffi::c_int;

const TYPES: [&str; 3] = ["Allow", "Audit", "Alarm"];
const FLAGS: [&str; 4] = ["Group", "Access-Success", "Access-Failure", "Pool-Inherit"];
const PERMS: [&str; 9] = [
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

/// Puts an entry that is text in words.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_str_get_verbose(ace: Str, buf: Str, len: usize) -> c_int {
    pure(|| put(&of(ace.text()?)?, buf, len))
}

/// An entry that is text, in words, in the order of its letters. The fields need not go together.
pub(super) fn of(ace: &str) -> Result<String> {
    let parts: Vec<_> = ace.split(':').collect();
    let [types, flags, name, perms] = parts[..] else { return Err(Code::INVAL) };
    if types.is_empty() || !principal::is_valid(name) {
        return Err(Code::INVAL);
    }
    let (types, flags) = (words(types, &text::TYPES, &TYPES)?, words(flags, &text::FLAGS, &FLAGS)?);
    let perms = match perms {
        "" => "No-Access".to_owned(),
        perms => words(perms, &text::PERMS, &PERMS)?,
    };
    Ok(format!("{types}:{flags}:{}:{perms}", who(name)))
}

fn who(name: &str) -> &str {
    let is = |kind: Kind| kind.special() == Some(name);
    match name {
        _ if is(Kind::Owner) => "Owner",
        _ if is(Kind::OwnerGroup) => "Owner-Group",
        _ if is(Kind::Everyone) => "Everyone",
        _ => name,
    }
}

fn words(part: &str, letters: &[(char, u64)], words: &[&str]) -> Result<String> {
    let word = |c: char| {
        let place = letters.iter().position(|(letter, _)| *letter == c).ok_or(Code::INVAL)?;
        Ok(words[place])
    };
    Ok(part.chars().map(word).collect::<Result<Vec<_>>>()?.join("/"))
}
