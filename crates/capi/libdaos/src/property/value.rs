//! Values of properties: in a list of C, and as the bytes that are kept with a container.
use super::table::{Property, Sort};
use crate::abi::{Bytes, PropEntry, PropValue, Ptr, RankList, Roots};
use crate::acl;
use crate::code::{Code, Result};
use crate::memory;

/// Longest owner or label.
const TEXT_MAX: usize = 255;

/// `DAOS_PROP_ENTRY_NOT_SET`.
const NOT_SET: u16 = 1;

/// A value outside a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    /// An access control list, with its header.
    Acl(Vec<u8>),
    Roots(Roots),
    Ranks(Vec<u32>),
}

impl Value {
    /// Reads the value of an entry.
    pub(crate) fn read(property: &Property, entry: PropEntry) -> Result<Self> {
        if entry.flags & NOT_SET != 0 {
            return Err(Code::INVAL);
        }
        Ok(match property.sort {
            Sort::Number if entry.value.number() > property.most => return Err(Code::INVAL),
            Sort::Number => Self::Number(entry.value.number()),
            Sort::Text => Self::Text(text(entry.value.string().text()?)?),
            Sort::Acl => Self::Acl(acl::checked(entry.value.pointer())?.to_vec()),
            Sort::Roots => Self::Roots(entry.value.pointer::<Roots>().get()?),
            Sort::Ranks => return Err(Code::NO_PERM),
        })
    }

    /// Writes the value into an entry, in memory for the caller to free.
    pub(crate) fn give(&self, at: Ptr<PropEntry>) -> Result<()> {
        let value = match self {
            // SAFETY: it was read from, and is given for, a property that is a number.
            Self::Number(number) => unsafe { PropValue::new(*number) },
            Self::Text(text) => memory::string(text.as_bytes())?.into(),
            Self::Acl(bytes) => memory::copy(bytes)?.into(),
            Self::Roots(roots) => memory::one(*roots)?.into(),
            Self::Ranks(ranks) => rank_list(ranks)?.into(),
        };
        at.set(PropEntry { value, flags: 0, ..at.get()? });
        Ok(())
    }

    /// The bytes to keep.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_le_bytes().to_vec(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Acl(bytes) => bytes.clone(),
            Self::Roots(roots) => {
                let words = roots.oids.iter().flat_map(|oid| [oid.lo, oid.hi]);
                words.flat_map(u64::to_le_bytes).collect()
            }
            Self::Ranks(ranks) => ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect(),
        }
    }

    /// The value that was kept.
    pub(crate) fn from_bytes(sort: Sort, bytes: Vec<u8>) -> Option<Self> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        Some(match sort {
            Sort::Number => Self::Number(word(&bytes)?),
            Sort::Text => Self::Text(String::from_utf8(bytes).ok()?),
            Sort::Acl => Self::Acl(bytes),
            Sort::Roots => {
                let mut words = bytes.chunks_exact(8).map(word);
                let mut next = || words.next().flatten();
                let mut roots = Roots::default();
                for oid in &mut roots.oids {
                    (oid.lo, oid.hi) = (next()?, next()?);
                }
                Self::Roots(roots)
            }
            Sort::Ranks => return None,
        })
    }
}

fn text(text: &str) -> Result<String> {
    match text.len() {
        0..=TEXT_MAX => Ok(text.to_owned()),
        _ => Err(Code::INVAL),
    }
}

/// A list of ranks for the caller to free.
pub(crate) fn rank_list(ranks: &[u32]) -> Result<Ptr<RankList>> {
    memory::one(RankList { ranks: memory::copy(ranks)?, nr: ranks.len() as u32 })
}

/// Frees what an entry points at.
pub(crate) fn free(sort: Option<Sort>, entry: PropEntry) {
    match sort {
        Some(Sort::Text | Sort::Acl | Sort::Roots) => memory::free::<u8>(entry.value.pointer()),
        Some(Sort::Ranks) => crate::ranks::d_rank_list_free(entry.value.pointer()),
        Some(Sort::Number) | None => {}
    }
}

/// A copy of an entry that shares no memory with it.
pub(crate) fn duplicate(sort: Option<Sort>, entry: PropEntry, at: Ptr<PropEntry>) -> Result<()> {
    let pointer: Bytes = entry.value.pointer();
    let value = match sort {
        _ if pointer.is_null() => entry.value,
        Some(Sort::Text) => memory::string(entry.value.string().bytes()?)?.into(),
        Some(Sort::Acl) => memory::copy(acl::checked(entry.value.pointer())?)?.into(),
        Some(Sort::Roots) => memory::one(entry.value.pointer::<Roots>().get()?)?.into(),
        Some(Sort::Ranks) => crate::ranks::copy(entry.value.pointer())?.into(),
        Some(Sort::Number) | None => entry.value,
    };
    at.set(PropEntry { value, ..entry });
    Ok(())
}
