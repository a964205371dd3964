//! posix_spawn, popen and system. The C library implements them. This library first replaces paths in the mount point
//! among the arguments of posix_spawn.
use crate::answer::{Answer, Fail};
use crate::edge::{Text, Texts, export};
use crate::exec::{Program, found_by_name, in_our_folders, serve_program};
use crate::open::open_path;
use crate::open_file::OpenFile;
use crate::paths::{self, MountPath};
use crate::serve::serve;
use crate::{cwd, descriptors, internal, locks, process, raw};
use dfs::Follow;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Descriptors that were opened for action lists.
static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// The directories of action lists, by the address of the list: the child is there when it runs the next action.
static DIRECTORIES: Mutex<Vec<(usize, Vec<u8>)>> = Mutex::new(Vec::new());

struct Opened {
    /// The address of the list.
    list: usize,
    fd: c_int,
    /// Keeps the file in use until the child has it.
    _file: Option<Arc<OpenFile>>,
}

type Spawn = extern "C" fn(*mut c_int, Text, *const c_void, *const c_void, Texts, Texts) -> c_int;

/// Serves `posix_spawn`: replaces a program in the mount point by one that the kernel can run, and calls `real` with
/// that. Returns 0 or an errno.
fn spawn(
    (pid, path): (*mut c_int, &CStr),
    (actions, attributes): (*const c_void, *const c_void),
    (arguments, environment): (Texts, Texts),
    real: Spawn,
) -> c_int {
    let program = serve_program(|| {
        let mut program = Program::new(path, arguments, environment);
        program.reach()?;
        program.reach_from_child()?;
        Ok(program)
    });
    start(pid, program, (actions, attributes), real)
}

/// Starts a prepared program. Returns 0 or an errno.
fn start(
    pid: *mut c_int,
    program: Answer<Program>,
    (actions, attributes): (*const c_void, *const c_void),
    real: Spawn,
) -> c_int {
    let program = match program {
        Ok(program) => program,
        Err(error) => return error.errno(),
    };
    process::before_fork();
    let result = program.with(|path, arguments, environment| {
        real(pid, path, actions, attributes, arguments, environment)
    });
    program.close_copy();
    result
}

/// Serves `posix_spawnp` for a program for which the C library searches directories outside the mount point.
fn spawn_found(
    pid: *mut c_int,
    name: &CStr,
    (actions, attributes): (*const c_void, *const c_void),
    (arguments, environment): (Texts, Texts),
    real: Spawn,
) -> c_int {
    let program = serve_program(|| {
        let mut program = found_by_name(name, arguments, environment)?;
        program.reach_from_child()?;
        Ok(program)
    });
    start(pid, program, (actions, attributes), real)
}

/// Opens the file of an action now, because the child's system calls do not see the mount point. The child duplicates
/// the returned descriptor to the number of the action. `list` is the address of the list of actions.
fn open_now(list: usize, path: &MountPath<'_>, flags: c_int, mode: u32) -> Answer<c_int> {
    let fd = open_path(path, flags | libc::O_CLOEXEC, mode)?;
    descriptors::share(fd, &descriptors::get(fd)?)?;
    // Not the number of a standard descriptor, which an earlier action may replace in the child.
    let kept = raw::control(fd, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO as usize + 1)?;
    let file = descriptors::take(fd);
    raw::close(fd);
    let kept = internal::keep(kept);
    if let Some(file) = &file {
        locks::share_one(kept, file)?;
    }
    Ok(keep_for(list, kept, file))
}

/// Keeps a descriptor open until the list is destroyed. Returns it.
fn keep_for(list: usize, fd: c_int, file: Option<Arc<OpenFile>>) -> c_int {
    let opened = Opened { list, fd, _file: file };
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).push(opened);
    fd
}

/// The path of an action, relative to the working directory of this process instead of that of the child.
fn from_here(list: usize, path: &[u8]) -> Cow<'_, [u8]> {
    let directories = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
    match directories.iter().find(|(of, _)| *of == list) {
        Some((_, dir)) if !path.is_empty() && !path.starts_with(b"/") => {
            Cow::Owned([dir.as_slice(), b"/", path].concat())
        }
        _ => Cow::Borrowed(path),
    }
}

/// Records the directory of a list of actions, if the action was added: `result` is 0. Returns `result`.
fn note_directory(list: usize, path: &[u8], result: c_int) -> c_int {
    if result == 0 {
        let mut directories = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
        directories.retain(|(of, _)| *of != list);
        directories.push((list, path.to_vec()));
    }
    result
}

/// Forgets the directory of a list of actions, and closes the descriptors that were opened for it.
fn forget_list(list: usize) {
    let mut directories = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
    directories.retain(|(of, _)| *of != list);
    drop(directories);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.retain(|opened| {
        if opened.list == list {
            internal::forget(opened.fd);
            raw::close(opened.fd);
        }
        opened.list != list
    });
}

/// Adds an action that makes `fd` a copy of `from`.
fn add_copy(list: *mut c_void, from: c_int, fd: c_int) -> c_int {
    // SAFETY: the list is the caller's, which the C library set up.
    unsafe { libc::posix_spawn_file_actions_adddup2(list.cast(), from, fd) }
}

/// Adds an action that makes a directory the working directory.
fn add_directory(list: *mut c_void, fd: c_int) -> c_int {
    // SAFETY: as the C library declares it.
    unsafe extern "C" {
        fn posix_spawn_file_actions_addfchdir_np(list: *mut c_void, fd: c_int) -> c_int;
    }
    // SAFETY: the list is the caller's, which the C library set up.
    unsafe { posix_spawn_file_actions_addfchdir_np(list, fd) }
}

/// Returns the result of adding an action: 0 or an errno, which `errno` itself does not get. If the path of the action
/// leads out of the mount point, calls `theirs` with the path on the host.
fn added(answer: Answer<c_int>, theirs: impl FnOnce(Text) -> c_int) -> c_int {
    match answer {
        Ok(result) => result,
        Err(Fail::Errno(errno)) => errno,
        Err(Fail::Outside(host)) => match CString::new(host) {
            Ok(host) => theirs(Text::from_c_str(&host)),
            Err(_) => libc::ENOENT,
        },
    }
}

export! {
    fn popen(command: Text, mode: Text) -> *mut c_void | next {
        // The C library starts the program without the handlers of `pthread_atfork`.
        process::before_fork();
        next(command, mode)
    }

    fn system(command: Text) -> c_int | next {
        // The C library starts the program without the handlers of `pthread_atfork`.
        process::before_fork();
        next(command)
    }

    fn posix_spawn(
        pid: *mut c_int, path: Text, actions: *const c_void, attributes: *const c_void,
        arguments: Texts, environment: Texts,
    ) -> c_int | next {
        let Some(path) = path.c_str() else { return libc::EFAULT };
        spawn((pid, path), (actions, attributes), (arguments, environment), next)
    }

    fn posix_spawnp(
        pid: *mut c_int, file: Text, actions: *const c_void, attributes: *const c_void,
        arguments: Texts, environment: Texts,
    ) -> c_int | next {
        let Some(name) = file.c_str() else { return libc::EFAULT };
        let is_path = name.to_bytes().contains(&b'/');
        let how = ((actions, attributes), (arguments, environment));
        match serve_program(|| in_our_folders(name.to_bytes())) {
            Ok(path) if !is_path => spawn((pid, &path), how.0, how.1, next),
            _ if is_path => spawn((pid, name), how.0, how.1, next),
            _ => spawn_found(pid, name, how.0, how.1, next),
        }
    }

    fn posix_spawn_file_actions_addopen(
        list: *mut c_void, fd: c_int, path: Text, flags: c_int, mode: u32,
    ) -> c_int | next {
        let bytes = from_here(list as usize, path.bytes().unwrap_or_default());
        if !paths::is_ours(libc::AT_FDCWD, &bytes) {
            return next(list, fd, path, flags, mode);
        }
        let opened = serve(|| {
            open_now(list as usize, &MountPath::new(libc::AT_FDCWD, &bytes)?, flags, mode)
        });
        let result = opened.map(|kept| add_copy(list, kept, fd));
        added(result, |path| next(list, fd, path, flags, mode))
    }

    fn posix_spawn_file_actions_init(list: *mut c_void) -> c_int | next {
        // A program may use the memory of a list that it has not destroyed.
        let _ = serve_program(|| {
            forget_list(list as usize);
            Ok(())
        });
        next(list)
    }

    fn posix_spawn_file_actions_destroy(list: *mut c_void) -> c_int | next {
        let _ = serve_program(|| {
            forget_list(list as usize);
            Ok(())
        });
        next(list)
    }

    fn posix_spawn_file_actions_addfchdir_np(list: *mut c_void, fd: c_int) -> c_int | next {
        if !descriptors::is_ours(fd) {
            return next(list, fd);
        }
        let opened = serve(|| {
            let directory = cwd::stand_in(&descriptors::get(fd)?.node()?)?;
            Ok(keep_for(list as usize, internal::keep(directory), None))
        });
        added(opened.map(|fd| next(list, fd)), |_| libc::ENOENT)
    }

    fn posix_spawn_file_actions_addchdir_np(list: *mut c_void, path: Text) -> c_int | next {
        let bytes = from_here(list as usize, path.bytes().unwrap_or_default());
        if !paths::is_ours(libc::AT_FDCWD, &bytes) {
            return note_directory(list as usize, &bytes, next(list, path));
        }
        let opened = serve(|| {
            let node = MountPath::new(libc::AT_FDCWD, &bytes)?.node(Follow::All)?;
            Ok(keep_for(list as usize, internal::keep(cwd::stand_in(&node)?), None))
        });
        let result = added(opened.map(|fd| add_directory(list, fd)), |path| next(list, path));
        note_directory(list as usize, &bytes, result)
    }
}
