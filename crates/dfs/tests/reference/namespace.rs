//! Sequences performed on a namespace: what a kernel adds to it, descriptors and paths, is done here.
use crate::compare::Tree;
use crate::handle::{Descriptor, Handles};
use crate::paths::{self, Place};
use crate::{whole, words};
use dfs::{Create, Dfs, DirStream, Follow, MountOptions, Node, SetAttr, XattrMode};
use esker::Wait;
use esker::types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Directories above the one that a sequence works in.
const DEPTH: usize = 8;
/// Directories that a sequence can have open.
const STREAMS: usize = 8;

/// A file system that sequences are performed on.
pub(crate) struct Namespace {
    /// Mounts it anew.
    pub mount: Box<dyn Fn() -> Dfs>,
}

/// One sequence in progress.
pub(crate) struct Run {
    pub fs: Dfs,
    /// The directory that paths are relative to, and its absolute path.
    pub base: Node,
    pub base_path: Vec<u8>,
    pub handles: Handles,
    pub streams: [Option<DirStream>; STREAMS],
}

impl Tree for Namespace {
    fn replay(&self, sequence: &[String]) -> Vec<String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("replay-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut run = Run::new((self.mount)(), name.as_bytes()).expect("making a directory");
        let show = |result: Result<String>| match result {
            Ok(said) if said.is_empty() => "ok".to_owned(),
            Ok(said) => format!("ok {said}"),
            Err(error) => format!("errno {}", error.errno()),
        };
        let perform = |line: &String| match line.as_str() {
            // A new mount shows the final tree to a later user.
            "tree" if run.fs.flush().is_err() => "cannot be flushed".to_owned(),
            "tree" => show(whole::show(&(self.mount)(), name.as_bytes(), &run.base_path)),
            line => show(run.perform(line)),
        };
        let results = sequence.iter().map(perform).collect();
        drop(run);
        let fs = (self.mount)();
        fs.root().remove_tree(name.as_bytes()).expect("removing the tree");
        results
    }
}

/// An error of this kind, as the result of an operation.
pub(crate) fn fail<T>(kind: ErrorKind) -> Result<T> {
    Err(Error::from(kind))
}

impl Run {
    fn new(fs: Dfs, name: &[u8]) -> Result<Self> {
        let mut base = fs.root().mkdir(name, &Create::with_mode(0o755))?;
        for _ in 0..DEPTH {
            base = base.mkdir(b"w", &Create::with_mode(0o755))?;
        }
        let base_path = base.path();
        Ok(Self { fs, base, base_path, handles: Handles::default(), streams: Default::default() })
    }

    /// Performs one operation of a sequence. Returns the text of its result, which may be empty.
    fn perform(&mut self, line: &str) -> Result<String> {
        let words: Vec<_> = line.split(' ').collect();
        let performed = self.on_descriptors(&words).or_else(|| self.on_names(&words));
        let performed = performed.or_else(|| self.on_attributes(&words));
        performed.or_else(|| self.on_directories(&words)).expect("an operation")
    }

    /// Performs an operation on descriptors; `None` if `words` are another operation.
    fn on_descriptors(&mut self, words: &[&str]) -> Option<Result<String>> {
        match *words {
            ["open", file, path, flags, mode] => Some(self.open(file, path, flags, mode)),
            ["opendir", ..] | ["utimens", ..] => None,
            [operation, ref arguments @ ..] => self.handles.perform(operation, arguments),
            [] => None,
        }
    }

    /// `open`: finds or creates the file, and stores its descriptor under the number `file`.
    fn open(&mut self, file: &str, path: &str, flags: &str, mode: &str) -> Result<String> {
        let place = self.place(path)?;
        let opened = paths::open(&place, flags, words::octal(mode))?;
        self.handles.put(file, Descriptor::new(opened, flags)?);
        Ok(String::new())
    }

    /// A path of a sequence, and where it starts.
    fn place(&self, word: &str) -> Result<Place> {
        let (from, word) = match word.strip_prefix('@').and_then(|rest| rest.split_once(':')) {
            None => (Some(self.base.clone()), word),
            Some((stream, path)) => (self.stream(stream).map(|stream| stream.node().clone()), path),
        };
        let path = words::decode(word, &self.base_path);
        match from {
            // An absolute path needs no directory, as in the kernel.
            None if path.is_empty() => fail(ErrorKind::NotFound),
            None if path.starts_with(b"/") => Ok(Place { from: self.fs.root(), path }),
            None => fail(ErrorKind::NoHandle),
            Some(from) => Ok(Place { from, path }),
        }
    }

    /// The open directory whose number `word` spells.
    fn stream(&self, word: &str) -> Option<&DirStream> {
        self.streams[words::number::<usize>(word) % STREAMS].as_ref()
    }

    /// The node that a path of a sequence leads to.
    fn find(&self, word: &str, follow: Follow) -> Result<Node> {
        self.place(word)?.resolve(follow)
    }

    /// Performs an operation on names; `None` if `words` are another operation.
    fn on_names(&mut self, words: &[&str]) -> Option<Result<String>> {
        let done = match *words {
            ["mkdir", path, mode] => {
                self.place(path).and_then(|place| paths::mkdir(&place, words::octal(mode)))
            }
            ["rmdir", path] => self.place(path).and_then(|place| paths::rmdir(&place)),
            ["unlink", path] => self.place(path).and_then(|place| paths::unlink(&place)),
            ["rename", from, to, how] => paths::rename(self.place(from), self.place(to), how),
            ["symlink", target, path] => {
                let target = words::decode(target, &self.base_path);
                match target.is_empty() {
                    true => fail(ErrorKind::NotFound),
                    false => self.place(path).and_then(|place| paths::symlink(&place, &target)),
                }
            }
            ["readlink", path] => return Some(self.read_link(path)),
            _ => return None,
        };
        Some(done.map(|()| String::new()))
    }

    /// The target of a symbolic link, as a word of a result.
    fn read_link(&self, path: &str) -> Result<String> {
        let target = self.find(path, Follow::AllButLast)?.read_link()?;
        Ok(words::target(&target, &self.base_path))
    }

    /// Performs an operation on attributes; `None` if `words` are another operation.
    fn on_attributes(&mut self, words: &[&str]) -> Option<Result<String>> {
        Some(match *words {
            ["stat", path] => self.stat(path, Follow::All),
            ["lstat", path] => self.stat(path, Follow::AllButLast),
            ["access", path] => self.find(path, Follow::All).map(|_| String::new()),
            ["chmod", path, mode] => {
                let set = SetAttr { mode: Some(words::octal(mode)), ..SetAttr::default() };
                self.set(path, Follow::All, &set)
            }
            // Linux does not check whether the entry exists.
            ["utimens", _, "omit", _] => Ok(String::new()),
            ["utimens", path, time, how] => {
                let set = SetAttr { mtime: words::time(time), ..SetAttr::default() };
                let follow = if how == "follow" { Follow::All } else { Follow::AllButLast };
                self.set(path, follow, &set)
            }
            ["truncate", path, len] => self.truncate(path, words::number(len)),
            ["setxattr", path, name, len, seed, how] => {
                let value = words::fill(words::number(len), words::number(seed));
                self.set_xattr(path, name, &value, how)
            }
            ["getxattr", path, name, len] => self.get_xattr(path, name, words::number(len)),
            ["listxattr", path] => self.find(path, Follow::All).and_then(|node| {
                let names = node.list_xattrs()?;
                let names: Vec<_> = names.iter().map(|name| words::encode(name)).collect();
                Ok(names.join(","))
            }),
            ["removexattr", path, name] => {
                let node = self.find(path, Follow::All);
                node.and_then(|node| node.remove_xattr(name.as_bytes())).map(|()| String::new())
            }
            _ => return None,
        })
    }

    /// The attributes of a node, as words of a result.
    fn stat(&self, path: &str, follow: Follow) -> Result<String> {
        Ok(words::attr(&self.find(path, follow)?.attr()?))
    }

    /// Sets attributes of a node by its path.
    fn set(&self, path: &str, follow: Follow, set: &SetAttr) -> Result<String> {
        let node = self.find(path, follow)?;
        // Setting no attribute must not change the file.
        if *set != SetAttr::default() {
            node.set_attr(set)?;
        }
        Ok(String::new())
    }

    /// `truncate`: a negative length is an error, as in the kernel.
    fn truncate(&self, path: &str, len: i64) -> Result<String> {
        let Ok(size) = u64::try_from(len) else { return fail(ErrorKind::Invalid) };
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.set(path, Follow::All, &set)
    }

    fn set_xattr(&self, path: &str, name: &str, value: &[u8], how: &str) -> Result<String> {
        let mode = match how {
            "create" => XattrMode::Create,
            "replace" => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        self.find(path, Follow::All)?.set_xattr(name.as_bytes(), value, mode)?;
        Ok(String::new())
    }

    /// Behaves as the kernel: returns the length if the buffer is empty, and an error if the buffer is too small.
    fn get_xattr(&self, path: &str, name: &str, room: usize) -> Result<String> {
        let value = self.find(path, Follow::All)?.get_xattr(name.as_bytes())?;
        match room {
            0 => Ok(value.len().to_string()),
            _ if value.len() > room => fail(ErrorKind::Truncated),
            _ => Ok(words::bytes(&value)),
        }
    }

    /// Performs an operation on open directories; `None` if `words` are another operation.
    fn on_directories(&mut self, words: &[&str]) -> Option<Result<String>> {
        Some(match *words {
            ["opendir", slot, path] => self.open_dir(words::number(slot), path),
            ["closedir", slot] => {
                let stream = self.streams[words::number::<usize>(slot) % STREAMS].take();
                stream.map(|_| String::new()).ok_or_else(|| ErrorKind::NoHandle.into())
            }
            ["list", slot, first] => self.list(words::number(slot), words::number(first)),
            ["statfs", path] => self.find(path, Follow::All).and_then(|node| {
                let space = node.fs().space()?;
                let plain = space.block_size > 0 && space.free <= space.total;
                Ok(if plain { String::new() } else { format!("strange figures: {space:?}") })
            }),
            _ => return None,
        })
    }

    /// `opendir`: stores the stream of a directory under the number `slot`.
    fn open_dir(&mut self, slot: usize, path: &str) -> Result<String> {
        let node = self.find(path, Follow::All)?;
        self.streams[slot % STREAMS] = Some(node.entries()?);
        Ok(String::new())
    }

    /// Lists an open directory: `first` names, then the rest twice, which must agree after a seek back. Returns all
    /// entries.
    fn list(&mut self, slot: usize, first: usize) -> Result<String> {
        let Some(stream) = &mut self.streams[slot % STREAMS] else {
            return fail(ErrorKind::NoHandle);
        };
        stream.seek(0);
        let mut names = some_names(stream, first)?;
        let place = stream.tell();
        let rest = some_names(stream, usize::MAX)?;
        stream.seek(place);
        let again = some_names(stream, usize::MAX)?;
        assert_eq!(rest, again, "told {place}, then sought");
        names.extend(rest);
        names.sort_unstable_by_key(|(name, _)| [name.as_slice(), b":".as_slice()].concat());
        let words = names.iter().map(|(name, kind)| format!("{}:{kind}", words::encode(name)));
        Ok(words.collect::<Vec<_>>().join(","))
    }
}

/// The next entries of a stream, at most `limit`: their names, and letters for their kinds.
fn some_names(stream: &mut DirStream, limit: usize) -> Result<Vec<(Vec<u8>, char)>> {
    let mut names = Vec::new();
    while names.len() < limit {
        let Some(entry) = stream.read()? else { break };
        let kind = words::kind(entry.kind());
        names.push((entry.name, kind));
    }
    Ok(names)
}

/// A file system in a container of its own.
pub(crate) fn make(pool: esker::Pool, label: &str, new: &dfs::NewDfs) -> Namespace {
    let container = esker::backend::NewContainer::named(label);
    Dfs::create_container(&pool, &container, new).expect("creating a file system");
    let label = label.to_owned();
    Namespace {
        mount: Box::new(move || {
            let container = pool.open_container(&label, esker::types::info::OpenMode::ReadWrite);
            Dfs::mount(container.wait().expect("opening"), MountOptions::default())
                .expect("mounting")
        }),
    }
}
