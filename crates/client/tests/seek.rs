//! Seeking through sparse arrays costs time in proportion to the data, however large the holes are.
mod content;

use content::Folder;
use esker::types::info::OpenMode;
use esker::types::ops::Source;
use esker::types::{Extent, ObjectType};
use esker::{Access, Array, ArrayAttributes, Pool, Wait};
use esker_backend::NewContainer;
use esker_conformance::faulty::{Fault, Faulty};
use std::sync::Arc;

const CHUNK: u64 = 64;

/// Limit of entries listed per step from a hole to data or back: empty chunks checked one by one, or a few extents.
const STEP_MAX: u64 = 40;

/// An empty array on a backend that counts.
fn array(backend: &Arc<Faulty>) -> Array {
    let backend: Arc<dyn esker_backend::Pool> = backend.clone();
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("c")).wait().unwrap();
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
    let oid = container.generate_oid(0, 1, ObjectType::ArrayByte, None, 0).unwrap();
    let shape = ArrayAttributes { cell_size: 1, chunk_size: CHUNK };
    container.open_array_with_attributes(oid, shape).unwrap()
}

/// Writes one byte to each of these cells.
fn write(array: &Array, cells: impl Iterator<Item = u64>) {
    for cell in cells {
        array.write(&[Extent::new(cell, 1)], Source::One(b"x"), Access::Latest).wait().unwrap();
    }
}

/// Starts of runs of data, from the first cell on.
fn starts(array: &Array) -> Vec<u64> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(data) = array.next_data(at, Access::Latest).wait().unwrap() {
        found.push(data);
        at = array.next_hole(data, Access::Latest).wait().unwrap();
    }
    found
}

/// Checks that a seek over large holes lists entries in proportion to the chunks with data.
fn steps_cost_little(sort: &str) {
    let folder = Folder::new();
    let backend = Arc::new(Faulty::on(folder.pool(sort).backend().clone(), Fault::None));
    let array = array(&backend);
    let far = |number| number * 1000 * CHUNK;
    for count in [100, 400] {
        write(&array, (0..count).map(far));
        backend.listed();
        assert_eq!(starts(&array), (0..count).map(far).collect::<Vec<_>>());
        let listed = backend.listed();
        assert!(listed < (2 * count + 1) * STEP_MAX, "{sort}: {listed} for {count} chunks");
    }
}

#[test]
fn the_cost_of_large_holes_depends_on_the_data_only() {
    ["memory", "native", "posix"].into_iter().for_each(steps_cost_little);
}

/// Checks that a seek over small holes lists entries in proportion to the extents.
fn extents_cost_little(sort: &str) {
    let folder = Folder::new();
    let backend = Arc::new(Faulty::on(folder.pool(sort).backend().clone(), Fault::None));
    let array = array(&backend);
    let cells = || (0..100 * CHUNK).step_by(2);
    write(&array, cells());
    backend.listed();
    let found = starts(&array);
    assert_eq!(found, cells().collect::<Vec<_>>());
    let listed = backend.listed();
    assert!(listed < 10 * found.len() as u64, "{sort}: {listed} for {} extents", found.len());
}

#[test]
fn the_cost_of_holes_in_a_chunk_depends_on_the_data_only() {
    ["memory", "native"].into_iter().for_each(extents_cost_little);
}
