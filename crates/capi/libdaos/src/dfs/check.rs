//! Counting and checking a file system.
use crate::abi::{Handle, Ptr, Str};
use crate::code::print;
use crate::container::{access, daos_cont_close, daos_cont_open2};
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::check::{Finding, Trouble, Unnamed, treat_unnamed};
use ::dfs::{Dfs, Follow, Kind, MountOptions, Node};
use esker::Wait;
use esker::types::info::OpenMode;
use std::ffi::c_int;

/// Counts of what is below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    /// Bytes of the largest file.
    largest: u64,
    /// Levels of directories below the directory.
    deepest: u64,
}

impl Count {
    /// Counts the entries below a directory. Directories to visit are in a list: recursion could exhaust the stack.
    fn count_tree(top: Node) -> Result<Self> {
        let mut count = Self::default();
        let mut waiting = vec![(top, 0)];
        while let Some((dir, depth)) = waiting.pop() {
            count.deepest = count.deepest.max(depth);
            let mut entries = dir.entries()?;
            while let Some(entry) = entries.read()? {
                match entry.kind() {
                    Kind::File => count.add_file(dir.fs().attr_of(&entry.inode)?.size),
                    Kind::Symlink => count.symlinks += 1,
                    Kind::Directory => {
                        count.directories += 1;
                        waiting.push((dir.lookup(&entry.name)?, depth + 1));
                    }
                }
            }
        }
        Ok(count)
    }

    fn add_file(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }
}

/// Opens the container with this label or UUID read-only and mounts its file system. Fails if the user may not read it.
fn mounted(poh: Handle, cont: Str) -> Result<Dfs> {
    let pool = handles::pool(poh)?;
    let open = access::open(&pool, cont.text()?, OpenMode::ReadOnly).wait()?;
    open.rights.require_read()?;
    let options = MountOptions { read_only: true, snapshot: None };
    Ok(Dfs::mount(open.container.clone(), options)?)
}

/// Counts the files, directories, links and bytes below a path, and prints them.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_scan(poh: Handle, cont: Str, _flags: u64, name: Str) -> c_int {
    errno::now(|| {
        let fs = mounted(poh, cont)?;
        let path = if name.is_null() { b"/" } else { name.bytes()? };
        let count = Count::count_tree(fs.resolve(&fs.root(), path, Follow::All)?)?;
        print(&format!("files: {}", count.files));
        print(&format!("directories: {}", count.directories));
        print(&format!("symlinks: {}", count.symlinks));
        print(&format!("bytes in files: {}", count.bytes));
        print(&format!("largest file in bytes: {}", count.largest));
        print(&format!("deepest directory: {}", count.deepest));
        Ok(())
    })
}

/// `DFS_CHECK_PRINT`, `DFS_CHECK_REMOVE`, `DFS_CHECK_RELINK`, `DFS_CHECK_VERIFY`, `DFS_CHECK_EVICT_ALL`.
const PRINT: u64 = 1;
const REMOVE: u64 = 1 << 1;
const RELINK: u64 = 1 << 2;
const VERIFY: u64 = 1 << 3;
const EVICT_ALL: u64 = 1 << 4;
const KNOWN: u64 = PRINT | REMOVE | RELINK | VERIFY | EVICT_ALL;

/// `DAOS_COO_EX` and `DAOS_COO_EVICT_ALL`.
const EXCLUSIVE: u32 = 0x4;
const EVICTING: u32 = 0x40;

/// Checks a file system, and treats objects that no entry names as `flags` (`DFS_CHECK_*`) say. The container is opened
/// exclusively, so that nothing changes meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_check(poh: Handle, cont: Str, flags: u64, name: Str) -> c_int {
    errno::now(|| {
        if flags & !KNOWN != 0 || flags & (REMOVE | RELINK) == REMOVE | RELINK {
            return Err(Errno::INVAL);
        }
        let mode = EXCLUSIVE | if flags & EVICT_ALL != 0 { EVICTING } else { 0 };
        let mut coh = Handle { cookie: 0 };
        // SAFETY: it points to a local handle that outlives the call.
        let at = unsafe { Ptr::new(&raw mut coh) };
        errno::code(daos_cont_open2(poh, cont, mode, at, Ptr::null(), Ptr::null()))?;
        let checked = check(coh, flags, name);
        checked.and(errno::code(daos_cont_close(coh, Ptr::null())))
    })
}

/// Checks a file system. The flags say what happens to objects without a name. `name` is the directory in which they
/// are linked.
fn check(coh: Handle, flags: u64, name: Str) -> Result<()> {
    let container = handles::container(coh)?.container.clone();
    let fs = Dfs::mount(container, MountOptions::default())?;
    let local_time;
    let unnamed = match flags & (REMOVE | RELINK) {
        0 => Unnamed::Keep,
        REMOVE => Unnamed::Remove,
        _ if name.is_null() => {
            local_time = now_as_name()?;
            Unnamed::Link(local_time.as_bytes())
        }
        _ => Unnamed::Link(name.bytes()?),
    };
    let mut print_id = |oid| {
        if flags & PRINT != 0 {
            print(&format!("object without a name: {oid}"));
        }
    };
    let report = treat_unnamed(&fs, flags & VERIFY != 0, unnamed, &mut print_id)?;
    print(&format!("checked entries: {}", report.entries()));
    print(&format!("objects without a name: {}", report.leftovers.count()));
    if flags & PRINT != 0 {
        report.findings.iter().for_each(print_finding);
    }
    // The report holds the first findings only; those beyond count as failures.
    let is_cut = report.damaged > report.findings.len() as u64;
    match is_cut || report.findings.iter().any(|finding| is_failure(&finding.trouble)) {
        true => Err(Errno::IO),
        false => Ok(()),
    }
}

fn print_finding(finding: &Finding) {
    print(&format!("{}: {}", finding.path.escape_ascii(), finding.trouble));
}

/// True for damage. An empty directory that DAOS made has no object, and so no mark. A second name of an object is
/// reported only.
fn is_failure(trouble: &Trouble) -> bool {
    !matches!(trouble, Trouble::Unmarked | Trouble::NamedTwice(_))
}

/// The local time, as DAOS names a directory of found objects.
fn now_as_name() -> Result<String> {
    let mut text = [0; 24];
    // SAFETY: `time` accepts a null pointer; the others get pointers to local values, of which `tm` is valid when zero.
    let len = unsafe {
        let mut tm = std::mem::zeroed();
        let now = libc::time(std::ptr::null_mut());
        if libc::localtime_r(&raw const now, &raw mut tm).is_null() {
            return Err(Errno::INVAL);
        }
        let format = c"%Y-%m-%d-%H:%M:%S".as_ptr();
        libc::strftime(text.as_mut_ptr().cast(), text.len(), format, &raw const tm)
    };
    Ok(String::from_utf8_lossy(&text[..len]).into_owned())
}
