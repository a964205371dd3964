//! The location of a field's bytes, as an index stores it.
use crate::limits::PATH_BYTES_MAX;
use esker_types::{Error, ErrorKind, ObjectId, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// First byte of an encoded location.
const VERSION: u8 = 1;
const IN_ARRAY: u8 = 0;
const IN_FILE: u8 = 1;
/// Bytes before the holder: version, kind of the holder, length, and time of archiving.
const HEAD: usize = 18;

/// Longest encoded location in bytes.
pub(crate) const LOCATION_BYTES_MAX: usize = HEAD + 8 + PATH_BYTES_MAX;

/// The location of a field's bytes, their number, and when they were archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLocation {
    /// Length in bytes.
    pub bytes: u64,
    /// Time at which it was archived.
    pub archived: SystemTime,
    /// The array or file that holds the bytes.
    pub holder: Holder,
}

/// The array or file that holds the bytes of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// An array of the store.
    Array(ObjectId),
    /// An adopted file: it does not belong to the store, and may change or vanish.
    File {
        /// Its path.
        path: PathBuf,
        /// Offset of the field in it, in bytes.
        offset: u64,
    },
}

impl FieldLocation {
    /// A location, archived now.
    pub(crate) fn new(bytes: u64, holder: Holder) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let archived = UNIX_EPOCH + Duration::from_nanos(now.as_nanos() as u64);
        Self { bytes, archived, holder }
    }

    /// The Array that holds the field's bytes; `None` if a file outside the store holds them.
    pub(crate) fn array(&self) -> Option<ObjectId> {
        match self.holder {
            Holder::Array(oid) => Some(oid),
            Holder::File { .. } => None,
        }
    }

    /// Encodes the location: first the version and the kind of the holder, then little-endian numbers. The time of
    /// archiving is in nanoseconds since 1970.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let kind = if self.array().is_some() { IN_ARRAY } else { IN_FILE };
        let archived = self.archived.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut out = Vec::with_capacity(HEAD + 16);
        out.extend_from_slice(&[VERSION, kind]);
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&(archived.as_nanos() as u64).to_le_bytes());
        match &self.holder {
            Holder::Array(oid) => out.extend_from_slice(&oid.to_bytes()),
            Holder::File { path, offset } => {
                out.extend_from_slice(&offset.to_le_bytes());
                out.extend_from_slice(path.as_os_str().as_encoded_bytes());
            }
        }
        out
    }

    /// Decodes the value of an index.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]; [`ErrorKind::Incompatible`] for a later version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.first() {
            Some(&VERSION) => Self::try_decode(bytes).ok_or_else(damaged),
            Some(version) => Err(Error::new(
                ErrorKind::Incompatible,
                format!("an index entry of version {version}: read it with a later release"),
            )),
            None => Err(damaged()),
        }
    }

    /// Decodes a location, or `None` if `bytes` is not one.
    fn try_decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let archived = UNIX_EPOCH + Duration::from_nanos(number(10)?);
        let rest = bytes.get(HEAD..)?;
        let holder = match *bytes.get(1)? {
            IN_ARRAY => Holder::Array(ObjectId::from_bytes(rest.try_into().ok()?)),
            IN_FILE => {
                let path = Path::new(std::str::from_utf8(rest.get(8..)?).ok()?).to_path_buf();
                Holder::File { path, offset: number(HEAD)? }
            }
            _ => return None,
        };
        Some(Self { bytes: number(2)?, archived, holder })
    }
}

/// Refuses the path of a file that cannot be stored in a location: one that is not UTF-8, too long, or relative.
pub(super) fn check_path(path: &Path) -> Result<()> {
    let refused = |kind, text: String| Err(Error::new(kind, format!("{}: {text}", path.display())));
    match path.to_str() {
        None => refused(ErrorKind::Invalid, "a path that is not UTF-8: rename the file".to_owned()),
        Some(text) if text.len() > PATH_BYTES_MAX => {
            let text = format!("a path of over {PATH_BYTES_MAX} bytes (PATH_BYTES_MAX)");
            refused(ErrorKind::NameTooLong, text)
        }
        Some(_) if !path.is_absolute() => {
            refused(ErrorKind::Invalid, "a relative path, which others would not find".to_owned())
        }
        Some(_) => Ok(()),
    }
}

fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "an index entry of the field store is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locations() -> [FieldLocation; 2] {
        let file = Holder::File { path: "/data/forecast.grib".into(), offset: 77 };
        let array = Holder::Array(ObjectId::from_bytes([7; 16]));
        [FieldLocation::new(1 << 20, array), FieldLocation::new(12, file)]
    }

    #[test]
    fn locations_survive_encoding() {
        for location in locations() {
            assert_eq!(FieldLocation::decode(&location.encode()).unwrap(), location);
        }
    }

    #[test]
    fn damage_is_an_error() {
        for location in locations() {
            let bytes = location.encode();
            for cut in 0..HEAD + 8 {
                assert!(FieldLocation::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            let mut later = bytes.clone();
            later[0] = 2;
            assert_eq!(FieldLocation::decode(&later).unwrap_err().kind(), ErrorKind::Incompatible);
        }
    }
}
