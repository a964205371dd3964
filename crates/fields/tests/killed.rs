//! Writers are killed in the middle of steps while readers read. Readers see every flushed field, no unflushed field
//! and no error, and a watch yields each field once. `ESKER_SEED` replays a run, `ESKER_TORTURE_ROUNDS` makes it
//! longer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker::Pool;
use esker_conformance::place::nodes;
use esker_fields::request::Selection;
use esker_fields::{FieldStore, Key, NewFields, Schema, Watch};
use esker_testing::{pause, wait_for};
use esker_types::info::OpenMode;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CHILD: &str = "ESKER_FIELDS_CHILD";
const WRITERS: u64 = 3;
/// Fields of a step. They are in two databases and flushed together.
const FIELDS: u64 = 12;
/// Most steps of a writer in a round, and longest field: all fields fit in the pool.
const STEPS: u64 = 100;
const BYTES: usize = 8000;

/// Numbers without pattern (SplitMix64).
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// The key of a field of a step of a writer. Odd and even fields are in different databases.
fn key(writer: u64, step: u64, field: u64) -> Key {
    let (stream, param) = (["oper", "enda"][(field % 2) as usize], 100 + field);
    // Steps decide the stripe of a field.
    let step = FIELDS * step + field;
    let text = format!(
        "class=od,expver=000{writer},stream={stream},date=20240610,time=0000,type=fc,levtype=sfc,\
         step={step},param={param}"
    );
    Key::parse(&text).unwrap()
}

/// Data of a field. The key determines length and content, so that the reader notices incomplete fields.
fn data(writer: u64, step: u64, field: u64) -> Vec<u8> {
    let number = mixed(writer << 40 | step << 8 | field);
    vec![number as u8; 1 + (number >> 8) as usize % BYTES]
}

fn open(url: &str, label: &str) -> FieldStore {
    let pool = Pool::connect(url, OpenMode::ReadWrite).unwrap();
    FieldStore::open(&pool, label, OpenMode::ReadWrite).unwrap()
}

/// Archives step after step until it is killed, and notes each that was flushed.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let (writer, first) = (arguments[1].parse().unwrap(), arguments[2].parse::<u64>().unwrap());
    let mut flushed = std::fs::File::options().append(true).open(arguments[3]).unwrap();
    let store = open(arguments[0], arguments[4]);
    let mut writing = store.writer();
    for step in first..first + STEPS {
        for field in 0..FIELDS {
            writing.archive(&key(writer, step, field), &data(writer, step, field)).unwrap();
        }
        writing.flush().unwrap();
        flushed.write_all(b".").unwrap();
    }
    loop {
        std::thread::park();
    }
}

/// A directory that is removed after the test. It has the pool, unless the environment names a pool over nodes.
struct Place {
    dir: PathBuf,
    label: String,
    /// The pool is one of plain files.
    files: bool,
}

impl Place {
    /// A pool with space for this number of rounds, and a store with this number of stripes.
    fn new(rounds: u64, files: bool, stripes: u32) -> Self {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
        let dir = format!("esker-fields-killed-{files}-{stripes}-{}", std::process::id());
        let dir = base.join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut spec = esker_store::PoolSpec::new("tank", (512 << 20) + rounds * (16 << 20));
        spec.targets = Some(3);
        let place = Self { dir, label: format!("fields-{stripes}"), files };
        if files {
            esker::PosixPool::create(&place.pool(), false).unwrap();
        } else if nodes().is_none() {
            esker_store::Pool::create(&place.dir, &spec, &mut |_, _| {}).unwrap();
        }
        let pool = Pool::connect(&place.url(), OpenMode::ReadWrite).unwrap();
        let (schema, new) = (Schema::default_mars().unwrap(), NewFields { stripes: Some(stripes) });
        FieldStore::create_with(&pool, &place.label, &schema, new).unwrap();
        place
    }

    /// URL of the pool.
    fn url(&self) -> String {
        match self.files {
            true => format!("posix:{}", self.pool().display()),
            false => {
                nodes().map_or_else(|| format!("esker:{}", self.pool().display()), str::to_owned)
            }
        }
    }

    fn open(&self) -> FieldStore {
        open(&self.url(), &self.label)
    }

    /// Directory of the pool.
    fn pool(&self) -> PathBuf {
        self.dir.join("tank")
    }

    /// A file that grows by a byte with each step that a writer has flushed.
    fn flushed(&self, writer: u64) -> PathBuf {
        self.dir.join(format!("flushed-{writer}"))
    }

    /// Starts the process of a writer, which begins at the step `first`.
    fn child(&self, writer: u64, first: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
        let flushed = self.flushed(writer);
        std::fs::write(&flushed, b"").unwrap();
        let arguments =
            format!("{} {writer} {first} {} {}", self.url(), flushed.display(), self.label);
        command.env(CHILD, arguments).spawn().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Stops the readers, also after a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// True if no child has ended by itself.
fn alive(children: &mut [Child]) -> bool {
    children.iter_mut().all(|child| child.try_wait().unwrap().is_none())
}

/// Length of a file in bytes.
fn len(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// Writer, step and field of a key.
fn numbers(key: &Key) -> (u64, u64, u64) {
    let number = |name: &str| key.get(name).unwrap().parse::<u64>().unwrap();
    (number("expver"), number("step") / FIELDS, number("param") - 100)
}

/// Reads all fields; returns how many fields each step of each writer has.
fn look(store: &FieldStore) -> BTreeMap<(u64, u64), u64> {
    let mut steps = BTreeMap::new();
    let everything = Selection::everything(store.schema());
    for field in store.find(&everything).unwrap().fields {
        let (writer, step, number) = numbers(field.key());
        assert_eq!(field.read().unwrap(), data(writer, step, number), "{}", field.key());
        *steps.entry((writer, step)).or_default() += 1;
    }
    steps
}

/// Collects the fields that a watch yields until no more arrive. Fails if one arrives twice.
fn tell(watch: &mut Watch, told: &mut BTreeMap<(u64, u64), BTreeSet<u64>>) {
    while let Some(field) = watch.next(Duration::ZERO).unwrap() {
        let (writer, step, number) = numbers(field.key());
        assert!(told.entry((writer, step)).or_default().insert(number), "twice: {}", field.key());
    }
}

/// Fails unless all steps are complete, although their fields are in two databases.
fn expect_whole(steps: &BTreeMap<(u64, u64), u64>) {
    assert!(steps.values().all(|fields| *fields == FIELDS), "an incomplete step: {steps:?}");
}

#[test]
fn killed_writers_leave_complete_steps() {
    expect_complete_steps(false, 1);
}

#[test]
fn killed_writers_leave_complete_steps_on_posix() {
    expect_complete_steps(true, 1);
}

/// A flush of a step changes several targets, or nodes.
#[test]
fn killed_writers_leave_complete_steps_in_stripes() {
    expect_complete_steps(false, 5);
}

/// Kills writers while a reader and a watch follow them, round after round. With `files`, the pool is of plain files.
/// An index has this number of `stripes`.
fn expect_complete_steps(files: bool, stripes: u32) {
    let seed = esker_testing::seed();
    let rounds = std::env::var("ESKER_TORTURE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let rounds = rounds.unwrap_or(4u64);
    let place = Place::new(rounds, files, stripes);
    let (mut first, mut expected) = ([0; WRITERS as usize], [0; WRITERS as usize]);
    let (watched, mut told) = (place.open(), BTreeMap::new());
    let mut watch = watched.watch(&Selection::everything(watched.schema()), false).unwrap();
    for round in 0..rounds {
        let stop = AtomicBool::new(false);
        let mut children: Vec<_> =
            (0..WRITERS).map(|writer| place.child(writer, first[writer as usize])).collect();
        std::thread::scope(|scope| {
            let _stop = Stop(&stop);
            scope.spawn(|| {
                let store = place.open();
                while !stop.load(Ordering::Relaxed) {
                    expect_whole(&look(&store));
                }
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    tell(&mut watch, &mut told);
                }
            });
            let enough = |writer| 1 + mixed(seed ^ round << 8 ^ writer) % (STEPS / 3);
            wait_for("all writers flush", || {
                let at_work = |writer| len(&place.flushed(writer)) >= enough(writer);
                (0..WRITERS).all(at_work) || !alive(&mut children)
            });
            for (number, child) in children.iter_mut().enumerate() {
                pause(mixed(seed ^ round << 16 ^ number as u64) % 2000);
                assert!(child.try_wait().unwrap().is_none(), "a writer ended by itself");
                child.kill().unwrap();
                child.wait().unwrap();
            }
        });
        let store = place.open();
        let steps = look(&store);
        tell(&mut watch, &mut told);
        assert!(told.iter().map(|(step, fields)| (*step, fields.len() as u64)).eq(steps.clone()));
        for writer in 0..WRITERS {
            let slot = writer as usize;
            expected[slot] += len(&place.flushed(writer));
            let there = steps.iter().filter(|((w, _), fields)| *w == writer && **fields == FIELDS);
            let there = there.count() as u64;
            let one_more = expected[slot] + 1;
            assert!(
                there == expected[slot] || there == one_more,
                "{there}, {} known",
                expected[slot]
            );
            (first[slot], expected[slot]) = (there, there);
        }
        expect_whole(&steps);
        let everything = Selection::everything(store.schema());
        store.purge(&everything, true, |_| Ok(())).unwrap();
        assert_eq!(store.purge(&everything, true, |_| Ok(())).unwrap(), Default::default());
        assert_eq!(look(&store), steps);
        drop(store);
        if files {
            let report = esker::PosixPool::check(&place.pool()).unwrap();
            assert!(report.problems.is_empty(), "{:?}", report.problems);
        } else if nodes().is_none() {
            let report = esker_store::Pool::check(&place.pool(), false, &mut |_, _| {}).unwrap();
            assert!(report.problems.is_empty(), "{:?}", report.problems);
        }
    }
}
