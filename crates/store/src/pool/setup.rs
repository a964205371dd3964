//! Sets up an opened pool: joins the processes that have it open or, after a restart of the machine, rebuilds the
//! control file from the indexes.
use crate::commit::{Prepared, staged_on};
use crate::data::table::SegmentState;
use crate::format::superblock::Superblock;
use crate::index::pages::check_all;
use crate::io::folder::Folder;
use crate::shard::{Scope, Target, walk};
use crate::shared::control::{Control, ProcessSlot};
use esker_types::info::Durability;
use esker_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Purpose for which a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Ordinary use.
    Use,
    /// Check and repair. It also opens pools that are refused for ordinary use.
    Check,
}

/// Opens and returns the targets. Sets up the control file, unless that was done since the machine started.
pub(super) fn set_up(
    pool: &Folder,
    superblock: &Superblock,
    control: &Arc<Control>,
    purpose: Purpose,
) -> Result<Vec<Arc<Target>>> {
    control.exclusively(|| {
        let current = control.is_current();
        if !current && purpose == Purpose::Use {
            refuse_unclean(superblock, control)?;
        }
        if purpose == Purpose::Use {
            super::verified::begin(pool, superblock, control)?;
        }
        let open = |number| {
            let control = Arc::clone(control);
            Target::open(pool, superblock, control, number, crate::commit::resolve_doubt)
                .map(Arc::new)
        };
        let targets = (0..superblock.targets).map(open).collect::<Result<Vec<_>>>()?;
        if superblock.has_old_log() {
            targets.iter().try_for_each(|target| refuse_old_log(superblock, target))?;
        }
        if current {
            targets.iter().try_for_each(|target| clear_dead_state(target, control.slot))?;
            return Ok(targets);
        }
        targets.iter().try_for_each(|target| forget_lost_state(target))?;
        if purpose == Purpose::Use {
            // A check does this itself, once it has found the pool sound.
            control.discard_state();
            crate::commit::recover(&targets)?;
            rebuild_all(&targets)?;
            control.set_current()?;
        }
        Ok(targets)
    })
}

/// Replaces shared state that a restart of the machine has lost by one that is safe until it is rebuilt. Commits may be
/// completed before that. They find no segment that is free or dead, retain everything that a snapshot might need, and
/// flush the puts of the redo log.
fn forget_lost_state(target: &Target) -> Result<()> {
    let atomics = target.shared();
    (0..target.segment_count())
        .for_each(|number| atomics.segment(number).store(SegmentState::Index));
    atomics.note_snapshots(true);
    target.load_redo_log()
}

/// Fails if the log of an experimental format has puts that the index does not have.
fn refuse_old_log(superblock: &Superblock, target: &Target) -> Result<()> {
    if !target.control.has_puts_in_old_log(target.number(), target.last_commit()?) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Incompatible,
        format!(
            "pool {} has puts in a log of an experimental format: open and close it once with the release that made it",
            superblock.label
        ),
    ))
}

/// Refuses a pool that was in use when the machine crashed, unless it is durable.
fn refuse_unclean(superblock: &Superblock, control: &Control) -> Result<()> {
    if control.was_used() && superblock.durability == Durability::Process {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "the machine stopped while pool {} was in use, and its durability is `process`: run \
                 `esker pool check {} --repair` before using it",
                superblock.label, superblock.label
            ),
        ));
    }
    Ok(())
}

/// Fails if an index is damaged. Verifies all pages before LMDB uses them and, with `checksums`, the records.
pub(crate) fn refuse_damaged(pool: &Folder, checksums: bool) -> Result<()> {
    let found = check_all(pool, checksums)?;
    let path = pool.path().display();
    let message = match (found.pages.first(), found.records.first()) {
        (None, None) => return Ok(()),
        (Some(first), _) => {
            format!(
                "{first}: `esker pool salvage {path} NEW` saves what can be read into a new pool"
            )
        }
        (None, Some(first)) => format!("{first}: `esker pool check {path} --repair` removes it"),
    };
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// Declares the pool intact after a check, and rebuilds the control file. The caller holds the setup lock, and no other
/// process has the pool open.
pub(crate) fn declare_sound(control: &Control, targets: &[Arc<Target>]) -> Result<()> {
    if !control.is_current() {
        control.discard_state();
    }
    crate::commit::recover(targets)?;
    rebuild_all(targets)?;
    control.set_current()
}

/// Releases the segments of a dead process that had this slot before. Publishes its last commit, in case it died in
/// that. Until then, its segments seem to have a live owner, which only delays others.
fn clear_dead_state(target: &Target, slot: ProcessSlot) -> Result<()> {
    let atomics = target.shared();
    for number in 0..target.segment_count() {
        let segment = atomics.segment(number);
        let state = segment.load();
        if state == SegmentState::Open(Some(slot)) {
            segment.change(state, SegmentState::Open(None));
        } else if state == SegmentState::Busy(slot) {
            // The owner is not alive, so the next collection recounts the segment.
            segment.change(state, SegmentState::Busy(ProcessSlot::NOBODY));
        }
    }
    target.publish_commit_of_predecessor()
}

/// Rebuilds the shared atomics of all targets, and puts the targets of prepared commits in doubt again.
fn rebuild_all(targets: &[Arc<Target>]) -> Result<()> {
    let prepared = crate::commit::all_prepared(targets)?;
    targets.iter().try_for_each(|target| rebuild(target, &prepared))?;
    crate::commit::doubt_prepared(targets)
}

/// Rebuilds the shared atomics of a target from its index and from the commits that are prepared on the pool.
pub(crate) fn rebuild(target: &Target, prepared: &[Prepared]) -> Result<()> {
    let usage = walk::usage(target, &staged_on(prepared, target.number()))?;
    let atomics = target.shared();
    for number in 0..target.segment_count() {
        let segment = atomics.segment(number);
        let used = usage.segments.get(&number).copied().unwrap_or_default();
        let dead = usage.dead.get(&number).copied().unwrap_or(0);
        let tail = walk::tail_of(target, number, &used);
        segment.tail.store(tail, Ordering::Release);
        segment.published.store(used.live.saturating_add(dead), Ordering::Release);
        segment.stamp.store(tail, Ordering::Release);
        segment.store(match (used.live, dead) {
            (0, 0) if !target.is_viewed(number) => SegmentState::Free,
            // The next collection frees the segment and removes its count of dead bytes, so opening a pool needs no
            // space in the index. Views may outlive all processes that had the pool open.
            (0, _) => SegmentState::Dead,
            _ => SegmentState::after_release(tail, target.segment_bytes()),
        });
    }
    target.restore_space()?;
    target.control.pass_epoch(usage.last_epoch.max(walk::last_removal(target)?));
    atomics.note_snapshots(usage.has_snapshots);
    atomics.freed().store(0, Ordering::Release);
    atomics.writer().store(0, Ordering::Release);
    // Earlier versions of the slots are unknown. A transaction over nodes may have read an earlier state and be
    // committed only now.
    let last = target.view_in_doubt(Scope::Committed)?.version().0;
    atomics.conflicts().iter().for_each(|slot| slot.store(last, Ordering::Release));
    target.count_reserved()
}

/// Releases the segments of this process when it closes the pool.
pub(super) fn release_segments(targets: &[Arc<Target>]) {
    for target in targets {
        let atomics = target.shared();
        for number in 0..target.segment_count() {
            let owned = SegmentState::Open(Some(target.process()));
            atomics.segment(number).change(owned, SegmentState::Open(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::keys::{Key, Table};
    use crate::shared::read_version::ReadVersion;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
    use esker_types::{Epoch, ErrorKind, ObjectClass, ObjectId, ObjectType};

    /// Changes the boot id in the control file of a closed pool, like a restart of the machine.
    fn restart(pool: &Scratch) {
        let control = std::fs::File::options().write(true).open(pool.path().join("control"));
        std::os::unix::fs::FileExt::write_all_at(&control.unwrap(), &[0; 8], 8).unwrap();
    }

    /// After a restart, the clock of the machine is behind. The history has the only trace of the last removal.
    #[test]
    fn clock_passes_removals_after_restart() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            (spec.targets, spec.durability) = (Some(1), Some(Durability::Commit));
        });
        let removed = {
            let state = pool.opened();
            let uuid = state.create_container(&Default::default()).unwrap().uuid;
            let opened = state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite);
            let container = opened.unwrap();
            let oid = ObjectId::generate(0, 1, ObjectType::KvHashed, ObjectClass::S1);
            let write = |op| state.write(&container, 0, &[Write { oid, op }], &[], None).unwrap();
            let value = Value::Single(Source::One(b"value"));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            write(WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates });
            state.create_snapshot(&container, "s").unwrap();
            let future = Epoch::now().0 + (1 << 50);
            state.control.pass_epoch(Epoch(future));
            write(WriteOp::PunchDkey { dkey: b"d", cond: Cond::NONE })
        };
        pool.close();
        restart(&pool);
        pool.reopen();
        assert!(pool.opened().control.next_epoch() > removed);
    }

    /// A segment has dead bytes, whose count
    /// only a commit could remove.
    #[test]
    fn opening_a_pool_needs_no_space_in_the_index() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(2);
            spec.durability = Some(Durability::Commit);
        });
        let last_commit = {
            let state = pool.opened();
            let target = &state.targets[1];
            let dead = Key::table(Table::Segment).push(&1_u32.to_be_bytes());
            target.change(|change| change.put(&dead, &1000_u64.to_le_bytes())).unwrap();
            target.last_commit().unwrap()
        };
        pool.close();
        restart(&pool);
        pool.reopen();
        let state = pool.opened();
        let target = &state.targets[1];
        assert_eq!(target.last_commit().unwrap(), last_commit);
        let whole = u64::from(target.segment_count()) * target.segment_bytes();
        assert_eq!(target.free_data_bytes().unwrap(), target.data_bytes());
        assert_eq!(target.shared().segment(1).load(), SegmentState::Dead);
        target.recycle().unwrap();
        assert_eq!(target.free_segment_bytes(), whole);
    }

    /// A transaction over nodes may have read before its engine was killed, and be committed after that.
    #[test]
    fn changes_before_a_rebuild_conflict_with_earlier_reads() {
        let pool = Scratch::new(24 << 20, |_| {});
        let state = pool.opened();
        let target = &state.targets[0];
        let read = |version| [ReadVersion { target: 0, slot: 7, version }];
        let version = || target.view_of(Scope::Committed).unwrap().version().0;
        let before = version();
        let key = Key::table(Table::Segment).push(&1_u32.to_be_bytes());
        target.change(|change| change.put(&key, &0_u64.to_le_bytes())).unwrap();
        target.change(|change| change.put(&key, &0_u64.to_le_bytes())).unwrap();
        rebuild(target, &[]).unwrap();
        let lock = target.lock().unwrap();
        let refused = lock.expect_unchanged(&read(before)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TxRestart);
        lock.expect_unchanged(&read(version())).unwrap();
    }
}
