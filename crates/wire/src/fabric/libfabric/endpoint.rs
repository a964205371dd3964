//! An endpoint: sends to one peer and receives, in slots of registered memory.
use crate::fabric::libfabric::failure::{check, error};
use crate::fabric::libfabric::hints::{InfoList, choose};
use crate::fabric::libfabric::layout::*;
use crate::fabric::libfabric::library::{Functions, enter, functions, is_usable};
use crate::fabric::libfabric::memory::Memory;
use crate::fabric::libfabric::objects::Objects;
use esker_types::{Error, ErrorKind, Result};
use std::ffi::c_void;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Longest address of an endpoint in bytes.
const ADDRESS_MAX: usize = 256;

/// Options of an endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Name of the provider; else the first that libfabric offers, which FI_PROVIDER decides.
    pub(crate) provider: Option<String>,
    /// Address of the interface, for providers that use internet addresses.
    pub(crate) local: Option<IpAddr>,
    /// Lengths of the slots in bytes.
    pub(crate) slots: Vec<usize>,
}

/// A completed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// The slot that is free again.
    pub(crate) slot: usize,
    /// Bytes of the received message, if the slot received one.
    pub(crate) len: usize,
}

/// Sends and receives messages.
pub(crate) struct Endpoint {
    functions: &'static Functions,
    chosen: InfoList,
    objects: Option<Objects>,
    memory: Memory,
    /// Slots that the network uses.
    busy: Vec<bool>,
    /// Index of the peer in the address table.
    peer: Option<u64>,
    /// True if the provider has a descriptor to wait for.
    waits: bool,
    /// Fork generation of the process that opened it: a forked child must not use or close it.
    generation: u64,
    /// Its own address, once it is in [`OWN_NAMES`].
    name: Vec<u8>,
}

/// The addresses of the endpoints of this process.
static OWN_NAMES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn own_names() -> MutexGuard<'static, Vec<Vec<u8>>> {
    OWN_NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoint {
    /// Makes an endpoint, and notes its address among those of this process, which must not connect to itself over
    /// shared memory. Fails in a child made by fork, because libfabric does not survive one.
    ///
    /// # Errors
    /// `NotSupported` if libfabric is not installed, must not be used in this process, or has no such provider; errors
    /// of libfabric.
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        if !is_usable() {
            return Err(forked_error());
        }
        let mut made = Self::make(functions()?, settings)?;
        made.name = made.address()?;
        own_names().push(made.name.clone());
        Ok(made)
    }

    /// Opens an endpoint: chooses a provider, and registers the memory. No slot receives yet.
    fn make(functions: &'static Functions, settings: &Settings) -> Result<Self> {
        let _entered = enter()?;
        let chosen = choose(functions, settings.provider.as_deref(), settings.local)?;
        check_lens(&chosen, &settings.slots)?;
        let mut memory = Memory::new(&settings.slots)?;
        let objects = match Objects::open(functions, &chosen, &memory) {
            Ok(objects) => objects,
            Err(why) => {
                // SAFETY: no operation was ever begun.
                unsafe { memory.free() };
                return Err(why);
            }
        };
        let (busy, generation) = (vec![false; settings.slots.len()], esker_os::generation());
        let waits = objects.queue.wait_descriptor().is_some();
        let (objects, peer, name) = (Some(objects), None, Vec::new());
        Ok(Self { functions, chosen, objects, memory, busy, peer, waits, generation, name })
    }

    fn objects(&self) -> Result<&Objects> {
        self.objects.as_ref().ok_or_else(|| ErrorKind::Canceled.into())
    }

    /// Name of the provider.
    #[must_use]
    pub(crate) fn provider(&self) -> String {
        self.chosen.provider()
    }

    /// The address at which peers reach this endpoint, in the provider's format.
    ///
    /// # Errors
    /// Errors of libfabric.
    pub(crate) fn address(&self) -> Result<Vec<u8>> {
        let _entered = enter()?;
        let endpoint = &self.objects()?.endpoint;
        let (mut address, mut len) = (vec![0; ADDRESS_MAX], ADDRESS_MAX);
        // SAFETY: it is an endpoint; the call writes at most `len` bytes, and their number.
        let code = unsafe {
            let ops = &*endpoint.cast::<RawEndpoint>().cm;
            (ops.getname)(endpoint.raw(), address.as_mut_ptr().cast(), &raw mut len)
        };
        check(self.functions, code, "asking for the address of an endpoint")?;
        address.truncate(len);
        Ok(address)
    }

    /// Sets the peer to which the endpoint sends.
    ///
    /// # Errors
    /// `Invalid` for an address of another provider, or if a peer is already set; `NotSupported` for shared memory
    /// within one process; errors of libfabric.
    pub(crate) fn set_peer(&mut self, address: &[u8]) -> Result<()> {
        if self.peer.is_some() || !self.is_address(address) {
            return Err(Error::new(ErrorKind::Invalid, "not the address of an endpoint"));
        }
        // Within a process, the provider of shared memory uses the peer's memory directly, even after the peer freed
        // it.
        if self.chosen.info().addr_format == FI_ADDR_STR
            && own_names().iter().any(|own| own == address)
        {
            return Err(same_process_error());
        }
        let _entered = enter()?;
        let table = &self.objects()?.addresses;
        let mut peer = 0;
        // SAFETY: it is a table of addresses. The address has the length of this endpoint's own, or ends with a zero
        // byte: the call reads no more.
        let inserted = unsafe {
            let ops = &*table.cast::<Av>().ops;
            let address = address.as_ptr().cast();
            (ops.insert)(table.raw(), address, 1, &raw mut peer, 0, null_mut())
        };
        check(self.functions, inserted, "adding the address of a peer")?;
        if inserted != 1 {
            return Err(Error::new(ErrorKind::Invalid, "libfabric refused the address of a peer"));
        }
        self.peer = Some(peer);
        Ok(())
    }

    /// Whether `address` has the form of the provider's addresses. A peer sends it, so it is checked before libfabric
    /// reads it.
    fn is_address(&self, address: &[u8]) -> bool {
        let family = address.first_chunk().map(|family| i32::from(u16::from_ne_bytes(*family)));
        let has_own_length = address.len() == self.name.len();
        match self.chosen.info().addr_format {
            FI_ADDR_STR => address.last() == Some(&0) && address.len() <= ADDRESS_MAX,
            FI_SOCKADDR_IN => has_own_length && family == Some(libc::AF_INET),
            FI_SOCKADDR_IN6 => has_own_length && family == Some(libc::AF_INET6),
            _ => has_own_length,
        }
    }

    /// True if the provider has a descriptor to wait for.
    #[must_use]
    pub(crate) fn has_descriptor(&self) -> bool {
        self.waits
    }

    /// A descriptor that becomes readable when [`Endpoint::poll`] may return something, if the provider has one. It is
    /// registered with the caller's tokio runtime.
    ///
    /// # Errors
    /// `Io` if it cannot be registered.
    pub(crate) fn descriptor(&self) -> Result<Option<AsyncFd<OwnedFd>>> {
        let _entered = enter()?;
        let Some(raw) = self.objects()?.queue.wait_descriptor().filter(|_| self.waits) else {
            return Ok(None);
        };
        let failed = |error: std::io::Error| Error::io("waiting for the fabric", &error);
        // SAFETY: the descriptor belongs to the queue, which lives; it is only duplicated.
        let own = unsafe { BorrowedFd::borrow_raw(raw) }.try_clone_to_owned().map_err(failed)?;
        // SAFETY: an `OwnedFd` is one open descriptor, always the same.
        let watched = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) };
        watched.map(Some).map_err(|error| failed(error.into()))
    }

    /// True if the caller may wait for the descriptor. False if it must poll first, because libfabric says so or the
    /// descriptor is readable already. Only for endpoints with a descriptor.
    ///
    /// # Errors
    /// Errors of libfabric.
    pub(crate) fn may_wait(&mut self) -> Result<bool> {
        let _entered = enter()?;
        let objects = self.objects()?;
        let Some(descriptor) = objects.queue.wait_descriptor().filter(|_| self.waits) else {
            return Ok(false);
        };
        let mut queue = objects.queue.raw();
        // SAFETY: it is a fabric, and the list has one object of it.
        let code = unsafe {
            let ops = &*objects.fabric.cast::<Fabric>().ops;
            (ops.trywait)(objects.fabric.raw(), &raw mut queue, 1)
        };
        if code as isize == -FI_EAGAIN {
            return Ok(false);
        }
        check(self.functions, code, "waiting for the network")?;
        let mut ready = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that is open; the call returns at once.
        Ok(unsafe { libc::poll(&raw mut ready, 1, 0) } == 0)
    }

    /// The bytes of a slot; `None` while the network uses it.
    #[must_use]
    pub(crate) fn bytes(&self, slot: usize) -> Option<&[u8]> {
        let (start, len) = self.memory.slot(slot).filter(|_| !self.busy[slot])?;
        // SAFETY: the memory is zeroed at first and lives as long as `self`; the network does not use the slot.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) })
    }

    /// The bytes of a slot, to be changed; `None` while the network uses it.
    #[must_use]
    pub(crate) fn bytes_mut(&mut self, slot: usize) -> Option<&mut [u8]> {
        let (start, len) = self.memory.slot(slot).filter(|_| !self.busy[slot])?;
        // SAFETY: as in `bytes`; slots do not overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len) })
    }

    /// Receives the next message of `tag` into a slot. False if the provider is busy: retry after [`Endpoint::poll`].
    ///
    /// # Errors
    /// `Invalid` for a slot that is in use; errors of libfabric.
    pub(crate) fn receive(&mut self, slot: usize, tag: u64) -> Result<bool> {
        let _entered = enter()?;
        let (start, len) = self.idle(slot)?;
        let objects = self.objects()?;
        let context = self.memory.context(slot);
        // SAFETY: it is an endpoint; the slot and its context are registered, and belong to the network until the
        // operation is complete or the endpoint closed.
        let code = unsafe {
            let (raw, memory) = (objects.endpoint.raw(), start.as_ptr().cast());
            let recv = objects.tagged().recv;
            recv(raw, memory, len, objects.descriptor(), FI_ADDR_UNSPEC, tag, 0, context)
        };
        self.begun(slot, code, "receiving")
    }

    /// Sends the first `len` bytes of a slot with `tag`. Returns false if libfabric takes no more now: it must be
    /// polled first.
    ///
    /// # Errors
    /// `Invalid` for a slot that is in use or too short, or without a peer; errors of libfabric.
    pub(crate) fn send(&mut self, slot: usize, len: usize, tag: u64) -> Result<bool> {
        let _entered = enter()?;
        let (start, room) = self.idle(slot)?;
        let (Some(peer), true) = (self.peer, len <= room) else { return Err(wrong_slot()) };
        let objects = self.objects()?;
        let context = self.memory.context(slot);
        // SAFETY: as in `receive`.
        let code = unsafe {
            let (raw, memory) = (objects.endpoint.raw(), start.as_ptr().cast_const().cast());
            let send = objects.tagged().send;
            send(raw, memory, len, objects.descriptor(), peer, tag, context)
        };
        self.begun(slot, code, "sending")
    }

    /// Start and length of a slot that the network does not use.
    fn idle(&self, slot: usize) -> Result<(std::ptr::NonNull<u8>, usize)> {
        let found = self.memory.slot(slot).filter(|_| !self.busy[slot]);
        found.ok_or_else(wrong_slot)
    }

    /// Marks the slot as busy if `code` says that the operation was started. False if the provider cannot take it now.
    /// `doing` names the operation in an error.
    fn begun(&mut self, slot: usize, code: isize, doing: &str) -> Result<bool> {
        match code {
            0 => self.busy[slot] = true,
            _ if code == -FI_EAGAIN => return Ok(false),
            _ => return Err(error(self.functions, -code as i32, doing)),
        }
        Ok(true)
    }

    /// Lets the provider make progress, and returns a completed operation, if one is available.
    ///
    /// # Errors
    /// The cause of a failed operation. The peer is then unreachable.
    pub(crate) fn poll(&mut self) -> Result<Option<Done>> {
        let _entered = enter()?;
        let objects = self.objects()?;
        let mut done = CqMessage { context: null_mut(), flags: 0, len: 0 };
        // SAFETY: it is a queue of such entries; the call writes at most one.
        let code =
            unsafe { (objects.queue_ops().read)(objects.queue.raw(), (&raw mut done).cast(), 1) };
        match code {
            1 => self.release_slot(done.context, done.len).map(Some),
            0 => Ok(None),
            _ if code == -FI_EAGAIN => Ok(None),
            _ if code == -FI_EAVAIL => Err(self.failure()),
            _ => Err(error(self.functions, -code as i32, "polling")),
        }
    }

    /// Frees the slot of an operation that has ended, which `context` identifies. `len` is the length of the message.
    fn release_slot(&mut self, context: *mut c_void, len: usize) -> Result<Done> {
        let slot = self.memory.slot_of(context).filter(|slot| self.busy[*slot]);
        let slot = slot.ok_or_else(|| {
            Error::new(ErrorKind::Io, "libfabric reported an operation that was not begun")
        })?;
        self.busy[slot] = false;
        let room = self.memory.slot(slot).map_or(0, |(_, room)| room);
        Ok(Done { slot, len: len.min(room) })
    }

    /// The cause of a failed operation. Its slot stays in use: the endpoint is not used any more.
    #[cold]
    fn failure(&self) -> Error {
        let Ok(objects) = self.objects() else { return ErrorKind::Canceled.into() };
        // SAFETY: all fields may be zero.
        let mut failed: CqError = unsafe { std::mem::zeroed() };
        // SAFETY: it is a queue; the call writes one entry.
        let read =
            unsafe { (objects.queue_ops().readerr)(objects.queue.raw(), &raw mut failed, 0) };
        let code = if read == 1 { failed.error.abs() } else { libc::EIO };
        error(self.functions, code, "a message was not delivered")
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let Some(objects) = self.objects.take() else { return };
        let is_own = self.generation == esker_os::generation();
        let Some(_entered) = is_own.then(enter).and_then(Result::ok) else {
            // The process ends, or the objects belong to its parent.
            std::mem::forget(objects);
            return;
        };
        own_names().retain(|own| *own != self.name);
        if objects.close() {
            // SAFETY: the endpoint and the registration are closed, so the network does not use it any more.
            unsafe { self.memory.free() };
        }
    }
}

/// Fails if the provider cannot send messages as long as those of `lens`.
fn check_lens(chosen: &InfoList, lens: &[usize]) -> Result<()> {
    let (longest, most) = (lens.iter().copied().max().unwrap_or(0), chosen.message_max());
    match longest <= most {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "provider {} sends messages of at most {most} bytes, {longest} are needed: choose another by FI_PROVIDER",
                chosen.provider()
            ),
        )),
    }
}

#[cold]
fn wrong_slot() -> Error {
    Error::new(ErrorKind::Invalid, "a slot that is in use or too short, or no peer to send to")
}

#[cold]
fn same_process_error() -> Error {
    let message =
        "shared memory connects different processes only: choose another provider by FI_PROVIDER";
    Error::new(ErrorKind::NotSupported, message)
}

#[cold]
fn forked_error() -> Error {
    Error::new(
        ErrorKind::NotSupported,
        "libfabric was loaded before this process was forked, and cannot be used in it",
    )
}
