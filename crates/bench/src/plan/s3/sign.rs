//! Signature Version 4, of a request with all its headers. It stays by hand: `s3s` keeps its functions private,
//! `rusty-s3` signs URLs only, and `aws-sigv4` and `reqsign-aws-v4` would add 10 and 13 crates for 45 lines.
use super::Key;
use esker_cli::hex;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::{Method, http};
use jiff::Timestamp;
use ring::{digest, hmac};

/// Header with the checksum of the content, or with a keyword in its place.
pub(super) const CONTENT: &str = "x-amz-content-sha256";
const DATE: &str = "x-amz-date";

/// The SHA-256, in lower-case hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn mac(key: &[u8], message: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message.as_bytes())
}

/// Signs a request. Its headers have the sum of its content, and it has no query.
pub(super) fn sign(
    key: &Key,
    method: &Method,
    path: &str,
    headers: &mut HeaderMap,
    now: Timestamp,
) -> http::Result<()> {
    let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    headers.insert(DATE, HeaderValue::try_from(&date)?);
    let mut named: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default().trim()))
        .collect();
    named.sort_unstable();
    let lines: String = named.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let content = headers.get(CONTENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let request = format!("{method}\n{path}\n\n{lines}\n{names}\n{content}");
    let day = date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{}/s3/aws4_request", key.region);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(request.as_bytes()));
    let secret = format!("AWS4{}", key.secret);
    // The MAC of each step is the key of the next one. The last MAC is the signature.
    let steps = [day, &key.region, "s3", "aws4_request", &text];
    let signature =
        steps.iter().fold(secret.into_bytes(), |key, step| mac(&key, step).as_ref().to_vec());
    let access = &key.access;
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={}",
        hex(&signature)
    );
    headers.insert(AUTHORIZATION, HeaderValue::try_from(value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request `GET Object` of the manual of S3, "Examples: signature calculations".
    #[test]
    fn signature_matches_example_of_s3_manual() {
        let key = Key {
            access: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            region: "us-east-1".to_owned(),
        };
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("examplebucket.s3.amazonaws.com"));
        headers.insert("range", HeaderValue::from_static("bytes=0-9"));
        headers.insert(CONTENT, HeaderValue::try_from(sha256(b"")).unwrap());
        let now: Timestamp = "2013-05-24T00:00:00Z".parse().unwrap();
        sign(&key, &Method::GET, "/test.txt", &mut headers, now).unwrap();
        let signed = headers[AUTHORIZATION].to_str().unwrap();
        assert!(
            signed.ends_with(
                "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
            ),
            "{signed}"
        );
    }
}
