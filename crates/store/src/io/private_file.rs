//! Files whose locks show that a process is alive. The locks last exactly as long as the process, even if the program
//! closes descriptors or forks children.
use super::{lock, map, sys};
use esker_os::{self as fork, ChildClosed};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Opens the same file again for reading and, with `write`, for writing, with locks of its own. A path might lead to
/// another file by now.
pub(super) fn open_again(file: &File, write: bool) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(write).open(path)
}

/// A mapped byte of a file, which is never accessed. It keeps the file open, and so its locks, without a descriptor
/// that the program could close.
struct Anchor {
    page: NonNull<u8>,
    /// Fork generation of the process that created it. Forked children have another one.
    generation: u64,
}

// SAFETY: the mapped page is never accessed.
unsafe impl Send for Anchor {}
// SAFETY: as for Send.
unsafe impl Sync for Anchor {}

impl Anchor {
    /// Keeps a file open for this process alone. Call it in [`fork::undisturbed`].
    fn new(file: &File) -> io::Result<Self> {
        let page = map::map(file, 0, 1, libc::PROT_NONE)?;
        let anchor = Self { page, generation: fork::generation() };
        // SAFETY: the page was just mapped; the call only prevents that children inherit it.
        match unsafe { libc::madvise(page.as_ptr().cast(), 1, libc::MADV_DONTFORK) } {
            0 => Ok(anchor),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // In a child, something else may be mapped there by now.
        if self.generation == fork::generation() {
            // SAFETY: the page was mapped by `new`, and it is not accessed.
            unsafe { libc::munmap(self.page.as_ptr().cast(), 1) };
        }
    }
}

/// A descriptor that forked children close. Slots are reused and never freed.
struct DescriptorSlot {
    file: ChildClosed,
    next: *mut DescriptorSlot,
}

static DESCRIPTORS: AtomicPtr<DescriptorSlot> = AtomicPtr::new(null_mut());

fn descriptors() -> impl Iterator<Item = &'static DescriptorSlot> {
    let mut next = DESCRIPTORS.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: slots are created by `slot_for` and never freed.
        let slot = unsafe { next.as_ref() }?;
        next = slot.next;
        Some(slot)
    })
}

/// Registers the descriptor of a file, so that forked children close it.
fn slot_for(file: &File) -> &'static DescriptorSlot {
    if let Some(slot) = descriptors().find(|slot| slot.file.take(file.as_fd())) {
        return slot;
    }
    let slot = Box::new(DescriptorSlot { file: ChildClosed::empty(), next: null_mut() });
    slot.file.take(file.as_fd());
    let slot = Box::leak(slot);
    let mut first = DESCRIPTORS.load(Ordering::Acquire);
    loop {
        slot.next = first;
        match DESCRIPTORS.compare_exchange(first, slot, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return slot,
            Err(other) => first = other,
        }
    }
}

/// Closes, in a forked child, the descriptors that belong to the parent alone.
fn close_in_child() {
    // SAFETY: the child does not use them, since it ignores files that an ancestor opened.
    descriptors().for_each(|slot| unsafe { slot.file.close() });
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    sys::info_of(file.as_fd()).map(|info| (info.st_dev, info.st_ino))
}

/// An open file of this process alone, with locks of its own.
pub(crate) struct PrivateFile {
    file: ManuallyDrop<File>,
    /// Device and inode of the file. Its descriptor may be reused after the program closed it.
    id: (u64, u64),
    slot: &'static DescriptorSlot,
    generation: u64,
    _anchor: Anchor,
}

// SAFETY: a slot is only accessed by atomics.
unsafe impl Sync for DescriptorSlot {}

impl PrivateFile {
    /// Opens the same file again for reading and, with `write`, for writing. The caller may then close `file`.
    pub(crate) fn new(file: &File, write: bool) -> io::Result<Self> {
        fork::on_child(close_in_child);
        fork::undisturbed(|| {
            let file = open_again(file, write)?;
            let anchor = Anchor::new(&file)?;
            let id = id_of(&file)?;
            let slot = slot_for(&file);
            Ok(Self {
                file: ManuallyDrop::new(file),
                id,
                slot,
                generation: fork::generation(),
                _anchor: anchor,
            })
        })
    }

    /// The file.
    ///
    /// # Errors
    /// An error if the program closed the file.
    pub(crate) fn get(&self) -> io::Result<&File> {
        match self.id == id_of(&self.file)? {
            true => Ok(&self.file),
            false => Err(io::Error::other("this program has closed its descriptor")),
        }
    }

    /// The open file, without a check. If the program closed the descriptor, it may refer to another file by now, which
    /// only [`PrivateFile::get`] detects.
    pub(crate) fn get_unchecked(&self) -> &File {
        &self.file
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // In a child the descriptor is closed already.
        if self.generation != fork::generation() {
            return;
        }
        // A child that was forked before the descriptor is closed may keep it, but it keeps no lock.
        let is_open = self.get().and_then(lock::drop_all);
        self.slot.file.free();
        // If the program closed the file, its descriptor may belong to another file of the program.
        if is_open.is_ok() {
            // SAFETY: this is the only place where the file is dropped, and it is not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lock::LockKind;
    use super::*;
    use crate::tests::Scratch;
    use std::os::fd::RawFd;

    /// Runs `check` in a forked child; returns its result.
    fn in_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only makes system calls and ends with _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without running destructors of the parent.
            unsafe { libc::_exit(i32::from(!check())) };
        }
        let mut status = -1;
        // SAFETY: it is a child of this process, and `status` is a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status == 0
    }

    fn is_open(descriptor: RawFd) -> bool {
        // SAFETY: the call accesses no memory.
        unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
    }

    /// Creates a pool and a file in it.
    fn file() -> (Scratch, File) {
        let scratch = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let path = scratch.path().join("locked");
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        (scratch, file)
    }

    #[test]
    fn forked_child_does_not_share_locks_of_parent() {
        let (_scratch, file) = file();
        let own = PrivateFile::new(&file, true).unwrap();
        assert!(lock::set(own.get().unwrap(), LockKind::Exclusive, 7).unwrap());
        let descriptor = own.file.as_raw_fd();
        assert!(in_child(|| !is_open(descriptor) && own.get().is_err()));
        assert!(lock::held_by_other(&file, 7).unwrap(), "the parent has its lock");
        drop(own);
        assert!(!lock::held_by_other(&file, 7).unwrap());
    }

    #[test]
    fn slots_are_reused() {
        let (_scratch, file) = file();
        // Tests that run at the same time have files of their own.
        let before = descriptors().count();
        (0..1000).for_each(|_| drop(PrivateFile::new(&file, true).unwrap()));
        assert!(descriptors().count() < before + 500);
    }

    /// The anchor keeps the file open after its descriptor is closed.
    #[test]
    fn anchor_keeps_locks_of_closed_file() {
        let (_scratch, file) = file();
        let locked = open_again(&file, true).unwrap();
        lock::share(&locked, 3).unwrap();
        let anchor = Anchor::new(&locked).unwrap();
        drop(locked);
        assert!(lock::held_by_other(&file, 3).unwrap());
        // A child that drops the anchor takes nothing from its parent.
        let anchor = ManuallyDrop::new(anchor);
        assert!(in_child(|| {
            // SAFETY: dropped once in the child.
            drop(unsafe { std::ptr::read(&raw const *anchor) });
            lock::held_by_other(&file, 3).unwrap_or(false)
        }));
        drop(ManuallyDrop::into_inner(anchor));
        assert!(!lock::held_by_other(&file, 3).unwrap());
    }

    #[test]
    fn reused_descriptor_is_not_closed() {
        let (_scratch, file) = file();
        let own = PrivateFile::new(&file, true).unwrap();
        let descriptor = own.file.as_raw_fd();
        let other = File::open("/proc/self/exe").unwrap();
        // SAFETY: no memory is accessed. Other tests do not get this number, since it stays open.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), descriptor) }, descriptor);
        assert!(own.get().unwrap_err().to_string().contains("has closed"));
        assert!(in_child(|| is_open(descriptor)));
        drop(own);
        assert!(is_open(descriptor));
        // SAFETY: this test created the descriptor and does not use it any more.
        unsafe { libc::close(descriptor) };
    }
}
