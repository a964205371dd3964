//! Pools for tests, and worker processes.
use esker::{Native, Pool};
use esker_store::{CheckReport, PoolSpec};
use esker_testing::wait_for;
use esker_types::info::{Durability, OpenMode, Part};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Page size of an index in bytes.
pub(crate) const PAGE: usize = 4096;

/// Time limit of every test and round, also on a busy machine.
pub(crate) const STUCK: Duration = Duration::from_secs(900);

/// Environment variable with the task of a worker process.
pub(crate) const JOB: &str = "ESKER_TORTURE_JOB";
/// Environment variable with the task's arguments, separated by spaces.
pub(crate) const ARGUMENTS: &str = "ESKER_TORTURE_ARGUMENTS";

/// The kind of pool that a test runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Memory,
    /// In memory, without write buffers.
    Unbuffered,
    /// In memory, with the index written by system calls.
    Guarded,
    Disk,
    Durable,
    /// With durability `commit`, without write buffers.
    DurableUnbuffered,
}

/// A directory for pools. It is removed if the test succeeds and kept for inspection if it fails.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(pool_kind: PoolKind) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = match pool_kind {
            PoolKind::Memory | PoolKind::Unbuffered | PoolKind::Guarded => {
                PathBuf::from("/dev/shm")
            }
            PoolKind::Disk | PoolKind::Durable | PoolKind::DurableUnbuffered => {
                PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            }
        };
        let path = base.join(format!("esker-torture-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("making a directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !(std::thread::panicking() && std::env::var_os("ESKER_TORTURE_KEEP").is_some()) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// Sizes of a pool: targets, segments per target, bytes per segment, bytes per index.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub targets: u32,
    pub segments: u64,
    pub segment_bytes: u64,
    pub index_bytes: u64,
}

impl Shape {
    pub(crate) const SMALL: Self =
        Self { targets: 3, segments: 24, segment_bytes: 1 << 20, index_bytes: 4 << 20 };

    fn spec(self, label: &str, pool_kind: PoolKind) -> PoolSpec {
        let share = self.index_bytes + self.segments * self.segment_bytes;
        let mut spec = PoolSpec::new(label, share * u64::from(self.targets));
        let percent = (self.index_bytes * 100).div_ceil(share).clamp(1, 90);
        spec.index_percent = Some(percent as u32);
        spec.targets = Some(self.targets);
        spec.segment_bytes = Some(self.segment_bytes);
        spec.guarded = pool_kind == PoolKind::Guarded;
        spec.write_buffer = Some(matches!(pool_kind, PoolKind::Memory | PoolKind::Durable));
        spec.huge_pages = pool_kind == PoolKind::Memory;
        spec.durability = match pool_kind {
            PoolKind::Memory | PoolKind::Unbuffered | PoolKind::Guarded => None,
            PoolKind::Disk => Some(Durability::Process),
            PoolKind::Durable | PoolKind::DurableUnbuffered => Some(Durability::Commit),
        };
        spec
    }
}

/// Creates a pool; returns its path.
pub(crate) fn make(folder: &Folder, label: &str, pool_kind: PoolKind, shape: Shape) -> PathBuf {
    make_part(folder, label, pool_kind, shape, Part::WHOLE)
}

/// Creates a node's pool of a pool over nodes; returns its path.
pub(crate) fn make_part(
    folder: &Folder,
    label: &str,
    pool_kind: PoolKind,
    shape: Shape,
    part: Part,
) -> PathBuf {
    let mut spec = PoolSpec { part, ..shape.spec(label, pool_kind) };
    spec.write_buffer = spec.write_buffer.filter(|_| part == Part::WHOLE);
    esker_store::Pool::create(folder.path(), &spec, &mut |_, _| {}).expect("creating a pool");
    folder.path().join(label)
}

/// Opens a pool like a client.
pub(crate) fn open(path: &Path) -> Pool {
    try_open(path).unwrap_or_else(|error| panic!("opening {}: {error}", path.display()))
}

/// Opens a pool like a client, or returns the error.
pub(crate) fn try_open(path: &Path) -> esker_types::Result<Pool> {
    let native = Native::open(path, OpenMode::ReadWrite)?;
    Ok(Pool::from_backend(Arc::new(native), OpenMode::ReadWrite))
}

/// Writes to a file of a closed pool until its time stamps change, since the file system's clock is coarse.
pub(crate) fn write_behind_its_back(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).expect("opening");
    let times = || file.metadata().map(|info| (info.ctime(), info.ctime_nsec())).expect("times");
    let before = times();
    wait_for("the file system's clock advances", || {
        file.write_all_at(bytes, at).expect("writing");
        times() != before
    });
}

/// Pages of a file that are in use.
pub(crate) fn used_pages(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks(PAGE).enumerate();
    pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(at, _)| at).collect()
}

/// Checks a pool; fails if a problem is found.
pub(crate) fn expect_sound(path: &Path, repair: bool) -> CheckReport {
    let report = esker_store::Pool::check(path, repair, &mut |_, _| {}).expect("checking");
    assert!(report.problems.is_empty(), "problems: {:#?}", report.problems);
    assert!(report.lost_bytes == 0, "lost bytes: {report:?}");
    report
}

/// Scrubs a pool; fails if damage is found.
pub(crate) fn expect_clean(path: &Path) {
    let pool = esker_store::Pool::open(path).expect("opening");
    let report = pool.opened().expect("state").scrub(&mut |_, _| {}).expect("scrubbing");
    assert!(report.damaged.is_empty(), "damaged: {:#?}", report.damaged);
}

/// The path of this program, which workers run too.
fn own_path() -> PathBuf {
    std::env::current_exe().expect("own path")
}

/// A process of this program with a task; killed when dropped.
pub(crate) struct Worker(pub Child);

impl Worker {
    pub(crate) fn start(job: &str, arguments: &str) -> Self {
        Self::start_with(job, arguments, |_| {})
    }

    /// Starts it; `set` changes the command before.
    pub(crate) fn start_with(job: &str, arguments: &str, set: impl FnOnce(&mut Command)) -> Self {
        Self::run(Command::new(own_path()), job, arguments, set)
    }

    /// Starts it through another program that executes it.
    pub(crate) fn start_through(program: &[&str], job: &str, arguments: &str) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(own_path());
        Self::run(command, job, arguments, |_| {})
    }

    fn run(
        mut command: Command,
        job: &str,
        arguments: &str,
        set: impl FnOnce(&mut Command),
    ) -> Self {
        command.args(["--exact", "job", "--nocapture", "--test-threads=1", "--quiet"]);
        command.env(JOB, job).env(ARGUMENTS, arguments);
        command.stdout(Stdio::null());
        set(&mut command);
        Self(command.spawn().expect("starting a process"))
    }

    pub(crate) fn expect_alive(&mut self) {
        if let Some(status) = self.0.try_wait().expect("polling a worker") {
            panic!("a worker ended unexpectedly: {status}");
        }
    }

    /// Kills it. It must have been running until then.
    pub(crate) fn kill(&mut self) {
        self.expect_alive();
        self.0.kill().expect("killing a worker");
        self.0.wait().expect("waiting for a worker");
    }

    /// Sends it a signal. It must be running.
    pub(crate) fn signal(&mut self, signal: i32) {
        self.expect_alive();
        // SAFETY: sends a signal to a child that was not waited for, so that its id is still its own.
        let sent = unsafe { libc::kill(self.0.id() as libc::pid_t, signal) };
        assert_eq!(sent, 0, "sending signal {signal}: {}", std::io::Error::last_os_error());
    }

    /// Waits for its end, which must be successful.
    pub(crate) fn finish(&mut self) {
        let status = self.0.wait().expect("waiting for a worker");
        assert!(status.success(), "a worker failed: {status}");
    }
}

impl Worker {
    /// Waits until `done`, as long as the worker runs.
    pub(crate) fn wait_until(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        wait_for(what, || {
            self.expect_alive();
            done()
        });
    }

    /// Waits for its end, which must be successful and not take too long.
    pub(crate) fn finish_soon(&mut self) {
        let status = self.wait_soon();
        assert!(status.success(), "a worker failed: {status}");
    }

    /// Waits for its end, which must not take too long.
    pub(crate) fn wait_soon(&mut self) -> std::process::ExitStatus {
        let mut ended = None;
        wait_for("a worker ends", || {
            ended = self.0.try_wait().expect("polling a worker");
            ended.is_some()
        });
        ended.expect("the status of a worker")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The arguments of this process's task.
pub(crate) fn arguments() -> Vec<String> {
    let text = std::env::var(ARGUMENTS).unwrap_or_default();
    text.split(' ').map(str::to_owned).collect()
}

/// Makes a panic of any thread end this process, since its other threads would continue.
pub(crate) fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(101);
    }));
}

/// Ends the process if a test takes so long that it must be stuck.
pub(crate) struct Watchdog {
    /// Dropping it ends the watchdog.
    _over: Sender<()>,
}

impl Watchdog {
    pub(crate) fn new(what: String) -> Self {
        let (_over, ended) = channel();
        std::thread::spawn(move || {
            if ended.recv_timeout(STUCK) == Err(RecvTimeoutError::Timeout) {
                eprintln!("stuck for {STUCK:?}: {what}");
                std::process::abort();
            }
        });
        Self { _over }
    }
}

/// Prints how to replay a failure if it is dropped before [`Announce::nothing`] is called.
pub(crate) struct Announce(Option<String>);

impl Announce {
    pub(crate) fn new(replay: String) -> Self {
        Self(Some(replay))
    }

    pub(crate) fn nothing(mut self) {
        self.0 = None;
    }
}

impl Drop for Announce {
    fn drop(&mut self) {
        if let Some(replay) = &self.0 {
            eprintln!("to replay: {replay}");
        }
    }
}
