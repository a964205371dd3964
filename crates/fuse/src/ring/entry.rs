//! An entry of a queue: memory for one request and its reply, which this process and the kernel hand to each other
//! through an io_uring.
//!
//! At any time, either the kernel or this process owns the memory. [`Entry::exchange`] hands it to the kernel, and
//! returns when the kernel has written a request there.
#![allow(unsafe_code)]
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Linux: `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// Linux: `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;

/// Linux: sizes of the parts of `struct fuse_uring_req_header`.
const HEADER_BYTES: usize = 128;
const OPERATION_BYTES: usize = 128;
const TRAILER_BYTES: usize = 32;
const HEADERS_BYTES: usize = HEADER_BYTES + OPERATION_BYTES + TRAILER_BYTES;

/// Offset of the payload. The headers are before it. It is a multiple of the page size.
const PAYLOAD_START: usize = 4096;

/// Linux: offsets of the request's number and of the payload's length in `struct fuse_uring_ent_in_out`.
const ID_OFFSET: usize = 8;
const LEN_OFFSET: usize = 16;

/// Linux: offset of `len` in `struct io_uring_sqe`.
const SQE_LEN_OFFSET: usize = 24;
/// Number of memory ranges that a command passes to the kernel: headers and payload.
const RANGES: u32 = 2;

/// A queue that does not exist on any machine.
const NO_QUEUE: u16 = u16::MAX;

/// An io_uring with room for one command.
pub(crate) struct Commands(IoUring<Entry128, cqueue::Entry>);

impl Commands {
    /// Makes an io_uring that only the calling thread may use.
    pub(crate) fn new() -> io::Result<Self> {
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        builder.setup_single_issuer().setup_defer_taskrun().dontfork();
        // Two entries: the kernel rounds the number up, and always needs room for a completion.
        builder.build(2).map(Self)
    }

    /// Makes an io_uring that any thread may use.
    pub(crate) fn for_any_thread() -> io::Result<Self> {
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        builder.dontfork().build(2).map(Self)
    }

    /// Makes the kernel send all requests through the device. The kernel does so after a registration has failed, so
    /// this registers an entry of a queue that does not exist.
    pub(crate) fn use_device_only(mut self, device: &OwnedFd) -> io::Result<()> {
        let command = opcode::UringCmd80::new(Fd(device.as_raw_fd()), REGISTER);
        let command = command.cmd(command_bytes(NO_QUEUE, 0)).build();
        // SAFETY: the queue does not exist, so the kernel refuses the command before it accesses any memory.
        unsafe { self.push(&command) }?;
        self.wait().map(drop)
    }

    /// Queues a command.
    ///
    /// # Safety
    /// The memory to which the command points stays valid until its completion.
    unsafe fn push(&mut self, command: &Entry128) -> io::Result<()> {
        // SAFETY: the caller ensures that the memory stays valid.
        let pushed = unsafe { self.0.submission().push(command) };
        pushed.map_err(|_| Errno::BUSY.into())
    }

    /// Submits queued commands, and waits for a completion. Returns its result.
    fn wait(&mut self) -> io::Result<i32> {
        loop {
            if let Some(completion) = self.0.completion().next() {
                return Ok(completion.result());
            }
            match self.0.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

/// A request in the memory of an entry. The reply overwrites it.
pub(crate) struct Message<'a> {
    /// Header of the request, and then of the reply.
    pub(crate) header: &'a mut [u8],
    /// Structure of the operation.
    pub(crate) operation: &'a [u8],
    pub(crate) payload: &'a mut [u8],
    trailer: &'a mut [u8],
}

impl Message<'_> {
    /// Number of bytes of the request in the payload.
    pub(crate) fn len(&self) -> usize {
        let field = self.trailer.get(LEN_OFFSET..).and_then(<[u8]>::first_chunk);
        field.map_or(0, |field| u32::from_ne_bytes(*field) as usize)
    }

    /// Sets the number of bytes of the reply in the payload.
    pub(crate) fn set_len(&mut self, len: usize) {
        let field = self.trailer.get_mut(LEN_OFFSET..).and_then(<[u8]>::first_chunk_mut);
        if let Some(field) = field {
            *field = (len as u32).to_ne_bytes();
        }
    }

    /// The kernel's number of the request.
    fn id(&self) -> u64 {
        let field = self.trailer.get(ID_OFFSET..).and_then(<[u8]>::first_chunk);
        field.map_or(0, |field| u64::from_ne_bytes(*field))
    }
}

/// An entry of a queue of the kernel.
pub(crate) struct Entry {
    commands: Commands,
    device: Arc<OwnedFd>,
    queue: u16,
    memory: NonNull<u8>,
    payload_bytes: usize,
    /// Addresses and sizes of headers and payload, which the kernel reads when it registers the entry.
    ranges: Box<[u64; 2 * RANGES as usize]>,
    /// The kernel owns the memory.
    kernel_owns_memory: bool,
    /// The kernel knows the entry.
    is_registered: bool,
}

impl Entry {
    /// An entry for requests of up to `payload_bytes` bytes. Only the thread that calls this may use it.
    pub(crate) fn new(device: Arc<OwnedFd>, queue: u16, payload_bytes: usize) -> io::Result<Self> {
        let commands = Commands::new()?;
        let len = PAYLOAD_START + payload_bytes;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses affects no other memory.
        let memory = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let start = memory.as_ptr() as u64;
        let payload = [start + PAYLOAD_START as u64, payload_bytes as u64];
        Ok(Self {
            commands,
            device,
            queue,
            memory,
            payload_bytes,
            ranges: Box::new([start, HEADERS_BYTES as u64, payload[0], payload[1]]),
            kernel_owns_memory: false,
            is_registered: false,
        })
    }

    /// Registers the entry with its queue, without waiting for a request. Only a refusal completes the command at once;
    /// otherwise the first request does.
    pub(crate) fn register(&mut self) -> io::Result<()> {
        self.hand_to_kernel()?;
        self.commands.0.submit()?;
        let failed = self.commands.0.completion().next();
        match failed.map(|completion| completion.result()) {
            None => Ok(()),
            Some(result) => {
                self.kernel_owns_memory = false;
                check(result)
            }
        }
    }

    /// Sends the reply in the memory, if there is one, and waits for the next request. False if the file system was
    /// unmounted.
    pub(crate) fn exchange(&mut self) -> io::Result<bool> {
        if !self.kernel_owns_memory {
            self.hand_to_kernel()?;
        }
        loop {
            let result = self.commands.wait()?;
            self.kernel_owns_memory = false;
            match check(result) {
                Ok(()) => {
                    self.is_registered = true;
                    return Ok(true);
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::NODEV) => return Ok(false),
                    // The kernel has not carried out the command.
                    Some(Errno::AGAIN | Errno::INTR) => self.hand_to_kernel()?,
                    _ => return Err(error),
                },
            }
        }
    }

    /// The request in the memory; `None` if the kernel owns it.
    pub(crate) fn message(&mut self) -> Option<Message<'_>> {
        if self.kernel_owns_memory {
            return None;
        }
        // SAFETY: the mapping has this many bytes, all initialised. The kernel does not own it, and the result borrows
        // this entry, so nothing else accesses it meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len()) };
        let (headers, payload) = memory.split_at_mut_checked(PAYLOAD_START)?;
        let (header, rest) = headers.split_at_mut_checked(HEADER_BYTES)?;
        let (operation, rest) = rest.split_at_mut_checked(OPERATION_BYTES)?;
        let trailer = rest.get_mut(..TRAILER_BYTES)?;
        Some(Message { header, operation, payload, trailer })
    }

    /// Queues a command that hands the memory to the kernel. The first one registers it; each later one sends the reply
    /// in it.
    fn hand_to_kernel(&mut self) -> io::Result<()> {
        let id = self.message().map_or(0, |message| message.id());
        let operation = if self.is_registered { COMMIT_AND_FETCH } else { REGISTER };
        let mut command = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), operation)
            .cmd(command_bytes(self.queue, id))
            .addr(Some(self.ranges.as_ptr() as u64))
            .build();
        set_len(&mut command, RANGES);
        // SAFETY: the kernel reads the ranges while the command is submitted, and they are valid until this entry is
        // dropped. The memory that they describe is not freed while the kernel owns it.
        unsafe { self.commands.push(&command) }?;
        self.kernel_owns_memory = true;
        Ok(())
    }

    const fn len(&self) -> usize {
        PAYLOAD_START + self.payload_bytes
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The kernel may still write to memory that it owns, so that memory stays mapped until the process ends.
        if !self.kernel_owns_memory {
            // SAFETY: the mapping is this entry's own, and nothing borrows it any more.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), self.len()) };
        }
    }
}

/// Linux: `struct fuse_uring_cmd_req`, with the number of a request and of a queue.
fn command_bytes(queue: u16, id: u64) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&id.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// Sets the field `len` of a command, for which the crate `io-uring` has no method.
fn set_len(command: &mut Entry128, len: u32) {
    // SAFETY: an `Entry128` has the layout of the kernel's structure of 128 bytes, which has a `u32` at this offset.
    unsafe {
        std::ptr::from_mut(command)
            .cast::<u8>()
            .add(SQE_LEN_OFFSET)
            .cast::<u32>()
            .write_unaligned(len)
    }
}

/// Converts the result of a completion: a negative one is an errno.
fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
