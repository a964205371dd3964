//! Names and descriptions of error codes; the descriptions are those of `daos_errno.h`.
use std::ffi::{CStr, c_char, c_int};

/// The number before the first general code.
const GENERAL_BASE: c_int = 1000;
/// The number before the first code of the store.
const STORE_BASE: c_int = 2000;

/// Name and description of a code, if it is known.
fn find_code(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    let code = code.checked_neg()?;
    let at = |table: &[(&'static CStr, &'static CStr)], base: c_int| {
        let index = usize::try_from(code.checked_sub(base + 1)?).ok()?;
        table.get(index).copied()
    };
    match code {
        0 => Some((c"DER_SUCCESS", c"Success")),
        _ => at(&GENERAL, GENERAL_BASE).or_else(|| at(&STORE, STORE_BASE)),
    }
}

/// Returns the name of an error.
#[unsafe(no_mangle)]
pub extern "C" fn d_errstr(code: c_int) -> *const c_char {
    find_code(code).map_or(c"DER_UNKNOWN", |(name, _)| name).as_ptr()
}

/// Returns a description of an error.
#[unsafe(no_mangle)]
pub extern "C" fn d_errdesc(code: c_int) -> *const c_char {
    match find_code(code) {
        Some((_, description)) => description.as_ptr(),
        None => unknown(code),
    }
}

/// Description of a code.
pub(crate) fn describe(code: c_int) -> String {
    match find_code(code) {
        Some((_, description)) => description.to_string_lossy().into_owned(),
        None => format!("Unknown error code {code}"),
    }
}

/// A description with the number, valid until the thread asks for the next unknown code.
fn unknown(code: c_int) -> *const c_char {
    const BYTES: usize = 48;
    thread_local! {
        static TEXT: std::cell::UnsafeCell<[u8; BYTES]> =
            const { std::cell::UnsafeCell::new([0; BYTES]) };
    }
    let text = describe(code) + "\0";
    TEXT.with(|buffer| {
        // SAFETY: only this thread accesses its buffer, and no reference to it outlives this block.
        let bytes = unsafe { &mut *buffer.get() };
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        buffer.get().cast_const().cast()
    })
}

/// Codes from 1001 on.
pub(super) const GENERAL: [(&CStr, &CStr); 46] = [
    (c"DER_NO_PERM", c"The caller has no permission for this"),
    (c"DER_NO_HDL", c"The handle is not valid"),
    (c"DER_INVAL", c"An argument is not valid"),
    (c"DER_EXIST", c"The entity exists already"),
    (c"DER_NONEXIST", c"The entity does not exist"),
    (c"DER_UNREACH", c"The node cannot be reached"),
    (c"DER_NOSPACE", c"No space left on the target"),
    (c"DER_ALREADY", c"This has been done before"),
    (c"DER_NOMEM", c"Out of memory"),
    (c"DER_NOSYS", c"This function is not implemented"),
    (c"DER_TIMEDOUT", c"The time limit was exceeded"),
    (c"DER_BUSY", c"The resource is in use"),
    (c"DER_AGAIN", c"Temporarily unavailable - try again"),
    (c"DER_PROTO", c"The two sides speak different protocols"),
    (c"DER_UNINIT", c"The library is not initialised"),
    (c"DER_TRUNC", c"The buffer is too small and the result was cut"),
    (c"DER_OVERFLOW", c"The value does not fit its type or buffer"),
    (c"DER_CANCELED", c"The request was cancelled"),
    (c"DER_OOG", c"Not a member of the group"),
    (c"DER_HG", c"The transport failed"),
    (c"DER_UNREG", c"The message type is not registered"),
    (c"DER_ADDRSTR_GEN", c"No address string could be made"),
    (c"DER_PMIX", c"The process manager failed"),
    (c"DER_IVCB_FORWARD", c"The variable is stored elsewhere and must be forwarded"),
    (c"DER_MISC", c"A failure without a code of its own"),
    (c"DER_BADPATH", c"The path is malformed"),
    (c"DER_NOTDIR", c"A path component is not a directory"),
    (c"DER_CORPC_INCOMPLETE", c"A collective call did not reach everyone"),
    (c"DER_NO_RAS_RANK", c"No rank receives events"),
    (c"DER_NOTATTACH", c"Not attached to the service group"),
    (c"DER_MISMATCH", c"The versions do not match"),
    (c"DER_EXCLUDED", c"The rank is excluded from the system"),
    (c"DER_NOREPLY", c"The handler ended without a reply"),
    (c"DER_DOS", c"Service was denied"),
    (c"DER_BAD_TARGET", c"The message went to the wrong target"),
    (c"DER_GRPVER", c"The group versions differ"),
    (c"DER_HLC_SYNC", c"The clocks are too far apart"),
    (c"DER_NO_SHMEM", c"Shared memory exhausted"),
    (c"DER_ADD_METRIC_FAILED", c"The metric could not be added"),
    (c"DER_DURATION_MISMATCH", c"A duration was ended that had not been started"),
    (c"DER_OP_NOT_PERMITTED", c"This kind of metric does not allow it"),
    (c"DER_EXCEEDS_PATH_LEN", c"The path is too long"),
    (c"DER_METRIC_NOT_FOUND", c"The metric does not exist"),
    (c"DER_SHMEM_PERMS", c"Shared memory belongs to another user or group"),
    (c"DER_HG_FATAL", c"The transport failed and cannot recover"),
    (c"DER_QUOTA_LIMIT", c"The quota is used up"),
];

/// Codes from 2001 on.
pub(super) const STORE: [(&CStr, &CStr); 52] = [
    (c"DER_IO", c"Reading or writing the medium failed"),
    (c"DER_FREE_MEM", c"Memory could not be released"),
    (c"DER_ENOENT", c"The entry was not found"),
    (c"DER_NOTYPE", c"The object type is unknown"),
    (c"DER_NOSCHEMA", c"The object schema is unknown"),
    (c"DER_NOLOCAL", c"The object is not stored here"),
    (c"DER_STALE", c"The pool map is out of date"),
    (c"DER_NOTLEADER", c"This replica is not the leader"),
    (c"DER_TGT_CREATE", c"The target could not be created"),
    (c"DER_EP_RO", c"The epoch is read-only"),
    (c"DER_EP_OLD", c"The data of the epoch has been reclaimed"),
    (c"DER_KEY2BIG", c"The key is larger than the space for it"),
    (c"DER_REC2BIG", c"The record is larger than the space for it"),
    (c"DER_IO_INVAL", c"The buffers do not fit the extents"),
    (c"DER_EQ_BUSY", c"The event queue is in use"),
    (c"DER_DOMAIN", c"The fault domains do not match"),
    (c"DER_SHUTDOWN", c"The service is shutting down"),
    (c"DER_INPROGRESS", c"The operation is still in progress"),
    (c"DER_NOTAPPLICABLE", c"This does not apply here"),
    (c"DER_NOTREPLICA", c"The service has no replica here"),
    (c"DER_CSUM", c"The checksum does not match"),
    (c"DER_DF_INVAL", c"The durable format is not valid"),
    (c"DER_DF_INCOMPT", c"The durable format is of another version"),
    (c"DER_REC_SIZE", c"The record has another size"),
    (c"DER_TX_RESTART", c"The transaction conflicted with another and must be restarted"),
    (c"DER_DATA_LOSS", c"Data was lost and cannot be rebuilt"),
    (c"DER_OP_CANCELED", c"The operation was cancelled"),
    (c"DER_TX_BUSY", c"The transaction is not committed yet"),
    (c"DER_AGENT_INCOMPAT", c"The agent is not compatible with this library"),
    (c"DER_NEED_TX", c"This needs a transaction"),
    (c"DER_RF", c"More components failed than the redundancy factor allows"),
    (c"DER_FETCH_AGAIN", c"Fetch once more"),
    (c"DER_TX_UNCERTAIN", c"It is not known whether the transaction committed"),
    (c"DER_AGENT_COMM", c"The agent does not respond"),
    (c"DER_ID_MISMATCH", c"The identifiers differ"),
    (c"DER_TGT_RETRY", c"Try another target"),
    (c"DER_NOTSUPPORTED", c"This is not supported"),
    (c"DER_CONTROL_INCOMPAT", c"Components of the control plane are not compatible"),
    (c"DER_NO_SERVICE", c"No service is available"),
    (c"DER_TX_ID_REUSED", c"The transaction identifier may have been used before"),
    (c"DER_UPDATE_AGAIN", c"Update once more"),
    (c"DER_NVME_IO", c"The NVMe device reported an error"),
    (c"DER_NO_CERT", c"A certificate could not be read"),
    (c"DER_BAD_CERT", c"A certificate is not valid"),
    (c"DER_VOS_PARTIAL_UPDATE", c"An array value may not be overwritten in part in one epoch"),
    (c"DER_CHKPT_BUSY", c"The page is read-only while a checkpoint runs"),
    (c"DER_DIV_BY_ZERO", c"Division by zero is undefined"),
    (c"DER_OVERLOAD_RETRY", c"The service is overloaded - try later"),
    (c"DER_NOT_RESUME", c"The earlier check cannot be resumed"),
    (c"DER_CONT_NONEXIST", c"The container does not exist"),
    (c"DER_CONT_DESTROYING", c"The container is being destroyed"),
    (c"DER_IGNORE", c"Skip this item"),
];
