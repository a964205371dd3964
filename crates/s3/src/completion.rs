//! Claims about the object that a multipart upload is completed to. All of them are verified.
use crate::fault::{Fault, Outcome};
use crate::record::Stored;
use crate::sums::{KNOWN, Sums};
use crate::uploads::Part;
use s3s::S3ErrorCode;
use s3s::dto::{ChecksumType, CompleteMultipartUploadInput};

/// Content over which a checksum of an object is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its content.
    Full,
    /// The checksums of its parts.
    Composite,
}

/// Size and checksums that a client claims. A checksum of the checksums of parts may end with `-` and their number.
#[derive(Default)]
pub(crate) struct Claims {
    size: Option<u64>,
    checksum: Stored,
    kind: Option<Kind>,
}

impl Claims {
    /// The claims of a request.
    ///
    /// # Errors
    /// `InvalidRequest` for a size or a type of checksum that there is not.
    pub(crate) fn new(input: &CompleteMultipartUploadInput) -> Outcome<Self> {
        let checksum = Stored {
            crc32: input.checksum_crc32.clone(),
            crc32c: input.checksum_crc32c.clone(),
            crc64nvme: input.checksum_crc64nvme.clone(),
            sha1: input.checksum_sha1.clone(),
            sha256: input.checksum_sha256.clone(),
        };
        let size = input.mpu_object_size.map(u64::try_from).transpose();
        let size = size.map_err(|_| wrong("x-amz-mp-object-size is negative"))?;
        let kind = match input.checksum_type.as_ref().map(ChecksumType::as_str) {
            None => None,
            Some(ChecksumType::FULL_OBJECT) => Some(Kind::Full),
            Some(ChecksumType::COMPOSITE) => Some(Kind::Composite),
            Some(_) => return Err(wrong("x-amz-checksum-type is FULL_OBJECT or COMPOSITE")),
        };
        Ok(Self { size, checksum, kind })
    }

    /// Checks the size.
    ///
    /// # Errors
    /// `InvalidRequest`.
    pub(crate) fn check_size(&self, size: u64) -> Outcome<()> {
        match self.size {
            Some(claimed) if claimed != size => {
                Err(wrong(&format!("the parts have {size} bytes, not {claimed}: name all of them")))
            }
            _ => Ok(()),
        }
    }

    /// The checksums to compute of the content.
    pub(crate) fn sums(&self) -> Sums {
        Sums::of(&self.checksum)
    }

    /// Checks the checksums against those of the content and of the parts. Returns those of the content that were claimed.
    ///
    /// # Errors
    /// `BadDigest`.
    pub(crate) fn check(&self, parts: &[Part], content: &Stored) -> Outcome<Stored> {
        let mut verified = Stored::default();
        for name in KNOWN {
            let Some(claimed) = self.checksum.get(name) else { continue };
            let (digits, count) = match claimed.rsplit_once('-') {
                Some((digits, count)) => (digits, Some(count)),
                None => (claimed, None),
            };
            let is_full = self.kind != Some(Kind::Composite)
                && count.is_none()
                && content.get(name) == Some(digits);
            if is_full {
                verified.set(name, digits);
                continue;
            }
            let is_composite = self.kind != Some(Kind::Full)
                && count.is_none_or(|count| count == parts.len().to_string())
                && composite(parts, name).as_deref() == Some(digits);
            if !is_composite {
                let why = format!("the {name} of the object is not the one that the request gives");
                return Err(Fault::new(S3ErrorCode::BadDigest, why));
            }
        }
        Ok(verified)
    }
}

/// The checksum of the checksums of parts, if all of them have one.
fn composite(parts: &[Part], name: &str) -> Option<String> {
    let mut wanted = Stored::default();
    wanted.set(name, "");
    let mut sums = Sums::of(&wanted);
    for part in parts {
        let bytes = base64_simd::STANDARD.decode_to_vec(part.checksum.get(name)?).ok()?;
        sums.update(&bytes);
    }
    sums.finish().checksum.get(name).map(str::to_owned)
}

#[cold]
fn wrong(why: &str) -> Fault {
    Fault::new(S3ErrorCode::InvalidRequest, why)
}
