//! The working directory.
//!
//! While the working directory is in the mount point, the kernel's working directory is an empty directory. Its path
//! encodes the real one: the run directory, followed by the object and the path in the file system. So children and
//! started programs can determine it. The directory is removed as soon as it is entered, so that programs that bypass this library
//! cannot create files in it. A removed directory keeps its path.
use crate::answer::{Answer, refuse};
use crate::edge::{Out, Text, export};
use crate::paths::shown;
use crate::{config, mounted, raw, serve, unshared};
use arc_swap::ArcSwapOption;
use dfs::{Follow, Kind};
use esker::types::ObjectId;
use esker_preload_interface::Node;
use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Prefix of the directories in the run directory that represent the mount point, followed by the process id of their
/// creator, and by the object of the working directory: `cwd.PID.HI.LO`, the object in hexadecimal digits.
const FOLDER: &[u8] = b"/cwd.";

/// Lets one thread at a time create and remove directories.
static MAKING: Mutex<()> = Mutex::new(());

/// True while the working directory is in the mount point.
static IS_OURS: AtomicBool = AtomicBool::new(false);
static CURRENT: ArcSwapOption<Current> = ArcSwapOption::const_empty();

/// The working directory in the mount point: its path in the file system when it was entered, its object and its node.
struct Current {
    path: Vec<u8>,
    oid: ObjectId,
    /// Unset until the first use if the process inherited it through exec.
    node: ArcSwapOption<Node>,
}

/// True while the working directory is in the mount point.
#[inline]
pub(crate) fn is_ours() -> bool {
    IS_OURS.load(Ordering::Relaxed)
}

/// The working directory in the mount point. `ENOENT` if it is elsewhere.
fn entered() -> Answer<Arc<Current>> {
    CURRENT.load_full().filter(|_| is_ours()).map_or_else(|| refuse(libc::ENOENT), Ok)
}

/// Returns the node of the working directory, and resolves its path at the first call. `ENOENT` if the working
/// directory is not in the mount point, or if its path names another directory since it was inherited.
pub(crate) fn node() -> Answer<Node> {
    let current = entered()?;
    if let Some(node) = current.node.load_full() {
        return Ok((*node).clone());
    }
    let fs = mounted::get()?;
    let node = fs.resolve(&fs.root()?, &current.path, Follow::All)?;
    if node.oid() != current.oid {
        return refuse(libc::ENOENT);
    }
    current.node.store(Some(Arc::new(node.clone())));
    Ok(node)
}

/// The path of the working directory in the file system, also after it or a directory above it was renamed.
///
/// # Errors
/// `ENOENT` if it was removed, or if it or a directory above it was moved to another directory.
fn current_path() -> Answer<Vec<u8>> {
    let (fs, node) = (mounted::get()?, node()?.refresh()?);
    let leads_here = |path: &[u8]| {
        let found = fs.resolve(&fs.root()?, path, Follow::AllButLast)?;
        if found.oid() == node.oid() { Ok(()) } else { refuse(libc::ENOENT) }
    };
    let entered = &entered()?.path;
    if leads_here(entered).is_ok() {
        return Ok(entered.clone());
    }
    let renamed = renamed_path(&node)?;
    leads_here(&renamed).map(|()| renamed)
}

/// The path of a directory by the current names of it and of the directories above it.
fn renamed_path(node: &Node) -> Answer<Vec<u8>> {
    let (mut names, mut node) = (Vec::new(), node.clone());
    while let Some(parent) = node.parent()? {
        names.push(node.refresh()?.name()?);
        node = parent;
    }
    Ok(names.iter().rev().flat_map(|name| [b"/", &**name].concat()).collect())
}

/// The path of the working directory as programs see it when it was entered, while it is in the mount point.
pub(crate) fn path() -> Option<Vec<u8>> {
    let current = CURRENT.load_full().filter(|_| is_ours())?;
    Some(shown(&current.path))
}

/// Restores the working directory after exec. The kernel's working directory is then the empty directory
/// `RUN_DIR/cwd.PID.HI.LO/PATH` that [`stand_in`] made and removed: `PATH` is the working directory in the container,
/// and `HI.LO` its object.
pub(crate) fn inherit() {
    let mut room = [0; crate::limits::PATH_MAX];
    let Ok(found) = raw::read_link(c"/proc/self/cwd", &mut room) else { return };
    // The kernel appends this to the path of a removed directory.
    let found = found.strip_suffix(b" (deleted)").unwrap_or(found);
    let folder = [config::get().run_dir.as_slice(), FOLDER].concat();
    let Some(rest) = found.strip_prefix(folder.as_slice()) else { return };
    let length = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (name, path) = rest.split_at(length);
    if let Some(oid) = object_of(name) {
        // The node is looked up at the first use.
        keep(if path.is_empty() { b"/".to_vec() } else { path.to_vec() }, oid, None);
    }
}

/// The object in the name `PID.HI.LO` of a stand-in.
fn object_of(name: &[u8]) -> Option<ObjectId> {
    let mut parts = std::str::from_utf8(name).ok()?.split('.').skip(1);
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    Some(ObjectId { hi: number()?, lo: number()? })
}

/// Records the working directory, which is in the mount point. Without `node`, the first use resolves `path`.
fn keep(path: Vec<u8>, oid: ObjectId, node: Option<Node>) {
    let node = ArcSwapOption::from(node.map(Arc::new));
    CURRENT.store(Some(Arc::new(Current { path, oid, node })));
    IS_OURS.store(true, Ordering::Relaxed);
}

/// Makes the kernel's empty directory that represents a directory of the mount point, and opens it with `O_PATH`.
pub(crate) fn stand_in(node: &Node) -> Answer<c_int> {
    // The kernel's directory may be inherited, so started programs must look for it.
    unshared::end();
    let run_dir = &config::get().run_dir;
    if node.kind() != Kind::Directory {
        return refuse(libc::ENOTDIR);
    }
    if run_dir.is_empty() {
        return refuse(libc::ENOENT);
    }
    let (path, oid) = (node.path()?, node.oid());
    let own = format!("{}.{:x}.{:x}", raw::pid(), oid.hi, oid.lo);
    let tail = if path == b"/" { &[][..] } else { &path };
    let whole = [run_dir, FOLDER, own.as_bytes(), tail].concat();
    let ends = whole.iter().enumerate().skip(run_dir.len() + 1).filter(|(_, byte)| **byte == b'/');
    let ends = ends.map(|(at, _)| at).chain([whole.len()]);
    let names: Answer<Vec<CString>> = ends.map(|end| c_string(&whole[..end])).collect();
    open_removed(&names?)
}

/// Creates the nested directories `names`, outermost first, opens the innermost, and removes them all. The kernel still
/// shows the path of a removed directory.
fn open_removed(names: &[CString]) -> Answer<c_int> {
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    for name in names {
        // It may exist already. Any other error makes `open` fail.
        let _ = raw::make_directory(name, 0o700);
    }
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let opened =
        names.last().map_or_else(|| refuse(libc::ENOENT), |last| raw::open(last, flags, 0));
    for name in names.iter().rev() {
        raw::remove_directory(name);
    }
    opened
}

fn c_string(bytes: &[u8]) -> Answer<CString> {
    CString::new(bytes).or_else(|_| refuse(libc::EINVAL))
}

/// Changes the working directory to a directory of the mount point, and that of the kernel to the one that represents
/// it.
pub(crate) fn enter(node: Node) -> Answer<c_int> {
    let fd = stand_in(&node)?;
    let entered = raw::change_directory(fd);
    raw::close(fd);
    entered?;
    keep(node.path()?, node.oid(), Some(node));
    Ok(0)
}

/// Records that the working directory left the mount point, if the call of the C library returned 0. Returns its
/// result.
fn left(result: c_int) -> c_int {
    if result == 0 {
        leave();
    }
    result
}

/// Records that the working directory is outside the mount point.
pub(crate) fn leave() {
    IS_OURS.store(false, Ordering::Relaxed);
}

/// Copies a path for C to `buffer` of `size` bytes. For a null `buffer`, allocates one that the caller frees; then
/// `size` may be 0 for any length.
pub(crate) fn copy_out(path: &[u8], buffer: Out<u8>, size: usize) -> Answer<*mut c_char> {
    let length = path.len() + 1;
    if buffer.is_null() {
        if size != 0 && size < length {
            return refuse(libc::ERANGE);
        }
        let path = CString::new(path).or_else(|_| refuse(libc::EINVAL))?;
        // SAFETY: a string that ends with a zero byte.
        let copy = unsafe { libc::strdup(path.as_ptr()) };
        return if copy.is_null() { refuse(libc::ENOMEM) } else { Ok(copy) };
    }
    match size {
        0 => refuse(libc::EINVAL),
        _ if size < length => refuse(libc::ERANGE),
        _ => {
            let room = buffer.values(length);
            room[..path.len()].copy_from_slice(path);
            room[path.len()] = 0;
            Ok(buffer.pointer().cast())
        }
    }
}

/// Fails with `ENOENT` if the working directory is in the mount point and was removed: then it has no path.
pub(crate) fn check() -> Answer<()> {
    if is_ours() { Ok(node()?.refresh().map(drop)?) } else { Ok(()) }
}

/// Serves `getcwd`.
fn current(buffer: Out<u8>, size: usize) -> *mut c_char {
    crate::answer::to_c(serve::serve(|| copy_out(&shown(&current_path()?), buffer, size)))
}

export! {
    fn chdir(path: Text) -> c_int | next {
        serve::at_node(path, enter, |path| left(next(path)))
    }

    fn fchdir(fd: c_int) -> c_int | next {
        serve::on(fd, |file| enter(file.node()?), || left(next(fd)))
    }

    fn getcwd(buffer: Out<u8>, size: usize) -> *mut c_char | next {
        if is_ours() { current(buffer, size) } else { next(buffer, size) }
    }

    fn __getcwd_chk(buffer: Out<u8>, size: usize, room: usize) -> *mut c_char | next {
        if is_ours() { current(buffer, size.min(room)) } else { next(buffer, size, room) }
    }

    fn get_current_dir_name() -> *mut c_char | next {
        if is_ours() { current(Out::null(), 0) } else { next() }
    }

    fn getwd(buffer: Out<u8>) -> *mut c_char | next {
        if is_ours() { current(buffer, crate::limits::PATH_MAX) } else { next(buffer) }
    }
}
