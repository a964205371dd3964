//! Names for temporary files: mkstemp and its relatives.
use crate::answer::{Answer, Fail, refuse, to_c};
use crate::edge::{Out, Text, export};
use crate::open::{new_entry, open_path};
use crate::paths::{self, MountPath};
use crate::raw;
use crate::serve::serve;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Letters at the end of a template that are replaced.
const LETTERS: usize = 6;

/// Most attempts to find a free name (glibc tries 62^3).
const ATTEMPTS_MAX: u64 = 10_000;

/// Fills the `XXXXXX` of the template with random letters until `attempt` does not fail with `EEXIST`. `suffix` is the
/// number of bytes after the `XXXXXX`.
fn fill<T>(
    template: Out<u8>,
    suffix: c_int,
    attempt: impl Fn(&MountPath<'_>) -> Answer<T>,
) -> Answer<T> {
    let length = template.text_length();
    let Some(end) = length.checked_sub(usize::try_from(suffix).unwrap_or(usize::MAX)) else {
        return refuse(libc::EINVAL);
    };
    let text = template.values(length);
    if end < LETTERS || text[end - LETTERS..end] != *b"XXXXXX" {
        return refuse(libc::EINVAL);
    }
    // A forked child inherits the state of the generator; with the process id it draws other names.
    let mut random = fastrand::Rng::with_seed(fastrand::u64(..) ^ u64::from(std::process::id()));
    for _ in 0..ATTEMPTS_MAX {
        text[end - LETTERS..end].fill_with(|| random.alphanumeric() as u8);
        match attempt(&MountPath::new(libc::AT_FDCWD, text)?) {
            Err(Fail::Errno(libc::EEXIST)) => {}
            answer => return answer,
        }
    }
    refuse(libc::EEXIST)
}

/// Serves `mkstemp` and its variants; `theirs` serves templates outside the mount point.
fn file(template: Out<u8>, suffix: c_int, flags: c_int, theirs: impl FnOnce() -> c_int) -> c_int {
    if !is_ours(template) {
        return theirs();
    }
    let flags = flags & !libc::O_ACCMODE | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    to_c(serve(|| fill(template, suffix, |path| open_path(path, flags, 0o600))))
}

fn is_ours(template: Out<u8>) -> bool {
    !template.is_null() && paths::is_ours(libc::AT_FDCWD, template.values(template.text_length()))
}

/// Attempt of `mkdtemp`: makes the directory.
fn make_directory(path: &MountPath<'_>) -> Answer<()> {
    let last = path.last()?;
    last.dir.mkdir(&last.name, &new_entry(&last.dir, 0o700, true))?;
    Ok(())
}

/// Attempt of `mktemp` and `tempnam`: fails with `EEXIST` if there is an entry of this name.
fn find_free(path: &MountPath<'_>) -> Answer<()> {
    match path.node(dfs::Follow::AllButLast) {
        Ok(_) => refuse(libc::EEXIST),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@plain $name:ident) => { export! {
        fn $name(template: Out<u8>) -> c_int | next {
            file(template, 0, 0, || next(template))
        }
    } };
    (@flags $name:ident) => { export! {
        fn $name(template: Out<u8>, flags: c_int) -> c_int | next {
            file(template, 0, flags, || next(template, flags))
        }
    } };
    (@suffix $name:ident) => { export! {
        fn $name(template: Out<u8>, suffix: c_int) -> c_int | next {
            file(template, suffix, 0, || next(template, suffix))
        }
    } };
    (@both $name:ident) => { export! {
        fn $name(template: Out<u8>, suffix: c_int, flags: c_int) -> c_int | next {
            file(template, suffix, flags, || next(template, suffix, flags))
        }
    } };
}

variants! {
    plain: mkstemp mkstemp64;
    flags: mkostemp mkostemp64;
    suffix: mkstemps mkstemps64;
    both: mkostemps mkostemps64;
}

export! {
    fn mkdtemp(template: Out<u8>) -> *mut c_char | next {
        if !is_ours(template) {
            return next(template);
        }
        let made = serve(|| fill(template, 0, make_directory));
        to_c(made.map(|()| template.pointer().cast()))
    }

    fn mktemp(template: Out<u8>) -> *mut c_char | next {
        if !is_ours(template) {
            return next(template);
        }
        let found = serve(|| fill(template, 0, find_free));
        to_c(found.map(|()| template.pointer().cast()))
    }
}

/// Most bytes of a prefix in the names that `tempnam` makes.
const PREFIX_MAX: usize = 5;

/// A free name in the directory that `tempnam` chooses: the first of `TMPDIR` and the caller's directory that exists.
/// `None` if that is not ours.
fn temporary_name(dir: Text, prefix: Text) -> Option<Answer<*mut c_char>> {
    let variable = std::env::var_os("TMPDIR").and_then(|dir| CString::new(dir.into_vec()).ok());
    let variable = variable.as_deref().filter(|_| !is_privileged()).map(CStr::to_bytes);
    let chosen = variable.into_iter().chain(dir.bytes()).find(|dir| is_directory(dir))?;
    if !paths::is_ours(libc::AT_FDCWD, chosen) {
        return None;
    }
    let prefix = prefix.bytes().filter(|prefix| !prefix.is_empty()).unwrap_or(b"file");
    let prefix = &prefix[..prefix.len().min(PREFIX_MAX)];
    let mut template =
        [chosen.strip_suffix(b"/").unwrap_or(chosen), b"/", prefix, b"XXXXXX\0"].concat();
    let found = serve(|| fill(Out::from_slice(&mut template), 0, find_free));
    // SAFETY: the template ends with a zero byte. The caller frees the copy.
    Some(found.map(|()| unsafe { libc::strdup(template.as_ptr().cast()) }))
}

fn is_directory(path: &[u8]) -> bool {
    std::fs::metadata(OsStr::from_bytes(path)).is_ok_and(|found| found.is_dir())
}

/// True for a set-user-id program, in which the C library ignores `TMPDIR`.
fn is_privileged() -> bool {
    raw::user() != raw::real_user()
}

export! {
    fn tempnam(dir: Text, prefix: Text) -> *mut c_char | next {
        match temporary_name(dir, prefix) {
            Some(answer) => to_c(answer),
            None => next(dir, prefix),
        }
    }
}

/// Serves `realpath` into `room`, or into new memory if `room` is null; `theirs` serves all other paths.
fn resolve(path: Text, room: Out<u8>, theirs: impl Fn(Text) -> *mut c_char) -> *mut c_char {
    let ours = |path: MountPath<'_>| {
        let node = path.node(dfs::Follow::All)?;
        if path.must_be_directory() && node.kind() != dfs::Kind::Directory {
            return refuse(libc::ENOTDIR);
        }
        let size = if room.is_null() { 0 } else { crate::limits::PATH_MAX };
        crate::cwd::copy_out(&paths::shown(&node.path()?), room, size)
    };
    let is_relative = path.bytes().is_some_and(|path| !path.is_empty() && path[0] != b'/');
    match if is_relative { serve(crate::cwd::check) } else { Ok(()) } {
        Ok(()) => crate::serve::at(libc::AT_FDCWD, path, ours, |_, path| theirs(path)),
        Err(error) => to_c(Err(error)),
    }
}

export! {
    fn realpath(path: Text, room: Out<u8>) -> *mut c_char | next {
        resolve(path, room, |path| next(path, room))
    }

    fn __realpath_chk(path: Text, room: Out<u8>, size: usize) -> *mut c_char | next {
        resolve(path, room, |path| next(path, room, size))
    }

    fn canonicalize_file_name(path: Text) -> *mut c_char | next {
        resolve(path, Out::null(), |path| next(path))
    }
}
