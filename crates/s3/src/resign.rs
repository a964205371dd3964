//! Signatures with a region or a date that `s3s` cannot read. They are verified here, and the request is signed again
//! with a region and a date that `s3s` can read.
use crate::front::decoded;
use crate::keys::Keys;
use crate::query::Query;
use crate::signature::{
    ALGORITHM, PRESIGNED, SCOPE_END, SERVICE, Signature, parse_header, parse_query,
};
use crate::sums::hex;
use hyper::header::{AUTHORIZATION, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri};
use ring::{digest, hmac};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};

/// A region that `s3s` can read.
const REGION: &str = "us-east-1";
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT: &str = "x-amz-content-sha256";
/// The hash of the content in the signature of a presigned URL, which does not cover the content.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// Beginning of the parameter with access key and scope.
const CREDENTIAL: &str = "X-Amz-Credential=";
/// Values of that header for bodies in chunks that are signed, each with the signature before it.
const SIGNED_CHUNKS: &[u8] = b"STREAMING-AWS4-";

/// Date, region and secret of a signature.
struct Scope<'r> {
    date: &'r str,
    region: &'r str,
    secret: &'r str,
}

/// Verifies a presigned URL whose region `s3s` cannot read, and returns the URL signed for another region. `None` if
/// the URL needs no change, or is not presigned.
///
/// # Errors
/// The errors of [`resign`].
pub(crate) fn resign_url(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    keys: &Keys,
) -> S3Result<Option<Uri>> {
    let query = Query::new(uri);
    let Some(old) = parse_query(&query) else { return Ok(None) };
    let Some([access, day, region]) = old.scope().filter(|[_, _, region]| !is_read(region)) else {
        return Ok(None);
    };
    let date = query.get("X-Amz-Date").filter(|date| date.starts_with(day)).ok_or_else(wrong)?;
    let key = keys.get(access).ok_or_else(|| S3Error::from(S3ErrorCode::InvalidAccessKeyId))?;
    let secret = key.secret.expose();
    let mut names: Vec<_> = old.signed_headers.split(';').map(str::to_owned).collect();
    names.sort();
    let pairs = sorted_pairs(&query);
    let request = canonical(method, uri, &pairs, headers, &names, UNSIGNED).ok_or_else(wrong)?;
    if !(Scope { date, region, secret }).verifies(&request, old.signature) {
        return Err(wrong());
    }
    let scope = Scope { date, region: REGION, secret };
    let credential = encoded(&format!("{access}/{}", scope.text()), b"");
    let pairs: Vec<_> = pairs
        .into_iter()
        .map(|pair| match pair.starts_with(CREDENTIAL) {
            true => format!("{CREDENTIAL}{credential}"),
            false => pair,
        })
        .collect();
    let request = canonical(method, uri, &pairs, headers, &names, UNSIGNED).ok_or_else(wrong)?;
    let url = format!("{}?{}&{PRESIGNED}={}", uri.path(), pairs.join("&"), scope.sign(&request));
    url.parse().map(Some).map_err(|_| wrong())
}

/// Verifies a request whose region `s3s` cannot read, or that has `Date` in place of `x-amz-date`. Then replaces its
/// signature by one that `s3s` can read.
///
/// # Errors
/// `SignatureDoesNotMatch`, `InvalidAccessKeyId`.
pub(crate) fn resign(
    method: &Method,
    uri: &Uri,
    headers: &mut HeaderMap,
    keys: &Keys,
) -> S3Result<()> {
    let Some(old) = parse_header(headers) else { return Ok(()) };
    let Some([access, day, region]) = old.scope() else { return Ok(()) };
    if is_read(region) && headers.contains_key(AMZ_DATE) {
        return Ok(());
    }
    if headers.get(CONTENT).is_some_and(|kind| kind.as_bytes().starts_with(SIGNED_CHUNKS)) {
        let why =
            "bodies in signed chunks need a region of small letters, digits and -, and x-amz-date";
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, why));
    }
    let date = date_of(headers, &old).filter(|date| date.starts_with(day)).ok_or_else(wrong)?;
    let key = keys.get(access).ok_or_else(|| S3Error::from(S3ErrorCode::InvalidAccessKeyId))?;
    let secret = key.secret.expose();
    let mut names: Vec<_> = old.signed_headers.split(';').map(str::to_owned).collect();
    names.sort();
    let pairs = sorted_pairs(&Query::new(uri));
    let content = headers.get(CONTENT).and_then(|content| content.to_str().ok());
    let content = content.ok_or_else(wrong)?.to_owned();
    let request = canonical(method, uri, &pairs, headers, &names, &content).ok_or_else(wrong)?;
    if !(Scope { date: &date, region, secret }).verifies(&request, old.signature) {
        return Err(wrong());
    }
    let access = access.to_owned();
    headers.insert(AMZ_DATE, HeaderValue::from_str(&date).map_err(|_| wrong())?);
    names.push(AMZ_DATE.as_str().to_owned());
    names.sort();
    names.dedup();
    let request = canonical(method, uri, &pairs, headers, &names, &content).ok_or_else(wrong)?;
    let scope = Scope { date: &date, region: REGION, secret };
    let authorization = scope.authorization(&access, &names, &request);
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&authorization).map_err(|_| wrong())?);
    Ok(())
}

impl Scope<'_> {
    /// The day of the signature: `YYYYMMDD`.
    fn day(&self) -> &str {
        self.date.get(..8).unwrap_or_default()
    }

    /// The scope as the credential has it: day, region, service and end.
    fn text(&self) -> String {
        format!("{}/{}/{SERVICE}/{SCOPE_END}", self.day(), self.region)
    }

    /// The key to sign with, which depends on the day, the region and the service.
    fn key(&self) -> hmac::Key {
        let first = format!("AWS4{}", self.secret).into_bytes();
        let steps = [self.day(), self.region, SERVICE, SCOPE_END];
        let bytes = steps.iter().fold(first, |key, step| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::sign(&key, step.as_bytes()).as_ref().to_vec()
        });
        hmac::Key::new(hmac::HMAC_SHA256, &bytes)
    }

    /// The string to sign of Signature Version 4 for a canonical request.
    fn to_sign(&self, request: &str) -> String {
        let sum = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        [ALGORITHM, self.date, &self.text(), &sum].join("\n")
    }

    /// Value of the header `Authorization` for a canonical request that covers the headers `names`.
    fn authorization(&self, access: &str, names: &[String], request: &str) -> String {
        format!(
            "{ALGORITHM} Credential={access}/{}, SignedHeaders={}, Signature={}",
            self.text(),
            names.join(";"),
            self.sign(request)
        )
    }

    /// The signature of a canonical request.
    fn sign(&self, request: &str) -> String {
        hex(hmac::sign(&self.key(), self.to_sign(request).as_bytes()).as_ref())
    }

    /// True if `signature` is that of a canonical request.
    fn verifies(&self, request: &str, signature: &str) -> bool {
        let given = bytes_of(signature);
        given.is_some_and(|given| {
            hmac::verify(&self.key(), self.to_sign(request).as_bytes(), &given).is_ok()
        })
    }
}

/// The bytes of lower-case hexadecimal digits; `None` for any other text.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(is_digit) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// True for a region that `s3s` can read.
fn is_read(region: &str) -> bool {
    !region.is_empty()
        && region
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The date of a request in the form of `x-amz-date`. From the header `Date`, only if the signature covers that.
fn date_of(headers: &HeaderMap, signature: &Signature<'_>) -> Option<String> {
    if let Some(date) = headers.get(AMZ_DATE) {
        return date.to_str().ok().map(str::to_owned);
    }
    if !signature.signed_headers.split(';').any(|name| name == DATE.as_str()) {
        return None;
    }
    let mut dates = headers.get_all(DATE).iter();
    let (first, None) = (dates.next()?, dates.next()) else { return None };
    let time = Timestamp::parse(TimestampFormat::HttpDate, first.to_str().ok()?).ok()?;
    let mut text = Vec::new();
    time.format(TimestampFormat::DateTime, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?.replace(['-', ':'], "");
    Some(format!("{}Z", text.split(['.', 'Z']).next()?))
}

/// The parameters of a query that a signature covers: encoded as `name=value`, and sorted.
fn sorted_pairs(query: &Query) -> Vec<String> {
    let covered = query.iter().filter(|(name, _)| *name != PRESIGNED);
    let mut pairs: Vec<_> =
        covered.map(|(name, value)| (encoded(name, b""), encoded(value, b""))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// The canonical request of Signature Version 4. `pairs` are the parameters, `names` the signed headers, `content` the
/// hash of the body. `None` for a path or header that is not UTF-8.
fn canonical(
    method: &Method,
    uri: &Uri,
    pairs: &[String],
    headers: &HeaderMap,
    names: &[String],
    content: &str,
) -> Option<String> {
    let mut lines = String::new();
    for name in names {
        let values: Option<Vec<_>> = headers.get_all(name).iter().map(trimmed).collect();
        lines += &format!("{name}:{}\n", values?.join(","));
    }
    let path = encoded(&decoded(uri.path())?, b"/");
    Some([method.as_str(), &path, &pairs.join("&"), &lines, &names.join(";"), content].join("\n"))
}

/// The value of a header as the canonical request has it: without surrounding white space, and with single blanks.
fn trimmed(value: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Percent-encodes all bytes of `text` except the unreserved ones (letters, digits and `-_.~`) and those in `kept`.
fn encoded(text: &str, kept: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            true => out.push(char::from(byte)),
            false => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// The error for a signature that does not match.
#[cold]
fn wrong() -> S3Error {
    S3ErrorCode::SignatureDoesNotMatch.into()
}
