//! Headers that each operation takes, with their values.
use crate::sums::{CHECKSUM, is_checksum, is_of_empty_body};
use hyper::header::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result};

/// Headers of S3 have this prefix.
const PREFIX: &str = "x-amz-";
/// Headers of user metadata have this prefix.
const METADATA: &str = "x-amz-meta-";
/// The header with the MD5 of a body.
const MD5: &str = "content-md5";
/// The header that names the checksum which the client computes of a body.
pub(crate) const SDK_ALGORITHM: &str = "x-amz-sdk-checksum-algorithm";
/// The header that names trailing headers.
const TRAILER: &str = "x-amz-trailer";
/// The version of S3.
const API_VERSION: &str = "2006-03-01";
/// Access lists that grant nothing: access depends on the keys of the server alone.
const OWN_LISTS: [&str; 2] = ["private", "bucket-owner-full-control"];
/// Values of `x-amz-object-attributes`.
const ATTRIBUTES: [&str; 5] = ["Checksum", "ETag", "ObjectParts", "ObjectSize", "StorageClass"];

/// Headers of all operations.
const ALL: &[&str] = &[
    "x-amz-api-version",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-request-payer",
    "x-amz-user-agent",
];
/// Checksums of a body.
const CHECKSUMS: &[&str] = &[
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
];
/// Headers of operations that have a body, besides [`CHECKSUMS`].
const BODY: &[&str] = &[MD5, "x-amz-decoded-content-length", TRAILER];
/// Headers of operations that create an object.
const OBJECT: &[&str] = &["x-amz-acl", METADATA, "x-amz-storage-class", "x-amz-tagging"];
/// Headers of operations that copy.
const COPY: &[&str] = &[
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
];
/// Headers that name a checksum algorithm.
const ALGORITHMS: [&str; 2] = ["x-amz-checksum-algorithm", SDK_ALGORITHM];

/// Headers of S3 that an operation takes besides [`ALL`]: it obeys or verifies each, or refuses its value, or does not
/// need it.
fn taken(operation: &str) -> &'static [&'static [&'static str]] {
    match operation {
        "CompleteMultipartUpload" => {
            &[CHECKSUMS, BODY, &["x-amz-checksum-type", "x-amz-mp-object-size"]]
        }
        "CopyObject" => &[
            COPY,
            OBJECT,
            &["x-amz-checksum-algorithm", "x-amz-metadata-directive", "x-amz-tagging-directive"],
        ],
        "CreateBucket" => &[CHECKSUMS, BODY, &["x-amz-acl", "x-amz-bucket-object-lock-enabled"]],
        "CreateMultipartUpload" => &[
            OBJECT,
            &["x-amz-checksum-algorithm", "x-amz-checksum-type"],
            // s3fs-fuse sends it to begin a copy by parts.
            &["x-amz-metadata-directive"],
        ],
        "DeleteObject" => &[&[
            "x-amz-bypass-governance-retention",
            "x-amz-if-match-last-modified-time",
            "x-amz-if-match-size",
        ]],
        "DeleteObjects" => {
            &[CHECKSUMS, BODY, &["x-amz-bypass-governance-retention", SDK_ALGORITHM]]
        }
        // The SDK for Java sends the checksum of the empty body of a get.
        "GetObject" => &[CHECKSUMS, &["x-amz-checksum-mode", "x-amz-te"]],
        "GetObjectAttributes" => {
            &[&["x-amz-max-parts", "x-amz-object-attributes", "x-amz-part-number-marker"]]
        }
        "HeadObject" => &[&["x-amz-checksum-mode"]],
        "ListObjectVersions" | "ListObjects" | "ListObjectsV2" => {
            &[&["x-amz-optional-object-attributes"]]
        }
        "PutObject" => &[
            CHECKSUMS,
            BODY,
            OBJECT,
            &["x-amz-checksum-algorithm", "x-amz-checksum-type", SDK_ALGORITHM],
            &["x-amz-write-offset-bytes"],
        ],
        "PutObjectTagging" => &[CHECKSUMS, BODY, &[SDK_ALGORITHM]],
        "UploadPart" => &[CHECKSUMS, BODY, &["x-amz-checksum-algorithm", SDK_ALGORITHM]],
        "UploadPartCopy" => &[COPY, &["x-amz-copy-source-range"]],
        _ => &[],
    }
}

/// True if an operation takes a header. All headers that are not of S3 are taken, because they are those of HTTP.
pub(crate) fn is_taken(operation: &str, name: &str) -> bool {
    if !name.starts_with(PREFIX) && name != MD5 {
        return true;
    }
    let name = if name.starts_with(METADATA) { METADATA } else { name };
    ALL.contains(&name) || taken(operation).iter().any(|names| names.contains(&name))
}

/// Checks a value of a header that an operation takes.
///
/// # Errors
/// `NotImplemented` for a value that S3 has; `InvalidArgument` and `InvalidStorageClass` for others.
pub(crate) fn check_value(operation: &str, name: &str, value: &str) -> S3Result<()> {
    let code = match name {
        "x-amz-storage-class" => S3ErrorCode::InvalidStorageClass,
        "x-amz-acl" | "x-amz-api-version" | TRAILER => S3ErrorCode::NotImplemented,
        _ if ALGORITHMS.contains(&name) => S3ErrorCode::NotImplemented,
        _ if CHECKSUMS.contains(&name) => S3ErrorCode::BadDigest,
        _ => S3ErrorCode::InvalidArgument,
    };
    match is_value(operation, name, value) {
        true => Ok(()),
        false => {
            let why = format!("the value {value:?} of {name} in {operation} is not offered here");
            Err(S3Error::with_message(code, why))
        }
    }
}

/// True if a value of a header is one that is offered.
fn is_value(operation: &str, name: &str, value: &str) -> bool {
    let each = |is: fn(&str) -> bool| value.split(',').all(|one| is(one.trim()));
    match name {
        "x-amz-acl" => OWN_LISTS.contains(&value),
        "x-amz-api-version" => value == API_VERSION,
        // Some clients write `enabled`.
        "x-amz-checksum-mode" => ["ENABLED", "DISABLED"].contains(&&*value.to_ascii_uppercase()),
        // The other operations with this header take both types.
        "x-amz-checksum-type" if operation == "PutObject" => value == "FULL_OBJECT",
        // An upload begins without a source whose metadata could be copied.
        "x-amz-metadata-directive" if operation == "CreateMultipartUpload" => value == "REPLACE",
        "x-amz-metadata-directive" | "x-amz-tagging-directive" => {
            ["COPY", "REPLACE"].contains(&value)
        }
        "x-amz-object-attributes" => each(|name| ATTRIBUTES.contains(&name)),
        "x-amz-optional-object-attributes" => each(|name| name == "RestoreStatus"),
        "x-amz-request-payer" => value == "requester",
        "x-amz-storage-class" => value == "STANDARD",
        TRAILER => {
            each(|name| name.to_ascii_lowercase().strip_prefix(CHECKSUM).is_some_and(is_checksum))
        }
        _ if ALGORITHMS.contains(&name) => is_checksum(&value.to_ascii_lowercase()),
        _ if operation == "GetObject" && CHECKSUMS.contains(&name) => {
            is_of_empty_body(name, value.as_bytes())
        }
        _ => true,
    }
}

/// Checks that a request has the checksum that it names, as a header or as an announced trailer.
///
/// # Errors
/// `InvalidRequest`.
pub(crate) fn check_named_checksum(headers: &HeaderMap) -> S3Result<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(algorithm) = text(SDK_ALGORITHM) else { return Ok(()) };
    let wanted = format!("{CHECKSUM}{}", algorithm.to_ascii_lowercase());
    let mut trailers = text(TRAILER).unwrap_or_default().split(',');
    if headers.contains_key(&wanted)
        || trailers.any(|name| name.trim().eq_ignore_ascii_case(&wanted))
    {
        return Ok(());
    }
    let why = format!(
        "{SDK_ALGORITHM} names {algorithm}, but the request has no {wanted}, neither as a header nor in {TRAILER}"
    );
    Err(S3Error::with_message(S3ErrorCode::InvalidRequest, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_take_their_own_headers_only() {
        for (name, operations) in [
            ("x-amz-acl", "CopyObject CreateBucket CreateMultipartUpload PutObject"),
            ("x-amz-copy-source-range", "UploadPartCopy"),
            ("x-amz-mp-object-size", "CompleteMultipartUpload"),
            ("x-amz-if-match-size", "DeleteObject"),
            ("x-amz-max-parts", "GetObjectAttributes"),
            ("x-amz-meta-any", "CopyObject CreateMultipartUpload PutObject"),
            ("x-amz-metadata-directive", "CopyObject CreateMultipartUpload"),
            ("x-amz-sdk-checksum-algorithm", "DeleteObjects PutObject PutObjectTagging UploadPart"),
            (
                "x-amz-checksum-crc32",
                "CompleteMultipartUpload CreateBucket DeleteObjects GetObject PutObject PutObjectTagging UploadPart",
            ),
            (
                "content-md5",
                "CompleteMultipartUpload CreateBucket DeleteObjects PutObject PutObjectTagging UploadPart",
            ),
            ("x-amz-next-year", ""),
        ] {
            let takes = crate::offered::names().filter(|operation| is_taken(operation, name));
            assert_eq!(takes.collect::<Vec<_>>().join(" "), operations, "{name}");
        }
        for name in ALL.iter().chain(&["content-type", "x-next-year"]) {
            assert!(crate::offered::names().all(|operation| is_taken(operation, name)), "{name}");
        }
    }

    #[test]
    fn values_that_are_not_obeyed_are_refused() {
        for (name, right, wrong, code) in [
            ("x-amz-acl", "private", "public-read", "NotImplemented"),
            ("x-amz-checksum-type", "FULL_OBJECT", "COMPOSITE", "InvalidArgument"),
            ("x-amz-checksum-mode", "enabled", "x", "InvalidArgument"),
            ("x-amz-metadata-directive", "REPLACE", "NONSENSE", "InvalidArgument"),
            ("x-amz-tagging-directive", "COPY", "X", "InvalidArgument"),
            ("x-amz-object-attributes", "ETag, ObjectSize", "ETag,Size", "InvalidArgument"),
            ("x-amz-storage-class", "STANDARD", "GLACIER", "InvalidStorageClass"),
            ("x-amz-request-payer", "requester", "1", "InvalidArgument"),
        ] {
            assert!(check_value("PutObject", name, right).is_ok(), "{name}");
            let error = check_value("PutObject", name, wrong).unwrap_err();
            assert_eq!(error.code().as_str(), code, "{name}");
        }
        let begin = |name, value| check_value("CreateMultipartUpload", name, value).is_ok();
        assert!(begin("x-amz-checksum-type", "COMPOSITE"));
        assert!(begin("x-amz-metadata-directive", "REPLACE"));
        assert!(!begin("x-amz-metadata-directive", "COPY"));
    }

    #[test]
    fn named_checksum_must_be_sent() {
        let check = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| {
                let name = hyper::header::HeaderName::from_static(name);
                (name, hyper::header::HeaderValue::from_static(value))
            });
            check_named_checksum(&headers.collect()).is_ok()
        };
        let named = (SDK_ALGORITHM, "SHA256");
        assert!(check(&[]) && !check(&[named]));
        assert!(check(&[named, ("x-amz-checksum-sha256", "x")]));
        assert!(check(&[named, (TRAILER, "X-Amz-Checksum-SHA256")]));
        assert!(!check(&[named, ("x-amz-checksum-crc32", "x")]));
        assert!(!check(&[named, (TRAILER, "x-amz-checksum-crc32")]));
    }
}
