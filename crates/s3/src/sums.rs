//! Checksums of what a client sends: those that it announced are verified, and the ETag is one of them.
use crate::fault::{Fault, Outcome};
use crate::record::Stored;
use hyper::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::{S3ErrorCode, TrailingHeaders};

/// The header that names the trailing headers to come.
const TRAILER: &str = "x-amz-trailer";
/// The header that names the checksum which the client computes.
const ALGORITHM: &str = "x-amz-sdk-checksum-algorithm";
/// Begins the header of a checksum.
const CHECKSUM: &str = "x-amz-checksum-";
/// The checksums of S3, as their headers name them.
const KNOWN: [&str; 5] = ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"];

/// Sums up what passes.
pub(crate) struct Sums {
    md5: Md5,
    others: ChecksumHasher,
}

/// What the client says that the sums are.
#[derive(Clone, Default)]
pub(crate) struct Expected {
    /// Base64.
    md5: Option<String>,
    headers: HeaderMap,
    trailing: Option<TrailingHeaders>,
}

/// The sums of all that passed.
#[derive(Clone, Debug)]
pub(crate) struct Summed {
    pub(crate) md5: [u8; 16],
    pub(crate) checksum: Stored,
}

impl Summed {
    /// The ETag of an object that was put as a whole.
    pub(crate) fn etag(&self) -> String {
        hex(&self.md5)
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Expected {
    /// What a request announces.
    pub(crate) fn new(
        md5: Option<String>,
        headers: &HeaderMap,
        trailing: Option<TrailingHeaders>,
    ) -> Self {
        let wanted = |(name, _): &(&hyper::header::HeaderName, _)| {
            name.as_str().starts_with(CHECKSUM) || [TRAILER, ALGORITHM].contains(&name.as_str())
        };
        let headers = headers.iter().filter(wanted);
        let headers = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        Self { md5, headers, trailing }
    }

    /// True if the client uses this checksum.
    fn names(&self, known: &str) -> bool {
        let text = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let header = format!("{CHECKSUM}{known}");
        let trailers = text(TRAILER).unwrap_or_default();
        self.headers.contains_key(&header)
            || trailers.split(',').any(|name| name.trim().eq_ignore_ascii_case(&header))
            || text(ALGORITHM).is_some_and(|name| name.eq_ignore_ascii_case(known))
    }

    /// The value that the client gave before its data or after it.
    fn value(&self, known: &str) -> Option<String> {
        let header = format!("{CHECKSUM}{known}");
        let of = |headers: &HeaderMap| Some(headers.get(&header)?.to_str().ok()?.to_owned());
        of(&self.headers).or_else(|| self.trailing.as_ref()?.read(of).flatten())
    }

    /// The sums to compute.
    pub(crate) fn sums(&self) -> Sums {
        let others = ChecksumHasher {
            crc32: self.names("crc32").then(Crc32::new),
            crc32c: self.names("crc32c").then(Crc32c::new),
            sha1: self.names("sha1").then(Sha1::new),
            sha256: self.names("sha256").then(Sha256::new),
            crc64nvme: self.names("crc64nvme").then(Crc64Nvme::new),
        };
        Sums { md5: Md5::new(), others }
    }

    /// Compares, after all has passed.
    ///
    /// # Errors
    /// `BadDigest` if a sum differs, `InvalidDigest` for an MD5 that is none.
    pub(crate) fn check(&self, summed: &Summed) -> Outcome<()> {
        if let Some(md5) = &self.md5 {
            let given = base64_simd::STANDARD.decode_to_vec(md5).unwrap_or_default();
            if given.len() != summed.md5.len() {
                return Err(Fault::new(
                    S3ErrorCode::InvalidDigest,
                    "Content-MD5 is no MD5 in base64",
                ));
            }
            same("md5", given == summed.md5)?;
        }
        let Stored { crc32, crc32c, crc64nvme, sha1, sha256 } = &summed.checksum;
        for (known, computed) in KNOWN.iter().zip([crc32, crc32c, crc64nvme, sha1, sha256]) {
            if let Some(given) = self.value(known) {
                same(known, computed.as_ref() == Some(&given))?;
            }
        }
        Ok(())
    }
}

fn same(name: &str, is_same: bool) -> Outcome<()> {
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
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.md5.update(data);
        self.others.update(data);
    }

    pub(crate) fn finish(self) -> Summed {
        Summed { md5: self.md5.finalize(), checksum: self.others.finalize().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(md5: Option<&str>, headers: &[(&'static str, &'static str)]) -> Expected {
        let headers = headers.iter().map(|(name, value)| {
            (
                hyper::header::HeaderName::from_static(name),
                hyper::header::HeaderValue::from_static(value),
            )
        });
        Expected::new(md5.map(str::to_owned), &headers.collect(), None)
    }

    fn summed(expected: &Expected, data: &[u8]) -> Summed {
        let mut sums = expected.sums();
        sums.update(data);
        sums.finish()
    }

    #[test]
    fn sums_are_those_of_s3() {
        let all = expected(
            None,
            &[
                ("x-amz-checksum-crc32", "y/Q5Jg=="),
                ("x-amz-trailer", "x-amz-checksum-crc32c, x-amz-checksum-sha256"),
            ],
        );
        let found = summed(&all, b"123456789");
        assert_eq!(found.etag(), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(found.checksum.crc32.as_deref(), Some("y/Q5Jg=="));
        assert_eq!(found.checksum.crc32c.as_deref(), Some("4waSgw=="));
        assert!(found.checksum.sha256.is_some() && found.checksum.sha1.is_none());
        assert!(all.check(&found).is_ok());
        assert!(all.check(&summed(&all, b"123456780")).is_err());
    }

    #[test]
    fn an_md5_is_compared() {
        let right = expected(Some("JfnnlDI7RTiF9RgfG2JNCw=="), &[]);
        assert!(right.check(&summed(&right, b"123456789")).is_ok());
        assert!(right.check(&summed(&right, b"")).is_err());
        for nonsense in ["", "x", "YWJj"] {
            let wrong = expected(Some(nonsense), &[]);
            assert!(wrong.check(&summed(&wrong, b"123456789")).is_err());
        }
    }
}
