//! Random tensors, chunks, parts and hyperslabs, compared with a simple implementation that copies element by element.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker_tensors::{DataType, NewTensor, Slab, Strided, TensorStore};
use esker_testing::{Random, SEED_VARIABLE, rounds, seed};
use support::each_kind;

const ITEMS: [(&str, u64); 7] =
    [("|b1", 1), ("<f2", 2), (">i4", 4), ("<f8", 8), ("<c16", 16), ("|S3", 3), ("<U6", 24)];

/// All indexes of a shape in C order.
fn indexes(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![Vec::new()], |all, count| {
        all.iter().flat_map(|one| (0..*count).map(move |at| [&one[..], &[at]].concat())).collect()
    })
}

/// Position of an index in C order.
fn position(index: &[u64], shape: &[u64]) -> usize {
    index.iter().zip(shape).fold(0, |at, (one, count)| at * *count as usize + *one as usize)
}

/// The elements that the slabs select of C-ordered elements, copied one by one.
fn naive(data: &[u8], shape: &[u64], item: usize, slabs: &[Slab]) -> Vec<u8> {
    let counts: Vec<u64> = slabs.iter().map(|slab| slab.count).collect();
    let element = |index: Vec<u64>| {
        let at: Vec<u64> =
            index.iter().zip(slabs).map(|(one, slab)| slab.start + one * slab.step).collect();
        let at = position(&at, shape) * item;
        data[at..at + item].to_vec()
    };
    indexes(&counts).into_iter().flat_map(element).collect()
}

/// A random slab that fits in a dimension of this length.
fn random_slab(length: u64, random: &mut Random) -> Slab {
    let start = random.below(length + 1);
    let step = 1 + if random.one_in(2) { 0 } else { random.below(4) };
    let most = (length - start).div_ceil(step);
    Slab { start, step, count: random.below(most + 1) }
}

/// Divides the box at `low` with the lengths `counts` at random planes. Adds the first index and the lengths of each
/// part to `found`.
fn parts(low: &[u64], counts: &[u64], random: &mut Random, found: &mut Vec<(Vec<u64>, Vec<u64>)>) {
    let long: Vec<usize> = (0..counts.len()).filter(|d| counts[*d] > 1).collect();
    if long.is_empty() || random.one_in(3) {
        found.push((low.to_vec(), counts.to_vec()));
        return;
    }
    let dimension = long[random.below(long.len() as u64) as usize];
    let at = random.within(1..counts[dimension]);
    let (mut first, mut second, mut start) = (counts.to_vec(), counts.to_vec(), low.to_vec());
    first[dimension] = at;
    second[dimension] -= at;
    start[dimension] += at;
    parts(low, &first, random, found);
    parts(&start, &second, random, found);
}

/// Copies elements to memory with its dimensions in another order, and each of them backwards or not. Returns the
/// memory, the offset of the first element, and the strides in bytes.
fn shuffled(
    data: &[u8],
    shape: &[u64],
    item: u64,
    random: &mut Random,
) -> (Vec<u8>, u64, Vec<i64>) {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
    let (mut strides, mut bytes, mut first) = (vec![0i64; shape.len()], item as i64, 0);
    for dimension in order {
        let backwards = random.one_in(3) && shape[dimension] > 0;
        strides[dimension] = if backwards { -bytes } else { bytes };
        first += if backwards { bytes * (shape[dimension] as i64 - 1) } else { 0 };
        bytes *= shape[dimension] as i64;
    }
    let mut memory = vec![0; data.len()];
    for (index, element) in indexes(shape).iter().zip(data.chunks(item as usize)) {
        let at = first
            + index.iter().zip(&strides).map(|(one, stride)| *one as i64 * stride).sum::<i64>();
        memory[at as usize..at as usize + item as usize].copy_from_slice(element);
    }
    (memory, first as u64, strides)
}

/// Stores a random tensor in random parts, and compares random hyperslabs of it.
fn check_one(store: &TensorStore, random: &mut Random) {
    let (code, item) = ITEMS[random.below(7) as usize];
    let shape: Vec<u64> = (0..random.below(5)).map(|_| random.below(14)).collect();
    let chunks: Vec<u64> = shape.iter().map(|length| 1 + random.below(length + 2)).collect();
    let count: u64 = shape.iter().product();
    let data = random.bytes((count * item) as usize);
    let chunks = Some(chunks).filter(|_| !random.one_in(4));
    let new = NewTensor { chunks, ..NewTensor::new(DataType::parse(code).unwrap(), &shape) };
    let put = store.begin(&new).unwrap();
    let mut boxes = Vec::new();
    parts(&vec![0; shape.len()], &shape, random, &mut boxes);
    for (low, counts) in &boxes {
        let slabs: Vec<Slab> =
            low.iter().zip(counts).map(|(start, count)| Slab::new(*start, *count)).collect();
        let part = naive(&data, &shape, item as usize, &slabs);
        let (memory, first, strides) = shuffled(&part, counts, item, random);
        let part = Strided::new(&memory, first, counts, &strides, item).unwrap();
        put.write(low, &part).unwrap();
    }
    let uuid = put.commit(None).unwrap().to_string();
    let tensor = store.open_tensor(&uuid).unwrap();
    for _ in 0..6 {
        let slabs: Vec<Slab> = shape.iter().map(|length| random_slab(*length, random)).collect();
        let read = tensor.read_to_vec(&slabs).unwrap();
        assert_eq!(
            read,
            naive(&data, &shape, item as usize, &slabs),
            "{new:?} {boxes:?} {slabs:?}"
        );
    }
    assert_eq!(tensor.read_to_vec(&Slab::whole(&shape)).unwrap(), data, "{new:?} {boxes:?}");
    drop(tensor);
    assert_eq!(store.check(true).unwrap().problems, [] as [&str; 0], "{new:?} {boxes:?}");
    store.remove(&uuid).unwrap();
}

#[test]
fn slabs_agree_with_a_simple_implementation() {
    println!("{SEED_VARIABLE}={}", seed());
    each_kind("slabs", |store, _| {
        let mut random = Random::new(seed(), 7);
        for _ in 0..rounds(150) {
            check_one(store, &mut random);
        }
        let rest = store.collect(std::time::Duration::ZERO, true).unwrap();
        assert_eq!(rest.objects, 0);
    });
}

/// Long runs are read in place and short ones through buffers, by several threads.
#[test]
fn large_tensors_are_read_and_written_by_several_threads() {
    each_kind("large", |store, _| {
        let shape = [40, 200, 300];
        let data: Vec<u8> = (0..40 * 200 * 300 * 8u32).map(|at| (at ^ at >> 9) as u8).collect();
        for chunks in [None, Some(vec![1, 50, 300]), Some(vec![7, 64, 64])] {
            let new =
                NewTensor { chunks, ..NewTensor::new(DataType::parse("<i8").unwrap(), &shape) };
            let whole = Strided::contiguous(&data, &shape, 8).unwrap();
            store.put(&new, &whole, Some("large")).unwrap();
            let tensor = store.open_tensor("large").unwrap();
            assert!(tensor.read_to_vec(&Slab::whole(&shape)).unwrap() == data, "{new:?}");
            let slabs = [
                Slab { start: 1, step: 3, count: 13 },
                Slab::new(3, 190),
                Slab { start: 5, step: 2, count: 140 },
            ];
            assert!(
                tensor.read_to_vec(&slabs).unwrap() == naive(&data, &shape, 8, &slabs),
                "{new:?}"
            );
        }
        let _ = store.collect(std::time::Duration::ZERO, true).unwrap();
    });
}
