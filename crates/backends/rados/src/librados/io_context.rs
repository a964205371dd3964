//! I/O contexts: namespaces of Ceph pools.
use crate::librados::answer::Answer;
use crate::librados::cluster::Connection;
use crate::librados::failure::{check, error};
use crate::librados::library::c_string;
use crate::librados::library::{Functions, RawIoContext, RawList};
use crate::librados::read::{Found, ReadOp};
use crate::librados::write::WriteOp;
use esker_types::Result;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The code for a name that no object can have (`-EINVAL`).
const BAD_NAME: c_int = -22;

/// An I/O context of librados (`rados_ioctx_t`): a namespace of a pool. Clones share it.
#[derive(Clone)]
pub struct IoContext(Arc<Context>);

pub(crate) struct Context {
    connection: Arc<Connection>,
    raw: *mut RawIoContext,
    process: u32,
}

// SAFETY: librados allows operations on one context from several threads at a time.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the context was made by `rados_ioctx_create`; pending operations keep their own reference.
            unsafe { (self.functions().rados_ioctx_destroy)(self.raw) }
        }
    }
}

impl Context {
    pub(crate) fn functions(&self) -> &'static Functions {
        self.connection.functions
    }

    pub(crate) fn raw(&self) -> *mut RawIoContext {
        self.raw
    }
}

impl IoContext {
    pub(crate) fn new(connection: Arc<Connection>, raw: *mut RawIoContext) -> Self {
        Self(Arc::new(Context { connection, raw, process: std::process::id() }))
    }

    /// Applies all of `op` to an object, or nothing; returns the new version of the object. The operation starts now,
    /// even if the answer is never polled.
    ///
    /// The error is the code of librados: a negative errno, `-ECANCELED` if a guard failed.
    pub fn write(&self, object: &str, op: WriteOp) -> Answer<u64> {
        let operate = |completion| {
            let Ok(name) = c_string(object) else { return BAD_NAME };
            let write = self.0.functions().rados_aio_write_op_operate;
            let (raw, context, no_time) = (op.raw(), self.0.raw, ptr::null_mut());
            let flags = op.flags();
            // SAFETY: the operation is valid, and the name lives during the call, which copies both.
            unsafe { write(raw, context, completion, name.as_ptr(), no_time, flags) }
        };
        Answer::begin(
            self.0.functions(),
            &self.0.connection.under_way,
            (),
            operate,
            |version, ()| version,
        )
    }

    /// Reads the parts of an object that `op` names, all in one state. The error is the code of librados.
    pub fn read(&self, object: &str, op: ReadOp) -> Answer<Found> {
        let raw = op.raw();
        let operate = |completion| {
            let Ok(name) = c_string(object) else { return BAD_NAME };
            let read = self.0.functions().rados_aio_read_op_operate;
            // SAFETY: the operation and its outputs stay valid until it is complete.
            unsafe { read(raw, self.0.raw, completion, name.as_ptr(), 0) }
        };
        Answer::begin(
            self.0.functions(),
            &self.0.connection.under_way,
            op,
            operate,
            |version, op: ReadOp| op.finish(version),
        )
    }

    /// Pending operations of its connection, over all namespaces.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.0.connection.under_way.load(Ordering::Relaxed)
    }

    /// The context for other kinds of calls.
    pub(crate) fn opened(&self) -> Arc<Context> {
        Arc::clone(&self.0)
    }

    /// The names of all objects of the namespace, in arbitrary order.
    ///
    /// # Errors
    /// Errors of librados.
    pub fn objects(&self) -> Result<Objects> {
        Objects::open(Arc::clone(&self.0))
    }

    /// The error for a code of an operation on `object`.
    #[must_use]
    pub fn error(code: i32, doing: &str, object: &str) -> esker_types::Error {
        error(code, format_args!("{doing} the RADOS object {object}"))
    }
}

/// End of a listing (`-ENOENT`).
const NO_MORE: i32 = -2;

/// Names of objects. Each item may wait for the cluster.
pub struct Objects {
    context: Arc<Context>,
    raw: *mut RawList,
}

// SAFETY: any thread may ask librados for the next item.
unsafe impl Send for Objects {}

impl Objects {
    /// Starts a listing of the objects of a pool.
    pub(crate) fn open(context: Arc<Context>) -> Result<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the context is valid; the call sets `raw`.
        let code =
            unsafe { (context.functions().rados_nobjects_list_open)(context.raw(), &raw mut raw) };
        check(code, "listing RADOS objects")?;
        Ok(Self { context, raw })
    }
}

impl Iterator for Objects {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut name = ptr::null();
        let next = self.context.functions().rados_nobjects_list_next;
        // SAFETY: the listing is open; unused outputs may be null.
        let code = unsafe { next(self.raw, &raw mut name, ptr::null_mut(), ptr::null_mut()) };
        match code {
            NO_MORE => None,
            code if code < 0 => Some(Err(error(code, "listing RADOS objects"))),
            // SAFETY: the name is a C string until the next call.
            _ => Some(Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())),
        }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: the listing is open, and not used after this.
        unsafe { (self.context.functions().rados_nobjects_list_close)(self.raw) }
    }
}
