//! Bytes damaged on the medium: damage is reported, and damaged bytes are never returned as data.
use crate::common::{self, Folder, PAGE, PoolKind, Shape, Worker};
use crate::{machine, simple};
use esker::{Access, Wait};
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use esker_types::ErrorKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const LENGTHS: [usize; 4] = [50, 900, 5000, 50_000];
const KEYS: u64 = 60;
const SHAPE: Shape =
    Shape { targets: 2, segments: 16, segment_bytes: 256 << 10, index_bytes: 1 << 20 };

fn length(number: u64) -> usize {
    LENGTHS[number as usize % LENGTHS.len()]
}

/// A pool with values of several lengths.
fn filled(folder: &Folder, pool_kind: PoolKind) -> PathBuf {
    let path = common::make(folder, "pool", pool_kind, SHAPE);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "damage").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, length(number)).expect("writing"));
    path
}

/// A file of a pool, with its undamaged content.
struct Sound {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Sound {
    fn read(path: PathBuf) -> Self {
        let bytes = std::fs::read(&path).expect("reading");
        Self { path, bytes }
    }

    /// Writes the bytes of `changes` at their offsets.
    fn damage(&self, changes: &[(usize, u8)]) {
        let file = File::options().write(true).open(&self.path).expect("opening");
        for &(at, byte) in changes {
            file.write_all_at(&[byte], at as u64).expect("damaging");
        }
        let &(at, byte) = changes.last().expect("a change");
        common::write_behind_its_back(&self.path, at as u64, &[byte]);
    }

    /// Restores the undamaged content.
    fn mend(&self) {
        let file = File::options().write(true).open(&self.path).expect("opening");
        file.write_all_at(&self.bytes, 0).expect("mending");
    }

    /// Positions to damage, in pages that are in use, and the bytes to write there.
    fn changes(&self, random: &mut Random) -> Vec<(usize, u8)> {
        let pages = common::used_pages(&self.bytes);
        let position = |random: &mut Random| {
            let page = pages[random.below(pages.len() as u64) as usize];
            page * PAGE + random.below(PAGE as u64) as usize
        };
        let one = |random: &mut Random| {
            let at = position(random);
            (at, self.bytes[at] ^ 1 << random.below(8))
        };
        match random.below(3) {
            0 => vec![one(random)],
            1 => (0..random.within(2..20)).map(|_| one(random)).collect(),
            _ => {
                let (from, len) = (position(random), random.within(1..3000) as usize);
                let end = (from + len).min(self.bytes.len());
                (from..end).map(|at| (at, random.draw() as u8)).collect()
            }
        }
    }
}

fn target_of(random: &mut Random) -> String {
    format!("target-{}", random.below(2))
}

/// Damages bytes of data in each round. A read of a damaged value must fail with an error, and a scrub must list
/// exactly these values.
fn damaged_data(pool_kind: PoolKind) {
    let (folder, seed) = (Folder::new(pool_kind), seed());
    let path = filled(&folder, pool_kind);
    let mut random = Random::new(seed, 20);
    let mut noticed = 0;
    for round in 0..scaled(40) {
        println!("{SEED_VARIABLE}={seed} round {round}");
        let sound = Sound::read(path.join(target_of(&mut random)).join("data"));
        sound.damage(&sound.changes(&mut random));
        let pool = common::open(&path);
        let (_container, kv) = simple::kv(&pool, "damage").expect("opening");
        let mut lost = 0;
        for number in 0..KEYS {
            match simple::is_there(&kv, number, length(number)) {
                Ok(there) => assert!(there, "value {number} is missing"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Checksum, "{error}");
                    assert!(error.message().contains("object"), "{error}");
                    lost += 1;
                }
            }
        }
        let store = esker_store::Pool::open(&path).expect("opening");
        let report = store.opened().expect("state").scrub(&mut |_, _| {}).expect("scrubbing");
        assert_eq!(report.damaged.len(), lost, "{:?}", report.damaged);
        let oid = kv.oid().to_string();
        assert!(report.damaged.iter().all(|line| line.contains(&oid)), "{:?}", report.damaged);
        noticed += u64::from(lost > 0);
        drop((store, _container, kv, pool));
        sound.mend();
    }
    assert!(noticed > 0, "no damage had an effect");
}

#[test]
fn damaged_data_in_memory() {
    damaged_data(PoolKind::Memory);
}

#[test]
fn damaged_data_on_disk() {
    damaged_data(PoolKind::Disk);
}

/// Arguments: pool, action. Checks, scrubs or reads the pool; answers must be correct or errors.
pub(crate) fn check_pool() {
    let arguments = common::arguments();
    let path = Path::new(&arguments[0]);
    if arguments[1] == "check" {
        // Status 3 means that damage was reported.
        let report = esker_store::Pool::check(path, false, &mut |_, _| {});
        let fine = report.is_ok_and(|report| report.problems.is_empty() && report.lost_bytes == 0);
        std::process::exit(if fine { 0 } else { 3 });
    }
    let Ok(pool) = common::try_open(path) else { std::process::exit(3) };
    let Ok(container) =
        pool.open_container("damage", esker_types::info::OpenMode::ReadWrite).wait()
    else {
        std::process::exit(3)
    };
    let oid = container.generate_oid(0, 1, esker_types::ObjectType::KvHashed, None, 0);
    let kv = container.kv(oid.expect("an id")).expect("a Key-Value");
    let mut fine = true;
    for number in 0..KEYS {
        // A damaged page may hide a key from one search and show it to another one, which then finds an empty value.
        let len = kv.size(&number.to_be_bytes(), Access::Latest).wait();
        let hidden = !matches!(len, Ok(Some(1..)));
        fine &= !hidden && simple::is_there(&kv, number, length(number)).is_ok_and(|there| there);
    }
    let mut anchor = esker_types::ops::Anchor::Start;
    while !anchor.is_end() {
        let limit = esker_types::ops::ListLimit::entries(10);
        if kv.list(&mut anchor, limit, Access::Latest).wait().is_err() {
            fine = false;
            break;
        }
    }
    std::process::exit(if fine { 0 } else { 3 });
}

/// End of a process on a damaged pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Fine,
    Reported,
    Crashed,
}

/// Lets a process check or read (`what`) a damaged pool, and returns how it ended.
fn use_pool(path: &Path, what: &str) -> End {
    let mut worker =
        Worker::start_with("damage-check", &format!("{} {what}", path.display()), |command| {
            command.stderr(std::process::Stdio::null());
        });
    let status = worker.wait_soon();
    match status.code() {
        Some(0) => End::Fine,
        Some(3) => End::Reported,
        Some(code) => panic!("a worker reported to {what} a damaged pool failed with {code}"),
        None => End::Crashed,
    }
}

#[test]
fn a_damaged_index_is_reported() {
    damaged_index(PoolKind::Disk, false);
}

/// The first process to open a pool after a restart of the machine verifies every page.
#[test]
fn index_damaged_before_a_restart_crashes_no_process() {
    damaged_index(PoolKind::Durable, true);
}

/// Damages bytes of an index in each round, also before a restart of the machine (`restarted`). No reader and no check
/// may crash.
fn damaged_index(pool_kind: PoolKind, restarted: bool) {
    let (folder, seed) = (Folder::new(pool_kind), seed());
    let path = filled(&folder, pool_kind);
    let mut random = Random::new(seed, 21);
    let (mut reported, rounds) = (0, scaled(60));
    for round in 0..rounds {
        println!("{SEED_VARIABLE}={seed} round {round}");
        let sound = Sound::read(path.join(target_of(&mut random)).join("index/data.mdb"));
        sound.damage(&sound.changes(&mut random));
        if restarted {
            machine::restart_machine(&path);
        }
        let read = use_pool(&path, "read");
        assert!(read != End::Crashed, "a reader crashed");
        let check = use_pool(&path, "check");
        assert!(check != End::Crashed, "a check crashed");
        reported += u64::from(check == End::Reported || read == End::Reported);
        sound.mend();
    }
    eprintln!("{rounds} damaged indexes: {reported} reported");
    assert!(reported > 0, "no damage had an effect");
}
