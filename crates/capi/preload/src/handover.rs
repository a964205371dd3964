//! Removed files that the next program of this process inherits.
//!
//! A removed file lives as long as somebody has it open, and this process ceases to have it open when it
//! becomes another program. Where nobody else has it, its content moves to an anonymous file of the
//! kernel, in place of the descriptor: nobody can tell the difference, for it has no name.
use crate::answer::Answer;
use crate::open_file::OpenFile;
use crate::{descriptors, raw};
use std::ffi::c_int;
use std::sync::Arc;

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

/// Moves the content of removed files that only this process has open. Called inside.
pub(crate) fn before_exec() {
    let inherited = |fd: &c_int| raw::control(*fd, libc::F_GETFD, 0).is_ok_and(|flags| flags == 0);
    let open: Vec<_> = descriptors::within(0, u32::MAX).filter(inherited).collect();
    for fd in open {
        if let Ok(file) = descriptors::get(fd)
            && file.is_own()
            && file.attr().is_ok_and(|attr| attr.nlink == 0)
        {
            let _ = move_content(fd, &file);
        }
    }
}

fn move_content(fd: c_int, file: &Arc<OpenFile>) -> Answer<()> {
    let offset = raw::seek(fd, 0, libc::SEEK_CUR)?;
    let copy = raw::anonymous(c"removed", libc::MFD_CLOEXEC)?;
    let mut room = vec![0; STEP];
    loop {
        let length = file.copy_next(copy, &mut room)?;
        if length == 0 {
            break;
        }
    }
    if !file.is_last_user()? {
        raw::close(copy);
        return Ok(());
    }
    raw::seek(copy, offset, libc::SEEK_SET)?;
    let flags = if file.appends() { libc::O_APPEND } else { 0 };
    raw::control(copy, libc::F_SETFL, flags as usize)?;
    let same =
        |other: &c_int| descriptors::get(*other).is_ok_and(|other| Arc::ptr_eq(&other, file));
    let all: Vec<_> = descriptors::within(0, u32::MAX).filter(same).collect();
    for fd in all {
        raw::duplicate(copy, fd, 0)?;
        descriptors::take(fd);
    }
    raw::close(copy);
    Ok(())
}
