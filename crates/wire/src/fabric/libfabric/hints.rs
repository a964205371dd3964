//! Choice of provider and interface: the first that libfabric offers for the given hints.
use crate::fabric::libfabric::failure::check;
use crate::fabric::libfabric::layout::*;
use crate::fabric::libfabric::library::Functions;
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char};
use std::net::IpAddr;
use std::ptr::{NonNull, null, null_mut};

/// Longest name of a provider in bytes.
const NAME_MAX: usize = 64;

/// A list of `fi_info`, for hints or offers; freed when dropped.
pub(crate) struct InfoList {
    functions: &'static Functions,
    info: NonNull<Info>,
}

// SAFETY: the list belongs to its owner.
unsafe impl Send for InfoList {}

impl Drop for InfoList {
    fn drop(&mut self) {
        // SAFETY: the list came from the library, and is not used afterwards.
        unsafe { (self.functions.fi_freeinfo)(self.info.as_ptr()) };
    }
}

impl InfoList {
    fn new(functions: &'static Functions, info: *mut Info) -> Option<Self> {
        NonNull::new(info).map(|info| Self { functions, info })
    }

    pub(crate) fn raw(&self) -> *mut Info {
        self.info.as_ptr()
    }

    pub(crate) fn info(&self) -> &Info {
        // SAFETY: it lives until it is dropped.
        unsafe { self.info.as_ref() }
    }

    /// Name of the provider.
    pub(crate) fn provider(&self) -> String {
        // SAFETY: results of `fi_getinfo` have these attributes.
        let name = unsafe { (*self.info().fabric_attr).prov_name };
        match name.is_null() {
            true => String::new(),
            // SAFETY: the name is a C string of the list.
            false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
        }
    }

    /// True if memory is registered for one endpoint.
    pub(crate) fn registers_for_endpoint(&self) -> bool {
        // SAFETY: results of `fi_getinfo` have these attributes.
        unsafe { (*self.info().domain_attr).mr_mode & FI_MR_ENDPOINT != 0 }
    }

    /// Longest message in bytes.
    pub(crate) fn message_max(&self) -> usize {
        // SAFETY: results of `fi_getinfo` have these attributes.
        unsafe { (*self.info().ep_attr).max_msg_size }
    }
}

/// Hints for the endpoints of this crate: tagged messages in order, to any peer, by one thread at a time.
fn hints(functions: &'static Functions, provider: Option<&CStr>) -> Option<InfoList> {
    // SAFETY: without an argument, the call makes empty hints.
    let hints = InfoList::new(functions, unsafe { (functions.fi_dupinfo)(null()) })?;
    // SAFETY: new hints have all of their parts, and nobody else uses them. The library frees the name, as it does its
    // own.
    unsafe {
        let info = &mut *hints.raw();
        info.caps = FI_TAGGED | FI_SEND | FI_RECV;
        info.mode = FI_CONTEXT | FI_CONTEXT2;
        (*info.ep_attr).kind = FI_EP_RDM;
        (*info.tx_attr).msg_order = FI_ORDER_SAS;
        (*info.rx_attr).msg_order = FI_ORDER_SAS;
        let domain = &mut *info.domain_attr;
        domain.threading = FI_THREAD_DOMAIN;
        domain.resource_mgmt = FI_RM_ENABLED;
        domain.mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
        if let Some(name) = provider {
            (*info.fabric_attr).prov_name = libc::strdup(name.as_ptr());
        }
    }
    Some(hints)
}

/// The offers of libfabric, of the named provider or of any. If `local` is given, only those of the interface with that
/// address.
fn offered(
    functions: &'static Functions,
    provider: Option<&CStr>,
    local: Option<IpAddr>,
) -> Result<InfoList> {
    let no_memory = || Error::new(ErrorKind::NoMemory, "no memory to ask for a network");
    let hints = hints(functions, provider).ok_or_else(no_memory)?;
    let node = local.and_then(|local| CString::new(local.to_string()).ok());
    let (node, flags) = match &node {
        Some(node) => (node.as_ptr(), FI_SOURCE | FI_NUMERICHOST),
        None => (null::<c_char>(), 0),
    };
    let mut found = null_mut();
    // SAFETY: the texts and the hints live during the call, which sets `found`.
    let code = unsafe {
        (functions.fi_getinfo)(VERSION, node, null(), flags, hints.raw(), &raw mut found)
    };
    check(functions, code, "looking for a network")?;
    InfoList::new(functions, found).ok_or_else(no_memory)
}

/// The first provider that libfabric offers, or the named one. A provider with internet addresses uses the interface
/// with the address `local`. Only the first answer tells whether it is one, so libfabric is then asked again with the
/// address.
///
/// # Errors
/// `Invalid` for a name that no provider can have, `NotSupported` if this node does not have the provider.
pub(crate) fn choose(
    functions: &'static Functions,
    provider: Option<&str>,
    local: Option<IpAddr>,
) -> Result<InfoList> {
    let name = provider.map(checked_name).transpose()?;
    let none = |error: Error| no_provider_error(provider, local, &error);
    let first = offered(functions, name.as_deref(), None).map_err(none)?;
    if local.is_none() || !INTERNET_FORMATS.contains(&first.info().addr_format) {
        return Ok(first);
    }
    let name = CString::new(first.provider()).ok();
    offered(functions, name.as_deref(), local).map_err(none)
}

/// Checks the name of a provider before libfabric gets it, because a peer may have sent it.
fn checked_name(name: &str) -> Result<CString> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b";_-+.".contains(&byte);
    let invalid =
        || Error::new(ErrorKind::Invalid, format!("{name:?} is not the name of a provider"));
    match name.len() <= NAME_MAX && name.bytes().all(is_plain) {
        true => CString::new(name).map_err(|_| invalid()),
        false => Err(invalid()),
    }
}

#[cold]
fn no_provider_error(provider: Option<&str>, local: Option<IpAddr>, error: &Error) -> Error {
    let wanted = provider.map_or_else(String::new, |name| format!(" {name}"));
    let at = local.map_or_else(String::new, |local| format!(" at address {local}"));
    let message = format!(
        "libfabric has no provider{wanted}{at}: {}; `fi_info` lists those of this node, FI_PROVIDER chooses one for all nodes",
        error.message()
    );
    Error::new(ErrorKind::NotSupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_providers_are_plain() {
        assert!(checked_name("verbs;ofi_rxm").is_ok());
        for wrong in ["tcp\0", "a b", "$(ls)", &"x".repeat(NAME_MAX + 1)] {
            assert_eq!(checked_name(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
