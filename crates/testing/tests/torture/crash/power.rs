//! Power failure at any time: every image that a disk can contain at a sync of a recorded run must be openable, with
//! everything acknowledged by then.
use super::ops::{ACCOUNTS, BALANCE, Model};
use super::world::{self, World};
use super::{expect_acknowledged, worker};
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::machine;
use esker_testing::{Random, SEED_VARIABLE, scaled, seed};
use std::collections::HashMap;
use std::fs::File;
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

fn build_recorder(folder: &Folder) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/crash/recorder.c");
    let library = folder.path().join("recorder.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compiler.status().expect("running cc").success(), "cannot build the recorder");
    library
}

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
    fn record(seed: u64, run: u64) -> Self {
        let folder = Folder::new(PoolKind::Durable);
        let root = folder.path().canonicalize().expect("own path");
        common::make(&folder, "pool", PoolKind::Durable, SHAPE);
        let (pool, base, log) = (root.join("pool"), root.join("base"), root.join("log"));
        world::prepare(&common::open(&pool), SLOTS).expect("preparing");
        copy(&pool, &base);
        let library = build_recorder(&folder);
        for slot in 0..SLOTS {
            std::fs::write(worker::ack_path(&root, slot), b"").expect("making acks");
        }
        let arguments = format!("{} {seed} {run} {} 0 1", pool.display(), root.display());
        let mut recorded = Worker::start_with("crash", &arguments, |command| {
            command.env("LD_PRELOAD", &library).env("RECORD_ROOT", &pool).env("RECORD_LOG", &log);
            command.env("RECORD_ACKS", root.join("acks-"));
        });
        let acks =
            |slot| std::fs::metadata(worker::ack_path(&root, slot)).map_or(0, |acks| acks.len());
        recorded.wait_until("enough is recorded", || (0..SLOTS).map(acks).sum::<u64>() >= RECORDED);
        recorded.kill();
        let events = parse(&std::fs::read(&log).expect("reading the log"), &pool);
        Self { folder, base, events, seed }
    }

    /// Positions of power failures: before and after every sync.
    fn cuts(&self) -> Vec<usize> {
        let is_sync =
            |event: &Event| matches!(event, Event::Sync { .. } | Event::Write { synced: true, .. });
        let syncs = self.events.iter().enumerate().filter(|(_, event)| is_sync(event));
        syncs.flat_map(|(at, _)| [at, at + 1]).collect()
    }

    /// Events before `cut` that a later sync of the same file covers, or that were synced themselves.
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

    fn acknowledged(&self, cut: usize, wanted: u64) -> u64 {
        let counts = self.events[..cut].iter().map(|event| match event {
            Event::Acknowledged { slot, count } if *slot == wanted => *count,
            _ => 0,
        });
        counts.sum()
    }

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
    let (seed, runs, mut images) = (seed(), scaled(2), 0);
    for number in 0..runs {
        let run = Run::record(seed, number);
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
