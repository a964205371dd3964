//! Repetition of transactions that conflict with others.
use crate::limits::RETRIES_MAX;
use esker::types::{Error, ErrorKind, Result};

/// Counts the attempts at a transaction that conflicts with others.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// The result of an attempt; `None` if it met a conflict, so that the caller has to repeat the transaction.
    pub(crate) fn resolve<T>(&mut self, result: Result<T>) -> Option<Result<T>> {
        match result {
            Err(error) if error.kind() == ErrorKind::TxRestart => self.again().err().map(Err),
            result => Some(result),
        }
    }

    /// Counts a conflict, and yields the processor. Fails with `Again` after [`RETRIES_MAX`] conflicts.
    fn again(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 < RETRIES_MAX {
            std::thread::yield_now();
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Again,
            format!("{RETRIES_MAX} attempts met conflicts (RETRIES_MAX); try again later"),
        ))
    }
}
