//! Processing between signature and operation. One service of `s3s` verifies the signature. Then headers that `s3s`
//! could not parse are rewritten, which would invalidate the signature. Another service of `s3s` then parses the
//! operation.
use crate::admission::Admission;
use crate::document::{Document, Verified};
use crate::presigned::take_parameters;
use crate::sums::byte_of_hex;
use esker::types::check_label;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RANGE};
use hyper::http::Extensions;
use hyper::{Method, Uri};
use s3s::dto::CopySource;
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, HttpRequest, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use s3s::{StdError, TrailingHeaders};

/// The header that names the source of a copy.
const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
/// Source that replaces the requested one: `s3s` can parse it, whatever the label of the bucket is.
const ANY_SOURCE: HeaderValue = HeaderValue::from_static("source/key");
/// Separates the source of a copy from its version.
const VERSION: &str = "?versionId=";
/// The version that every object has.
const NO_VERSION: &str = "null";

/// The service that parses operations. It gets requests whose signature was verified.
pub(crate) struct Front(pub(crate) S3Service);

/// Extension of a request: the access key that has signed it.
#[derive(Clone)]
pub(crate) struct Signer(pub(crate) String);

/// Extension of a request: bucket and key of the source of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyFrom {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

#[async_trait::async_trait]
impl S3Route for Front {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    /// Serves a request with a valid signature: gives its connection a slot of the authenticated, and calls the
    /// operation.
    async fn call(&self, req: S3Request<Body>) -> S3Result<S3Response<Body>> {
        if let Some(admission) = req.extensions.get::<Admission>() {
            admission.admit().await;
        }
        let failed = |error: StdError| {
            tracing::error!(%error, "failed");
            S3Error::with_source(S3ErrorCode::InternalError, error)
        };
        let answer = self.0.call(rewrite(req)?).await;
        let (parts, body) = answer.map_err(|error| failed(StdError::from(error)))?.into_parts();
        let mut answer = S3Response::new(body);
        answer.status = Some(parts.status);
        answer.headers = parts.headers;
        answer.extensions = parts.extensions;
        Ok(answer)
    }
}

/// The request without its signature, and with headers that can be read.
fn rewrite(req: S3Request<Body>) -> S3Result<HttpRequest> {
    let body = match req.extensions.get::<Document>().cloned() {
        Some(document) if req.input.bytes().is_none() => {
            Body::http_body(Verified { body: req.input, document })
        }
        _ => req.input,
    };
    let mut request = HttpRequest::new(body);
    *request.headers_mut() = req.headers;
    *request.uri_mut() = take_parameters(&req.uri, request.headers_mut());
    *request.extensions_mut() = req.extensions;
    if let Some(found) = req.credentials {
        request.extensions_mut().insert(Signer(found.access_key));
    }
    if let Some(trailing) = req.trailing_headers {
        request.extensions_mut().insert::<TrailingHeaders>(trailing);
    }
    let headers = request.headers_mut();
    headers.remove(AUTHORIZATION);
    if [Method::GET, Method::HEAD].contains(&req.method) {
        rewrite_range(headers);
    }
    if let Some(source) = copy_source(headers)? {
        request.headers_mut().insert(COPY_SOURCE, ANY_SOURCE);
        request.extensions_mut().insert(source);
    }
    *request.method_mut() = req.method;
    Ok(request)
}

/// Removes a header `Range` that must be ignored (RFC 9110), and limits numbers that are beyond the end of any object.
fn rewrite_range(headers: &mut HeaderMap) {
    let mut values = headers.get_all(RANGE).iter();
    let Some(first) = values.next() else { return };
    let range = first.to_str().ok().filter(|_| values.next().is_none()).and_then(range);
    match range.and_then(|range| HeaderValue::from_str(&range).ok()) {
        Some(range) => drop(headers.insert(RANGE, range)),
        None => drop(headers.remove(RANGE)),
    }
}

/// A range of bytes, as `s3s` reads it; `None` for several ranges, other units and invalid ranges.
fn range(text: &str) -> Option<String> {
    let (unit, range) = text.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    match (first, last) {
        ("", last) => Some(format!("bytes=-{}", number(last)?)),
        (first, "") => Some(format!("bytes={}-", number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| format!("bytes={first}-{last}"))
        }
    }
}

/// Parses a number of digits, and limits it to the largest that `s3s` reads. `None` for any other text.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let most = i64::MAX as u64;
    is_number.then(|| digits.parse().unwrap_or(most).min(most))
}

/// The source of a copy; `None` without the header, and for an access point (`arn:`), which is not in a bucket.
fn copy_source(headers: &HeaderMap) -> S3Result<Option<CopyFrom>> {
    let mut values = headers.get_all(COPY_SOURCE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Ok(None) };
    let wrong = || {
        let why = "x-amz-copy-source must be BUCKET/KEY, percent-encoded";
        S3Error::with_message(S3ErrorCode::InvalidArgument, why)
    };
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| wrong())?;
    if text.starts_with("arn:") && CopySource::parse(text).is_ok() {
        return Ok(None);
    }
    let (path, version) = text.split_once(VERSION).unwrap_or((text, NO_VERSION));
    if version != NO_VERSION {
        let why = "versions are not offered here";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, why));
    }
    let path = decoded(path).ok_or_else(wrong)?;
    let (bucket, key) =
        path.strip_prefix('/').unwrap_or(&path).split_once('/').ok_or_else(wrong)?;
    match check_label(bucket).is_ok() && !key.is_empty() {
        true => Ok(Some(CopyFrom { bucket: bucket.to_owned(), key: key.to_owned() })),
        false => Err(wrong()),
    }
}

/// Decodes the percent-encoding of a path, in which a plus is a plus. `None` if it is invalid, or not UTF-8.
pub(crate) fn decoded(path: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        (rest, _) = match first {
            b'%' => {
                let byte = byte_of_hex(after.get(..2)?)?;
                (&after[2..], bytes.push(byte))
            }
            byte => (after, bytes.push(*byte)),
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_rfc_9110() {
        for (text, wanted) in [
            ("bytes=2-6", Some("bytes=2-6")),
            ("Bytes = 2-6", Some("bytes=2-6")),
            ("bytes=-3", Some("bytes=-3")),
            ("bytes=7-", Some("bytes=7-")),
            ("bytes=8-99999999999999999999", Some("bytes=8-9223372036854775807")),
            ("bytes=5-2", None),
            ("bytes=0-1,4-5", None),
            ("pages=0-1", None),
            ("bytes=-", None),
            ("bytes=+1-2", None),
            ("bytes", None),
        ] {
            assert_eq!(range(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn copy_source_may_have_any_container_label() {
        let of = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            copy_source(&HeaderMap::from_iter([(COPY_SOURCE, value)]))
        };
        for (value, bucket, key) in [
            ("b/k", "b", "k"),
            ("/my_run/a/b%2Fc+d", "my_run", "a/b/c+d"),
            ("Run%31/k?versionId=null", "Run1", "k"),
            ("run:1/arn", "run:1", "arn"),
        ] {
            let wanted = CopyFrom { bucket: bucket.to_owned(), key: key.to_owned() };
            assert_eq!(of(value).unwrap(), Some(wanted), "{value}");
        }
        for wrong in ["", "b", "/b", "b/", "b/%", "b/%zz", "b/%ff", "/", "../k", "b/k?versionId=1"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert_eq!(copy_source(&HeaderMap::new()).unwrap(), None);
    }
}
