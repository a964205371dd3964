//! Changing attributes: modes, owners, times, sizes, space.
use crate::answer::{Answer, Fail, refuse};
use crate::edge::{In, Text, export};
use crate::maps;
use crate::open;
use crate::open_file::OpenFile;
use crate::paths::{self, MountPath};
use crate::serve::{at, at_node, on};
use crate::stat::{check_flags, or_here};
use dfs::{Follow, SetAttr, Time};
use esker_preload_interface::Node;
use std::ffi::{c_int, c_long};

const HERE: c_int = libc::AT_FDCWD;

/// Flags of `fchmodat`, `fchownat` and `utimensat`.
const FLAGS: c_int = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW;

fn follow(flags: c_int) -> Follow {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { Follow::AllButLast } else { Follow::All }
}

/// The file whose attributes are set.
trait Target {
    /// Applies `change` and returns 0.
    fn set(&self, change: &SetAttr) -> Answer<c_int>;
}

impl Target for Node {
    fn set(&self, change: &SetAttr) -> Answer<c_int> {
        self.set_attr(change)?;
        Ok(0)
    }
}

impl Target for OpenFile {
    fn set(&self, change: &SetAttr) -> Answer<c_int> {
        self.set_attr(change)
    }
}

/// Returns the change that `chmod` asks for.
fn mode(mode: u32) -> SetAttr {
    SetAttr { mode: Some(mode & 0o7777), ..SetAttr::default() }
}

/// Sets the mode of the file at a path. A symbolic link has no mode to set, as in Linux: `EOPNOTSUPP`.
fn set_mode(path: &MountPath<'_>, bits: u32, flags: c_int) -> Answer<c_int> {
    path.with_node(follow(flags), |node| match node.kind() {
        dfs::Kind::Symlink => refuse(libc::EOPNOTSUPP),
        _ => node.set(&mode(bits)),
    })
}

/// Sets the mode of an open file, with the error of [`set_mode`] for a symbolic link.
fn set_open_mode(file: &OpenFile, bits: u32) -> Answer<c_int> {
    match file.node()?.kind() {
        dfs::Kind::Symlink => refuse(libc::EOPNOTSUPP),
        _ => file.set(&mode(bits)),
    }
}

/// Answers a call that changes the attributes of the file at a path, by `change`. The path may also be that of a
/// descriptor, such as `/proc/self/fd/3`.
fn change_at(
    dir: c_int,
    path: Text,
    links: Follow,
    change: impl Fn(&dyn Target) -> Answer<c_int>,
    theirs: impl FnOnce(c_int, Text) -> c_int,
) -> c_int {
    match open::descriptor(path).filter(|_| links == Follow::All) {
        Some(fd) => on(fd, |file| change(file), || theirs(dir, path)),
        None => at(dir, path, |path| path.with_node(links, |node| change(&node)), theirs),
    }
}

/// Returns the change that `chown` asks for. An id of -1 stays unchanged.
fn owner(user: u32, group: u32) -> SetAttr {
    let changed = |id: u32| (id != u32::MAX).then_some(id);
    SetAttr { uid: changed(user), gid: changed(group), ..SetAttr::default() }
}

/// Returns the change that `utimensat` asks for: its access time is not stored, but must be valid. `None` if both times
/// are `UTIME_OMIT`; Linux then does not even check that the file exists.
fn times(times: In<libc::timespec>) -> Answer<Option<SetAttr>> {
    let now = SetAttr { mtime: Some(Time::now()), ..SetAttr::default() };
    let [access, change] = times.values(2) else { return Ok(Some(now)) };
    let is_special = |nanos: c_long| nanos == libc::UTIME_NOW || nanos == libc::UTIME_OMIT;
    let is_good = |time: &libc::timespec| {
        (0..1_000_000_000).contains(&time.tv_nsec) || is_special(time.tv_nsec)
    };
    if !is_good(access) || !is_good(change) {
        return refuse(libc::EINVAL);
    }
    Ok(match change.tv_nsec {
        libc::UTIME_OMIT if access.tv_nsec == libc::UTIME_OMIT => None,
        libc::UTIME_OMIT => Some(SetAttr::default()),
        libc::UTIME_NOW => Some(now),
        nanos => {
            let time = Time { seconds: change.tv_sec, nanos: nanos as u32 };
            Some(SetAttr { mtime: Some(time), ..SetAttr::default() })
        }
    })
}

/// Sets the times of a file as `utimensat` does. Does nothing if both are `UTIME_OMIT`.
fn set_times(to: &dyn Target, wanted: In<libc::timespec>) -> Answer<c_int> {
    times(wanted)?.map_or(Ok(0), |change| to.set(&change))
}

/// Sets the times of an open file. If neither time is set, Linux does not even check the descriptor.
fn set_open_times(file: &OpenFile, wanted: In<libc::timespec>) -> Answer<c_int> {
    match times(wanted) {
        Ok(None) => Ok(0),
        _ => set_times(file.open()?, wanted),
    }
}

/// Converts two times of C from microseconds to nanoseconds. `None`, which means the current time, for a null pointer.
fn from_micros(times: In<libc::timeval>) -> Answer<Option<[libc::timespec; 2]>> {
    let [access, change] = times.values(2) else { return Ok(None) };
    let time = |time: &libc::timeval| match time.tv_usec {
        micros @ 0..1_000_000 => Ok(libc::timespec { tv_sec: time.tv_sec, tv_nsec: micros * 1000 }),
        _ => refuse(libc::EINVAL),
    };
    Ok(Some([time(access)?, time(change)?]))
}

/// Sets the times of a file, given in microseconds, or the current time for a null pointer.
fn set_micros(node: &dyn Target, wanted: In<libc::timeval>) -> Answer<c_int> {
    match from_micros(wanted)? {
        Some(times) => set_times(node, In::from_slice(&times)),
        None => set_times(node, In::null()),
    }
}

/// Sets the times of a file, given in seconds, or the current time for a null pointer.
fn set_seconds(node: &dyn Target, wanted: In<libc::utimbuf>) -> Answer<c_int> {
    match wanted.get() {
        Some(times) => {
            let time = |seconds| libc::timespec { tv_sec: seconds, tv_nsec: 0 };
            set_times(node, In::from_slice(&[time(times.actime), time(times.modtime)]))
        }
        None => set_times(node, In::null()),
    }
}

/// Converts a length of C. A negative one is refused with `EINVAL`.
fn size(length: i64) -> Answer<u64> {
    u64::try_from(length).or_else(|_| refuse(libc::EINVAL))
}

/// Sets the size of a file in bytes. Shared mappings of the file get zeros behind its new end.
fn truncate_node(node: &Node, length: i64) -> Answer<c_int> {
    let length = size(length)?;
    let change = SetAttr { size: Some(length), ..SetAttr::default() };
    maps::cut(node.oid(), length, || node.set(&change))
}

/// Sets the size of an open file in bytes. Shared mappings of the file get zeros behind its new end.
fn truncate_open(file: &OpenFile, length: i64) -> Answer<c_int> {
    let length = size(length)?;
    let file = file.open()?;
    let cut = || {
        let content = file.file()?;
        maps::cut(file.oid(), length, || Ok(content.set_len(length).map(|()| 0)?))
    };
    match cut() {
        // The error of `ftruncate` for a descriptor that is not open for writing.
        Err(Fail::Errno(libc::EBADF | libc::EISDIR)) => refuse(libc::EINVAL),
        answer => answer,
    }
}

/// Serves `posix_fallocate` and Linux's `fallocate` with the modes that the store has; others fail with `EOPNOTSUPP`.
fn allocate(file: &OpenFile, mode: c_int, offset: i64, length: i64) -> Answer<c_int> {
    // Refuses descriptors of `O_PATH` before the arguments are checked.
    file.open()?;
    if offset < 0 || length <= 0 {
        return refuse(libc::EINVAL);
    }
    let (offset, length) = (offset as u64, length as u64);
    const KEEP: c_int = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: c_int = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: c_int = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: c_int = ZERO | KEEP;
    let zeroed = offset..offset.saturating_add(length);
    let oid = file.oid();
    let file = file.for_writing()?;
    match mode {
        0 => file.allocate(offset, length, false)?,
        KEEP => file.allocate(offset, length, true)?,
        PUNCH => maps::zero(oid, zeroed, || file.punch(offset, length))?,
        ZERO => maps::zero(oid, zeroed, || file.zero(offset, length, false))?,
        ZERO_KEEP => maps::zero(oid, zeroed, || file.zero(offset, length, true))?,
        _ => return refuse(libc::EOPNOTSUPP),
    }
    Ok(0)
}

/// Converts the result of a call, 0 or -1 with errno set, to that of `posix_fallocate`: 0 or the error itself.
fn error_of(answer: c_int) -> c_int {
    if answer == 0 { 0 } else { crate::threads::errno() }
}

/// Functions of one form under several names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@truncate $name:ident) => { export! {
        fn $name(path: Text, length: i64) -> c_int | next {
            if length < 0 {
                // Linux refuses negative lengths for any path.
                return next(path, length);
            }
            at_node(path, |node| truncate_node(&node, length), |path| next(path, length))
        }
    } };
    (@ftruncate $name:ident) => { export! {
        fn $name(fd: c_int, length: i64) -> c_int | next {
            on(fd, |file| truncate_open(file, length), || next(fd, length))
        }
    } };
    (@fallocate $name:ident) => { export! {
        fn $name(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int | next {
            let ours = |file: &OpenFile| allocate(file, mode, offset, length);
            on(fd, ours, || next(fd, mode, offset, length))
        }
    } };
    (@posix_fallocate $name:ident) => { export! {
        fn $name(fd: c_int, offset: i64, length: i64) -> c_int | next {
            match crate::descriptors::is_ours(fd) {
                true => error_of(on(fd, |file| allocate(file, 0, offset, length), || 0)),
                false => next(fd, offset, length),
            }
        }
    } };
}

variants! {
    truncate: truncate truncate64;
    ftruncate: ftruncate ftruncate64;
    fallocate: fallocate fallocate64;
    posix_fallocate: posix_fallocate posix_fallocate64;
}

export! {
    fn chmod(path: Text, bits: u32) -> c_int | next {
        change_at(HERE, path, Follow::All, |to| to.set(&mode(bits)), |_, path| next(path, bits))
    }

    fn lchmod(path: Text, bits: u32) -> c_int | next {
        let ours = |path: MountPath<'_>| set_mode(&path, bits, libc::AT_SYMLINK_NOFOLLOW);
        at(HERE, path, ours, |_, path| next(path, bits))
    }

    fn fchmod(fd: c_int, bits: u32) -> c_int | next {
        on(fd, |file| file.open()?.set(&mode(bits)), || next(fd, bits))
    }

    fn fchmodat(dir: c_int, path: Text, bits: u32, flags: c_int) -> c_int | next {
        let path = or_here(dir, path, flags);
        let theirs = |dir, path| next(dir, path, bits, flags);
        let checked = || check_flags(flags, FLAGS);
        match flags & libc::AT_SYMLINK_NOFOLLOW {
            _ if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 => {
                let ours = |file: &OpenFile| checked().and_then(|()| set_open_mode(file, bits));
                on(dir, ours, || theirs(dir, path))
            }
            0 => {
                let change = |to: &dyn Target| checked().and_then(|()| to.set(&mode(bits)));
                change_at(dir, path, Follow::All, change, theirs)
            }
            _ => {
                let ours = |path: MountPath<'_>| {
                    checked().and_then(|()| set_mode(&path, bits, flags))
                };
                at(dir, path, ours, theirs)
            }
        }
    }

    fn chown(path: Text, user: u32, group: u32) -> c_int | next {
        let change = |to: &dyn Target| to.set(&owner(user, group));
        change_at(HERE, path, Follow::All, change, |_, path| next(path, user, group))
    }

    fn lchown(path: Text, user: u32, group: u32) -> c_int | next {
        let change = |to: &dyn Target| to.set(&owner(user, group));
        change_at(HERE, path, Follow::AllButLast, change, |_, path| next(path, user, group))
    }

    fn fchown(fd: c_int, user: u32, group: u32) -> c_int | next {
        on(fd, |file| file.open()?.set(&owner(user, group)), || next(fd, user, group))
    }

    fn fchownat(dir: c_int, path: Text, user: u32, group: u32, flags: c_int) -> c_int | next {
        let path = or_here(dir, path, flags);
        if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            let ours = |file: &OpenFile| {
                check_flags(flags, FLAGS)?;
                file.set(&owner(user, group))
            };
            return on(dir, ours, || next(dir, path, user, group, flags));
        }
        let change = |to: &dyn Target| {
            check_flags(flags, FLAGS)?;
            to.set(&owner(user, group))
        };
        change_at(dir, path, follow(flags), change, |dir, path| next(dir, path, user, group, flags))
    }

    fn utimensat(dir: c_int, path: Text, times: In<libc::timespec>, flags: c_int) -> c_int | next {
        let path = or_here(dir, path, flags);
        if path.is_empty() {
            let ours = |file: &OpenFile| match path.is_null() {
                true => set_open_times(file, times),
                false if flags & libc::AT_EMPTY_PATH == 0 => refuse(libc::ENOENT),
                false => check_flags(flags, FLAGS).and_then(|()| set_times(file, times)),
            };
            return on(dir, ours, || next(dir, path, times, flags));
        }
        let is_ours = path.bytes().is_some_and(|path| paths::is_ours(dir, path));
        if is_ours && flags & !FLAGS == 0 && matches!(self::times(times), Ok(None)) {
            return 0;
        }
        let change = |to: &dyn Target| {
            check_flags(flags, FLAGS)?;
            set_times(to, times)
        };
        change_at(dir, path, follow(flags), change, |dir, path| next(dir, path, times, flags))
    }

    fn futimens(fd: c_int, times: In<libc::timespec>) -> c_int | next {
        on(fd, |file| set_open_times(file, times), || next(fd, times))
    }

    fn utimes(path: Text, times: In<libc::timeval>) -> c_int | next {
        change_at(HERE, path, Follow::All, |to| set_micros(to, times), |_, path| next(path, times))
    }

    fn lutimes(path: Text, times: In<libc::timeval>) -> c_int | next {
        let change = |to: &dyn Target| set_micros(to, times);
        change_at(HERE, path, Follow::AllButLast, change, |_, path| next(path, times))
    }

    fn futimes(fd: c_int, times: In<libc::timeval>) -> c_int | next {
        on(fd, |file| set_micros(file.open()?, times), || next(fd, times))
    }

    fn futimesat(dir: c_int, path: Text, times: In<libc::timeval>) -> c_int | next {
        let change = |to: &dyn Target| set_micros(to, times);
        change_at(dir, path, Follow::All, change, |dir, path| next(dir, path, times))
    }

    fn utime(path: Text, times: In<libc::utimbuf>) -> c_int | next {
        change_at(HERE, path, Follow::All, |to| set_seconds(to, times), |_, path| next(path, times))
    }
}
