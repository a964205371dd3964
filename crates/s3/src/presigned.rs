//! Parameters of presigned URLs. A client that signs a URL may write headers of S3 into its query, where they have the
//! meaning of the headers. The signature covers them.
use crate::headers::SDK_ALGORITHM;
use crate::query::Query;
use crate::signature::{PRESIGNED, PRESIGNED_PARAMETERS};
use crate::sums::is_of_empty_body;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::PathAndQuery;

/// Headers of S3 have this prefix.
const PREFIX: &str = "x-amz-";
/// Headers that describe how a request is signed and framed, so they cannot be parameters.
const FRAMING: [&str; 4] =
    ["x-amz-content-sha256", "x-amz-date", "x-amz-decoded-content-length", "x-amz-trailer"];

/// Moves the headers in the query of a presigned URL into `headers`. Returns the URL without them and its signature.
pub(crate) fn take_parameters(uri: &Uri, headers: &mut HeaderMap) -> Uri {
    let query = Query::new(uri);
    if !query.has(PRESIGNED) {
        return uri.clone();
    }
    let mut is_kept = |pair: &&str| {
        let mut parsed = form_urlencoded::parse(pair.as_bytes());
        parsed.next().is_some_and(|(name, _)| {
            !PRESIGNED_PARAMETERS.contains(&&*name) && !take(&query, &name, headers)
        })
    };
    let pairs = uri.query().unwrap_or_default().split('&');
    with_query(uri, &pairs.filter(&mut is_kept).collect::<Vec<_>>())
}

/// The URL with the query `pairs` in place of its query.
fn with_query(uri: &Uri, pairs: &[&str]) -> Uri {
    let text = match pairs.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), pairs.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(text).ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// Moves a parameter into the headers, unless it only describes an empty body. False if it is not a header, or was sent
/// twice: then it stays in the query.
fn take(query: &Query, name: &str, headers: &mut HeaderMap) -> bool {
    let Some((name, value)) = as_header(query, name) else { return false };
    if headers.contains_key(&name) {
        return false;
    }
    if !is_without_body(name.as_str(), value.as_bytes()) {
        headers.insert(name, value);
    }
    true
}

/// A parameter as the header that it stands for; `None` if it was sent twice or is not a header of S3.
fn as_header(query: &Query, name: &str) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::from_bytes(query.get(name)?.as_bytes()).ok()?;
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let is_header = name.as_str().starts_with(PREFIX) && !FRAMING.contains(&name.as_str());
    is_header.then_some((name, value))
}

/// True for the checksum of an empty body, and for the name of its algorithm. SDKs sign these for a body that they do
/// not have, so they state nothing about the body that is sent.
fn is_without_body(name: &str, value: &[u8]) -> bool {
    name == SDK_ALGORITHM || is_of_empty_body(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URL and the headers after [`take_parameters`], for this query and these sent headers.
    fn taken(query: &str, headers: &[(&'static str, &'static str)]) -> (String, Vec<String>) {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers: HeaderMap = headers.collect();
        let uri = take_parameters(&format!("/b/k?{query}").parse().unwrap(), &mut headers);
        let headers =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        (uri.to_string(), headers.collect())
    }

    #[test]
    fn presigned_parameters_are_removed() {
        for (query, wanted) in [
            ("X-Amz-Signature=0&X%2DAmz-Date=1&partNumber=1&a%20b", "/b/k?partNumber=1&a%20b"),
            ("X-Amz-Signature=0", "/b/k"),
            ("X-Amz-Date=1", "/b/k?X-Amz-Date=1"),
            ("x-amz-acl=private", "/b/k?x-amz-acl=private"),
        ] {
            assert_eq!(taken(query, &[]), (wanted.to_owned(), vec![]));
        }
    }

    #[test]
    fn headers_in_presigned_query_are_headers() {
        let query =
            "X-Amz-Signature=0&x-amz-meta-a=x%20y&x-id=PutObject&X-Amz-Storage-Class=STANDARD";
        let headers = ["x-amz-meta-a: x y", "x-amz-storage-class: STANDARD"];
        let wanted = ("/b/k?x-id=PutObject".to_owned(), headers.map(str::to_owned).to_vec());
        assert_eq!(taken(query, &[]), wanted);
    }

    #[test]
    fn ambiguous_and_framing_parameters_are_left_to_be_refused() {
        let sent = [("x-amz-meta-a", "1")];
        for left in [
            "x-amz-meta-a=2",
            "x-amz-meta-b=1&x-amz-meta-b=2",
            "x-amz-trailer=x-amz-checksum-crc32",
            "x-amz-date=1",
            "x-amz-meta-c=%01",
        ] {
            let (uri, headers) = taken(&format!("X-Amz-Signature=0&{left}"), &sent);
            assert_eq!((uri, headers.len()), (format!("/b/k?{left}"), 1));
        }
    }

    #[test]
    fn only_checksums_of_empty_body_are_ignored() {
        for (checksum, is_ignored) in [
            ("x-amz-checksum-crc32=AAAAAA%3D%3D", true),
            ("x-amz-checksum-crc64nvme=AAAAAAAAAAA%3D", true),
            ("x-amz-checksum-sha1=2jmj7l5rSw0yVb%2FvlWAYkK%2FYBwk%3D", true),
            ("x-amz-sdk-checksum-algorithm=CRC32", true),
            ("x-amz-checksum-crc32=AAAAAQ%3D%3D", false),
            ("x-amz-checksum-crc32=", false),
            ("x-amz-checksum-md5=AAAAAA%3D%3D", false),
        ] {
            let (uri, headers) = taken(&format!("X-Amz-Signature=0&{checksum}"), &[]);
            assert_eq!((uri.as_str(), headers.is_empty()), ("/b/k", is_ignored), "{checksum}");
        }
    }
}
