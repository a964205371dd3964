//! Local calls copy nothing, allocate nothing, and are ready at the first poll.
mod counting;

use counting::{ROUNDS, Tank, allocations};
use esker::types::ops::{Cond, Sink, Source};
use esker::types::{Extent, ObjectClass, ObjectType};
use esker::{Access, ArrayAttributes, Wait};

#[test]
fn local_calls_allocate_nothing() {
    let tank = Tank::with(|spec| spec.write_buffer = Some(false));
    let class = Some(ObjectClass::SX);
    let oid = tank.container.generate_oid(0, 1, ObjectType::KvHashed, class, 0).unwrap();
    let kv = tank.container.kv(oid).unwrap();
    let oid = tank.container.generate_oid(0, 2, ObjectType::Array, class, 0).unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 64 << 10 };
    let array = tank.container.create_array(oid, shape, Access::Latest).wait().unwrap();
    let (small, large, range) = ([1; 64], vec![2; 16 << 10], [Extent::new(0, 16 << 10)]);
    kv.put(b"key", &small, Cond::NONE, Access::Latest).wait().unwrap();
    array.write(&range, Source::One(&large), Access::Latest).wait().unwrap();

    let count = allocations(|| async {
        let mut buffer = [0; 64];
        kv.read(b"key", Sink::One(&mut buffer), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} gets allocated");
    let count = allocations(|| async {
        let mut cells = [0; 16 << 10];
        array.read(&range, Sink::One(&mut cells), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} reads of an array allocated");
    let oid = tank.container.generate_oid(0, 3, ObjectType::ArrayByte, class, 0).unwrap();
    let bytes = tank.container.open_array_with_attributes(oid, shape).unwrap();
    bytes.write(&range, Source::One(&large), Access::Latest).wait().unwrap();
    let count = allocations(|| async {
        let mut read = [0; 16 << 10];
        bytes.read(&range, Sink::One(&mut read), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} reads of bytes allocated");
    let count = allocations(|| kv.put(b"key", &small, Cond::NONE, Access::Latest));
    assert_eq!(count, 0, "{ROUNDS} puts allocated");
    let count = allocations(|| array.write(&range, Source::One(&large), Access::Latest));
    // Each new segment costs a few allocations.
    assert!(count < ROUNDS / 10, "{count} allocations of {ROUNDS} writes of an array");
    drop((array, bytes, kv, tank));
    buffered_puts_allocate_little();
}

/// Checks that puts to the write buffer, and reads of them, allocate next to nothing.
fn buffered_puts_allocate_little() {
    let tank = Tank::new();
    let (class, small) = (Some(ObjectClass::SX), [1; 64]);
    let oid = tank.container.generate_oid(0, 1, ObjectType::KvHashed, class, 0).unwrap();
    let kv = tank.container.kv(oid).unwrap();
    kv.put(b"key", &small, Cond::NONE, Access::Latest).wait().unwrap();
    let count = allocations(|| async {
        let mut buffer = [0; 64];
        kv.read(b"key", Sink::One(&mut buffer), Access::Latest).await
    });
    assert_eq!(count, 0, "{ROUNDS} gets of buffered puts allocated");
    let count = allocations(|| kv.put(b"key", &small, Cond::NONE, Access::Latest));
    // Each commit of the write buffer costs a few allocations.
    assert!(count < ROUNDS / 10, "{count} allocations of {ROUNDS} buffered puts");
}
