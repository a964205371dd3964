//! The file system in a container, accessed by paths.
use crate::call::call;
use crate::container::Container;
use crate::file::File;
use crate::pool::Pool;
use crate::store_name;
use crate::text;
use dfs::limits::LINKS_MAX;
use dfs::{
    Anchor, Attr, Create, Dfs, Follow, Kind, MountOptions, Node, Open, Rename, RenameMode, SetAttr,
    Time,
};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Number of directory entries listed at a time.
const LIST_BATCH: usize = 1024;

/// The file system in a container: FileSystem(container, read_only=False).
///
/// `container` is a Container, or the name "POOL/CONTAINER" of one, which is opened in the mode that is needed.
/// The container must have been created with `posix=True`, or by `esker cont create --type posix`. Paths start at its
/// root, with or without a slash. With a container at a snapshot, it shows the files at that time. Times are in
/// seconds since 1970, sizes in bytes.
#[pyclass(frozen, module = "esker")]
pub(crate) struct FileSystem {
    container: Py<Container>,
    fs: Dfs,
}

/// A file of `rename_all`: its path, its new path, and whether it may replace another there.
#[derive(FromPyObject)]
enum RenamedFile {
    /// The third element says it.
    Triple(PathBuf, PathBuf, bool),
    /// The argument `replace` says it.
    Pair(PathBuf, PathBuf),
}

impl RenamedFile {
    fn parts(&self, replace: bool) -> (&Path, &Path, RenameMode) {
        let (old, new, replaces) = match self {
            Self::Triple(old, new, replaces) => (old, new, *replaces),
            Self::Pair(old, new) => (old, new, replace),
        };
        (old, new, if replaces { RenameMode::Replace } else { RenameMode::NoReplace })
    }
}

impl FileSystem {
    /// The node at a path. Without `follow`, a symbolic link at its end is not followed.
    fn node(&self, path: &Path, follow: bool) -> Result<Node> {
        let follow = if follow { Follow::All } else { Follow::AllButLast };
        self.fs.resolve(&self.fs.root(), path.as_os_str().as_bytes(), follow)
    }

    /// The directory of a path's last component, and that component.
    fn parent<'p>(&self, path: &'p Path) -> Result<(Node, &'p [u8])> {
        self.fs.resolve_parent(&self.fs.root(), path.as_os_str().as_bytes())
    }

    /// The attributes of the node at a path.
    fn attr(&self, path: &Path, follow: bool) -> Result<Attr> {
        self.node(path, follow)?.attr_as_found()
    }

    /// Opens the file at `path`, which is created if it is missing and `new` is given.
    fn opened(&self, path: &Path, open: Open, new: Option<Create>) -> Result<dfs::File> {
        let find = || match (self.node(path, true), new) {
            (Ok(_), Some(new)) if new.exclusive => Err(exists_error(path)),
            (Err(error), Some(new)) if is_missing(&error) => {
                self.created(path, &Create { open: true, ..new })
            }
            (found, _) => found,
        };
        dfs::find_and(find, |node| node.open(open), is_missing)
    }

    /// Creates a file at `path`, or where a symbolic link there leads. Returns a file that exists by then.
    fn created(&self, path: &Path, new: &Create) -> Result<Node> {
        let (mut from, mut path) = (self.fs.root(), path.as_os_str().as_bytes().to_vec());
        for _ in 0..=LINKS_MAX {
            let (dir, name) = self.fs.resolve_parent(&from, &path)?;
            let found = dir.create(name, new)?;
            if found.kind() != Kind::Symlink {
                return Ok(found);
            }
            (from, path) = (dir, found.read_link()?);
        }
        let path = String::from_utf8_lossy(&path);
        Err(Error::new(ErrorKind::Loop, format!("too many symbolic links lead to {path}")))
    }

    /// Makes a directory and its missing parents. An existing directory is not an error.
    fn make_directories(&self, path: &Path, new: &Create) -> Result<()> {
        let mut node = self.fs.root();
        for part in path.as_os_str().as_bytes().split(|byte| *byte == b'/') {
            if !part.is_empty() {
                node = self.directory_below(&node, part, new)?;
            }
        }
        match node.kind() {
            Kind::Directory => Ok(()),
            _ => Err(exists_error(path)),
        }
    }

    /// The node under a name in a directory; makes a directory if nothing has the name.
    fn directory_below(&self, dir: &Node, name: &[u8], new: &Create) -> Result<Node> {
        let find = || self.fs.resolve(dir, name, Follow::All);
        match find() {
            Err(error) if is_missing(&error) => {}
            found => return found,
        }
        match dir.mkdir(name, new) {
            Err(error) if error.kind() == ErrorKind::Exists => find(),
            made => made,
        }
    }
}

#[pymethods]
impl FileSystem {
    #[new]
    #[pyo3(signature = (container, read_only = false))]
    fn new(container: &Bound<'_, PyAny>, read_only: bool) -> PyResult<Self> {
        let container = opened(container, read_only)?;
        let this = container.get();
        let options = MountOptions { read_only, snapshot: this.snapshot() };
        let fs = call(container.py(), || Dfs::mount(this.client().clone(), options))?;
        Ok(Self { container: container.unbind(), fs })
    }

    /// Its container.
    #[getter]
    fn container(&self, py: Python<'_>) -> Py<Container> {
        self.container.clone_ref(py)
    }

    /// True if nothing can be modified.
    #[getter]
    fn read_only(&self) -> bool {
        self.fs.is_read_only()
    }

    /// Opens a file for access by offsets; `FileSystem.open` returns one with a position.
    ///
    /// `mode` is one of Python's: "r", "r+", "w", "w+", "x", "x+", "a", "a+"; `permissions` apply to a new file.
    #[pyo3(signature = (path, mode = "r", *, permissions = 0o644))]
    fn open_file(
        slf: &Bound<'_, Self>,
        path: PathBuf,
        mode: &str,
        permissions: u32,
    ) -> PyResult<File> {
        let how = text::file_mode(mode)?;
        let new = how
            .create
            .then(|| Create { exclusive: how.exclusive, ..Create::with_mode(permissions) });
        let files = slf.get();
        let file = call(slf.py(), || files.opened(&path, how.open, new))?;
        Ok(File::new(slf, path, file, how.append))
    }

    /// Attributes of a path: type ("file", "directory", "link"), size, mode, uid, gid, nlink, ino, mtime, ctime,
    /// blksize.
    #[pyo3(signature = (path, *, follow = true))]
    fn stat<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        follow: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        describe(py, &call(py, || self.attr(&path, follow))?)
    }

    /// True if the path exists.
    fn exists(&self, py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        call(py, || match self.node(&path, true) {
            Err(error) if is_absence(error.kind()) => Ok(false),
            found => found.map(|_| true),
        })
    }

    /// Names in a directory, unsorted.
    #[pyo3(signature = (path = PathBuf::from("/")))]
    fn listdir(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<OsString>> {
        call(py, || {
            let (node, mut anchor, mut names) =
                (self.node(&path, true)?, Anchor::Start, Vec::new());
            while !anchor.is_end() {
                let some = node.read_names(&mut anchor, LIST_BATCH)?;
                names.extend(some.iter().map(|name| OsString::from_vec(name.to_vec())));
            }
            Ok(names)
        })
    }

    /// Names in a directory, each with the result of `stat` (links are not followed).
    #[pyo3(signature = (path = PathBuf::from("/")))]
    fn scandir<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
    ) -> PyResult<Vec<(OsString, Bound<'py, PyDict>)>> {
        let found = call(py, || {
            let (node, mut anchor, mut found) =
                (self.node(&path, true)?, Anchor::Start, Vec::new());
            while !anchor.is_end() {
                for entry in node.read_dir(&mut anchor, LIST_BATCH)? {
                    let attr = self.fs.attr_of(&entry.inode)?;
                    found.push((OsString::from_vec(entry.name), attr));
                }
            }
            Ok(found)
        })?;
        found.into_iter().map(|(name, attr)| Ok((name, describe(py, &attr)?))).collect()
    }

    /// Makes a directory; with `parents`, also its parents, and an existing directory is not an error.
    #[pyo3(signature = (path, *, parents = false, permissions = 0o755))]
    fn mkdir(
        &self,
        py: Python<'_>,
        path: PathBuf,
        parents: bool,
        permissions: u32,
    ) -> PyResult<()> {
        let new = Create::with_mode(permissions);
        call(py, || match parents {
            true => self.make_directories(&path, &new),
            false => {
                let (dir, name) = self.parent(&path)?;
                dir.mkdir(name, &new).map(drop)
            }
        })
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        call(py, || {
            let (dir, name) = self.parent(&path)?;
            dir.rmdir(name)
        })
    }

    /// Removes a file or symbolic link. Processes that have it open can continue to use it.
    fn remove(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        call(py, || {
            let (dir, name) = self.parent(&path)?;
            dir.unlink(name)
        })
    }

    /// Removes a file or a directory with its contents, and returns the number of entries removed.
    fn remove_tree(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        call(py, || {
            let (dir, name) = self.parent(&path)?;
            dir.remove_tree(name)
        })
    }

    /// Renames a file or directory atomically. An existing entry with the new path is replaced, or with
    /// `replace=False` Exists is raised.
    #[pyo3(signature = (path, new_path, *, replace = true))]
    fn rename(
        &self,
        py: Python<'_>,
        path: PathBuf,
        new_path: PathBuf,
        replace: bool,
    ) -> PyResult<()> {
        let mode = if replace { RenameMode::Replace } else { RenameMode::NoReplace };
        call(py, || {
            let ((dir, name), (to, new_name)) = (self.parent(&path)?, self.parent(&new_path)?);
            dir.rename(name, &to, new_name, mode)
        })
    }

    /// Renames files in one transaction: all of them, or none. `paths` are pairs of a path and its new path, each of
    /// which occurs once. With `replace=False`, an existing entry with a new path raises Exists. A third element
    /// takes the place of `replace` for one file.
    #[pyo3(signature = (paths, *, replace = true))]
    fn rename_all(&self, py: Python<'_>, paths: Vec<RenamedFile>, replace: bool) -> PyResult<()> {
        call(py, || {
            let renamed = paths.iter().map(|file| file.parts(replace));
            let places = renamed.map(|(old, new, mode)| {
                let ((from, name), (to, new_name)) = (self.parent(old)?, self.parent(new)?);
                Ok((from, name, to, new_name, mode))
            });
            let places = places.collect::<Result<Vec<_>>>()?;
            let renames = places.iter().map(|(from, name, to, new_name, mode)| Rename {
                from,
                name,
                to,
                new_name,
                mode: *mode,
            });
            dfs::rename_all(&renames.collect::<Vec<_>>())
        })
    }

    /// Makes a symbolic link at `path` that refers to `target`.
    fn symlink(&self, py: Python<'_>, target: PathBuf, path: PathBuf) -> PyResult<()> {
        call(py, || {
            let (dir, name) = self.parent(&path)?;
            dir.symlink(name, target.as_os_str().as_bytes(), &Create::with_mode(0o777)).map(drop)
        })
    }

    /// The target of a symbolic link.
    fn readlink(&self, py: Python<'_>, path: PathBuf) -> PyResult<OsString> {
        call(py, || self.node(&path, false)?.read_link()).map(OsString::from_vec)
    }

    /// Changes attributes: permission bits, size in bytes, time of the last modification of the content.
    #[pyo3(signature = (path, *, mode = None, size = None, mtime = None))]
    fn set(
        &self,
        py: Python<'_>,
        path: PathBuf,
        mode: Option<u32>,
        size: Option<u64>,
        mtime: Option<f64>,
    ) -> PyResult<()> {
        let set = SetAttr { mode, size, mtime: mtime.map(time), ..SetAttr::default() };
        let set = |node: Node| node.set_attr(&set).map(drop);
        call(py, || dfs::find_and(|| self.node(&path, true), set, is_missing))
    }

    /// Total and free space in bytes.
    fn space(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        call(py, || self.fs.space().map(|space| (space.total, space.free)))
    }

    /// Pickles as its container, so that other processes can open it.
    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (Py<Container>, bool)) {
        let this = slf.get();
        let container = this.container.clone_ref(slf.py());
        (slf.get_type().into_any().unbind(), (container, this.read_only()))
    }

    fn __repr__(&self) -> String {
        let access = if self.read_only() { ", read-only" } else { "" };
        format!("<esker.FileSystem in {:?}{access}>", self.container.get().shown())
    }
}

/// A container, or the one that a name such as "tank/home" refers to.
fn opened<'py>(container: &Bound<'py, PyAny>, read_only: bool) -> PyResult<Bound<'py, Container>> {
    if let Ok(container) = container.cast::<Container>() {
        return Ok(container.clone());
    }
    let name: String = container.extract().map_err(|_| {
        PyTypeError::new_err("container must be a Container or its name, \"POOL/CONTAINER\"")
    })?;
    let (py, mode) =
        (container.py(), if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite });
    let (pool, label) = call(py, || store_name::split(&name, "tank/home"))?;
    let pool = Bound::new(py, Pool::connect(py, pool.to_owned(), mode)?)?;
    Bound::new(py, Container::open(&pool, label, mode, None)?)
}

/// True for the error of a missing entry.
fn is_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// True for errors that mean that a path does not exist.
fn is_absence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotDirectory | ErrorKind::BadPath)
}

fn exists_error(path: &Path) -> Error {
    Error::new(ErrorKind::Exists, format!("{} already exists", path.display()))
}

fn time(seconds: f64) -> Time {
    let whole = seconds.floor();
    Time { seconds: whole as i64, nanos: (((seconds - whole) * 1e9) as u32).min(999_999_999) }
}

fn seconds(time: Time) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// Attributes as the dict that `stat` returns.
fn describe<'py>(py: Python<'py>, attr: &Attr) -> PyResult<Bound<'py, PyDict>> {
    let kind = match attr.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
    };
    let shown = PyDict::new(py);
    shown.set_item("type", kind)?;
    shown.set_item("size", attr.size)?;
    shown.set_item("mode", attr.full_mode())?;
    shown.set_item("uid", attr.uid)?;
    shown.set_item("gid", attr.gid)?;
    shown.set_item("nlink", attr.nlink)?;
    shown.set_item("ino", attr.number())?;
    shown.set_item("mtime", seconds(attr.mtime))?;
    shown.set_item("ctime", seconds(attr.ctime))?;
    shown.set_item("blksize", attr.block_size)?;
    Ok(shown)
}
