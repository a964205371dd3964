//! Many threads read at the same time. If one of them has read a number, each read that begins later finds at least
//! that number. There are more threads than cores, so that some are interrupted at every step of the begin of a read.
use crate::common::{self, Announce, Folder, PoolKind, Shape, Watchdog};
use crate::simple;
use esker::{Access, Kv, Wait};
use esker_testing::{SEED_VARIABLE, scaled, seed};
use esker_types::ops::Cond;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

const READERS: u64 = 40;

/// Key of the number.
const KEY: &[u8] = b"number";

/// Numbers that were put one after the other, as readers see them.
#[derive(Default)]
struct Numbers {
    /// The largest number that was acknowledged or read.
    floor: AtomicU64,
    reads: AtomicU64,
    is_over: AtomicU64,
}

impl Numbers {
    /// Reads until the test is over. No read may return a smaller number than was known before it.
    fn read_until_over(&self, kv: &Kv) {
        let mut bytes = [0; 8];
        while self.is_over.load(SeqCst) == 0 {
            let floor = self.floor.load(SeqCst);
            kv.get_into(KEY, &mut bytes, Access::Latest).wait().expect("reading");
            let number = u64::from_le_bytes(bytes);
            assert!(number >= floor, "read {number}, but {floor} was read or acknowledged before");
            self.floor.fetch_max(number, SeqCst);
            self.reads.fetch_add(1, SeqCst);
        }
    }

    /// Puts the numbers from 1 to `count`, one after the other.
    fn put_all(&self, kv: &Kv, count: u64) {
        for number in 1..=count {
            kv.put(KEY, &number.to_le_bytes(), Cond::NONE, Access::Latest).wait().expect("writing");
            self.floor.fetch_max(number, SeqCst);
        }
    }
}

/// Ends the readers when it is dropped.
struct Over<'n>(&'n Numbers);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(1, SeqCst);
    }
}

/// Lets many threads read a number while it grows.
fn read_while_numbers_grow(pool_kind: PoolKind, count: u64) {
    let (folder, seed) = (Folder::new(pool_kind), seed());
    let replay = format!("{SEED_VARIABLE}={seed} {pool_kind:?}");
    let _watchdog = Watchdog::new(replay.clone());
    let failed = Announce::new(replay);
    let pool = common::open(&common::make(&folder, "pool", pool_kind, Shape::SMALL));
    let (_container, kv) = simple::kv(&pool, "numbers").expect("a container");
    let numbers = Numbers::default();
    std::thread::scope(|scope| {
        let _over = Over(&numbers);
        for _ in 0..READERS {
            scope.spawn(|| {
                let _over = Over(&numbers);
                numbers.read_until_over(&kv);
            });
        }
        numbers.put_all(&kv, count);
    });
    failed.nothing();
    eprintln!("{pool_kind:?}: {count} numbers put, {} reads", numbers.reads.load(SeqCst));
}

#[test]
fn reads_never_go_back_in_memory() {
    read_while_numbers_grow(PoolKind::Unbuffered, scaled(4000));
}

#[test]
fn reads_never_go_back_in_a_durable_pool() {
    read_while_numbers_grow(PoolKind::Durable, scaled(600));
}

#[test]
fn reads_never_go_back_with_a_write_buffer() {
    read_while_numbers_grow(PoolKind::Memory, scaled(4000));
}
