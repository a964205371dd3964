//! Bodies that are XML. `s3s` reads such a body as a whole, without a check of its checksums. If it cannot read the
//! body, it reports an internal error.
use crate::body::verification_fault;
use crate::fault::Fault;
use crate::limits::XML_BYTES_MAX;
use crate::sums::{Etags, Expected, Sums};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderMap;
use s3s::{S3Error, S3ErrorCode, StdError};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Operations whose body is XML.
const OPERATIONS: [&str; 4] =
    ["CompleteMultipartUpload", "CreateBucket", "DeleteObjects", "PutObjectTagging"];
/// The operation whose headers have checksums of an object instead of the XML.
const COMPLETION: &str = "CompleteMultipartUpload";
/// The operation that reads its XML itself, because `s3s` skips elements of it.
const CREATION: &str = "CreateBucket";

/// Verification of a request's body, if that is XML; otherwise it does nothing. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Document(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Checksums that the request gives, and those of the bytes received so far.
    sums: Option<(Expected, Sums)>,
    /// Bytes received so far.
    bytes: usize,
    is_xml: bool,
    /// The XML so far, of an operation that reads it itself.
    text: Option<Vec<u8>>,
    /// Reason why the body was refused.
    fault: Option<S3Error>,
}

impl Document {
    /// Begins to verify the body of a request, if the body of this operation is XML.
    pub(crate) fn begin(&self, operation: &str, headers: &HeaderMap) {
        if !OPERATIONS.contains(&operation) {
            return;
        }
        let md5 = headers.get("content-md5").map(|md5| md5.to_str().unwrap_or_default().to_owned());
        let none = HeaderMap::new();
        let headers = if operation == COMPLETION { &none } else { headers };
        let expected = Expected::new(Etags::Md5, md5, headers, None);
        let sums = expected.sums();
        let mut state = self.state();
        (state.is_xml, state.sums) = (true, Some((expected, sums)));
        state.text = (operation == CREATION).then(Vec::new);
    }

    /// Keeps the next bytes of the XML, if the operation reads it itself.
    fn keep(&self, bytes: &[u8]) {
        self.state().text.iter_mut().for_each(|text| text.extend_from_slice(bytes));
    }

    /// Takes the XML that was kept for the operation.
    pub(crate) fn take_text(&self) -> Vec<u8> {
        self.state().text.take().unwrap_or_default()
    }

    /// Notes that the body is not the one that was signed, if that is the reason of this error.
    fn refuse_unverified(&self, error: &StdError) {
        let mut state = self.state();
        if state.is_xml && state.fault.is_none() {
            state.fault = verification_fault(&error.to_string()).map(S3Error::from);
        }
    }

    /// Adds the next bytes of the body.
    ///
    /// # Errors
    /// `MaxMessageLengthExceeded`.
    pub(crate) fn add(&self, bytes: &[u8]) -> Result<(), StdError> {
        let mut state = self.state();
        let Some((_, sums)) = &mut state.sums else { return Ok(()) };
        sums.update(bytes);
        state.bytes = state.bytes.saturating_add(bytes.len());
        if state.bytes <= XML_BYTES_MAX {
            return Ok(());
        }
        let why = format!("the XML of a request has at most {XML_BYTES_MAX} bytes (XML_BYTES_MAX)");
        Err(fail(&mut state, Fault::new(S3ErrorCode::MaxMessageLengthExceeded, why)))
    }

    /// Compares the checksums, after the last byte.
    ///
    /// # Errors
    /// `BadDigest`, `InvalidDigest`.
    pub(crate) fn finish(&self) -> Result<(), StdError> {
        let mut state = self.state();
        let Some((expected, sums)) = state.sums.take() else { return Ok(()) };
        expected.check(&sums.finish()).map_err(|fault| fail(&mut state, fault))
    }

    /// Notes that the body did not arrive, with the error for the reply.
    pub(crate) fn fail(&self, code: S3ErrorCode, why: &str) {
        let mut state = self.state();
        if state.sums.take().is_some() {
            fail(&mut state, Fault::new(code, why));
        }
    }

    /// Takes the reason why the body of an XML request was refused, such as a wrong signature. The server answers with
    /// it, since `s3s` only reports that the body could not be read.
    pub(crate) fn take_fault(&self) -> Option<S3Error> {
        self.state().fault.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request behind the verification of its signature.
pub(crate) struct Verified {
    pub(crate) body: s3s::Body,
    pub(crate) document: Document,
}

impl Body for Verified {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Err(error))) => self.document.refuse_unverified(error),
            Poll::Ready(Some(Ok(frame))) => {
                frame.data_ref().into_iter().for_each(|bytes| self.document.keep(bytes));
            }
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Refuses the body: stores the fault for the reply. Returns the error that ends the body for `s3s`.
fn fail(state: &mut State, fault: Fault) -> StdError {
    state.sums = None;
    state.fault = Some(fault.into());
    "the body of the request is refused".into()
}
