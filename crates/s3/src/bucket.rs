//! Buckets: containers of the pool, opened at the first request.
use crate::fault::{Fault, Outcome};
use crate::limits::{BUCKET_NAME_SECONDS, BUCKETS_OPEN_MAX, LEFT_OVER_SECONDS};
use crate::place::HIDDEN;
use crate::plain::{Plain, read_only_fault};
use crate::sums::hex;
use bytes::Bytes;
use dfs::limits::LIST_BATCH;
use dfs::{
    Check, Create, Dfs, Follow, MountOptions, NewDfs, Node, Publish, PublishNew, Rename,
    RenameMode, Time, Xattrs,
};
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::ops::Anchor;
use esker::types::{ErrorKind, Uuid, check_label};
use esker::{Container, Pool, Wait};
use ring::rand::{SecureRandom, SystemRandom};
use s3s::S3ErrorCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Directory of unfinished puts, in the hidden directory.
const PUTS: &str = "puts";
/// Directory with a directory for each multipart upload, in the hidden directory.
const UPLOADS: &str = "uploads";
/// Permission bits of new directories and files.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;
pub(crate) const FILE_MODE: u32 = 0o644;

/// The buckets of a pool.
pub(crate) struct Buckets {
    pool: Pool,
    /// The open buckets, by name. Locked only for lookups, never while a container is opened or removed.
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// Time after which [`Buckets::recent`] verifies the name of an open container again: [`BUCKET_NAME_SECONDS`].
    name_interval: Duration,
}

/// A bucket, if it is open. A request locks it while it opens or removes the container. Other requests to this bucket wait
/// for that; requests to other buckets do not.
type Slot = Mutex<Option<Mounted>>;

/// The bucket in a slot.
struct Mounted {
    opened: Opened,
    /// Time at which the container had the name of the bucket.
    named: Instant,
}

/// A bucket with files that is open. Clones share it.
#[derive(Clone)]
pub(crate) struct Bucket(Arc<Dfs>);

/// A bucket that is open.
#[derive(Clone)]
pub(crate) enum Opened {
    Files(Bucket),
    /// Without files, it is only read.
    Plain(Plain),
}

impl Opened {
    /// The container of the bucket.
    fn container(&self) -> &Container {
        match self {
            Self::Files(bucket) => bucket.fs().container(),
            Self::Plain(plain) => plain.container(),
        }
    }

    /// True if a request still uses the container: there is another reference to it.
    fn is_used(&self) -> bool {
        match self {
            Self::Files(bucket) => Arc::strong_count(&bucket.0) > 1,
            Self::Plain(plain) => plain.is_used(),
        }
    }
}

impl Buckets {
    pub(crate) fn new(pool: Pool) -> Self {
        let name_interval = Duration::from_secs(BUCKET_NAME_SECONDS);
        Self { pool, slots: Mutex::default(), name_interval }
    }

    /// The bucket of this name, which is mounted when it is first used. Above [`BUCKETS_OPEN_MAX`], drops the mounts
    /// that no request uses.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the store.
    pub(crate) fn get(&self, name: &str) -> Outcome<Opened> {
        self.with_slot(name, |slot| self.open(name, slot))
    }

    /// The bucket that has this name now. An open container that was renamed or destroyed meanwhile is closed. While the
    /// list of containers cannot be read, for example because a node is lost, the open container is used.
    ///
    /// # Errors
    /// The errors of [`Buckets::get`].
    pub(crate) fn current(&self, name: &str) -> Outcome<Opened> {
        let opened = self.get(name)?;
        if has_name(opened.container(), name).unwrap_or(true) {
            return Ok(opened);
        }
        self.close(name);
        self.get(name)
    }

    /// The bucket of this name. Verifies at intervals that the open container still has the name.
    ///
    /// # Errors
    /// The errors of [`Buckets::get`].
    pub(crate) fn recent(&self, name: &str) -> Outcome<Opened> {
        let (opened, is_due) =
            self.with_slot(name, |slot| Ok((self.open(name, slot)?, self.is_name_due(slot))))?;
        if is_due { self.current(name) } else { Ok(opened) }
    }

    /// The bucket in a slot, which is mounted if the slot is empty.
    fn open(&self, name: &str, slot: &mut Option<Mounted>) -> Outcome<Opened> {
        if let Some(mounted) = slot {
            return Ok(mounted.opened.clone());
        }
        let (named, opened) = (Instant::now(), self.mount(name)?);
        Ok(slot.insert(Mounted { opened, named }).opened.clone())
    }

    /// True if the name of the open container is to be verified again. Then the next time is an interval later.
    fn is_name_due(&self, slot: &mut Option<Mounted>) -> bool {
        let due = slot.as_mut().filter(|mounted| mounted.named.elapsed() >= self.name_interval);
        due.map(|mounted| mounted.named = Instant::now()).is_some()
    }

    /// Calls `work` with the slot of a bucket, which is locked meanwhile.
    fn with_slot<T>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Option<Mounted>) -> Outcome<T>,
    ) -> Outcome<T> {
        let slot = self.slot(name);
        let mut bucket = lock(&slot);
        let result = work(&mut bucket);
        let is_empty = bucket.is_none();
        drop(bucket);
        if is_empty {
            self.remove_empty(name, &slot);
        }
        result
    }

    /// The slot of a bucket, perhaps a new one. Above [`BUCKETS_OPEN_MAX`], drops the slots that no request uses.
    fn slot(&self, name: &str) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(name) {
            return Arc::clone(slot);
        }
        let mut unused = Vec::new();
        if slots.len() >= BUCKETS_OPEN_MAX {
            slots.retain(|_, slot| {
                let is_used = is_used(slot);
                unused.extend((!is_used).then(|| Arc::clone(slot)));
                is_used
            });
        }
        let slot = Arc::clone(slots.entry(name.to_owned()).or_default());
        drop(slots);
        // An unmount may take long, so not under the lock.
        drop(unused);
        slot
    }

    /// Removes a slot that stayed empty, unless another request waits for it: otherwise requests with wrong names would
    /// fill the map.
    fn remove_empty(&self, name: &str, slot: &Arc<Slot>) {
        let mut slots = lock(&self.slots);
        let is_listed = slots.get(name).is_some_and(|listed| Arc::ptr_eq(listed, slot));
        // The map and the caller have one reference each.
        if is_listed && Arc::strong_count(slot) == 2 && lock(slot).is_none() {
            slots.remove(name);
        }
    }

    /// Drops an open bucket; requests that use it keep theirs. The next request opens the bucket again.
    pub(crate) fn close(&self, name: &str) {
        let closed = lock(&self.slots).remove(name);
        // An unmount may take long, so not under the lock.
        drop(closed);
    }

    /// The bucket of this name, with files. Verifies at intervals that the open container still has the name.
    ///
    /// # Errors
    /// The errors of [`Buckets::get`]; `InvalidBucketState` if the container holds no files.
    pub(crate) fn files(&self, name: &str) -> Outcome<Bucket> {
        let (bucket, is_due) = self
            .with_slot(name, |slot| Ok((self.open_files(name, slot)?, self.is_name_due(slot))))?;
        if is_due {
            self.current(name)?;
            return self.with_slot(name, |slot| self.open_files(name, slot));
        }
        Ok(bucket)
    }

    /// The bucket with files in a slot, which is mounted if the slot is empty.
    fn open_files(&self, name: &str, slot: &mut Option<Mounted>) -> Outcome<Bucket> {
        if let Opened::Files(bucket) = self.open(name, slot)? {
            return Ok(bucket);
        }
        // Another process may create the file system: it was not in the container yet when that was opened.
        *slot = None;
        match self.open(name, slot)? {
            Opened::Files(bucket) => Ok(bucket),
            Opened::Plain(_) => Err(read_only_fault(name)),
        }
    }

    /// Opens a container: as a file system, or its objects if it holds no files.
    fn mount(&self, name: &str) -> Outcome<Opened> {
        let mode = self.pool.mode();
        let read_only = mode == OpenMode::ReadOnly;
        let container = self
            .pool
            .open_container(name, mode)
            .wait()
            .map_err(|error| bucket_error(name, error))?;
        let options = MountOptions { read_only, snapshot: None };
        let bucket = match Dfs::mount(container.clone(), options) {
            Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound) => {
                return Ok(Opened::Plain(Plain::new(container)));
            }
            mounted => Bucket(Arc::new(mounted?)),
        };
        if !read_only {
            bucket.remove_left_over()?;
        }
        Ok(Opened::Files(bucket))
    }

    /// All containers with a name, in order.
    pub(crate) fn list(&self) -> Outcome<Vec<ContainerInfo>> {
        let mut all = self.pool.containers().wait()?;
        all.retain(|container| !container.label.is_empty());
        all.sort_by(|one, other| one.label.cmp(&other.label));
        Ok(all)
    }

    /// Creates a bucket.
    pub(crate) fn create(&self, name: &str) -> Outcome<()> {
        check_label(name)
            .map_err(|error| Fault::new(S3ErrorCode::InvalidBucketName, error.message()))?;
        let made =
            Dfs::create_container(&self.pool, &NewContainer::named(name), &NewDfs::default());
        match made {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Exists => Err(Fault::new(
                S3ErrorCode::BucketAlreadyOwnedByYou,
                format!("there is a bucket {name} already"),
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a bucket if `is_empty` returns true for it. Meanwhile no other request of this process can get it.
    pub(crate) fn remove(
        &self,
        name: &str,
        is_empty: impl FnOnce(&Bucket) -> Outcome<bool>,
    ) -> Outcome<()> {
        if !has_name(self.get(name)?.container(), name)? {
            self.close(name);
        }
        self.with_slot(name, |slot| {
            let bucket = self.open_files(name, slot)?;
            // The slot and this function have one reference each; another one belongs to a request.
            if Arc::strong_count(&bucket.0) > 2 {
                return Err(in_use_fault(name));
            }
            if !is_empty(&bucket)? {
                let why = format!("bucket {name} has objects");
                return Err(Fault::new(S3ErrorCode::BucketNotEmpty, why));
            }
            *slot = None;
            let container = bucket.fs().container().clone();
            drop(bucket);
            container.close().wait()?;
            // By its UUID: another container may have got the name since this one was found to be empty.
            let uuid = container.info().uuid.to_string();
            match self.pool.destroy_container(&uuid, false).wait() {
                Err(error) if error.kind() == ErrorKind::Busy => Err(in_use_fault(name)),
                destroyed => destroyed.map_err(|error| bucket_error(name, error)),
            }
        })
    }
}

/// Locks a mutex whose value is sound after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if a request uses a slot of the map, or the bucket in it: there is another reference to it.
fn is_used(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) > 1
        || lock(slot).as_ref().is_some_and(|mounted| mounted.opened.is_used())
}

/// True if an open container still has this label or UUID: it was neither renamed nor destroyed.
fn has_name(container: &Container, name: &str) -> Outcome<bool> {
    match container.query().wait() {
        Err(error) if error.kind() == ErrorKind::NoHandle => Ok(false),
        found => {
            let found = found?;
            Ok(found.label == name || Uuid::parse(name) == Some(found.uuid))
        }
    }
}

/// The refusal to remove a bucket that other requests use.
#[cold]
fn in_use_fault(name: &str) -> Fault {
    let why = format!("bucket {name} is in use: try again later");
    Fault::new(S3ErrorCode::OperationAborted, why)
}

/// The S3 error for a container that cannot be opened.
fn bucket_error(name: &str, error: esker::types::Error) -> Fault {
    match error.kind() {
        ErrorKind::NotFound => Fault::new(S3ErrorCode::NoSuchBucket, error.message()),
        ErrorKind::Invalid => Fault::new(
            S3ErrorCode::InvalidBucketName,
            format!("{name:?} is not a valid name of a container"),
        ),
        _ => error.into(),
    }
}

impl Bucket {
    /// The files of the bucket.
    pub(crate) fn fs(&self) -> &Dfs {
        &self.0
    }

    /// The directory at this path from the root.
    pub(crate) fn directory(&self, path: &[u8]) -> esker::types::Result<Node> {
        self.fs().resolve(&self.fs().root(), path, Follow::All)
    }

    /// The directory of unfinished puts.
    pub(crate) fn puts(&self) -> Outcome<Node> {
        find_or_create(&find_or_create(&self.fs().root(), HIDDEN)?, PUTS)
    }

    /// The directory of multipart uploads.
    pub(crate) fn uploads(&self) -> Outcome<Node> {
        find_or_create(&find_or_create(&self.fs().root(), HIDDEN)?, UPLOADS)
    }

    /// The directory of multipart uploads, if there were any yet.
    pub(crate) fn uploads_if_any(&self) -> Outcome<Option<Node>> {
        match self.directory(format!("/{HIDDEN}/{UPLOADS}").as_bytes()) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes files of puts that killed servers did not finish.
    fn remove_left_over(&self) -> Outcome<()> {
        let puts = match self.directory(format!("/{HIDDEN}/{PUTS}").as_bytes()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let (mut anchor, latest) = (Anchor::Start, Time::now().seconds - LEFT_OVER_SECONDS);
        while !anchor.is_end() {
            for entry in puts.read_dir(&mut anchor, LIST_BATCH)? {
                if entry.inode.mtime.seconds < latest {
                    // Another server may be faster.
                    let _ = puts.remove_tree(&entry.name);
                }
            }
        }
        Ok(())
    }
}

/// Looks up a directory, and creates it if it is missing. Another process may create it at the same time.
fn find_or_create(dir: &Node, name: &str) -> Outcome<Node> {
    match dir.lookup(name.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return Ok(found?),
    }
    match dir.mkdir(name.as_bytes(), &Create::with_mode(DIRECTORY_MODE)) {
        Err(error) if error.kind() == ErrorKind::Exists => Ok(dir.lookup(name.as_bytes())?),
        made => Ok(made?),
    }
}

/// A random name that is certainly unique: 32 hexadecimal digits.
pub(crate) fn drawn_name() -> Outcome<String> {
    let mut bytes = [0; 16];
    let failed =
        |_| Fault::new(S3ErrorCode::InternalError, "the system gave no random bytes for a name");
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(hex(&bytes))
}

/// A new file or directory until it is published. A drop before that removes it.
pub(crate) struct Hidden(Draft);

/// Location of a new file or directory until it is published.
enum Draft {
    /// A name in the hidden directory.
    Entry {
        dir: Node,
        name: String,
    },
    /// Content of a small file, in memory.
    Content(Vec<Bytes>),
    Published,
}

/// Directory, name, attributes and conditions for the publication of a file.
pub(crate) struct Target<'a> {
    pub(crate) dir: &'a Node,
    pub(crate) name: &'a [u8],
    pub(crate) mode: RenameMode,
    pub(crate) xattrs: &'a dyn Fn(&dfs::Inode) -> Xattrs,
    pub(crate) check: Check<'a>,
}

impl Hidden {
    /// A new file in the hidden directory, and the same file open for writing.
    pub(crate) fn file(bucket: &Bucket) -> Outcome<(Self, dfs::File)> {
        Ok(Self::file_in(bucket.puts()?, drawn_name()?)?)
    }

    /// A new file of this name in a directory below the hidden one, and the same file open for writing.
    pub(crate) fn file_in(dir: Node, name: String) -> esker::types::Result<(Self, dfs::File)> {
        let create = Create { exclusive: true, open: true, ..Create::with_mode(FILE_MODE) };
        let node = dir.create(name.as_bytes(), &create)?;
        Ok((Self(Draft::Entry { dir, name }), node.open(dfs::Open::BOTH)?))
    }

    /// A new small file with this content, which its publication stores.
    pub(crate) fn small_file(content: Vec<Bytes>) -> Self {
        Self(Draft::Content(content))
    }

    /// A new empty directory in the hidden directory of unfinished puts. Only [`Self::publish`] makes it visible as an
    /// object.
    pub(crate) fn directory(bucket: &Bucket) -> Outcome<Self> {
        let (dir, name) = (bucket.puts()?, drawn_name()?);
        dir.mkdir(name.as_bytes(), &Create::with_mode(DIRECTORY_MODE))?;
        Ok(Self(Draft::Entry { dir, name }))
    }

    /// Moves the file or directory to its place, with its extended attributes, if the conditions hold. A small file in
    /// memory replaces another one whatever the mode.
    pub(crate) fn publish(&mut self, target: &Target<'_>) -> esker::types::Result<()> {
        match &self.0 {
            Draft::Entry { dir, name } => target.publish_entry(dir, name.as_bytes())?,
            Draft::Content(content) => target.publish_content(content)?,
            Draft::Published => {}
        }
        self.0 = Draft::Published;
        Ok(())
    }

    /// The name of the file or directory until it is published; empty for a small file in memory.
    pub(crate) fn name(&self) -> &str {
        match &self.0 {
            Draft::Entry { name, .. } => name,
            Draft::Content(_) | Draft::Published => "",
        }
    }

    /// Leaves the file or directory where it is, also if it is not published.
    pub(crate) fn keep(&mut self) {
        self.0 = Draft::Published;
    }

    /// True if the file or directory does not exist any more, although it was not published.
    pub(crate) fn is_removed(&self) -> bool {
        let Draft::Entry { dir, name } = &self.0 else { return false };
        dir.lookup(name.as_bytes()).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}

impl Target<'_> {
    /// Publishes an object whose file is in the hidden directory: renames the file to its key, with attributes and
    /// condition, in one transaction.
    fn publish_entry(&self, from: &Node, name: &[u8]) -> esker::types::Result<()> {
        let rename = Rename { from, name, to: self.dir, new_name: self.name, mode: self.mode };
        Publish { rename, xattrs: self.xattrs, check: self.check }.run()
    }

    /// Publishes a small object, whose content is still in memory: creates the file with content and attributes in one
    /// transaction.
    fn publish_content(&self, content: &[Bytes]) -> esker::types::Result<()> {
        let content: Vec<&[u8]> = content.iter().map(|part| &part[..]).collect();
        let (dir, name, new) = (self.dir, self.name, &Create::with_mode(FILE_MODE));
        let (xattrs, check) = (self.xattrs, self.check);
        PublishNew { dir, name, new, content: &content, xattrs, check }.run()
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let Draft::Entry { dir, name } = &self.0 {
            // After an error, the next open of the bucket removes it.
            let _ = dir.remove_tree(name.as_bytes());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::put::tests::put_small;
    use crate::remove::is_empty;
    use esker::backend::{OpenContainer, Reply, memory::Memory};
    use esker::types::Epoch;
    use esker::types::ops::Change;
    use esker_conformance::between::{Between, Interceptor};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// `esker cont create --type posix` creates the container first.
    #[test]
    fn file_system_that_was_created_after_the_container_was_opened_is_found() {
        let pool = Pool::connect("memory:s3-bucket-late", OpenMode::ReadWrite).unwrap();
        pool.create_container(&NewContainer::named("b")).wait().unwrap();
        let buckets = Buckets::new(pool.clone());
        assert!(matches!(buckets.get("b"), Ok(Opened::Plain(_))));
        let refused = buckets.files("b").err();
        assert!(refused.is_some_and(|fault| fault.is_code("InvalidBucketState")));
        let container = pool.open_container("b", OpenMode::ReadWrite).wait().unwrap();
        Dfs::format(&container, &NewDfs::default()).unwrap();
        assert!(buckets.files("b").is_ok());
        assert!(matches!(buckets.get("b"), Ok(Opened::Files(_))));
    }

    /// The buckets of a new pool in memory, of which some exist.
    fn buckets(pool: &str, names: &[&str]) -> Buckets {
        let pool = Pool::connect(&format!("memory:{pool}"), OpenMode::ReadWrite).unwrap();
        let buckets = Buckets::new(pool);
        names.iter().for_each(|name| buckets.create(name).unwrap());
        buckets
    }

    /// A slow node must not delay requests to buckets on other nodes.
    #[test]
    fn other_buckets_are_opened_and_removed_while_one_is_opened() {
        let buckets = buckets("s3-buckets-slots", &["one", "other"]);
        let other = buckets.with_slot("one", |_| {
            buckets.get("other")?;
            buckets.remove("other", |_| Ok(true))
        });
        other.unwrap();
        assert_eq!(buckets.list().unwrap().len(), 1);
    }

    #[test]
    fn names_without_a_bucket_take_no_slot() {
        let buckets = buckets("s3-buckets-missing", &["removed"]);
        assert!(buckets.get("missing").is_err());
        buckets.remove("removed", |_| Ok(true)).unwrap();
        assert!(lock(&buckets.slots).is_empty());
    }

    /// `esker cont set-prop b label:old`, and a new container `b` with a file.
    fn rename_and_replace(buckets: &Buckets) {
        let container = buckets.pool.open_container("b", OpenMode::ReadWrite).wait().unwrap();
        container.rename(Some("old")).wait().unwrap();
        container.close().wait().unwrap();
        let other = Buckets::new(buckets.pool.clone());
        other.create("b").unwrap();
        put_small(&other.files("b").unwrap(), "k");
    }

    #[test]
    fn container_that_took_the_name_of_an_open_bucket_is_not_removed() {
        let buckets = buckets("s3-buckets-renamed", &["b"]);
        buckets.get("b").unwrap();
        rename_and_replace(&buckets);
        let refused = buckets.remove("b", is_empty).unwrap_err();
        assert!(refused.is_code("BucketNotEmpty"), "{refused:?}");
        let names: Vec<_> = buckets.list().unwrap().into_iter().map(|info| info.label).collect();
        assert_eq!(names, ["b", "old"]);
    }

    #[test]
    fn renamed_container_is_not_changed_by_its_former_name() {
        let mut buckets = buckets("s3-buckets-changed", &["b"]);
        buckets.name_interval = Duration::ZERO;
        buckets.files("b").unwrap();
        rename_and_replace(&buckets);
        assert!(buckets.files("b").unwrap().fs().root().lookup(b"k").is_ok());
    }

    #[test]
    fn destroyed_bucket_is_missing_at_once() {
        let buckets = buckets("s3-buckets-destroyed", &["b"]);
        buckets.get("b").unwrap();
        buckets.pool.destroy_container("b", true).wait().unwrap();
        let missing = buckets.current("b").err().unwrap();
        assert!(missing.is_code("NoSuchBucket"), "{missing:?}");
    }

    #[test]
    fn bucket_named_by_its_uuid_stays_open() {
        let mut buckets = buckets("s3-buckets-uuid", &["b"]);
        buckets.name_interval = Duration::ZERO;
        let uuid = buckets.list().unwrap()[0].uuid.to_string();
        let [one, other] = [(); 2].map(|()| buckets.files(&uuid).unwrap());
        assert!(Arc::ptr_eq(&one.0, &other.0));
    }

    /// Fails all calls once it is lost.
    #[derive(Default)]
    struct Losable(AtomicBool);

    impl Interceptor for Losable {
        fn pass<'a, T: Send + Unpin + 'a>(
            &'a self,
            call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        ) -> Reply<'a, T> {
            if self.0.load(Ordering::Relaxed) {
                return Reply::Ready(Err(ErrorKind::TimedOut.into()));
            }
            call()
        }
    }

    /// Counts the calls of a store.
    #[derive(Default)]
    pub(crate) struct Calls {
        all: AtomicUsize,
        writes: AtomicUsize,
    }

    impl Calls {
        /// Number of changes and commits that `work` makes.
        pub(crate) fn writes_of<T>(&self, work: impl FnOnce() -> T) -> usize {
            let before = self.writes.load(Ordering::Relaxed);
            drop(work());
            self.writes.load(Ordering::Relaxed) - before
        }

        /// Number of all calls that `work` makes.
        pub(crate) fn calls_of<T>(&self, work: impl FnOnce() -> T) -> usize {
            let before = self.all.load(Ordering::Relaxed);
            drop(work());
            self.all.load(Ordering::Relaxed) - before
        }
    }

    impl Interceptor for Calls {
        fn pass<'a, T: Send + Unpin + 'a>(
            &'a self,
            call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        ) -> Reply<'a, T> {
            self.all.fetch_add(1, Ordering::Relaxed);
            call()
        }

        fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            self.pass(move || to.write(change))
        }
    }

    /// A pool in memory with the empty bucket `b`, and the counters of its calls.
    pub(crate) fn counted_buckets() -> (Buckets, Arc<Calls>) {
        let (calls, memory) = (Arc::<Calls>::default(), Arc::new(Memory::new(1)));
        let pool: Arc<dyn esker::backend::Pool> = Arc::new(Between::before(memory, &calls));
        let buckets = Buckets::new(Pool::from_backend(pool, OpenMode::ReadWrite));
        buckets.create("b").unwrap();
        (buckets, calls)
    }

    #[test]
    fn open_bucket_is_used_while_containers_cannot_be_listed() {
        let (node, memory) = (Arc::<Losable>::default(), Arc::new(Memory::new(1)));
        let pool: Arc<dyn esker::backend::Pool> = Arc::new(Between::before(memory, &node));
        let mut buckets = Buckets::new(Pool::from_backend(pool, OpenMode::ReadWrite));
        buckets.name_interval = Duration::ZERO;
        buckets.create("b").unwrap();
        buckets.get("b").unwrap();
        node.0.store(true, Ordering::Relaxed);
        assert!(buckets.current("b").is_ok() && buckets.files("b").is_ok());
        assert!(buckets.remove("b", |_| Ok(true)).is_err());
    }

    #[test]
    fn bucket_in_use_is_not_removed() {
        let buckets = buckets("s3-buckets-used", &["b"]);
        let used = buckets.files("b").unwrap();
        assert!(buckets.remove("b", |_| Ok(true)).is_err());
        drop(used);
        assert!(buckets.remove("b", |_| Ok(false)).is_err());
        buckets.remove("b", |_| Ok(true)).unwrap();
        assert!(buckets.get("b").is_err());
    }
}
