//! Multipart uploads: parts are files of a hidden directory until they become one object.
use crate::body::Received;
use crate::bucket::{Bucket, Hidden, Target, drawn_name};
use crate::completion::{Claims, RequestedChecksum};
use crate::copy::copy_range;
use crate::fault::{Fault, Outcome};
use crate::find::find;
use crate::limits::{PART_BYTES_MIN, PARTS_MAX};
use crate::parts::Parts;
use crate::place::Place;
use crate::put::Put;
use crate::record::{About, RECORD, Record, Stored, Tags, pair};
use crate::sums::{KNOWN, Sums, byte_of_hex, hex};
use dfs::limits::LIST_BATCH;
use dfs::{Existing, File, Inode, Kind, Node, Open, RenameMode, Time, XattrMode};
use esker::types::ops::Anchor;
use esker::types::{Error, ErrorKind, ObjectId};
use s3s::S3ErrorCode;
use s3s::crypto::{Checksum as _, Md5};
use serde::{Deserialize, Serialize};

/// The extended attribute of an upload's directory with its [`Upload`]: JSON.
const UPLOAD: &str = "user.esker.s3.upload";
/// Prefix of the names of files with the joined parts, in the upload's directory. It sorts them after the parts.
const JOINED: &str = "joined-";
/// Prefix of extended attributes of an upload's directory. The rest is the name of a file with the joined parts; the value
/// has no meaning. Such an attribute is stored before the file is published. If the file is missing, it was published.
const PUBLISHING: &str = "user.esker.s3.publishing.";
/// Digits of the name of a part's file, which is its number.
const DIGITS: usize = 5;

/// The object that an upload will create: its key and its metadata.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Upload {
    pub(crate) key: String,
    pub(crate) about: About,
    pub(crate) tags: Tags,
    #[serde(default, rename = "wished")]
    pub(crate) requested: Option<RequestedChecksum>,
    /// Time at which it began: seconds and nanoseconds. `None` until it has begun; earlier versions did not store it.
    #[serde(default)]
    pub(crate) since: Option<(i64, u32)>,
}

/// An upload that has begun, with the directory of its parts.
pub(crate) struct Begun {
    pub(crate) id: String,
    pub(crate) upload: Upload,
    dir: Node,
}

/// An upload in a listing.
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) since: Time,
}

/// A part that was uploaded.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) number: i32,
    pub(crate) size: u64,
    pub(crate) etag: String,
    pub(crate) mtime: Time,
    pub(crate) checksum: Stored,
    name: Vec<u8>,
    /// The object of its file. A later part with the same number has another one.
    oid: ObjectId,
}

#[cfg(test)]
impl Part {
    pub(crate) fn for_test(number: i32, size: u64, checksum: Stored) -> Self {
        let (etag, mtime, name, oid) = Default::default();
        Self { number, size, etag, mtime, checksum, name, oid }
    }
}

/// A part that the client chooses to complete an upload with, and its claims about that part.
pub(crate) struct Chosen {
    pub(crate) number: i32,
    pub(crate) etag: Option<String>,
    pub(crate) checksum: Stored,
}

impl Chosen {
    /// True if the ETag and the checksums that the client gives for a part equal those of the stored part. Values that
    /// the client leaves out are not compared.
    fn matches(&self, part: &Part) -> bool {
        self.etag.as_ref().is_none_or(|etag| *etag == part.etag) && self.has(&part.checksum)
    }

    /// True if the checksums that the client gives for a part equal the stored ones.
    pub(crate) fn has(&self, stored: &Stored) -> bool {
        KNOWN
            .iter()
            .all(|name| self.checksum.get(name).is_none_or(|sum| stored.get(name) == Some(sum)))
    }
}

impl Upload {
    /// Begins an upload: publishes a directory for its parts. Returns its ID.
    pub(crate) fn begin(&self, bucket: &Bucket) -> Outcome<String> {
        let (id, uploads) = (drawn_name()?, bucket.uploads()?);
        let xattrs = |inode: &Inode| {
            let upload = Self { since: Some(pair(inode.mtime)), ..self.clone() };
            vec![(UPLOAD.into(), serde_json::to_vec(&upload).unwrap_or_default())]
        };
        let any = |_: Option<Existing<'_>>| Ok(());
        let target = Target {
            dir: &uploads,
            name: id.as_bytes(),
            mode: RenameMode::NoReplace,
            xattrs: &xattrs,
            check: &any,
        };
        Hidden::directory(bucket)?.publish(&target)?;
        Ok(id)
    }

    /// Decodes the value of [`UPLOAD`]; `None` if it is missing or invalid.
    fn read(value: Option<&[u8]>) -> Option<Self> {
        serde_json::from_slice(value?).ok()
    }
}

impl Listed {
    /// All uploads, by key and then by ID.
    pub(crate) fn all(bucket: &Bucket) -> Outcome<Vec<Self>> {
        let Some(uploads) = bucket.uploads_if_any()? else { return Ok(Vec::new()) };
        let (mut all, mut anchor) = (Vec::new(), Anchor::Start);
        while !anchor.is_end() {
            let names = uploads.read_names(&mut anchor, LIST_BATCH)?;
            let names: Vec<_> = names.iter().collect();
            let found = uploads.entries_with_xattr(&names, UPLOAD.as_bytes())?;
            let found = std::iter::zip(names, found);
            all.extend(found.filter_map(|(name, found)| Self::read(name, found?)));
        }
        all.sort_by(|one, other| (&one.key, &one.id).cmp(&(&other.key, &other.id)));
        Ok(all)
    }

    /// Reads an upload; `None` if its attribute is missing or invalid.
    fn read(name: &[u8], (inode, value): (Inode, Option<Vec<u8>>)) -> Option<Self> {
        let Upload { key, since, .. } = Upload::read(value.as_deref())?;
        // Each part changes the time of the directory.
        let since = since.map_or(inode.mtime, |(seconds, nanos)| Time { seconds, nanos });
        Some(Self { id: String::from_utf8_lossy(name).into_owned(), key, since })
    }
}

impl Begun {
    /// The upload with this id, if it is one to this key.
    ///
    /// # Errors
    /// `NoSuchUpload`.
    pub(crate) fn find(bucket: &Bucket, key: &str, id: &str) -> Outcome<Self> {
        let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let uploads = if is_id { bucket.uploads_if_any()? } else { None };
        let uploads = uploads.ok_or_else(|| no_upload_fault(id))?;
        let (dir, text) = match uploads.lookup_with_xattr(id.as_bytes(), UPLOAD.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_upload_fault(id)),
            found => found?,
        };
        let upload = Upload::read(text.as_deref()).filter(|upload| upload.key == key);
        let upload = upload.ok_or_else(|| no_upload_fault(id))?;
        Ok(Self { id: id.to_owned(), upload, dir })
    }

    /// Publishes a received body as a part, which replaces an earlier part with the same number. Returns its ETag.
    pub(crate) fn add(
        &self,
        mut hidden: Hidden,
        number: i32,
        received: &Received,
    ) -> Outcome<String> {
        check_number(number)?;
        let etag = received.summed.etag();
        let checksum = received.summed.checksum.clone();
        let record = Record::new(About::default(), etag.clone(), received.size, checksum);
        let xattrs = |inode: &Inode| vec![(RECORD.into(), record.written(inode))];
        let name = part_name(number);
        let target = Target {
            dir: &self.dir,
            name: name.as_bytes(),
            mode: RenameMode::Replace,
            xattrs: &xattrs,
            check: &|_| Ok(()),
        };
        hidden.publish(&target).map_err(|error| self.upload_fault(error))?;
        Ok(etag)
    }

    /// `NoSuchUpload` for an error that a file or the directory of the upload is missing; other errors stay.
    fn upload_fault(&self, error: Error) -> Fault {
        match error.kind() {
            ErrorKind::NotFound => no_upload_fault(&self.id),
            _ => error.into(),
        }
    }

    /// All parts, by number.
    fn parts(&self) -> Outcome<Vec<Part>> {
        let (mut parts, mut anchor) = (Vec::new(), Anchor::Start);
        while !anchor.is_end() {
            let names = self.dir.read_names(&mut anchor, LIST_BATCH)?;
            parts.extend(self.named_parts(&names.iter().collect::<Vec<_>>())?);
        }
        parts.sort_by_key(|part: &Part| part.number);
        Ok(parts)
    }

    /// The first `most` parts with numbers above `after`, by number. Reads only these.
    pub(crate) fn parts_after(&self, after: i32, most: usize) -> Outcome<Vec<Part>> {
        let after = part_name(after.clamp(0, PARTS_MAX));
        let names = self.dir.names_after(after.as_bytes(), most)?;
        let names: Vec<_> = names.iter().map(Vec::as_slice).collect();
        let parts = names.chunks(LIST_BATCH).map(|names| self.named_parts(names));
        Ok(parts.collect::<Outcome<Vec<_>>>()?.concat())
    }

    /// The parts in the files of these names. Other files are left out.
    fn named_parts(&self, names: &[&[u8]]) -> Outcome<Vec<Part>> {
        let found = self.dir.entries_with_xattr(names, RECORD.as_bytes())?;
        let found = std::iter::zip(names, found).filter_map(|(name, found)| Some((name, found?)));
        let parts = found
            .map(|(name, (inode, record))| self.part(name, &inode, record.as_deref()).transpose());
        parts.flatten().collect()
    }

    /// The part in a file of the upload's directory; `None` for any other file.
    fn part(&self, name: &[u8], inode: &Inode, record: Option<&[u8]>) -> Outcome<Option<Part>> {
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
        let (Some(number), Kind::File) = (number, inode.kind) else { return Ok(None) };
        let (record, attr) = (Record::read(record), self.dir.fs().attr_of(inode)?);
        let (etag, checksum) = (record.etag(&attr), record.checksum(&attr));
        Ok(Some(Part {
            number,
            size: attr.size,
            etag,
            mtime: attr.mtime,
            checksum,
            name: name.into(),
            oid: inode.oid,
        }))
    }

    /// Completes the upload: makes one object of the `chosen` parts, if they fulfil the client's `claims`. Removes the
    /// upload, and returns the object's ETag and checksums.
    pub(crate) fn complete(
        &self,
        bucket: &Bucket,
        put: &Put,
        chosen: &[Chosen],
        claims: &Claims,
    ) -> Outcome<(String, Stored)> {
        let (parts, requested) = (self.chosen(chosen)?, self.upload.requested.as_ref());
        let etag = etag_of(&parts.iter().map(|part| &*part.etag).collect::<Vec<_>>());
        let size = parts.iter().map(|part| part.size).sum();
        claims.check_size(size)?;
        let mut sums = claims.sums(requested);
        let mut hidden = self.joined(&parts, &mut sums)?;
        let checksum = claims.check(&parts, &sums.finish().checksum, requested)?;
        let about = self.upload.about.clone();
        let mut record = Record::new(about, etag.clone(), size, checksum.clone());
        record.upload = Some(self.id.clone());
        let put = Put { parts: Some(Parts::new(&parts)), ..put.clone() };
        self.publish(bucket, &put, &mut hidden, &record)?;
        self.abort()?;
        Ok((etag, checksum))
    }

    /// Publishes the joined file, which an attribute of the upload names before. So a repeated completion detects that
    /// the file was published, even if the server was killed right after that.
    fn publish(
        &self,
        bucket: &Bucket,
        put: &Put,
        hidden: &mut Hidden,
        record: &Record,
    ) -> Outcome<()> {
        let name = hidden.name().to_owned();
        let attribute = format!("{PUBLISHING}{name}");
        let set = self.dir.set_xattr(attribute.as_bytes(), b"1", XattrMode::Any);
        set.map_err(|error| self.upload_fault(error))?;
        let published = put.publish(bucket, hidden, record);
        if published.is_err() && self.withdraw(&name, &attribute).is_err() {
            // If the file were removed now, it would count as published.
            hidden.keep();
        }
        published.map(drop)
    }

    /// Removes the attribute of a joined file that was not published. The attribute stays if the file is missing: it was
    /// published, although the store reported an error, or the upload was removed.
    fn withdraw(&self, name: &str, attribute: &str) -> Result<(), Error> {
        match self.dir.lookup(name.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            found => found.and_then(|_| self.dir.remove_xattr(attribute.as_bytes())),
        }
    }

    /// True if an earlier completion has published the object, but was killed before it removed the upload.
    pub(crate) fn is_published(&self) -> Outcome<bool> {
        let attributes = self.dir.list_xattrs().map_err(|error| self.upload_fault(error))?;
        for attribute in attributes {
            let Some(name) = attribute.strip_prefix(PUBLISHING.as_bytes()) else { continue };
            let found = self.dir.entries_with_xattr(&[name], RECORD.as_bytes())?;
            // A completion that fails removes the attribute first, and then the file.
            if found.iter().all(Option::is_none) && self.has_xattr(&attribute)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the upload's directory has this extended attribute.
    fn has_xattr(&self, name: &[u8]) -> Outcome<bool> {
        match self.dir.get_xattr(name) {
            Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(false),
            found => found.map(|_| true).map_err(|error| self.upload_fault(error)),
        }
    }

    /// The stored parts that the client has chosen. They must be in order and exist, match the ETags and checksums that
    /// it states, and be large enough.
    fn chosen(&self, chosen: &[Chosen]) -> Outcome<Vec<Part>> {
        let there = self.parts()?;
        if chosen.is_empty() {
            return Err(Fault::new(
                S3ErrorCode::MalformedXML,
                "an upload is completed with at least one part",
            ));
        }
        if !chosen.is_sorted_by(|one, next| one.number < next.number) {
            return Err(Fault::new(
                S3ErrorCode::InvalidPartOrder,
                "parts are named by increasing number",
            ));
        }
        let find = |wanted: &Chosen| {
            let at = there.binary_search_by_key(&wanted.number, |part| part.number);
            let part = at.ok().and_then(|at| there.get(at));
            part.filter(|part| wanted.matches(part))
                .cloned()
                .ok_or_else(|| no_part_fault(wanted.number))
        };
        let parts: Vec<Part> = chosen.iter().map(find).collect::<Outcome<_>>()?;
        match parts.iter().rev().skip(1).find(|part| part.size < PART_BYTES_MIN) {
            None => Ok(parts),
            Some(Part { number, size, .. }) => {
                let why = format!(
                    "part {number} has {size} bytes: all but the last have at least {PART_BYTES_MIN} (PART_BYTES_MIN)"
                );
                Err(Fault::new(S3ErrorCode::EntityTooSmall, why))
            }
        }
    }

    /// A file with the contents of the parts, one after the other. Adds them to `sums`. It is in the upload's directory:
    /// the request that completes or aborts the upload also removes this file, so that it cannot be published later.
    ///
    /// # Errors
    /// `InvalidPart` if a part was replaced or removed since the client's choice was checked; `NoSuchUpload`.
    fn joined(&self, parts: &[Part], sums: &mut Sums) -> Outcome<Hidden> {
        let created = Hidden::file_in(self.dir.clone(), format!("{JOINED}{}", drawn_name()?));
        let (hidden, file) = created.map_err(|error| self.upload_fault(error))?;
        let mut at = 0;
        for part in parts {
            let from = self.open(part)?;
            copy_range(&from, 0..part.size, &file, at, |piece| sums.update(piece))?;
            at += part.size;
        }
        file.close()?;
        Ok(hidden)
    }

    /// Opens the file of a part.
    ///
    /// # Errors
    /// `InvalidPart` if the part was replaced or removed since it was listed; errors of the store.
    fn open(&self, part: &Part) -> Outcome<File> {
        let found = self.dir.lookup(&part.name).and_then(|node| match node.oid() == part.oid {
            true => node.open(Open::READ).map(Some),
            false => Ok(None),
        });
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(no_part_fault(part.number)),
            found => found?.ok_or_else(|| no_part_fault(part.number)),
        }
    }

    /// Removes the directory of the upload with all parts. It is not an error if another request has removed it.
    pub(crate) fn abort(&self) -> Outcome<()> {
        let Some(uploads) = self.dir.parent() else { return Ok(()) };
        match uploads.remove_tree(self.id.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => Ok(removed.map(drop)?),
        }
    }
}

/// ETag and checksums of the object that this upload has become, if the client repeats a completion whose reply was
/// lost. `None` if the object is not of this upload, or not of the chosen parts.
pub(crate) fn completed(
    bucket: &Bucket,
    place: &Place,
    id: &str,
    chosen: &[Chosen],
    claims: &Claims,
) -> Outcome<Option<(String, Stored)>> {
    let found = match find(bucket, &place.key) {
        Err(fault) if fault.is_code("NoSuchKey") => return Ok(None),
        found => found?,
    };
    if found.record.upload.as_deref() != Some(id) {
        return Ok(None);
    }
    let etags: Option<Vec<_>> = chosen.iter().map(|part| part.etag.as_deref()).collect();
    if etags.is_some_and(|etags| etag_of(&etags) != found.etag()) {
        return Ok(None);
    }
    let parts = Parts::read(&found)?;
    if parts.is_some_and(|parts| !parts.are_chosen_by(chosen)) {
        return Ok(None);
    }
    claims.check_size(found.size())?;
    let checksum = found.record.checksum(&found.attr);
    claims.check_repeated(&checksum)?;
    Ok(Some((found.etag(), checksum)))
}

/// The ETag of a multipart object, as in S3: the MD5 of the MD5 sums of its parts, and the number of parts.
pub(crate) fn etag_of(etags: &[&str]) -> String {
    let mut md5 = Md5::new();
    for etag in etags {
        let sum = etag.split('-').next().unwrap_or_default();
        let bytes: Vec<u8> = sum.as_bytes().chunks(2).filter_map(byte_of_hex).collect();
        md5.update(&bytes);
    }
    format!("{}-{}", hex(&md5.finalize()), etags.len())
}

/// The name of the file of a part. The names sort as the numbers.
fn part_name(number: i32) -> String {
    format!("{number:0DIGITS$}")
}

/// Refuses numbers that no part can have.
pub(crate) fn check_number(number: i32) -> Outcome<()> {
    match (1..=PARTS_MAX).contains(&number) {
        true => Ok(()),
        false => {
            let why = format!("part number {number}: it must be 1 to {PARTS_MAX} (PARTS_MAX)");
            Err(Fault::new(S3ErrorCode::InvalidArgument, why))
        }
    }
}

/// The error for a part that was not uploaded, or differs from the client's claims.
#[cold]
fn no_part_fault(number: i32) -> Fault {
    Fault::new(
        S3ErrorCode::InvalidPart,
        format!("part {number} was not uploaded, or has another ETag or checksum"),
    )
}

/// The error for an upload that does not exist any more.
#[cold]
pub(crate) fn no_upload_fault(id: &str) -> Fault {
    Fault::new(
        S3ErrorCode::NoSuchUpload,
        format!("upload {id:?} does not exist: it was completed or aborted"),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bucket::tests::counted_buckets;
    use crate::condition::Condition;
    use crate::list::tests::bucket;
    use crate::put::tests::{new_put, put_content};
    use crate::sums::Expected;
    use bytes::Bytes;
    use dfs::SetAttr;
    use esker::types::info::OpenMode;
    use esker::{Pool, Wait};
    use s3s::dto::ETagCondition;

    /// Begins an upload without metadata.
    pub(crate) fn begin(bucket: &Bucket, key: &str) -> Begun {
        let (about, tags, requested) = Default::default();
        let upload = Upload { key: key.to_owned(), about, tags, requested, since: None };
        let id = upload.begin(bucket).unwrap();
        Begun::find(bucket, key, &id).unwrap()
    }

    /// Adds a part with this content. Returns its ETag.
    fn add(begun: &Begun, number: i32, content: &'static [u8]) -> String {
        let mut sums = Expected::default().sums();
        sums.update(content);
        let received = Received { size: content.len() as u64, summed: sums.finish() };
        let hidden = Hidden::small_file(vec![Bytes::from_static(content)]);
        begun.add(hidden, number, &received).unwrap()
    }

    #[test]
    fn upload_keeps_the_time_at_which_it_began() {
        let bucket = bucket("s3-uploads-since", &[]);
        let (begun, since) = (begin(&bucket, "k"), || Listed::all(&bucket).unwrap()[0].since);
        let first = since();
        // A part that is added does so, some time later.
        let mtime = Some(Time { seconds: first.seconds + 60, nanos: 0 });
        begun.dir.set_attr(&SetAttr { mtime, ..SetAttr::default() }).unwrap();
        let later = Begun::find(&bucket, "k", &begun.id).unwrap();
        assert_eq!(Some(later.dir.inode().mtime), mtime);
        assert_eq!(since(), first);
    }

    #[test]
    fn pages_of_parts_and_uploads_take_few_calls() {
        let (buckets, calls) = counted_buckets();
        let bucket = buckets.files("b").unwrap();
        let begun = begin(&bucket, "k");
        (1..=3).for_each(|number| drop(add(&begun, number, b"content")));
        let page = || begun.parts_after(0, 3).unwrap();
        let (of_few_parts, of_one_upload) =
            (calls.calls_of(page), calls.calls_of(|| Listed::all(&bucket).unwrap()));
        (4..=12).for_each(|number| drop(add(&begun, number, b"content")));
        (0..20).for_each(|_| drop(begin(&bucket, "k")));
        let _joined = joined(&begun);
        let numbers =
            |after| begun.parts_after(after, 3).unwrap().into_iter().map(|part| part.number);
        assert_eq!(numbers(-1).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(numbers(9).collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!(numbers(11).collect::<Vec<_>>(), [12]);
        assert_eq!(numbers(i32::MAX).count(), 0);
        assert_eq!(Listed::all(&bucket).unwrap().len(), 21);
        assert!(calls.calls_of(page) <= of_few_parts + 1);
        assert!(calls.calls_of(|| Listed::all(&bucket).unwrap()) <= of_one_upload + 1);
    }

    #[test]
    fn part_that_was_replaced_after_the_choice_is_refused() {
        let bucket = bucket("s3-uploads-replaced", &[]);
        let begun = begin(&bucket, "k");
        let etag = Some(add(&begun, 1, b"chosen"));
        let chosen = [Chosen { number: 1, etag, checksum: Stored::default() }];
        let parts = begun.chosen(&chosen).unwrap();
        let mut sums = Claims::default().sums(None);
        assert!(begun.joined(&parts, &mut sums).is_ok());
        add(&begun, 1, b"others");
        let joined = begun.joined(&parts, &mut sums);
        assert!(joined.is_err_and(|fault| fault.is_code("InvalidPart")));
    }

    /// The first part of an upload, as a client chooses it.
    fn first_part() -> Chosen {
        Chosen { number: 1, etag: None, checksum: Stored::default() }
    }

    /// The joined content of the first part of an upload, and its record.
    fn joined(begun: &Begun) -> (Hidden, Record) {
        let chosen = [first_part()];
        let parts = begun.chosen(&chosen).unwrap();
        let hidden = begun.joined(&parts, &mut Claims::default().sums(None)).unwrap();
        let (etag, size) = (etag_of(&[&parts[0].etag]), parts[0].size);
        let mut record = Record::new(About::default(), etag, size, Stored::default());
        record.upload = Some(begun.id.clone());
        (hidden, record)
    }

    /// Publishes joined parts after a newer object. Fails unless that is refused, and the newer object stays.
    fn expect_late_publication_is_refused(bucket: &Bucket, (mut hidden, record): (Hidden, Record)) {
        put_content(bucket, "k", b"newer");
        let late = new_put("k").publish(bucket, &mut hidden, &record);
        assert!(late.is_err_and(|fault| fault.is_code("NoSuchUpload")));
        assert_eq!(find(bucket, "k").unwrap().size(), 5);
    }

    /// An upload of one part whose completion was killed after it had published the object. Returns its ID.
    pub(crate) fn begin_and_publish(bucket: &Bucket, key: &str) -> String {
        let begun = begin(bucket, key);
        add(&begun, 1, b"content");
        let (mut hidden, record) = joined(&begun);
        begun.publish(bucket, &new_put(key), &mut hidden, &record).unwrap();
        assert!(begun.is_published().unwrap());
        begun.id
    }

    #[test]
    fn refused_publication_does_not_count_as_published() {
        let bucket = bucket("s3-uploads-refused", &[]);
        let begun = begin(&bucket, "k");
        add(&begun, 1, b"content");
        put_content(&bucket, "k", b"other");
        let matches_not = Some(ETagCondition::Any);
        let condition = Condition { matches_not, ..Condition::default() };
        let (put, chosen) = (Put { condition, ..new_put("k") }, [first_part()]);
        let refused = begun.complete(&bucket, &put, &chosen, &Claims::default());
        assert!(refused.is_err_and(|fault| fault.is_code("PreconditionFailed")));
        assert!(!begun.is_published().unwrap());
        begun.complete(&bucket, &new_put("k"), &chosen, &Claims::default()).unwrap();
        assert_eq!(find(&bucket, "k").unwrap().size(), 7);
    }

    #[test]
    fn aborted_upload_does_not_become_an_object() {
        let bucket = bucket("s3-uploads-aborted", &[]);
        let begun = begin(&bucket, "k");
        add(&begun, 1, b"content");
        let late = joined(&begun);
        begun.abort().unwrap();
        expect_late_publication_is_refused(&bucket, late);
    }

    /// Clients abort an upload if a part is invalid, and try again if the store fails.
    #[test]
    fn error_of_the_store_is_not_one_of_the_upload() {
        let name = "s3-uploads-store";
        let bucket = bucket(name, &[]);
        let begun = begin(&bucket, "k");
        add(&begun, 1, b"content");
        let chosen = [first_part()];
        let parts = begun.chosen(&chosen).unwrap();
        let pool = Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).unwrap();
        pool.destroy_container("b", true).wait().unwrap();
        assert!(begun.open(&parts[0]).is_err_and(|fault| fault.is_closed()));
        let place = Place::parse("k").unwrap();
        let repeated = completed(&bucket, &place, &begun.id, &chosen, &Claims::default());
        assert!(repeated.is_err_and(|fault| fault.is_closed()));
    }

    /// Two servers complete an upload at the same time.
    #[test]
    fn second_completion_does_not_overwrite_a_newer_object() {
        let bucket = bucket("s3-uploads-twice", &[]);
        let begun = begin(&bucket, "k");
        add(&begun, 1, b"content");
        let late = joined(&begun);
        let chosen = [first_part()];
        begun.complete(&bucket, &new_put("k"), &chosen, &Claims::default()).unwrap();
        assert_eq!(find(&bucket, "k").unwrap().size(), 7);
        expect_late_publication_is_refused(&bucket, late);
    }
}
