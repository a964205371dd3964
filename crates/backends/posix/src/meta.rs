//! Metadata of a container or pool: one small file that is replaced atomically.
use super::files;
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_u32, put_u64};
use esker_types::{Checksum, Epoch, Result, Uuid};
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8; 8] = b"ESKRMETA";

/// Content of a `meta` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) uuid: Uuid,
    /// Its most recent label; empty if it has none.
    pub(super) label: String,
    pub(super) checksum: Checksum,
    pub(super) created: Epoch,
    pub(super) first_oid: u64,
    /// Attributes and properties, with their prefixes.
    pub(super) entries: BTreeMap<String, Vec<u8>>,
}

impl Meta {
    /// The metadata of a new container without a label, or of the pool.
    pub(super) fn new(uuid: Uuid) -> Self {
        let (checksum, created) = (Checksum::default(), Epoch::now());
        let (label, entries) = (String::new(), BTreeMap::new());
        Self { uuid, label, checksum, created, first_oid: 0, entries }
    }

    /// The file at `path`, `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(bytes) = files::read(path)? else { return Ok(None) };
        let meta = Self::from_bytes(&bytes);
        meta.map(Some).ok_or_else(|| files::damaged(path, "damaged metadata"))
    }

    /// The metadata as the content of a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&self.uuid.0);
        put_bytes(&mut out, self.label.as_bytes());
        put_u32(&mut out, self.checksum as u32);
        put_u64(&mut out, self.created.0);
        put_u64(&mut out, self.first_oid);
        put_u32(&mut out, self.entries.len() as u32);
        for (name, value) in &self.entries {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value);
        }
        finish(out)
    }

    /// Decodes the content of a file; `None` if it is damaged.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut parts = Parts::open(MAGIC, bytes)?;
        let uuid = Uuid(parts.take(16)?.try_into().ok()?);
        let label = text(parts.bytes()?)?;
        let checksum = Checksum::from_code(u8::try_from(parts.u32()?).ok()?)?;
        let (created, first_oid) = (Epoch(parts.u64()?), parts.u64()?);
        let mut entries = BTreeMap::new();
        for _ in 0..parts.u32()? {
            entries.insert(text(parts.bytes()?)?, parts.bytes()?.to_vec());
        }
        Some(Self { uuid, label, checksum, created, first_oid, entries })
    }

    /// Sets and removes entries.
    pub(super) fn change(&mut self, changes: &[(&str, Option<&[u8]>)]) {
        for (name, value) in changes {
            match value {
                Some(value) => self.entries.insert((*name).to_owned(), value.to_vec()),
                None => self.entries.remove(*name),
            };
        }
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_round_trips() {
        let mut meta = Meta::new(Uuid([3; 16]));
        meta.first_oid = 1 << 40;
        meta.change(&[("attr:a", Some(b"1")), ("attr:b", Some(b"")), ("attr:a", Some(b"2"))]);
        assert_eq!(Meta::from_bytes(&meta.to_bytes()).as_ref(), Some(&meta));
        meta.change(&[("attr:a", None)]);
        assert_eq!(meta.entries.len(), 1);
    }

    #[test]
    fn fuzz_metadata() {
        let mut meta = Meta::new(Uuid([3; 16]));
        meta.change(&[("attr:a", Some(b"1")), ("attr:b", Some(b""))]);
        let mut bytes = meta.to_bytes();
        bytes.truncate(bytes.len() - 4);
        esker_testing::fuzz("metadata", &[bytes], |body| {
            let _ = Meta::from_bytes(&finish(body.to_vec()));
        });
    }
}
