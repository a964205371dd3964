//! Keepers: processes that hold the leases of removed files for other processes that inherited them.
//!
//! A removed file may exist only because of a lease ([`crate::left_open`]). When the process with the lease ends or
//! starts another program, it starts a keeper. The keeper takes a lease of its own, waits until no process has the file
//! open, and frees the file. It has no descriptors of the program, and is not its child.
//!
//! A keeper executes a shell, into which this library is loaded. The library does the work and ends the process before
//! the shell starts.
use crate::answer::{Answer, refuse};
use crate::left_open::LeftOpen;
use crate::open_file::Content;
use crate::{exec, internal, locks, mounted, raw, threads};
use dfs::Open;
use esker::types::ObjectId;
use esker_os::ForkLock;
use esker_preload_interface::{Dfs, File};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};

/// Variable that lists the objects of a keeper: two hexadecimal numbers each.
const VARIABLE: &str = "ESKER_KEEP";
const SHELL: &CStr = c"/bin/sh";
/// Name of a keeper in a list of processes.
const NAME: &CStr = c"esker-keeper";
/// Most objects of one keeper, as many as fit in one environment variable.
const OBJECTS_MAX: usize = 2048;

/// Objects that keepers of this process already hold. If exec fails, the process calls [`start_for`] again later.
static KEPT: ForkLock<Vec<ObjectId>> = ForkLock::new();

/// Starts a keeper for the removed files among `files`. Returns when it has its leases.
pub(crate) fn start_for(files: Vec<LeftOpen>) {
    // `files` is dropped inside too, which ends the leases of this process.
    let _ = threads::inside(move || {
        let mut files = files;
        files.retain(|(oid, content)| !KEPT.lock().contains(oid) && is_removed(content));
        let oids: Vec<_> = files.iter().map(|(oid, _)| *oid).take(OBJECTS_MAX).collect();
        if !oids.is_empty() {
            start(&oids)?;
            KEPT.lock().extend(oids);
        }
        Ok(())
    });
}

/// True if the file has no name any more, so that only leases keep its data.
fn is_removed(content: &Content) -> bool {
    match content {
        Content::File(file) => file.attr().is_ok_and(|attr| attr.nlink == 0),
        Content::Node(_) => false,
    }
}

/// Starts a keeper for these objects. Returns when the keeper has its leases, or has failed.
fn start(oids: &[ObjectId]) -> Answer<()> {
    let listed: Vec<_> = oids.iter().map(|oid| format!("{:x}.{:x}", oid.hi, oid.lo)).collect();
    let objects = CString::new(format!("{VARIABLE}={}", listed.join(",")));
    let own = exec::environment().list().into_iter().map(CStr::to_owned).collect();
    let mut environment = exec::with_our_variables(own);
    environment.push(objects.or_else(|_| refuse(libc::EINVAL))?);
    let environment = exec::pointers(&environment);
    let (ready, ready_write) = raw::pipe()?;
    // The keeper makes it its standard output. It must not be descriptor 1 yet, which the program may have closed.
    let ready_write = internal::keep(ready_write);
    let child = raw::fork();
    if let Ok(0) = child {
        // A second fork, so that the keeper is not a child of the program, which might wait for it.
        if let Ok(0) = raw::fork() {
            become_keeper(ready_write, &environment);
        }
        raw::exit();
    }
    internal::forget(ready_write);
    raw::close(ready_write);
    if let Ok(child) = child {
        raw::wait(child);
        // The read returns when the keeper has its leases, or has ended.
        let _ = raw::read(ready, &mut [0]);
    }
    raw::close(ready);
    child.map(drop)
}

/// Turns this process into the keeper, with `ready_write` as its standard output. Returns if that fails. Runs in a
/// forked process, which may only make system calls.
fn become_keeper(ready_write: c_int, environment: &[*const c_char]) {
    let done = raw::new_session().and_then(|()| {
        raw::duplicate(ready_write, libc::STDOUT_FILENO, 0)?;
        for fd in [libc::STDIN_FILENO, libc::STDERR_FILENO] {
            raw::close(fd);
            raw::open(c"/dev/null", libc::O_RDWR, 0)?;
        }
        raw::close_range(libc::STDERR_FILENO as c_uint + 1, c_uint::MAX, 0)
    });
    if done.is_ok() {
        raw::execute(SHELL, NAME, environment);
    }
}

/// Does the work of a keeper and exits, if this process was started as one.
pub(crate) fn run_if_asked() {
    let Ok(listed) = std::env::var(VARIABLE) else { return };
    let _ = threads::inside(|| keep(&*mounted::get()?, &objects(&listed)));
    raw::exit();
}

/// Parses the object ids of [`VARIABLE`]. Skips any that are malformed.
fn objects(listed: &str) -> Vec<ObjectId> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let object = |text: &str| {
        let (hi, lo) = text.split_once('.')?;
        Some(ObjectId { hi: number(hi)?, lo: number(lo)? })
    };
    listed.split(',').filter_map(object).collect()
}

/// Opens these removed files and reports that it has leases on them. Then waits for each until no process uses it, and
/// frees it.
fn keep(fs: &Dfs, oids: &[ObjectId]) -> Answer<()> {
    let open = |oid: &ObjectId| fs.file_in_use(*oid)?.open(Open::READ);
    let files: Vec<File> = oids.iter().filter_map(|oid| open(oid).ok()).collect();
    raw::write(libc::STDOUT_FILENO, b"+")?;
    raw::close(libc::STDOUT_FILENO);
    for file in files {
        let oid = file.node().oid();
        locks::wait_until_unused(oid)?;
        drop(file);
        fs.bury(oid)?;
    }
    Ok(())
}
