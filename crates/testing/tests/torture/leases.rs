//! Objects that several processes open, and unlink while others have them open. The last user removes them. Open
//! objects exist; objects that are neither open nor named do not.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker::{Access, Container, Kv, Lease, Object, Wait};
use esker_testing::{Random, pause, scaled, seed};
use esker_types::ops::{Anchor, Cond, Fetch, Sink, Source, Update, Value};
use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType, Result};
use std::collections::BTreeSet;
use std::path::Path;

const NAMES: u64 = 6;
const OPEN_MAX: usize = 4;
const WORKERS: u64 = 3;

/// Names that refer to objects, stored in a Key-Value, and the objects.
struct Files {
    container: Container,
    names: Kv,
}

impl Files {
    fn open(path: &Path) -> Self {
        let pool = common::open(path);
        let (container, names) = simple::kv(&pool, "files").expect("opening");
        Self { container, names }
    }

    fn object(&self, number: u64) -> Object {
        let (otype, class) = (ObjectType::MultiHashed, Some(ObjectClass::S1));
        let oid = self.container.generate_oid(1, number, otype, class, 0).expect("an id");
        self.container.object(oid)
    }

    /// The object that a name refers to.
    fn resolve(&self, name: u64, access: Access<'_>) -> Result<Option<u64>> {
        let found = self.names.get(&name.to_be_bytes(), access).wait()?;
        Ok(found.map(|bytes| u64::from_be_bytes(bytes.try_into().expect("a number"))))
    }

    /// Creates an object, and lets a name refer to it. If the name exists, removes the object again.
    fn create(&self, name: u64) -> Result<()> {
        let number = self.container.allocate_oids(1).wait()?;
        let (object, data) = (self.object(number), simple::value(number, 300));
        let value = Value::Single(Source::One(&data));
        let update = [Update { akey: b"a", value, cond: Cond::NONE }];
        object.update(b"d", Cond::NONE, &update, Access::Latest).wait()?;
        let (key, target) = (name.to_be_bytes(), number.to_be_bytes());
        match self.names.put(&key, &target, Kv::INSERT, Access::Latest).wait() {
            Err(error) if error.kind() == ErrorKind::Exists => punch(&object),
            result => result,
        }
    }

    /// Takes a lease on the object of a name, if the name still refers to it afterwards.
    fn hold(&self, name: u64) -> Result<Option<(u64, Lease)>> {
        let Some(number) = self.resolve(name, Access::Latest)? else { return Ok(None) };
        let hold = self.object(number).lease().wait()?;
        if self.resolve(name, Access::Latest)? == Some(number) {
            return Ok(Some((number, hold)));
        }
        self.release(number, hold).map(|()| None)
    }

    /// Ends a lease. The last lease of an unlinked object removes it.
    fn release(&self, number: u64, hold: Lease) -> Result<()> {
        match hold.release().wait()? {
            true => punch(&self.object(number)),
            false => Ok(()),
        }
    }

    /// Expects that an open object still has its value.
    fn expect_there(&self, number: u64) -> Result<()> {
        let mut data = [0; 300];
        let mut fetch = [Fetch::single(b"a", Sink::One(&mut data))];
        self.object(number).fetch(b"d", Cond::NONE, &mut fetch, Access::Latest).wait()?;
        assert!(fetch[0].reply.size == 300, "an open object was removed");
        assert_eq!(data.as_slice(), simple::value(number, 300));
        Ok(())
    }

    /// Removes a name. Its object is removed at once, or by its last user.
    fn unlink(&self, name: u64) -> Result<()> {
        let transaction = self.container.transaction()?;
        let access = Access::Tx(&transaction);
        let Some(number) = self.resolve(name, access)? else { return Ok(()) };
        self.names.remove(&name.to_be_bytes(), Cond::NONE, access).wait()?;
        match transaction.commit().wait() {
            Err(error) if error.kind() == ErrorKind::TxRestart => return Ok(()),
            result => result?,
        }
        let object = self.object(number);
        match object.unlink_on_last_close().wait()? {
            true => Ok(()),
            false => punch(&object),
        }
    }

    /// Objects that no name refers to.
    fn nameless(&self) -> Vec<ObjectId> {
        let mut named = BTreeSet::from([self.names.oid()]);
        for name in 0..NAMES {
            let number = self.resolve(name, Access::Latest).expect("looking");
            named.extend(number.map(|number| self.object(number).oid()));
        }
        let (mut all, mut anchor) = (Vec::new(), Anchor::Start);
        while !anchor.is_end() {
            let found = self.container.list_objects(&mut anchor, 100, Access::Latest).wait();
            all.extend(found.expect("listing"));
        }
        all.retain(|oid| !named.contains(oid));
        all
    }

    /// Performs a random operation; `open` has the leases of this thread.
    fn work(&self, random: &mut Random, open: &mut Vec<(u64, Lease)>) -> Result<()> {
        let name = random.below(NAMES);
        match random.below(8) {
            0 | 1 => self.create(name),
            2 => self.unlink(name),
            3..=5 if open.len() < OPEN_MAX => {
                open.extend(self.hold(name)?);
                Ok(())
            }
            6 if !open.is_empty() => {
                let (number, hold) = open.swap_remove(random.below(open.len() as u64) as usize);
                self.expect_there(number)?;
                self.release(number, hold)
            }
            _ => open.iter().try_for_each(|(number, _)| self.expect_there(*number)),
        }
    }
}

fn punch(object: &Object) -> Result<()> {
    object.punch(Cond::NONE, Access::Latest).wait()
}

/// Arguments: pool, seed, number of this process, steps. Runs two threads.
pub(crate) fn run() {
    let arguments = common::arguments();
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let files = Files::open(Path::new(&arguments[0]));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let mut random = Random::new(number(1), number(2) * 2 + thread);
            let files = &files;
            scope.spawn(move || {
                let mut open = Vec::new();
                for step in 0..number(3) {
                    let done = files.work(&mut random, &mut open);
                    done.unwrap_or_else(|error| panic!("step {step}: {error}"));
                }
                for (number, hold) in open {
                    files.expect_there(number).expect("reading");
                    files.release(number, hold).expect("closing");
                }
            });
        }
    });
}

fn start(path: &Path, seed: u64, number: u64, steps: u64) -> Worker {
    Worker::start("leases", &format!("{} {seed} {number} {steps}", path.display()))
}

#[test]
fn open_objects_stay_and_unnamed_ones_are_removed() {
    let folder = Folder::new(PoolKind::Memory);
    let seed = seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let _watchdog = Watchdog::new(format!("leases, seed {seed}"));
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let files = Files::open(&path);
    let steps = scaled(8000);
    let mut workers: Vec<_> = (0..WORKERS).map(|n| start(&path, seed, n, steps)).collect();
    workers.iter_mut().for_each(Worker::finish);
    assert_eq!(files.nameless(), [], "unnamed objects left (seed {seed})");
}

#[test]
fn killed_processes_have_no_leases() {
    let folder = Folder::new(PoolKind::Memory);
    let seed = seed();
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    let _watchdog = Watchdog::new(format!("leases of killed processes, seed {seed}"));
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let files = Files::open(&path);
    let mut random = Random::new(seed, 99);
    let mut workers: Vec<_> = (0..WORKERS).map(|n| start(&path, seed, n, u64::MAX)).collect();
    for round in 0..scaled(20) {
        pause(random.below(60_000));
        let index = random.below(WORKERS) as usize;
        workers[index].kill();
        workers[index] = start(&path, seed, WORKERS + round, u64::MAX);
    }
    workers.iter_mut().for_each(Worker::kill);
    for oid in files.nameless() {
        let object = files.container.object(oid);
        assert!(
            !object.unlink_on_last_close().wait().expect("asking"),
            "{oid} still has the lease of a killed process (seed {seed})"
        );
        punch(&object).expect("sweeping");
    }
    assert_eq!(files.nameless(), []);
    for name in 0..NAMES {
        if let Some(number) = files.resolve(name, Access::Latest).expect("looking") {
            files.expect_there(number).expect("reading");
        }
    }
}
