//! Kills programs that change a tree at random: the tree stays consistent. `ESKER_SEED`
//! replays a run, `ESKER_TORTURE_ROUNDS` makes it longer.
use dfs::check::{CheckOptions, check};
use dfs::{Create, Dfs, MountOptions, NewDfs, Node, Open, RenameMode, SetAttr, XattrMode};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::{Container, Pool, Wait};
use esker_conformance::place::nodes;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const CHILD: &str = "ESKER_DFS_CHILD";
const NAMES: u64 = 12;

/// Numbers without pattern (SplitMix64).
struct Random(u64);

impl Random {
    /// The next number, from 0 up to but not including `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    /// One of a few names, so that operations meet.
    fn name(&mut self) -> Vec<u8> {
        format!("name {}", self.below(NAMES)).into_bytes()
    }
}

/// A file system in a pool of its own, or in the pool over nodes that the environment names; and a directory that is
/// gone with the test.
struct Place {
    dir: PathBuf,
    url: String,
    label: String,
}

impl Place {
    /// A new file system, on a pool of plain files if `files`.
    fn new(files: bool) -> Self {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { env!("CARGO_TARGET_TMPDIR").into() };
        let dir = base.join(format!("esker-dfs-killed-{files}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let esker_conformance::place::Place { url, label } =
            esker_conformance::place::Place::new("killed");
        let url = match nodes() {
            _ if files => plain_files(&dir),
            Some(_) => url,
            None => native(&dir),
        };
        let place = Self { dir, url, label };
        let pool = Pool::connect(&place.url, OpenMode::ReadWrite).unwrap();
        let new = NewContainer::named(&place.label);
        Dfs::create_container(&pool, &new, &NewDfs::default()).unwrap();
        place
    }

    fn open(&self, mode: OpenMode) -> Container {
        let pool = Pool::connect(&self.url, OpenMode::ReadWrite).unwrap();
        pool.open_container(&self.label, mode).wait().unwrap()
    }

    /// Starts a process that changes the tree until it is killed.
    fn child(&self, seed: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
        let arguments = format!("{} {} {seed} {}", self.url, self.label, self.steps().display());
        command.env(CHILD, arguments).spawn().unwrap()
    }

    /// A file that grows by a byte with each step of a child.
    fn steps(&self) -> PathBuf {
        self.dir.join("steps")
    }

    /// Waits until the children have done `count` more steps.
    fn wait_for_steps(&self, count: u64) {
        let steps = || std::fs::metadata(self.steps()).map_or(0, |steps| steps.len());
        let enough = steps() + count;
        esker_testing::wait_for("the tree is changed", || steps() >= enough);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Creates a pool in a directory; returns its URL.
fn native(dir: &Path) -> String {
    let mut spec = esker_store::PoolSpec::new("tank", 96 << 20);
    spec.targets = Some(3);
    esker_store::Pool::create(dir, &spec, &mut |_, _| {}).unwrap();
    format!("esker:{}", dir.join("tank").display())
}

/// Creates a pool of plain files in a directory; returns its URL.
fn plain_files(dir: &Path) -> String {
    let path = dir.join("files");
    esker::PosixPool::create(&path, false).unwrap();
    format!("posix:{}", path.display())
}

/// Entry point of the processes that the test kills.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let arguments: Vec<_> = arguments.split(' ').collect();
    let [url, label, seed, steps] = arguments[..] else { panic!("{arguments:?}") };
    let mut steps = File::options().append(true).create(true).open(steps).unwrap();
    let fs = Dfs::open(url, label, MountOptions::default()).unwrap();
    let mut random = Random(seed.parse().unwrap());
    loop {
        // Other processes create and remove the same names, and the pool may be full, so any error is allowed.
        let _ = step(&fs, &mut random);
        steps.write_all(b".").unwrap();
    }
}

/// A directory, at most three levels down.
fn directory(fs: &Dfs, random: &mut Random) -> Node {
    let mut dir = fs.root();
    for _ in 0..random.below(4) {
        match dir.lookup(&random.name()) {
            Ok(below) if below.kind() == dfs::Kind::Directory => dir = below,
            _ => break,
        }
    }
    dir
}

/// Makes one random change to the tree.
fn step(fs: &Dfs, random: &mut Random) -> esker::types::Result<()> {
    let (dir, name) = (directory(fs, random), random.name());
    let (other, other_name) = (directory(fs, random), random.name());
    let new = Create::with_mode(0o755);
    match random.below(16) {
        0..4 => {
            let file = dir.create(&name, &new)?.open(Open::BOTH)?;
            let bytes = vec![random.below(256) as u8; random.below(40_000) as usize];
            file.write_at(random.below(3_000_000), &bytes)?;
            file.append(b"the end")?;
            if random.below(3) == 0 {
                dir.unlink(&name)?;
                file.write_at(0, b"still there")?;
            }
            file.close()
        }
        4..6 => dir.mkdir(&name, &new).map(drop),
        6 => dir.symlink(&name, b"name 1/name 2", &new).map(drop),
        7 => dir.unlink(&name),
        8 => dir.rmdir(&name),
        9 => dir.remove_tree(&name).map(drop),
        10 => dir.rename(&name, &other, &other_name, RenameMode::Replace),
        11 => dir.rename(&name, &other, &other_name, RenameMode::Exchange),
        12 => dir.lookup(&name)?.set_xattr(b"user.x", &[1; 2000], XattrMode::Any),
        13 => {
            let size = Some(random.below(100_000));
            dir.lookup(&name)?.set_attr(&SetAttr { size, ..SetAttr::default() }).map(drop)
        }
        14 => {
            let mode = Some(random.below(0o1000) as u32);
            dir.lookup(&name)?.set_attr(&SetAttr { mode, ..SetAttr::default() }).map(drop)
        }
        _ => fs.flush(),
    }
}

#[test]
fn tree_stays_consistent_when_processes_are_killed() {
    stays_consistent(false);
}

#[test]
fn tree_in_a_posix_pool_stays_consistent_when_processes_are_killed() {
    stays_consistent(true);
}

/// Kills processes that change a tree, and checks the tree after each kill. With `files`, the pool is of plain files.
fn stays_consistent(files: bool) {
    let rounds = std::env::var("ESKER_TORTURE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let seed = esker_testing::seed();
    let (mut random, place) = (Random(seed), Place::new(files));
    let options = CheckOptions { data: true, ..CheckOptions::default() };
    let mut left = 0;
    for round in 0..rounds.unwrap_or(15u64) {
        let mut children: Vec<_> =
            (0..=random.below(3)).map(|child| place.child(seed ^ round << 8 ^ child)).collect();
        place.wait_for_steps(random.below(1500));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
            let report = check(&place.open(OpenMode::ReadOnly), options, &mut |_| {}).unwrap();
            assert!(report.is_whole(), "seed {seed}, round {round}: {report:?}");
            left = left.max(report.leftovers.count());
        }
    }
    println!("at most {left} objects were left over");
    let alone = place.open(OpenMode::Exclusive);
    let repair = CheckOptions { data: true, repair: true, remove_leftovers: true };
    let repaired = check(&alone, repair, &mut |_| {}).unwrap();
    assert!(repaired.damaged == 0, "seed {seed}: {repaired:?}");
    let after = check(&alone, options, &mut |_| {}).unwrap();
    // Files that processes on plain files had open when they were killed are kept for a time.
    let others = if files { after.leftovers.others } else { after.leftovers.count() };
    assert!(after.is_whole() && others == 0, "seed {seed}: {after:?}");
    assert_eq!((after.files, after.links), (repaired.files, repaired.links), "seed {seed}");
}
