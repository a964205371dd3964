//! Local reads and writes of files are ready at the first poll, and allocate no more than those of arrays.
#[path = "../../client/tests/counting/mod.rs"]
mod counting;

use counting::{ROUNDS, Tank, allocations};
use dfs::{Create, Dfs, MountOptions, NewDfs, Open};
use esker::Access;
use esker::types::Extent;
use esker::types::ops::{Sink, Source};

const BYTES: usize = 16 << 10;

#[test]
fn local_reads_and_writes_allocate_as_those_of_arrays() {
    let tank = Tank::new();
    Dfs::format(&tank.container, &NewDfs::default()).unwrap();
    let fs = Dfs::mount(tank.container.clone(), MountOptions::default()).unwrap();
    let node = fs.root().create(b"file", &Create::with_mode(0o600)).unwrap();
    let file = node.open(Open::BOTH).unwrap();
    let (data, range) = (vec![1; BYTES], [Extent::new(0, BYTES as u64)]);
    file.write_at(0, &data).unwrap();

    let of_array = allocations(|| async {
        let mut buffer = [0; BYTES];
        file.array().read(&range, Sink::One(&mut buffer), Access::Latest).await
    });
    let of_file = allocations(|| async {
        let mut buffer = [0; BYTES];
        file.read_into(0, Sink::One(&mut buffer)).await
    });
    assert_eq!(of_file, of_array, "allocations of {ROUNDS} reads");
    let count = allocations(|| file.write_from(0, Source::One(&data)));
    // Each new segment costs a few, as does the time of the last write, once a second.
    assert!(count < ROUNDS / 10, "{count} allocations of {ROUNDS} writes");
}
