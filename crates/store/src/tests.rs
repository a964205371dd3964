//! Test helpers: a temporary pool that is removed when its value is dropped, and random bytes.
use crate::io::folder::Folder;
use crate::shard::open_pool::OpenPool;
use crate::shared::control::Control;
use crate::shared::double_open;
use crate::{Pool, PoolSpec, Superblock};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A pool in a temporary directory, opened by this process.
pub(crate) struct Scratch {
    folder: PathBuf,
    pool: Option<Pool>,
}

impl Scratch {
    /// A pool in memory; `set` adjusts its specification.
    pub(crate) fn new(bytes: u64, set: impl FnOnce(&mut PoolSpec)) -> Self {
        Self::on(Path::new("/dev/shm"), bytes, set)
    }

    /// A pool in a new directory below `place`.
    pub(crate) fn on(place: &Path, bytes: u64, set: impl FnOnce(&mut PoolSpec)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = place.join(format!("esker-scratch-{}-{number}", std::process::id()));
        let mut spec = PoolSpec::new("pool", bytes);
        // Tests count commits and pages, so the write buffer is off. Tests of the write buffer turn it on.
        spec.write_buffer = Some(false);
        set(&mut spec);
        Pool::create(&folder, &spec, &mut |_, _| {}).unwrap();
        let pool = Some(Pool::open(&folder.join("pool")).unwrap());
        Self { folder, pool }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("pool")
    }

    pub(crate) fn opened(&self) -> Arc<OpenPool> {
        Arc::clone(self.pool.as_ref().unwrap().opened().unwrap())
    }

    /// Opens the control file like another process, which has it open as long as the value exists.
    pub(crate) fn control_of_other(&self) -> Control {
        let own = self.pool.as_ref().map(|_| Arc::clone(&self.opened().control));
        own.iter().for_each(|own| double_open::leave(own));
        let folder = Folder::open(&self.path()).unwrap();
        let control = Control::open(&folder, &Superblock::read_in(&folder).unwrap()).unwrap();
        double_open::leave(&control);
        own.iter().for_each(|own| double_open::enter(own));
        control
    }

    pub(crate) fn close(&mut self) {
        self.pool = None;
    }

    pub(crate) fn reopen(&mut self) {
        self.close();
        self.pool = Some(Pool::open(&self.path()).unwrap());
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Random numbers from two seeds: `ESKER_SEED` and a seed of the test.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(test: u64) -> Self {
        Self(esker_testing::seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ test)
    }

    /// A random number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ (word >> 31)
    }

    /// Random bytes, fewer than `limit`.
    pub(crate) fn bytes(&mut self, limit: u64) -> Vec<u8> {
        let len = self.draw() % limit;
        (0..len).map(|_| (self.draw() >> 24) as u8).collect()
    }
}
