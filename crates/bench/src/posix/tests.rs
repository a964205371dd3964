use super::*;
use crate::posix::ior::{self, Access};
use crate::posix::mdtest::{self, Kind, Phase, Tree};
use crate::worker::Work;
use esker_types::{ErrorKind, Result};
use std::path::{Path, PathBuf};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("esker-posix-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn workers<O: Clone, W: Work<Job = Job<O>>>(folder: &Path, options: &O, procs: u32) -> Vec<W> {
    let job = |member| Job {
        member,
        location: FileLocation::Posix { folder: folder.to_owned() },
        options: options.clone(),
    };
    let members = Member::all(procs, 7, &[]);
    members.map(|member| W::begin(job(member)).unwrap()).collect()
}

/// Runs the step in each process, one after the other. Returns the operations of each.
fn take<W: Work<Step: Copy, Done = Done>>(workers: &mut [W], step: W::Step) -> Result<Vec<u64>> {
    let ops = |done: Done| done.parts.iter().map(|part| part.ops).max().unwrap_or(0);
    let take = |worker: &mut W| {
        worker.prepare(&step)?;
        worker.take(step).map(ops)
    };
    workers.iter_mut().map(take).collect()
}

fn mdtest() -> mdtest::Options {
    mdtest::Options {
        tree: Tree { depth: 1, branch: 2, leaf_only: false },
        items_per_dir: Some(5),
        stride: 1,
        write_bytes: 100,
        read_bytes: 100,
        verify: true,
        random_stat: true,
        ..mdtest::Options::default()
    }
}

fn phase(phase: Phase, end: u64) -> mdtest::MdtestStep {
    mdtest::MdtestStep { phase, iteration: 1, first: 0, end, seconds: None }
}

#[test]
fn items_are_created_examined_read_and_removed() {
    for unique in [false, true] {
        let folder = Folder::new(if unique { "own" } else { "common" });
        let options = mdtest::Options { unique, ..mdtest() };
        let mut workers = workers::<_, mdtest::Worker>(&folder.0, &options, 2);
        let items = options.items();
        assert_eq!(items, 15);
        take(&mut workers, phase(Phase::TopCreate, 0)).unwrap();
        let tree = take(&mut workers, phase(Phase::TreeCreate, 0)).unwrap();
        assert_eq!(tree, if unique { [3, 3] } else { [3, 0] });
        for kind in [Kind::Directory, Kind::File] {
            assert_eq!(take(&mut workers, phase(Phase::Create(kind), items)).unwrap(), [15, 15]);
            assert_eq!(take(&mut workers, phase(Phase::Stat(kind), items)).unwrap(), [15, 15]);
            let names: u64 = take(&mut workers, phase(Phase::List(kind), 0)).unwrap().iter().sum();
            assert_eq!(names, 30 + if unique { 4 } else { 2 });
            if kind == Kind::File {
                assert_eq!(take(&mut workers, phase(Phase::Read, items)).unwrap(), [15, 15]);
            }
            assert_eq!(take(&mut workers, phase(Phase::Remove(kind), items)).unwrap(), [15, 15]);
        }
        take(&mut workers, phase(Phase::TreeRemove, 0)).unwrap();
        take(&mut workers, phase(Phase::TopRemove, 0)).unwrap();
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}

#[test]
fn damaged_files_are_detected() {
    let folder = Folder::new("flipped-item");
    let mut workers = workers::<_, mdtest::Worker>(&folder.0, &mdtest(), 2);
    let create = Phase::Create(Kind::File);
    for (step, end) in
        [(Phase::TopCreate, 0), (Phase::TreeCreate, 0), (create, 15), (Phase::Read, 15)]
    {
        take(&mut workers, phase(step, end)).unwrap();
    }
    let path = folder.0.join("test-dir.1/mdtest_tree/mdtest_tree.1/file.mdtest.1.7");
    flip(&path, 40);
    let error = take(&mut workers, phase(Phase::Read, 15)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("file.mdtest.1.7: byte 40"), "{error}");
    std::fs::File::options().write(true).open(&path).unwrap().set_len(99).unwrap();
    let error = take(&mut workers, phase(Phase::Stat(Kind::File), 15)).unwrap_err();
    assert!(error.message().contains("has 99 bytes"), "{error}");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn ior(file_per_process: bool) -> ior::Options {
    ior::Options {
        block_bytes: 4000,
        transfer_bytes: 1000,
        segments: 3,
        file_per_process,
        file: "f".into(),
        reorder: true,
        distance: 1,
        sync: true,
        random: true,
        ..ior::Options::default()
    }
}

fn access(access: Access, end: u64) -> ior::IorStep {
    let (round, first, seconds) = (1, 0, None);
    ior::IorStep { access, round, open: true, first, end, seconds, close: true }
}

#[test]
fn transfers_are_written_read_and_compared() {
    for file_per_process in [false, true] {
        let folder = Folder::new(if file_per_process { "files" } else { "shared" });
        let mut workers = workers::<_, ior::Worker>(&folder.0, &ior(file_per_process), 3);
        take(&mut workers, access(Access::Remove, 0)).unwrap();
        assert_eq!(take(&mut workers, access(Access::Write, 12)).unwrap(), [12, 12, 12]);
        assert_eq!(take(&mut workers, access(Access::Read, 12)).unwrap(), [12, 12, 12]);
        assert_eq!(take(&mut workers, access(Access::Check, 12)).unwrap(), [12, 12, 12]);
        let name = if file_per_process { "f.00000001" } else { "f" };
        let path = folder.0.join(name);
        let size = std::fs::metadata(&path).unwrap().len();
        assert_eq!(size, if file_per_process { 12_000 } else { 36_000 });
        flip(&path, 5123);
        assert!(take(&mut workers, access(Access::Read, 12)).is_ok());
        let error = take(&mut workers, access(Access::Check, 12)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(&format!("{name}: byte 5123")), "{error}");
        take(&mut workers, access(Access::Remove, 0)).unwrap();
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}

/// Data of another round at the right location is found too.
#[test]
fn data_of_earlier_round_fails_check() {
    let folder = Folder::new("old");
    let mut workers = workers::<_, ior::Worker>(&folder.0, &ior(false), 2);
    take(&mut workers, access(Access::Write, 12)).unwrap();
    let check = ior::IorStep { round: 2, ..access(Access::Check, 12) };
    let error = take(&mut workers, check).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn the_stonewall_ends_a_phase_early() {
    let folder = Folder::new("wall");
    let mut workers = workers::<_, ior::Worker>(&folder.0, &ior(true), 1);
    let walled = ior::IorStep { seconds: Some(0.0), ..access(Access::Write, 12) };
    assert_eq!(take(&mut workers, walled).unwrap(), [1]);
    assert_eq!(take(&mut workers, access(Access::Check, 1)).unwrap(), [1]);
    assert!(take(&mut workers, access(Access::Check, 12)).is_err());
}

#[test]
fn memory_use_is_parsed_from_process_status() {
    let status = "Name:\tx\nVmHWM:\t    2048 kB\nRssAnon:\t  12 kB\n";
    assert_eq!((memory_in(status, "VmHWM"), memory_in(status, "RssAnon")), (2 << 20, 12 << 10));
    assert_eq!(memory_in(status, "VmSwap"), 0);
}
