//! Changes during which a writer is stopped: the pool before, the steps, and the content after each step.
use super::content::{CHUNK, Content, Item, LABEL, LARGE_LEN, NONE, SMALL_LEN, TARGETS, all_items};
use super::handles::{Handles, Opened, path_of, put, write, write_chunk};
use super::writer;
use crate::common::PoolKind;
use esker::backend::NewContainer;
use esker::{Access, Lease, Transaction, Wait};
use esker_store::PoolSpec;
use esker_types::info::{Durability, Part};
use esker_types::ops::Cond;
use esker_types::{ErrorKind, Result};
use std::cell::RefCell;
use std::path::Path;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Replaces a value in the index.
    PutSmall,
    /// Replaces a value in a segment.
    PutLarge,
    /// Puts under a new key.
    PutNew,
    /// Writes the first chunk of a new array. The writer has no segment yet.
    WriteNew,
    /// Replaces a chunk of an array.
    OverwriteChunk,
    /// Replaces the chunks of an array on all targets.
    OverwriteArray,
    /// Replaces values on all targets in one transaction.
    Transaction,
    /// Reads one target and writes another.
    ReadThenWrite,
    /// Reads all targets in a transaction.
    ReadOnly,
    /// Reads targets for the first time.
    FirstRead,
    /// Removes a key, then an object.
    Punch,
    /// Creates a snapshot, replaces a value, destroys the snapshot.
    Snapshot,
    /// Creates a container and destroys it.
    Container,
    /// Compacts all targets.
    Compact,
    /// Puts until the index needs a segment of the data.
    GrowIndex,
    /// Puts until a write buffer is full, and lists.
    ManyPuts,
    /// Opens an object, unlinks it, closes it.
    Lease,
    /// Opens the pool, reads, and closes it.
    Open,
    /// Commits over two nodes.
    Nodes,
}

/// A change of a kind of pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) pool_kind: PoolKind,
    /// Keys of the Key-Value with many before the change.
    pub(super) many: u64,
}

/// Number of puts of [`Kind::GrowIndex`] and [`Kind::ManyPuts`]. A process checks once in 8 commits whether the index
/// should grow.
const GROWING_PUTS: u64 = 26;
/// Number of puts of [`Kind::GrowIndex`] that are made before those after which the index grew in a trial.
const PUTS_AHEAD: u64 = 16;
const MANY_PUTS: u64 = 12;
/// Number of puts that a write buffer accepts before the next one commits it, minus half of [`MANY_PUTS`].
const PUTS_BEFORE: u64 = 394;
/// Bytes of the values of these puts.
const GROWING_LEN: usize = 1000;
const MANY_LEN: usize = 8;
/// Maximum number of puts until an index grows.
const PUTS_UNTIL_GROWTH_MAX: u64 = 4000;

/// Bytes per segment, segments and bytes of the index of a target.
const SEGMENT_BYTES: u64 = 128 << 10;
const SEGMENTS: u64 = 12;
const INDEX_BYTES: u64 = 512 << 10;

impl Kind {
    pub(super) const ALL: [Self; 19] = [
        Self::PutSmall,
        Self::PutLarge,
        Self::PutNew,
        Self::WriteNew,
        Self::OverwriteChunk,
        Self::OverwriteArray,
        Self::Transaction,
        Self::ReadThenWrite,
        Self::ReadOnly,
        Self::FirstRead,
        Self::Punch,
        Self::Snapshot,
        Self::Container,
        Self::Compact,
        Self::GrowIndex,
        Self::ManyPuts,
        Self::Lease,
        Self::Open,
        Self::Nodes,
    ];

    fn parse(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|kind| format!("{kind:?}") == name);
        found.unwrap_or_else(|| panic!("unknown kind of change: {name}"))
    }

    pub(super) fn is_over_nodes(self) -> bool {
        self == Self::Nodes
    }

    /// Readers wait for the end of a commit over several targets. Readers that open the pool also wait for another
    /// process that opens it or gets a reader slot of LMDB.
    pub(super) fn lets_readers_wait(self, is_new: bool) -> bool {
        use Kind::{Container, FirstRead, Nodes, Open, OverwriteArray, Snapshot, Transaction};
        matches!(self, Transaction | OverwriteArray | Snapshot | Container | Nodes)
            || matches!(self, FirstRead | Open) && is_new
    }

    /// Each step is one commit: readers wait only while it is decided.
    pub(super) fn commits_once(self) -> bool {
        matches!(self, Self::Transaction | Self::OverwriteArray)
    }

    /// The writer has a segment before the change.
    fn has_segment(self) -> bool {
        matches!(self, Self::PutLarge | Self::OverwriteChunk | Self::Transaction)
    }

    /// Number of steps, each acknowledged by itself.
    pub(super) fn steps(self) -> usize {
        match self {
            Self::Punch | Self::Container | Self::Open => 2,
            Self::Snapshot => 3,
            Self::Lease => 4,
            Self::GrowIndex => GROWING_PUTS as usize,
            Self::ManyPuts => MANY_PUTS as usize,
            _ => 1,
        }
    }
}

impl Plan {
    /// Arguments of the processes that take part.
    pub(super) fn to_arguments(self) -> String {
        format!("{:?} {:?} {}", self.kind, self.pool_kind, self.many)
    }

    pub(super) fn from_arguments(arguments: &[String]) -> Self {
        let [kind, pool_kind, many] = arguments else { panic!("three arguments: {arguments:?}") };
        Self {
            kind: Kind::parse(kind),
            pool_kind: parse_pool_kind(pool_kind),
            many: many.parse().expect("a number"),
        }
    }

    /// Creates the pools in a directory, with their content before the change.
    pub(super) fn create(kind: Kind, pool_kind: PoolKind, home: &Path) -> Self {
        let mut plan = Self { kind, pool_kind, many: 0 };
        plan.make_pools(home);
        match kind {
            Kind::Nodes => fill_nodes(home).expect("filling"),
            Kind::GrowIndex => plan.fill_until_growth(home).expect("filling"),
            _ => drop(Opened::fill(&path_of(home, 0)).expect("filling")),
        }
        if kind == Kind::Compact {
            scatter(home).expect("filling");
        }
        if kind == Kind::ManyPuts && pool_kind == PoolKind::Memory {
            plan.many = PUTS_BEFORE;
        }
        plan
    }

    fn make_pools(self, home: &Path) {
        std::fs::create_dir_all(home).expect("making a directory");
        let nodes = 1 + u32::from(self.kind.is_over_nodes());
        for node in 0..nodes {
            let share = INDEX_BYTES + SEGMENTS * SEGMENT_BYTES;
            let mut spec = PoolSpec::new(&format!("pool{node}"), share * u64::from(TARGETS));
            spec.index_percent = Some((INDEX_BYTES * 100).div_ceil(share) as u32);
            spec.targets = Some(TARGETS);
            spec.segment_bytes = Some(SEGMENT_BYTES);
            let is_buffered = matches!(self.pool_kind, PoolKind::Memory | PoolKind::Durable);
            spec.write_buffer = Some(is_buffered && nodes == 1);
            spec.guarded = self.pool_kind == PoolKind::Guarded;
            let is_durable =
                matches!(self.pool_kind, PoolKind::Durable | PoolKind::DurableUnbuffered);
            spec.durability = is_durable.then_some(Durability::Commit);
            spec.part = Part { node, nodes };
            esker_store::Pool::create(home, &spec, &mut |_, _| {}).expect("creating a pool");
        }
    }

    /// Fills one pool until its index grows, and another with some puts less.
    fn fill_until_growth(&mut self, home: &Path) -> Result<()> {
        let trial = home.join("trial");
        self.make_pools(&trial);
        let opened = Opened::fill(&path_of(&trial, 0))?;
        let pages = || opened.pool.info().wait().map(|info| info.targets[1].index_total);
        let before = pages()?;
        let mut count = 0;
        while pages()? == before {
            put_many(&opened, count, GROWING_LEN)?;
            count += 1;
            assert!(count < PUTS_UNTIL_GROWTH_MAX, "the index does not grow");
        }
        drop(opened);
        std::fs::remove_dir_all(&trial).expect("removing the trial");
        self.many = count - PUTS_AHEAD;
        let opened = Opened::fill(&path_of(home, 0))?;
        (0..self.many).try_for_each(|number| put_many(&opened, number, GROWING_LEN))
    }

    /// Prepares the change in the process that makes it: the process has read, and its last puts are recent.
    fn prepare(self, handles: &Handles) -> Result<()> {
        if self.kind == Kind::FirstRead {
            return Ok(());
        }
        handles.read_all(0, false)?;
        if self.kind.is_over_nodes() {
            return Ok(());
        }
        let opened = handles.one();
        (0..self.many_puts_before()).try_for_each(|n| put_many(opened, n, MANY_LEN))?;
        for kv in &opened.kvs {
            put(kv, b"small", 1, SMALL_LEN, Access::Latest)?;
            if self.kind.has_segment() {
                put(kv, b"large", 1, LARGE_LEN, Access::Latest)?;
            }
        }
        Ok(())
    }

    /// Number of puts after which a write buffer is nearly full.
    fn many_puts_before(self) -> u64 {
        if self.kind == Kind::ManyPuts { self.many } else { 0 }
    }

    /// Runs in the writer: prepares the change, and makes it between two marks.
    pub(super) fn run(self, home: &Path) -> Result<()> {
        if self.kind == Kind::Open {
            return open_and_close(home);
        }
        let handles = Handles::open(home, self.kind.is_over_nodes())?;
        self.prepare(&handles)?;
        let before = self.index_bytes(&handles)?;
        writer::mark();
        self.change(&handles)?;
        writer::mark();
        let has_grown = self.index_bytes(&handles)? > before;
        assert_eq!(has_grown, self.kind == Kind::GrowIndex, "the index grows in the change");
        Ok(())
    }

    /// Size of the index of target 1.
    fn index_bytes(self, handles: &Handles) -> Result<u64> {
        match handles {
            Handles::One(opened) => opened.pool.info().wait().map(|it| it.targets[1].index_total),
            Handles::Nodes(_) => Ok(0),
        }
    }

    /// Makes the change; acknowledges each step.
    fn change(self, handles: &Handles) -> Result<()> {
        let lease = RefCell::new(None);
        for step in 1..=self.kind.steps() {
            match handles {
                Handles::Nodes(parts) => {
                    let put = |node| move |commit| parts.prepare_put(commit, (node, 0, 2), None);
                    parts.commit(&|node, commit| put(node)(commit)).map(drop)?;
                }
                Handles::One(opened) => self.take_step(opened, step, &mut lease.borrow_mut())?,
            }
            writer::acknowledge();
        }
        Ok(())
    }

    /// Makes one step of the change on a pool of one node. `lease` is that of an earlier step.
    fn take_step(self, opened: &Opened, step: usize, lease: &mut Option<Lease>) -> Result<()> {
        let kv = |target: usize| &opened.kvs[target];
        let latest = Access::Latest;
        match (self.kind, step) {
            (Kind::PutSmall, _) => put(kv(1), b"small", 2, SMALL_LEN, latest),
            (Kind::PutLarge, _) => put(kv(1), b"large", 2, LARGE_LEN, latest),
            (Kind::PutNew, _) => put(kv(1), b"added", 2, SMALL_LEN, latest),
            (Kind::WriteNew, _) => write_chunk(&opened.new, 0, 2),
            (Kind::OverwriteChunk, _) => write_chunk(&opened.array, 1, 2),
            (Kind::OverwriteArray, _) => write(&opened.array, 2, latest),
            (Kind::Transaction, _) => transact(opened, write_everywhere),
            (Kind::ReadThenWrite, _) => transact(opened, read_then_write),
            (Kind::ReadOnly | Kind::FirstRead, _) => transact(opened, read_everywhere),
            (Kind::Punch, 1) => kv(1).remove(b"small", Cond::NONE, latest).wait(),
            (Kind::Punch, _) => kv(2).destroy(latest).wait(),
            (Kind::Snapshot, 1) => opened.container.create_snapshot("one").wait().map(drop),
            (Kind::Snapshot, 2) => put(kv(0), b"small", 2, SMALL_LEN, latest),
            (Kind::Snapshot, _) => destroy_snapshot(opened),
            (Kind::Container, 1) => {
                opened.pool.create_container(&NewContainer::named("made")).wait().map(drop)
            }
            (Kind::Container, _) => opened.pool.destroy_container("made", true).wait(),
            (Kind::Compact, _) => compact(&opened.path),
            (Kind::GrowIndex, _) => put_many(opened, self.many + step as u64 - 1, GROWING_LEN),
            (Kind::ManyPuts, _) => put_many(opened, self.many + step as u64 - 1, MANY_LEN),
            (Kind::Lease, step) => step_of_lease(opened, step, lease),
            (Kind::Open | Kind::Nodes, _) => Ok(()),
        }
    }

    /// The content after `steps` steps.
    pub(super) fn content_after(self, steps: usize) -> Content {
        let mut content = before(self.kind);
        if self.kind.is_over_nodes() {
            content.values_mut().for_each(|number| *number = (1 + steps).to_string());
            return content;
        }
        content.insert(Item::Many, self.many.to_string());
        (1..=steps).for_each(|step| self.follow(step, &mut content));
        content
    }

    /// Applies a step to the content.
    fn follow(self, step: usize, content: &mut Content) {
        let mut set = |item, text: &str| drop(content.insert(item, text.to_owned()));
        match (self.kind, step) {
            (Kind::PutSmall, _) => set(Item::Small(1), "2"),
            (Kind::PutLarge, _) => set(Item::Large(1), "2"),
            (Kind::PutNew, _) => {
                set(Item::Added(1), "2");
                set(Item::Keys(1), "added large small");
            }
            (Kind::WriteNew, _) => {
                set(Item::New, "2");
                set(Item::NewSize, &CHUNK.to_string());
            }
            (Kind::OverwriteChunk, _) => set(Item::Chunk(1), "2"),
            (Kind::OverwriteArray, _) => (0..TARGETS).for_each(|it| set(Item::Chunk(it), "2")),
            (Kind::Transaction, _) => (0..TARGETS).for_each(|target| {
                set(Item::Small(target), "2");
                set(Item::Large(target), "2");
                set(Item::Added(target), "2");
                set(Item::Keys(target), "added large small");
            }),
            (Kind::ReadThenWrite, _) => set(Item::Small(1), "2"),
            (Kind::Punch, 1) => {
                set(Item::Small(1), NONE);
                set(Item::Keys(1), "large");
            }
            (Kind::Punch, _) | (Kind::Lease, 4) => {
                set(Item::Small(2), NONE);
                set(Item::Large(2), NONE);
                set(Item::Keys(2), "");
            }
            (Kind::Snapshot, 1) => {
                set(Item::Snapshots, "1");
                set(Item::Frozen, "1");
            }
            (Kind::Snapshot, 2) => set(Item::Small(0), "2"),
            (Kind::Snapshot, _) => {
                set(Item::Snapshots, "0");
                set(Item::Frozen, NONE);
            }
            (Kind::Container, 1) => set(Item::Containers, &format!("{LABEL} made")),
            (Kind::Container, _) => set(Item::Containers, LABEL),
            (Kind::GrowIndex | Kind::ManyPuts, step) => {
                set(Item::Many, &(self.many + step as u64).to_string());
            }
            (_, _) => {}
        }
    }
}

fn parse_pool_kind(name: &str) -> PoolKind {
    let pool_kinds = [
        PoolKind::Memory,
        PoolKind::Unbuffered,
        PoolKind::Guarded,
        PoolKind::Durable,
        PoolKind::DurableUnbuffered,
    ];
    let found = pool_kinds.into_iter().find(|pool_kind| format!("{pool_kind:?}") == name);
    found.unwrap_or_else(|| panic!("unknown kind of pool: {name}"))
}

/// The initial content.
fn before(kind: Kind) -> Content {
    let text = |item| match item {
        Item::Small(_) | Item::Large(_) | Item::Chunk(_) | Item::Number(_) => "1".to_owned(),
        Item::Keys(_) => "large small".to_owned(),
        Item::Size => (CHUNK * u64::from(TARGETS)).to_string(),
        Item::NewSize | Item::Many | Item::Snapshots => "0".to_owned(),
        Item::Containers => LABEL.to_owned(),
        Item::Added(_) | Item::New | Item::Frozen => NONE.to_owned(),
    };
    all_items(kind.is_over_nodes()).into_iter().map(|item| (item, text(item))).collect()
}

/// The change [`Kind::Open`].
fn open_and_close(home: &Path) -> Result<()> {
    writer::mark();
    let handles = Handles::open(home, false)?;
    handles.read_all(0, false)?;
    writer::acknowledge();
    drop(handles);
    writer::acknowledge();
    writer::mark();
    Ok(())
}

/// Puts the initial number on each node.
fn fill_nodes(home: &Path) -> Result<()> {
    let handles = Handles::open(home, true)?;
    (0..2).try_for_each(|node| handles.nodes().put(node, 0, 1).map(drop))
}

/// Leaves a little live data in each of several segments of a target.
fn scatter(home: &Path) -> Result<()> {
    let opened = Opened::open(&path_of(home, 0))?;
    let (large, kv) = (vec![7; 30 << 10], &opened.others[1]);
    for number in 0..8_u64 {
        kv.put(&number.to_be_bytes(), &large, Cond::NONE, Access::Latest).wait()?;
        if number % 4 == 0 {
            let key = [&b"kept"[..], &number.to_be_bytes()].concat();
            put(kv, &key, number, LARGE_LEN, Access::Latest)?;
        }
    }
    (0..8_u64)
        .try_for_each(|number| kv.remove(&number.to_be_bytes(), Cond::NONE, Access::Latest).wait())
}

/// Puts one value into the Key-Value with many keys.
fn put_many(opened: &Opened, number: u64, len: usize) -> Result<()> {
    put(&opened.many, &number.to_be_bytes(), number, len, Access::Latest)
}

/// Runs `work` in a transaction and commits it. Repeats it after a conflict.
fn transact(opened: &Opened, work: fn(&Opened, &Transaction) -> Result<()>) -> Result<()> {
    opened.container.transact(100, |transaction| work(opened, transaction))
}

fn write_everywhere(opened: &Opened, transaction: &Transaction) -> Result<()> {
    let access = Access::Tx(transaction);
    for kv in &opened.kvs {
        put(kv, b"small", 2, SMALL_LEN, access)?;
        put(kv, b"large", 2, LARGE_LEN, access)?;
        put(kv, b"added", 2, SMALL_LEN, access)?;
    }
    Ok(())
}

fn read_then_write(opened: &Opened, transaction: &Transaction) -> Result<()> {
    let access = Access::Tx(transaction);
    opened.kvs[0].get(b"small", access).wait()?;
    put(&opened.kvs[1], b"small", 2, SMALL_LEN, access)
}

fn read_everywhere(opened: &Opened, transaction: &Transaction) -> Result<()> {
    let access = Access::Tx(transaction);
    opened.kvs.iter().try_for_each(|kv| kv.get(b"small", access).wait().map(drop))
}

fn destroy_snapshot(opened: &Opened) -> Result<()> {
    let snapshots = opened.container.snapshots().wait()?;
    let last = snapshots.last().ok_or(ErrorKind::NotFound)?;
    opened.container.destroy_snapshot(last.epoch).wait()
}

fn compact(path: &Path) -> Result<()> {
    let pool = esker_store::Pool::open(path)?;
    let freed = pool.opened()?.compact(&mut |_, _| {})?;
    assert!(freed > 0, "there was nothing to compact");
    Ok(())
}

/// Opens an object, unlinks it, closes it, and removes it as its last user.
fn step_of_lease(opened: &Opened, step: usize, lease: &mut Option<Lease>) -> Result<()> {
    let object = opened.kvs[2].object();
    match (step, lease.take()) {
        (1, _) => *lease = Some(object.lease().wait()?),
        (2, held) => {
            assert!(object.unlink_on_last_close().wait()?, "the object is in use");
            *lease = held;
        }
        (3, Some(held)) => assert!(held.release().wait()?, "this was the last user"),
        _ => object.punch(Cond::NONE, Access::Latest).wait()?,
    }
    Ok(())
}
