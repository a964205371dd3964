//! Entries in words.
use super::entry::put;
use super::text;
use super::{pure, text::read};
use crate::abi::Str;
use crate::code::Result;
use std::ffi::c_int;

const TYPES: [&str; 3] = ["Allow", "Audit", "Alarm"];
const FLAGS: [&str; 4] = ["Group", "Access-Success", "Access-Failure", "Pool-Inherit"];
const PERMS: [&str; 9] = [
    "Read",
    "Write",
    "Create-Container",
    "Delete-Container",
    "Get-Property",
    "Set-Property",
    "Get-ACL",
    "Set-ACL",
    "Set-Owner",
];

/// Puts an entry that is text in words.
#[unsafe(no_mangle)]
pub extern "C" fn daos_ace_str_get_verbose(ace: Str, buf: Str, len: usize) -> c_int {
    pure(|| put(&of(ace.text()?)?, buf, len))
}

/// An entry that is text, in words.
pub(super) fn of(ace: &str) -> Result<String> {
    read(ace)?;
    let parts: Vec<_> = ace.split(':').collect();
    let perms = words(parts[3], &text::PERMS, &PERMS);
    let perms = if perms.is_empty() { "No Access".to_owned() } else { perms };
    Ok(format!(
        "{}:{}:{}:{perms}",
        words(parts[0], &text::TYPES, &TYPES),
        words(parts[1], &text::FLAGS, &FLAGS),
        parts[2]
    ))
}

fn words(part: &str, letters: &[(char, u64)], words: &[&str]) -> String {
    let known = letters.iter().zip(words).filter(|((letter, _), _)| part.contains(*letter));
    known.map(|(_, word)| *word).collect::<Vec<_>>().join("/")
}
