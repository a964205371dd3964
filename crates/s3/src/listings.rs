//! The two versions of listing, in the words of S3.
use crate::bucket::Opened;
use crate::fault::{Fault, Outcome};
use crate::limits::LIST_KEYS_MAX;
use crate::list::list;
use crate::page::{Listed, Page, Shown, Wanted};
use crate::record::{strong, timestamp};
use crate::service::Service;
use crate::sums::byte_of_hex;
use s3s::S3ErrorCode;
use s3s::dto::*;

/// Most lines of a page: the number that the client asks for, up to `most`.
pub(crate) fn count_of(asked: Option<i32>, most: usize) -> Outcome<usize> {
    match usize::try_from(asked.unwrap_or(most as i32)) {
        Ok(count) => Ok(count.min(most)),
        Err(_) => Err(Fault::new(
            S3ErrorCode::InvalidArgument,
            "the number of keys in a page is not negative",
        )),
    }
}

/// Encoding of names in XML, which cannot represent some characters: true for `url`.
#[derive(Clone, Copy)]
pub(crate) struct Encoding(bool);

impl Encoding {
    /// The encoding that the client asks for.
    pub(crate) fn new(asked: Option<&EncodingType>) -> Outcome<Self> {
        match asked.map(EncodingType::as_str) {
            None => Ok(Self(false)),
            Some(EncodingType::URL) => Ok(Self(true)),
            Some(_) => {
                Err(Fault::new(S3ErrorCode::InvalidArgument, "the only encoding of keys is url"))
            }
        }
    }

    /// Percent-encodes a name, if the client asked for the encoding `url`.
    pub(crate) fn encode(self, name: &str) -> String {
        if !self.0 {
            return name.to_owned();
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
        name.bytes().fold(String::with_capacity(name.len()), |mut text, byte| {
            match plain(byte) {
                true => text.push(byte.into()),
                false => text.push_str(&format!("%{byte:02X}")),
            }
            text
        })
    }
}

/// The token by which the next page continues after `name`: the name in hexadecimal digits.
fn token(name: &str) -> String {
    crate::sums::hex(name.as_bytes())
}

/// The name in a token; see [`token`].
fn name_of(token: &str) -> Outcome<String> {
    let bytes: Option<Vec<u8>> = token.as_bytes().chunks(2).map(byte_of_hex).collect();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        Fault::new(S3ErrorCode::InvalidArgument, "the continuation token is not one of this server")
    })
}

/// Owner of all objects in replies: the only one is the user who runs the server.
fn owner() -> Owner {
    Owner { display_name: None, id: Some("esker".to_owned()) }
}

/// The objects and common prefixes of a page, encoded as the client asked.
fn shown(page: Page, encoding: Encoding) -> (Vec<Object>, Vec<CommonPrefix>) {
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    for shown in page.shown {
        match shown {
            Shown::Object(listed) => objects.push(object(listed, encoding)),
            Shown::Prefix(prefix) => {
                prefixes.push(CommonPrefix { prefix: Some(encoding.encode(&prefix)) })
            }
        }
    }
    (objects, prefixes)
}

/// An object of a listing.
fn object(listed: Listed, encoding: Encoding) -> Object {
    Object {
        key: Some(encoding.encode(&listed.key)),
        size: Some(listed.size as i64),
        last_modified: Some(timestamp(listed.mtime)),
        e_tag: Some(strong(listed.etag)),
        storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
        ..Default::default()
    }
}

impl Service {
    /// Lists a page, and returns the name after which the next one begins; `None` if this is the last.
    fn page(&self, bucket: &str, wanted: Wanted) -> Outcome<(Page, Option<String>)> {
        let page = match self.opened(bucket)? {
            Opened::Files(bucket) => list(&bucket, &wanted)?,
            Opened::Plain(plain) => plain.list(&wanted)?,
        };
        let last = page.shown.last().filter(|_| page.is_truncated);
        let next = last.map(|last| last.name().to_owned());
        Ok((page, next))
    }

    /// Serves `ListObjectsV2`, which continues after a token.
    pub(crate) fn list_v2(&self, input: ListObjectsV2Input) -> Outcome<ListObjectsV2Output> {
        let encoding = Encoding::new(input.encoding_type.as_ref())?;
        let count = count_of(input.max_keys, LIST_KEYS_MAX)?;
        let given = input.continuation_token.as_deref().filter(|token| !token.is_empty());
        let after = match given {
            Some(token) => name_of(token)?,
            None => input.start_after.clone().unwrap_or_default(),
        };
        let wanted = Wanted::new(input.prefix.clone(), input.delimiter, after, count);
        let delimiter = wanted.delimiter.clone();
        let (page, next) = self.page(&input.bucket, wanted)?;
        let is_truncated = Some(page.is_truncated);
        let (mut contents, prefixes) = shown(page, encoding);
        if input.fetch_owner == Some(true) {
            contents.iter_mut().for_each(|object| object.owner = Some(owner()));
        }
        Ok(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(encoding.encode(&input.prefix.unwrap_or_default())),
            delimiter: delimiter.map(|delimiter| encoding.encode(&delimiter)),
            encoding_type: input.encoding_type,
            max_keys: Some(count as i32),
            key_count: Some((contents.len() + prefixes.len()) as i32),
            start_after: input.start_after.map(|after| encoding.encode(&after)),
            continuation_token: input.continuation_token,
            next_continuation_token: next.as_deref().map(token),
            is_truncated,
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            ..Default::default()
        })
    }

    /// Serves `ListObjectVersions`. Buckets have no versions: each object is shown as its only one.
    pub(crate) fn list_versions(
        &self,
        input: ListObjectVersionsInput,
    ) -> Outcome<ListObjectVersionsOutput> {
        let encoding = Encoding::new(input.encoding_type.as_ref())?;
        let count = count_of(input.max_keys, LIST_KEYS_MAX)?;
        let after = input.key_marker.clone().unwrap_or_default();
        let wanted = Wanted::new(input.prefix.clone(), input.delimiter, after, count);
        let delimiter = wanted.delimiter.clone();
        let (page, next) = self.page(&input.bucket, wanted)?;
        let is_truncated = Some(page.is_truncated);
        let (objects, prefixes) = shown(page, encoding);
        Ok(ListObjectVersionsOutput {
            name: Some(input.bucket),
            prefix: Some(encoding.encode(&input.prefix.unwrap_or_default())),
            key_marker: Some(encoding.encode(&input.key_marker.unwrap_or_default())),
            next_version_id_marker: next.as_ref().map(|_| "null".to_owned()),
            next_key_marker: next.map(|next| encoding.encode(&next)),
            delimiter: delimiter.map(|delimiter| encoding.encode(&delimiter)),
            encoding_type: input.encoding_type,
            max_keys: Some(count as i32),
            is_truncated,
            versions: Some(objects.into_iter().map(version).collect()),
            common_prefixes: Some(prefixes),
            ..Default::default()
        })
    }

    /// Serves `ListObjects`, which continues after a key.
    pub(crate) fn list_v1(&self, input: ListObjectsInput) -> Outcome<ListObjectsOutput> {
        let encoding = Encoding::new(input.encoding_type.as_ref())?;
        let count = count_of(input.max_keys, LIST_KEYS_MAX)?;
        let after = input.marker.clone().unwrap_or_default();
        let wanted = Wanted::new(input.prefix.clone(), input.delimiter, after, count);
        let delimiter = wanted.delimiter.clone();
        let (page, next) = self.page(&input.bucket, wanted)?;
        let is_truncated = Some(page.is_truncated);
        let (contents, prefixes) = shown(page, encoding);
        Ok(ListObjectsOutput {
            name: Some(input.bucket),
            prefix: Some(encoding.encode(&input.prefix.unwrap_or_default())),
            marker: Some(encoding.encode(&input.marker.unwrap_or_default())),
            // S3 gives this marker only with a delimiter; otherwise clients continue after the last key.
            next_marker: next.filter(|_| delimiter.is_some()).map(|next| encoding.encode(&next)),
            delimiter: delimiter.map(|delimiter| encoding.encode(&delimiter)),
            encoding_type: input.encoding_type,
            max_keys: Some(count as i32),
            is_truncated,
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            ..Default::default()
        })
    }
}

/// Converts an entry of a listing to one of a listing of versions: the latest and only version, with the id `null`.
fn version(object: Object) -> ObjectVersion {
    ObjectVersion {
        key: object.key,
        size: object.size,
        last_modified: object.last_modified,
        e_tag: object.e_tag,
        is_latest: Some(true),
        version_id: Some("null".to_owned()),
        storage_class: Some(ObjectVersionStorageClass::from_static(
            ObjectVersionStorageClass::STANDARD,
        )),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_yields_its_name() {
        for name in ["", "a/b", "\u{e9}\u{10ffff}", "50% + x"] {
            assert_eq!(name_of(&token(name)).ok().as_deref(), Some(name));
        }
        for wrong in ["0", "zz", "ff", "+5", "\u{e9}\u{e9}"] {
            assert!(name_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_encoded_as_in_urls() {
        assert_eq!(Encoding(true).encode("a b/c+\u{e9}~"), "a%20b/c%2B%C3%A9~");
        assert_eq!(Encoding(false).encode("a b"), "a b");
        assert_eq!(
            (count_of(None, 9).ok(), count_of(Some(3), 9).ok(), count_of(Some(99), 9).ok()),
            (Some(9), Some(3), Some(9))
        );
        assert!(count_of(Some(-1), 9).is_err());
    }
}
