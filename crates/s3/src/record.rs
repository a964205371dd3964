//! Metadata of S3 objects, in extended attributes of their files.
use crate::fault::{Fault, Outcome};
use crate::limits::{METADATA_BYTES_MAX, TAG_KEY_MAX, TAG_VALUE_MAX, TAGS_MAX};
use crate::place::is_text;
use crate::sums::KNOWN;
use dfs::{Attr, Inode, Time};
use s3s::S3ErrorCode;
use s3s::dto::{Checksum, ChecksumType, ETag, Tag, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The extended attribute with the [`Record`] of a file: JSON.
pub const RECORD: &str = "user.esker.s3";

/// The extended attribute with the tags of a file: a JSON object.
pub const TAGS: &str = "user.esker.s3.tags";

/// The extended attribute of a directory that S3 created. It is `key` if a client put the directory. It is `way` if the
/// directory only leads to objects, and is removed with them.
pub const DIRECTORY: &str = "user.esker.s3.directory";

/// The value of [`DIRECTORY`] for a directory that is an object.
pub(crate) const IS_KEY: &[u8] = b"key";
/// The value of [`DIRECTORY`] for a directory that only leads to objects.
pub(crate) const IS_WAY: &[u8] = b"way";

/// Content type of a file without one (S3).
const CONTENT_TYPE: &str = "binary/octet-stream";

/// The MD5 of empty content: the ETag of a directory.
const EMPTY_ETAG: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Metadata from the put of a file. ETag and checksum are valid while the file has the size and time that are stored
/// here. A program that writes to the file changes its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    /// Time of the last change of the content: seconds and nanoseconds.
    mtime: (i64, u32),
    size: u64,
    etag: String,
    #[serde(skip_serializing_if = "Stored::is_empty")]
    checksum: Stored,
    /// ID of the multipart upload that was completed to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upload: Option<String>,
    #[serde(flatten)]
    pub(crate) about: About,
}

/// Headers that a client gave an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_encoding: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_disposition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<String>,
    /// Time at which it expires: seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
}

/// Checksums of an object or a part, in base64 as in the headers of S3.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc32: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc32c: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc64nvme: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha1: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
}

impl Stored {
    /// The checksum of this name, such as `crc32`; `None` if it is not known.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let Self { crc32, crc32c, crc64nvme, sha1, sha256 } = self;
        let found = match name {
            "crc32" => crc32,
            "crc32c" => crc32c,
            "crc64nvme" => crc64nvme,
            "sha1" => sha1,
            "sha256" => sha256,
            _ => &None,
        };
        found.as_deref()
    }

    /// Sets the checksum of this name.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let found = match name {
            "crc32" => &mut self.crc32,
            "crc32c" => &mut self.crc32c,
            "crc64nvme" => &mut self.crc64nvme,
            "sha1" => &mut self.sha1,
            "sha256" => &mut self.sha256,
            _ => return,
        };
        *found = Some(value.to_owned());
    }

    /// Data over which the checksums were computed: the content, or the checksums of parts. Those end with `-` and the
    /// number of parts. `None` if there are no checksums.
    pub(crate) fn kind(&self) -> Option<ChecksumType> {
        let first = KNOWN.iter().find_map(|name| self.get(name))?;
        Some(ChecksumType::from_static(match first.contains('-') {
            true => ChecksumType::COMPOSITE,
            false => ChecksumType::FULL_OBJECT,
        }))
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Checksum> for Stored {
    fn from(sums: Checksum) -> Self {
        Self {
            crc32: sums.checksum_crc32,
            crc32c: sums.checksum_crc32c,
            crc64nvme: sums.checksum_crc64nvme,
            sha1: sums.checksum_sha1,
            sha256: sums.checksum_sha256,
        }
    }
}

impl About {
    /// Refuses more user metadata than S3 allows.
    pub(crate) fn check(&self) -> Outcome<()> {
        let bytes =
            self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        match bytes <= METADATA_BYTES_MAX {
            true => Ok(()),
            false => Err(Fault::new(
                S3ErrorCode::MetadataTooLarge,
                format!(
                    "{bytes} bytes of user metadata: the limit is {METADATA_BYTES_MAX} (METADATA_BYTES_MAX)"
                ),
            )),
        }
    }

    /// The content type, or that of S3 for objects without one.
    pub(crate) fn content_type(&self) -> String {
        self.content_type.clone().unwrap_or_else(|| CONTENT_TYPE.to_owned())
    }

    /// Time of the header `Expires` that the client sent with the object.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.expires.map(|seconds| timestamp(Time { seconds, nanos: 0 }))
    }
}

impl Record {
    /// The record of a file that is about to be published.
    pub(crate) fn new(about: About, etag: String, size: u64, checksum: Stored) -> Self {
        Self { etag, size, checksum, about, ..Self::default() }
    }

    /// Decodes the value of [`RECORD`]. An invalid value counts as none, since any program may write it.
    pub(crate) fn read(value: Option<&[u8]>) -> Self {
        value.and_then(|value| serde_json::from_slice(value).ok()).unwrap_or_default()
    }

    /// The value of [`RECORD`] for a file that is stored with this inode, whose time it contains.
    pub(crate) fn written(&self, inode: &Inode) -> Vec<u8> {
        let stored = Self { mtime: pair(inode.mtime), ..self.clone() };
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// True if this record describes the current content: the file has the modification time of the put and, if given,
    /// its size. If not, another program has changed the file.
    pub(crate) fn holds(&self, mtime: Time, size: Option<u64>) -> bool {
        !self.etag.is_empty()
            && self.mtime == pair(mtime)
            && size.is_none_or(|size| size == self.size)
    }

    /// Size in bytes that the put stored.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The ETag that the put computed; empty if it computed none.
    pub(crate) fn put_etag(&self) -> &str {
        &self.etag
    }

    /// The ETag of a file with these attributes: that of the put. If other programs have changed the file since, one
    /// made of its object, time and size.
    pub(crate) fn etag(&self, attr: &Attr) -> String {
        match self.holds(attr.mtime, Some(attr.size)) {
            true => self.etag.clone(),
            false => {
                let Time { seconds, nanos } = attr.mtime;
                let (hi, lo) = (attr.oid.hi, attr.oid.lo);
                format!("{hi:x}{lo:08x}-{seconds:x}{nanos:08x}-{:x}", attr.size)
            }
        }
    }

    /// The checksums that the put stored; empty if the file has changed since.
    pub(crate) fn checksum(&self, attr: &Attr) -> Stored {
        match self.holds(attr.mtime, Some(attr.size)) {
            true => self.checksum.clone(),
            false => Stored::default(),
        }
    }
}

/// The ETag of a directory.
pub(crate) fn directory_etag() -> String {
    EMPTY_ETAG.to_owned()
}

/// A strong ETag.
pub(crate) fn strong(etag: impl Into<String>) -> ETag {
    ETag::Strong(etag.into())
}

/// Seconds and nanoseconds of a time.
pub(crate) fn pair(time: Time) -> (i64, u32) {
    (time.seconds, time.nanos)
}

/// The last second of the year 9999: years in dates of S3 have four digits.
const LAST_SECOND: i64 = 253_402_300_799;

/// Converts a time of a file for S3. Times before the year 966 or after 9999 become the first or last in between.
pub(crate) fn timestamp(time: Time) -> Timestamp {
    let seconds = time.seconds.clamp(-LAST_SECOND / 8, LAST_SECOND);
    let (since, nanos) =
        (Duration::from_secs(seconds.unsigned_abs()), Duration::from_nanos(time.nanos.into()));
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = if seconds < 0 { epoch.checked_sub(since) } else { epoch.checked_add(since) };
    Timestamp::from(whole.and_then(|time| time.checked_add(nanos)).unwrap_or(epoch))
}

/// Tags, by name.
pub(crate) type Tags = BTreeMap<String, String>;

/// Decodes the value of [`TAGS`]. An invalid value counts as no tags, since any program may write it.
pub(crate) fn read_tags(value: &[u8]) -> Tags {
    serde_json::from_slice(value).unwrap_or_default()
}

/// The value of [`TAGS`].
pub(crate) fn written_tags(tags: &Tags) -> Vec<u8> {
    serde_json::to_vec(tags).unwrap_or_default()
}

/// Checks the tags that a request gives: their number, their lengths, and that no name occurs twice.
///
/// # Errors
/// `InvalidTag` for too many, too long, or one name twice.
pub(crate) fn checked_tags(pairs: impl Iterator<Item = (String, String)>) -> Outcome<Tags> {
    let refuse = |why: String| Err(Fault::new(S3ErrorCode::InvalidTag, why));
    let mut tags = Tags::new();
    for (name, value) in pairs {
        if name.is_empty() || name.chars().count() > TAG_KEY_MAX {
            return refuse(format!(
                "the name of a tag has 1 to {TAG_KEY_MAX} characters (TAG_KEY_MAX)"
            ));
        }
        if value.chars().count() > TAG_VALUE_MAX {
            return refuse(format!(
                "the value of a tag has at most {TAG_VALUE_MAX} characters (TAG_VALUE_MAX)"
            ));
        }
        if !is_text(&name) || !is_text(&value) {
            return refuse("a tag contains a control character".to_owned());
        }
        if tags.insert(name, value).is_some() {
            return refuse("a name of a tag occurs twice".to_owned());
        }
    }
    match tags.len() <= TAGS_MAX {
        true => Ok(tags),
        false => {
            refuse(format!("{} tags: an object has at most {TAGS_MAX} (TAGS_MAX)", tags.len()))
        }
    }
}

/// Converts tags to the form in replies.
pub(crate) fn tag_set(tags: Tags) -> Vec<Tag> {
    let tag = |(key, value)| Tag { key: Some(key), value: Some(value) };
    tags.into_iter().map(tag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfs::Kind;
    use esker::types::ObjectId;

    /// Attributes of a file of `size` bytes that was modified at this time.
    fn attr(seconds: i64, size: u64) -> Attr {
        Attr {
            oid: ObjectId { hi: 1, lo: 2 },
            kind: Kind::File,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            size,
            block_size: 1,
            mtime: Time { seconds, nanos: 5 },
            ctime: Time { seconds, nanos: 5 },
        }
    }

    #[test]
    fn etag_of_the_put_is_returned_until_the_file_changes() {
        let mut record = Record::new(About::default(), "abc".to_owned(), 7, Stored::default());
        record.mtime = (3, 5);
        assert_eq!(record.etag(&attr(3, 7)), "abc");
        let others = [
            record.etag(&attr(4, 7)),
            record.etag(&attr(3, 8)),
            Record::default().etag(&attr(3, 7)),
        ];
        for (number, other) in others.iter().enumerate() {
            assert!(other.contains('-') && !others[..number].contains(other), "{others:?}");
        }
        assert_eq!(others[2], Record::default().etag(&attr(3, 7)));
    }

    #[test]
    fn record_is_decoded_and_invalid_one_counts_as_none() {
        let about = About {
            content_type: Some("text/plain".to_owned()),
            expires: Some(-1),
            ..About::default()
        };
        let record = Record::new(
            about,
            "e".to_owned(),
            1,
            Stored { crc32: Some("x".to_owned()), ..Stored::default() },
        );
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(Record::read(Some(&text)), record);
        for nonsense in [&b""[..], b"[]", b"{\"size\":-1}", b"\xff"] {
            assert_eq!(Record::read(Some(nonsense)), Record::default());
        }
        assert!(read_tags(b"7").is_empty());
    }

    #[test]
    fn tags_have_limits() {
        let tags = |count: usize| checked_tags((0..count).map(|n| (n.to_string(), String::new())));
        assert_eq!(tags(TAGS_MAX).unwrap().len(), TAGS_MAX);
        assert!(tags(TAGS_MAX + 1).is_err());
        let one = |name: &str, value: &str| {
            checked_tags(std::iter::once((name.to_owned(), value.to_owned())))
        };
        assert!(one(&"x".repeat(TAG_KEY_MAX), &"y".repeat(TAG_VALUE_MAX)).is_ok());
        assert!(one("", "").is_err() && one(&"x".repeat(TAG_KEY_MAX + 1), "").is_err());
        assert!(one("x", &"y".repeat(TAG_VALUE_MAX + 1)).is_err());
    }

    #[test]
    fn times_out_of_range_are_clamped() {
        let before = timestamp(Time { seconds: -1, nanos: 500_000_000 });
        assert!(before < timestamp(Time { seconds: 0, nanos: 0 }));
        let year = |seconds| {
            let mut text = Vec::new();
            let time = timestamp(Time { seconds, nanos: 0 });
            time.format(s3s::dto::TimestampFormat::DateTime, &mut text).unwrap();
            String::from_utf8(text[..4].to_vec()).unwrap()
        };
        assert_eq!([i64::MIN, 0, i64::MAX].map(year), ["0966", "1970", "9999"]);
    }
}
