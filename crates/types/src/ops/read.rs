//! Reading values, the state a read sees, and proof of what was read.
use super::{Cond, Sink};
use crate::{Epoch, Extent};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a fetch wants of an akey.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The single value.
    Single,
    /// Records of the array; the sink takes those of all extents, one after the other.
    Array(&'a [Extent]),
}

/// What is wanted of one akey: a plain value that can be sent.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The akey.
    pub akey: &'a [u8],
    /// What the caller wants of it.
    pub wanted: Wanted<'a>,
    /// Bytes per record the caller expects of an array, 0 for any.
    pub record_size: u64,
    /// Asks for [`FetchReply::filled`].
    pub want_filled: bool,
    /// [`Cond::AKEY_FETCH`] or none.
    pub cond: Cond,
}

/// The answer for one akey: where its bytes go, and what was found.
///
/// A missing akey is no error: `size` is 0 and the sink is left as it is. So are the places of records that were
/// never written.
#[derive(Debug, Default)]
pub struct FetchReply<'a> {
    /// Where the bytes go. [`Sink::None`] asks for the size only.
    pub sink: Sink<'a>,
    /// The stored record size, or the size of the single value; 0 where the akey does not exist.
    pub size: u64,
    /// Bytes of the sink from its start to the end of the last byte filled.
    pub filled_bytes: u64,
    /// Which records were found, in the order of the request, where that was asked for.
    pub filled: Vec<Extent>,
}

impl FetchReply<'_> {
    /// Forgets what an earlier attempt found; the sink stays.
    pub fn reset(&mut self) {
        self.size = 0;
        self.filled_bytes = 0;
        self.filled.clear();
    }
}

/// One akey of a fetch: the request and its reply.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// What is wanted.
    pub request: FetchRequest<'a>,
    /// What was found.
    pub reply: FetchReply<'a>,
}

impl<'a> Fetch<'a> {
    /// Asks for a single value.
    #[must_use]
    pub fn single(akey: &'a [u8], sink: Sink<'a>) -> Self {
        Self::new(akey, Wanted::Single, 0, sink)
    }

    /// Asks for records of an array of `record_size` bytes each (0: any).
    #[must_use]
    pub fn array(akey: &'a [u8], record_size: u64, extents: &'a [Extent], sink: Sink<'a>) -> Self {
        Self::new(akey, Wanted::Array(extents), record_size, sink)
    }

    fn new(akey: &'a [u8], wanted: Wanted<'a>, record_size: u64, sink: Sink<'a>) -> Self {
        let cond = Cond::NONE;
        let request = FetchRequest { akey, wanted, record_size, want_filled: false, cond };
        Self { request, reply: FetchReply { sink, ..FetchReply::default() } }
    }

    /// The same with a condition: [`Cond::AKEY_FETCH`].
    #[must_use]
    pub fn with_cond(mut self, cond: Cond) -> Self {
        self.request.cond = cond;
        self
    }
}

/// What is fetched of one dkey.
#[derive(Debug)]
pub struct DkeyFetch<'f, 'b> {
    /// The dkey.
    pub dkey: &'f [u8],
    /// [`Cond::DKEY_FETCH`] or none.
    pub cond: Cond,
    /// Its akeys.
    pub akeys: &'f mut [Fetch<'b>],
}

/// The state a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum View {
    /// Everything committed so far.
    #[default]
    Latest,
    /// A snapshot.
    Snapshot(Epoch),
}

/// Collects what a backend says about the reads of one transaction: a token for each, which proves at the commit that
/// what was read still stands. A token is bytes of the backend's own; nobody else looks into it.
#[derive(Debug, Default)]
pub struct ReadTokens(Mutex<Tokens>);

/// Tokens one behind the other, and where each ends.
#[derive(Debug, Default)]
struct Tokens {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ReadTokens {
    /// Adds a token.
    pub fn add(&self, token: &[u8]) {
        let mut tokens = self.tokens();
        tokens.bytes.extend_from_slice(token);
        let end = tokens.bytes.len();
        tokens.ends.push(end);
    }

    /// What `read` makes of each token, in the order they were added.
    pub fn map<T>(&self, mut read: impl FnMut(&[u8]) -> T) -> Vec<T> {
        let tokens = self.tokens();
        let begins = std::iter::once(0).chain(tokens.ends.iter().copied());
        begins.zip(&tokens.ends).map(|(begin, end)| read(&tokens.bytes[begin..*end])).collect()
    }

    /// True if nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens().ends.is_empty()
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read lease: nothing changes of what was read until it ends.
#[derive(Debug)]
pub struct ReadLease {
    /// How long it lasts, counted from before it was asked for.
    pub term: Duration,
    /// Stands for all that was read. Shorter than the tokens it was asked for with, which it replaces.
    pub reads: ReadTokens,
}

/// Options of a read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadAt<'a> {
    /// Which state it sees.
    pub view: View,
    /// Where a transaction collects proof of what it has read.
    pub tokens: Option<&'a ReadTokens>,
}

impl ReadAt<'_> {
    /// Everything committed so far, outside any transaction.
    pub const LATEST: Self = ReadAt { view: View::Latest, tokens: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were_added() {
        let tokens = ReadTokens::default();
        assert!(tokens.is_empty());
        let added = [&b"one"[..], b"", b"three"];
        added.iter().for_each(|token| tokens.add(token));
        assert_eq!(tokens.map(<[u8]>::to_vec), added.map(<[u8]>::to_vec));
        assert!(!tokens.is_empty());
    }
}
