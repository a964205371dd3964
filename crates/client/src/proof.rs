//! Proofs: reads whose data has not changed.
use esker_types::ops::ReadTokens;

/// Proof of a transaction's reads: [`crate::Container::write_if`] writes on condition that they still hold.
#[derive(Debug, Default)]
pub struct Proof(ReadTokens);

impl Proof {
    /// A proof of the reads that a backend has recorded as `tokens`.
    pub(crate) fn from_tokens(tokens: ReadTokens) -> Self {
        Self(tokens)
    }

    /// The reads in the form that the backend trait takes.
    pub(crate) fn tokens(&self) -> &ReadTokens {
        &self.0
    }
}
