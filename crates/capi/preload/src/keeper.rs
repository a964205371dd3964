//! Processes that keep removed files for those who inherited them.
//!
//! Where only a lease keeps a removed file ([`crate::left_open`]), and the process that has it ends or starts another
//! program, it leaves a keeper behind: a process that takes a lease of its own, waits until nobody has the file open any
//! more, and frees it. It has no descriptor of the program, and is no child of it.
//!
//! A keeper is a shell that never begins: this library, which is loaded into it, does the work and ends the process.
use crate::answer::{Answer, refuse};
use crate::left_open::Left;
use crate::open_file::Content;
use crate::{exec, internal, locks, mounted, raw, threads};
use dfs::{Dfs, File, Open};
use esker::types::ObjectId;
use esker_os::ForkLock;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};

/// Lists the objects of a keeper: two hexadecimal numbers each.
const VARIABLE: &str = "ESKER_KEEP";
const SHELL: &CStr = c"/bin/sh";
/// What a keeper is called in a list of processes.
const NAME: &CStr = c"esker-keeper";
/// Objects of one keeper, by the space that an environment has for one variable.
const OBJECTS_MAX: usize = 2048;

/// What keepers of this process have. It asks again where the next program could not be started.
static KEPT: ForkLock<Vec<ObjectId>> = ForkLock::new();

/// Leaves a keeper behind for those files that have lost their names. Returns when it has its leases.
pub(crate) fn leave(files: Vec<Left>) {
    // The leases of this process end inside, too.
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

fn is_removed(content: &Content) -> bool {
    match content {
        Content::File(file) => file.attr().is_ok_and(|attr| attr.nlink == 0),
        Content::Node(_) => false,
    }
}

fn start(oids: &[ObjectId]) -> Answer<()> {
    let listed: Vec<_> = oids.iter().map(|oid| format!("{:x}.{:x}", oid.hi, oid.lo)).collect();
    let objects = CString::new(format!("{VARIABLE}={}", listed.join(",")));
    let own = exec::environment().list().into_iter().map(CStr::to_owned).collect();
    let mut environment = exec::with_our_variables(own);
    environment.push(objects.or_else(|_| refuse(libc::EINVAL))?);
    let environment = exec::pointers(&environment);
    let (ready, tell) = raw::pipe()?;
    // In the keeper it becomes the standard output, which it must not be yet: the program may have closed its own.
    let tell = internal::keep(tell);
    let child = raw::fork();
    if let Ok(0) = child {
        if let Ok(0) = raw::fork() {
            become_keeper(tell, &environment);
        }
        raw::exit();
    }
    internal::forget(tell);
    raw::close(tell);
    if let Ok(child) = child {
        raw::wait(child);
        let _ = raw::read(ready, &mut [0]);
    }
    raw::close(ready);
    child.map(drop)
}

/// In a forked process, which may only make system calls.
fn become_keeper(tell: c_int, environment: &[*const c_char]) {
    let done = raw::new_session().and_then(|()| {
        raw::duplicate(tell, libc::STDOUT_FILENO, 0)?;
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

/// Does the work of a keeper, if this process is to be one.
pub(crate) fn run_if_asked() {
    let Ok(listed) = std::env::var(VARIABLE) else { return };
    let _ = threads::inside(|| keep(&*mounted::get()?, &objects(&listed)));
    raw::exit();
}

fn objects(listed: &str) -> Vec<ObjectId> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let object = |text: &str| {
        let (hi, lo) = text.split_once('.')?;
        Some(ObjectId { hi: number(hi)?, lo: number(lo)? })
    };
    listed.split(',').filter_map(object).collect()
}

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
