//! Buffers that another thread changes during a write or read: any mix of old and new bytes may be stored or read,
//! but whatever was stored is readable.
#![allow(unsafe_code)]
use esker::types::info::{Durability, OpenMode};
use esker::types::ops::{Sink, Source};
use esker::types::{Extent, ObjectClass, ObjectType};
use esker::{Access, Array, ArrayAttributes, Container, Pool, Wait, backend::NewContainer};
use esker_store::PoolSpec;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

const WRITES: u64 = 50;

/// A pool with a container, removed with its directory.
struct Site(PathBuf, Container);

impl Site {
    fn new(base: &Path, name: &str, durability: Durability) -> Self {
        let folder = base.join(format!("esker-changing-{name}-{}", std::process::id()));
        let spec = PoolSpec { durability: Some(durability), ..PoolSpec::new("p", 128 << 20) };
        esker_store::Pool::create(&folder, &spec, &mut |_, _| {}).expect("creating a pool");
        let url = format!("esker:{}", folder.join("p").display());
        let pool = Pool::connect(&url, OpenMode::ReadWrite).expect("opening the pool");
        let new = NewContainer::named("c");
        pool.create_container(&new).wait().expect("a container");
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("opening it");
        Self(folder, container)
    }

    /// A byte array; its id depends on the number.
    fn array(&self, bytes: usize) -> Array {
        let otype = ObjectType::ArrayByte;
        let oid = self.1.generate_oid(0, bytes as u64, otype, Some(ObjectClass::S1), 0);
        let attributes = ArrayAttributes { cell_size: 1, chunk_size: 1 << 20 };
        self.1.open_array_with_attributes(oid.expect("S1 fits"), attributes).expect("an Array")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sets its flag when it is dropped, also during a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs `work` while another thread changes the bytes.
fn while_changed(bytes: &[AtomicU8], work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    let change = || {
        for round in (0..=u8::MAX).cycle() {
            bytes.iter().step_by(61).for_each(|byte| byte.store(round, Relaxed));
            if done.load(Relaxed) {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(change);
        let _last = Done(&done);
        work();
    });
}

/// Writes blocks of `len` bytes from memory that changes, divided into this number of buffers. Reads each block into a
/// private buffer, and into one that changes.
fn blocks_can_be_read(site: &Site, len: usize, pieces: usize) {
    let array = site.array(len);
    let shared: Vec<AtomicU8> = (0..len).map(|_| AtomicU8::new(1)).collect();
    let base = shared.as_ptr().cast::<u8>().cast_mut();
    let extent = |block| [Extent::new(block * len as u64, len as u64)];
    while_changed(&shared, || {
        // SAFETY: the memory outlives the slice and is only accessed byte by byte. Concurrent changes are the subject
        // of this test, as in a program that passes its shared memory to a system call.
        let bytes = unsafe { std::slice::from_raw_parts(base, len) };
        let parts: Vec<&[u8]> = bytes.chunks(len.div_ceil(pieces)).collect();
        let source = if pieces == 1 { Source::One(bytes) } else { Source::Many(&parts) };
        for block in 0..WRITES {
            array.write(&extent(block), source, Access::Latest).wait().expect("a write");
        }
    });
    let mut alone = vec![0; len];
    for block in 0..WRITES {
        let read = array.read(&extent(block), Sink::One(&mut alone), Access::Latest).wait();
        read.unwrap_or_else(|error| panic!("block {block} of {len} bytes: {error}"));
    }
    while_changed(&shared, || {
        for block in 0..WRITES {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts_mut(base, len) };
            let read = array.read(&extent(block), Sink::One(bytes), Access::Latest).wait();
            read.unwrap_or_else(|error| panic!("block {block} of {len} bytes, shared: {error}"));
        }
    });
}

/// Writes and reads blocks of each length that is stored in another way.
fn all_can_be_read(site: &Site) {
    // Values in the index, in one extent, in several extents, and in more than one call.
    for len in [1000, 8192, 100_000, 300_000] {
        blocks_can_be_read(site, len, 1);
        blocks_can_be_read(site, len, 3);
    }
}

/// Blocks that are written from changing buffers to a pool in memory can be read.
#[test]
fn in_memory() {
    all_can_be_read(&Site::new(Path::new("/dev/shm"), "memory", Durability::Process));
}

/// Blocks that are written from changing buffers to a pool on a disk can be read.
#[test]
fn on_disk() {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    all_can_be_read(&Site::new(base, "disk", Durability::Process));
}
