//! Multipart uploads, in the words of S3.
use crate::body::{Incoming, announced_size};
use crate::completion::{Claims, RequestedChecksum};
use crate::condition::Condition;
use crate::copy::Source;
use crate::fault::{Fault, Outcome};
use crate::limits::LIST_KEYS_MAX;
use crate::listings::{Encoding, count_of};
use crate::objects::{about, not_offered, refuse_unknown, source, tags_of_header, trailing};
use crate::place::Place;
use crate::put::Put;
use crate::record::{Stored, strong, timestamp};
use crate::service::Service;
use crate::sums::Expected;
use crate::uploads::{Begun, Chosen, Listed, Upload, check_number, completed, no_upload_fault};
use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request};
use std::collections::BTreeSet;

/// The byte range of the source of `UploadPartCopy`; the whole source of `size` bytes without the header.
fn range_of(header: Option<&str>, size: u64) -> Outcome<std::ops::Range<u64>> {
    let Some(header) = header else { return Ok(0..size) };
    let wrong = || {
        Fault::new(
            S3ErrorCode::InvalidArgument,
            format!("{header:?} is not a range bytes=FIRST-LAST"),
        )
    };
    match Range::parse(header).map_err(|_| wrong())? {
        Range::Int { first, last: Some(last) } if last < size => Ok(first..last + 1),
        Range::Int { last: Some(_), .. } => Err(S3ErrorCode::InvalidRange.into()),
        _ => Err(wrong()),
    }
}

impl Service {
    /// Serves `CreateMultipartUpload`: begins an upload, and returns its ID.
    pub(crate) fn begin_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> Outcome<CreateMultipartUploadOutput> {
        let input = req.input;
        refuse_unknown!(input)?;
        let place = Place::new(&input.key)?;
        if place.is_directory {
            return Err(not_offered("uploads of directories"));
        }
        let (about, tags) = (about!(input)?, tags_of_header(input.tagging.as_deref())?);
        let (algorithm, kind) = (input.checksum_algorithm, input.checksum_type);
        let requested = RequestedChecksum::new(algorithm.as_ref(), kind.as_ref())?;
        let kind = requested.as_ref().map(RequestedChecksum::kind);
        let upload = Upload { key: input.key.clone(), about, tags, requested, since: None };
        let id = upload.begin(&self.bucket(&input.bucket)?)?;
        Ok(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            checksum_algorithm: algorithm,
            checksum_type: kind,
            ..Default::default()
        })
    }

    /// Serves `UploadPart`: stores one part of an upload. A part with the same number is replaced.
    pub(crate) async fn add_part(
        &self,
        req: S3Request<UploadPartInput>,
    ) -> Outcome<UploadPartOutput> {
        let input = req.input;
        let (number, key, id) = (input.part_number, input.key, input.upload_id);
        check_number(number)?;
        let expected =
            Expected::new(self.etags, input.content_md5, &req.headers, trailing(&req.extensions));
        let held = req.extensions.get().cloned();
        let size = announced_size(input.content_length, &req.headers);
        let body = Incoming::new(input.body, expected, size, held)?;
        let bucket = self.bucket(&input.bucket)?;
        let begun = Begun::find(&bucket, &key, &id)?;
        let (hidden, received) = body.store(&self.metrics, &bucket).await?;
        let etag = begun.add(hidden, number, &received)?;
        let sums = received.summed.checksum;
        Ok(UploadPartOutput {
            e_tag: Some(strong(etag)),
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
            ..Default::default()
        })
    }

    /// Serves `UploadPartCopy`: stores a part of an upload from a range of another object.
    pub(crate) fn copy_part(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> Outcome<UploadPartCopyOutput> {
        let (from, from_key) = source(&req.extensions)?;
        let input = req.input;
        let condition = Condition {
            matches: input.copy_source_if_match,
            matches_not: input.copy_source_if_none_match,
            modified_since: input.copy_source_if_modified_since,
            unmodified_since: input.copy_source_if_unmodified_since,
        };
        let (number, key, id) = (input.part_number, input.key, input.upload_id);
        check_number(number)?;
        let (source, to) = (self.bucket(&from)?, self.bucket(&input.bucket)?);
        let begun = Begun::find(&to, &key, &id)?;
        let source = self.checked(&from, Source::open(&source, &from_key, &condition))?;
        let range = range_of(input.copy_source_range.as_deref(), source.found.size())?;
        let sums = Expected::without_claims(self.etags, &req.headers).sums();
        let (hidden, received) = source.copy(&to, range, sums)?;
        let etag = begun.add(hidden, number, &received)?;
        Ok(UploadPartCopyOutput {
            copy_part_result: Some(CopyPartResult {
                e_tag: Some(strong(etag)),
                last_modified: Some(timestamp(dfs::Time::now())),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// Serves `CompleteMultipartUpload`: makes the object out of the parts that the client names. A repeated request
    /// for a completed upload succeeds again.
    pub(crate) fn complete_upload(
        &self,
        input: CompleteMultipartUploadInput,
    ) -> Outcome<CompleteMultipartUploadOutput> {
        let condition = Condition {
            matches: input.if_match.clone(),
            matches_not: input.if_none_match.clone(),
            ..Condition::default()
        };
        let (place, claims) = (Place::new(&input.key)?, Claims::new(&input)?);
        let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let chosen: Vec<_> = parts.into_iter().map(chosen_part).collect();
        // A client that waited in vain for a reply repeats its request: that waits for the first one.
        let _lock = self.upload_locks.lock(&input.upload_id);
        let bucket = self.bucket(&input.bucket)?;
        // If the upload was completed with the same parts, the client only repeats its request.
        let repeated = |place: &Place, fault: Fault| {
            completed(&bucket, place, &input.upload_id, &chosen, &claims)?.ok_or(fault)
        };
        let begun = Begun::find(&bucket, &place.key, &input.upload_id);
        let begun = begun.and_then(|begun| Ok((begun.is_published()?, begun)));
        let (etag, sums) = match begun {
            // An earlier request made the object, but was killed before it removed the upload.
            Ok((true, begun)) => {
                let done = completed(&bucket, &place, &begun.id, &chosen, &claims)?;
                begun.abort()?;
                done.ok_or_else(|| no_upload_fault(&begun.id))?
            }
            Ok((false, begun)) => {
                let (about, tags) = (begun.upload.about.clone(), begun.upload.tags.clone());
                let put = Put { place, about, tags, condition, parts: None };
                begun.complete(&bucket, &put, &chosen, &claims).or_else(|fault| {
                    // Another request has completed or aborted the upload in the meantime.
                    let gone = Begun::find(&bucket, &put.place.key, &input.upload_id).err();
                    let done = repeated(&put.place, gone.unwrap_or(fault))?;
                    // A server of an earlier version has published it, and was killed, as above.
                    begun.abort()?;
                    Ok::<_, Fault>(done)
                })?
            }
            Err(fault) if fault.is_code("NoSuchUpload") => repeated(&place, fault)?,
            Err(fault) => return Err(fault),
        };
        Ok(CompleteMultipartUploadOutput {
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(strong(etag)),
            checksum_type: sums.kind(),
            checksum_crc32: sums.crc32,
            checksum_crc32c: sums.crc32c,
            checksum_crc64nvme: sums.crc64nvme,
            checksum_sha1: sums.sha1,
            checksum_sha256: sums.sha256,
            ..Default::default()
        })
    }

    /// Serves `AbortMultipartUpload`: removes an upload with its parts.
    pub(crate) fn abort_upload(
        &self,
        input: AbortMultipartUploadInput,
    ) -> Outcome<AbortMultipartUploadOutput> {
        Begun::find(&self.bucket(&input.bucket)?, &input.key, &input.upload_id)?.abort()?;
        Ok(AbortMultipartUploadOutput::default())
    }

    /// Serves `ListParts`.
    pub(crate) fn list_parts_of(&self, input: ListPartsInput) -> Outcome<ListPartsOutput> {
        let count = count_of(input.max_parts, LIST_KEYS_MAX)?;
        let after = input.part_number_marker.unwrap_or(0);
        let begun = Begun::find(&self.bucket(&input.bucket)?, &input.key, &input.upload_id)?;
        let mut parts = begun.parts_after(after, count.saturating_add(1))?;
        // An empty page has no marker with which a client could continue.
        let is_truncated = count > 0 && parts.len() > count;
        parts.truncate(count);
        let next = parts.last().filter(|_| is_truncated).map(|part| part.number);
        let shown = parts.into_iter().map(|part| Part {
            part_number: Some(part.number),
            size: Some(part.size as i64),
            e_tag: Some(strong(part.etag)),
            last_modified: Some(timestamp(part.mtime)),
            checksum_crc32: part.checksum.crc32,
            checksum_crc32c: part.checksum.crc32c,
            checksum_crc64nvme: part.checksum.crc64nvme,
            checksum_sha1: part.checksum.sha1,
            checksum_sha256: part.checksum.sha256,
        });
        Ok(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            max_parts: Some(count as i32),
            part_number_marker: Some(after),
            next_part_number_marker: next,
            is_truncated: Some(is_truncated),
            parts: Some(shown.collect()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..Default::default()
        })
    }

    /// Serves `ListMultipartUploads`.
    pub(crate) fn list_uploads(
        &self,
        input: ListMultipartUploadsInput,
    ) -> Outcome<ListMultipartUploadsOutput> {
        let encoding = Encoding::new(input.encoding_type.as_ref())?;
        let count = count_of(input.max_uploads, LIST_KEYS_MAX)?;
        let mut uploads = Listed::all(&self.bucket(&input.bucket)?)?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let after = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone());
        uploads.retain(|upload| upload.key.starts_with(&prefix) && is_after(upload, &after));
        let page = UploadPage::new(&uploads, &prefix, input.delimiter.as_deref(), count);
        let next = page.last.filter(|_| page.is_truncated);
        Ok(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            prefix: input.prefix.map(|prefix| encoding.encode(&prefix)),
            delimiter: input.delimiter.map(|delimiter| encoding.encode(&delimiter)),
            encoding_type: input.encoding_type,
            key_marker: Some(encoding.encode(&after.0)),
            upload_id_marker: after.1,
            max_uploads: Some(count as i32),
            is_truncated: Some(page.is_truncated),
            next_key_marker: next.map(|last| encoding.encode(&last.key)),
            next_upload_id_marker: next.map(|last| last.id.clone()),
            uploads: Some(page.shown.iter().map(|listed| upload(listed, encoding)).collect()),
            common_prefixes: Some(
                page.prefixes
                    .iter()
                    .map(|prefix| CommonPrefix { prefix: Some(encoding.encode(prefix)) })
                    .collect(),
            ),
            ..Default::default()
        })
    }
}

/// A part that the client names to complete an upload.
fn chosen_part(part: CompletedPart) -> Chosen {
    Chosen {
        number: part.part_number.unwrap_or_default(),
        etag: part.e_tag.map(ETag::into_value),
        checksum: Stored {
            crc32: part.checksum_crc32,
            crc32c: part.checksum_crc32c,
            crc64nvme: part.checksum_crc64nvme,
            sha1: part.checksum_sha1,
            sha256: part.checksum_sha256,
        },
    }
}

/// A page of `ListMultipartUploads`.
#[derive(Default)]
struct UploadPage<'u> {
    shown: Vec<&'u Listed>,
    prefixes: BTreeSet<&'u str>,
    /// The last upload on the page or under its last common prefix: the next page starts after it.
    last: Option<&'u Listed>,
    is_truncated: bool,
}

impl<'u> UploadPage<'u> {
    /// The page with the first `count` lines of `uploads`, which are sorted by key and then by ID.
    fn new(uploads: &'u [Listed], prefix: &str, delimiter: Option<&str>, count: usize) -> Self {
        let mut page = Self::default();
        for listed in uploads {
            let common = common_prefix(&listed.key, prefix, delimiter);
            let is_shown = common.is_some_and(|common| page.prefixes.contains(common));
            if !is_shown && page.shown.len() + page.prefixes.len() == count {
                // An empty page has no marker with which a client could continue.
                page.is_truncated = page.last.is_some();
                break;
            }
            page.last = Some(listed);
            match common {
                Some(common) => drop(page.prefixes.insert(common)),
                None => page.shown.push(listed),
            }
        }
        page
    }
}

/// True if an upload sorts after the markers of a request: key and ID. Without an ID, all uploads of the key are
/// before.
fn is_after(listed: &Listed, (key, id): &(String, Option<String>)) -> bool {
    match listed.key.cmp(key) {
        std::cmp::Ordering::Equal => id.as_ref().is_some_and(|id| listed.id > *id),
        order => order.is_gt(),
    }
}

/// The common prefix that stands for a key in a listing: the key up to the first delimiter behind `prefix`. `None` if
/// the key is listed itself.
fn common_prefix<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
    let at = key.get(prefix.len()..)?.find(delimiter)?;
    key.get(..prefix.len() + at + delimiter.len())
}

/// The line of a listing for an upload.
fn upload(listed: &Listed, encoding: Encoding) -> MultipartUpload {
    MultipartUpload {
        key: Some(encoding.encode(&listed.key)),
        upload_id: Some(listed.id.clone()),
        initiated: Some(timestamp(listed.since)),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Bucket, Hidden};
    use crate::find::find;
    use crate::list::tests::bucket;
    use crate::put::tests::{new_put, put_content};
    use crate::record::{About, Record};
    use crate::remove::remove;
    use crate::uploads::etag_of;
    use crate::uploads::tests::{begin, begin_and_publish};

    #[test]
    fn range_of_a_source_has_both_ends_within_it() {
        assert_eq!(range_of(None, 7).ok(), Some(0..7));
        assert_eq!(range_of(Some("bytes=2-6"), 7).ok(), Some(2..7));
        for wrong in ["bytes=2-7", "bytes=2-", "bytes=-3", "2-3", ""] {
            assert!(range_of(Some(wrong), 7).is_err(), "{wrong}");
        }
    }

    #[test]
    fn common_prefix_ends_at_the_next_delimiter() {
        assert_eq!(common_prefix("a/b/c", "a/", Some("/")), Some("a/b/"));
        assert_eq!(common_prefix("a/b", "a/", Some("/")), None);
        assert_eq!(common_prefix("a/b", "a/", None), None);
    }

    /// The lines of all pages, each of at most `count` lines.
    fn pages(bucket: &Bucket, delimiter: Option<&str>, count: usize) -> Vec<String> {
        let (mut lines, mut after) = (Vec::new(), (String::new(), None));
        loop {
            let mut uploads = Listed::all(bucket).unwrap_or_else(|_| panic!("the uploads"));
            uploads.retain(|listed| is_after(listed, &after));
            let page = UploadPage::new(&uploads, "", delimiter, count);
            lines.extend(page.prefixes.iter().map(|&prefix| prefix.to_owned()));
            lines.extend(page.shown.iter().map(|listed| listed.key.clone()));
            match page.last.filter(|_| page.is_truncated) {
                Some(last) => after = (last.key.clone(), Some(last.id.clone())),
                None => return lines,
            }
        }
    }

    /// A completion that was killed between the publication of the object and the removal of the last part.
    #[test]
    fn completion_is_repeated_although_parts_are_left() {
        let name = "s3-uploads-repeated";
        let (bucket, pool) = (bucket(name, &[]), format!("memory:{name}"));
        let pool = esker::Pool::connect(&pool, esker::types::info::OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool, Default::default(), Default::default());
        let id = begin(&bucket, "k").id;
        let part = "0cc175b9c0f1b6a831c399e269772661";
        let etag = etag_of(&[part]);
        let mut record = Record::new(About::default(), etag.clone(), 0, Stored::default());
        record.upload = Some(id.clone());
        new_put("k").publish(&bucket, &mut Hidden::small_file(Vec::new()), &record).unwrap();
        let part = CompletedPart {
            part_number: Some(1),
            e_tag: Some(strong(part.to_owned())),
            ..Default::default()
        };
        let input = CompleteMultipartUploadInput {
            bucket: "b".to_owned(),
            key: "k".to_owned(),
            upload_id: id.clone(),
            if_none_match: Some(ETagCondition::Any),
            multipart_upload: Some(CompletedMultipartUpload { parts: Some(vec![part]) }),
            ..Default::default()
        };
        for _ in 0..2 {
            let done = service.complete_upload(input.clone()).unwrap();
            assert_eq!(done.e_tag, Some(strong(etag.clone())));
            assert!(Begun::find(&bucket, "k", &id).is_err());
        }
    }

    /// Other clients have replaced or removed the object meanwhile.
    #[test]
    fn repeated_completion_does_not_restore_the_object() {
        let name = "s3-uploads-restored";
        let (bucket, pool) = (bucket(name, &[]), format!("memory:{name}"));
        let pool = esker::Pool::connect(&pool, esker::types::info::OpenMode::ReadWrite).unwrap();
        let service = Service::new(pool, Default::default(), Default::default());
        let complete = |key: &str, id: &str| {
            let part = CompletedPart { part_number: Some(1), ..Default::default() };
            service.complete_upload(CompleteMultipartUploadInput {
                bucket: "b".to_owned(),
                key: key.to_owned(),
                upload_id: id.to_owned(),
                multipart_upload: Some(CompletedMultipartUpload { parts: Some(vec![part]) }),
                ..Default::default()
            })
        };
        for key in ["same", "replaced", "removed"] {
            let id = begin_and_publish(&bucket, key);
            match key {
                "replaced" => put_content(&bucket, key, b"newer"),
                "removed" => remove(&bucket, key, &Condition::default()).unwrap(),
                _ => {}
            }
            let done = complete(key, &id);
            let missing = done.as_ref().is_err_and(|fault| fault.is_code("NoSuchUpload"));
            assert_eq!((done.is_ok(), missing), (key == "same", key != "same"), "{key}");
            assert!(Begun::find(&bucket, key, &id).is_err());
        }
        let sizes = ["same", "replaced", "removed"].map(|key| find(&bucket, key).ok());
        assert_eq!(sizes.map(|found| found.map(|found| found.size())), [Some(7), Some(5), None]);
    }

    /// Clients that continue a truncated page without a marker would ask for the same page again.
    #[test]
    fn page_without_lines_is_not_truncated() {
        let bucket = bucket("s3-uploads-no-lines", &[]);
        begin(&bucket, "k");
        let uploads = Listed::all(&bucket).unwrap();
        assert!(!UploadPage::new(&uploads, "", None, 0).is_truncated);
        assert!(!UploadPage::new(&uploads, "", None, 1).is_truncated);
    }

    #[test]
    fn common_prefix_of_uploads_is_on_one_page() {
        let bucket = bucket("s3-uploads-pages", &[]);
        for key in ["a/1", "a/2", "a/2", "b", "b", "c/1", "c/2"] {
            begin(&bucket, key);
        }
        for count in 1..8 {
            let mut lines = pages(&bucket, Some("/"), count);
            lines.sort();
            assert_eq!(lines, ["a/", "b", "b", "c/"], "{count}");
            assert_eq!(pages(&bucket, None, count).len(), 7);
        }
    }
}
