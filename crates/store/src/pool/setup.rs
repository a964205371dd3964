//! Setting a pool up for use: joining those that have it open, or, after a restart of the machine,
//! making the control file anew from the indexes.
use crate::control::{Control, ProcessSlot};
use crate::keys::{Key, Table};
use crate::segment::State as SegmentState;
use crate::superblock::Superblock;
use crate::target::Target;
use crate::walk;
use esker_types::info::Durability;
use esker_types::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a pool is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Ordinary work.
    Use,
    /// Finding and mending damage: opens what ordinary work refuses.
    Check,
}

/// Opens the targets, setting up the control file if nobody has since the machine started.
pub(super) fn set_up(
    path: &Path,
    superblock: &Superblock,
    control: &Arc<Control>,
    purpose: Purpose,
) -> Result<Vec<Arc<Target>>> {
    control.exclusively(|| {
        let current = control.is_current();
        if !current && purpose == Purpose::Use {
            refuse_unclean(superblock, control)?;
            refuse_damaged(path)?;
        }
        let open =
            |number| Target::open(path, superblock, Arc::clone(control), number).map(Arc::new);
        let targets = (0..superblock.targets).map(open).collect::<Result<Vec<_>>>()?;
        if current {
            targets.iter().for_each(|target| forget_predecessor(target, control.slot));
        } else if purpose == Purpose::Use {
            control.forget();
            crate::commit::recover(&targets)?;
            targets.iter().try_for_each(|target| rebuild(target))?;
            control.set_current()?;
        }
        Ok(targets)
    })
}

/// After a stop of the machine only a durable pool is known to be whole.
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

/// The one time after a start of the machine when there is time to look at every page of the indexes,
/// before a damaged one leads LMDB astray.
fn refuse_damaged(path: &Path) -> Result<()> {
    let mut problems = Vec::new();
    crate::pages::check_all(path, &mut problems)?;
    match problems.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(
            ErrorKind::Corrupt,
            format!("{first}: run `esker pool check {}`", path.display()),
        )),
    }
}

/// Declares the pool whole after a check, with its control file made anew. Call with the setup lock
/// held, and nobody else in the pool.
pub(crate) fn declare_sound(control: &Control, targets: &[Arc<Target>]) -> Result<()> {
    if !control.is_current() {
        control.forget();
    }
    crate::commit::recover(targets)?;
    targets.iter().try_for_each(|target| rebuild(target))?;
    control.set_current()
}

/// A dead process may have had this slot before: what it held belongs to nobody.
fn forget_predecessor(target: &Target, slot: ProcessSlot) {
    let words = target.words();
    for number in 0..target.segment_count() {
        let segment = words.segment(number);
        let state = segment.load();
        if state == SegmentState::Open(Some(slot)) {
            segment.change(state, SegmentState::Open(None));
        } else if state == SegmentState::Busy(slot) {
            // Counted again by the next collection, which sees an owner that cannot be alive.
            segment.change(state, SegmentState::Busy(nobody()));
        }
    }
}

/// A slot that no process can hold.
fn nobody() -> ProcessSlot {
    ProcessSlot(esker_types::limits::PROCESSES_MAX as u32 + 1)
}

/// Makes the control words of a target anew from its index.
pub(crate) fn rebuild(target: &Target) -> Result<()> {
    let usage = walk::usage(target)?;
    let words = target.words();
    let mut spent = Vec::new();
    for number in 0..target.segment_count() {
        let segment = words.segment(number);
        let used = usage.segments.get(&number).copied().unwrap_or_default();
        let dead = usage.dead.get(&number).copied().unwrap_or(0);
        segment.tail.store(used.end, Ordering::Release);
        segment.published.store(used.live + dead, Ordering::Release);
        segment.stamp.store(0, Ordering::Release);
        if used.live > 0 {
            segment.store(SegmentState::Sealed);
            continue;
        }
        segment.published.store(0, Ordering::Release);
        segment.tail.store(0, Ordering::Release);
        segment.store(SegmentState::Free);
        spent.push(number);
    }
    target.control.pass_epoch(usage.last_epoch);
    words.snapshots.store(u64::from(usage.has_snapshots), Ordering::Release);
    words.freed.store(0, Ordering::Release);
    words.writer.store(0, Ordering::Release);
    target.count_parked()?;
    words.conflicts.iter().for_each(|slot| slot.store(0, Ordering::Release));
    forget_dead(target, &spent)
}

/// Removes the counts of segments that are free.
fn forget_dead(target: &Target, segments: &[u32]) -> Result<()> {
    let mut txn = target.index.write()?;
    for segment in segments {
        txn.delete(&Key::table(Table::Segment).push(&segment.to_be_bytes()))?;
    }
    txn.commit()
}

/// Leaves this process's segments to others; called when it closes the pool.
pub(super) fn release_segments(targets: &[Arc<Target>]) {
    for target in targets {
        let words = target.words();
        for number in 0..target.segment_count() {
            let mine = SegmentState::Open(Some(target.process()));
            words.segment(number).change(mine, SegmentState::Open(None));
        }
    }
}
