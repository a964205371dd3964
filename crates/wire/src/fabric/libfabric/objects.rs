//! Objects of libfabric, each closed when it is dropped.
use crate::fabric::libfabric::failure::check;
use crate::fabric::libfabric::hints::InfoList;
use crate::fabric::libfabric::layout::*;
use crate::fabric::libfabric::library::Functions;
use crate::fabric::libfabric::memory::Memory;
use esker_types::Result;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

/// An object, closed when dropped: before the objects from which it was made.
pub(crate) struct Object(NonNull<Fid>);

// SAFETY: the domain is used with FI_THREAD_DOMAIN: any thread may call it, one at a time. `&mut Endpoint` ensures
// that.
unsafe impl Send for Object {}

impl Object {
    /// Returns the object that `make` created through its argument, or the error of its code. `doing` names the call.
    pub(crate) fn create(
        functions: &Functions,
        doing: &str,
        make: impl FnOnce(*mut *mut Fid) -> c_int,
    ) -> Result<Self> {
        let mut raw = null_mut();
        check(functions, make(&raw mut raw), doing)?;
        match NonNull::new(raw) {
            Some(raw) => Ok(Self(raw)),
            None => Err(crate::fabric::libfabric::failure::error(functions, libc::ENOMEM, doing)),
        }
    }

    pub(crate) fn raw(&self) -> *mut Fid {
        self.0.as_ptr()
    }

    /// The object as `T`, the structure of libfabric that begins with it.
    ///
    /// # Safety
    /// It must be an object of that kind.
    pub(crate) unsafe fn cast<T>(&self) -> &T {
        // SAFETY: the library allocated the whole structure; it lives until the object is closed.
        unsafe { self.0.cast::<T>().as_ref() }
    }

    fn ops(&self) -> &FidOps {
        // SAFETY: every object has this table for as long as it lives.
        unsafe { &*self.0.as_ref().ops }
    }

    /// Binds this object to another one. For an endpoint and a queue, `flags` are the operations whose completions go
    /// there.
    pub(crate) fn bind(&self, functions: &Functions, other: &Self, flags: u64) -> Result<()> {
        // SAFETY: both objects live.
        let code = unsafe { (self.ops().bind)(self.raw(), other.raw(), flags) };
        check(functions, code, "binding the parts of an endpoint")
    }

    /// Enables an endpoint, after which it can send and receive.
    pub(crate) fn enable(&self, functions: &Functions) -> Result<()> {
        // SAFETY: the object lives; this command has no argument.
        let code = unsafe { (self.ops().control)(self.raw(), FI_ENABLE, null_mut()) };
        check(functions, code, "enabling an endpoint")
    }

    /// Descriptor that becomes readable when a completion may be available.
    pub(crate) fn wait_descriptor(&self) -> Option<c_int> {
        let mut descriptor: c_int = -1;
        // SAFETY: the object lives; this command writes one `int` for an object that waits by a descriptor.
        let code =
            unsafe { (self.ops().control)(self.raw(), FI_GETWAIT, (&raw mut descriptor).cast()) };
        (code == 0 && descriptor >= 0).then_some(descriptor)
    }

    /// Closes the object. False if that failed: the network may still use it.
    pub(crate) fn close(self) -> bool {
        // SAFETY: the object lives, and is not used afterwards.
        let code = unsafe { (self.ops().close)(self.raw()) };
        std::mem::forget(self);
        code == 0
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the object lives, and is not used afterwards. If the call fails, the object leaks, which is harmless.
        unsafe { (self.ops().close)(self.raw()) };
    }
}

/// The objects of an endpoint, closed in this order.
pub(crate) struct Objects {
    pub(crate) endpoint: Object,
    pub(crate) registration: Object,
    pub(crate) queue: Object,
    pub(crate) addresses: Object,
    pub(crate) domain: Object,
    pub(crate) fabric: Object,
}

impl Objects {
    /// Opens all objects of an endpoint, and registers its memory.
    pub(crate) fn open(
        functions: &'static Functions,
        chosen: &InfoList,
        memory: &Memory,
    ) -> Result<Self> {
        let fabric = open_fabric(functions, chosen)?;
        let domain = open_domain(functions, chosen, &fabric)?;
        let addresses = open_addresses(functions, chosen, &domain)?;
        let queue = open_queue(functions, &domain, 2 * memory.count())?;
        let registration = register(functions, &domain, memory.whole())?;
        let endpoint = open_endpoint(functions, chosen, &domain)?;
        endpoint.bind(functions, &addresses, 0)?;
        endpoint.bind(functions, &queue, FI_TRANSMIT | FI_RECV)?;
        endpoint.enable(functions)?;
        if chosen.registers_for_endpoint() {
            registration.bind(functions, &endpoint, 0)?;
            registration.enable(functions)?;
        }
        Ok(Self { endpoint, registration, queue, addresses, domain, fabric })
    }

    /// Descriptor of the registered memory, which operations pass with each buffer.
    pub(crate) fn descriptor(&self) -> *mut c_void {
        // SAFETY: it is a registration of memory.
        unsafe { self.registration.cast::<Registration>() }.descriptor
    }

    /// Operations on tagged messages.
    pub(crate) fn tagged(&self) -> &TaggedOps {
        // SAFETY: it is an endpoint, made for tagged messages.
        unsafe { &*self.endpoint.cast::<RawEndpoint>().tagged }
    }

    /// Operations on completions.
    pub(crate) fn queue_ops(&self) -> &CqOps {
        // SAFETY: it is a queue of completions.
        unsafe { &*self.queue.cast::<Cq>().ops }
    }

    /// Closes all objects. False if the network may still use the memory.
    pub(crate) fn close(self) -> bool {
        let Self { endpoint, registration, queue, addresses, domain, fabric } = self;
        let ended = endpoint.close();
        let ended = registration.close() && ended;
        // A tuple is dropped from the front, so each object is closed before the object from which it was made.
        drop((queue, addresses, domain, fabric));
        ended
    }
}

/// Opens the network that was chosen.
fn open_fabric(functions: &Functions, chosen: &InfoList) -> Result<Object> {
    let attributes = chosen.info().fabric_attr;
    Object::create(functions, "opening the network", |made| {
        // SAFETY: the attributes come from `fi_getinfo`; the call sets `made`.
        unsafe { (functions.fi_fabric)(attributes, made, null_mut()) }
    })
}

/// Opens the network interface that was chosen.
fn open_domain(functions: &Functions, chosen: &InfoList, fabric: &Object) -> Result<Object> {
    Object::create(functions, "opening the network interface", |made| {
        // SAFETY: the object is a fabric, and `info` is one that it offers.
        unsafe {
            let ops = &*fabric.cast::<Fabric>().ops;
            (ops.domain)(fabric.raw(), chosen.raw(), made, null_mut())
        }
    })
}

/// Opens a table for the address of the peer.
fn open_addresses(functions: &Functions, chosen: &InfoList, domain: &Object) -> Result<Object> {
    let mut attributes = AvAttributes {
        // SAFETY: what `fi_getinfo` returns has these attributes.
        kind: unsafe { (*chosen.info().domain_attr).av_type },
        rx_ctx_bits: 0,
        count: 1,
        ep_per_node: 0,
        name: std::ptr::null(),
        map_addr: null_mut(),
        flags: 0,
    };
    Object::create(functions, "opening a table of addresses", |made| {
        // SAFETY: the object is a domain; the attributes live during the call.
        unsafe {
            let ops = &*domain.cast::<Domain>().ops;
            (ops.av_open)(domain.raw(), &raw mut attributes, made, null_mut())
        }
    })
}

/// Opens a queue for `size` completions. It has a descriptor to wait for if the provider can.
fn open_queue(functions: &Functions, domain: &Object, size: usize) -> Result<Object> {
    let open = |wait_obj| {
        let mut attributes = CqAttributes {
            size,
            flags: 0,
            format: FI_CQ_FORMAT_MSG,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: null_mut(),
        };
        Object::create(functions, "opening a queue of completions", |made| {
            // SAFETY: the object is a domain; the attributes live during the call.
            unsafe {
                let ops = &*domain.cast::<Domain>().ops;
                (ops.cq_open)(domain.raw(), &raw mut attributes, made, null_mut())
            }
        })
    };
    open(FI_WAIT_FD).or_else(|_| open(FI_WAIT_NONE))
}

/// Makes an endpoint.
fn open_endpoint(functions: &Functions, chosen: &InfoList, domain: &Object) -> Result<Object> {
    Object::create(functions, "making an endpoint", |made| {
        // SAFETY: the object is a domain, and `info` is one that it was opened with.
        unsafe {
            let ops = &*domain.cast::<Domain>().ops;
            (ops.endpoint)(domain.raw(), chosen.raw(), made, null_mut())
        }
    })
}

/// Registers memory with the network interface.
fn register(
    functions: &Functions,
    domain: &Object,
    (start, len): (*const c_void, usize),
) -> Result<Object> {
    Object::create(functions, "registering memory", |made| {
        // SAFETY: the object is a domain; the endpoint ensures that the memory outlives the registration.
        unsafe {
            let reg = (*domain.cast::<Domain>().memory).reg;
            let access = FI_SEND | FI_RECV;
            reg(domain.raw(), start, len, access, 0, 0, 0, made, null_mut())
        }
    })
}
