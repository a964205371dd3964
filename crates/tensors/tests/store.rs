//! The tensor store on each kind of pool: tensors are read as they were put, completely and in hyperslabs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker::Pool;
use esker::backend::memory::Memory;
use esker_tensors::hdf5::write_virtual;
use esker_tensors::limits::DEPTH_MAX;
use esker_tensors::{AttributeList, DataType, NewTensor, Slab, Strided, TensorStore, Value};
use esker_types::ErrorKind;
use esker_types::info::OpenMode;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use support::{Directory, Kind, each_kind};

const NOW: Duration = Duration::ZERO;

fn f8(shape: &[u64]) -> NewTensor {
    NewTensor::new(DataType::parse("<f8").unwrap(), shape)
}

/// Bytes that differ from each other, and by `salt`.
fn bytes(count: u64, salt: u8) -> Vec<u8> {
    (0..count).map(|at| (at ^ at >> 8) as u8 ^ salt).collect()
}

/// Stores a tensor, and returns its bytes.
fn put(store: &TensorStore, shape: &[u64], salt: u8, name: &str) -> Vec<u8> {
    let data = bytes(shape.iter().product::<u64>() * 8, salt);
    let strided = Strided::contiguous(&data, shape, 8).unwrap();
    store.put(&f8(shape), &strided, Some(name)).unwrap();
    data
}

fn get(store: &TensorStore, name: &str) -> Vec<u8> {
    let tensor = store.open_tensor(name).unwrap();
    tensor.read_to_vec(&Slab::whole(tensor.grid().shape())).unwrap()
}

#[test]
fn tensors_are_read_as_they_were_put() {
    each_kind("round", |store, _| {
        for (number, shape) in
            [&[][..], &[0], &[3, 0, 2], &[1; 32], &[7, 5], &[3, 700, 500]].iter().enumerate()
        {
            let name = format!("tensor {number}");
            let data = put(store, shape, number as u8, &name);
            assert_eq!(get(store, &name), data, "{shape:?}");
            let tensor = store.open_tensor(&name).unwrap();
            assert_eq!((tensor.grid().shape(), tensor.name()), (*shape, Some(name.as_str())));
            assert_eq!(
                store.open_tensor(&tensor.uuid().to_string()).unwrap().uuid(),
                tensor.uuid()
            );
        }
        assert_eq!(store.list().unwrap().len(), 6);
        assert_eq!(store.check(true).unwrap().problems, [] as [&str; 0]);
    });
}

#[test]
fn attributes_and_names_are_read_as_they_were_put() {
    each_kind("attributes", |store, _| {
        let attributes = BTreeMap::from([
            ("units".to_owned(), Value::Text("K".into()).into()),
            ("scale".to_owned(), Value::Real(0.5).into()),
        ]);
        let new = NewTensor { attributes: attributes.clone(), ..f8(&[2]) };
        let data = bytes(16, 0);
        let uuid = store.put(&new, &Strided::contiguous(&data, &[2], 8).unwrap(), None).unwrap();
        let tensor = store.open_tensor(&uuid.to_string()).unwrap();
        assert_eq!((tensor.attributes(), tensor.name()), (&attributes, None));
        store.rename(&uuid.to_string(), "first").unwrap();
        store.rename("first", "second").unwrap();
        store.rename("second", "second").unwrap();
        assert_eq!(store.open_tensor("first").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(store.open_tensor("second").unwrap().uuid(), uuid);
        let listed = store.list().unwrap();
        assert_eq!((listed.len(), listed[0].name.as_deref()), (1, Some("second")));
        assert_eq!(store.remove("second").unwrap(), Some(uuid));
        assert_eq!(store.open_tensor(&uuid.to_string()).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(store.list().unwrap().is_empty());
    });
}

#[test]
fn put_by_several_writers_is_visible_after_its_commit() {
    each_kind("several", |store, _| {
        let old = put(store, &[40, 30], 1, "field");
        let new = NewTensor { chunks: Some(vec![16, 7]), ..f8(&[40, 30]) };
        let begun = store.begin(&new).unwrap();
        let data = bytes(40 * 30 * 8, 2);
        for (number, first) in [0, 10, 20, 30].into_iter().enumerate() {
            let part = &data[first * 240..(first + 10) * 240];
            let part = Strided::contiguous(part, &[10, 30], 8).unwrap();
            let writer = store.resume(&begun.token()).unwrap();
            if number < 3 {
                writer.write(&[first as u64, 0], &part).unwrap();
                continue;
            }
            let refused = begun.commit(Some("field")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.message().contains("[30:40, 0:30] is missing"), "{refused}");
            assert_eq!(get(store, "field"), old);
            writer.write(&[first as u64, 0], &part).unwrap();
        }
        let before = store.open_tensor("field").unwrap();
        let uuid = begun.commit(Some("field")).unwrap();
        assert_eq!(get(store, "field"), data);
        assert_eq!(get(store, &uuid.to_string()), data);
        // A reader that has the old tensor open can still read it.
        assert_eq!(before.read_to_vec(&Slab::whole(&[40, 30])).unwrap(), old);
        assert_eq!(begun.commit(Some("field")).unwrap_err().kind(), ErrorKind::Already);
        let late = Strided::contiguous(&data[..240], &[1, 30], 8).unwrap();
        assert_eq!(begun.write(&[0, 0], &late).unwrap_err().kind(), ErrorKind::Already);
        assert_eq!(store.resume(&begun.token()).unwrap_err().kind(), ErrorKind::Already);
    });
}

#[test]
fn parts_that_overlap_or_do_not_fit_are_refused() {
    each_kind("parts", |store, _| {
        let begun = store.begin(&f8(&[4])).unwrap();
        let data = bytes(32, 0);
        let part =
            |count: u64| Strided::contiguous(&data[..count as usize * 8], &[count], 8).unwrap();
        begun.write(&[0], &part(3)).unwrap();
        begun.write(&[2], &part(2)).unwrap();
        let refused = begun.commit(None).unwrap_err();
        assert!(refused.message().contains("part [0:3] overlaps part [2:4]"), "{refused}");
        assert_eq!(begun.write(&[3], &part(2)).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(begun.write(&[0, 0], &part(2)).unwrap_err().kind(), ErrorKind::Invalid);
        begun.abort().unwrap();
        assert_eq!(begun.commit(None).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(begun.write(&[0], &part(1)).unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn unused_tensors_and_puts_are_collected() {
    each_kind("collected", |store, kind| {
        put(store, &[100], 1, "a");
        let open = store.open_tensor("a").unwrap();
        let data = put(store, &[100], 2, "a");
        let begun = store.begin(&f8(&[10])).unwrap();
        begun.write(&[0], &Strided::contiguous(&data[..40], &[5], 8).unwrap()).unwrap();
        let hour = Duration::from_secs(3600);
        let young = store.collect(hour, true).unwrap();
        assert_eq!((young.puts, young.removed, young.objects), (0, 0, 0));
        let counted = store.collect(NOW, false).unwrap();
        assert_eq!((counted.puts, counted.objects), (1, 0));
        // The open tensor stays.
        let collected = store.collect(NOW, true).unwrap();
        assert_eq!((collected.puts, collected.removed, collected.kept), (1, 0, 1), "{kind:?}");
        assert_eq!(open.read_to_vec(&[Slab::new(0, 100)]).unwrap(), bytes(800, 1));
        drop(open);
        assert_eq!(store.collect(NOW, true).unwrap(), Default::default());
        assert_eq!(get(store, "a"), data);
        // A writer cannot continue after its PUT was collected.
        assert_eq!(
            begun
                .write(&[5], &Strided::contiguous(&data[..8], &[1], 8).unwrap())
                .unwrap_err()
                .kind(),
            ErrorKind::NotFound
        );
        let checked = store.check(true).unwrap();
        assert_eq!((checked.tensors, checked.hidden, checked.problems.len()), (1, 0, 0));
    });
}

#[test]
fn other_containers_and_names_are_refused() {
    each_kind("refused", |store, _| {
        let data = bytes(8, 0);
        let one = Strided::contiguous(&data, &[1], 8).unwrap();
        assert_eq!(
            store.put(&f8(&[1]), &one, Some("a\nb")).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        assert_eq!(store.put(&f8(&[2]), &one, None).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(store.list().unwrap().is_empty());
        assert_eq!(store.collect(NOW, true).unwrap(), Default::default());
        let long = NewTensor {
            attributes: BTreeMap::from([("a".into(), Value::Octets(vec![0; 2 << 20]).into())]),
            ..f8(&[1])
        };
        assert_eq!(store.put(&long, &one, None).unwrap_err().kind(), ErrorKind::RecordTooBig);
        assert_eq!(store.resume("x").unwrap_err().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn elements_of_another_size_are_refused() {
    each_kind("size", |store, _| {
        let data = bytes(64, 0);
        for item in [2, 4, 16] {
            let part = Strided::contiguous(&data[..4 * item as usize], &[4], item).unwrap();
            assert_eq!(store.put(&f8(&[4]), &part, None).unwrap_err().kind(), ErrorKind::Invalid);
            let begun = store.begin(&f8(&[4])).unwrap();
            assert_eq!(begun.write(&[0], &part).unwrap_err().kind(), ErrorKind::Invalid);
            begun.abort().unwrap();
        }
    });
}

#[test]
fn attributes_nested_too_deep_are_refused() {
    each_kind("deep", |store, _| {
        let nested = |levels| {
            let list = |item| Value::List(AttributeList { items: vec![item] }).into();
            (0..levels).fold(Value::Integer(1).into(), |item, _| list(item))
        };
        let put = |levels| {
            let attributes = BTreeMap::from([("a".into(), nested(levels))]);
            let data = bytes(8, 0);
            let one = Strided::contiguous(&data, &[1], 8).unwrap();
            store.put(&NewTensor { attributes, ..f8(&[1]) }, &one, None)
        };
        put(DEPTH_MAX).unwrap();
        assert_eq!(put(DEPTH_MAX + 1).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(put(60).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(store.list().unwrap().len(), 1);
    });
}

/// A tensor without elements that would have a very large number of chunks.
#[test]
fn tensors_without_elements_take_no_time() {
    each_kind("nothing", |store, _| {
        let shape = [1 << 50, 0];
        let new = NewTensor { chunks: Some(vec![1, 1]), ..f8(&shape) };
        store.put(&new, &Strided::contiguous(&[], &shape, 8).unwrap(), Some("t")).unwrap();
        assert!(get(store, "t").is_empty());
        assert_eq!(store.check(true).unwrap().problems, [""; 0]);
    });
}

#[test]
fn refused_virtual_export_changes_no_file() {
    let (pool, directory) =
        (Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite), Directory::new());
    let store = TensorStore::create(&pool, "tensors").unwrap();
    put(&store, &[4], 1, "t");
    let file = directory.0.join("t.h5");
    let export = || write_virtual(&store.open_tensor("t").unwrap(), &file, &mut |_, _| {});
    let chunk = || std::fs::read(directory.0.join("t.h5.chunks/0.h5")).unwrap();
    export().unwrap();
    let before = chunk();
    // HDF5 has no attributes without a name.
    let attributes = BTreeMap::from([(String::new(), Value::Integer(1).into())]);
    let data = bytes(32, 2);
    let whole = Strided::contiguous(&data, &[4], 8).unwrap();
    store.put(&NewTensor { attributes, ..f8(&[4]) }, &whole, Some("t")).unwrap();
    assert_eq!(export().unwrap_err().kind(), ErrorKind::NotSupported);
    assert_eq!(chunk(), before);
}

#[test]
fn a_snapshot_shows_the_tensors_of_its_time() {
    each_kind("snapshot", |store, kind| {
        if kind == Kind::Posix {
            return;
        }
        use esker::Wait;
        let old = put(store, &[1000], 1, "a");
        let epoch = store.container().create_snapshot("then").wait().unwrap();
        let new = put(store, &[1000], 2, "a");
        let then = store.at(epoch).unwrap();
        assert_eq!((get(&then, "a"), get(store, "a")), (old, new));
        assert_eq!(then.remove("a").unwrap_err().kind(), ErrorKind::NoPermission);
        assert_eq!(then.list().unwrap().len(), 1);
    });
}
