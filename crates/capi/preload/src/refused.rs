//! Functions that only the kernel can provide: refused with the errno that callers expect.
use crate::answer::no;
use crate::edge::{Text, export};
use crate::serve::at;
use std::ffi::{c_int, c_void};

const HERE: c_int = libc::AT_FDCWD;

export! {
    fn inotify_add_watch(fd: c_int, path: Text, mask: u32) -> c_int | next {
        at(HERE, path, |_| no(libc::ENOSPC), |_, path| next(fd, path, mask))
    }

    fn name_to_handle_at(
        dir: c_int, path: Text, handle: *mut c_void, mount: *mut c_int, flags: c_int,
    ) -> c_int | next {
        at(dir, path, |_| no(libc::EOPNOTSUPP), |dir, path| next(dir, path, handle, mount, flags))
    }

    fn chroot(path: Text) -> c_int | next {
        at(HERE, path, |_| no(libc::EPERM), |_, path| next(path))
    }
}
