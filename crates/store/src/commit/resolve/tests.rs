//! Commits over several nodes, from the point of view of one of the nodes.
use super::*;
use crate::commit::decision::decision_key;
use crate::data::table::SegmentState;
use crate::shard::container::Container;
use crate::shared::control::ProcessSlot;
use crate::tests::Scratch;
use crate::{ContainerSpec, Pool, ReadVersion};
use esker_types::info::{ContainerRef, Durability, OpenMode, Part};
use esker_types::ops::{
    Cond, Fetch, ReadAt, ReadTokens, Sink, Source, Update, Value, View, Write, WriteOp,
};
use esker_types::{ObjectClass, ObjectId, ObjectType, Uuid};

/// Length of a value that is stored in a segment.
const LARGE: usize = 4000;

/// The pool of node `node` of two, with three targets.
pub(in crate::commit) fn part(node: u32) -> Scratch {
    Scratch::new(24 << 20, |spec| {
        spec.targets = Some(3);
        spec.segment_bytes = Some(256 << 10);
        spec.part = Part { node, nodes: 2 };
    })
}

/// Creates a container and opens it.
pub(in crate::commit) fn container(pool: &OpenPool) -> Container {
    let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
    pool.create_container(&spec).unwrap();
    reopened(pool)
}

pub(in crate::commit) fn reopened(pool: &OpenPool) -> Container {
    pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).unwrap()
}

pub(in crate::commit) fn commit(number: u8, coordinator: u32) -> Commit {
    Commit { id: CommitId::new(Epoch(0), Uuid([number; 16])), coordinator }
}

fn oid() -> ObjectId {
    ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1)
}

/// Prepares a value of `len` bytes `value` for each of `targets`.
pub(in crate::commit) fn prepare(
    pool: &OpenPool,
    container: &Container,
    commit: Commit,
    targets: &[u32],
    (value, len): (u8, usize),
) -> Result<Epoch> {
    let value = vec![value; len];
    let value = Value::Single(Source::One(&value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    pool.prepare_change(container, commit, &[(Write { oid: oid(), op }, targets.to_vec())], &[])
}

/// Writes a large value, whose bytes are `value`, on one target.
fn write(pool: &OpenPool, container: &Container, target: u32, value: u8) -> Result<Epoch> {
    let value = vec![value; LARGE];
    let value = Value::Single(Source::One(&value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    pool.write(container, target, &[Write { oid: oid(), op }], &[], None)
}

/// First byte of the value on a target; `None` if there is none.
fn read(pool: &OpenPool, container: &Container, target: u32, at: ReadAt<'_>) -> Result<Option<u8>> {
    let mut bytes = [0; LARGE];
    let mut fetches = [Fetch::single(b"a", Sink::One(&mut bytes))];
    let target = &pool.targets[target as usize];
    target.fetch(container.id(), oid(), b"d", Cond::NONE, &mut fetches, at)?;
    let size = fetches[0].reply.size;
    Ok((size > 0).then_some(bytes[0]))
}

/// First byte of the latest value on each target.
pub(in crate::commit) fn latest(pool: &OpenPool, container: &Container) -> [Option<u8>; 3] {
    [0, 1, 2].map(|target| read(pool, container, target, ReadAt::LATEST).unwrap())
}

pub(in crate::commit) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Bytes that are free for data on all targets.
fn free(pool: &OpenPool) -> u64 {
    pool.targets.iter().map(|target| target.free_data_bytes().unwrap()).sum()
}

/// Expects a pool without damage, in which every byte is accounted for.
pub(in crate::commit) fn expect_sound(pool: &Scratch) {
    let report = Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap();
    assert_eq!((report.problems, report.lost_bytes), (Vec::new(), 0));
}

/// Reopens the pool as after a restart of the machine.
pub(in crate::commit) fn restart(pool: &mut Scratch) {
    pool.close();
    let control = std::fs::File::options().write(true).open(pool.path().join("control"));
    std::os::unix::fs::FileExt::write_all_at(&control.unwrap(), &[0; 16], 0).unwrap();
    pool.reopen();
}

/// The commit is prepared on targets 0 and 2. Target 1 remains usable.
#[test]
fn prepared_targets_are_in_doubt_until_commit() {
    let scratch = part(1);
    let pool = scratch.opened();
    let container = container(&pool);
    write(&pool, &container, 0, 1).unwrap();
    let epoch = prepare(&pool, &container, commit(1, 0), &[0, 2], (7, LARGE)).unwrap();
    let refused = read(&pool, &container, 0, ReadAt::LATEST).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InDoubt);
    assert!(refused.message().contains("node 0 decides"), "{refused}");
    assert_eq!(kind(write(&pool, &container, 2, 3)), ErrorKind::InDoubt);
    assert_eq!(read(&pool, &container, 1, ReadAt::LATEST).unwrap(), None);
    write(&pool, &container, 1, 3).unwrap();
    assert_eq!(pool.prepared().unwrap(), [commit(1, 0)]);
    expect_sound(&scratch);
    let later = Epoch(epoch.0 + (1 << 30));
    pool.commit_prepared(commit(1, 0), later).unwrap();
    assert_eq!(latest(&pool, &container), [Some(7), Some(3), Some(7)]);
    assert_eq!(pool.prepared().unwrap(), []);
    assert!(write(&pool, &container, 1, 4).unwrap() > later);
    expect_sound(&scratch);
}

/// The shortest value is stored in the index, the others in segments. A repeated abort and a late commit have no
/// effect.
#[test]
fn abort_frees_staged_data() {
    let scratch = part(1);
    let pool = scratch.opened();
    let container = container(&pool);
    write(&pool, &container, 0, 1).unwrap();
    let before = free(&pool);
    for len in [100, LARGE, 200_000] {
        prepare(&pool, &container, commit(1, 0), &[0, 1], (7, len)).unwrap();
        pool.abort_prepared(commit(1, 0)).unwrap();
        pool.abort_prepared(commit(1, 0)).unwrap();
        pool.commit_prepared(commit(1, 0), Epoch::now()).unwrap();
        assert_eq!(latest(&pool, &container), [Some(1), None, None]);
        assert_eq!(free(&pool), before);
    }
    expect_sound(&scratch);
}

/// Commit 1 is committed and forgotten. Commit 2 is aborted on behalf of another node, so its client can no longer
/// commit it.
#[test]
fn coordinator_decides_once() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    let prepare = |number| prepare(&pool, &container, commit(number, 0), &[1], (number, LARGE));
    let epoch = prepare(1).unwrap();
    assert_eq!(prepare(1).unwrap(), epoch);
    assert_eq!(pool.outcome(commit(1, 0), false).unwrap(), Outcome::Undecided);
    pool.commit_prepared(commit(1, 0), epoch).unwrap();
    pool.commit_prepared(commit(1, 0), epoch).unwrap();
    pool.abort_prepared(commit(1, 0)).unwrap();
    assert_eq!(pool.outcome(commit(1, 0), true).unwrap(), Outcome::Committed(epoch));
    assert_eq!(prepare(1).unwrap(), epoch, "a copy that is late");
    assert_eq!(latest(&pool, &container), [None, Some(1), None]);
    pool.forget(commit(1, 0)).unwrap();
    pool.forget(commit(1, 0)).unwrap();
    assert_eq!(pool.outcome(commit(1, 0), true).unwrap(), Outcome::Aborted);

    let epoch = prepare(2).unwrap();
    assert_eq!(pool.outcome(commit(2, 0), true).unwrap(), Outcome::Aborted);
    let late = Epoch(epoch.0 + (1 << 30));
    assert_eq!(kind(pool.commit_prepared(commit(2, 0), late)), ErrorKind::TxRestart);
    // A late copy of the preparation must not allow the client to commit: the commit was aborted on behalf of another
    // node.
    assert_eq!(kind(prepare(2)), ErrorKind::TxRestart);
    assert_eq!(kind(pool.commit_prepared(commit(2, 0), late)), ErrorKind::TxRestart);
    pool.forget(commit(2, 0)).unwrap();
    assert_eq!(kind(pool.commit_prepared(commit(2, 0), late)), ErrorKind::TxRestart);
    assert_eq!(latest(&pool, &container), [None, Some(1), None]);
    assert_eq!(kind(pool.outcome(commit(3, 1), true)), ErrorKind::Invalid);
    expect_sound(&scratch);
}

/// The decision is still stored, so a node that asks for it would be told to commit.
#[test]
fn late_preparation_of_resolved_commit_is_not_applied() {
    let scratch = part(1);
    let pool = scratch.opened();
    let container = container(&pool);
    let prepare = || prepare(&pool, &container, commit(1, 0), &[0, 1], (1, LARGE)).unwrap();
    let epoch = Epoch(prepare().0 + (1 << 30));
    pool.commit_prepared(commit(1, 0), epoch).unwrap();
    write(&pool, &container, 0, 2).unwrap();
    let before = free(&pool);
    prepare();
    pool.commit_prepared(commit(1, 0), epoch).unwrap();
    assert_eq!(latest(&pool, &container), [Some(2), Some(1), None]);
    assert_eq!(free(&pool), before);
    expect_sound(&scratch);
}

/// Two commits are prepared. Then the pool is closed and opened, at first without and then with a restart of the
/// machine.
#[test]
fn prepared_commit_survives_machine_restart() {
    for durability in [Durability::Commit, Durability::Process] {
        let mut scratch = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(3);
            spec.durability = Some(durability);
            spec.part = Part { node: 0, nodes: 2 };
        });
        let (before, epochs) = {
            let pool = scratch.opened();
            let container = container(&pool);
            write(&pool, &container, 0, 1).unwrap();
            let first = prepare(&pool, &container, commit(1, 0), &[0, 1], (7, LARGE)).unwrap();
            let second = prepare(&pool, &container, commit(2, 1), &[2], (8, LARGE)).unwrap();
            (free(&pool), [first, second])
        };
        for round in 0..2 {
            if round == 0 {
                scratch.reopen()
            } else {
                restart(&mut scratch)
            }
            let pool = scratch.opened();
            assert_eq!(pool.prepared().unwrap(), [commit(1, 0), commit(2, 1)]);
            assert_eq!(kind(pool.list_containers()), ErrorKind::InDoubt);
            assert_eq!(
                kind(pool.targets[2].view_of(crate::shard::Scope::Committed).map(drop)),
                ErrorKind::InDoubt
            );
            assert_eq!(free(&pool), before);
            expect_sound(&scratch);
        }
        let pool = scratch.opened();
        pool.commit_prepared(commit(1, 0), epochs[0]).unwrap();
        pool.abort_prepared(commit(2, 1)).unwrap();
        let container = reopened(&pool);
        assert_eq!(latest(&pool, &container), [Some(7), Some(7), None]);
        assert_eq!(free(&pool), before + 2 * LARGE as u64);
        drop(pool);
        expect_sound(&scratch);
    }
}

/// A process dies after the first target has committed. The next operation that needs the second target completes the
/// commit.
#[test]
fn commit_of_dead_process_is_completed() {
    let mut scratch = part(0);
    for round in 0..3 {
        let pool = scratch.opened();
        let container = if round == 0 { container(&pool) } else { reopened(&pool) };
        let number = round + 10;
        let epoch = prepare(&pool, &container, commit(number, 0), &[0, 1], (number, LARGE));
        let epoch = epoch.unwrap();
        let found = pool.find_prepared(commit(number, 0).id).unwrap().unwrap();
        let targets: Vec<&Target> = pool.targets[..2].iter().map(AsRef::as_ref).collect();
        let resolving = Resolving {
            pool: &pool,
            found: &found,
            targets,
            resolution: Resolution::Commit(epoch),
        };
        let is_first = std::cell::Cell::new(true);
        let die = |txn: WriteTxn| match is_first.replace(false) {
            true => txn.commit(),
            false => Err(ErrorKind::Io.into()),
        };
        assert!(resolving.attempt(die).unwrap());
        match round {
            0 => pool.commit_prepared(commit(number, 0), epoch).unwrap(),
            1 => drop(write(&pool, &container, 2, 1).unwrap()),
            _ => {
                drop(pool);
                restart(&mut scratch);
            }
        }
        let pool = scratch.opened();
        let container = reopened(&pool);
        assert_eq!(latest(&pool, &container)[..2], [Some(number); 2]);
        assert_eq!(pool.outcome(commit(number, 0), true).unwrap(), Outcome::Committed(epoch));
        drop(pool);
        expect_sound(&scratch);
    }
}

/// Commit 1 is prepared on target 1. Other commits that need this target are refused.
#[test]
fn refused_commit_on_target_in_doubt_frees_its_data() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    prepare(&pool, &container, commit(1, 1), &[1], (7, LARGE)).unwrap();
    let before = free(&pool);
    let value = vec![9; LARGE];
    let value = Value::Single(Source::One(&value));
    let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    let writes = [(Write { oid: oid(), op }, vec![0, 1, 2])];
    assert_eq!(kind(pool.write_many(&container, &writes, &[], None)), ErrorKind::InDoubt);
    let another = || prepare(&pool, &container, commit(2, 1), &[0, 1], (8, LARGE));
    assert_eq!(kind(another()), ErrorKind::InDoubt);
    assert_eq!(kind(pool.create_snapshot(&container, "s")), ErrorKind::InDoubt);
    for target in [0, 2] {
        assert_eq!(read(&pool, &container, target, ReadAt::LATEST).unwrap(), None);
    }
    assert_eq!(free(&pool), before);
    pool.abort_prepared(commit(1, 1)).unwrap();
    another().unwrap();
    pool.abort_prepared(commit(2, 1)).unwrap();
    expect_sound(&scratch);
}

/// A transaction reads the value of target 1. Then a change of this value is prepared, and committed or aborted.
#[test]
fn earlier_reads_conflict_with_commit_but_not_with_abort() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    for (number, conflicts) in [(1, true), (2, false)] {
        let tokens = ReadTokens::default();
        let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
        read(&pool, &container, 1, at).unwrap();
        let reads = ReadVersion::parse_tokens(&tokens, 3).unwrap();
        let epoch = prepare(&pool, &container, commit(number, 0), &[0, 1], (number, LARGE));
        match conflicts {
            true => pool.commit_prepared(commit(number, 0), epoch.unwrap()).unwrap(),
            false => pool.abort_prepared(commit(number, 0)).unwrap(),
        }
        let checked = pool.check_read_versions(&reads);
        assert_eq!(checked.is_err(), conflicts, "{checked:?}");
        let prepared = pool.prepare_change(&container, commit(3, 0), &[], &reads);
        assert_eq!(prepared.is_err(), conflicts, "{prepared:?}");
    }
    // The target of a read is in doubt too, so it cannot change until the commit.
    assert_eq!(kind(write(&pool, &container, 1, 9)), ErrorKind::InDoubt);
    pool.outcome(commit(3, 0), true).unwrap();
    write(&pool, &container, 1, 9).unwrap();
}

/// The epoch of the commit is later than that of the preparation.
#[test]
fn a_snapshot_has_the_epoch_of_its_commit() {
    let scratch = part(1);
    let pool = scratch.opened();
    let container = container(&pool);
    write(&pool, &container, 0, 1).unwrap();
    let prepared = pool.prepare_snapshot(&container, commit(1, 0), "noon").unwrap();
    assert_eq!(kind(write(&pool, &container, 2, 2)), ErrorKind::InDoubt);
    let epoch = Epoch(prepared.0 + (1 << 40));
    pool.commit_prepared(commit(1, 0), epoch).unwrap();
    let snapshots = pool.list_snapshots(&container).unwrap();
    assert_eq!(snapshots.len(), 1);
    assert_eq!((snapshots[0].epoch, &snapshots[0].name[..]), (epoch, "noon"));
    for target in 0..3 {
        write(&pool, &container, target, 5).unwrap();
    }
    let then = ReadAt { view: View::Snapshot(epoch), tokens: None };
    let seen = [0, 1, 2].map(|target| read(&pool, &container, target, then).unwrap());
    assert_eq!(seen, [Some(1), None, None]);
    pool.prepare_snapshot(&container, commit(2, 0), "never").unwrap();
    pool.abort_prepared(commit(2, 0)).unwrap();
    assert_eq!(pool.list_snapshots(&container).unwrap(), snapshots);
    pool.destroy_snapshot(&container, epoch).unwrap();
    expect_sound(&scratch);
}

/// A prepared commit keeps target 2 in doubt, so the space of a destroyed container there cannot be freed yet.
#[test]
fn destroy_with_target_in_doubt_frees_space_after_resolution() {
    let scratch = part(0);
    let pool = scratch.opened();
    let before = free(&pool);
    for whole in [true, false] {
        let container = container(&pool);
        let other = ContainerSpec { label: Some("other"), ..ContainerSpec::default() };
        pool.create_container(&other).unwrap();
        let other = pool.open_container(ContainerRef::Label("other"), OpenMode::ReadWrite).unwrap();
        write(&pool, &other, 1, 1).unwrap();
        write(&pool, &other, 2, 2).unwrap();
        prepare(&pool, &container, commit(1, 1), &[2], (7, LARGE)).unwrap();
        pool.destroy_container(ContainerRef::Label("other"), true).unwrap();
        assert_eq!(kind(other.check_alive(&pool)), ErrorKind::NoHandle);
        match whole {
            true => pool.abort_prepared(commit(1, 1)).unwrap(),
            false => pool.commit_prepared(commit(1, 1), Epoch::after(Epoch::now())).unwrap(),
        }
        pool.destroy_container(ContainerRef::Label("c"), true).unwrap();
        assert_eq!(free(&pool), before);
    }
    expect_sound(&scratch);
}

/// A process dies while it writes to a segment of a target with a prepared commit.
#[test]
fn segment_of_dead_process_is_recounted_after_resolution() {
    let scratch = part(1);
    let pool = scratch.opened();
    let container = container(&pool);
    prepare(&pool, &container, commit(1, 0), &[0], (7, LARGE)).unwrap();
    let target = &pool.targets[0];
    let number = target.table().take_free(0).unwrap();
    let segments = target.shared();
    let segment = segments.segment(number);
    segment.store(SegmentState::Busy(ProcessSlot::NOBODY));
    assert_eq!(kind(target.collect()), ErrorKind::InDoubt);
    assert_eq!(segment.load(), SegmentState::Busy(ProcessSlot::NOBODY));
    pool.abort_prepared(commit(1, 0)).unwrap();
    target.collect().unwrap();
    assert_eq!(segment.load(), SegmentState::Free);
}

/// Damages a prepared commit and a decision.
#[test]
fn a_damaged_commit_is_reported_and_repaired() {
    let mut scratch = part(0);
    let keys = [prepared_key(commit(1, 0).id), decision_key(commit(2, 0).id)];
    {
        let pool = scratch.opened();
        let container = container(&pool);
        let second = prepare(&pool, &container, commit(2, 0), &[1], (2, LARGE)).unwrap();
        pool.commit_prepared(commit(2, 0), second).unwrap();
        prepare(&pool, &container, commit(1, 0), &[1, 2], (1, LARGE)).unwrap();
        let mut txn = pool.targets[1].begin_bare().unwrap();
        for key in &keys {
            let mut value = txn.get(key).unwrap().unwrap().to_vec();
            value[5] ^= 1;
            txn.put(key, &value).unwrap();
        }
        txn.commit().unwrap();
    }
    scratch.close();
    let check = |repair| Pool::check(&scratch.path(), repair, &mut |_, _| {}).unwrap();
    assert_eq!(check(false).problems.len(), 2 + 1, "both, and the unreferenced live bytes");
    check(true);
    assert_eq!(check(false).problems, [""; 0]);
    scratch.reopen();
    let pool = scratch.opened();
    assert_eq!(latest(&pool, &reopened(&pool)), [None, Some(2), None]);
}

/// Scrub detects damage of prepared data. Salvage copies only the committed value, and reports the prepared commit as
/// lost.
#[test]
fn scrub_reads_prepared_data_and_salvage_omits_it() {
    let mut scratch = part(0);
    {
        let pool = scratch.opened();
        let container = container(&pool);
        write(&pool, &container, 2, 1).unwrap();
        prepare(&pool, &container, commit(1, 0), &[1, 2], (7, LARGE)).unwrap();
        let report = pool.scrub(&mut |_, _| {}).unwrap();
        assert_eq!((report.damaged.len(), report.bytes), (0, 3 * LARGE as u64));
        let found = pool.find_prepared(commit(1, 0).id).unwrap().unwrap();
        let target = &pool.targets[1];
        let end = found.parts[0].staged[0].end;
        let place = target.segment_offset(found.parts[0].staged[0].segment) + end - 200;
        let file = std::fs::File::options().write(true).open(pool.path().join("target-1/data"));
        std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), b"wrong", place).unwrap();
        assert_eq!(pool.scrub(&mut |_, _| {}).unwrap().damaged.len(), 1);
    }
    scratch.close();
    let mut salvage = crate::Salvage::open(&scratch.path()).unwrap();
    let mut found = 0;
    let mut hear = |_: crate::Salvaged<'_>| {
        found += 1;
        Ok(())
    };
    salvage.visit(&mut hear, &mut |_, _| {}).unwrap();
    assert_eq!((found, salvage.losses().count), (1, 1));
}

/// Prepares and commits values until one of them finds no space.
#[test]
fn preparation_without_space_leaves_no_target_in_doubt() {
    let scratch = part(0);
    let pool = scratch.opened();
    let container = container(&pool);
    let before = free(&pool);
    let len = 200_000;
    let mut number = 0;
    let refused = loop {
        number += 1;
        let value = vec![number; len];
        let value = Value::Single(Source::One(&value));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let dkey = [number];
        let op = WriteOp::Update { dkey: &dkey, cond: Cond::NONE, updates: &updates };
        let writes = [(Write { oid: oid(), op }, vec![0, 1])];
        match pool.prepare_change(&container, commit(number, 0), &writes, &[]) {
            Ok(epoch) => pool.commit_prepared(commit(number, 0), epoch).unwrap(),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert_eq!(pool.prepared().unwrap(), []);
    for target in &pool.targets {
        target.view_of(crate::shard::Scope::Committed).unwrap();
    }
    let op = WriteOp::PunchObject { cond: Cond::NONE };
    let writes = [(Write { oid: oid(), op }, vec![0, 1, 2])];
    let epoch = pool.prepare_change(&container, commit(0, 0), &writes, &[]).unwrap();
    pool.commit_prepared(commit(0, 0), epoch).unwrap();
    assert_eq!(free(&pool), before);
    expect_sound(&scratch);
}

#[test]
fn single_node_pool_refuses_prepared_commits() {
    let scratch = Scratch::new(24 << 20, |spec| spec.targets = Some(3));
    let pool = scratch.opened();
    let container = container(&pool);
    let refused = prepare(&pool, &container, commit(1, 0), &[1], (1, 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported);
    assert_eq!(kind(pool.commit_prepared(commit(1, 0), Epoch(1))), ErrorKind::NotSupported);
    assert_eq!(kind(pool.outcome(commit(1, 0), true)), ErrorKind::NotSupported);
    assert_eq!(pool.prepared().unwrap(), []);
    let other = part(1);
    let pool = other.opened();
    assert_eq!(kind(pool.abort_prepared(commit(1, 2))), ErrorKind::Invalid);
    assert_eq!(kind(pool.commit_prepared(commit(1, 0), Epoch::MAX)), ErrorKind::Invalid);
}
