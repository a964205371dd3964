//! The progress of a copy, as recorded in a property of the destination (docs/format.md, "Copies in progress").
use super::{Options, UNFINISHED, access, open_alone};
use crate::access::Access;
use crate::array::STRIPE_MARKS;
use crate::attributes::FILES_LAYOUT;
use crate::container::Container;
use crate::pool::Pool;
use esker_backend::NewContainer;
use esker_backend::block::BLOCK;
use esker_os::executor::Wait;
use esker_os::random_uuid;
use esker_types::info::OpenMode;
use esker_types::ops::Anchor;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result, Uuid};

/// The property that records a copy.
const PROPERTY: &str = "copy";
/// The property that names the run of [`super::copy`] which writes to an incomplete copy. Each run sets it when it
/// begins; completing the copy removes it.
const RUN: &str = "copy_run";
/// The property that records a drain, in its destination.
const DRAINED: &str = "drained";
const DRAINED_METADATA: &str = "prop:drained";
/// Properties that describe one container only, and not its copies. Objects in a copy may come from a pool without
/// stripe marks.
const OWN_PROPERTIES: [&str; 4] = [PROPERTY, RUN, DRAINED, STRIPE_MARKS];

/// Progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyPosition {
    Start,
    /// Everything up to and including `oid` is done; the listing of objects that contains it starts at `objects`.
    After {
        objects: Anchor,
        oid: ObjectId,
    },
    /// All objects are copied.
    End,
}

/// The recorded state of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CopyState {
    /// The run that has recorded the state.
    run: Uuid,
    /// The source container.
    source: Uuid,
    /// The snapshot that is read, if the source supports snapshots.
    pub(super) epoch: Option<Epoch>,
    /// The snapshot was taken for this copy.
    pub(super) owns_snapshot: bool,
    pub(super) position: CopyPosition,
    /// An earlier call began the copy.
    pub(super) resumed: bool,
}

/// Creates the destination. If an earlier call has created it, opens that one and continues from its recorded progress.
pub(super) fn begin(
    from: &Container,
    pool: &Pool,
    label: &str,
    options: &Options,
) -> Result<(Container, CopyState)> {
    match pool.open_container(label, OpenMode::ReadOnly).wait() {
        Ok(to) => return resume_labelled(&to, pool, label, from, options),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let unfinished = format!("{label}{UNFINISHED}");
    let to = match open_alone(pool, &unfinished)? {
        Some(to) => to,
        None => create(from, pool, &unfinished)?,
    };
    let state = CopyState::resume(&to, from, options, None)?;
    Ok((to, state))
}

/// Creates the destination of a copy and opens it exclusively.
fn create(from: &Container, pool: &Pool, label: &str) -> Result<Container> {
    let layout = layout_of_files(from)?;
    let layout: Vec<_> = layout.iter().map(|(name, value)| (*name, value.as_slice())).collect();
    let new = NewContainer::named(label)
        .with_checksum(from.info().checksum)
        .with_first_oid(from.next_oid().wait()?)
        .with_metadata(&layout);
    pool.create_container(&new).wait()?;
    pool.open_container(label, OpenMode::Exclusive).wait()
}

/// The metadata that marks a container as a file system. DAOS accepts it only when the container is created.
fn layout_of_files(from: &Container) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let properties = [("prop:layout_type", FILES_LAYOUT), ("prop:roots", "roots")];
    let mut found = Vec::new();
    for (metadata, property) in properties {
        found.extend(from.properties().get(property).wait()?.map(|value| (metadata, value)));
    }
    Ok(found)
}

/// Continues a copy that was stopped after its destination got the final label, so all objects are copied. Fails if no
/// run has written to the container, or a run has completed it.
fn resume_labelled(
    to: &Container,
    pool: &Pool,
    label: &str,
    from: &Container,
    options: &Options,
) -> Result<(Container, CopyState)> {
    if to.properties().get(RUN).wait()?.is_none() {
        let pool = pool.name().wait();
        let text = format!(
            "container {label} already exists: copy to another label, or remove it with \
             `esker cont destroy {pool} {label}`"
        );
        return Err(Error::new(ErrorKind::Exists, text));
    }
    to.close().wait()?;
    let to = pool.open_container(label, OpenMode::Exclusive).wait()?;
    let state = CopyState::resume(&to, from, options, Some(CopyPosition::End))?;
    Ok((to, state))
}

impl CopyState {
    /// Access to the source at the epoch that is copied; at its current state if the copy has no epoch.
    pub(super) fn access(&self) -> Access<'static> {
        access(self.epoch)
    }

    /// Begins a copy as the run `run`: takes a snapshot, unless one is given, and records the start. If it is stopped
    /// before the record, the next call begins again, and `new_snapshot` destroys the first snapshot.
    fn begin(to: &Container, from: &Container, options: &Options, run: Uuid) -> Result<Self> {
        let has_snapshots = from.capabilities().snapshots;
        let owns_snapshot = has_snapshots && options.snapshot.is_none();
        let epoch = match owns_snapshot {
            true => Some(new_snapshot(from, to)?),
            false => options.snapshot,
        };
        let position = CopyPosition::Start;
        let source = from.info().uuid;
        let state = Self { run, source, epoch, owns_snapshot, position, resumed: false };
        state.check_run(to)?;
        state.save(to)?;
        Ok(state)
    }

    /// Takes over a copy that was interrupted, or begins one. Not all backends can tell whether the earlier run still
    /// goes on; if it does, it fails when it next checks which run is in charge. `position` is that of a container with
    /// the final label.
    fn resume(
        to: &Container,
        from: &Container,
        options: &Options,
        position: Option<CopyPosition>,
    ) -> Result<Self> {
        let earlier = to.properties().get(RUN).wait()?;
        let recorded = Self::recorded(to, from, options)?;
        let run = random_uuid()?;
        let is_complete = position.is_some() && recorded.is_some();
        let taken = recorded.map(|state| state.taken_over(run, earlier.as_deref(), position));
        if let Some(state) = &taken {
            state.check_snapshot(from)?;
        }
        // In one change: a run that fails in between would make the next one begin at the start.
        let progress = taken.as_ref().map(Self::to_text);
        let run_text = run.to_string();
        let mut records = vec![(RUN, Some(run_text.as_bytes()))];
        records.extend(progress.as_ref().map(|text| (PROPERTY, Some(text.as_bytes()))));
        to.properties().change(&records).wait()?;
        // Another run may have completed the copy since the container was opened.
        if !is_complete && !to.query().wait()?.label.ends_with(UNFINISHED) {
            forget(to)?;
            return Err(taken_over_error(to));
        }
        taken.map_or_else(|| Self::begin(to, from, options, run), Ok)
    }

    /// The recorded state with the run that takes it over. `earlier` is the run that was in charge. What another run has
    /// recorded does not count: a later run may have removed objects since.
    fn taken_over(
        mut self,
        run: Uuid,
        earlier: Option<&[u8]>,
        position: Option<CopyPosition>,
    ) -> Self {
        let is_current = earlier == Some(self.run.to_string().as_bytes());
        if let Some(position) = position {
            self.position = position;
        } else if !is_current {
            self.position = CopyPosition::Start;
        }
        self.run = run;
        self
    }

    /// The recorded state of a copy; `None` if no run has recorded any. Fails if the container is the result of another
    /// copy.
    fn recorded(to: &Container, from: &Container, options: &Options) -> Result<Option<Self>> {
        let Some(recorded) = to.properties().get(PROPERTY).wait()? else { return Ok(None) };
        let state = std::str::from_utf8(&recorded)
            .ok()
            .and_then(Self::parse)
            .ok_or_else(unreadable_progress_error)?;
        let other_snapshot = options.snapshot.is_some() && options.snapshot != state.epoch;
        match state.source != from.info().uuid || other_snapshot {
            true => Err(other_container_error(to)),
            false => Ok(Some(state)),
        }
    }

    /// Fails if another run has taken over the copy, or completed it.
    pub(super) fn check_run(&self, to: &Container) -> Result<()> {
        let run = to.properties().get(RUN).wait()?;
        match run.as_deref() == Some(self.run.to_string().as_bytes()) {
            true => Ok(()),
            false => Err(taken_over_error(to)),
        }
    }

    /// Fails if the snapshot of the copy is gone: it would look like an empty container. It may be missing if
    /// everything is copied.
    fn check_snapshot(&self, from: &Container) -> Result<()> {
        match self.epoch {
            Some(epoch) if self.position != CopyPosition::End => from.at(epoch).wait().map(drop),
            _ => Ok(()),
        }
    }

    /// The error of a copy that failed with `error`: that another run has taken over, if so. The other run may have
    /// removed what this one then read back.
    pub(super) fn explain(&self, to: &Container, error: Error) -> Error {
        match self.check_run(to) {
            Err(taken_over) if taken_over.kind() == ErrorKind::Busy => taken_over,
            _ => error,
        }
    }

    /// Destroys the snapshot that was taken for the copy, if it still exists.
    pub(super) fn release_snapshot(&self, from: &Container) -> Result<()> {
        self.epoch.filter(|_| self.owns_snapshot).map_or(Ok(()), |epoch| destroy(from, epoch))
    }

    /// Records in the destination that the source is copied up to `position`, unless another run has taken over. What was
    /// copied is synced first, so that power loss does not take data that a later run would not copy again.
    pub(super) fn save_position(
        &mut self,
        to: &Container,
        from: &Container,
        position: CopyPosition,
    ) -> Result<()> {
        self.check_snapshot(from)?;
        self.check_run(to)?;
        to.sync().wait()?;
        self.position = position;
        self.save(to)
    }

    /// Records the state in the destination, in place of the earlier one.
    fn save(&self, to: &Container) -> Result<()> {
        to.properties().set(PROPERTY, self.to_text().as_bytes()).wait()
    }

    /// The record of the progress. Fields: version, run, source, epoch or `-`, whether the copy took the snapshot,
    /// position.
    fn to_text(&self) -> String {
        let epoch = self.epoch.map_or("-".to_owned(), |epoch| epoch.0.to_string());
        let own = if self.owns_snapshot { "own" } else { "given" };
        let position = match &self.position {
            // A listing that contains an object does not begin at the end, so that the second case does not occur.
            CopyPosition::Start | CopyPosition::After { objects: Anchor::End, .. } => {
                "start".to_owned()
            }
            CopyPosition::After { objects: Anchor::Start, oid } => format!("behind {oid}"),
            CopyPosition::After { objects: Anchor::After { shard, position }, oid } => {
                let hex: String = position.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("behind {oid} {shard} {hex}")
            }
            CopyPosition::End => "end".to_owned(),
        };
        format!("2 {} {} {epoch} {own} {position}", self.run, self.source)
    }

    /// Parses recorded progress; `None` if it is damaged, or of another version.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let version = words.next()?;
        let run = Uuid::parse(words.next()?)?;
        let source = Uuid::parse(words.next()?)?;
        let epoch = match words.next()? {
            "-" => None,
            number => Some(Epoch(number.parse().ok()?)),
        };
        let owns_snapshot = words.next()? == "own";
        let position = match words.next()? {
            "start" => CopyPosition::Start,
            "end" => CopyPosition::End,
            _ => CopyPosition::After {
                oid: ObjectId::parse(words.next()?)?,
                objects: match words.next() {
                    None => Anchor::Start,
                    Some(shard) => Anchor::After {
                        shard: shard.parse().ok()?,
                        position: bytes(words.next()?)?,
                    },
                },
            },
        };
        let state = Self { run, source, epoch, owns_snapshot, position, resumed: true };
        (version == "2").then_some(state)
    }
}

/// The bytes that hexadecimal digits spell; `None` if they spell none.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Progress of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DrainState {
    source: Uuid,
    /// Everything written to the source up to this epoch is in the destination.
    pub(super) until: Epoch,
    /// An earlier call began the drain.
    pub(super) resumed: bool,
}

impl DrainState {
    /// Records the state in the destination, in place of the earlier one.
    pub(super) fn save(&self, to: &Container) -> Result<()> {
        let text = format!("1 {} {}", self.source, self.until.0);
        to.properties().set(DRAINED, text.as_bytes()).wait()
    }

    /// Parses the recorded state; `None` if it is damaged, or of another version.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let version = words.next()?;
        let source = Uuid::parse(words.next()?)?;
        let until = Epoch(words.next()?.parse().ok()?);
        (version == "1").then_some(Self { source, until, resumed: true })
    }
}

/// Opens the destination of a drain, or creates it, and returns it with the progress of the drain. It is created
/// together with the record of the progress, so that no destination lacks that.
pub(super) fn begin_drain(
    from: &Container,
    pool: &Pool,
    label: &str,
) -> Result<(Container, DrainState)> {
    let new = DrainState { source: from.info().uuid, until: Epoch(0), resumed: false };
    let record = format!("1 {} 0", new.source);
    let layout = layout_of_files(from)?;
    let layout = layout.iter().map(|(name, value)| (*name, value.as_slice()));
    let metadata: Vec<_> = layout.chain([(DRAINED_METADATA, record.as_bytes())]).collect();
    let container = NewContainer::named(label)
        .with_checksum(from.info().checksum)
        .with_first_oid(from.next_oid().wait()?)
        .with_metadata(&metadata);
    let made = match pool.create_container(&container).wait() {
        Err(error) if error.kind() == ErrorKind::Exists => false,
        made => made.map(|_| true)?,
    };
    let to = pool.open_container(label, OpenMode::ReadWrite).wait()?;
    if made {
        return Ok((to, new));
    }
    let Some(recorded) = to.properties().get(DRAINED).wait()? else {
        return Err(other_container_error(&to));
    };
    let state = std::str::from_utf8(&recorded)
        .ok()
        .and_then(DrainState::parse)
        .ok_or_else(unreadable_progress_error)?;
    if state.source == new.source { Ok((to, state)) } else { Err(other_container_error(&to)) }
}

/// Takes a snapshot of the source. Its name has the ids of the destination and its pool. Destroys earlier snapshots for
/// this destination, which belong to copies that were killed before they recorded their snapshot, and snapshots for
/// containers of that pool that were destroyed.
pub(super) fn new_snapshot(from: &Container, to: &Container) -> Result<Epoch> {
    let (own, pool) = (to.info().uuid, to.pool_info().wait()?.uuid);
    // The containers are listed later than the snapshots: each is created before its snapshot.
    let snapshots = from.snapshots().wait()?;
    let for_pool = snapshots
        .iter()
        .filter_map(|snapshot| Some((destination_in(pool, &snapshot.name)?, snapshot.epoch)));
    let (own_ones, others): (Vec<_>, Vec<_>) = for_pool.partition(|(uuid, _)| *uuid == own);
    let existing = if others.is_empty() {
        Vec::new()
    } else {
        Pool::from_container(to).containers().wait()?
    };
    let is_left = |uuid: Uuid| !existing.iter().any(|info| info.uuid == uuid);
    let left = others.into_iter().filter(|(uuid, _)| is_left(*uuid));
    own_ones.into_iter().chain(left).try_for_each(|(_, epoch)| destroy(from, epoch))?;
    from.create_snapshot(&format!("copy to {own} in {pool}")).wait()
}

/// The destination in the name of a snapshot of a copy to this pool; `None` for other snapshots.
fn destination_in(pool: Uuid, name: &str) -> Option<Uuid> {
    let (uuid, in_pool) = name.strip_prefix("copy to ")?.split_once(" in ")?;
    (Uuid::parse(in_pool)? == pool).then_some(Uuid::parse(uuid)?)
}

/// Destroys a snapshot, if it still exists.
fn destroy(from: &Container, epoch: Epoch) -> Result<()> {
    match from.destroy_snapshot(epoch).wait() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        destroyed => destroyed,
    }
}

/// Copies all attributes and properties of the source to the destination, and makes sure that objects created there do
/// not get ids that the source has reserved. Returns true if that has changed anything.
pub(super) fn copy_metadata(from: &Container, to: &Container) -> Result<bool> {
    let mut is_changed = copy_next_oid(from, to)?;
    for (from, to) in [(from.attributes(), to.attributes()), (from.properties(), to.properties())] {
        let all = from.list().wait()?;
        for name in all.iter().filter(|name| !OWN_PROPERTIES.contains(&name.as_str())) {
            let Some(value) = from.get(name).wait()? else { continue };
            if to.get(name).wait()?.as_ref() != Some(&value) {
                to.set(name, &value).wait()?;
                is_changed = true;
            }
        }
    }
    Ok(is_changed)
}

/// Reserves the ids of objects that the source has reserved. Returns true if any were missing.
fn copy_next_oid(from: &Container, to: &Container) -> Result<bool> {
    let (theirs, ours) = (from.next_oid().wait()?, to.next_oid().wait()?);
    match theirs.checked_sub(ours) {
        None | Some(0) => Ok(false),
        // The rest of a block that this client has reserved is always shorter, so these numbers follow `ours`.
        Some(missing) => to.allocate_oids(missing.max(BLOCK)).wait().map(|_| true),
    }
}

/// Removes the recorded state from the destination: the copy is complete, and cannot be resumed any more.
pub(super) fn forget(to: &Container) -> Result<()> {
    to.properties().change(&[(PROPERTY, None), (RUN, None)]).wait()
}

/// The error of a run of a copy that another run has taken over.
#[cold]
fn taken_over_error(to: &Container) -> Error {
    let text = format!(
        "another process has taken over the copy to container {}: wait until it has completed the copy",
        to.info().label
    );
    Error::new(ErrorKind::Busy, text)
}

/// The error for a destination that no call for this source has made.
#[cold]
fn other_container_error(to: &Container) -> Error {
    let text = format!(
        "container {} already exists and is not the result of an earlier call: use another label, or \
         remove it with `esker cont destroy`",
        to.info().label
    );
    Error::new(ErrorKind::Exists, text)
}

#[cold]
fn unreadable_progress_error() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the recorded progress of the copy is not readable: destroy the unfinished container and copy again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let oid = ObjectId { hi: 7 << 40, lo: 9 };
        let after = Anchor::After { shard: 3, position: vec![0, 0x1f, 0xff] };
        for position in [
            CopyPosition::Start,
            CopyPosition::End,
            CopyPosition::After { objects: Anchor::Start, oid },
            CopyPosition::After { objects: after, oid },
        ] {
            for (epoch, owns_snapshot) in [(None, false), (Some(Epoch(5)), true)] {
                let source = Uuid::parse("1b4e28ba-2fa1-11d2-883f-0016d3cca427").unwrap();
                let run = Uuid::parse("6fa459ea-ee8a-4ca4-894e-db77e160355e").unwrap();
                let state = CopyState {
                    run,
                    source,
                    epoch,
                    owns_snapshot,
                    position: position.clone(),
                    resumed: true,
                };
                assert_eq!(CopyState::parse(&state.to_text()), Some(state));
            }
        }
        assert_eq!(CopyState::parse("3 x"), None);
    }

    #[test]
    fn fuzz_notes() {
        let source = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let texts = ["- own start", "77 given end", "7 own behind 1.2 3 001fff", "9"];
        let notes = texts.map(|rest| format!("2 {source} {source} {rest}").into_bytes());
        esker_testing::fuzz("notes", &notes, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let _ = DrainState::parse(&text);
            if let Some(state) = CopyState::parse(&text) {
                assert_eq!(
                    CopyState::parse(&state.to_text()).map(|again| again.epoch),
                    Some(state.epoch)
                );
            }
        });
    }
}
