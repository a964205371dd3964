//! Connections to a cluster.
use crate::librados::IoContext;
use crate::librados::failure::check;
use crate::librados::library::{Functions, RawCluster, RawIoContext, RawUsage};
use crate::librados::library::{c_string, functions};
use crate::librados::limits::{BYTES_MAX, OPERATIONS_MAX, SETTING_MAX, TIMEOUT_SECONDS};
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Code of connecting if the configuration lacks something (`-ENOENT`).
const INCOMPLETE: c_int = -2;

/// Settings of a connection to a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The configuration file; `None` for the defaults of Ceph's own tools: `CEPH_CONF`, `/etc/ceph/ceph.conf`,
    /// `~/.ceph/config`, `./ceph.conf`.
    pub conf: Option<PathBuf>,
    /// The user, without `client.`; `None` for `admin`.
    pub id: Option<String>,
    /// The keyring; `None` for the one in the configuration.
    pub keyring: Option<PathBuf>,
    /// Seconds after which operations time out; `None` for
    /// [`TIMEOUT_SECONDS`], unless the configuration sets `rados_osd_op_timeout`.
    pub timeout: Option<u32>,
}

/// Space of a cluster, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Total.
    pub total: u64,
    /// Free.
    pub free: u64,
}

/// A connection. It closes when its last clone and [`IoContext`] are dropped.
#[derive(Clone)]
pub struct Cluster(Arc<Connection>);

pub(crate) struct Connection {
    pub(crate) functions: &'static Functions,
    raw: *mut RawCluster,
    /// Process that has made the connection.
    process: u32,
    /// Operations whose answer has not been taken yet.
    pub(crate) under_way: Arc<AtomicUsize>,
}

// SAFETY: librados allows calls on one connection from several threads at a time.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // A forked child lacks the threads that shutting down waits for.
        if self.process == std::process::id() {
            // SAFETY: the connection was made by `rados_create` and is not used after this.
            unsafe { (self.functions.rados_shutdown)(self.raw) }
        }
    }
}

impl Cluster {
    /// Connects to a cluster.
    ///
    /// # Errors
    /// `NotSupported` if librados is not installed; `NotFound` if the configuration is missing or names no monitor or
    /// key; `NoPermission` for a wrong key; `TimedOut` if no monitor answers.
    pub fn connect(settings: &Settings) -> Result<Self> {
        let functions = functions()?;
        let id = settings.id.as_deref().map(c_string).transpose()?;
        let mut raw = ptr::null_mut();
        let id_pointer = id.as_ref().map_or(ptr::null(), |id| id.as_ptr());
        // SAFETY: `id` lives during the call, which sets `raw`.
        let code = unsafe { (functions.rados_create)(&raw mut raw, id_pointer) };
        check(code, "creating a connection to Ceph")?;
        let connection =
            Connection { functions, raw, process: std::process::id(), under_way: Arc::default() };
        connection.configure(settings)?;
        // SAFETY: the connection is configured, and nothing else uses it yet.
        let code = unsafe { (functions.rados_connect)(raw) };
        if code == INCOMPLETE {
            return Err(incomplete_configuration_error(settings));
        }
        check(code, format_args!("connecting to Ceph{}", described(settings)))?;
        Ok(Self(Arc::new(connection)))
    }

    /// Opens a namespace of a pool.
    ///
    /// # Errors
    /// `NotFound` if the pool does not exist.
    pub fn io_context(&self, pool: &str, namespace: &str) -> Result<IoContext> {
        let (name, namespace) = (c_string(pool)?, c_string(namespace)?);
        let functions = self.0.functions;
        let mut raw: *mut RawIoContext = ptr::null_mut();
        // SAFETY: the connection is valid, `name` lives during the call, which sets `raw`.
        let code =
            unsafe { (functions.rados_ioctx_create)(self.0.raw, name.as_ptr(), &raw mut raw) };
        check(
            code,
            format_args!("opening the Ceph pool {pool:?} (`ceph osd pool create` creates one)"),
        )?;
        // SAFETY: `raw` was just made; the name is copied.
        unsafe { (functions.rados_ioctx_set_namespace)(raw, namespace.as_ptr()) };
        Ok(IoContext::new(Arc::clone(&self.0), raw))
    }

    /// The space of the cluster, as the cluster reports it.
    ///
    /// # Errors
    /// `TimedOut`.
    pub fn usage(&self) -> Result<Usage> {
        let mut usage = RawUsage::default();
        // SAFETY: the connection is valid; the call fills `usage`.
        let code = unsafe { (self.0.functions.rados_cluster_stat)(self.0.raw, &raw mut usage) };
        check(code, "asking Ceph for its space")?;
        Ok(Usage { total: usage.kib << 10, free: usage.kib_free << 10 })
    }

    /// The id of the cluster (fsid), as text.
    ///
    /// # Errors
    /// Errors of librados.
    pub fn fsid(&self) -> Result<String> {
        let mut text = [0; 64];
        let buffer = text.as_mut_ptr().cast::<c_char>();
        // SAFETY: the call writes at most the given length.
        let code = unsafe { (self.0.functions.rados_cluster_fsid)(self.0.raw, buffer, text.len()) };
        check(code, "asking Ceph for its id")?;
        Ok(text_of(&text))
    }
}

impl Connection {
    /// Configures the connection as Ceph's tools do: file, `CEPH_ARGS`, then the settings of the URL.
    fn configure(&self, settings: &Settings) -> Result<()> {
        self.read_file(settings)?;
        // SAFETY: the connection was made; a null name means CEPH_ARGS.
        let code = unsafe { (self.functions.rados_conf_parse_env)(self.raw, ptr::null()) };
        check(code, "reading CEPH_ARGS")?;
        self.set("objecter_inflight_ops", &OPERATIONS_MAX.to_string())?;
        self.set("objecter_inflight_op_bytes", &BYTES_MAX.to_string())?;
        if let Some(keyring) = &settings.keyring {
            self.set("keyring", &keyring.display().to_string())?;
        }
        self.set_timeouts(settings.timeout)
    }

    /// Reads the configuration file of Ceph: the one in the settings, or the usual one.
    fn read_file(&self, settings: &Settings) -> Result<()> {
        let file = settings.conf.as_ref().map(|file| c_string(&file.display().to_string()));
        let file = file.transpose()?;
        let pointer = file.as_ref().map_or(ptr::null(), |file| file.as_ptr());
        // SAFETY: the connection was made, and the name lives during the call.
        let code = unsafe { (self.functions.rados_conf_read_file)(self.raw, pointer) };
        check(code, format_args!("reading the configuration of Ceph{}", described(settings)))
    }

    /// Sets time-outs: by default Ceph waits forever. The time-out of operations in the configuration also applies to
    /// connecting, and to monitors if they have none of their own.
    fn set_timeouts(&self, asked: Option<u32>) -> Result<()> {
        let [osd, mon] = ["rados_osd_op_timeout", "rados_mon_op_timeout"];
        let configured = |name| if asked.is_some() { None } else { self.seconds(name) };
        let general = asked.or(configured(osd)).unwrap_or(TIMEOUT_SECONDS).to_string();
        for name in [osd, mon] {
            if configured(name).is_none() {
                self.set(name, &general)?;
            }
        }
        self.set("client_mount_timeout", &general)
    }

    /// An option that is a time, in whole seconds. `None` if it is not set.
    fn seconds(&self, name: &str) -> Option<u32> {
        let seconds: f64 = self.get(name)?.parse().ok()?;
        (seconds > 0.0).then_some(seconds.ceil() as u32)
    }

    /// Sets an option of Ceph.
    fn set(&self, name: &str, value: &str) -> Result<()> {
        let (key, text) = (c_string(name)?, c_string(value)?);
        // SAFETY: the connection was made, and the texts live during the call.
        let code =
            unsafe { (self.functions.rados_conf_set)(self.raw, key.as_ptr(), text.as_ptr()) };
        check(code, format_args!("setting {name} of Ceph to {value}"))
    }

    /// Returns the value of an option of Ceph. None if it cannot be read, as for an option that does not exist.
    fn get(&self, name: &str) -> Option<String> {
        let key: CString = c_string(name).ok()?;
        let mut text = [0; SETTING_MAX];
        let buffer = text.as_mut_ptr().cast::<c_char>();
        // SAFETY: the call writes at most the given length.
        let code =
            unsafe { (self.functions.rados_conf_get)(self.raw, key.as_ptr(), buffer, text.len()) };
        (code >= 0).then(|| text_of(&text))
    }
}

/// A text that ends with a zero byte, or with the buffer.
fn text_of(buffer: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(buffer).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

#[cold]
fn incomplete_configuration_error(settings: &Settings) -> Error {
    let message = format!(
        "connecting to Ceph{}: the configuration names no monitor or no key of the user: set `mon host`, or \
         name the file with the key by keyring=",
        described(settings)
    );
    Error::new(ErrorKind::NotFound, message)
}

/// Names the configuration file and the user of the connection, for error messages.
fn described(settings: &Settings) -> String {
    let conf = settings.conf.as_ref().map_or_else(
        || " (ceph.conf, where Ceph's tools look for it, or name one with conf=)".to_owned(),
        |conf| format!(" ({})", conf.display()),
    );
    let id = settings.id.as_ref().map_or_else(String::new, |id| format!(" as client.{id}"));
    conf + &id
}
