//! Damages one page of an index of a closed pool. Then one process writes and reads, and another one reads. Results
//! must be correct or errors: acknowledged values are never wrong or missing.
use crate::common::{self, Folder, PAGE, PoolKind, Shape, Worker};
use crate::{machine, simple};
use esker::{Access, Kv, Wait};
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const INDEXES: [&str; 2] = ["target-0/index/data.mdb", "target-1/index/data.mdb"];
/// Numbers written before the damage; as many are written after it.
pub(crate) const KEYS: u64 = 400;
const SHAPE: Shape =
    Shape { targets: 2, segments: 16, segment_bytes: 256 << 10, index_bytes: 1 << 20 };

/// Length of a value. Every third number gets another length, and so another value, after the damage.
pub(crate) fn length(number: u64, after: bool) -> usize {
    let len = [30, 200, 700, 3000][number as usize / 3 % 4];
    if after && number.is_multiple_of(3) { len + 10 } else { len }
}

/// A pool with [`KEYS`] values in its indexes and segments.
pub(crate) fn filled(folder: &Folder, pool_kind: PoolKind) -> PathBuf {
    let path = common::make(folder, "pool", pool_kind, SHAPE);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "mutation").expect("opening");
    for number in 0..KEYS {
        simple::put(&kv, number, length(number, false)).expect("writing");
    }
    path
}

/// End of a process, from its exit status. A process without a status was ended by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Fine = 0,
    Reported = 3,
    /// A value acknowledged before the damage was wrong or missing.
    OldWrong = 4,
    /// A value acknowledged after the damage was wrong or missing.
    NewWrong = 5,
    Crashed,
}

/// Reads back the value of a number. If it is wrong or missing, the result is `wrong`.
fn read_at(kv: &Kv, number: u64, len: usize, wrong: End, access: Access<'_>) -> End {
    match kv.get(&number.to_be_bytes(), access).wait() {
        Ok(Some(found)) if found == simple::value(number, len) => End::Fine,
        Ok(found) => {
            let found = found.map(|found| found.len());
            eprintln!("{number}: expected {len} bytes, found {found:?}");
            wrong
        }
        Err(_) => End::Reported,
    }
}

/// Reads back a value from before the damage.
pub(crate) fn read(kv: &Kv, number: u64, access: Access<'_>) -> End {
    read_at(kv, number, length(number, false), End::OldWrong, access)
}

/// Keeps the worst of several ends.
pub(crate) fn note(worst: &mut End, end: End) {
    if end as i32 > *worst as i32 {
        *worst = end;
    }
}

/// Body of a process that uses a damaged pool; its exit status is the worst result. Arguments: pool, `write` or `read`.
pub(crate) fn use_pool() {
    let arguments = common::arguments();
    let writes = arguments[1] == "write";
    let end = attempt(Path::new(&arguments[0]), writes).unwrap_or(End::Reported);
    std::process::exit(end as i32);
}

/// With `writes`, puts new values and then reads everything; otherwise only reads. Returns the worst result.
fn attempt(path: &Path, writes: bool) -> esker_types::Result<End> {
    let pool = common::try_open(path)?;
    let (_container, kv) = simple::kv(&pool, "mutation")?;
    let mut worst = End::Fine;
    let back =
        |number: u64, wrong: End| read_at(&kv, number, length(number, true), wrong, Access::Latest);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for number in 0..2 * KEYS {
        let changed = number >= KEYS || number.is_multiple_of(3);
        match changed && writes {
            true if simple::put(&kv, number, length(number, true)).is_ok() => new.push(number),
            true => note(&mut worst, End::Reported),
            false if changed => new.push(number),
            false => old.push(number),
        }
    }
    old.iter().for_each(|&number| note(&mut worst, back(number, End::OldWrong)));
    new.iter().for_each(|&number| note(&mut worst, back(number, End::NewWrong)));
    Ok(worst)
}

/// Runs a task to its end, with its standard error in `log`.
pub(crate) fn ended(job: &str, arguments: &str, log: &Path) -> End {
    let errors = File::create(log).expect("a log");
    let mut worker = Worker::start_with(job, arguments, |command| {
        command.stderr(errors);
    });
    match worker.wait_soon().code() {
        Some(0) => End::Fine,
        Some(3) => End::Reported,
        Some(4) => End::OldWrong,
        Some(5) => End::NewWrong,
        Some(code) => {
            let said = std::fs::read_to_string(log).expect("a log");
            panic!("a worker failed with {code}: {said}")
        }
        None => End::Crashed,
    }
}

/// Damages a page in use; returns a description of the damage.
fn mutate(path: &Path, random: &mut Random) -> String {
    let sound = std::fs::read(path).expect("reading");
    let used = common::used_pages(&sound);
    let any = |random: &mut Random| used[random.below(used.len() as u64) as usize];
    let page = any(random);
    let mut bytes = sound[page * PAGE..][..PAGE].to_vec();
    let at = random.below(PAGE as u64) as usize;
    let how = match random.below(4) {
        0 => {
            bytes[at] ^= 1 << random.below(8);
            "a bit"
        }
        1 => {
            // The header determines how the rest of a page is read.
            bytes[random.below(64) as usize] ^= 1 << random.below(8);
            "a bit of its header"
        }
        2 => {
            let end = (at + random.within(1..200) as usize).min(PAGE);
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.draw() as u8);
            "some bytes"
        }
        _ => {
            bytes.copy_from_slice(&sound[any(random) * PAGE..][..PAGE]);
            "another page"
        }
    };
    common::write_behind_its_back(path, (page * PAGE) as u64, &bytes);
    format!("page {page}, {how} at {at}")
}

/// Damages one page per round, with `restarted` before a restart of the machine, and lets processes work on the pool.
fn mutations(pool_kind: PoolKind, rounds: u64, restarted: bool) {
    let (folder, seed) = (Folder::new(pool_kind), seed());
    let path = filled(&folder, pool_kind);
    let names = ["control", INDEXES[0], INDEXES[1], "target-0/data", "target-1/data"];
    let sound = names.map(|name| std::fs::read(path.join(name)).expect("reading"));
    let (mut random, log) = (Random::new(seed, 70 + pool_kind as u64), folder.path().join("log"));
    let (mut fine, mut reported) = (0, 0);
    for round in 0..scaled(rounds) {
        println!("{SEED_VARIABLE}={seed} round {round}");
        let index = INDEXES[random.below(2) as usize];
        let what = mutate(&path.join(index), &mut random);
        if restarted {
            machine::restart_machine(&path);
        }
        let mut end = ended("mutation-use", &format!("{} write", path.display()), &log);
        if end == End::Fine {
            end = ended("mutation-use", &format!("{} read", path.display()), &log);
        }
        let said = || std::fs::read_to_string(&log).expect("a log");
        assert!([End::Fine, End::Reported].contains(&end), "{end:?}: {index}, {what}: {}", said());
        fine += u64::from(end == End::Fine);
        reported += u64::from(end == End::Reported);
        for (name, bytes) in names.iter().zip(&sound) {
            let file = File::options().write(true).open(path.join(name)).expect("opening");
            file.write_all_at(bytes, 0).expect("mending");
        }
    }
    eprintln!("{pool_kind:?}: of the damaged pages {fine} had no effect, {reported} were reported");
    assert!(reported > 0, "no damage had an effect");
}

#[test]
fn no_write_is_lost_on_a_damaged_page() {
    mutations(PoolKind::Memory, 60, false);
}

#[test]
fn no_write_is_lost_on_a_page_damaged_before_a_restart() {
    mutations(PoolKind::Durable, 20, true);
}

/// Atomic 6 of the control file: the process that has verified the indexes, or the stamp of a clean close.
fn verifier(pool: &Path) -> u64 {
    let file = File::open(pool.join("control")).expect("opening");
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 6 * 8).expect("reading");
    u64::from_ne_bytes(word)
}

#[test]
fn exiting_process_hands_over_verification_of_indexes() {
    let folder = Folder::new(PoolKind::Memory);
    let path = filled(&folder, PoolKind::Memory);
    let is_process = |word: u64| (1..=4096).contains(&word);
    let left = verifier(&path);
    assert!(left != 0 && !is_process(left), "{left:x}");
    let pool = common::open(&path);
    let mine = verifier(&path);
    assert!(is_process(mine), "{mine:x}");
    let opened = folder.path().join("opened");
    let arguments = format!("{} {}", path.display(), opened.display());
    let mut other = Worker::start("mutation-hold", &arguments);
    other.wait_until("it has the pool open", || opened.exists());
    assert_eq!(verifier(&path), mine, "the verifier continues");
    drop(pool);
    let theirs = verifier(&path);
    assert!(is_process(theirs) && theirs != mine, "{theirs:x}");
    drop(common::open(&path));
    assert_eq!(verifier(&path), theirs, "another process changes nothing");
    other.kill();
    assert_eq!(verifier(&path), theirs, "no state is recorded for a killed process");
    drop(common::open(&path));
    assert!(!is_process(verifier(&path)));
}

/// Arguments: pool, a file to create once the pool is open. Keeps it open until it is killed.
pub(crate) fn hold() {
    let arguments = common::arguments();
    let _pool = common::open(Path::new(&arguments[0]));
    File::create(&arguments[1]).expect("telling");
    loop {
        std::thread::park();
    }
}
