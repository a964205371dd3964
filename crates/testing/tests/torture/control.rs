//! Damages words of the control file, of an open pool and of a closed one. Each operation after that succeeds or fails
//! with an error: none panics, hangs or uses much memory, and values that are read are correct.
use crate::common::{self, Folder, PoolKind, Shape};
use crate::mutation::{self, End, KEYS};
use crate::simple;
use esker::backend::NewContainer;
use esker::types::ops::{Anchor, Cond, ListLimit, Sink, Source};
use esker::types::{Extent, ObjectType, Result};
use esker::{Access, ArrayAttributes, Container, Kv, Wait};
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SHAPE: Shape =
    Shape { targets: 2, segments: 16, segment_bytes: 256 << 10, index_bytes: 1 << 20 };
/// Files of the pool, which are restored after each round.
const FILES: [&str; 5] = [
    "control",
    "target-0/index/data.mdb",
    "target-1/index/data.mdb",
    "target-0/data",
    "target-1/data",
];
/// Maximum address space in bytes of a process that uses the damaged pool.
const MEMORY_MAX: u64 = 4 << 30;

/// Sections of the control file, each as first word and number of words (`docs/format.md`).
fn sections() -> Vec<(u64, u64)> {
    let (targets, segments) = (u64::from(SHAPE.targets), SHAPE.segments);
    let target_len = (8 + 4096 + 4 * segments).next_multiple_of(512);
    // The header, and the turn words of the targets.
    let mut parts = vec![(0, 9), (64, targets), (64, targets)];
    for first in (0..targets).map(|number| 512 + number * target_len) {
        // The head and the segment table of a target are listed twice, so that they are drawn more often.
        parts.extend([(first, 8), (first, 8), (first + 8, 4096)]);
        parts.extend([(first + 8 + 4096, 4 * segments); 2]);
    }
    let processes = 512 + targets * target_len;
    let leases = processes + 4096 * 2;
    let read_leases = leases + 8192 * 8;
    parts.extend([(processes, 4096 * 2), (leases, 8192 * 8), (read_leases, 4096 * targets)]);
    parts
}

/// Damages up to eight words of a control file; returns a description of the damage.
fn damage(control: &Path, random: &mut Random) -> String {
    let file = File::options().read(true).write(true).open(control).expect("opening");
    let load = |at: u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at * 8).expect("reading");
        u64::from_le_bytes(word)
    };
    let (parts, mut how) = (sections(), String::new());
    let any = |random: &mut Random| {
        let (first, len) = parts[random.below(parts.len() as u64) as usize];
        first + random.below(len)
    };
    for _ in 0..random.within(1..9) {
        let at = any(random);
        let word = match random.below(6) {
            0 => load(at) ^ 1 << random.below(64),
            1 => 0,
            2 => u64::MAX,
            3 => random.below(20),
            4 => load(any(random)),
            _ => random.draw(),
        };
        file.write_all_at(&word.to_le_bytes(), at * 8).expect("writing");
        how.push_str(&format!(" {at}={word:x}"));
    }
    how
}

/// Body of a process that uses a damaged pool. Its exit status is the worst result. Arguments: pool, `open` to damage
/// the pool while it is open or `closed`, the seed of the damage, epoch of a snapshot.
pub(crate) fn use_damaged() {
    let limit = libc::rlimit { rlim_cur: MEMORY_MAX, rlim_max: MEMORY_MAX };
    // SAFETY: `limit` outlives the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let arguments = common::arguments();
    let path = Path::new(&arguments[0]);
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let mut worst = End::Fine;
    let used = use_pool(path, &mut worst, number(3), || {
        if arguments[1] == "open" {
            eprintln!("{}", damage(&path.join("control"), &mut Random::new(number(2), 81)));
        }
    });
    note(&mut worst, used);
    note(&mut worst, check(path));
    std::process::exit(worst as i32);
}

/// Prints an error of an operation and counts it as reported: errors are allowed, wrong values are not.
fn note(worst: &mut End, result: Result<()>) {
    if let Err(error) = result {
        eprintln!("{error}");
        mutation::note(worst, End::Reported);
    }
}

fn check(path: &Path) -> Result<()> {
    esker_store::Pool::check(path, false, &mut |_, _| {}).map(drop)
}

fn compact(path: &Path) -> Result<()> {
    let pool = esker_store::Pool::open(path)?;
    pool.opened()?.compact(&mut |_, _| {}).map(drop)
}

/// Runs every operation once, after `damage` in an open pool. If one fails, the others are still run.
fn use_pool(path: &Path, worst: &mut End, epoch: u64, damage: impl FnOnce()) -> Result<()> {
    let pool = common::try_open(path)?;
    let (container, kv) = simple::kv(&pool, "mutation")?;
    read_all(&kv, worst);
    damage();
    read_all(&kv, worst);
    for number in 0..KEYS / 2 {
        note(worst, put(&kv, number, Access::Latest));
    }
    read_snapshot(&kv, worst, epoch);
    note(worst, list(&kv));
    note(worst, write_array(&container));
    note(worst, commit(&container, &kv));
    note(worst, snapshot(&container, &kv));
    note(worst, pool.info().wait().map(drop));
    note(worst, create(&pool));
    note(worst, compact(path));
    for number in 0..KEYS / 4 {
        note(worst, simple::remove(&kv, number));
    }
    note(worst, write_array(&container));
    read_snapshot(&kv, worst, epoch);
    Ok(())
}

/// Puts the value that the number already has.
fn put(kv: &Kv, number: u64, access: Access<'_>) -> Result<()> {
    let value = simple::value(number, mutation::length(number, false));
    kv.put(&number.to_be_bytes(), &value, Cond::NONE, access).wait()
}

/// Reads the values of all numbers, and notes the worst result.
fn read_all(kv: &Kv, worst: &mut End) {
    (0..KEYS).for_each(|number| {
        mutation::note(worst, mutation::read(kv, number, Access::Latest));
    });
}

/// Reads all values at a snapshot, and notes the worst result.
fn read_snapshot(kv: &Kv, worst: &mut End, epoch: u64) {
    let access = || Access::Snapshot(esker_types::Epoch(epoch));
    (0..KEYS).for_each(|number| mutation::note(worst, mutation::read(kv, number, access())));
}

/// A damaged pool may list keys without end, so one batch is enough.
fn list(kv: &Kv) -> Result<()> {
    let limit = ListLimit::entries(10_000);
    kv.list(&mut Anchor::Start, limit, Access::Latest).wait().map(drop)
}

fn write_array(container: &Container) -> Result<()> {
    let oid = container.generate_oid(1, 2, ObjectType::ArrayByte, None, 0)?;
    let shape = ArrayAttributes { cell_size: 1, chunk_size: 64 << 10 };
    let array = container.open_array_with_attributes(oid, shape)?;
    let (range, mut found) = ([Extent::new(0, 200_000)], vec![0; 200_000]);
    array.write(&range, Source::One(&[9; 200_000]), Access::Latest).wait()?;
    array.read(&range, Sink::One(&mut found), Access::Latest).wait()?;
    assert!(found.iter().all(|byte| *byte == 9), "what was written is read back");
    Ok(())
}

fn commit(container: &Container, kv: &Kv) -> Result<()> {
    let transaction = container.transaction()?;
    for number in 0..20 {
        kv.get(&u64::to_be_bytes(number), Access::Tx(&transaction)).wait()?;
        put(kv, number, Access::Tx(&transaction))?;
    }
    transaction.commit().wait().map(drop)
}

fn snapshot(container: &Container, kv: &Kv) -> Result<()> {
    let epoch = container.create_snapshot("another").wait()?;
    put(kv, 1, Access::Latest)?;
    container.snapshots().wait()?;
    container.destroy_snapshot(epoch).wait()
}

fn create(pool: &esker::Pool) -> Result<()> {
    pool.create_container(&NewContainer::named("more")).wait()?;
    pool.destroy_container("more", true).wait()
}

/// Damages the control file of a pool in each round, while it is `open` or closed, and lets a process use the pool. No
/// value may be wrong, and no process may crash.
fn rounds(open: bool, rounds: u64) {
    let (folder, seed) = (Folder::new(PoolKind::Unbuffered), seed());
    let path = mutation::filled(&folder, PoolKind::Unbuffered);
    let epoch = {
        let pool = common::open(&path);
        let (container, _) = simple::kv(&pool, "mutation").expect("opening");
        container.create_snapshot("kept").wait().expect("a snapshot")
    };
    let sound = FILES.map(|name| std::fs::read(path.join(name)).expect("reading"));
    let words = sections().last().map_or(0, |(first, len)| first + len);
    assert_eq!(sound[0].len() as u64, 8 * words, "the sections are those of the control file");
    let log = folder.path().join("log");
    let (mut fine, mut reported) = (0, 0);
    for round in 0..scaled(rounds) {
        let draw = seed.wrapping_mul(1000).wrapping_add(round);
        println!("{SEED_VARIABLE}={seed} round {round}");
        let mut how = String::new();
        if !open {
            how = damage(&path.join("control"), &mut Random::new(draw, 80));
        }
        let mode = if open { "open" } else { "closed" };
        let arguments = format!("{} {mode} {draw} {}", path.display(), epoch.0);
        let end = mutation::ended("control-use", &arguments, &log);
        let said = || std::fs::read_to_string(&log).expect("a log");
        assert!([End::Fine, End::Reported].contains(&end), "{end:?}: {how}: {}", said());
        fine += u64::from(end == End::Fine);
        reported += u64::from(end == End::Reported);
        for (name, bytes) in FILES.iter().zip(&sound) {
            let file = File::options().write(true).open(path.join(name)).expect("opening");
            file.write_all_at(bytes, 0).expect("mending");
        }
    }
    eprintln!("of the damaged control files {fine} had no effect, {reported} were reported");
    assert!(reported > 0, "no damage had an effect");
}

#[test]
fn damage_of_closed_pool_gives_correct_values_or_errors() {
    rounds(false, 60);
}

#[test]
fn damage_of_open_pool_gives_correct_values_or_errors() {
    rounds(true, 60);
}
