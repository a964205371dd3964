//! Power failure at any time: every image that a disk can contain at a sync of a recorded run must be openable, with
//! everything acknowledged by then.
use super::ops::{ACCOUNTS, BALANCE, Model};
use super::world::{self, World};
use super::{expect_acknowledged, worker};
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::machine;
use esker::backend::NewContainer;
use esker::{Access, Kv, Wait};
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use esker_types::info::OpenMode;
use esker_types::ops::Cond;
use esker_types::{ObjectClass, ObjectId, ObjectType};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SLOTS: u64 = 2;
const SHAPE: Shape =
    Shape { targets: 2, segments: 12, segment_bytes: 256 << 10, index_bytes: 1 << 20 };
/// Number of acknowledged operations in a recorded run.
const RECORDED: u64 = 150;
/// The unit that a disk writes atomically.
const SECTOR: usize = 512;

/// One entry of the recorder's log.
enum Event {
    Write { file: PathBuf, offset: u64, bytes: Vec<u8>, synced: bool },
    Sync { file: PathBuf },
    Acknowledged { slot: u64, count: u64 },
}

impl Event {
    /// True if the event waits for the disk.
    fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::Write { synced: true, .. })
    }

    /// Name of the file that the event writes or syncs.
    fn file_name(&self) -> Option<&str> {
        match self {
            Self::Write { file, .. } | Self::Sync { file } => file.file_name()?.to_str(),
            Self::Acknowledged { .. } => None,
        }
    }
}

/// Compiles the library that records the writes and syncs of a process.
fn build_recorder(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/crash/recorder.c");
    let library = folder.path().join("recorder.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compiler.status().expect("running cc").success(), "cannot build the recorder");
    library
}

/// The events in the log of a recorder.
fn parse(log: &[u8], pool: &Path) -> Vec<Event> {
    let (mut rest, mut events) = (log, Vec::new());
    while let Some((event, behind)) = parse_one(rest, pool) {
        events.extend(event);
        rest = behind;
    }
    events
}

/// The first event of a log and the rest of the log; `None` at its end, where an entry may be truncated.
fn parse_one<'l>(log: &'l [u8], pool: &Path) -> Option<(Option<Event>, &'l [u8])> {
    let end = log.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = (std::str::from_utf8(&log[..end]).ok()?, &log[end + 1..]);
    let fields: Vec<_> = line.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let file = || Some(Path::new(fields.get(1)?).strip_prefix(pool).ok()?.to_owned());
    match fields[0] {
        "W" => {
            let (bytes, rest) = rest.split_at_checked(number(3)? as usize)?;
            let (offset, synced) = (number(2)?, number(4)? == 1);
            Some((
                Some(Event::Write { file: file()?, offset, bytes: bytes.to_vec(), synced }),
                rest,
            ))
        }
        "A" => {
            let count = number(2)?;
            let slot = fields[1].rsplit('-').next()?.parse().ok()?;
            Some((Some(Event::Acknowledged { slot, count }), rest.get(count as usize..)?))
        }
        "S" => Some((file().map(|file| Event::Sync { file }), rest)),
        other => panic!("the recorder logged `{other}`, which images cannot reproduce"),
    }
}

/// Replaces the directory `to` by a copy of `from`.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).expect("making a directory");
    for entry in std::fs::read_dir(from).expect("listing").map(|entry| entry.expect("an entry")) {
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            std::fs::copy(&path, &copied).expect("copying");
        }
    }
}

/// A recorded run of workers on a pool.
struct Run {
    folder: Folder,
    base: PathBuf,
    events: Vec<Event>,
    seed: u64,
}

impl Run {
    /// Records workers on a new pool.
    fn record(pool_kind: PoolKind, seed: u64, run: u64) -> Self {
        let folder = Folder::new(pool_kind);
        let pool = common::make(&folder, "pool", pool_kind, SHAPE);
        world::prepare(&common::open(&pool), SLOTS).expect("preparing");
        let root = folder.path().canonicalize().expect("own path");
        let pool = root.join("pool");
        let arguments = format!("{} {seed} {run} {} 0 1", pool.display(), root.display());
        Self::record_job(folder, seed, ("crash", &arguments), (SLOTS, RECORDED))
    }

    /// Runs a job on the pool in `folder` until its `slots` have acknowledged `count` operations, and records it.
    /// Before that, copies the pool, to which images then apply the events.
    fn record_job(
        folder: Folder,
        seed: u64,
        (job, arguments): (&str, &str),
        (slots, count): (u64, u64),
    ) -> Self {
        let root = folder.path().canonicalize().expect("own path");
        let (pool, base, log) = (root.join("pool"), root.join("base"), root.join("log"));
        copy(&pool, &base);
        let library = build_recorder(&folder);
        for slot in 0..slots {
            std::fs::write(worker::ack_path(&root, slot), b"").expect("making acks");
        }
        let mut recorded = Worker::start_with(job, arguments, |command| {
            command.env("LD_PRELOAD", &library).env("RECORD_ROOT", &pool).env("RECORD_LOG", &log);
            command.env("RECORD_ACKS", root.join("acks-"));
        });
        let acks =
            |slot| std::fs::metadata(worker::ack_path(&root, slot)).map_or(0, |acks| acks.len());
        recorded.wait_until("enough is recorded", || (0..slots).map(acks).sum::<u64>() >= count);
        recorded.kill();
        let events = parse(&std::fs::read(&log).expect("reading the log"), &pool);
        Self { folder, base, events, seed }
    }

    /// Positions of power failures: before and after every sync.
    fn cuts(&self) -> Vec<usize> {
        let syncs = self.events.iter().enumerate().filter(|(_, event)| event.is_sync());
        syncs.flat_map(|(at, _)| [at, at + 1]).collect()
    }

    /// For each event before `cut`, whether it is on the disk: a later sync of the same file covers it, or it was
    /// synced itself.
    fn durable(&self, cut: usize) -> Vec<bool> {
        let mut last_sync: HashMap<&Path, usize> = HashMap::new();
        for (at, event) in self.events[..cut].iter().enumerate() {
            if let Event::Sync { file } = event {
                last_sync.insert(file, at);
            }
        }
        let is_durable = |(at, event): (usize, &Event)| match event {
            Event::Write { file, synced, .. } => {
                *synced || last_sync.get(file.as_path()).is_some_and(|sync| *sync > at)
            }
            _ => true,
        };
        self.events[..cut].iter().enumerate().map(is_durable).collect()
    }

    /// A possible content of the disk: everything that was synced, and of the rest nothing, all, or any sectors.
    fn image(&self, cut: usize, random: &mut Random) -> PathBuf {
        let image = self.folder.path().join("image");
        copy(&self.base, &image);
        let mut durable = self.durable(cut);
        // A write with its own sync may have been in progress.
        let under_way = matches!(self.events.get(cut), Some(Event::Write { .. }));
        durable.extend(under_way.then_some(false));
        let luck = random.below(4);
        for (event, durable) in self.events.iter().zip(durable) {
            let Event::Write { file, offset, bytes, .. } = event else { continue };
            let file = File::options().write(true).open(image.join(file)).expect("opening");
            for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                let kept = match luck {
                    0 => false,
                    1 => true,
                    _ => random.one_in(2),
                };
                if durable || kept {
                    let at = offset + (index * SECTOR) as u64;
                    file.write_all_at(sector, at).expect("writing");
                }
            }
        }
        self.lose_control(&image, random);
        image
    }

    /// The control file is not synced during the run: it may contain anything, but not the current boot id.
    fn lose_control(&self, image: &Path, random: &mut Random) {
        let path = image.join("control");
        let len = std::fs::metadata(&path).expect("control").len() as usize;
        match random.below(4) {
            0 => std::fs::write(&path, vec![0; len]).expect("writing"),
            1 => std::fs::write(&path, random.bytes(len)).expect("writing"),
            2 => {
                let last = self.folder.path().join("pool/control");
                std::fs::copy(last, &path).expect("copying");
            }
            _ => {}
        }
        machine::restart_machine(image);
    }

    /// Number of operations that a slot acknowledged before the event `cut`.
    fn acknowledged(&self, cut: usize, wanted: u64) -> u64 {
        let counts = self.events[..cut].iter().map(|event| match event {
            Event::Acknowledged { slot, count } if *slot == wanted => *count,
            _ => 0,
        });
        counts.sum()
    }

    /// Checks the pool in an image of the disk at event `cut`. Returns the number of acknowledged operations.
    fn verify(&self, image: &Path, cut: usize, run: u64) -> u64 {
        let mut acknowledged = 0;
        {
            let pool = common::open(image);
            let sum = world::balance(&pool).expect("reading the balance");
            assert_eq!(sum, ACCOUNTS * BALANCE, "a transfer was applied partly");
            for slot in 0..SLOTS {
                let world = World::open(&pool, slot).expect("opening");
                let (random, acks) =
                    (worker::stream(self.seed, run, slot), self.acknowledged(cut, slot));
                expect_acknowledged(&world, &mut Model::new(), random, acks);
                acknowledged += acks;
            }
        }
        common::expect_sound(image, false);
        common::expect_clean(image);
        acknowledged
    }
}

#[test]
fn power_failure_at_any_sync() {
    expect_all_acknowledged(PoolKind::Durable);
}

#[test]
fn power_failure_at_any_sync_without_write_buffers() {
    expect_all_acknowledged(PoolKind::DurableUnbuffered);
}

/// Opens images of power failures before and after a sample of the syncs: all acknowledged operations must be visible.
fn expect_all_acknowledged(pool_kind: PoolKind) {
    let (seed, runs, mut images) = (seed(), scaled(2), 0);
    for number in 0..runs {
        let run = Run::record(pool_kind, seed, number);
        let mut random = Random::new(seed, 1000 + number);
        let mut cuts = run.cuts();
        let all = cuts.len();
        while cuts.len() > 120 {
            cuts.swap_remove(random.below(cuts.len() as u64) as usize);
        }
        let mut most = 0;
        for cut in cuts {
            let replay = format!("{SEED_VARIABLE}={seed} run {number} event {cut}");
            println!("{replay}");
            let _watchdog = Watchdog::new(replay);
            let image = run.image(cut, &mut random);
            most = most.max(run.verify(&image, cut, number));
            images += 1;
        }
        assert!(
            all > 20 && most > 10,
            "{all} cuts, {most} operations: too few for a meaningful test"
        );
    }
    eprintln!("{images} images of power failures opened, from {runs} runs");
}

/// Lengths of the values that [`put_values`] stores in turn: in the index, in a segment at once, and in a segment in
/// several steps, of which the disk begins to store each one early.
const LENGTHS: [usize; 3] = [100, 20_000, 500_000];
/// Number of values in a recorded run.
const VALUES: u64 = 30;

fn numbered_value(number: u64) -> Vec<u8> {
    vec![number as u8; LENGTHS[number as usize % LENGTHS.len()]]
}

/// The Key-Value of [`put_values`] in a pool.
fn open_values(pool: &Path) -> Kv {
    let opened = common::open(pool);
    let opened = opened.open_container("values", OpenMode::ReadWrite);
    let oid = ObjectId::generate(0, 7, ObjectType::KvHashed, ObjectClass::S1);
    opened.wait().and_then(|container| container.kv(oid)).expect("opening")
}

/// Body of a process that puts values of one key. Arguments: the pool and the directory for acknowledgements.
pub(crate) fn put_values() {
    let arguments = common::arguments();
    let [pool, folder] = &arguments[..] else { panic!("arguments: {arguments:?}") };
    let (values, mut acks) = (open_values(Path::new(pool)), worker::ack_file(Path::new(folder), 0));
    for number in 0.. {
        let value = numbered_value(number);
        values.put(b"key", &value, Cond::NONE, Access::Latest).wait().expect("putting");
        acks.write_all(b".").expect("acknowledging");
    }
}

/// A recorded run of [`put_values`].
fn record_values(pool_kind: PoolKind, seed: u64) -> Run {
    let folder = Folder::new(pool_kind);
    let shape = Shape { segment_bytes: 1 << 20, ..SHAPE };
    let pool = common::make(&folder, "pool", pool_kind, shape);
    let opened = common::open(&pool);
    opened.create_container(&NewContainer::named("values")).wait().expect("making a container");
    drop(opened);
    let root = folder.path().canonicalize().expect("own path");
    let arguments = format!("{} {}", root.join("pool").display(), root.display());
    Run::record_job(folder, seed, ("crash-values", &arguments), (1, VALUES))
}

fn is_acknowledgement(event: &Event) -> bool {
    matches!(event, Event::Acknowledged { .. })
}

impl Run {
    /// How often each sequence of synced files precedes an acknowledgement.
    fn count_syncs(&self) -> HashMap<Vec<&str>, u64> {
        let mut counts = HashMap::new();
        // The first commit also opens the pool, and some others also free segments.
        for commit in self.events.split_inclusive(is_acknowledgement).skip(1) {
            let syncs = commit.iter().filter(|event| event.is_sync()).filter_map(Event::file_name);
            *counts.entry(syncs.collect()).or_default() += 1;
        }
        counts
    }

    /// Expects that nothing is acknowledged, and no tree is named, while anything is not on the disk.
    fn expect_synced_in_order(&self) {
        for (at, event) in self.events.iter().enumerate() {
            if is_acknowledgement(event) || matches!(event, Event::Write { synced: true, .. }) {
                let durable = self.durable(at);
                let mut writes = self.events.iter().zip(durable).filter(|(_, durable)| !durable);
                let unsynced = writes.find_map(|(event, _)| event.file_name());
                assert_eq!(unsynced, None, "event {at} follows a write that is not on the disk");
            }
        }
    }
}

/// A commit writes data, then pages of the index, then the page that names the tree. Each is on the disk before the
/// next is written, and all of it before the acknowledgement. Most commits have no other syncs.
#[test]
fn commits_sync_data_then_pages_then_root() {
    let run = record_values(PoolKind::DurableUnbuffered, 0);
    run.expect_synced_in_order();
    let counts = run.count_syncs();
    let count = |syncs: &[&str]| counts.get(syncs).copied().unwrap_or(0);
    let (small, large) = (["data.mdb"; 2], ["data", "data.mdb", "data.mdb"]);
    assert!(count(&small) > VALUES / 6 && count(&large) > VALUES / 3, "{counts:?}");
}

/// A put into the write buffer writes its data and its entry in the redo log, and syncs both at once.
#[test]
fn buffered_puts_sync_data_and_entry_at_once() {
    let run = record_values(PoolKind::Durable, 0);
    run.expect_synced_in_order();
    let counts = run.count_syncs();
    assert!(counts.get(&["data"][..]).copied().unwrap_or(0) > VALUES / 2, "{counts:?}");
}

/// The value in a pool after a power failure is the last acknowledged one, or the one after it.
#[test]
fn power_failure_while_large_values_are_stored() {
    let pool_kinds = [PoolKind::Durable, PoolKind::DurableUnbuffered];
    pool_kinds.into_iter().for_each(expect_last_or_next_value);
}

/// Opens images of power failures: the value must be the last acknowledged one, or the next one.
fn expect_last_or_next_value(pool_kind: PoolKind) {
    let run = record_values(pool_kind, seed());
    let (mut random, cuts) = (Random::new(run.seed, 1000), run.cuts());
    for _ in 0..scaled(25) {
        let cut = cuts[random.below(cuts.len() as u64) as usize];
        let replay = format!("{SEED_VARIABLE}={} event {cut}", run.seed);
        let _watchdog = Watchdog::new(replay.clone());
        let image = run.image(cut, &mut random);
        let found = open_values(&image).get(b"key", Access::Latest).wait().expect("reading");
        let next = run.acknowledged(cut, 0);
        let last = next.checked_sub(1).map(numbered_value);
        assert!(
            found == last || found == Some(numbered_value(next)),
            "{replay}: after {next} puts"
        );
        common::expect_sound(&image, false);
        common::expect_clean(&image);
    }
}
