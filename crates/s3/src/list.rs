//! Listing the keys of files in their order.
//!
//! The keys of a bucket are the paths of its files. A walk visits each directory that the page concerns, and takes its
//! entries in their order, `LIST_WINDOW` at a time, from the first that the page shows. So the cost of a page depends
//! neither on the number of entries nor on its position. A directory sorts as its name with a slash.
use crate::bucket::Bucket;
use crate::fault::Outcome;
use crate::find::optional_xattr;
use crate::limits::KEY_BYTES_MAX;
use crate::page::{Lines, Listed, Page, Shown, Wanted};
use crate::place::{HIDDEN, is_name};
use crate::record::{DIRECTORY, IS_KEY, IS_WAY, RECORD, Record, directory_etag};
use dfs::limits::LIST_BATCH;
use dfs::{Follow, Inode, Kind, Node};
use esker::types::ErrorKind;
use std::collections::BTreeSet;

/// A page of the keys of a bucket.
pub(crate) fn list(bucket: &Bucket, wanted: &Wanted) -> Outcome<Page> {
    let mut walk = Walk { bucket, wanted, lines: Lines::new(wanted) };
    if wanted.count > 0 {
        walk.list_directory(&bucket.fs().root(), "")?;
    }
    Ok(walk.lines.page())
}

/// True if the bucket has a key after `after` that begins with `prefix`.
pub(crate) fn has_keys(bucket: &Bucket, prefix: &str, after: &str) -> Outcome<bool> {
    let wanted =
        Wanted { prefix: prefix.to_owned(), delimiter: None, after: after.to_owned(), count: 1 };
    Ok(!list(bucket, &wanted)?.shown.is_empty())
}

/// A walk through the directories of a bucket, for one page.
struct Walk<'a> {
    bucket: &'a Bucket,
    wanted: &'a Wanted,
    lines: Lines<'a>,
}

/// An entry of a directory, with the record of the object.
struct Entry {
    name: String,
    inode: Inode,
    record: Option<Vec<u8>>,
}

impl Entry {
    /// The text by which entries are sorted: the name, with `/` after that of a directory, since S3 sorts complete
    /// keys.
    fn order(&self) -> String {
        match self.inode.kind {
            Kind::Directory => format!("{}/", self.name),
            _ => self.name.clone(),
        }
    }
}

/// Bound from which the entries of a directory are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    /// Entries whose order is greater.
    After(Vec<u8>),
    /// Entries whose order is the same or greater.
    At(Vec<u8>),
}

impl Bound {
    /// Bound of the entries of the directory `path` that may have keys after `after`; `None` if no entry can.
    fn new(path: &str, after: &str) -> Option<Self> {
        match after.strip_prefix(path) {
            None if after < path => Some(Self::At(Vec::new())),
            None => None,
            Some(rest) => Some(match rest.split_once('/') {
                Some((name, _)) => Self::At(format!("{name}/").into()),
                None => Self::After(rest.into()),
            }),
        }
    }

    fn order(&self) -> &[u8] {
        let (Self::After(order) | Self::At(order)) = self;
        order
    }

    /// True if an entry with the sort text `order` is within this bound, so that it is listed.
    fn includes(&self, order: &str) -> bool {
        match self {
            Self::After(bound) => order.as_bytes() > &bound[..],
            Self::At(bound) => order.as_bytes() >= &bound[..],
        }
    }
}

impl Walk<'_> {
    /// Lists the keys below the directory `dir`, whose path is `path`: window by window, until the page is full.
    fn list_directory(&mut self, dir: &Node, path: &str) -> Outcome<()> {
        let Some(mut from) = Bound::new(path, &self.wanted.after) else { return Ok(()) };
        let below = self.wanted.prefix.strip_prefix(path).unwrap_or_default().to_owned();
        if let Some((name, _)) = below.split_once('/') {
            return self.list_only(dir, path, name);
        }
        loop {
            let (entries, more) = read_window(dir, path, &from, &below, self.lines.window())?;
            for entry in entries {
                self.list_entry(dir, path, entry)?;
                if self.lines.is_full() {
                    return Ok(());
                }
            }
            match more {
                Some(last) => from = Bound::After(last),
                None => return Ok(()),
            }
        }
    }

    /// Lists only the subdirectory `name` of a directory, because the prefix of the request leads through it.
    fn list_only(&mut self, dir: &Node, path: &str, name: &str) -> Outcome<()> {
        let mut found = match is_shown(path, name) && is_name(name) {
            true => dir.entries_with_xattr(&[name.as_bytes()], RECORD.as_bytes())?,
            false => Vec::new(),
        };
        match found.pop().flatten() {
            Some((inode, record)) if inode.kind == Kind::Directory => {
                self.list_entry(dir, path, Entry { name: name.to_owned(), inode, record })
            }
            _ => Ok(()),
        }
    }

    /// Lists an entry of the directory `dir`, whose path is `path`: an object, a directory or a link.
    /// A path that is too long for a key is not listed.
    fn list_entry(&mut self, dir: &Node, path: &str, entry: Entry) -> Outcome<()> {
        let key = format!("{path}{}", entry.order());
        if key.len() > KEY_BYTES_MAX {
            return Ok(());
        }
        match entry.inode.kind {
            Kind::Directory => self.list_subdirectory(dir, &key, &entry),
            Kind::File => self.lines.object(&key, |key| {
                let name = entry.name.as_bytes();
                listed(key, dir, name, entry.inode, entry.record)
            }),
            Kind::Symlink => self.list_link(dir, &key, &entry),
        }
    }

    /// Lists a link to a file as that file. A link to a directory is not followed, because it could lead round in
    /// circles. A link without a target is not listed.
    fn list_link(&mut self, dir: &Node, key: &str, entry: &Entry) -> Outcome<()> {
        use ErrorKind::{Loop, NameTooLong, NotDirectory, NotFound};
        let target = match self.bucket.fs().resolve(dir, entry.name.as_bytes(), Follow::All) {
            Ok(target) if target.kind() == Kind::File => target,
            Ok(_) => return Ok(()),
            Err(error) => match error.kind() {
                NotFound | NotDirectory | Loop | NameTooLong => return Ok(()),
                _ => return Err(error.into()),
            },
        };
        let record = optional_xattr(&target, RECORD)?;
        let (above, name) = (target.parent().unwrap_or(dir), target.name());
        self.lines.object(key, |key| listed(key, above, name, *target.inode(), record))
    }

    /// Lists a directory, whose path is `key`: as one common prefix if the delimiter is a slash behind the prefix, else
    /// the keys below it.
    fn list_subdirectory(&mut self, dir: &Node, key: &str, entry: &Entry) -> Outcome<()> {
        let node = match dir.lookup(entry.name.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let mark = optional_xattr(&node, DIRECTORY)?;
        let (prefix, after) = (&self.wanted.prefix, &self.wanted.after);
        let is_one = self.wanted.delimiter.as_deref() == Some("/")
            && key.len() > prefix.len()
            && key.starts_with(prefix.as_str());
        if is_one {
            // A directory that only leads to objects may be empty, or have only keys before the page: then it is not
            // shown.
            let is_surely_used = mark.as_deref() != Some(IS_WAY) && !after.starts_with(key);
            let is_shown = key != after && (is_surely_used || has_keys(self.bucket, key, after)?);
            if is_shown {
                self.lines.show(Shown::Prefix(key.to_owned()));
            }
            return Ok(());
        }
        let is_key = match mark.as_deref() {
            Some(mark) => mark == IS_KEY,
            None => node.is_empty()?,
        };
        if is_key {
            let (etag, mtime) = (directory_etag(), entry.inode.mtime);
            let listed = |key: &str| Listed { key: key.to_owned(), size: 0, mtime, etag };
            self.lines.object(key, |key| Ok(Some(listed(key))))?;
        }
        if self.lines.is_full() { Ok(()) } else { self.list_directory(&node, key) }
    }
}

/// The line of a page for the file `name` in the directory `dir`; `None` if it was removed meanwhile. Reads the size of
/// the file only if the record lacks it.
fn listed(
    key: &str,
    dir: &Node,
    name: &[u8],
    mut inode: Inode,
    mut value: Option<Vec<u8>>,
) -> Outcome<Option<Listed>> {
    loop {
        let (key, record) = (key.to_owned(), Record::read(value.as_deref()));
        if record.holds(inode.mtime, None) {
            let (size, etag) = (record.size(), record.put_etag().to_owned());
            return Ok(Some(Listed { key, size, mtime: inode.mtime, etag }));
        }
        let attr = dir.fs().attr_of(&inode)?;
        // The content of a file that was replaced or removed meanwhile has size 0, too.
        let current = match attr.size {
            0 => dir.entries_with_xattr(&[name], RECORD.as_bytes())?.pop().flatten(),
            _ => Some((inode, None)),
        };
        (inode, value) = match current {
            Some((current, _)) if current.oid == inode.oid => {
                let (size, mtime, etag) = (attr.size, attr.mtime, record.etag(&attr));
                return Ok(Some(Listed { key, size, mtime, etag }));
            }
            Some((current, value)) if current.kind == Kind::File => (current, value),
            _ => return Ok(None),
        };
    }
}

/// True unless the entry is the hidden directory in the root, whose files are not objects.
fn is_shown(path: &str, name: &str) -> bool {
    !path.is_empty() || name != HIDDEN
}

/// Reads at most `count` names of the directory `path`: those that begin with `below`, from a bound on. Returns the
/// sorted entries, and the last name that was read if there may be more.
fn read_window(
    dir: &Node,
    path: &str,
    from: &Bound,
    below: &str,
    count: usize,
) -> Outcome<(Vec<Entry>, Option<Vec<u8>>)> {
    let (mut names, last) = next_names(dir, from.order().max(below.as_bytes()), below, count)?;
    names.extend(names_before(from.order(), below));
    names.retain(|name| is_shown(path, name) && is_name(name));
    let mut entries = Vec::with_capacity(names.len());
    let names: Vec<_> = names.iter().map(String::as_bytes).collect();
    for names in names.chunks(LIST_BATCH) {
        let found = dir.entries_with_xattr(names, RECORD.as_bytes())?;
        entries.extend(std::iter::zip(names, found).filter_map(|(name, found)| {
            let (inode, record) = found?;
            Some(Entry { name: String::from_utf8(name.to_vec()).ok()?, inode, record })
        }));
    }
    let is_last = |order: &str| last.as_deref().is_none_or(|last| order.as_bytes() <= last);
    entries.retain(|entry| {
        let order = entry.order();
        from.includes(&order) && is_last(&order)
    });
    entries.sort_by_cached_key(Entry::order);
    Ok((entries, last))
}

/// Reads at most `count` names after `after`. Returns those that begin with `below`, and the last name that was read if
/// there may be more.
fn next_names(
    dir: &Node,
    after: &[u8],
    below: &str,
    count: usize,
) -> Outcome<(BTreeSet<String>, Option<Vec<u8>>)> {
    let found = dir.names_after(after, count)?;
    let is_below = |name: &[u8]| name.starts_with(below.as_bytes());
    let last = found.last().filter(|last| found.len() == count && is_below(last)).cloned();
    // Names that are not valid UTF-8 cannot be keys.
    let names = found.into_iter().filter_map(|name| String::from_utf8(name).ok());
    Ok((names.filter(|name| is_below(name.as_bytes())).collect(), last))
}

/// The prefixes of the sort text `order` that begin with `below`, and `below` itself. They may be names of directories
/// that sort after `order`. Example: `a` is before `a.txt`, but the directory `a/` is after it.
fn names_before(order: &[u8], below: &str) -> impl Iterator<Item = String> {
    let begins =
        (below.len()..=order.len()).filter_map(|end| std::str::from_utf8(&order[..end]).ok());
    let begins = begins.filter(|name| name.starts_with(below)).chain([below]);
    begins.map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bucket::Buckets;
    use crate::limits::LIST_WINDOW;
    use crate::page;
    use crate::put::tests::put_content;
    use dfs::Create;
    use esker::types::Extent;
    use esker::types::info::OpenMode;
    use esker::types::ops::{Cond, Source, Update, Value};
    use esker::{Access, Pool, Wait};

    /// A bucket in memory with these files. A path that ends with a slash is a directory.
    pub(crate) fn bucket(name: &str, paths: &[&str]) -> Bucket {
        let buckets =
            Buckets::new(Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).unwrap());
        buckets.create("b").unwrap_or_else(|_| panic!("a bucket"));
        let bucket = buckets.files("b").unwrap_or_else(|_| panic!("a bucket"));
        for path in paths {
            let mut node = bucket.fs().root();
            let mut names: Vec<_> = path.split('/').collect();
            let last = names.pop().unwrap();
            for name in names {
                node = node.lookup(name.as_bytes()).unwrap_or_else(|_| {
                    node.mkdir(name.as_bytes(), &Create::with_mode(0o755)).unwrap()
                });
            }
            if !last.is_empty() {
                node.create(last.as_bytes(), &Create::with_mode(0o644)).unwrap();
            }
        }
        bucket
    }

    /// All keys and prefixes of a listing that is read in pages of `count`.
    fn pages(bucket: &Bucket, prefix: &str, delimiter: Option<&str>, count: usize) -> Vec<String> {
        page::tests::pages(|wanted| list(bucket, wanted), prefix, delimiter, count)
    }

    const PATHS: [&str; 10] =
        ["a", "a-b/x", "a.txt", "b/c/d", "b/c.x", "b/c/", "b!", "empty/", "z/y/x/w", "B"];

    #[test]
    fn listing_equals_model_of_sorted_keys() {
        let bucket = bucket("s3-list", &PATHS);
        let mut keys = PATHS.map(str::to_owned).to_vec();
        keys.retain(|path| path != "b/c/");
        keys.sort();
        for prefix in [
            "", "a", "a-", "b", "b/", "b/c", "b/c/", "z/y", "z/y/", "nothing", "empty/", "b!x/",
            "/", "//", "./",
        ] {
            for delimiter in [None, Some("/"), Some("-"), Some("c"), Some("/c"), Some("xx")] {
                let all = page::tests::model(&keys, prefix, delimiter);
                for count in [1, 2, 3, 1000] {
                    assert_eq!(
                        pages(&bucket, prefix, delimiter, count),
                        all,
                        "{prefix:?} {delimiter:?} {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn large_directory_is_sorted_across_windows() {
        let mut names: Vec<_> =
            (0..3 * LIST_WINDOW).map(|number| format!("{:04x}", number * 7 % 0xffff)).collect();
        // Directories whose names begin those of files.
        names.extend(["0007/x".to_owned(), "0007-".to_owned(), "1000/y".to_owned()]);
        names.retain(|name| name != "0007" && name != "1000");
        let paths: Vec<_> = names.iter().map(String::as_str).collect();
        let bucket = bucket("s3-list-windows", &paths);
        names.sort();
        names.dedup();
        assert_eq!(pages(&bucket, "", None, 1000), names);
        assert_eq!(pages(&bucket, "", None, 37), names);
    }

    #[test]
    fn hidden_entries_are_not_listed_and_links_are_files() {
        let bucket = bucket("s3-list-hidden", &["f", ".esker-s3/puts/x", "d/.esker-s3"]);
        let root = bucket.fs().root();
        root.symlink(b"link", b"f", &Create::with_mode(0o777)).unwrap();
        root.symlink(b"round", b".", &Create::with_mode(0o777)).unwrap();
        root.symlink(b"broken", b"none", &Create::with_mode(0o777)).unwrap();
        assert_eq!(pages(&bucket, "", None, 10), ["d/.esker-s3", "f", "link"]);
        assert_eq!(pages(&bucket, ".esker-s3/", None, 10), [""; 0]);
        assert_eq!(pages(&bucket, ".e", Some("/"), 10), [""; 0]);
    }

    #[test]
    fn paths_that_are_too_long_for_a_key_are_not_listed() {
        let name = "n".repeat(254);
        let deep = [&*name; 4].join("/");
        let longest = format!("{deep}/{}", "f".repeat(KEY_BYTES_MAX - deep.len() - 1));
        let paths = [&*longest, &format!("{longest}f"), &format!("{longest}d/f"), "z"];
        let bucket = bucket("s3-list-long", &paths);
        assert_eq!(pages(&bucket, "", None, 10), [&*longest, "z"]);
        assert_eq!(pages(&bucket, &deep, None, 1), [longest]);
    }

    #[test]
    fn file_that_is_replaced_before_its_size_is_read_is_listed_as_the_new_one() {
        let bucket = bucket("s3-list-replaced", &["empty"]);
        put_content(&bucket, "k", b"old");
        let root = bucket.fs().root();
        let line = |name: &str, inode: Inode| {
            listed(name, &root, name.as_bytes(), inode, None).unwrap().map(|line| line.size)
        };
        let old = *root.lookup(b"k").unwrap().inode();
        assert_eq!(line("k", old), Some(3));
        put_content(&bucket, "k", b"newer");
        assert_eq!(line("k", old), Some(5));
        root.unlink(b"k").unwrap();
        assert_eq!(line("k", old), None);
        assert_eq!(line("empty", *root.lookup(b"empty").unwrap().inode()), Some(0));
    }

    /// A listing without the object would look complete.
    #[test]
    fn link_to_a_damaged_file_fails_the_listing() {
        let bucket = bucket("s3-list-damaged", &["files/f", "links/g"]);
        let links = bucket.fs().root().lookup(b"links").unwrap();
        links.symlink(b"link", b"../files/f", &Create::with_mode(0o777)).unwrap();
        assert_eq!(pages(&bucket, "links/", None, 10), ["links/g", "links/link"]);
        let files = bucket.fs().root().lookup(b"files").unwrap();
        let (extents, zeros) = ([Extent::new(0, 4)], [0; 4]);
        let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(&zeros) };
        let updates = [Update { akey: b"DFS_INODE", value, cond: Cond::NONE }];
        let directory = bucket.fs().container().object(files.oid());
        directory.update(b"f", Cond::NONE, &updates, Access::Latest).wait().unwrap();
        let (prefix, after) = ("links/".to_owned(), String::new());
        let wanted = Wanted { prefix, delimiter: None, after, count: 10 };
        assert!(list(&bucket, &wanted).is_err());
    }
}
