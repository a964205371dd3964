//! Operations on one object: put, get, head, copy, delete, and its tags.
use crate::body::{Incoming, announced_size};
use crate::bucket::Opened;
use crate::condition::Condition;
use crate::copy::{Source, opened};
use crate::fault::{Fault, Outcome};
use crate::find::{Found, Head, remove_xattr, tags};
use crate::front::CopyFrom;
use crate::limits::{DELETE_KEYS_MAX, LIST_KEYS_MAX};
use crate::listings::count_of;
use crate::parts::no_part;
use crate::place::{Place, is_text};
use crate::put::Put;
use crate::read::{Content, Reading};
use crate::record::{Stored, TAGS, Tags, checked_tags, strong, tag_set, timestamp, written_tags};
use crate::remove::{remove, remove_each};
use crate::service::Service;
use crate::sums::{Expected, byte_of_hex};
use dfs::{Kind, Time, XattrMode};
use hyper::HeaderMap;
use hyper::header::{ETAG, HeaderName, HeaderValue, IF_RANGE};
use hyper::http::Extensions;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, TrailingHeaders};
use std::ops::Range as Bytes;

/// Metadata of an object in a put or an upload: the fields that their requests share.
macro_rules! about {
    ($input:expr) => {{
        let about = $crate::record::About {
            content_type: $input.content_type.clone(),
            content_encoding: $input
                .content_encoding
                .as_deref()
                .and_then($crate::objects::kept_encoding),
            content_language: $input.content_language.clone(),
            content_disposition: $input.content_disposition.clone(),
            cache_control: $input.cache_control.clone(),
            expires: $input.expires.clone().map($crate::objects::seconds),
            metadata: $input.metadata.clone().unwrap_or_default().into_iter().collect(),
        };
        about.check().map(|()| about)
    }};
}
pub(crate) use about;

/// Refuses storage options that this server does not support.
macro_rules! refuse_unknown {
    ($input:expr) => {{
        let is_asked = $input.sse_customer_algorithm.is_some()
            || $input.sse_customer_key.is_some()
            || $input.ssekms_key_id.is_some()
            || $input.server_side_encryption.is_some()
            || $input.object_lock_mode.is_some()
            || $input.object_lock_legal_hold_status.is_some()
            || $input.website_redirect_location.is_some();
        match is_asked {
            false => Ok(()),
            true => {
                Err($crate::objects::not_offered("encryption, locks and redirections of objects"))
            }
        }
    }};
}
pub(crate) use refuse_unknown;

/// The error for a feature of S3 that this server lacks.
#[cold]
pub(crate) fn not_offered(what: &str) -> Fault {
    Fault::new(S3ErrorCode::NotImplemented, format!("{what} are not offered here"))
}

/// The content encoding that an object keeps, without `aws-chunked`, which is that of the request. `None` if nothing is
/// left.
pub(crate) fn kept_encoding(given: &str) -> Option<String> {
    let kept = given.split(',').map(str::trim).filter(|name| *name != "aws-chunked");
    Some(kept.collect::<Vec<_>>().join(", ")).filter(|kept| !kept.is_empty())
}

/// Converts a time to whole seconds since 1970.
pub(crate) fn seconds(time: Timestamp) -> i64 {
    let mut text = Vec::new();
    let _ = time.format(TimestampFormat::EpochSeconds, &mut text);
    let whole = text.split(|byte| *byte == b'.').next().unwrap_or_default();
    std::str::from_utf8(whole).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The tags of a header: `name=value&name=value`.
pub(crate) fn tags_of_header(header: Option<&str>) -> Outcome<Tags> {
    let pairs = header.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    checked_tags(pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    }))
}

/// Decodes a part of a query: percent-encoding, and a plus for a space. Invalid escapes stay as they are.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        (bytes, rest) = match (first, after.get(..2).and_then(byte_of_hex)) {
            (b'%', Some(byte)) => (pushed(bytes, byte), &after[2..]),
            (b'+', _) => (pushed(bytes, b' '), after),
            (other, _) => (pushed(bytes, *other), after),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `bytes` with one more byte.
fn pushed(mut bytes: Vec<u8>, byte: u8) -> Vec<u8> {
    bytes.push(byte);
    bytes
}

/// Headers that follow the body of a request (`x-amz-trailer`), if there are any.
pub(crate) fn trailing(extensions: &Extensions) -> Option<TrailingHeaders> {
    extensions.get().cloned()
}

/// Bucket and key of the source of a copy.
pub(crate) fn source(extensions: &Extensions) -> Outcome<(String, String)> {
    match extensions.get::<CopyFrom>() {
        Some(CopyFrom { bucket, key }) => Ok((bucket.clone(), key.clone())),
        None => Err(not_offered("access points")),
    }
}

/// The header `Content-Range` for the bytes `sent` of an object of `size` bytes.
fn content_range(sent: &Bytes<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", sent.start, sent.end.saturating_sub(1))
}

/// The bytes of an object that a request asks for, and the header `Content-Range`. All bytes and no header without a
/// range.
fn range_of(range: Option<Range>, size: u64) -> Outcome<(Bytes<u64>, Option<String>)> {
    let Some(range) = range else { return Ok((0..size, None)) };
    let wanted = range.check(size).ok().filter(|wanted| !wanted.is_empty());
    let wanted = wanted.ok_or(S3ErrorCode::InvalidRange)?;
    let header = content_range(&wanted, size);
    Ok((wanted, Some(header)))
}

/// Refuses versions of objects, which are not supported.
fn refuse_version(version: Option<&str>) -> Outcome<()> {
    match version {
        None | Some("null" | "") => Ok(()),
        Some(_) => Err(not_offered("versions")),
    }
}

/// The number of the part that a request asks for; `None` for the whole object.
///
/// # Errors
/// `InvalidRequest` if it asks for a range, too.
fn asked_part(part: Option<i32>, range: Option<&Range>) -> Outcome<Option<i32>> {
    match (part, range) {
        (Some(_), Some(_)) => {
            let why = "a request asks for a range or for a part, not for both";
            Err(Fault::new(S3ErrorCode::InvalidRequest, why))
        }
        _ => Ok(part),
    }
}

/// The bytes of a part. `None` stands for all: an object that was put in one request has one part.
fn range_of_part(head: &Head, part: i32) -> Outcome<Option<Bytes<u64>>> {
    match &head.parts {
        Some(parts) => parts.range_of(part).map(Some),
        None if part == 1 => Ok(None),
        None => Err(no_part(part)),
    }
}

/// Adds the object's ETag to the fault `304 Not Modified`, as HTTP demands. Other faults are returned unchanged.
fn with_etag(fault: Fault, etag: &str) -> Fault {
    let mut error = S3Error::from(fault);
    if *error.code() == S3ErrorCode::NotModified
        && let Ok(value) = HeaderValue::from_str(&format!("\"{etag}\""))
    {
        error.set_headers(HeaderMap::from_iter([(ETAG, value)]));
    }
    Fault::S3(error)
}

/// True if `If-Range` has this ETag. A date never matches, because two objects of the same second have the same.
fn is_etag(if_range: &HeaderValue, etag: &str) -> bool {
    let given = ETag::parse_http_header(if_range.as_bytes()).ok();
    given.and_then(ETag::into_strong).is_some_and(|given| given == etag)
}

/// The header of a head with the number of tags, which `s3s` has for a get only.
const TAGGING_COUNT: HeaderName = HeaderName::from_static("x-amz-tagging-count");

/// Reply about an object, without its content: metadata, checksums of the bytes sent, their range and its header.
struct Seen {
    head: Head,
    checksum: Stored,
    range: Bytes<u64>,
    content_range: Option<String>,
}

impl Seen {
    /// Checks the conditions of a read, and finds the bytes to send: the range that the client asks for, a part, or
    /// all.
    fn new(
        head: Head,
        condition: &Condition,
        range: Option<Range>,
        number: Option<i32>,
    ) -> Outcome<Self> {
        let is_wanted = condition.check_read(&head.etag, head.mtime);
        is_wanted.map_err(|fault| with_etag(fault, &head.etag))?;
        let part = number.map(|number| range_of_part(&head, number)).transpose()?.flatten();
        let (range, content_range) = match part {
            Some(part) if part.is_empty() => (part, None),
            Some(part) => (part.clone(), Some(content_range(&part, head.size))),
            None => range_of(range, head.size)?,
        };
        let checksum = match (&head.parts, number, &content_range) {
            (Some(parts), Some(number), _) => parts.checksum_of(number),
            (_, _, None) => head.checksum.clone(),
            (_, _, Some(_)) => Stored::default(),
        };
        Ok(Self { head, checksum, range, content_range })
    }
}

/// The headers that get and head share.
macro_rules! seen {
    ($output:ident, $seen:expr, $with_checksum:expr) => {{
        let (seen, about) = (&$seen, &$seen.head.about);
        let checksum = if $with_checksum { seen.checksum.clone() } else { Stored::default() };
        let kind = about_checksum(&checksum, &seen.head);
        $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some((seen.range.end - seen.range.start) as i64),
            content_range: seen.content_range.clone(),
            content_type: Some(about.content_type()),
            content_encoding: about.content_encoding.clone(),
            content_language: about.content_language.clone(),
            content_disposition: about.content_disposition.clone(),
            cache_control: about.cache_control.clone(),
            expires: about.expires(),
            e_tag: Some(strong(seen.head.etag.clone())),
            last_modified: Some(timestamp(seen.head.mtime)),
            metadata: Some(about.metadata.clone().into_iter().collect()),
            checksum_crc32: checksum.crc32,
            checksum_crc32c: checksum.crc32c,
            checksum_crc64nvme: checksum.crc64nvme,
            checksum_sha1: checksum.sha1,
            checksum_sha256: checksum.sha256,
            checksum_type: kind,
            parts_count: seen.head.parts.as_ref().map(|parts| parts.count() as i32),
            ..Default::default()
        }
    }};
}

/// The type of checksums that are shown: that of the object, also for those of a part.
fn about_checksum(shown: &Stored, head: &Head) -> Option<ChecksumType> {
    shown.kind().map(|kind| head.checksum.kind().unwrap_or(kind))
}

/// True if the client asks for checksums in the reply.
fn wants_checksum(mode: Option<&ChecksumMode>) -> bool {
    mode.is_some_and(|mode| mode.as_str().eq_ignore_ascii_case(ChecksumMode::ENABLED))
}

impl Service {
    /// Metadata of the object of a key. `with_parts` also reads the parts of its multipart upload.
    fn look_up(&self, bucket: &str, key: &str, with_parts: bool) -> Outcome<Head> {
        let head = if with_parts { Found::head_with_parts } else { Found::head };
        match self.opened(bucket)? {
            Opened::Files(bucket) => Ok(opened(&bucket, key, head)?.1),
            Opened::Plain(plain) => plain.head(key),
        }
    }

    /// Opens the object of a key, and returns its metadata and its content. A directory has no content. `with_parts`
    /// also reads the parts of its multipart upload.
    pub(crate) fn open(
        &self,
        bucket: &str,
        key: &str,
        with_parts: bool,
    ) -> Outcome<(Head, Option<Content>)> {
        let bucket = match self.opened(bucket)? {
            Opened::Files(bucket) => bucket,
            Opened::Plain(plain) => {
                return plain.open(key).map(|(head, content)| (head, Some(content)));
            }
        };
        let (found, file) = opened(&bucket, key, |found| match found.attr.kind {
            Kind::File => Ok(Some(found.node.open(dfs::Open::READ)?)),
            _ => Ok(None),
        })?;
        let head = if with_parts { found.head_with_parts() } else { found.head() };
        Ok((head?, file.map(|file| Content::File { file, _bucket: bucket })))
    }

    /// Serves `PutObject`.
    pub(crate) async fn put(&self, req: S3Request<PutObjectInput>) -> Outcome<PutObjectOutput> {
        let input = req.input;
        refuse_unknown!(input)?;
        if input.write_offset_bytes.is_some() {
            return Err(not_offered("appends"));
        }
        let condition = Condition {
            matches: input.if_match.clone(),
            matches_not: input.if_none_match.clone(),
            ..Condition::default()
        };
        let put = Put {
            place: Place::new(&input.key)?,
            about: about!(input)?,
            tags: tags_of_header(input.tagging.as_deref())?,
            condition,
            parts: None,
        };
        let expected =
            Expected::new(self.etags, input.content_md5, &req.headers, trailing(&req.extensions));
        let held = req.extensions.get().cloned();
        let size = announced_size(input.content_length, &req.headers);
        let body = Incoming::new(input.body, expected, size, held)?;
        let bucket = self.bucket(&input.bucket)?;
        if put.place.is_directory {
            put.condition.refuse_on_directory()?;
            if !body.receive_empty(&self.metrics).await? {
                return Err(directory_content_fault());
            }
            let etag = put.directory(&bucket)?;
            return Ok(PutObjectOutput { e_tag: Some(strong(etag)), ..Default::default() });
        }
        let (hidden, received) = body.store(&self.metrics, &bucket).await?;
        let (etag, _) = put.finish(&bucket, hidden, &received)?;
        let sums = received.summed.checksum;
        let is_known = sums != Stored::default();
        Ok(PutObjectOutput {
            e_tag: Some(strong(etag)),
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
            checksum_type: is_known.then(|| ChecksumType::from_static(ChecksumType::FULL_OBJECT)),
            ..Default::default()
        })
    }

    /// Serves `GetObject`.
    pub(crate) fn get(
        &self,
        req: S3Request<GetObjectInput>,
    ) -> Outcome<S3Response<GetObjectOutput>> {
        let (input, if_range) = (req.input, req.headers.get(IF_RANGE).cloned());
        refuse_version(input.version_id.as_deref())?;
        let part = asked_part(input.part_number, input.range.as_ref())?;
        let condition = Condition {
            matches: input.if_match,
            matches_not: input.if_none_match,
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        // The open content stays, even if the object is replaced from here on.
        let (head, content) = self.open(&input.bucket, &input.key, part.is_some())?;
        let is_same = if_range.is_none_or(|etag| is_etag(&etag, &head.etag));
        let seen = Seen::new(head, &condition, input.range.filter(|_| is_same), part)?;
        let begin = |content| Reading::new(content, seen.range.clone(), &self.metrics);
        let body = content.map(begin).transpose()?.map(StreamingBlob::new);
        let mut output = seen!(GetObjectOutput, seen, wants_checksum(input.checksum_mode.as_ref()));
        output.tag_count = Some(seen.head.tags.len() as i32).filter(|count| *count > 0);
        output.body = body;
        Ok(S3Response::new(output))
    }

    /// Serves `HeadObject`.
    pub(crate) fn head(&self, input: HeadObjectInput) -> Outcome<S3Response<HeadObjectOutput>> {
        refuse_version(input.version_id.as_deref())?;
        let part = asked_part(input.part_number, input.range.as_ref())?;
        let condition = Condition {
            matches: input.if_match,
            matches_not: input.if_none_match,
            modified_since: input.if_modified_since,
            unmodified_since: input.if_unmodified_since,
        };
        let head = self.look_up(&input.bucket, &input.key, part.is_some())?;
        let seen = Seen::new(head, &condition, input.range, part)?;
        let output = seen!(HeadObjectOutput, seen, wants_checksum(input.checksum_mode.as_ref()));
        let mut answer = S3Response::new(output);
        if !seen.head.tags.is_empty() {
            answer.headers.insert(TAGGING_COUNT, seen.head.tags.len().into());
        }
        Ok(answer)
    }

    /// Serves `GetObjectAttributes`: returns the attributes that the client asks for, and the time of the last change.
    pub(crate) fn attributes(
        &self,
        input: GetObjectAttributesInput,
    ) -> Outcome<GetObjectAttributesOutput> {
        refuse_version(input.version_id.as_deref())?;
        let after = input.part_number_marker.unwrap_or(0);
        let count = count_of(input.max_parts, LIST_KEYS_MAX)?;
        let with_parts = true;
        let head = self.look_up(&input.bucket, &input.key, with_parts)?;
        // Clients may send several names in one header, separated by commas.
        let is_asked = |name: &str| {
            let all = input.object_attributes.iter().flat_map(|names| names.as_str().split(','));
            all.map(str::trim).any(|asked| asked == name)
        };
        let sums = head.checksum;
        let checksum = Checksum {
            checksum_type: sums.kind(),
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
        };
        Ok(GetObjectAttributesOutput {
            e_tag: is_asked(ObjectAttributes::ETAG).then(|| strong(head.etag)),
            object_parts: head
                .parts
                .filter(|_| is_asked(ObjectAttributes::OBJECT_PARTS))
                .map(|parts| parts.listed(after, count)),
            object_size: is_asked(ObjectAttributes::OBJECT_SIZE).then_some(head.size as i64),
            checksum: is_asked(ObjectAttributes::CHECKSUM).then_some(checksum),
            storage_class: is_asked(ObjectAttributes::STORAGE_CLASS)
                .then(|| StorageClass::from_static(StorageClass::STANDARD)),
            last_modified: Some(timestamp(head.mtime)),
            ..Default::default()
        })
    }

    /// Serves `DeleteObject`.
    pub(crate) fn delete(&self, input: DeleteObjectInput) -> Outcome<DeleteObjectOutput> {
        refuse_version(input.version_id.as_deref())?;
        if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
            return Err(not_offered("conditions on the time or size of what is deleted"));
        }
        let condition = Condition { matches: input.if_match, ..Condition::default() };
        remove(&self.bucket(&input.bucket)?, &input.key, &condition)?;
        Ok(DeleteObjectOutput::default())
    }

    /// Serves `DeleteObjects`. Each object has its own result, so one failure does not stop the others.
    pub(crate) fn delete_many(&self, input: DeleteObjectsInput) -> Outcome<DeleteObjectsOutput> {
        let (objects, quiet) = (input.delete.objects, input.delete.quiet == Some(true));
        if objects.len() > DELETE_KEYS_MAX {
            let why = format!(
                "{} keys: at most {DELETE_KEYS_MAX} are deleted at a time (DELETE_KEYS_MAX)",
                objects.len()
            );
            return Err(Fault::new(S3ErrorCode::MalformedXML, why));
        }
        if objects.iter().any(|object| !is_text(&object.key)) {
            let why = "a key contains a control character: no object has such a key";
            return Err(Fault::new(S3ErrorCode::MalformedXML, why));
        }
        let bucket = self.bucket(&input.bucket)?;
        let (mut deleted, mut errors, mut allowed) = (Vec::new(), Vec::new(), Vec::new());
        for object in objects {
            match removal_condition(&object) {
                Ok(condition) => allowed.push((object.key, condition)),
                Err(fault) => errors.push(error_of(object.key, fault)),
            }
        }
        let mut removed = remove_each(&bucket, &allowed);
        // If the container was destroyed, the request fails as a whole: the next one opens the bucket again.
        let closed = removed.iter().position(|one| one.as_ref().is_err_and(Fault::is_closed));
        if let Some(Err(fault)) = closed.map(|at| removed.swap_remove(at)) {
            return Err(fault);
        }
        for ((key, _), removed) in allowed.into_iter().zip(removed) {
            match removed {
                Ok(()) if quiet => {}
                Ok(()) => deleted.push(DeletedObject { key: Some(key), ..Default::default() }),
                Err(fault) => errors.push(error_of(key, fault)),
            }
        }
        let some = |errors: Vec<Error>| Some(errors).filter(|errors| !errors.is_empty());
        Ok(DeleteObjectsOutput {
            deleted: Some(deleted),
            errors: some(errors),
            ..Default::default()
        })
    }

    /// Serves `CopyObject`.
    pub(crate) fn copy(&self, req: S3Request<CopyObjectInput>) -> Outcome<CopyObjectOutput> {
        let on_target = Condition::of_target(&req.headers)?;
        let input = req.input;
        refuse_unknown!(input)?;
        let (from, key) = source(&req.extensions)?;
        let condition = Condition {
            matches: input.copy_source_if_match.clone(),
            matches_not: input.copy_source_if_none_match.clone(),
            modified_since: input.copy_source_if_modified_since.clone(),
            unmodified_since: input.copy_source_if_unmodified_since.clone(),
        };
        let replaces = |directive: Option<&str>| directive == Some(MetadataDirective::REPLACE);
        let new_about = replaces(input.metadata_directive.as_ref().map(MetadataDirective::as_str));
        let new_tags = replaces(input.tagging_directive.as_ref().map(TaggingDirective::as_str));
        let is_same = from == input.bucket && key == input.key;
        if is_same && !new_about && !new_tags {
            let why =
                "this copies an object to itself and changes nothing: replace its metadata or tags";
            return Err(Fault::new(S3ErrorCode::InvalidRequest, why));
        }
        let about = new_about.then(|| about!(input)).transpose()?;
        let tags = new_tags.then(|| tags_of_header(input.tagging.as_deref())).transpose()?;
        let place = Place::new(&input.key)?;
        let (source, to) = (self.bucket(&from)?, self.bucket(&input.bucket)?);
        let source = self.checked(&from, Source::open(&source, &key, &condition))?;
        let about = about.unwrap_or_else(|| source.found.record.about.clone());
        let tags = tags.map_or_else(|| source.tags(), Ok)?;
        let put = Put { place, about, tags, condition: on_target, parts: None };
        // The reply is about this copy, also if another client has replaced it by now.
        let (etag, mtime, sums) = if put.place.is_directory {
            put.condition.refuse_on_directory()?;
            check_directory_copy(&source.found, input.checksum_algorithm.is_some())?;
            (put.directory(&to)?, Time::now(), Stored::default())
        } else {
            let sums = Expected::without_claims(self.etags, &req.headers).sums();
            let (hidden, received) = source.copy(&to, 0..source.found.size(), sums)?;
            let (etag, mtime) = put.finish(&to, hidden, &received)?;
            (etag, mtime, received.summed.checksum)
        };
        Ok(CopyObjectOutput {
            copy_object_result: Some(CopyObjectResult {
                e_tag: Some(strong(etag)),
                last_modified: Some(timestamp(mtime)),
                checksum_type: sums.kind(),
                checksum_crc32: sums.crc32,
                checksum_crc32c: sums.crc32c,
                checksum_crc64nvme: sums.crc64nvme,
                checksum_sha1: sums.sha1,
                checksum_sha256: sums.sha256,
            }),
            ..Default::default()
        })
    }

    /// Serves `GetObjectTagging`.
    pub(crate) fn tags(&self, input: GetObjectTaggingInput) -> Outcome<GetObjectTaggingOutput> {
        refuse_version(input.version_id.as_deref())?;
        let (_, tags) = opened(&self.bucket(&input.bucket)?, &input.key, tags)?;
        Ok(GetObjectTaggingOutput { tag_set: tag_set(tags), version_id: None })
    }

    /// Serves `PutObjectTagging`.
    pub(crate) fn set_tags(&self, input: PutObjectTaggingInput) -> Outcome<PutObjectTaggingOutput> {
        refuse_version(input.version_id.as_deref())?;
        let pairs = input.tagging.tag_set.into_iter();
        let tags = checked_tags(
            pairs.map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default())),
        )?;
        let tags = written_tags(&tags);
        opened(&self.bucket(&input.bucket)?, &input.key, |found| {
            Ok(found.node.set_xattr(TAGS.as_bytes(), &tags, XattrMode::Any)?)
        })?;
        Ok(PutObjectTaggingOutput::default())
    }

    /// Serves `DeleteObjectTagging`. It is not an error if the object has none.
    pub(crate) fn remove_tags(
        &self,
        input: DeleteObjectTaggingInput,
    ) -> Outcome<DeleteObjectTaggingOutput> {
        refuse_version(input.version_id.as_deref())?;
        opened(&self.bucket(&input.bucket)?, &input.key, |found| {
            remove_xattr(&found.node, TAGS).map_err(Fault::from)
        })?;
        Ok(DeleteObjectTaggingOutput::default())
    }
}

/// Refuses a copy to a directory, which can store neither content nor a checksum of it.
///
/// # Errors
/// `InvalidArgument` for a source with content; `NotImplemented` for a checksum.
fn check_directory_copy(source: &Found, has_checksum: bool) -> Outcome<()> {
    match (source.size(), has_checksum) {
        (1.., _) => Err(directory_content_fault()),
        (0, true) => Err(not_offered("checksums of keys that end with a slash")),
        (0, false) => Ok(()),
    }
}

/// The error for content of a key that ends with a slash.
#[cold]
fn directory_content_fault() -> Fault {
    let why = "a key that ends with a slash is a directory, which has no content";
    Fault::new(S3ErrorCode::InvalidArgument, why)
}

/// The condition on one object of `DeleteObjects`.
///
/// # Errors
/// `NotImplemented` for a version, and for conditions that are not offered.
fn removal_condition(object: &ObjectIdentifier) -> Outcome<Condition> {
    refuse_version(object.version_id.as_deref())?;
    if object.last_modified_time.is_some() || object.size.is_some() {
        return Err(not_offered("conditions on the time or size of what is deleted"));
    }
    let matches = object.e_tag.clone().map(ETagCondition::ETag);
    Ok(Condition { matches, ..Condition::default() })
}

/// The line of `DeleteObjects` for an object that was not deleted.
fn error_of(key: String, fault: Fault) -> Error {
    let error = S3Error::from(fault);
    Error {
        code: Some(error.code().as_str().to_owned()),
        message: error.message().map(str::to_owned),
        key: Some(key),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_in_a_header_are_decoded() {
        let tags = tags_of_header(Some("a=1&b%20c=x%2Fy+z&d")).unwrap_or_default();
        let found: Vec<_> = tags.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        assert_eq!(found, [("a", "1"), ("b c", "x/y z"), ("d", "")]);
        assert!(tags_of_header(None).unwrap_or_default().is_empty());
        assert!(tags_of_header(Some("a=1&a=2")).is_err());
        assert_eq!(decoded("%"), "%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
        assert_eq!(decoded("%+5%-5"), "% 5%-5", "a sign is not a digit");
    }

    #[test]
    fn ranges_are_within_the_object() {
        let of = |range, size| range_of(Some(range), size).ok();
        let int = |first, last| Range::Int { first, last };
        assert_eq!(of(int(2, Some(100)), 10), Some((2..10, Some("bytes 2-9/10".to_owned()))));
        assert_eq!(
            of(Range::Suffix { length: 3 }, 10),
            Some((7..10, Some("bytes 7-9/10".to_owned())))
        );
        assert_eq!(of(int(10, None), 10), None);
        assert_eq!(of(Range::Suffix { length: 1 }, 0), None);
        assert_eq!(range_of(None, 0).ok(), Some((0..0, None)));
    }

    #[test]
    fn if_range_holds_only_for_the_same_strong_etag() {
        let is = |value| is_etag(&HeaderValue::from_static(value), "a");
        assert!(is("\"a\""));
        for other in ["\"b\"", "W/\"a\"", "Wed, 21 Oct 2015 07:28:00 GMT", ""] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn encoding_of_the_request_is_not_kept() {
        assert_eq!(kept_encoding("aws-chunked"), None);
        assert_eq!(kept_encoding("aws-chunked, gzip").as_deref(), Some("gzip"));
        assert_eq!(
            seconds(timestamp(dfs::Time { seconds: 1_700_000_000, nanos: 5 })),
            1_700_000_000
        );
    }
}
