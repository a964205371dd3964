//! Failures of the calls of `esker.h`: a code, and a text that names thing, cause and remedy.
use crate::code::{self, Code};
use crate::errors;
use esker::types::Error;

/// The failure of a call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// A result that fails with a [`Failure`].
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The failure for an argument that is not valid.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::INVAL, text)
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        code::log(&error);
        Self::new(Code(error.der()), error.to_string())
    }
}

impl From<Code> for Failure {
    /// A failure without a text of its own has the description of its code.
    #[cold]
    fn from(code: Code) -> Self {
        Self::new(code, errors::describe(code.0))
    }
}
