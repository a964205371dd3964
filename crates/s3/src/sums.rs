//! Checksums of the content that a client sends. The checksums that it announced are verified. The ETag is an
//! additional checksum.
use crate::fault::{Fault, Outcome};
use crate::record::Stored;
use esker::types::{Error, ErrorKind};
use hyper::header::{HeaderMap, HeaderName};
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::{S3ErrorCode, TrailingHeaders};
use std::str::FromStr;
use twox_hash::XxHash3_128;

/// The header that names the headers which follow the body.
const TRAILER: &str = "x-amz-trailer";
/// Headers that name the checksum to compute.
const ALGORITHMS: [&str; 2] = ["x-amz-checksum-algorithm", "x-amz-sdk-checksum-algorithm"];
/// Bytes of an MD5.
const MD5_BYTES: usize = 16;
/// Begins the header of a checksum.
pub(crate) const CHECKSUM: &str = "x-amz-checksum-";
/// The checksums of S3, as their headers name them.
pub(crate) const KNOWN: [&str; 5] = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"];

/// Checksum algorithm of ETags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Etags {
    /// The MD5 of an object, as in S3.
    #[default]
    Md5,
    /// Its XXH3 of 128 bits, with the suffix `-1`, so that no client mistakes it for an MD5.
    Xxh3,
}

impl FromStr for Etags {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "md5" => Ok(Self::Md5),
            "xxh3" => Ok(Self::Xxh3),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("{name}: ETags are made of md5 or of xxh3"),
            )),
        }
    }
}

/// Computes checksums of the bytes that pass.
pub(crate) struct Sums {
    /// MD5 for the ETag, or because the client gave one.
    md5: Option<Md5>,
    xxh3: Option<Box<XxHash3_128>>,
    others: ChecksumHasher,
}

/// Checksums that the client announces, and the algorithm of the ETag.
#[derive(Clone, Default)]
pub(crate) struct Expected {
    etags: Etags,
    /// Base64.
    md5: Option<String>,
    headers: HeaderMap,
    trailing: Option<TrailingHeaders>,
}

/// The computed checksums.
#[derive(Clone, Debug)]
pub(crate) struct Summed {
    md5: Option<[u8; 16]>,
    xxh3: Option<u128>,
    pub(crate) checksum: Stored,
}

impl Summed {
    /// The ETag of an object that was put in one request: its MD5, or its XXH3 with `-1`.
    pub(crate) fn etag(&self) -> String {
        match self.xxh3 {
            Some(xxh3) => format!("{xxh3:032x}-1"),
            None => hex(&self.md5.unwrap_or_default()),
        }
    }
}

/// True for the name of a supported checksum.
pub(crate) fn is_checksum(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// True if the header is one of a checksum, and its value is the checksum of an empty body.
pub(crate) fn is_of_empty_body(header: &str, value: &[u8]) -> bool {
    let Some(name) = header.strip_prefix(CHECKSUM) else { return false };
    let mut wanted = Stored::default();
    wanted.set(name, "");
    let empty = Sums::for_checksums(&wanted).finish().checksum;
    empty.get(name).is_some_and(|sum| sum.as_bytes() == value)
}

/// The bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The byte that two hexadecimal digits represent; `None` for any other text.
pub(crate) fn byte_of_hex(digits: &[u8]) -> Option<u8> {
    // `from_str_radix` accepts a sign, and fewer digits.
    let is_hex = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u8::from_str_radix(digits, 16).ok()
}

impl Expected {
    /// The checksums that a request announces, in its headers or for the trailer of its body.
    pub(crate) fn new(
        etags: Etags,
        md5: Option<String>,
        headers: &HeaderMap,
        trailing: Option<TrailingHeaders>,
    ) -> Self {
        let wanted = |(name, _): &(&hyper::header::HeaderName, _)| {
            let name = name.as_str();
            name.starts_with(CHECKSUM) || name == TRAILER || ALGORITHMS.contains(&name)
        };
        let headers = headers.iter().filter(wanted);
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { etags, md5, headers, trailing }
    }

    /// No announced checksums, for a copy: it does not come from a client. The headers of its request may name the
    /// checksum to compute.
    pub(crate) fn without_claims(etags: Etags, headers: &HeaderMap) -> Self {
        let mut named = HeaderMap::new();
        for name in ALGORITHMS {
            named.extend(
                headers.get(name).map(|value| (HeaderName::from_static(name), value.clone())),
            );
        }
        Self { etags, headers: named, ..Self::default() }
    }

    /// True if the request names this checksum in any way: its value in a header, an announced trailer, or the
    /// algorithm.
    fn names(&self, known: &str) -> bool {
        self.headers.contains_key(format!("{CHECKSUM}{known}"))
            || self.announces(known)
            || ALGORITHMS.iter().any(|header| {
                self.text(header).is_some_and(|name| name.eq_ignore_ascii_case(known))
            })
    }

    /// True if the client announced this checksum in a trailer, which follows the data.
    fn announces(&self, known: &str) -> bool {
        let header = format!("{CHECKSUM}{known}");
        let trailers = self.text(TRAILER).unwrap_or_default();
        trailers.split(',').any(|name| name.trim().eq_ignore_ascii_case(&header))
    }

    /// The value of a header of the request as text.
    fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The value of this checksum that the client gave: in a header before the data, or in a trailer after it.
    fn value(&self, known: &str) -> Option<String> {
        let header = format!("{CHECKSUM}{known}");
        let of = |headers: &HeaderMap| Some(headers.get(&header)?.to_str().ok()?.to_owned());
        of(&self.headers).or_else(|| self.trailing.as_ref()?.read(of).flatten())
    }

    /// The checksums to compute over the body: those that the client names, and the one for the ETag.
    pub(crate) fn sums(&self) -> Sums {
        let others = ChecksumHasher {
            crc32: self.names("crc32").then(Crc32::new),
            crc32c: self.names("crc32c").then(Crc32c::new),
            sha1: self.names("sha1").then(Sha1::new),
            sha256: self.names("sha256").then(Sha256::new),
            crc64nvme: self.names("crc64nvme").then(Crc64Nvme::new),
        };
        let xxh3 = (self.etags == Etags::Xxh3).then(Box::<XxHash3_128>::default);
        let md5 = (xxh3.is_none() || self.md5.is_some()).then(Md5::new);
        Sums { md5, xxh3, others }
    }

    /// Compares all announced checksums with those of the body. Called when the whole body has arrived.
    ///
    /// # Errors
    /// `BadDigest` if a sum differs, `InvalidDigest` if `Content-MD5` is not an MD5, and `InvalidRequest` if a checksum
    /// was announced for the trailer, but not sent.
    pub(crate) fn check(&self, summed: &Summed) -> Outcome<()> {
        if let Some(md5) = &self.md5 {
            let given = base64_simd::STANDARD.decode_to_vec(md5).unwrap_or_default();
            if given.len() != MD5_BYTES {
                return Err(Fault::new(
                    S3ErrorCode::InvalidDigest,
                    "Content-MD5 is not an MD5 in base64",
                ));
            }
            check_sum("md5", summed.md5.is_some_and(|md5| given == md5))?;
        }
        for known in KNOWN {
            match self.value(known) {
                Some(given) => check_sum(known, summed.checksum.get(known) == Some(&given))?,
                None if self.announces(known) => {
                    let why = format!("the trailer {CHECKSUM}{known} was announced, but not sent");
                    return Err(Fault::new(S3ErrorCode::InvalidRequest, why));
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Fails with `BadDigest` unless `is_same`: the computed checksum `name` equals the one in the request.
fn check_sum(name: &str, is_same: bool) -> Outcome<()> {
    match is_same {
        true => Ok(()),
        false => {
            let why = format!(
                "the {name} of what arrived is not the one that the request gives: send it again"
            );
            Err(Fault::new(S3ErrorCode::BadDigest, why))
        }
    }
}

impl Sums {
    /// Computes the checksums that have a value in `wanted`, and no ETag.
    pub(crate) fn for_checksums(wanted: &Stored) -> Self {
        let others = ChecksumHasher {
            crc32: wanted.crc32.as_ref().map(|_| Crc32::new()),
            crc32c: wanted.crc32c.as_ref().map(|_| Crc32c::new()),
            sha1: wanted.sha1.as_ref().map(|_| Sha1::new()),
            sha256: wanted.sha256.as_ref().map(|_| Sha256::new()),
            crc64nvme: wanted.crc64nvme.as_ref().map(|_| Crc64Nvme::new()),
        };
        Self { md5: None, xxh3: None, others }
    }

    /// Adds data to all sums.
    pub(crate) fn update(&mut self, data: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(data);
        }
        if let Some(xxh3) = &mut self.xxh3 {
            xxh3.write(data);
        }
        self.others.update(data);
    }

    /// The sums of all data.
    pub(crate) fn finish(self) -> Summed {
        Summed {
            md5: self.md5.map(Md5::finalize),
            xxh3: self.xxh3.map(|xxh3| xxh3.finish_128()),
            checksum: self.others.finalize().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksums that a request with these headers announces.
    fn expected(md5: Option<&str>, headers: &[(&'static str, &'static str)]) -> Expected {
        let headers = headers.iter().map(|(name, value)| {
            (
                hyper::header::HeaderName::from_static(name),
                hyper::header::HeaderValue::from_static(value),
            )
        });
        Expected::new(Etags::Md5, md5.map(str::to_owned), &headers.collect(), None)
    }

    /// The checksums of `data` that `expected` asks for.
    fn summed(expected: &Expected, data: &[u8]) -> Summed {
        let mut sums = expected.sums();
        sums.update(data);
        sums.finish()
    }

    #[test]
    fn checksums_equal_known_values_and_are_compared() {
        let header = ("x-amz-checksum-crc32", "y/Q5Jg==");
        let trailer = ("x-amz-trailer", "x-amz-checksum-crc32c, x-amz-checksum-sha256");
        let all = expected(None, &[header, trailer]);
        let found = summed(&all, b"123456789");
        assert!(all.check(&found).is_err(), "the trailer is missing");
        assert_eq!(found.etag(), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(found.checksum.crc32.as_deref(), Some("y/Q5Jg=="));
        assert_eq!(found.checksum.crc32c.as_deref(), Some("4waSgw=="));
        assert!(found.checksum.sha256.is_some() && found.checksum.sha1.is_none());
        let all = expected(None, &[header]);
        let found = summed(&all, b"123456789");
        assert!(all.check(&found).is_ok());
        assert!(all.check(&summed(&all, b"123456780")).is_err());
    }

    #[test]
    fn etag_of_xxh3_is_marked_and_md5_is_still_verified() {
        let xxh3 = Expected { etags: Etags::Xxh3, ..expected(None, &[]) };
        let found = summed(&xxh3, b"123456789");
        assert_eq!(found.etag(), "33119477ede5dcd5e9716427681d5860-1");
        assert_ne!(found.etag(), summed(&xxh3, b"123456780").etag());
        let vouched = expected(Some("JfnnlDI7RTiF9RgfG2JNCw=="), &[]);
        let vouched = Expected { etags: Etags::Xxh3, ..vouched };
        assert_eq!(summed(&vouched, b"123456789").etag(), found.etag());
        assert!(vouched.check(&summed(&vouched, b"123456789")).is_ok());
        assert!(vouched.check(&summed(&vouched, b"123456780")).is_err());
        assert!("sha1".parse::<Etags>().is_err());
    }

    #[test]
    fn checksums_of_empty_body_are_recognized() {
        for (header, value, wanted) in [
            ("x-amz-checksum-crc32", "AAAAAA==", true),
            ("x-amz-checksum-crc32c", "AAAAAA==", true),
            ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", true),
            ("x-amz-checksum-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", true),
            ("x-amz-checksum-crc32", "AAAAAQ==", false),
            ("x-amz-checksum-crc32", "", false),
            ("x-amz-checksum-mode", "ENABLED", false),
            ("content-md5", "AAAAAA==", false),
        ] {
            assert_eq!(is_of_empty_body(header, value.as_bytes()), wanted, "{header} {value}");
        }
    }

    #[test]
    fn content_md5_is_compared() {
        let right = expected(Some("JfnnlDI7RTiF9RgfG2JNCw=="), &[]);
        assert!(right.check(&summed(&right, b"123456789")).is_ok());
        assert!(right.check(&summed(&right, b"")).is_err());
        for nonsense in ["", "x", "YWJj"] {
            let wrong = expected(Some(nonsense), &[]);
            assert!(wrong.check(&summed(&wrong, b"123456789")).is_err());
        }
    }
}
