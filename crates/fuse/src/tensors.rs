//! A mounted tensor store: each tensor with a name is a file of HDF5, which is made while it is read.
use crate::answer::{Answer, Refusal, of_number};
use crate::limits::{BACKGROUND_MAX, FRESH, FRESH_SNAPSHOT, REQUEST_BYTES_MAX};
use crate::served::{GENERATION, sized};
use crate::unmount::SERVER_ATTRIBUTE;
use esker::types::{ErrorKind, Result};
use esker_tensors::TensorStore;
use esker_tensors::hdf5::Image;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyXattr, Request,
};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of the directory that is mounted.
const ROOT: u64 = 1;

/// What the names of files end with.
const ENDING: &str = ".h5";

/// A store whose tensors are shown as files.
pub(crate) struct Tensors {
    store: TensorStore,
    fresh: Duration,
    uid: u32,
    gid: u32,
    nodes: Mutex<Nodes>,
    next: AtomicU64,
}

/// What the kernel knows by number.
#[derive(Default)]
struct Nodes {
    by_number: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    /// How often the kernel was told of each, less what it has forgotten.
    known: HashMap<u64, u64>,
    open: HashMap<u64, Arc<Image>>,
}

/// A directory by its path, or a file by its path and the UUID of its tensor: another tensor of the name is another file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    path: String,
    uuid: Option<String>,
}

#[derive(Clone, Debug)]
struct Node {
    key: Key,
    bytes: u64,
    stored: SystemTime,
}

impl Tensors {
    pub(crate) fn new(store: TensorStore, is_snapshot: bool) -> Self {
        let fresh = if is_snapshot { FRESH_SNAPSHOT } else { FRESH };
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let nodes = Mutex::new(Nodes::default());
        let tensors = Self { store, fresh, uid, gid, nodes, next: AtomicU64::new(ROOT) };
        tensors.number(Node::directory(String::new()));
        tensors
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a node, the same each time.
    fn number(&self, node: Node) -> u64 {
        let nodes = &mut *self.nodes();
        let number = *nodes
            .by_key
            .entry(node.key.clone())
            .or_insert_with(|| self.next.fetch_add(1, Ordering::Relaxed));
        nodes.by_number.insert(number, node);
        *nodes.known.entry(number).or_default() += 1;
        number
    }

    /// The kernel has forgotten a number `times` times.
    fn forget_node(&self, number: u64, times: u64) {
        let nodes = &mut *self.nodes();
        let Some(known) = nodes.known.get_mut(&number) else { return };
        *known = known.saturating_sub(times);
        if *known == 0 && number != ROOT {
            nodes.known.remove(&number);
            if let Some(node) = nodes.by_number.remove(&number) {
                nodes.by_key.remove(&node.key);
            }
        }
    }

    fn node(&self, number: u64) -> Answer<Node> {
        self.nodes().by_number.get(&number).cloned().ok_or(Errno::ESTALE.into())
    }

    fn directory(&self, number: u64) -> Answer<String> {
        let Key { path, uuid } = self.node(number)?.key;
        if uuid.is_none() { Ok(path) } else { Err(Errno::ENOTDIR.into()) }
    }

    /// The names in a directory, those of directories with a `/` at the end.
    fn names(&self, path: &str) -> Result<BTreeSet<String>> {
        let names = self.store.list()?.into_iter().filter_map(|one| one.name);
        let inner = names.filter_map(|name| Some(name.strip_prefix(path)?.to_owned()));
        let shown = inner.map(|name| match name.split_once('/') {
            Some((directory, _)) => format!("{directory}/"),
            None => format!("{name}{ENDING}"),
        });
        Ok(shown.filter(|name| !matches!(name.as_str(), "/" | "./" | "../")).collect())
    }

    fn find(&self, parent: u64, name: &OsStr) -> Answer<FileAttr> {
        let path = self.directory(parent)?;
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        if let Some(stem) = name.strip_suffix(ENDING) {
            match self.file(&format!("{path}{stem}")) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {}
                found => return Ok(self.shown(found?)),
            }
        }
        match self.names(&path)?.contains(&format!("{name}/")) {
            true => Ok(self.shown(Node::directory(format!("{path}{name}/")))),
            false => Err(Errno::ENOENT.into()),
        }
    }

    fn file(&self, name: &str) -> Result<Node> {
        let tensor = self.store.open_tensor(name)?;
        let key = Key { path: name.to_owned(), uuid: Some(tensor.uuid().to_string()) };
        Ok(Node { key, bytes: Image::new(&tensor)?.bytes(), stored: tensor.committed() })
    }

    fn open_file(&self, number: u64) -> Answer<u64> {
        let uuid = self.node(number)?.key.uuid.ok_or(Errno::EISDIR)?;
        let image =
            of_number(self.store.open_tensor(&uuid).and_then(|tensor| Image::new(&tensor)))?;
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.nodes().open.insert(handle, Arc::new(image));
        Ok(handle)
    }

    fn read_file(&self, handle: u64, at: u64, bytes: u32) -> Answer<Vec<u8>> {
        let image = self.nodes().open.get(&handle).cloned().ok_or(Errno::EBADF)?;
        let bytes = u64::from(bytes).min(image.bytes().saturating_sub(at));
        let mut buffer = vec![0; bytes as usize];
        image.read(at, &mut buffer)?;
        Ok(buffer)
    }

    fn entries(&self, number: u64) -> Answer<Vec<(u64, FileType, String)>> {
        let path = self.directory(number)?;
        let dots = [".", ".."].map(|name| (number, FileType::Directory, name.to_owned()));
        // Numbers of files are those that a look for them gives; programs look before they use one.
        let entry = |name: String| match name.strip_suffix('/') {
            Some(name) => (u64::MAX, FileType::Directory, name.to_owned()),
            None => (u64::MAX, FileType::RegularFile, name),
        };
        Ok(dots.into_iter().chain(self.names(&path)?.into_iter().map(entry)).collect())
    }

    fn shown(&self, node: Node) -> FileAttr {
        let number = self.number(node.clone());
        self.attributes(number, &node)
    }

    fn attributes(&self, number: u64, node: &Node) -> FileAttr {
        let (kind, perm, nlink) = match node.key.uuid {
            Some(_) => (FileType::RegularFile, 0o444, 1),
            None => (FileType::Directory, 0o555, 2),
        };
        let (uid, gid, stored) = (self.uid, self.gid, node.stored);
        FileAttr {
            ino: INodeNo(number),
            size: node.bytes,
            blocks: node.bytes.div_ceil(512),
            atime: stored,
            mtime: stored,
            ctime: stored,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink,
            uid,
            gid,
            rdev: 0,
            blksize: REQUEST_BYTES_MAX,
            flags: 0,
        }
    }
}

impl Node {
    fn directory(path: String) -> Self {
        Self { key: Key { path, uuid: None }, bytes: 0, stored: UNIX_EPOCH }
    }
}

impl Filesystem for Tensors {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_background(BACKGROUND_MAX);
        let _ = config.set_max_readahead(REQUEST_BYTES_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent.0, name) {
            Ok(attr) => reply.entry(&self.fresh, &attr, GENERATION),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.forget_node(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino.0) {
            Ok(node) => reply.attr(&self.fresh, &self.attributes(ino.0, &node)),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(ino.0) {
            // A tensor does not change.
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_file(fh.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(Refusal(errno)) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        drop(self.nodes().open.remove(&fh.0));
        reply.ok();
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let is_server = ino.0 == ROOT && name == SERVER_ATTRIBUTE;
        let server = || std::process::id().to_string().into_bytes();
        sized(reply, size, if is_server { Ok(server()) } else { Err(Errno::EOPNOTSUPP.into()) });
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.entries(ino.0) {
            Ok(entries) => entries,
            Err(Refusal(errno)) => return reply.error(errno),
        };
        for (at, (number, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(INodeNo(number), at, kind, &name) {
                break;
            }
        }
        reply.ok();
    }
}
