//! Functions that the C library builds on internal directory streams: scandir, glob, ftw, nftw.
use crate::answer::{Answer, fail, refuse, to_c};
use crate::dirs::Listing;
use crate::edge::{Out, Text, export};
use crate::paths::{self, MountPath};
use crate::serve::serve;
use crate::stat::c_stat;
use crate::{config, cwd};
use dfs::{Follow, Kind};
use esker::types::ObjectId;
use esker_preload_interface::Node;
use libc::dirent64;
use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int, c_void};

type Filter = Option<extern "C" fn(*const dirent64) -> c_int>;
type Compare = Option<extern "C" fn(*const *const dirent64, *const *const dirent64) -> c_int>;

/// Names of a directory as entries of C, each in memory of `malloc`, as the caller frees them.
fn entries(node: &Node) -> Answer<Vec<*mut dirent64>> {
    let mut listing = Listing::new(node)?;
    let mut list = Vec::new();
    while let Some(entry) = listing.next()? {
        // SAFETY: memory for one entry, which `write` fills; C frees it.
        let output = unsafe { libc::calloc(1, size_of::<dirent64>()).cast::<dirent64>().as_mut() };
        let Some(output) = output else { return refuse(libc::ENOMEM) };
        entry.write(output);
        list.push(&raw mut *output);
    }
    Ok(list)
}

/// Frees memory of `malloc`.
fn free<T>(memory: *mut T) {
    // SAFETY: memory of `malloc` that is no longer in use.
    unsafe { libc::free(memory.cast()) };
}

/// Serves the end of `scandir`: filters and sorts the entries `list`, stores an array of the rest in `out`, and returns
/// their number.
fn scan(
    list: Vec<*mut dirent64>,
    out: Out<*mut *mut dirent64>,
    filter: Filter,
    compare: Compare,
) -> c_int {
    let wanted = |entry: &*mut dirent64| match filter {
        Some(filter) if filter(*entry) == 0 => {
            free(*entry);
            false
        }
        _ => true,
    };
    let mut kept: Vec<_> = list.into_iter().filter(wanted).collect();
    if let Some(compare) = compare {
        kept.sort_by(|one, other| {
            compare((&raw const *one).cast(), (&raw const *other).cast()).cmp(&0)
        });
    }
    // SAFETY: memory for this many pointers; C frees it.
    let array = unsafe { libc::calloc(kept.len().max(1), size_of::<*mut dirent64>()) };
    if array.is_null() {
        return fail(libc::ENOMEM);
    }
    // SAFETY: the memory was just allocated for this many pointers.
    unsafe { std::ptr::copy(kept.as_ptr(), array.cast(), kept.len()) };
    out.set(array.cast());
    kept.len() as c_int
}

/// Serves `scandirat`; `theirs` serves directories outside the mount point.
fn scan_at(
    dir: c_int,
    path: Text,
    (out, filter, compare): (Out<*mut *mut dirent64>, Filter, Compare),
    theirs: impl Fn(c_int, Text) -> c_int,
) -> c_int {
    let bytes = path.bytes().unwrap_or_default();
    if !paths::is_ours(dir, bytes) {
        return theirs(dir, path);
    }
    match serve(|| entries(&MountPath::new(dir, bytes)?.node(Follow::All)?)) {
        // The program's functions run outside the store, because they may make any call.
        Ok(list) => scan(list, out, filter, compare),
        Err(error) => crate::serve::return_or_forward(Err(error), theirs),
    }
}

/// `glob_t` of C, with the functions by which `glob` accesses files.
#[repr(C)]
struct Glob {
    count: usize,
    paths: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    functions: [usize; 5],
}

/// The functions in `Glob` are used (glibc: `GLOB_ALTDIRFUNC`).
const GLOB_ALTDIRFUNC: c_int = 1 << 9;

// SAFETY: these functions are ours, declared as C calls them.
unsafe extern "C" {
    fn closedir(dir: *mut c_void) -> c_int;
    fn readdir64(dir: *mut c_void) -> *mut dirent64;
    fn opendir(path: *const c_char) -> *mut c_void;
    fn lstat64(path: *const c_char, out: *mut libc::stat) -> c_int;
    fn stat64(path: *const c_char, out: *mut libc::stat) -> c_int;
}

/// Puts our functions into `glob`, unless the program has its own there. Returns the flags that make the C library call
/// them, or else `flags`. Any pattern may lead into the mount point, by alternatives in braces or by a tilde.
fn glob_flags(flags: c_int, glob: Out<Glob>) -> c_int {
    let is_ours = !config::get().mount.is_empty() && flags & GLOB_ALTDIRFUNC == 0;
    match glob.values(1) {
        [glob] if is_ours => {
            glob.functions = [
                closedir as *const () as usize,
                readdir64 as *const () as usize,
                opendir as *const () as usize,
                lstat64 as *const () as usize,
                stat64 as *const () as usize,
            ];
            flags | GLOB_ALTDIRFUNC
        }
        _ => flags,
    }
}

type Visit = extern "C" fn(*const c_char, *const libc::stat, c_int, *mut FtwPosition) -> c_int;

/// `struct FTW` of C.
#[repr(C)]
struct FtwPosition {
    base: c_int,
    level: c_int,
}

const FTW_F: c_int = 0;
const FTW_D: c_int = 1;
const FTW_DNR: c_int = 2;
const FTW_NS: c_int = 3;
const FTW_SL: c_int = 4;
const FTW_DP: c_int = 5;
const FTW_SLN: c_int = 6;

const FTW_PHYS: c_int = 1;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;
const SKIP_SUBTREE: c_int = 2;
const SKIP_SIBLINGS: c_int = 3;

/// A walk through a tree of ours.
struct Walk {
    visit: Visit,
    /// True for `ftw`, whose callback does not know the types of symbolic links.
    is_plain: bool,
    flags: c_int,
    /// The original working directory, if the walk changes it.
    base: Option<Node>,
    /// The directories visited so far, if the walk follows symbolic links.
    known: HashSet<ObjectId>,
}

impl Walk {
    /// A walk of `nftw` with these flags; `None` for one of `ftw`.
    fn new(visit: Visit, flags: Option<c_int>, base: Option<Node>) -> Self {
        let (is_plain, flags) = (flags.is_none(), flags.unwrap_or(0));
        Self { visit, is_plain, flags, base, known: HashSet::new() }
    }

    /// True if a symbolic link has led the walk to a directory that it has visited. The C library skips such a directory
    /// too: otherwise, links to directories above them would lead the walk along endless paths.
    fn is_known(&mut self, node: &Node) -> bool {
        self.flags & FTW_PHYS == 0 && !self.known.insert(node.oid())
    }

    /// The path in the mount point. If the walk changes directories, a relative one starts at the original directory.
    fn path<'p>(&self, path: &'p [u8]) -> Answer<MountPath<'p>> {
        match &self.base {
            Some(base) if !path.starts_with(b"/") => MountPath::below(base, path.to_vec()),
            _ => MountPath::new(libc::AT_FDCWD, path),
        }
    }

    /// The node of a path, its attributes, and its type for `nftw`. A link whose target is missing is `FTW_SLN`.
    fn look(&self, path: &[u8]) -> Answer<(Node, libc::stat, c_int)> {
        let path = self.path(path)?;
        let follow = if self.flags & FTW_PHYS != 0 { Follow::AllButLast } else { Follow::All };
        let (node, dangling) = match path.node(follow) {
            Err(error) if error.is_missing() => (path.node(Follow::AllButLast)?, true),
            node => (node?, false),
        };
        let kind = match node.kind() {
            Kind::Directory => FTW_D,
            Kind::Symlink if dangling => FTW_SLN,
            Kind::Symlink => FTW_SL,
            Kind::File => FTW_F,
        };
        let stat = c_stat(&node.attr()?);
        Ok((node, stat, kind))
    }

    /// Visits a path at depth `level` and all below it. Returns 0, or the value by which the program stopped the walk,
    /// or -1.
    fn go(&mut self, path: &[u8], level: c_int) -> c_int {
        let (node, stat, kind) = match serve(|| self.look(path)) {
            Ok(found) => found,
            Err(_) if level > 0 => {
                // SAFETY: a `stat` of C consists of numbers, for which zero is valid.
                return self.call(path, &unsafe { std::mem::zeroed() }, FTW_NS, level);
            }
            Err(error) => return to_c(Err(error)),
        };
        if kind != FTW_D {
            return self.call(path, &stat, kind, level);
        }
        if self.is_known(&node) {
            return 0;
        }
        let names = serve(|| names(&node));
        let Ok(names) = names else { return self.call(path, &stat, FTW_DNR, level) };
        let depth = self.flags & FTW_DEPTH != 0;
        let before = if depth { 0 } else { self.call(path, &stat, FTW_D, level) };
        let below = match before {
            0 => self.go_below(path, &names, level),
            SKIP_SUBTREE if self.flags & FTW_ACTIONRETVAL != 0 => 0,
            other => return other,
        };
        if below != 0 || !depth { below } else { self.call(path, &stat, FTW_DP, level) }
    }

    /// Visits the entries `names` of the directory `path`, and what is below them. Returns 0, or the value by which a
    /// callback of the program stopped the walk.
    fn go_below(&mut self, path: &[u8], names: &[Vec<u8>], level: c_int) -> c_int {
        let separator: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
        for name in names {
            match self.go(&[path, separator, name].concat(), level + 1) {
                0 => {}
                // Returned for a file, or for a directory after its entries: there is no subtree to skip.
                SKIP_SUBTREE if self.flags & FTW_ACTIONRETVAL != 0 => {}
                SKIP_SIBLINGS if self.flags & FTW_ACTIONRETVAL != 0 => return 0,
                other => return other,
            }
        }
        0
    }

    /// Calls the program's function for a path, in its directory if the walk changes directories. Returns its result.
    fn call(&self, path: &[u8], stat: &libc::stat, kind: c_int, level: c_int) -> c_int {
        let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let mut output = FtwPosition { base: base as c_int, level };
        if self.base.is_some() {
            let above = if base > 1 { &path[..base - 1] } else { &path[..base] };
            let above = if above.is_empty() { b"." } else { above };
            let entered = serve(|| cwd::enter(self.path(above)?.node(Follow::All)?));
            if entered.is_err() {
                return to_c(entered);
            }
        }
        let Ok(path) = CString::new(path) else { return 0 };
        let kind = if self.is_plain && kind == FTW_SLN { FTW_NS } else { kind };
        (self.visit)(path.as_ptr(), stat, kind, &raw mut output)
    }
}

/// Names in a directory, without `.` and `..`.
fn names(node: &Node) -> Answer<Vec<Vec<u8>>> {
    let mut listing = Listing::new(node)?;
    let mut names = Vec::new();
    while let Some(entry) = listing.next()? {
        if !matches!(&*entry.name, b"." | b"..") {
            names.push(entry.name);
        }
    }
    Ok(names)
}

/// Walks a tree for `nftw` with these flags, or for `ftw` without flags; `theirs` walks trees outside the mount point.
/// The callback of `ftw` ignores the last argument of [`Visit`].
fn walk(path: Text, visit: Visit, flags: Option<c_int>, theirs: impl Fn(Text) -> c_int) -> c_int {
    let Some(bytes) = path.bytes() else { return theirs(path) };
    if !paths::is_ours(libc::AT_FDCWD, bytes) {
        return theirs(path);
    }
    let has = |flag| flags.is_some_and(|flags| flags & flag != 0);
    let without_action = |result| match result {
        SKIP_SUBTREE | SKIP_SIBLINGS if has(FTW_ACTIONRETVAL) => 0,
        other => other,
    };
    if !has(FTW_CHDIR) {
        return without_action(Walk::new(visit, flags, None).go(bytes, 0));
    }
    match serve(cwd::node) {
        Ok(base) => {
            let result = Walk::new(visit, flags, Some(base.clone())).go(bytes, 0);
            let _ = serve(|| cwd::enter(base));
            without_action(result)
        }
        // The walk would have to change back to a directory outside the mount point.
        Err(_) => to_c(refuse(libc::EOPNOTSUPP)),
    }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@scandir $name:ident) => { export! {
        fn $name(path: Text, out: Out<*mut *mut dirent64>, filter: Filter, compare: Compare) -> c_int
        | next {
            let theirs = |_, path| next(path, out, filter, compare);
            scan_at(libc::AT_FDCWD, path, (out, filter, compare), theirs)
        }
    } };
    (@scandirat $name:ident) => { export! {
        fn $name(
            dir: c_int, path: Text, out: Out<*mut *mut dirent64>, filter: Filter, compare: Compare,
        ) -> c_int | next {
            let theirs = |dir, path| next(dir, path, out, filter, compare);
            scan_at(dir, path, (out, filter, compare), theirs)
        }
    } };
    (@glob $name:ident) => { export! {
        fn $name(pattern: Text, flags: c_int, error: usize, glob: Out<Glob>) -> c_int | next {
            next(pattern, glob_flags(flags, glob), error, glob)
        }
    } };
    (@ftw $name:ident) => { export! {
        fn $name(path: Text, visit: Visit, descriptors: c_int) -> c_int | next {
            walk(path, visit, None, |path| next(path, visit, descriptors))
        }
    } };
    (@nftw $name:ident) => { export! {
        fn $name(path: Text, visit: Visit, descriptors: c_int, flags: c_int) -> c_int | next {
            walk(path, visit, Some(flags), |path| next(path, visit, descriptors, flags))
        }
    } };
}

variants! {
    scandir: scandir scandir64;
    scandirat: scandirat scandirat64;
    glob: glob glob64;
    ftw: ftw ftw64;
    nftw: nftw nftw64;
}
