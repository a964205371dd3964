//! Random operations on a store and on a map: names, commits, removals and collections agree.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker_tensors::{DataType, NewTensor, Put, Slab, Strided, Tensor, TensorStore};
use esker_testing::{Random, SEED_VARIABLE, rounds, seed};
use esker_types::{ErrorKind, Uuid};
use std::collections::BTreeMap;
use std::time::Duration;
use support::{Kind, each_kind};

const NAMES: [&str; 4] = ["a", "b/c", "\u{e4} 1", "d"];

/// Expected content of the store: by UUID, the name and the value that fills the tensor.
#[derive(Default)]
struct Model {
    tensors: BTreeMap<Uuid, (Option<&'static str>, u8)>,
    /// PUTs in progress, and open tensors, each with its value.
    begun: Vec<(Put, u8)>,
    open: Vec<(Tensor, u8)>,
}

impl Model {
    fn named(&self, name: &str) -> Option<Uuid> {
        self.tensors.iter().find(|(_, (own, _))| *own == Some(name)).map(|(uuid, _)| *uuid)
    }

    /// Makes a tensor visible in place of the one with its name.
    fn publish(&mut self, uuid: Uuid, name: Option<&'static str>, value: u8) {
        if let Some(replaced) = name.and_then(|name| self.named(name)) {
            self.tensors.remove(&replaced);
        }
        self.tensors.insert(uuid, (name, value));
    }

    /// Makes one random change to the store and to the model.
    fn step(&mut self, store: &TensorStore, random: &mut Random) {
        let name = Some(NAMES[random.below(4) as usize]).filter(|_| !random.one_in(5));
        let value = random.draw() as u8;
        let data = [value; 6];
        match random.below(9) {
            0 | 1 => {
                let uuid = store.put(&new(), &whole(&data), name).unwrap();
                self.publish(uuid, name, value);
            }
            2 => self.begun.push((store.begin(&new()).unwrap(), value)),
            3 | 4 if !self.begun.is_empty() => self.end(name, random),
            5 => self.rename(store, name.unwrap_or("d"), random),
            6 => self.remove(store, name, random),
            7 => self.open_or_close(store, random),
            8 => drop(store.collect(Duration::from_secs(3600), true).unwrap()),
            _ => {}
        }
    }

    /// Commits or aborts a PUT.
    fn end(&mut self, name: Option<&'static str>, random: &mut Random) {
        let (put, value) = self.begun.swap_remove(random.below(self.begun.len() as u64) as usize);
        if random.one_in(4) {
            return put.abort().unwrap();
        }
        let data = [value; 6];
        for half in 0..2 {
            let part = Strided::contiguous(&data[..3], &[1, 3], 1).unwrap();
            put.write(&[half, 0], &part).unwrap();
        }
        let uuid = put.commit(name).unwrap();
        self.publish(uuid, name, value);
    }

    /// Renames a random tensor to `to`, which must fail if the tensor does not exist.
    fn rename(&mut self, store: &TensorStore, to: &'static str, random: &mut Random) {
        let from = NAMES[random.below(4) as usize];
        match self.named(from) {
            None => {
                let error = store.rename(from, to).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
            Some(uuid) => {
                store.rename(from, to).unwrap();
                if let Some((_, value)) = self.tensors.remove(&uuid) {
                    self.publish(uuid, Some(to), value);
                }
            }
        }
    }

    /// Removes the tensor with this name, or a random one by its UUID. That must fail if the tensor does not exist.
    fn remove(&mut self, store: &TensorStore, name: Option<&str>, random: &mut Random) {
        let uuid = match name {
            Some(name) => self.named(name),
            None => self.tensors.keys().nth(random.below(6) as usize).copied(),
        };
        match uuid {
            Some(uuid) => {
                store.remove(&name.map_or_else(|| uuid.to_string(), str::to_owned)).unwrap();
                self.tensors.remove(&uuid);
            }
            None => assert!(store.remove(name.unwrap_or("nothing")).is_err()),
        }
    }

    /// Opens a tensor, or closes one if several are open.
    fn open_or_close(&mut self, store: &TensorStore, random: &mut Random) {
        if self.open.len() > 3 {
            self.open.swap_remove(random.below(4) as usize);
            return;
        }
        if let Some((uuid, (_, value))) = self.tensors.iter().nth(random.below(4) as usize) {
            self.open.push((store.open_tensor(&uuid.to_string()).unwrap(), *value));
        }
    }

    /// Compares names and values in the store with the model. Open tensors must still have their value.
    fn compare(&self, store: &TensorStore) {
        let listed = store.list().unwrap();
        let listed: BTreeMap<_, _> = listed.into_iter().map(|one| (one.uuid, one.name)).collect();
        let expected =
            self.tensors.iter().map(|(uuid, (name, _))| (*uuid, name.map(str::to_owned)));
        assert_eq!(listed, expected.collect());
        for (uuid, (name, value)) in &self.tensors {
            let tensor = store.open_tensor(name.unwrap_or(&uuid.to_string())).unwrap();
            assert_eq!((tensor.uuid(), read(&tensor)), (*uuid, vec![*value; 6]));
        }
        for (tensor, value) in &self.open {
            assert_eq!(read(tensor), [*value; 6]);
        }
    }
}

fn new() -> NewTensor {
    let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[2, 3]);
    NewTensor { chunks: Some(vec![2, 2]), ..new }
}

fn whole(data: &[u8]) -> Strided<'_> {
    Strided::contiguous(data, &[2, 3], 1).unwrap()
}

fn read(tensor: &Tensor) -> Vec<u8> {
    tensor.read_to_vec(&Slab::whole(&[2, 3])).unwrap()
}

#[test]
fn random_operations_agree_with_a_map() {
    println!("{SEED_VARIABLE}={}", seed());
    each_kind("model", |store, kind| {
        let (mut random, mut model) = (Random::new(seed(), 3), Model::default());
        for step in 0..rounds(400) {
            model.step(store, &mut random);
            if step % 10 == 0 {
                model.compare(store);
            }
        }
        model.compare(store);
        model.open.clear();
        let pending = model.begun.len() as u64;
        let collected = store.collect(Duration::ZERO, true).unwrap();
        assert_eq!((collected.puts, collected.objects, collected.kept), (pending, 0, 0));
        // On pools that show leases, everything was freed at once.
        assert!(collected.removed == 0 || matches!(kind, Kind::Posix | Kind::Daos));
        assert_eq!(store.check(true).unwrap().hidden, 0);
        assert_eq!(store.check(true).unwrap().problems, [] as [&str; 0]);
    });
}
