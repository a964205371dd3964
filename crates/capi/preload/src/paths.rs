//! Paths: whether they are in the mount point, and the nodes they name.
use crate::answer::{Answer, Fail, refuse};
use crate::limits::{LINKS_MAX, PATH_MAX};
use crate::{config, cwd, descriptors, mounted, raw};
use dfs::{Attr, Create, Follow, Kind, Resolved};
use esker::types::ErrorKind;
use esker_preload_interface::{Dfs, Node};
use std::borrow::Cow;
use std::ffi::{CString, c_int};
use std::sync::Arc;

/// True for a path in the mount point: an absolute one that begins with it, or one relative to a
/// directory in it. Accesses no file and allocates no memory, unless the path contains `..`.
#[inline]
pub(crate) fn is_ours(dir: c_int, path: &[u8]) -> bool {
    match path {
        [] => false,
        [b'/', b'/' | b'.', ..] => inside(path).is_some(),
        [b'/', ..] => below_mount(path).is_some() || (has_detour(path) && inside(path).is_some()),
        _ if dir == libc::AT_FDCWD && cwd::is_ours() => true,
        _ if descriptors::is_ours(dir) => true,
        _ => may_lead_in(path) && from_above(dir, path).is_some(),
    }
}

/// True if a relative path may lead into the mount point: it begins with `..`, or with a name of the mount point's
/// path. Programs that walk down from the root, one directory at a time, use such names.
fn may_lead_in(path: &[u8]) -> bool {
    let is_name = |part: &&[u8]| !matches!(*part, b"" | b".");
    let first = path.split(|byte| *byte == b'/').find(is_name).unwrap_or_default();
    if first == b".." {
        return true;
    }
    config::get().mount.split(|byte| *byte == b'/').any(|name| name == first && !name.is_empty())
}

/// The absolute form of a path relative to `dir`, a directory outside the mount point, if the path leads into it.
#[cold]
fn from_above(dir: c_int, path: &[u8]) -> Option<Vec<u8>> {
    let link = match dir {
        libc::AT_FDCWD => CString::new("/proc/self/cwd"),
        _ => CString::new(format!("/proc/self/fd/{dir}")),
    };
    if dir != libc::AT_FDCWD && raw::status(dir).ok()?.st_mode & libc::S_IFMT != libc::S_IFDIR {
        return None;
    }
    let mut room = [0; PATH_MAX];
    let base = raw::read_link(&link.ok()?, &mut room).ok()?;
    let whole = [base, b"/", path].concat();
    inside(&whole).is_some().then_some(whole)
}

/// Returns the part of a path after the mount point, without resolving anything. `None` if the path does not begin with
/// the mount point.
pub(crate) fn below_mount(path: &[u8]) -> Option<&[u8]> {
    let mount = &*config::get().mount;
    let rest = path.strip_prefix(mount).filter(|_| !mount.is_empty())?;
    (rest.is_empty() || rest[0] == b'/').then_some(rest)
}

/// True if a path has `..` after its first name.
fn has_detour(path: &[u8]) -> bool {
    path.windows(3).any(|part| part == b"/..")
}

/// The rest of an absolute path after the name by which it enters the mount point. `.` and `..` are resolved by the
/// text alone only above the mount point, because below it are links.
#[cold]
fn inside(path: &[u8]) -> Option<&[u8]> {
    let is_name = |part: &&[u8]| !part.is_empty();
    let mount: Vec<&[u8]> =
        config::get().mount.split(|byte| *byte == b'/').filter(is_name).collect();
    let (mut parts, mut end) = (Vec::new(), 0);
    for part in path.split(|byte| *byte == b'/') {
        end += part.len();
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
        if parts == mount && !mount.is_empty() {
            return Some(&path[end..]);
        }
        end += 1;
    }
    None
}

/// An absolute path without `.`, `..` and double slashes, by its text alone. A trailing slash stays.
pub(crate) fn plain(path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut plain: Vec<u8> = parts.iter().flat_map(|part| [b"/", *part].concat()).collect();
    if plain.is_empty() || path.ends_with(b"/") {
        plain.push(b'/');
    }
    plain
}

/// A path in the mount point.
pub(crate) struct MountPath<'a> {
    fs: Arc<Dfs>,
    base: Node,
    path: Cow<'a, [u8]>,
    /// True if its last name was `..`, which has been resolved.
    climbed: bool,
}

/// The last part of a path.
pub(crate) struct Last {
    /// Its directory.
    pub dir: Node,
    /// Its name there; empty for the mount point itself.
    pub name: Vec<u8>,
    /// True if a trailing slash demands a directory.
    pub slash: bool,
}

impl Last {
    /// True if it names no entry that could be created, renamed or removed.
    pub(crate) fn is_special(&self) -> bool {
        matches!(&*self.name, b"" | b"." | b"..")
    }

    /// The node of that name, if it exists.
    ///
    /// # Errors
    /// Errors of the backend.
    pub(crate) fn find(&self) -> Answer<Option<Node>> {
        match self.dir.lookup(&self.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => Ok(Some(found?)),
        }
    }
}

impl<'a> MountPath<'a> {
    /// Makes a value of a path for which [`is_ours`] is true.
    pub(crate) fn new(dir: c_int, path: &'a [u8]) -> Answer<Self> {
        if path.len() >= PATH_MAX {
            return refuse(libc::ENAMETOOLONG);
        }
        let fs = mounted::get()?;
        let (base, path) = match path {
            [b'/', ..] => (fs.root()?, Cow::Borrowed(absolute(path))),
            _ if dir == libc::AT_FDCWD && cwd::is_ours() => (cwd::node()?, Cow::Borrowed(path)),
            _ if descriptors::is_ours(dir) => (descriptors::get(dir)?.node()?, Cow::Borrowed(path)),
            _ => {
                let whole = from_above(dir, path).unwrap_or_default();
                (fs.root()?, Cow::Owned(absolute(&whole).to_vec()))
            }
        };
        Self { fs, base, path, climbed: false }.without_detours()
    }

    /// Creates the path `path` relative to the directory `base`.
    pub(crate) fn below(base: &Node, path: Vec<u8>) -> Answer<Self> {
        let (fs, base) = (mounted::get()?, base.clone());
        Self { fs, base, path: Cow::Owned(path), climbed: false }.without_detours()
    }

    /// The same path with each `..` resolved. A path that leaves the mount point continues outside.
    fn without_detours(mut self) -> Answer<Self> {
        for _ in 0..PATH_MAX {
            let Some((before, after)) = split_at_parent(&self.path) else { return Ok(self) };
            let (before, after) = (before.to_vec(), after.to_vec());
            let dir = if before.is_empty() {
                self.base.clone()
            } else {
                self.directory_or_outside(&before, &after)?
            };
            if dir.kind() != Kind::Directory {
                return refuse(libc::ENOTDIR);
            }
            self.climbed = after.is_empty();
            let rest = if after.is_empty() { b".".to_vec() } else { after };
            let Some(above) = dir.parent()? else { return self.out(&rest) };
            (self.base, self.path) = (above, Cow::Owned(rest));
        }
        refuse(libc::ELOOP)
    }

    /// The directory that `path` names. If it is outside, `rest` continues there.
    fn directory_or_outside(&self, path: &[u8], rest: &[u8]) -> Answer<Node> {
        match self.fs.resolve_step(&self.base, path, Follow::All)? {
            Resolved::Node(node) => Ok(node),
            Resolved::Outside(path) => Err(Fail::Outside([&path, &b"/../"[..], rest].concat())),
        }
    }

    /// Continues with `rest` in the directory that contains the mount point, because `..` has left the mount point. If
    /// `rest` leads back in, the path starts anew at the root. Otherwise, fails with [`Fail::Outside`].
    fn out(mut self, rest: &[u8]) -> Answer<Self> {
        let mount = &*config::get().mount;
        let above =
            mount.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |at| &mount[..at]);
        let host = [above, b"/", rest].concat();
        match inside(&host) {
            Some(_) => {
                self.path = Cow::Owned(absolute(&host).to_vec());
                self.base = self.fs.root()?;
                Ok(self)
            }
            None => Err(Fail::Outside(host)),
        }
    }

    /// The node that the path names.
    ///
    /// # Errors
    /// Errors of path resolution; [`Fail::Outside`] if a symbolic link leads out.
    #[inline(never)]
    pub(crate) fn node(&self, follow: Follow) -> Answer<Node> {
        match self.fs.resolve_step(&self.base, &self.path, follow)? {
            Resolved::Node(node) => Ok(node),
            Resolved::Outside(path) => Err(Fail::Outside(path)),
        }
    }

    /// Calls `work` with the node that the path names. If the node was replaced meanwhile, retries with the new one.
    ///
    /// # Errors
    /// The errors of [`MountPath::node`] and of `work`.
    pub(crate) fn with_node<T>(
        &self,
        follow: Follow,
        work: impl Fn(Node) -> Answer<T>,
    ) -> Answer<T> {
        find_and(|| self.node(follow), work)
    }

    /// The attributes of the node that the path names.
    ///
    /// # Errors
    /// The errors of [`MountPath::node`].
    pub(crate) fn attr(&self, follow: Follow) -> Answer<Attr> {
        match self.fs.attr_step(&self.base, &self.path, follow)? {
            Resolved::Node(attr) => Ok(attr),
            Resolved::Outside(path) => Err(Fail::Outside(path)),
        }
    }

    /// Creates a file of this name, if that takes a single message (see `dfs::Dfs::create_by_known_path`). `None` if
    /// not: then the caller resolves the path first. `new` returns the attributes of an entry in a directory.
    ///
    /// # Errors
    /// The errors of [`Node::create`].
    pub(crate) fn create_by_known_path(
        &self,
        new: impl Fn(&Node) -> Create,
    ) -> Answer<Option<Node>> {
        match self.climbed {
            true => Ok(None),
            false => Ok(self.fs.create_by_known_path(&self.base, &self.path, &new)?),
        }
    }

    /// Removes the file of this name, if that takes a single message (see `dfs::Dfs::unlink_by_known_path`). False if
    /// not: then the caller resolves the path first.
    ///
    /// # Errors
    /// The errors of [`Node::unlink`].
    pub(crate) fn unlink_by_known_path(&self) -> Answer<bool> {
        match self.climbed {
            true => Ok(false),
            false => Ok(self.fs.unlink_by_known_path(&self.base, &self.path)?),
        }
    }

    /// The directory of the path's last part, and its name. A path that ends in `..` has no name of its own, so it gets
    /// that one.
    ///
    /// # Errors
    /// The errors of [`MountPath::node`].
    pub(crate) fn last(&self) -> Answer<Last> {
        match self.fs.resolve_parent_step(&self.base, &self.path)? {
            Resolved::Node((dir, name)) => {
                let name = if self.climbed { b"..".to_vec() } else { name };
                Ok(Last { dir, name, slash: self.must_be_directory() })
            }
            Resolved::Outside(path) => Err(Fail::Outside(path)),
        }
    }

    /// True if a trailing slash says that it must be a directory.
    pub(crate) fn must_be_directory(&self) -> bool {
        self.path.ends_with(b"/")
    }

    /// The path to which a symbolic link at the end of this path leads, for creating its target. `links` is the number
    /// of links followed so far.
    pub(crate) fn behind(&self, link: &Node, links: usize) -> Answer<MountPath<'static>> {
        if links >= LINKS_MAX {
            return refuse(libc::ELOOP);
        }
        let target = link.read_link()?;
        match target.first() {
            Some(b'/') => match inside(&target) {
                Some(_) => MountPath::below(&self.fs.root()?, absolute(&target).to_vec()),
                None => Err(Fail::Outside(target)),
            },
            _ => MountPath::below(link.parent()?.as_ref().unwrap_or(&self.base), target),
        }
    }
}

/// Finds a node by its path and runs `work` on it. If the node lost its name in between, tries again with the node that
/// has the name now.
///
/// # Errors
/// The errors of `find` and `work`.
pub(crate) fn find_and<T>(
    find: impl Fn() -> Answer<Node>,
    work: impl Fn(Node) -> Answer<T>,
) -> Answer<T> {
    dfs::find_any_and(find, Node::oid, work, Fail::is_missing)
}

/// The path from the root of the file system, for an absolute path in the mount point. The common case needs no more
/// than [`below_mount`]; [`inside`] handles `.`, `..` and double slashes above the mount point.
fn absolute(path: &[u8]) -> &[u8] {
    let rest = below_mount(path).or_else(|| inside(path));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(b"/")
}

/// The parts of a path before and after its first `..`, without the slashes behind it. `None` if it has no `..`.
fn split_at_parent(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if !path.windows(2).any(|two| two == b"..") {
        return None;
    }
    let mut start = 0;
    for part in path.split(|byte| *byte == b'/') {
        let end = start + part.len();
        if part == b".." {
            let after = path[end..].iter().position(|byte| *byte != b'/');
            return Some((&path[..start], after.map_or(&[], |after| &path[end + after..])));
        }
        start = end + 1;
    }
    None
}

/// The path of a node as programs see it.
pub(crate) fn shown(path: &[u8]) -> Vec<u8> {
    let mount = &*config::get().mount;
    if path == b"/" { mount.to_vec() } else { [mount, path].concat() }
}
