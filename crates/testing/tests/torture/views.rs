//! Effects of one handle on another: exclusive use across processes, shrinking arrays, destroyed snapshots.
use crate::common::{self, Folder, PoolKind, Shape, Worker};
use crate::simple;
use esker::backend::NewContainer;
use esker::{Access, ArrayAttributes, Wait};
use esker_types::info::OpenMode;
use esker_types::ops::{Sink, Source};
use esker_types::{ErrorKind, Extent, ObjectType};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const CELLS: u64 = 64 << 10;
const CHUNK: u64 = 1 << 10;

/// Arguments: pool, file to create once the container is open exclusively. Waits to be killed.
pub(crate) fn hold_exclusively() {
    let arguments = common::arguments();
    let pool = common::open(Path::new(&arguments[0]));
    let _held = pool.open_container("c", OpenMode::Exclusive).wait().expect("opening");
    std::fs::write(&arguments[1], b"").expect("signalling");
    loop {
        std::thread::park();
    }
}

#[test]
fn exclusive_use_excludes_other_processes() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let pool = common::open(&path);
    let new = NewContainer::named("c");
    pool.create_container(&new).wait().expect("making a container");
    for round in 0..3 {
        let signal = folder.path().join(format!("held-{round}"));
        let arguments = format!("{} {}", path.display(), signal.display());
        let mut holder = Worker::start("views-hold", &arguments);
        holder.wait_until("the container is open exclusively", || signal.exists());
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::Exclusive] {
            let refused = pool.open_container("c", mode).wait().map(drop);
            assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Busy), "{mode:?}");
        }
        holder.kill();
        let opened = pool.open_container("c", OpenMode::Exclusive).wait().expect("opening");
        opened.close().wait().expect("closing");
    }
}

/// Other processes may see an array partly shrunk, but every cell is unchanged or a hole.
#[test]
fn an_array_shrinks_in_steps() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let pool = common::open(&path);
    let (container, _kv) = simple::kv(&pool, "c").expect("opening");
    let oid = container.generate_oid(1, 1, ObjectType::ArrayByte, None, 0).expect("an id");
    let shape = ArrayAttributes { cell_size: 1, chunk_size: CHUNK };
    let array = container.open_array_with_attributes(oid, shape).expect("opening");
    let whole = [Extent::new(0, CELLS)];
    let full = vec![7; CELLS as usize];
    for _ in 0..10 {
        array.write(&whole, Source::One(&full), Access::Latest).wait().expect("writing");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                array.set_size(100, Access::Latest).wait().expect("shrinking");
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let mut seen = vec![9; CELLS as usize];
                array.read(&whole, Sink::One(&mut seen), Access::Latest).wait().expect("reading");
                assert!(seen[..100].iter().all(|&cell| cell == 7), "a remaining cell was changed");
                assert!(
                    seen.iter().all(|cell| [0, 7, 9].contains(cell)),
                    "a cell that nobody wrote"
                );
            }
        });
        assert_eq!(array.size(Access::Latest).wait().expect("asking"), 100);
    }
}

/// A read of a snapshot returns all of its data or fails, even while the snapshot is being destroyed.
#[test]
fn a_read_of_a_destroyed_snapshot_shows_no_holes() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let pool = common::open(&path);
    let (container, kv) = simple::kv(&pool, "c").expect("opening");
    for round in 0..20 {
        (0..300).for_each(|number| simple::put(&kv, number, 2000).expect("writing"));
        let epoch = container.create_snapshot(&format!("s{round}")).wait().expect("a snapshot");
        let view = container.at(epoch).wait().expect("a view");
        (0..300).for_each(|number| simple::remove(&kv, number).expect("removing"));
        std::thread::scope(|scope| {
            scope.spawn(|| container.destroy_snapshot(epoch).wait().expect("destroying"));
            for number in 0..300_u64 {
                match kv.get(&number.to_be_bytes(), view).wait() {
                    Ok(Some(value)) => assert_eq!(value, simple::value(number, 2000)),
                    Ok(None) => panic!("value {number} was reported as missing"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
        });
        let refused = kv.get(&0_u64.to_be_bytes(), view).wait().expect_err("no snapshot");
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    }
}
