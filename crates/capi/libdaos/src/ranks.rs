//! Lists of ranks. A pool has one rank, number 0.
use crate::abi::{Ptr, RankList, Str};
use crate::boundary::{self, guard};
use crate::code::{Code, Result};
use crate::memory;
use crate::property::rank_list;
use std::ffi::c_int;

/// Longest list.
const RANKS_MAX: u32 = 1 << 20;

/// Creates a list of the ranks 0, 1, 2 and so on.
#[unsafe(no_mangle)]
pub extern "C" fn d_rank_list_alloc(size: u32) -> Ptr<RankList> {
    guard(Ptr::null(), || match size {
        0..=RANKS_MAX => rank_list(&(0..size).collect::<Vec<_>>()).unwrap_or(Ptr::null()),
        _ => Ptr::null(),
    })
}

/// Copies a list; a null pointer stays one.
pub(crate) fn copy(list: Ptr<RankList>) -> Result<Ptr<RankList>> {
    if list.is_null() {
        return Ok(Ptr::null());
    }
    let list = list.get()?;
    rank_list(&list.ranks.list(list.nr as usize)?)
}

/// Copies a list.
#[unsafe(no_mangle)]
pub extern "C" fn d_rank_list_dup(dst: Ptr<Ptr<RankList>>, src: Ptr<RankList>) -> c_int {
    boundary::always(|| {
        dst.needed()?.set(copy(src)?);
        Ok(())
    })
}

/// Frees a list.
#[unsafe(no_mangle)]
pub extern "C" fn d_rank_list_free(list: Ptr<RankList>) {
    if let Ok(fields) = list.get() {
        memory::free(fields.ranks);
        memory::free(list);
    }
}

/// Parses ranks between which any character of `separator` stands. Null if the text is not valid.
#[unsafe(no_mangle)]
pub extern "C" fn daos_rank_list_parse(text: Str, separator: Str) -> Ptr<RankList> {
    guard(Ptr::null(), || parse(text, separator).unwrap_or(Ptr::null()))
}

/// Parses ranks between which any character of `separator` stands. `INVAL` if there is none.
fn parse(text: Str, separator: Str) -> Result<Ptr<RankList>> {
    let separators = separator.text()?;
    let is_separator = |c: char| separators.contains(c);
    let ranks = text.text()?.split(is_separator).filter(|rank| !rank.is_empty());
    let ranks = ranks.map(|rank| rank.trim().parse().map_err(|_| Code::INVAL));
    let ranks = ranks.collect::<Result<Vec<u32>>>()?;
    if ranks.is_empty() { Err(Code::INVAL) } else { rank_list(&ranks) }
}
