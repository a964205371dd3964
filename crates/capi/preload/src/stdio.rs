//! Streams of the C library. It reads and writes them by internal calls that cannot be intercepted, but it makes these
//! calls through a table of functions for each kind of stream. When a program opens its first file of the mount point,
//! this library replaces five entries of the tables for files.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::{In, Out, Text, export, real};
use crate::next::data;
use crate::serve::{on, return_or_forward, serve};
use crate::{close, descriptors, mount_table, open, paths, raw, report, stat};
use libc::FILE;
use std::ffi::{CString, c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Entries of a table (glibc: `struct _IO_jump_t`).
const READ: usize = 14;
const WRITE: usize = 15;
const SEEK: usize = 16;
const CLOSE: usize = 17;
const STAT: usize = 18;
const ENTRIES: usize = 21;

/// Position of the pointer to the next stream in a stream (glibc: `_chain`).
const CHAIN: usize = 104;
/// Position of the descriptor in a stream (glibc: `_fileno`).
const NUMBER: usize = 112;
/// Position of the offset in a stream; the offset is -1 if unknown (glibc: `_offset`).
const OFFSET: usize = 144;
/// Flag of a stream whose write or read failed (glibc: `_IO_ERR_SEEN`).
const ERROR_SEEN: c_int = 0x20;

type Slots = [AtomicUsize; ENTRIES];

/// The original entries, which are the same in both tables.
static ORIGINAL: [AtomicUsize; ENTRIES] = [const { AtomicUsize::new(0) }; ENTRIES];
/// Lets [`replace_entries`] work once.
static ONCE: Once = Once::new();

/// Replaces the entries. Called when the first file of the mount point is opened.
pub(crate) fn replace_entries() {
    ONCE.call_once(|| {
        let tables = [data(c"_IO_file_jumps"), data(c"_IO_wfile_jumps")];
        let expected = [
            (READ, data(c"_IO_file_read")),
            (WRITE, data(c"_IO_file_write")),
            (SEEK, data(c"_IO_file_seek")),
            (CLOSE, data(c"_IO_file_close")),
            (STAT, data(c"_IO_file_stat")),
        ];
        let done = tables.into_iter().all(|table| table.is_some_and(|t| exchange(t, &expected)));
        if !done {
            report::note(
                "streams (fopen, printf) on files of the mount point are not intercepted: this C \
                          library implements them in another way",
            );
        }
    });
}

/// Address of this library's function for an entry.
fn ours(entry: usize) -> usize {
    match entry {
        READ => slot_read as *const () as usize,
        WRITE => slot_write as *const () as usize,
        SEEK => slot_seek as *const () as usize,
        CLOSE => slot_close as *const () as usize,
        _ => slot_stat as *const () as usize,
    }
}

/// Replaces the entries of one table by ours. False if it does not have the expected functions, or cannot be written:
/// this C library is then of an unknown form.
fn exchange(table: *mut c_void, expected: &[(usize, Option<*mut c_void>)]) -> bool {
    // SAFETY: the symbol names a table of this many pointers, which lives as long as the process.
    let slots: &Slots = unsafe { &*table.cast() };
    let holds = |(entry, wanted): &(usize, Option<*mut c_void>)| {
        wanted.is_some_and(|wanted| slots[*entry].load(Ordering::Relaxed) == wanted as usize)
    };
    if !expected.iter().all(holds) || !protect(table, libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    for (entry, _) in expected {
        ORIGINAL[*entry].store(slots[*entry].load(Ordering::Relaxed), Ordering::Relaxed);
        slots[*entry].store(ours(*entry), Ordering::Release);
    }
    protect(table, libc::PROT_READ)
}

/// Changes the protection of the pages of a table. True if that worked.
fn protect(table: *mut c_void, protection: c_int) -> bool {
    const PAGE: usize = 4096;
    let size = raw::page_size().max(PAGE);
    let start = table as usize & !(size - 1);
    let end = (table as usize + size_of::<Slots>()).next_multiple_of(size);
    raw::protect(start, end - start, protection).is_ok()
}

// SAFETY: as the C library declares them.
unsafe extern "C" {
    fn __fpending(stream: *mut FILE) -> usize;
    fn ftrylockfile(stream: *mut FILE) -> c_int;
    fn funlockfile(stream: *mut FILE);
    fn _IO_list_lock();
    fn _IO_list_unlock();
}

/// Writes the buffers of all streams that no other thread has locked. A thread may wait for input with a locked stream,
/// so the end of the process must not wait for such a stream. The C library writes the others when it ends the process.
pub(crate) fn flush_unlocked_streams() {
    let Some(list) = data(c"_IO_list_all") else { return };
    // SAFETY: the lock keeps streams in the list, which is linked by a pointer at this place since the first version of
    // the C library. Each stream is used while this thread has locked it.
    unsafe {
        _IO_list_lock();
        let mut stream: *mut FILE = *list.cast();
        while !stream.is_null() {
            if ftrylockfile(stream) == 0 {
                if __fpending(stream) > 0 {
                    libc::fflush(stream);
                }
                funlockfile(stream);
            }
            stream = *stream.byte_add(CHAIN).cast();
        }
        _IO_list_unlock();
    }
}

/// The descriptor of a stream.
fn number(stream: *mut FILE) -> c_int {
    // SAFETY: the C library passes its own streams. The call reads one number, without a lock.
    unsafe { libc::fileno(stream) }
}

/// The original function of an entry.
macro_rules! before {
    ($entry:ident: fn($($kind:ty),*) -> $result:ty) => {{
        let address = ORIGINAL[$entry].load(Ordering::Relaxed);
        // SAFETY: the table contains functions of this type at this index, and the address was read from there.
        unsafe { std::mem::transmute::<usize, extern "C" fn($($kind),*) -> $result>(address) }
    }};
}

/// The descriptor of a stream, if it is of a file in the mount point.
fn is_ours(stream: *mut FILE) -> Option<c_int> {
    Some(number(stream)).filter(|fd| descriptors::is_ours(*fd))
}

/// Reads for a stream of C. Streams of other files go to the function that was there before.
extern "C" fn slot_read(stream: *mut FILE, buffer: Out<u8>, length: isize) -> isize {
    match is_ours(stream) {
        Some(fd) => to_c(serve(|| {
            descriptors::get(fd)?.read(fd, buffer.values(usize::try_from(length).unwrap_or(0)))
        })),
        None => before!(READ: fn(*mut FILE, Out<u8>, isize) -> isize)(stream, buffer, length),
    }
}

/// Writes for a stream of C. Also updates the fields that the C library maintains here: the offset of the stream, and
/// whether a write failed.
extern "C" fn slot_write(stream: *mut FILE, bytes: In<u8>, length: isize) -> isize {
    let Some(fd) = is_ours(stream) else {
        return before!(WRITE: fn(*mut FILE, In<u8>, isize) -> isize)(stream, bytes, length);
    };
    let bytes = bytes.values(usize::try_from(length).unwrap_or(0));
    let (mut done, mut is_failed) = (0, false);
    while done < bytes.len() && !is_failed {
        let written: isize = to_c(serve(|| descriptors::get(fd)?.write(fd, &[&bytes[done..]])));
        is_failed = written <= 0;
        done += written.max(0) as usize;
    }
    // SAFETY: the C library passes a stream of its own that it has locked. The offsets of these two members have not
    // changed since its first version.
    unsafe {
        let (flags, offset) = (stream.cast::<c_int>(), stream.byte_add(OFFSET).cast::<i64>());
        if is_failed {
            *flags |= ERROR_SEEN;
        }
        if *offset >= 0 {
            *offset += done as i64;
        }
    }
    done as isize
}

/// Seeks for a stream of C. Streams of other files go to the function that was there before.
extern "C" fn slot_seek(stream: *mut FILE, offset: i64, whence: c_int) -> i64 {
    match is_ours(stream) {
        Some(fd) => to_c(serve(|| descriptors::get(fd)?.seek(fd, offset, whence))),
        None => before!(SEEK: fn(*mut FILE, i64, c_int) -> i64)(stream, offset, whence),
    }
}

/// Closes the file of a stream of C. Streams of other files go to the function that was there before.
extern "C" fn slot_close(stream: *mut FILE) -> c_int {
    match is_ours(stream) {
        Some(fd) => close::close_ours(fd),
        None => before!(CLOSE: fn(*mut FILE) -> c_int)(stream),
    }
}

/// Serves `fstat` for a stream of C. Streams of other files go to the function that was there before.
extern "C" fn slot_stat(stream: *mut FILE, out: Out<libc::stat>) -> c_int {
    match is_ours(stream) {
        Some(fd) => to_c(serve(|| {
            out.set(stat::c_stat(&descriptors::get(fd)?.attr()?));
            Ok(0)
        })),
        None => before!(STAT: fn(*mut FILE, Out<libc::stat>) -> c_int)(stream, out),
    }
}

/// The flags of `open` for a mode of `fopen`.
fn flags(mode: &[u8]) -> Answer<c_int> {
    let (base, without_plus) = match mode.first() {
        Some(b'r') => (0, libc::O_RDONLY),
        Some(b'w') => (libc::O_CREAT | libc::O_TRUNC, libc::O_WRONLY),
        Some(b'a') => (libc::O_CREAT | libc::O_APPEND, libc::O_WRONLY),
        _ => return refuse(libc::EINVAL),
    };
    let letters = mode[1..].split(|byte| *byte == b',').next().unwrap_or_default();
    let has = |letter| letters.contains(&letter);
    let access = if has(b'+') { libc::O_RDWR } else { without_plus };
    let exclusive = if has(b'x') { libc::O_EXCL } else { 0 };
    Ok(base | access | exclusive | if has(b'e') { libc::O_CLOEXEC } else { 0 })
}

/// Permission bits of new files, before the umask.
const MODE: u32 = 0o666;

mod c {
    use super::{FILE, Text, c_int, real};

    real! {
        fn fdopen(fd: c_int, mode: Text) -> *mut FILE;
    }
}

/// Serves `fopen`: opens a path of ours as a new stream; `theirs` opens all other paths.
fn open_stream(path: Text, mode: Text, theirs: impl Fn(Text) -> *mut FILE) -> *mut FILE {
    let named = open::descriptor(path);
    let bytes = path.bytes().unwrap_or_default();
    if named.is_none() && !paths::is_ours(libc::AT_FDCWD, bytes) {
        return mount_table(bytes, mode).unwrap_or_else(|| theirs(path));
    }
    let opened = serve(|| open_descriptor(named, bytes, mode.bytes().unwrap_or_default()));
    match opened {
        Ok(fd) => {
            let stream = stream_of(fd, mode);
            if stream.is_null() {
                close::close_ours(fd);
            }
            stream
        }
        Err(error) => return_or_forward(Err(error), |_, path| theirs(path)),
    }
}

/// Opens a stream on the mount table, if the path names it, and the mode is for reading.
fn mount_table(path: &[u8], mode: Text) -> Option<*mut FILE> {
    let form = mount_table::Form::of_path(path)?;
    let flags = flags(mode.bytes().unwrap_or_default()).ok()?;
    let table = mount_table::open(path, form, flags)?;
    let stream = c::fdopen(table, Text::from_c_str(c"r"));
    if stream.is_null() {
        raw::close(table);
    }
    Some(stream)
}

/// Opens the file for a stream, by the mode of `fopen`: the file of the descriptor `named`, or else the file at `path`.
fn open_descriptor(named: Option<c_int>, path: &[u8], mode: &[u8]) -> Answer<c_int> {
    let flags = flags(mode)?;
    let fd = match named {
        Some(fd) => open::reopen(fd, flags)?,
        None => open::open_path(&paths::MountPath::new(libc::AT_FDCWD, path)?, flags, MODE)?,
    };
    go_to_end(fd, flags)?;
    Ok(fd)
}

/// Streams that only append begin at the end, as in the C library.
fn go_to_end(fd: c_int, flags: c_int) -> Answer<()> {
    if flags & (libc::O_APPEND | libc::O_ACCMODE) == libc::O_APPEND | libc::O_WRONLY {
        descriptors::get(fd)?.seek(fd, 0, libc::SEEK_END)?;
    }
    Ok(())
}

/// The mode of a stream without the letters `m` and `x`: the C library must neither map the file nor create it again.
fn mode_of_stream(mode: Text) -> CString {
    let kept = mode.bytes().unwrap_or_default().iter().filter(|byte| !b"mx".contains(byte));
    CString::new(kept.copied().collect::<Vec<_>>()).unwrap_or_default()
}

/// Makes a stream for descriptor `fd`. The C library also checks the access mode of the descriptor, so it gets a readable stand-in, which is
/// then replaced.
fn stream_of(fd: c_int, mode: Text) -> *mut FILE {
    let mode = mode_of_stream(mode);
    replace_entries();
    let other = serve(descriptors::readable);
    let stream: *mut FILE = to_c(other.map(|other| c::fdopen(other, Text::from_c_str(&mode))));
    if !stream.is_null() {
        // SAFETY: the stream is new. Its descriptor has been at this offset since the first version of the C library.
        unsafe { *stream.byte_add(NUMBER).cast::<c_int>() = fd };
    }
    stream
}

/// Reopens a stream on a path of ours, through the null device, so that the C library sets up the stream.
fn reopen_stream(
    path: Text,
    mode: Text,
    stream: *mut FILE,
    theirs: impl Fn(Text, Text) -> *mut FILE,
) -> *mut FILE {
    let old = number(stream);
    let bytes = path.bytes().unwrap_or_default();
    let named = if path.is_null() { Some(old) } else { open::descriptor(path) };
    let named = named.filter(|fd| descriptors::is_ours(*fd));
    if named.is_none() && !paths::is_ours(libc::AT_FDCWD, bytes) {
        let result = theirs(path, mode);
        close::forget_if_gone(old);
        return result;
    }
    // Bytes in the buffer belong before the open, which may truncate the file that they are for.
    // SAFETY: the stream is the caller's.
    unsafe { libc::fflush(stream) };
    let opened = serve(|| open_descriptor(named, bytes, mode.bytes().unwrap_or_default()));
    match opened {
        Ok(fd) => {
            let kept = mode_of_stream(mode);
            let null = theirs(Text::from_c_str(c"/dev/null"), Text::from_c_str(&kept));
            exchange_descriptor(fd, null, old)
        }
        Err(error) => {
            // SAFETY: the stream is the caller's, which `freopen` closes when it fails.
            unsafe { libc::fclose(stream) };
            to_c(Err(error))
        }
    }
}

/// Serves the end of `freopen`: the stream, which is on the null device now, gets the file of `fd`. `old` was its
/// descriptor before.
fn exchange_descriptor(fd: c_int, stream: *mut FILE, old: c_int) -> *mut FILE {
    close::forget_if_gone(old);
    if stream.is_null() {
        close::forget(fd);
        raw::close(fd);
        return stream;
    }
    replace_entries();
    let to = number(stream);
    // After an error, the stream stays on the null device: `freopen` has closed the old file.
    let _ = serve(|| {
        let is_kept = raw::control(fd, libc::F_GETFD, 0)? == 0;
        raw::duplicate(fd, to, if is_kept { 0 } else { libc::O_CLOEXEC })?;
        descriptors::put(to, descriptors::get(fd)?);
        Ok(())
    });
    close::forget(fd);
    raw::close(fd);
    stream
}

/// Checks that the mode of `fdopen` fits the descriptor, and sets `O_APPEND` if the mode appends.
fn apply_mode(fd: c_int, mode: Text) -> Answer<()> {
    let (file, wanted) = (descriptors::get(fd)?, flags(mode.bytes().unwrap_or_default())?);
    let (access, wanted_access) =
        (file.identity().flags & libc::O_ACCMODE, wanted & libc::O_ACCMODE);
    if access != libc::O_RDWR && access != wanted_access {
        return refuse(libc::EINVAL);
    }
    if wanted & libc::O_APPEND != 0 && !file.position.appends(fd) {
        file.position.set_flags(fd, file.position.flags(fd)? | libc::O_APPEND)?;
        go_to_end(fd, wanted)?;
    }
    Ok(())
}

/// `fdopen`: makes a stream for a file of the mount point. For other descriptors it calls `theirs`, the C library's.
fn make_stream(fd: c_int, mode: Text, theirs: impl FnOnce() -> *mut FILE) -> *mut FILE {
    match descriptors::is_ours(fd) {
        true => match serve(|| apply_mode(fd, mode)) {
            Ok(()) => stream_of(fd, mode),
            Err(error) => to_c(Err(error)),
        },
        // `on` refuses the store's own descriptors, which do not exist for the program.
        false => on(fd, |_| refuse(libc::EBADF), theirs),
    }
}

export! {
    fn fopen(path: Text, mode: Text) -> *mut FILE | next {
        open_stream(path, mode, |path| next(path, mode))
    }

    fn fopen64(path: Text, mode: Text) -> *mut FILE | next {
        open_stream(path, mode, |path| next(path, mode))
    }

    fn setmntent(path: Text, mode: Text) -> *mut FILE | next {
        mount_table(path.bytes().unwrap_or_default(), mode).unwrap_or_else(|| next(path, mode))
    }

    fn freopen(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE | next {
        reopen_stream(path, mode, stream, |path, mode| next(path, mode, stream))
    }

    fn freopen64(path: Text, mode: Text, stream: *mut FILE) -> *mut FILE | next {
        reopen_stream(path, mode, stream, |path, mode| next(path, mode, stream))
    }

    fn fdopen(fd: c_int, mode: Text) -> *mut FILE | next {
        make_stream(fd, mode, || next(fd, mode))
    }

    fn _IO_fdopen(fd: c_int, mode: Text) -> *mut FILE | next {
        make_stream(fd, mode, || next(fd, mode))
    }
}
