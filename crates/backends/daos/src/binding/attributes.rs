//! Attributes of pools and containers.
use crate::binding::call::Calls;
use crate::binding::failure::{self, Request};
use crate::binding::layout::RawHandle;
use crate::binding::library::{Ev, Functions, Names, c_string};
use esker_types::{ErrorKind, Result};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

/// Size of the buffer of the first call.
const ROOM: usize = 4096;

/// `-DER_NONEXIST`: there is no such attribute.
const NONEXISTENT: c_int = -1005;

/// An open pool or container that has the attributes.
pub(crate) trait Owner: Send + Sync {
    /// Its handle.
    fn handle(&self) -> RawHandle;
}

type Get =
    unsafe extern "C" fn(RawHandle, c_int, Names, *const *mut c_void, *mut usize, Ev) -> c_int;
type Set =
    unsafe extern "C" fn(RawHandle, c_int, Names, *const *const c_void, *const usize, Ev) -> c_int;

/// The functions for one kind of owner.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) list: unsafe extern "C" fn(RawHandle, *mut c_char, *mut usize, Ev) -> c_int,
    pub(crate) get: Get,
    pub(crate) set: Set,
    pub(crate) remove: unsafe extern "C" fn(RawHandle, c_int, Names, Ev) -> c_int,
    /// Kinds of request for errors: of reads, and of changes.
    requests: (Request, Request),
}

impl Table {
    /// The functions for attributes of a pool.
    pub(crate) fn of_pool(functions: &Functions) -> Self {
        Self {
            list: functions.daos_pool_list_attr,
            get: functions.daos_pool_get_attr,
            set: functions.daos_pool_set_attr,
            remove: functions.daos_pool_del_attr,
            requests: (Request::Pool, Request::Pool),
        }
    }

    /// The functions for attributes of a container.
    pub(crate) fn of_container(functions: &Functions) -> Self {
        Self {
            list: functions.daos_cont_list_attr,
            get: functions.daos_cont_get_attr,
            set: functions.daos_cont_set_attr,
            remove: functions.daos_cont_del_attr,
            requests: (Request::Query, Request::Set),
        }
    }
}

/// The attributes of a pool or of an open container.
pub struct Attributes {
    pub(crate) calls: Calls,
    pub(crate) owner: Arc<dyn Owner>,
    pub(crate) table: Table,
}

/// The arguments of one call, which own all that the pointers refer to.
#[derive(Default)]
struct Arguments {
    names: Vec<CString>,
    name_pointers: Vec<*const c_char>,
    values: Vec<Vec<u8>>,
    value_pointers: Vec<*mut c_void>,
    sizes: Vec<usize>,
    owner: Option<Arc<dyn Owner>>,
}

// SAFETY: the pointers lead to what the arguments own.
unsafe impl Send for Arguments {}

impl Arguments {
    /// The C form of these attributes. It refers to the names and values, which live as long as it.
    fn new(owner: &Arc<dyn Owner>, names: &[&str], values: Vec<Vec<u8>>) -> Result<Self> {
        let names = names.iter().map(|name| c_string(name)).collect::<Result<Vec<_>>>()?;
        let mut arguments = Self { names, values, ..Self::default() };
        arguments.name_pointers = arguments.names.iter().map(|name| name.as_ptr()).collect();
        arguments.sizes = arguments.values.iter().map(Vec::len).collect();
        let pointers = arguments.values.iter_mut().map(|value| value.as_mut_ptr().cast());
        arguments.value_pointers = pointers.collect();
        arguments.owner = Some(Arc::clone(owner));
        Ok(arguments)
    }

    /// Number of attributes.
    fn count(&self) -> c_int {
        self.names.len() as c_int
    }
}

impl Attributes {
    /// The value of an attribute; `None` if it is not set or empty, since DAOS does not store empty values.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let (mut room, handle, get) = (ROOM, self.owner.handle(), self.table.get);
        loop {
            let arguments = Arguments::new(&self.owner, &[name], vec![vec![0; room]])?;
            // SAFETY: the arguments live until the call is done.
            let launch = |_: &Functions, it: &mut Arguments, event: Ev| unsafe {
                let (names, values) = (it.name_pointers.as_ptr(), it.value_pointers.as_ptr());
                get(handle, it.count(), names, values, it.sizes.as_mut_ptr(), event)
            };
            let doing = self.table.requests.0.doing("reading an attribute");
            let (code, mut arguments) = self.calls.run(doing, room, arguments, launch).await?;
            if code == NONEXISTENT {
                return Ok(None);
            }
            failure::check(code, doing)?;
            let size = arguments.sizes[0];
            if size <= room {
                let mut value = arguments.values.swap_remove(0);
                value.truncate(size);
                return Ok((size > 0).then_some(value));
            }
            room = size;
        }
    }

    /// Sets attributes, together. Values must not be empty.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn set(&self, values: &[(String, Vec<u8>)]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = values.iter().map(|(name, _)| name.as_str()).collect();
        let contents = values.iter().map(|(_, value)| value.clone()).collect();
        let arguments = Arguments::new(&self.owner, &names, contents)?;
        let (handle, set) = (self.owner.handle(), self.table.set);
        // SAFETY: the arguments live until the call is done.
        let launch = |_: &Functions, it: &mut Arguments, event: Ev| unsafe {
            let (names, values) = (it.name_pointers.as_ptr(), it.value_pointers.as_ptr().cast());
            set(handle, it.count(), names, values, it.sizes.as_ptr(), event)
        };
        let doing = self.table.requests.1.doing("setting an attribute");
        self.calls.run_checked(doing, arguments, launch).await.map(drop)
    }

    /// Removes attributes. Attributes that are not set are ignored.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn remove(&self, names: &[String]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let arguments = Arguments::new(&self.owner, &names, Vec::new())?;
        let (handle, remove) = (self.owner.handle(), self.table.remove);
        // SAFETY: the arguments live until the call is done.
        let launch = |_: &Functions, it: &mut Arguments, event: Ev| unsafe {
            remove(handle, it.count(), it.name_pointers.as_ptr(), event)
        };
        let doing = self.table.requests.1.doing("removing an attribute");
        let (code, _) = self.calls.run(doing, 0, arguments, launch).await?;
        match code {
            NONEXISTENT => Ok(()),
            _ => failure::check(code, doing),
        }
    }

    /// The names of all attributes.
    ///
    /// # Errors
    /// Errors of DAOS.
    pub async fn list(&self) -> Result<Vec<String>> {
        let (mut room, handle, list) = (ROOM, self.owner.handle(), self.table.list);
        loop {
            let owned = (vec![0u8; room], Box::new(room), Arc::clone(&self.owner));
            // SAFETY: the buffer and its size live until the call is done.
            let launch =
                |_: &Functions, it: &mut (Vec<u8>, Box<usize>, Arc<dyn Owner>), event: Ev| unsafe {
                    list(handle, it.0.as_mut_ptr().cast(), ptr::from_mut(&mut *it.1), event)
                };
            let doing = self.table.requests.0.doing("listing attributes");
            let (code, (names, size, _)) = self.calls.run(doing, room, owned, launch).await?;
            // Truncated: the names do not fit, and the size says how much room they need.
            if failure::kind_of(code, doing.request) != ErrorKind::Truncated {
                failure::check(code, doing)?;
            }
            if *size <= room {
                let names = names[..*size].split(|byte| *byte == 0);
                let texts = names.filter(|name| !name.is_empty()).map(String::from_utf8_lossy);
                return Ok(texts.map(|text| text.into_owned()).collect());
            }
            room = *size;
        }
    }
}
