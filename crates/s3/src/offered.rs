//! Supported operations, with all parameters and headers that a request for each may have. All others are refused,
//! because a parameter or a header that S3 adds later would change the meaning of an operation.
use crate::headers::{check_named_checksum, check_value, is_taken};
use crate::query::Query;
use crate::sums::CHECKSUM;
use hyper::Uri;
use hyper::header::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result};

/// Conditions on an object that is read.
const READ: &[&str] = &["if-match", "if-modified-since", "if-none-match", "if-unmodified-since"];
/// Conditions on an object that is replaced.
const REPLACE: &[&str] = &["if-match", "if-none-match"];
/// All headers that are conditions.
const CONDITIONS: [&str; 5] =
    ["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"];

/// An operation: its name, the parameters and the conditional headers that it takes.
type Offered = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The operations that are offered, by name.
const OFFERED: [Offered; 26] = [
    ("AbortMultipartUpload", &["uploadId"], &[]),
    ("CompleteMultipartUpload", &["uploadId"], REPLACE),
    ("CopyObject", &[], REPLACE),
    ("CreateBucket", &[], &[]),
    ("CreateMultipartUpload", &["uploads"], &[]),
    ("DeleteBucket", &[], &[]),
    ("DeleteObject", &["versionId"], &["if-match"]),
    ("DeleteObjectTagging", &["tagging", "versionId"], &[]),
    ("DeleteObjects", &["delete"], &[]),
    ("GetBucketLocation", &["location"], &[]),
    ("GetBucketVersioning", &["versioning"], &[]),
    (
        "GetObject",
        &[
            "partNumber",
            "response-cache-control",
            "response-content-disposition",
            "response-content-encoding",
            "response-content-language",
            "response-content-type",
            "response-expires",
            "versionId",
        ],
        READ,
    ),
    ("GetObjectAttributes", &["attributes", "versionId"], &[]),
    ("GetObjectTagging", &["tagging", "versionId"], &[]),
    ("HeadBucket", &[], &[]),
    ("HeadObject", &["partNumber", "versionId"], READ),
    ("ListBuckets", &["continuation-token", "max-buckets", "prefix"], &[]),
    (
        "ListMultipartUploads",
        &[
            "delimiter",
            "encoding-type",
            "key-marker",
            "max-uploads",
            "prefix",
            "upload-id-marker",
            "uploads",
        ],
        &[],
    ),
    (
        "ListObjectVersions",
        &[
            "delimiter",
            "encoding-type",
            "key-marker",
            "max-keys",
            "prefix",
            "version-id-marker",
            "versions",
        ],
        &[],
    ),
    ("ListObjects", &["delimiter", "encoding-type", "marker", "max-keys", "prefix"], &[]),
    (
        "ListObjectsV2",
        &[
            "continuation-token",
            "delimiter",
            "encoding-type",
            "fetch-owner",
            "list-type",
            "max-keys",
            "prefix",
            "start-after",
        ],
        &[],
    ),
    ("ListParts", &["max-parts", "part-number-marker", "uploadId"], &[]),
    ("PutObject", &[], REPLACE),
    ("PutObjectTagging", &["tagging", "versionId"], &[]),
    ("UploadPart", &["partNumber", "uploadId"], &[]),
    ("UploadPartCopy", &["partNumber", "uploadId"], &[]),
];

/// The parameter by which SDKs name the operation.
const OPERATION_ID: &str = "x-id";

/// Refuses unsupported operations, and parameters and headers that the operation does not accept.
///
/// # Errors
/// `NotImplemented`; `InvalidArgument` for a parameter that was sent twice, and for a value that S3 does not have.
pub(crate) fn check(operation: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let Some(offered) = OFFERED.iter().find(|(name, _, _)| *name == operation) else {
        return Err(not_offered(format!("the operation {operation}")));
    };
    check_query(offered, &Query::new(uri))?;
    headers.keys().try_for_each(|name| check_header(offered, name.as_str(), headers))?;
    check_named_checksum(headers)
}

/// Names of the operations that are offered.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OFFERED.iter().map(|(name, _, _)| *name)
}

/// Refuses a parameter that the operation does not take, so that the server never ignores what a client asks for.
fn check_query((operation, parameters, _): &Offered, query: &Query) -> S3Result<()> {
    if !query.is_text() {
        let why = "a parameter contains a control character, which no key has";
        return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, why));
    }
    for (name, value) in query.iter() {
        if query.get(name).is_none() {
            let why = format!("the parameter {name:?} was sent twice: send it once");
            return Err(S3Error::with_message(S3ErrorCode::InvalidArgument, why));
        }
        let is_known = parameters.contains(&name) || name == OPERATION_ID && value == *operation;
        if !is_known {
            return Err(not_offered(format!("the parameter {name:?} of {operation}")));
        }
    }
    Ok(())
}

/// Refuses a header or a value that the operation does not take, so that the server never ignores what a client asks
/// for.
fn check_header(offered: &Offered, name: &str, headers: &HeaderMap) -> S3Result<()> {
    let (operation, _, conditions) = offered;
    let is_known = if CONDITIONS.contains(&name) {
        // With `If-Range`, a client gets a range only of the object that it means, else the whole object.
        conditions.contains(&name) || name == "if-range" && *operation == "GetObject"
    } else {
        is_taken(operation, name)
    };
    if !is_known {
        return Err(not_offered(format!("the header {name} of {operation}")));
    }
    check_demand(name, headers)?;
    let mut values = headers.get_all(name).iter();
    values.try_for_each(|value| check_value(operation, name, value.to_str().unwrap_or_default()))
}

/// True for a header that must not be ignored: a client asks that something is verified, or that a part of a source is
/// copied.
fn is_demand(name: &str) -> bool {
    CONDITIONS.contains(&name)
        || ["content-md5", "x-amz-mp-object-size"].contains(&name)
        || [CHECKSUM, "x-amz-if-match-", "x-amz-copy-source-"]
            .iter()
            .any(|begin| name.starts_with(begin))
}

/// Refuses a header of [`is_demand`] without a value: `s3s` would ignore it, and the client would believe that the
/// check was made.
fn check_demand(name: &str, headers: &HeaderMap) -> S3Result<()> {
    let is_empty =
        headers.get_all(name).iter().any(|value| value.as_bytes().trim_ascii().is_empty());
    if !is_empty || !is_demand(name) {
        return Ok(());
    }
    let code = match name {
        "content-md5" => S3ErrorCode::InvalidDigest,
        _ => S3ErrorCode::InvalidArgument,
    };
    let why = format!("the header {name} is empty: give it a value, or leave it out");
    Err(S3Error::with_message(code, why))
}

/// The error for anything that this server does not support.
#[cold]
fn not_offered(what: String) -> S3Error {
    let why = format!("{what} is not offered here");
    S3Error::with_message(S3ErrorCode::NotImplemented, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The S3 code of the error for a request, or `ok`.
    fn code(
        operation: &str,
        uri: &'static str,
        headers: &[(&'static str, &'static str)],
    ) -> String {
        let headers = headers.iter().map(|(name, value)| {
            let name = hyper::header::HeaderName::from_static(name);
            (name, hyper::header::HeaderValue::from_static(value))
        });
        let checked = check(operation, &Uri::from_static(uri), &headers.collect());
        checked.map_or_else(|error| error.code().as_str().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn unknown_operations_parameters_and_headers_are_refused() {
        assert_eq!(code("GetObject", "/b/k?x-id=GetObject&partNumber=1", &[]), "ok");
        for (operation, uri) in [
            ("GetBucketPolicy", "/b?policy"),
            ("PutObject", "/b/k?annotation=&annotationName=a"),
            ("PutObject", "/b/k?%65ncryption"),
            ("PutObject", "/b/k?x-id=RenameObject"),
            ("PutObject", "/b/k?x-amz-checksum-crc32=AAAAAA=="),
            ("DeleteObject", "/b/k?Tagging"),
            ("GetObject", "/b/k?X-Amz-Date=1"),
            ("ListObjects", "/b?list-type=3"),
            ("CreateBucket", "/b?abac"),
            ("CreateBucket", "/b?="),
        ] {
            assert_eq!(code(operation, uri, &[]), "NotImplemented", "{operation} {uri}");
        }
        assert_eq!(code("ListObjects", "/b?prefix=%01", &[]), "InvalidArgument");
        let twice = "/b/k?versionId=null&version%49d=null";
        assert_eq!(code("DeleteObject", twice, &[]), "InvalidArgument");
    }

    #[test]
    fn headers_that_no_operation_obeys_are_refused() {
        for (operation, header, wanted) in [
            ("PutObject", ("if-none-match", "*"), "ok"),
            ("PutObject", ("if-modified-since", "x"), "NotImplemented"),
            ("DeleteObject", ("if-none-match", "*"), "NotImplemented"),
            ("DeleteObjects", ("if-match", "*"), "NotImplemented"),
            ("GetObject", ("if-range", "x"), "ok"),
            ("HeadObject", ("if-range", "x"), "NotImplemented"),
            ("PutObject", ("x-amz-meta-any", "x"), "ok"),
            ("PutObject", ("x-amz-acl", "private"), "ok"),
            ("PutObject", ("x-amz-acl", "public-read"), "NotImplemented"),
            ("PutObject", ("x-amz-grant-read", "x"), "NotImplemented"),
            ("PutObject", ("x-amz-checksum-crc32", "x"), "ok"),
            ("PutObject", ("x-amz-checksum-xxhash64", "x"), "NotImplemented"),
            ("PutObject", ("x-amz-sdk-checksum-algorithm", "CRC64NVME"), "InvalidRequest"),
            ("PutObject", ("x-amz-sdk-checksum-algorithm", "SHA512"), "NotImplemented"),
            ("PutObject", ("x-amz-trailer", "x-amz-checksum-crc32c"), "ok"),
            ("PutObject", ("x-amz-trailer", "x-amz-checksum-md5"), "NotImplemented"),
            ("CopyObject", ("x-amz-copy-source", "b/k"), "ok"),
            ("CreateMultipartUpload", ("x-amz-copy-source", "b/k"), "NotImplemented"),
            ("GetObject", ("x-amz-expected-bucket-owner", "1"), "NotImplemented"),
            ("GetObject", ("x-amz-server-side-encryption-customer-key", "1"), "NotImplemented"),
            ("HeadBucket", ("x-amz-api-version", "2006-03-01"), "ok"),
            ("HeadBucket", ("x-amz-api-version", "2027-01-01"), "NotImplemented"),
            ("PutObject", ("content-md5", ""), "InvalidDigest"),
            ("PutObject", ("if-match", ""), "InvalidArgument"),
            ("PutObject", ("if-none-match", " "), "InvalidArgument"),
            ("PutObject", ("x-amz-checksum-crc32", ""), "InvalidArgument"),
            ("PutObject", ("x-amz-meta-any", ""), "ok"),
            ("PutObject", ("x-amz-tagging", ""), "ok"),
            ("CompleteMultipartUpload", ("x-amz-mp-object-size", ""), "InvalidArgument"),
            ("CopyObject", ("x-amz-copy-source-if-match", ""), "InvalidArgument"),
            ("UploadPartCopy", ("x-amz-copy-source-range", ""), "InvalidArgument"),
            ("CopyObject", ("x-amz-copy-source-range", "bytes=0-1"), "NotImplemented"),
            ("CopyObject", ("x-amz-checksum-crc32", "AAAAAA=="), "NotImplemented"),
            ("CopyObject", ("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), "NotImplemented"),
            ("CopyObject", ("x-amz-checksum-algorithm", "SHA256"), "ok"),
            ("CopyObject", ("x-amz-metadata-directive", "NONSENSE"), "InvalidArgument"),
            ("CopyObject", ("x-amz-tagging-directive", "X"), "InvalidArgument"),
            ("PutObject", ("x-amz-mp-object-size", "5"), "NotImplemented"),
            ("PutObject", ("x-amz-if-match-size", "99"), "NotImplemented"),
            ("PutObject", ("x-amz-max-parts", "1"), "NotImplemented"),
            ("PutObject", ("x-amz-storage-class", "STANDARD"), "ok"),
            ("PutObject", ("x-amz-storage-class", "NONSENSE"), "InvalidStorageClass"),
            ("GetObject", ("x-amz-storage-class", "STANDARD"), "NotImplemented"),
            ("GetObject", ("x-amz-checksum-mode", "ENABLED"), "ok"),
            ("GetObject", ("x-amz-checksum-crc32", "AAAAAA=="), "ok"),
            ("GetObject", ("x-amz-checksum-crc32", "kXjVsA=="), "BadDigest"),
            ("HeadObject", ("x-amz-checksum-crc32", "AAAAAA=="), "NotImplemented"),
            ("CreateMultipartUpload", ("x-amz-metadata-directive", "REPLACE"), "ok"),
            ("CreateMultipartUpload", ("x-amz-metadata-directive", "COPY"), "InvalidArgument"),
            ("DeleteObject", ("x-amz-checksum-crc32", "AAAAAA=="), "NotImplemented"),
            ("GetObject", ("x-amz-next-year", "1"), "NotImplemented"),
            ("GetObject", ("x-next-year", "1"), "ok"),
        ] {
            assert_eq!(code(operation, "/b/k", &[header]), wanted, "{operation} {header:?}");
        }
    }

    #[test]
    fn operations_are_sorted_as_metrics_name_them() {
        assert!(OFFERED.is_sorted_by(|(one, _, _), (next, _, _)| one < next));
    }
}
