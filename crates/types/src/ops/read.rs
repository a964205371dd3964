//! Reads: values, the state that a read sees, and tokens that prove reads at a commit.
use super::{Cond, Sink};
use crate::{Epoch, Extent};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Kind of value that a fetch reads.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The single value.
    Single,
    /// Records of an array. The sink receives those of all extents, one after the other.
    Array(&'a [Extent]),
}

/// Request for one akey: a plain value that can be sent.
#[derive(Clone, Copy, Debug)]
pub struct FetchRequest<'a> {
    /// The akey.
    pub akey: &'a [u8],
    /// The value or records to read.
    pub wanted: Wanted<'a>,
    /// Bytes per record the caller expects of an array, 0 for any.
    pub record_size: u64,
    /// Asks for [`FetchReply::filled`].
    pub want_filled: bool,
    /// [`Cond::AKEY_FETCH`] or none.
    pub cond: Cond,
}

/// Reply for one akey: the buffers of its bytes, and the sizes found.
///
/// A missing akey is not an error: `size` is 0 and the sink is not modified. Likewise the sink is not modified for
/// records that were never written.
#[derive(Debug, Default)]
pub struct FetchReply<'a> {
    /// Destination of the bytes. [`Sink::None`] asks for the size only.
    pub sink: Sink<'a>,
    /// The stored record size, or the size of the single value; 0 if the akey does not exist.
    pub size: u64,
    /// Bytes of the sink from its start to the end of the last byte filled.
    pub filled_bytes: u64,
    /// Records that were found, in the order of the request, if they were requested.
    pub filled: Vec<Extent>,
}

impl FetchReply<'_> {
    /// Clears the results of an earlier attempt, before the fetch is repeated. The sink stays.
    pub fn reset(&mut self) {
        self.size = 0;
        self.filled_bytes = 0;
        self.filled.clear();
    }
}

/// One akey of a fetch: the request and its reply.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// The request.
    pub request: FetchRequest<'a>,
    /// The reply.
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

    /// A fetch of `akey` without a condition, which does not ask for [`FetchReply::filled`].
    fn new(akey: &'a [u8], wanted: Wanted<'a>, record_size: u64, sink: Sink<'a>) -> Self {
        let cond = Cond::NONE;
        let request = FetchRequest { akey, wanted, record_size, want_filled: false, cond };
        Self { request, reply: FetchReply { sink, ..FetchReply::default() } }
    }

    /// Adds a condition: [`Cond::AKEY_FETCH`].
    #[must_use]
    pub fn with_cond(mut self, cond: Cond) -> Self {
        self.request.cond = cond;
        self
    }
}

/// A fetch of akeys of one dkey.
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

/// Tokens of the reads of one transaction. At the commit, each proves that the data of its read has not changed. A
/// token consists of bytes that only its backend interprets.
#[derive(Debug, Default)]
pub struct ReadTokens(Mutex<Tokens>);

/// Concatenated tokens, and the end of each.
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

    /// Applies `read` to each token, in the order in which they were added.
    pub fn map<T>(&self, mut read: impl FnMut(&[u8]) -> T) -> Vec<T> {
        let tokens = self.tokens();
        let begins = std::iter::once(0).chain(tokens.ends.iter().copied());
        begins.zip(&tokens.ends).map(|(begin, end)| read(&tokens.bytes[begin..*end])).collect()
    }

    /// True if there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens().ends.is_empty()
    }

    /// Locks the tokens.
    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A read lease: the data of the reads does not change until it ends.
#[derive(Debug)]
pub struct ReadLease {
    /// Its duration, counted from before the request.
    pub term: Duration,
    /// Tokens for all reads of the lease. They replace the tokens of the request, and are shorter.
    pub reads: ReadTokens,
}

/// Options of a read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadAt<'a> {
    /// The state that it sees.
    pub view: View,
    /// Tokens of the transaction's reads.
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
    fn tokens_are_returned_in_the_order_of_adding() {
        let tokens = ReadTokens::default();
        assert!(tokens.is_empty());
        let added = [&b"one"[..], b"", b"three"];
        added.iter().for_each(|token| tokens.add(token));
        assert_eq!(tokens.map(<[u8]>::to_vec), added.map(<[u8]>::to_vec));
        assert!(!tokens.is_empty());
    }
}
