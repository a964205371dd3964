//! Claims about the object that a multipart upload is completed to. All of them are verified.
use crate::fault::{Fault, Outcome};
use crate::record::Stored;
use crate::sums::{KNOWN, Sums};
use crate::uploads::Part;
use s3s::S3ErrorCode;
use s3s::dto::{ChecksumAlgorithm, ChecksumType, CompleteMultipartUploadInput};
use serde::{Deserialize, Serialize};

/// Data over which a checksum of an object is computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The content of the object.
    Full,
    /// The checksums of the object's parts, one after another.
    Composite,
}

impl Kind {
    /// Parses the header `x-amz-checksum-type`; `None` if the request does not have it.
    fn new(name: Option<&ChecksumType>) -> Outcome<Option<Self>> {
        match name.map(ChecksumType::as_str) {
            None => Ok(None),
            Some(ChecksumType::FULL_OBJECT) => Ok(Some(Self::Full)),
            Some(ChecksumType::COMPOSITE) => Ok(Some(Self::Composite)),
            Some(_) => Err(wrong("x-amz-checksum-type is FULL_OBJECT or COMPOSITE")),
        }
    }
}

/// The checksum that a client requested for the object of an upload when it began the upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RequestedChecksum {
    name: String,
    is_composite: bool,
}

impl RequestedChecksum {
    /// The checksum that the headers of a request to begin an upload name; `None` if they name none. Without `kind`,
    /// CRC64NVME is of the content, and every other algorithm of the checksums of parts.
    ///
    /// # Errors
    /// `InvalidRequest` for a type that the checksum does not have.
    pub(crate) fn new(
        algorithm: Option<&ChecksumAlgorithm>,
        kind: Option<&ChecksumType>,
    ) -> Outcome<Option<Self>> {
        let kind = Kind::new(kind)?;
        let Some(algorithm) = algorithm else {
            return match kind {
                None => Ok(None),
                Some(_) => {
                    Err(wrong("x-amz-checksum-type needs x-amz-checksum-algorithm beside it"))
                }
            };
        };
        let name = algorithm.as_str().to_ascii_lowercase();
        let is_composite = kind.map_or(name != "crc64nvme", |kind| kind == Kind::Composite);
        match (&*name, is_composite) {
            ("crc64nvme", true) => {
                Err(wrong("CRC64NVME is of the content: its type is FULL_OBJECT"))
            }
            ("sha1" | "sha256", false) => {
                Err(wrong(&format!("{name} is of the checksums of parts: its type is COMPOSITE")))
            }
            _ => Ok(Some(Self { name, is_composite })),
        }
    }

    /// `COMPOSITE` for a checksum over the checksums of parts, `FULL_OBJECT` for one over the whole content.
    pub(crate) fn kind(&self) -> ChecksumType {
        ChecksumType::from_static(match self.is_composite {
            true => ChecksumType::COMPOSITE,
            false => ChecksumType::FULL_OBJECT,
        })
    }

    /// The checksum of an object of these parts, with this content; `None` if a part has no such checksum.
    fn value(&self, parts: &[Part], content: &Stored) -> Option<String> {
        match self.is_composite {
            true => Some(numbered(&composite(parts, &self.name)?, parts)),
            false => content.get(&self.name).map(str::to_owned),
        }
    }
}

/// A checksum of the checksums of parts, followed by `-` and the number of parts.
fn numbered(digits: &str, parts: &[Part]) -> String {
    format!("{digits}-{}", parts.len())
}

/// Size and checksums that a client claims when it completes an upload. A checksum of the checksums of parts may end
/// with `-` and their number.
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
    /// `InvalidRequest` for an invalid size, or an unknown type of checksum.
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
        let kind = Kind::new(input.checksum_type.as_ref())?;
        Ok(Self { size, checksum, kind })
    }

    /// Fails if the client claims another size of the whole object.
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

    /// The checksums to compute over the content: those that the client claims, and the one that it requested.
    pub(crate) fn sums(&self, requested: Option<&RequestedChecksum>) -> Sums {
        let mut all = self.checksum.clone();
        if let Some(RequestedChecksum { name, .. }) =
            requested.filter(|requested| !requested.is_composite)
        {
            all.set(name, "");
        }
        Sums::for_checksums(&all)
    }

    /// Checks the checksums that the client sent against those of the content or of the parts. Returns them; if it sent
    /// none, the one that it requested for the upload.
    ///
    /// # Errors
    /// `BadDigest`.
    pub(crate) fn check(
        &self,
        parts: &[Part],
        content: &Stored,
        requested: Option<&RequestedChecksum>,
    ) -> Outcome<Stored> {
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
                return Err(bad_digest(name));
            }
            verified.set(name, &numbered(digits, parts));
        }
        if let Some(requested) = requested.filter(|_| verified == Stored::default())
            && let Some(value) = requested.value(parts, content)
        {
            verified.set(&requested.name, &value);
        }
        Ok(verified)
    }

    /// Checks the checksums that a client repeats against those stored with the object, which were verified when it was
    /// completed.
    ///
    /// # Errors
    /// `BadDigest`.
    pub(crate) fn check_repeated(&self, stored: &Stored) -> Outcome<()> {
        for name in KNOWN {
            let Some(claimed) = self.checksum.get(name) else { continue };
            let stored = stored.get(name).unwrap_or_default();
            let is_composite = stored.contains('-');
            let is_kind = self.kind.is_none_or(|kind| (kind == Kind::Composite) == is_composite);
            let digits = stored.split('-').next();
            if !is_kind || claimed != stored && Some(claimed) != digits {
                return Err(bad_digest(name));
            }
        }
        Ok(())
    }
}

/// The error for a checksum of the object that differs from the client's.
#[cold]
fn bad_digest(name: &str) -> Fault {
    let why = format!("the {name} of the object is not the one that the request gives");
    Fault::new(S3ErrorCode::BadDigest, why)
}

/// The checksum of the checksums of parts; `None` if a part does not have one of this name.
fn composite(parts: &[Part], name: &str) -> Option<String> {
    let mut wanted = Stored::default();
    wanted.set(name, "");
    let mut sums = Sums::for_checksums(&wanted);
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
