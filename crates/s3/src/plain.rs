//! Buckets over containers without files: their objects, which S3 reads.
//!
//! The key of an Array is its object ID, its content the cells one after the other. The key of a value of a Key-Value
//! is the ID, a slash and its own key; keys that are integers are written in decimal. Other objects have no key,
//! because their content is not one string of bytes. A name that is not UTF-8 has none either, because no request can
//! contain it.
use crate::fault::{Fault, Outcome};
use crate::find::{Head, no_such};
use crate::ids::Ids;
use crate::limits::LIST_WINDOW;
use crate::page::{Lines, Listed, Page, Shown, Wanted};
use crate::place::is_text;
use crate::read::Content;
use bytes::Bytes;
use dfs::Time;
use esker::types::ops::{Anchor, ListLimit, Sink};
use esker::types::{Epoch, ErrorKind, Extent, ObjectId, ObjectType, Result};
use esker::{Access, Array, Container, Kv, Wait, is_name_catalog};
use s3s::S3ErrorCode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A container without files. Clones share it.
#[derive(Clone)]
pub(crate) struct Plain(Arc<Container>);

/// The stored object that a key names.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    Array(ObjectId),
    /// A value of a Key-Value, by its key there.
    Value(ObjectId, &'a str),
}

impl<'a> Named<'a> {
    /// The object that `key` names: an Array by its ID, or a value of a Key-Value by an ID and a key. `None` if it
    /// names neither.
    fn parse(key: &'a str) -> Option<Self> {
        let (id, name) = key.split_once('/').map_or((key, ""), |(id, name)| (id, name));
        let oid = ObjectId::parse(id)?;
        let named = match oid.object_type()? {
            ObjectType::Array => Self::Array(oid),
            otype if otype.is_kv() && !name.is_empty() => Self::Value(oid, name),
            _ => return None,
        };
        // An ID can be written in several ways, but each object has one key.
        (named.key() == key).then_some(named)
    }

    /// The key of the object for S3.
    fn key(&self) -> String {
        match self {
            Self::Array(oid) => oid.to_string(),
            Self::Value(oid, name) => format!("{oid}/{name}"),
        }
    }
}

/// The prefix of the keys of an object; for an Array, its whole key. `None` for objects without keys, such as the
/// catalog of names.
fn beginning(oid: ObjectId) -> Option<String> {
    match oid.object_type()? {
        _ if is_name_catalog(oid) => None,
        ObjectType::Array => Some(oid.to_string()),
        otype if otype.is_kv() => Some(format!("{oid}/")),
        _ => None,
    }
}

/// True for a Key-Value whose keys are integers.
fn has_integers(kv: &Kv) -> bool {
    kv.oid().object_type() == Some(ObjectType::KvInteger)
}

/// The stored form of a key of a Key-Value, from its form in S3; `None` if the Key-Value cannot have such a key.
fn dkey(kv: &Kv, name: &str) -> Option<Vec<u8>> {
    if !has_integers(kv) {
        return Some(name.into());
    }
    let number: u64 = name.parse().ok()?;
    (number.to_string() == name).then(|| number.to_ne_bytes().into())
}

/// The form in S3 of a stored key of a Key-Value; `None` if S3 cannot represent it.
fn name(kv: &Kv, dkey: &[u8]) -> Option<String> {
    match has_integers(kv) {
        true => Some(u64::from_ne_bytes(dkey.try_into().ok()?).to_string()),
        false => String::from_utf8(dkey.into()).ok().filter(|name| is_text(name)),
    }
}

/// The cells of an Array, as bytes.
pub(crate) struct Cells(Array);

impl Cells {
    /// Size of a cell in bytes.
    fn cell_bytes(&self) -> u64 {
        self.0.attributes().cell_size
    }

    /// Number of bytes of all cells, at most the largest size in S3.
    fn size(&self) -> Result<u64> {
        let cells = self.0.size(Access::Latest).wait()?;
        Ok(cells.saturating_mul(self.cell_bytes()).min(i64::MAX as u64))
    }

    /// The `len` bytes from `at` on, used in place if that is possible. Cells that do not exist are zeros.
    pub(crate) fn bytes(&self, at: u64, len: u64) -> Result<Bytes> {
        let cell = self.cell_bytes();
        let first = at / cell;
        let cells = Extent::new(first, (at + len).div_ceil(cell) - first);
        let all = match self.0.view(cells, true, Access::Latest).wait() {
            Err(error) if error.kind() == ErrorKind::Overflow => self.copy(cells)?,
            view => view?.into_bytes(),
        };
        let start = (at - first * cell) as usize;
        Ok(all.slice(start..start + len as usize))
    }

    /// Reads cells by a copy: the process has too many views to read them in place.
    fn copy(&self, cells: Extent) -> Result<Bytes> {
        let mut bytes = vec![0; self.0.bytes_of(cells.count)?];
        let sink = Sink::One(&mut bytes);
        self.0.read_or_zero(&[cells], sink, Access::Latest).wait()?;
        Ok(bytes.into())
    }
}

/// Metadata of an object of `size` bytes without files. Its last change gives the time and the ETag.
fn head(changed: Epoch, size: u64) -> Head {
    let since = changed.unix_time();
    let mtime = Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    Head { etag: format!("{:x}", changed.0), mtime, size, ..Head::default() }
}

impl Plain {
    pub(crate) fn new(container: Container) -> Self {
        Self(Arc::new(container))
    }

    /// The container.
    pub(crate) fn container(&self) -> &Container {
        &self.0
    }

    /// True if a request still uses the container: there is another reference to it.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Metadata of the object of a key.
    ///
    /// # Errors
    /// `NoSuchKey`; errors of the store.
    pub(crate) fn head(&self, key: &str) -> Outcome<Head> {
        let named = Named::parse(key).ok_or_else(|| no_such(key))?;
        self.find(&named)?.ok_or_else(|| no_such(key))
    }

    /// Opens the object of a key: its metadata and its content.
    ///
    /// # Errors
    /// `NoSuchKey`; errors of the store.
    pub(crate) fn open(&self, key: &str) -> Outcome<(Head, Content)> {
        let named = Named::parse(key).ok_or_else(|| no_such(key))?;
        let changed = self.changed(&named)?;
        let (size, content) = self.content(&named)?.ok_or_else(|| no_such(key))?;
        Ok((head(changed, size), content))
    }

    /// Epoch of the last change of an object. The caller reads it before the content. If the object changes in between,
    /// the reply has the earlier time, so a later condition tells the two states apart.
    fn changed(&self, named: &Named<'_>) -> Result<Epoch> {
        match *named {
            Named::Array(oid) => self.0.object(oid).epoch(Access::Latest).wait(),
            Named::Value(oid, name) => {
                let epoch = |kv: &Kv, key: &[u8]| {
                    self.0.object(kv.oid()).dkey_epoch(key, Access::Latest).wait().map(Some)
                };
                Ok(self.value(oid, name, epoch)?.unwrap_or_default())
            }
        }
    }

    /// Metadata of the object that a key names; `None` if it does not exist.
    fn find(&self, named: &Named<'_>) -> Result<Option<Head>> {
        let changed = self.changed(named)?;
        let size = match *named {
            Named::Array(oid) => self.cells(oid)?.map(|cells| cells.size()).transpose(),
            Named::Value(oid, name) => {
                self.value(oid, name, |kv, key| kv.size(key, Access::Latest).wait())
            }
        };
        Ok(size?.map(|size| head(changed, size)))
    }

    /// Size in bytes and content of the object that a key names; `None` if it does not exist.
    fn content(&self, named: &Named<'_>) -> Result<Option<(u64, Content)>> {
        match *named {
            Named::Array(oid) => {
                self.cells(oid)?.map(|cells| Ok((cells.size()?, Content::Cells(cells)))).transpose()
            }
            Named::Value(oid, name) => {
                let value = self.value(oid, name, |kv, key| kv.get(key, Access::Latest).wait())?;
                Ok(value.map(|value| (value.len() as u64, Content::Bytes(value.into()))))
            }
        }
    }

    /// The cells of an array; `None` if it does not exist.
    fn cells(&self, oid: ObjectId) -> Result<Option<Cells>> {
        match self.0.open_array(oid, Access::Latest).wait() {
            // `NoPermission` if the object was not created as an Array.
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NoPermission].contains(&error.kind()) =>
            {
                Ok(None)
            }
            opened => Ok(Some(Cells(opened?))),
        }
    }

    /// Calls `look` with a Key-Value and the stored form of its key `name`. Returns `None` if no key can have this
    /// name.
    fn value<T>(
        &self,
        oid: ObjectId,
        name: &str,
        look: impl FnOnce(&Kv, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let kv = self.0.kv(oid)?;
        dkey(&kv, name).map_or(Ok(None), |dkey| look(&kv, &dkey))
    }

    /// A page of the keys.
    pub(crate) fn list(&self, wanted: &Wanted) -> Outcome<Page> {
        let mut walk = Walk { plain: self, wanted, lines: Lines::new(wanted) };
        if wanted.count > 0 {
            walk.list_objects()?;
        }
        Ok(walk.lines.page())
    }
}

/// The refusal of changes to a container without files.
#[cold]
pub(crate) fn read_only_fault(name: &str) -> Fault {
    let why = format!(
        "container {name} holds no files, so S3 only reads its objects; a bucket to put into is a container of \
         `esker cont create --type posix`"
    );
    Fault::new(S3ErrorCode::InvalidBucketState, why)
}

/// A walk through the objects of a container, for one page.
struct Walk<'a> {
    plain: &'a Plain,
    wanted: &'a Wanted,
    lines: Lines<'a>,
}

/// The first `most` names after `after`, in their order, out of names in any order.
struct First {
    after: String,
    most: usize,
    found: BTreeSet<String>,
}

impl First {
    /// Adds a name that is after the start of the page. If there are then more than `most` names, drops the last one.
    fn add(&mut self, name: String) {
        if name > self.after {
            self.found.insert(name);
        }
        if self.found.len() > self.most {
            self.found.pop_last();
        }
    }

    /// The last name, from which the next page continues; `None` if fewer than `most` names were found, so that no more
    /// exist.
    fn last(&self) -> Option<String> {
        self.found.last().filter(|_| self.found.len() == self.most).cloned()
    }
}

impl Walk<'_> {
    /// Lists the objects of the container, in the order of their keys, until the page is full.
    fn list_objects(&mut self) -> Outcome<()> {
        if let Some((id, _)) = self.wanted.prefix.split_once('/') {
            return self.list_only(id);
        }
        let container = &self.plain.0;
        let list = |anchor: &mut Anchor, entries| {
            container.list_objects(anchor, entries, Access::Latest).wait()
        };
        let wanted = self.wanted;
        let mut ids = Ids::new(list, |beginning| wanted.side(beginning));
        while !self.lines.is_full() {
            let Some((oid, beginning)) = ids.next(beginning)? else { break };
            self.list_object(oid, &beginning)?;
        }
        Ok(())
    }

    /// Lists only the Key-Value with this object id, because the prefix of the request contains it.
    fn list_only(&mut self, id: &str) -> Outcome<()> {
        let Some(oid) = ObjectId::parse(id) else { return Ok(()) };
        match beginning(oid) {
            Some(keys) if keys.strip_suffix('/') == Some(id) => {
                self.list_values(&self.plain.0.kv(oid)?, &keys)
            }
            _ => Ok(()),
        }
    }

    /// Lists an object, whose keys begin with `beginning`: an Array is one key, a Key-Value has a key for each value.
    fn list_object(&mut self, oid: ObjectId, beginning: &str) -> Outcome<()> {
        let (plain, Wanted { prefix, delimiter, after, .. }) = (self.plain, self.wanted);
        if oid.object_type() == Some(ObjectType::Array) {
            return self.show(beginning);
        }
        let is_one = delimiter.as_deref() == Some("/")
            && beginning.len() > prefix.len()
            && beginning > after.as_str();
        match is_one {
            true => self.lines.show(Shown::Prefix(beginning.to_owned())),
            false => self.list_values(&plain.0.kv(oid)?, beginning)?,
        }
        Ok(())
    }

    /// Lists the values of a Key-Value, whose keys begin with `beginning`, window by window until the page is full.
    fn list_values(&mut self, kv: &Kv, beginning: &str) -> Outcome<()> {
        let mut after = Some(String::new());
        while let Some(name) = after.filter(|_| !self.lines.is_full()) {
            let first = self.next_values(kv, beginning, name)?;
            after = first.last();
            first.found.iter().try_for_each(|key| self.show(key))?;
        }
        Ok(())
    }

    /// The next keys of the values of a Key-Value in order, after `after`. The store does not sort its keys, so all of
    /// them are read.
    fn next_values(&self, kv: &Kv, beginning: &str, after: String) -> Outcome<First> {
        let mut first = First { after, most: self.lines.window(), found: BTreeSet::new() };
        let (mut anchor, limit) = (Anchor::Start, ListLimit::entries(LIST_WINDOW));
        while !anchor.is_end() {
            for dkey in kv.list(&mut anchor, limit, Access::Latest).wait()?.iter() {
                let key = name(kv, dkey).map(|name| format!("{beginning}{name}"));
                let is_wanted =
                    |key: &String| key.starts_with(&self.wanted.prefix) && *key > self.wanted.after;
                if let Some(key) = key.filter(is_wanted) {
                    first.add(key);
                }
            }
        }
        Ok(first)
    }

    /// Adds a key to the page, unless its object was removed meanwhile.
    fn show(&mut self, key: &str) -> Outcome<()> {
        let plain = self.plain;
        self.lines.object(key, |key| {
            let Some(named) = Named::parse(key) else { return Ok(None) };
            let found = plain.find(&named)?;
            Ok(found.map(|Head { etag, mtime, size, .. }| Listed {
                key: key.to_owned(),
                size,
                mtime,
                etag,
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{model, pages};
    use esker::Pool;
    use esker::backend::NewContainer;
    use esker::types::ArrayAttributes;
    use esker::types::info::OpenMode;
    use esker::types::ops::{Cond, Source, Update, Value};

    /// A container in a new pool in memory.
    fn container(pool: &str) -> Container {
        let pool = Pool::connect(&format!("memory:{pool}"), OpenMode::ReadWrite).unwrap();
        pool.create_container(&NewContainer::named("c")).wait().unwrap();
        pool.open_container("c", OpenMode::ReadWrite).wait().unwrap()
    }

    /// An Array with cells of `cell` bytes, and data in these cells.
    fn array(container: &Container, number: u64, cell: u64, cells: Extent) -> ObjectId {
        let oid = container.new_oid(ObjectType::Array).generate(number).unwrap();
        let attributes = ArrayAttributes { cell_size: cell, chunk_size: 10 };
        let array = container.create_array(oid, attributes, Access::Latest).wait().unwrap();
        let bytes: Vec<u8> = (0..cells.count * cell).map(|n| (n * 31 + 1) as u8).collect();
        array.write(&[cells], Source::One(&bytes), Access::Latest).wait().unwrap();
        oid
    }

    /// A Key-Value of this type, with a value under each key.
    fn kv(container: &Container, otype: ObjectType, keys: &[&[u8]]) -> ObjectId {
        let oid = container.new_oid(otype).generate(7).unwrap();
        let kv = container.kv(oid).unwrap();
        for key in keys {
            kv.put(key, b"value", Cond::NONE, Access::Latest).wait().unwrap();
        }
        oid
    }

    #[test]
    fn listing_equals_model_of_sorted_keys() {
        let container = container("s3-plain-list");
        let arrays = (0..40).map(|number| array(&container, number * 7, 1, Extent::new(0, 1)));
        let mut keys: Vec<_> = arrays.map(|oid| oid.to_string()).collect();
        let names: [&[u8]; 7] =
            [b"a", b"a/b", b"/", b"b-c", "\u{e9}".as_bytes(), b"no \xff text", b"no\x01xml"];
        let texts = kv(&container, ObjectType::KvHashed, &names);
        let text = |name: &&[u8]| {
            let name = std::str::from_utf8(name).ok().filter(|name| is_text(name))?;
            Some(format!("{texts}/{name}"))
        };
        keys.extend(names.iter().filter_map(text));
        let numbers = [1_u64, 20, 3].map(u64::to_ne_bytes);
        let integers = kv(&container, ObjectType::KvInteger, &numbers.each_ref().map(|n| &n[..]));
        keys.extend([1, 20, 3].map(|number| format!("{integers}/{number}")));
        let other = container.new_oid(ObjectType::MultiHashed).generate(9).unwrap();
        let one = Value::Single(Source::One(b"1"));
        let update = Update { akey: b"a", value: one, cond: Cond::NONE };
        container.object(other).update(b"d", Cond::NONE, &[update], Access::Latest).wait().unwrap();
        let no_array = container.new_oid(ObjectType::Array).generate(10).unwrap();
        let update =
            Update { akey: b"a", value: Value::Single(Source::One(b"1")), cond: Cond::NONE };
        let no_array = container.object(no_array);
        no_array
            .update(&1_u64.to_ne_bytes(), Cond::NONE, &[update], Access::Latest)
            .wait()
            .unwrap();
        keys.sort();

        let plain = Plain::new(container);
        let (texts, part) = (texts.to_string(), keys[0][..4].to_owned());
        let below = [format!("{texts}/"), format!("{texts}/a"), format!("{texts}/a/")];
        let prefixes = ["", "x", "1", &part, &texts].map(str::to_owned).into_iter().chain(below);
        for prefix in prefixes {
            for delimiter in [None, Some("/"), Some("."), Some("/a"), Some("7")] {
                let all = model(&keys, &prefix, delimiter);
                for count in [1, 2, 3, 1000] {
                    let listed = pages(|wanted| plain.list(wanted), &prefix, delimiter, count);
                    assert_eq!(listed, all, "{prefix:?} {delimiter:?} {count}");
                }
            }
        }
    }

    #[test]
    fn byte_range_of_an_array_may_cut_cells() {
        let container = container("s3-plain-read");
        let oid = array(&container, 1, 3, Extent::new(5, 20));
        let whole = [vec![0; 15], (0..60_u64).map(|n| (n * 31 + 1) as u8).collect()].concat();
        let opened = Plain::new(container).open(&oid.to_string());
        let Ok((head, Content::Cells(cells))) = opened else { panic!("an Array") };
        assert_eq!(head.size, 75);
        for (start, end) in [(0, 75), (0, 1), (14, 16), (29, 31), (30, 60), (74, 75), (17, 71)] {
            let bytes = cells.bytes(start, end - start).unwrap();
            assert_eq!(bytes, whole[start as usize..end as usize], "{start}..{end}");
        }
    }

    #[test]
    fn object_has_one_key_and_a_new_etag_after_a_change() {
        let container = container("s3-plain-keys");
        let oid = array(&container, 1, 1, Extent::new(0, 4));
        let texts = kv(&container, ObjectType::KvLexical, &[b"a"]);
        let plain = Plain::new(container.clone());
        let etag = |key: &str| plain.open(key).ok().map(|(head, _)| head.etag);
        let before = etag(&oid.to_string());
        let value = format!("{texts}/a");
        let of_value = etag(&value);
        assert!(before.is_some() && of_value.is_some());
        let hexadecimal = format!("{:#x}.{:#x}", oid.hi, oid.lo);
        let wrong =
            ["", "/", "a", "1", "1.2", &format!("{oid}/"), &format!("{oid}/a"), &hexadecimal];
        for wrong in wrong.into_iter().chain([&texts.to_string()[..], &format!("{texts}/b")]) {
            assert_eq!(etag(wrong), None, "{wrong:?}");
        }
        let array = container.open_array(oid, Access::Latest).wait().unwrap();
        array.write(&[Extent::new(0, 1)], Source::One(b"x"), Access::Latest).wait().unwrap();
        assert_ne!(etag(&oid.to_string()), before);
        let put = |key: &[u8]| {
            container.kv(texts).unwrap().put(key, b"2", Cond::NONE, Access::Latest).wait().unwrap()
        };
        put(b"b");
        assert_eq!(etag(&value), of_value, "another value changed");
        put(b"a");
        assert_ne!(etag(&value), of_value);
    }

    #[test]
    fn fuzz_keys() {
        let seeds = [b"576742238483139410.1".to_vec(), b"7.1/a/b".to_vec()];
        esker_testing::fuzz("plain keys", &seeds, |bytes| {
            let key = String::from_utf8_lossy(bytes);
            if let Some(named) = Named::parse(&key) {
                assert_eq!(named.key(), key);
            }
        });
    }
}
