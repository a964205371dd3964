//! The settings from the environment, read once when the library is loaded.
use crate::unshared;
use std::ffi::CString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

/// Names of the variables that `esker run` sets. All are passed on to every program that is started.
pub(crate) const VARIABLES: [&str; 11] = [
    "LD_PRELOAD",
    "ESKER_MOUNT",
    "ESKER_POOL",
    "ESKER_CONT",
    "ESKER_SOURCE",
    "ESKER_RUN_DIR",
    "ESKER_LOCKS",
    "ESKER_REPORT",
    "ESKER_READ_ONLY",
    "ESKER_POOLS",
    "XDG_DATA_HOME",
];

/// Settings of this library: mount point, pool, container and directories.
#[derive(Default)]
pub(crate) struct Config {
    /// The mount point, absolute and without a trailing slash; empty if there is none.
    pub(crate) mount: Vec<u8>,
    /// The pool: label, UUID or URL.
    pub(crate) pool: String,
    /// The container: label or UUID.
    pub(crate) container: String,
    /// Name of the container as the user gave it, for the mount table.
    pub(crate) source: String,
    /// Directory for files that the processes of this run share.
    pub(crate) run_dir: Vec<u8>,
    /// Path of the marker of a run without inherited files ([`crate::unshared`]).
    pub(crate) unshared: Option<CString>,
    /// Directory for lock files; empty if there is none.
    pub(crate) locks: Vec<u8>,
    /// `LD_LIBRARY_PATH` as the loader has read it.
    pub(crate) library_path: Vec<u8>,
    /// File of the report.
    pub(crate) report: Option<CString>,
    /// True if the file system is mounted read-only.
    pub(crate) read_only: bool,
    /// The variables as this process found them, `NAME=VALUE`.
    pub(crate) variables: Vec<CString>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// The settings. Before [`load`], and without a mount point, all of them are empty.
#[inline]
pub(crate) fn get() -> &'static Config {
    static NONE: Config = Config {
        mount: Vec::new(),
        pool: String::new(),
        container: String::new(),
        source: String::new(),
        run_dir: Vec::new(),
        unshared: None,
        locks: Vec::new(),
        library_path: Vec::new(),
        report: None,
        read_only: false,
        variables: Vec::new(),
    };
    CONFIG.get().unwrap_or(&NONE)
}

/// Reads the settings from the environment. False if it names no absolute mount point: then all calls pass through.
pub(crate) fn load() -> bool {
    let config = read();
    let is_usable = config.mount.len() > 1 && config.mount[0] == b'/';
    is_usable && CONFIG.set(config).is_ok()
}

/// Reads the environment variables.
fn read() -> Config {
    let bytes = |name| std::env::var_os(name).map(OsStringExt::into_vec).unwrap_or_default();
    let text = |name| String::from_utf8(bytes(name)).unwrap_or_default();
    let (mount, run_dir) = (bytes("ESKER_MOUNT"), bytes("ESKER_RUN_DIR"));
    let mount = mount.strip_suffix(b"/").unwrap_or(&mount);
    Config {
        mount: mount.to_vec(),
        pool: text("ESKER_POOL"),
        container: text("ESKER_CONT"),
        source: text("ESKER_SOURCE"),
        unshared: unshared::path(&run_dir),
        run_dir,
        locks: bytes("ESKER_LOCKS"),
        library_path: bytes("LD_LIBRARY_PATH"),
        report: CString::new(bytes("ESKER_REPORT")).ok().filter(|path| !path.is_empty()),
        read_only: !bytes("ESKER_READ_ONLY").is_empty(),
        variables: VARIABLES.iter().filter_map(|name| variable(name)).collect(),
    }
}

/// `NAME=VALUE` of an environment variable; `None` if it is not set.
fn variable(name: &str) -> Option<CString> {
    let value = std::env::var_os(name)?;
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}
