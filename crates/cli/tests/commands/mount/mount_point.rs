//! A file system on a directory, and the errors of calls on it.
use crate::support::{Site, wait_for};
use dfs::{Dfs, MountOptions, NewDfs};
use esker::Pool;
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::process::Command;

/// A pool with a file system `tank/home`, and a directory to mount it on.
pub(crate) struct MountPoint {
    pub(crate) dir: PathBuf,
    pub(crate) site: Site,
}

impl MountPoint {
    /// A file system that is not mounted yet; `None` where this machine cannot mount.
    pub(crate) fn new() -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let helper = Command::new("fusermount3").arg("--version").output();
        if device.is_err() || helper.is_err() {
            esker_testing::skip("this machine has no /dev/fuse or no fusermount3");
            return None;
        }
        let site = Site::in_memory();
        site.ok(&["pool", "create", "tank", "--size", "256M", "--targets", "2"]);
        let point = Self { dir: site.dir.join("mnt"), site };
        let pool = Pool::connect(&point.pool(), OpenMode::ReadWrite).unwrap();
        let label = NewContainer::named("home");
        Dfs::create_container(&pool, &label, &NewDfs::default()).unwrap();
        fs::create_dir(&point.dir).unwrap();
        Some(point)
    }

    /// A file system that is mounted with these options; `None` where this machine cannot mount.
    pub(crate) fn mounted(options: &[&str]) -> Option<Self> {
        let point = Self::new()?;
        point.mount(options);
        Some(point)
    }

    /// A mount over io_uring; `None` where the kernel lacks that.
    pub(crate) fn over_ring() -> Option<Self> {
        if let Err(error) = esker_fuse::check_ring() {
            esker_testing::skip(error);
            return None;
        }
        Self::mounted(&["--transport", "io_uring"])
    }

    pub(crate) fn mount(&self, options: &[&str]) {
        self.mount_container("tank/home", options);
    }

    /// Mounts a container, with the transport that `ESKER_TEST_TRANSPORT` names, unless the options name one.
    pub(crate) fn mount_container(&self, name: &str, options: &[&str]) {
        let given = std::env::var("ESKER_TEST_TRANSPORT").ok();
        let given = given.filter(|_| !options.contains(&"--transport"));
        let transport: Vec<_> = given.iter().flat_map(|way| ["--transport", way]).collect();
        self.site.ok(&[&["mount", name, self.dir()], options, &transport[..]].concat());
    }

    /// Unmounts, again and again while the mount is in use. A process that another test has just forked has our open
    /// files until it runs its program.
    pub(crate) fn umount(&self) {
        wait_for("the unmount", || {
            let output = self.site.run(&["umount", self.dir()]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("is in use"), "{output:?}");
            output.status.success()
        });
    }

    pub(crate) fn dir(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    /// Path of a file on the mount.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// URL of the pool.
    pub(crate) fn pool(&self) -> String {
        format!("esker:{}/tank", self.site.dir.display())
    }

    /// The same file system without the mount.
    pub(crate) fn direct(&self) -> Dfs {
        Dfs::open(&self.pool(), "home", MountOptions::default()).unwrap()
    }

    pub(crate) fn is_mounted(&self) -> bool {
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(self.dir())
    }

    /// The process that serves the mount.
    pub(crate) fn server(&self) -> String {
        let mut text = [0; 16];
        let len = rustix::fs::getxattr(&self.dir, "esker.pid", &mut text).unwrap();
        String::from_utf8(text[..len].to_vec()).unwrap()
    }

    /// Sends a signal to the server. `signal` is an option of `kill`, such as `-TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let server = self.server();
        assert!(Command::new("kill").args([signal, &server]).status().unwrap().success());
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.is_mounted() {
            self.site.run(&["umount", "--lazy", self.dir()]);
        }
    }
}

/// Error number of a call; `None` if the call succeeded.
pub(crate) fn errno<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Asserts that a call failed with this error.
pub(crate) fn is(result: std::io::Result<()>, expected: Errno) {
    assert_eq!(errno(result), Some(expected.raw_os_error()));
}
