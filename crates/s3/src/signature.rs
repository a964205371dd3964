//! Checks of signatures that `s3s` leaves out. A request is refused unless its signature covers all headers that change
//! its meaning.
use crate::limits::PRESIGNED_SECONDS_MAX;
use crate::query::Query;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap};
use hyper::{StatusCode, Uri};
use s3s::{S3Error, S3ErrorCode, S3Result};

/// The only algorithm that is accepted.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The service in the scope of a signature.
pub(crate) const SERVICE: &str = "s3";
/// The end of the scope of a signature.
pub(crate) const SCOPE_END: &str = "aws4_request";
/// Headers with this prefix change what a request does, so the signature must cover all of them.
const SIGNED_PREFIX: &str = "x-amz-";
/// Parameters of signatures before version 4.
const VERSION_2: [&str; 3] = ["AWSAccessKeyId", "Signature", "Expires"];
/// The parameter that makes a URL a presigned one.
pub(crate) const PRESIGNED: &str = "X-Amz-Signature";
/// Parameters of a presigned URL.
pub(crate) const PRESIGNED_PARAMETERS: [&str; 7] = [
    "X-Amz-Algorithm",
    "X-Amz-Content-Sha256",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
];

/// Claims of a signature, which `s3s` has yet to verify.
pub(crate) struct Signature<'r> {
    algorithm: &'r str,
    credential: &'r str,
    pub(crate) signed_headers: &'r str,
    pub(crate) signature: &'r str,
}

/// Refuses requests without a signature of version 4 that covers `host` and all headers `x-amz-*`.
///
/// # Errors
/// `AccessDenied` and other errors of S3 about signatures.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let query = Query::new(uri);
    let is_old =
        headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS "));
    if is_old || VERSION_2.iter().any(|name| query.has(name)) {
        return Err(denied("sign requests with Signature Version 4: version 2 is not accepted"));
    }
    if headers.contains_key("x-amz-security-token") || query.has("X-Amz-Security-Token") {
        let why = "keys have no session tokens here: send none";
        return Err(S3Error::with_message(S3ErrorCode::InvalidToken, why));
    }
    let signature = match (headers.contains_key(AUTHORIZATION), query.has(PRESIGNED)) {
        (false, false) => return Err(denied("nothing is served without a signature")),
        (true, true) => {
            let why = "sign a request in its header or in its query, not in both";
            return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, why));
        }
        (true, false) => parse_header(headers).ok_or_else(malformed_header_error)?,
        (false, true) => {
            check_expiry(&query)?;
            parse_query(&query).ok_or_else(|| malformed_query_error("a parameter is missing"))?
        }
    };
    signature.check_scope()?;
    signature.check_covers(headers)
}

/// The region for which a request is signed.
pub(crate) fn region(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let query = Query::new(uri);
    let signature = parse_header(headers).or_else(|| parse_query(&query))?;
    signature.scope().map(|[_, _, region]| region.to_owned())
}

/// The signature in the header `Authorization`; `None` if the header is missing, sent twice or malformed.
pub(crate) fn parse_header(headers: &HeaderMap) -> Option<Signature<'_>> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (first, None) = (all.next()?, all.next()) else { return None };
    let (algorithm, rest) = first.to_str().ok()?.split_once(' ')?;
    let mut parts = rest.split(',').map(str::trim_start);
    let credential = parts.next()?.strip_prefix("Credential=")?;
    let signed_headers = parts.next()?.strip_prefix("SignedHeaders=")?;
    let signature = parts.next()?.strip_prefix("Signature=")?;
    parts.next().is_none().then_some(Signature { algorithm, credential, signed_headers, signature })
}

/// The signature of a presigned URL; `None` if a parameter of it is missing or sent twice.
pub(crate) fn parse_query(query: &Query) -> Option<Signature<'_>> {
    Some(Signature {
        algorithm: query.get("X-Amz-Algorithm")?,
        credential: query.get("X-Amz-Credential")?,
        signed_headers: query.get("X-Amz-SignedHeaders")?,
        signature: query.get(PRESIGNED)?,
    })
}

/// Refuses presigned URLs without a valid lifetime: it must be 1 to [`PRESIGNED_SECONDS_MAX`] seconds.
fn check_expiry(query: &Query) -> S3Result<()> {
    let seconds = query.get("X-Amz-Expires").and_then(|value| value.parse::<u64>().ok());
    match seconds {
        Some(1..=PRESIGNED_SECONDS_MAX) => Ok(()),
        _ => Err(malformed_query_error(&format!(
            "X-Amz-Expires must be 1 to {PRESIGNED_SECONDS_MAX} seconds (PRESIGNED_SECONDS_MAX)"
        ))),
    }
}

impl<'r> Signature<'r> {
    /// Access key, day and region of the credential; `None` if it is malformed or for another service.
    pub(crate) fn scope(&self) -> Option<[&'r str; 3]> {
        let parts: Vec<_> = self.credential.split('/').collect();
        match parts[..] {
            [access, day, region, SERVICE, SCOPE_END] => Some([access, day, region]),
            _ => None,
        }
    }

    /// Checks algorithm and scope. `s3s` compares the scope's date with that of the request.
    fn check_scope(&self) -> S3Result<()> {
        match self.scope().is_some() && self.algorithm == ALGORITHM {
            true => Ok(()),
            false => Err(malformed_header_error()),
        }
    }

    /// Checks that the signature covers `host` and the headers of S3, and that each header that it names was sent.
    fn check_covers(&self, headers: &HeaderMap) -> S3Result<()> {
        let signed: Vec<_> = self.signed_headers.split(';').collect();
        let has_effect = |name: &str| name == HOST.as_str() || name.starts_with(SIGNED_PREFIX);
        let sent = headers.keys().map(|name| name.as_str());
        let mut wanted = sent.chain([HOST.as_str()]).filter(|name| has_effect(name));
        if let Some(name) = wanted.find(|name| !signed.contains(name)) {
            return Err(denied(format!("the signature does not cover the header {name}: sign it")));
        }
        match signed.iter().find(|name| !is_readable(headers, name)) {
            None => Ok(()),
            Some(name) => {
                let why = format!("the header {name:?} is signed, but was not sent as text");
                Err(S3Error::with_message(S3ErrorCode::SignatureDoesNotMatch, why))
            }
        }
    }
}

/// True if `s3s` can verify a signed header: its name is in lower case, and it was sent with values in UTF-8.
fn is_readable(headers: &HeaderMap, name: &str) -> bool {
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return false;
    }
    let mut values = headers.get_all(name).iter().peekable();
    values.peek().is_some() && values.all(|value| std::str::from_utf8(value.as_bytes()).is_ok())
}

/// The error for a request that is refused because of its signature.
#[cold]
fn denied(why: impl Into<String>) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, why.into())
}

/// The error for a signature with a wrong form, scope or algorithm.
#[cold]
fn malformed_header_error() -> S3Error {
    let why = "sign with AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/s3/aws4_request, \
               SignedHeaders=NAMES, Signature=DIGITS";
    S3Error::with_message(S3ErrorCode::AuthorizationHeaderMalformed, why)
}

/// The error for a presigned URL with a wrong or missing parameter.
#[cold]
fn malformed_query_error(why: &str) -> S3Error {
    let code = S3ErrorCode::AuthorizationQueryParametersError;
    let mut error = S3Error::with_message(code, format!("not a valid presigned URL: {why}"));
    error.set_status_code(StatusCode::BAD_REQUEST);
    error
}
