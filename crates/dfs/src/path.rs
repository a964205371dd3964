//! Path resolution.
use crate::attr::Attr;
use crate::inode::Kind;
use crate::limits::{LINKS_MAX, PATH_MAX, RETRIES_MAX, SAME_MAX};
use crate::mount::Dfs;
use crate::node::Node;
use crate::prefetch::Prefetch;
use esker::Access;
use esker::types::{Error, ErrorKind, ObjectId, Result};

/// Whether to follow a symbolic link at the end of a path. Others are always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Follow it.
    All,
    /// Do not follow it (POSIX: `lstat`, `O_NOFOLLOW`).
    AllButLast,
}

/// The result of resolving a path.
#[derive(Clone)]
pub enum Resolved<T = Node> {
    /// A node, or the requested attribute of it.
    Node(T),
    /// A symbolic link leads out of the file system, to this path of the host.
    Outside(Vec<u8>),
}

/// The last name of a path and its directory.
#[derive(Clone)]
pub enum Parent {
    /// An entry of a directory; the name may be `.` or `..`, and is empty for the root. A trailing slash is kept.
    Entry(Node, Vec<u8>),
    /// A symbolic link leads out of the file system, to this path of the host.
    Outside(Vec<u8>),
}

impl Dfs {
    /// Resolves a path, relative to `base`, to a node. `..` is the parent directory, and the parent of the root is the
    /// root. The node has its current inode, unless the path ends at `base` or at a directory above it. In that case,
    /// it has the inode of an earlier look-up, except for the root.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], also for a symbolic link that leads out of the file system;
    /// [`ErrorKind::NotDirectory`] if a name in the path is not a directory; [`ErrorKind::Loop`] after [`LINKS_MAX`]
    /// links; [`ErrorKind::NameTooLong`].
    pub fn resolve(&self, base: &Node, path: &[u8], follow: Follow) -> Result<Node> {
        match self.walk(Walk::new(self, base, path), follow, |walk| walk.end())? {
            Resolved::Node(node) => Ok(node),
            Resolved::Outside(path) => Err(leads_out_error(&path)),
        }
    }

    /// [`Dfs::resolve`] that returns the target of a path that leaves the file system.
    ///
    /// # Errors
    /// The errors of [`Dfs::resolve`].
    pub fn resolve_step(&self, base: &Node, path: &[u8], follow: Follow) -> Result<Resolved> {
        self.walk(Walk::new(self, base, path), follow, |walk| Ok(walk.node))
    }

    /// The attributes of what a path names, or the target of a path that leaves the file system. At least one read less
    /// than [`Dfs::resolve_step`] and [`Node::attr`] if the last step was a lookup.
    ///
    /// # Errors
    /// The errors of [`Dfs::resolve`].
    pub fn attr_step(&self, base: &Node, path: &[u8], follow: Follow) -> Result<Resolved<Attr>> {
        let attempt = || {
            let walk = Walk { with_size: true, ..Walk::new(self, base, path) };
            self.walk(walk, follow, |walk| Ok(walk.attr()))
        };
        let mut found = attempt()?;
        for _ in 1..SAME_MAX {
            // Another process may have replaced the entry between the lookup and the read of the size.
            match &found {
                Resolved::Node(Err(error)) if error.kind() == ErrorKind::NotFound => {
                    found = attempt()?
                }
                _ => break,
            }
        }
        match found {
            Resolved::Node(attr) => attr.map(Resolved::Node),
            Resolved::Outside(path) => Ok(Resolved::Outside(path)),
        }
    }

    /// Walks along a path, and calls `end` for the last name in it.
    fn walk<T>(
        &self,
        mut walk: Walk<'_>,
        follow: Follow,
        end: impl FnOnce(Walk<'_>) -> Result<T>,
    ) -> Result<Resolved<T>> {
        check_path(walk.path)?;
        let must_be_directory = walk.path.ends_with(b"/");
        walk.prefetch();
        while let Some(name) = walk.names.pop() {
            let last = walk.names.is_empty() && !must_be_directory;
            if let Some(mut outside) = walk.step(&name, !last || follow == Follow::All)? {
                outside.extend(must_be_directory.then_some(b'/'));
                return Ok(Resolved::Outside(outside));
            }
        }
        if must_be_directory {
            walk.node.directory()?;
        }
        end(walk).map(Resolved::Node)
    }

    /// The parent directory of a path and its last name, to create, rename and remove entries.
    ///
    /// # Errors
    /// The errors of [`Dfs::resolve`]; [`ErrorKind::NotFound`] for an empty path and for links that lead out.
    pub fn resolve_parent<'p>(&self, base: &Node, path: &'p [u8]) -> Result<(Node, &'p [u8])> {
        let (above, name) = split_last(path)?;
        let dir = match self.resolve_step(base, above, Follow::All)? {
            Resolved::Node(dir) => dir,
            Resolved::Outside(path) => return Err(leads_out_error(&path)),
        };
        dir.directory()?;
        Ok((dir, name))
    }

    /// [`Dfs::resolve_parent`] that returns the target of a path that leaves the file system.
    ///
    /// # Errors
    /// The errors of [`Dfs::resolve_parent`].
    pub fn resolve_parent_step(&self, base: &Node, path: &[u8]) -> Result<Parent> {
        let (above, name) = split_last(path)?;
        let must_be_directory = path.ends_with(b"/");
        match self.resolve_step(base, above, Follow::All)? {
            Resolved::Node(dir) => {
                dir.directory()?;
                Ok(Parent::Entry(dir, name.to_vec()))
            }
            Resolved::Outside(mut path) => {
                path.push(b'/');
                path.extend_from_slice(name);
                path.extend(must_be_directory.then_some(b'/'));
                Ok(Parent::Outside(path))
            }
        }
    }
}

/// Splits off the last name; trailing slashes are dropped.
pub(crate) fn split_last(path: &[u8]) -> Result<(&[u8], &[u8])> {
    check_path(path)?;
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (above, name) = (&path[..start], &path[start..end]);
    let above = match (above.is_empty(), name.is_empty()) {
        (_, true) => b"/",
        // A path without a directory is in the one it is relative to.
        (true, false) => b".",
        (false, false) => above,
    };
    Ok((above, name))
}

/// Refuses the empty path and one that is too long.
fn check_path(path: &[u8]) -> Result<()> {
    match path.len() {
        0 => Err(Error::new(ErrorKind::NotFound, "an empty path names nothing")),
        1..PATH_MAX => Ok(()),
        len => Err(Error::new(
            ErrorKind::NameTooLong,
            format!("a path of {len} bytes: paths are shorter than {PATH_MAX} bytes (PATH_MAX)"),
        )),
    }
}

#[cold]
fn leads_out_error(path: &[u8]) -> Error {
    let path = String::from_utf8_lossy(path);
    Error::new(
        ErrorKind::NotFound,
        format!("a symbolic link leads to {path}, out of the file system"),
    )
}

/// A path that is being resolved.
struct Walk<'a> {
    fs: &'a Dfs,
    path: &'a [u8],
    node: Node,
    /// The node was looked up by this walk, so its inode is current.
    was_found: bool,
    /// The remaining names, the next one last.
    names: Vec<Vec<u8>>,
    links: usize,
    /// The size of a file at the end is wanted.
    with_size: bool,
    prefetch: Prefetch,
}

impl<'a> Walk<'a> {
    /// A walk from the root if `path` is absolute, otherwise from `base`. The walk has not begun: no name of it has
    /// been looked up.
    fn new(fs: &'a Dfs, base: &Node, path: &'a [u8]) -> Self {
        let node = if path.starts_with(b"/") { fs.root() } else { base.clone() };
        let (names, prefetch) = (Vec::new(), Prefetch::default());
        let mut walk =
            Self { fs, path, node, was_found: false, names, links: 0, with_size: false, prefetch };
        walk.push(path);
        walk
    }

    /// Over the network, fetches the entries of all names of the path at once.
    fn prefetch(&mut self) {
        let names = self.names.iter().rev().map(Vec::as_slice);
        self.prefetch = Prefetch::fetch(&self.node, names, self.with_size);
    }

    /// The attributes of the node reached.
    fn attr(self) -> Result<Attr> {
        match self.was_found {
            true => self.prefetch.attr_of(&self.node),
            false => self.node.attr(),
        }
    }

    /// The node at which the walk ends. The root is read again, because no lookup of an entry has read its inode.
    fn end(self) -> Result<Node> {
        if self.node.parent().is_none() { self.node.refresh_root() } else { Ok(self.node) }
    }

    /// Adds the names of `path` in front of the remaining ones.
    fn push(&mut self, path: &[u8]) {
        let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        self.names.extend(names.rev().map(<[u8]>::to_vec));
    }

    /// Moves to the entry `name` of the current node, and through it if it is a symbolic link and `follow` is set.
    /// Returns the target if that leads out of the file system.
    fn step(&mut self, name: &[u8], follow: bool) -> Result<Option<Vec<u8>>> {
        self.node.directory()?;
        match name {
            b"." => {}
            b".." => match (self.node.parent().cloned(), self.fs.mount_point()) {
                (None, Some(mount_point)) => {
                    let end = mount_point.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    return Ok(self.go_outside(&mount_point[..end]));
                }
                (parent, _) => self.set_node(parent.unwrap_or_else(|| self.node.clone())),
            },
            _ => {
                let found = self.find(name)?;
                if found.kind() == Kind::Symlink && follow {
                    return self.follow(&found);
                }
                (self.node, self.was_found) = (found, true);
            }
        }
        Ok(None)
    }

    /// The entry of this name in the current node. On a local pool, a directory inside the path comes from the cache.
    fn find(&mut self, name: &[u8]) -> Result<Node> {
        let continues = !self.names.is_empty() || self.path.ends_with(b"/");
        match continues && !self.fs.mounted().is_slow() {
            true => lookup_directory(&self.node, name),
            false => self.prefetch.lookup(&self.node, name),
        }
    }

    /// Moves to a node that this walk did not look up, so that its inode may be outdated.
    fn set_node(&mut self, node: Node) {
        (self.node, self.was_found) = (node, false);
    }

    /// Follows a symbolic link. Returns the path if it leads out of the file system; `None` if the walk goes on.
    fn follow(&mut self, link: &Node) -> Result<Option<Vec<u8>>> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Error::new(
                ErrorKind::Loop,
                format!("a path leads through more than {LINKS_MAX} symbolic links (LINKS_MAX)"),
            ));
        }
        let target = link.read_link()?;
        if target.ends_with(b"/") {
            // The target must be a directory, whatever follows.
            self.names.push(b".".to_vec());
        }
        if !target.starts_with(b"/") {
            self.push(&target);
            return Ok(None);
        }
        if self.fs.mount_point().is_none() {
            // Then `/` is the root of the file system.
            self.set_node(self.fs.root());
            self.push(&target);
            return Ok(None);
        }
        Ok(self.go_outside(&target))
    }

    /// Continues at an absolute path, which a symbolic link gave. If it leads to or below the mount point, the walk
    /// goes on from the root, and the result is `None`; otherwise the walk leaves the file system, and the result is
    /// the path with the names that were left.
    fn go_outside(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        self.push(path);
        let is_name = |name: &&[u8]| !name.is_empty();
        let mount_point = self.fs.mount_point().unwrap_or_default();
        let wanted: Vec<_> = mount_point.split(|byte| *byte == b'/').filter(is_name).collect();
        let mut outside: Vec<&[u8]> = Vec::new();
        for (left, name) in self.names.iter().enumerate().rev() {
            match name.as_slice() {
                b"." => {}
                b".." => drop(outside.pop()),
                name => outside.push(name),
            }
            if outside == wanted {
                self.names.truncate(left);
                self.set_node(self.fs.root());
                return None;
            }
        }
        Some(self.names.iter().rev().flat_map(|name| [b"/", name.as_slice()].concat()).collect())
    }
}

/// The entry of this name, for a path that continues after it.
///
/// # Errors
/// The errors of [`Node::lookup`].
fn lookup_directory(dir: &Node, name: &[u8]) -> Result<Node> {
    let (fs, cache) = (dir.fs(), &dir.fs().mounted().directory_cache);
    let found = match fs.view() {
        Access::Latest => cache.directory(fs.container(), (dir.oid(), name))?,
        _ => None,
    };
    found.map_or_else(|| dir.lookup(name), |inode| dir.child(name, inode))
}

/// Finds a node by its path and runs `work` on it. If the node lost its name in between, tries again with the node that
/// has the name now: a name that a rename replaces always exists (POSIX: `rename`). `is_missing` recognizes the error
/// for a missing entry.
///
/// # Errors
/// Errors of `find` and `work`; that of `work` if `find` returns the same node [`SAME_MAX`] times, or other processes
/// replaced it [`RETRIES_MAX`] times.
pub fn find_and<T, E>(
    find: impl Fn() -> std::result::Result<Node, E>,
    work: impl Fn(Node) -> std::result::Result<T, E>,
    is_missing: impl Fn(&E) -> bool,
) -> std::result::Result<T, E> {
    find_any_and(find, Node::oid, work, is_missing)
}

/// Like [`find_and`], with nodes of another type, whose objects `oid` names. If the same object is missing `SAME_MAX`
/// times in a row, the error is returned.
///
/// # Errors
/// Errors of [`find_and`].
pub fn find_any_and<N, T, E>(
    find: impl Fn() -> std::result::Result<N, E>,
    oid: impl Fn(&N) -> ObjectId,
    work: impl Fn(N) -> std::result::Result<T, E>,
    is_missing: impl Fn(&E) -> bool,
) -> std::result::Result<T, E> {
    let (mut before, mut times) = (None, 0);
    for _ in 1..RETRIES_MAX {
        let node = find()?;
        let found = Some(oid(&node));
        times = if found == before { times + 1 } else { 1 };
        match work(node) {
            Err(error) if is_missing(&error) && times < SAME_MAX => before = found,
            result => return result,
        }
    }
    work(find()?)
}
