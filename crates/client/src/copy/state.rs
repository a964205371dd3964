//! Where a copy stands, as it is noted in a property of the target (docs/format.md, "Copies in progress").
use super::{Options, UNFINISHED, access, open_alone};
use crate::access::Access;
use crate::container::Container;
use crate::pool::Pool;
use esker_backend::NewContainer;
use esker_os::executor::Wait;
use esker_types::info::OpenMode;
use esker_types::ops::Anchor;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result, Uuid};

/// The property of a copy.
const PROPERTY: &str = "copy";
/// The property of a container that another is drained into.
const DRAINED: &str = "drained";
const DRAINED_METADATA: &str = "prop:drained";

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Start,
    /// Done up to and with `oid`, which is among the objects that are listed from `objects` on.
    Behind {
        objects: Anchor,
        oid: ObjectId,
    },
    /// All objects are copied.
    End,
}

/// A copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// The container that is copied.
    source: Uuid,
    /// The snapshot that is read, where the source has such.
    pub(super) epoch: Option<Epoch>,
    /// The snapshot was made for this copy.
    pub(super) owns_snapshot: bool,
    pub(super) position: Position,
    /// Somebody else began.
    pub(super) resumed: bool,
}

/// Makes the target, or finds the one that was left.
pub(super) fn begin(
    from: &Container,
    pool: &Pool,
    label: &str,
    options: &Options,
) -> Result<(Container, State)> {
    match pool.open_container(label, OpenMode::ReadOnly).wait() {
        Ok(to) => return ended_before_the_end(&to, pool, label, from, options),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let unfinished = format!("{label}{UNFINISHED}");
    if let Some(to) = open_alone(pool, &unfinished)? {
        let state = State::resume(&to, from, options)?;
        return Ok((to, state));
    }
    let new = NewContainer::named(&unfinished)
        .with_checksum(from.info().checksum)
        .with_first_oid(from.next_oid().wait()?);
    pool.create_container(&new).wait()?;
    let to = pool.open_container(&unfinished, OpenMode::Exclusive).wait()?;
    let state = State::begin(&to, from, options)?;
    Ok((to, state))
}

/// It has its label already, and what comes after that was not reached; else it is somebody's.
fn ended_before_the_end(
    to: &Container,
    pool: &Pool,
    label: &str,
    from: &Container,
    options: &Options,
) -> Result<(Container, State)> {
    if to.properties().get(PROPERTY).wait()?.is_none() {
        let text = format!(
            "there is a container {label} already: copy to another label, or remove it with \
             `esker cont destroy`"
        );
        return Err(Error::new(ErrorKind::Exists, text));
    }
    to.close().wait()?;
    let to = pool.open_container(label, OpenMode::Exclusive).wait()?;
    let state = State::resume(&to, from, options)?;
    Ok((to, state))
}

impl State {
    /// The state that is read.
    pub(super) fn access(&self) -> Access<'static> {
        access(self.epoch)
    }

    /// The snapshot is made first: without a note of it, the copy has not begun.
    fn begin(to: &Container, from: &Container, options: &Options) -> Result<Self> {
        let has_snapshots = from.capabilities().snapshots;
        let owns_snapshot = has_snapshots && options.snapshot.is_none();
        let epoch = match owns_snapshot {
            true => Some(new_snapshot(from, to)?),
            false => options.snapshot,
        };
        let position = Position::Start;
        let source = from.info().uuid;
        let state = Self { source, epoch, owns_snapshot, position, resumed: false };
        state.save(to)?;
        Ok(state)
    }

    fn resume(to: &Container, from: &Container, options: &Options) -> Result<Self> {
        let Some(noted) = to.properties().get(PROPERTY).wait()? else {
            return Self::begin(to, from, options);
        };
        let state = std::str::from_utf8(&noted).ok().and_then(Self::parse).ok_or_else(damaged)?;
        let other_snapshot = options.snapshot.is_some() && options.snapshot != state.epoch;
        if state.source != from.info().uuid || other_snapshot {
            return Err(another(to));
        }
        state.check_snapshot(from)?;
        Ok(state)
    }

    /// A snapshot that is gone must not look like an empty container. Where all is copied it may be.
    fn check_snapshot(&self, from: &Container) -> Result<()> {
        match self.epoch {
            Some(epoch) if self.position != Position::End => from.at(epoch).wait().map(drop),
            _ => Ok(()),
        }
    }

    /// Notes where it stands now.
    pub(super) fn note(
        &mut self,
        to: &Container,
        from: &Container,
        position: Position,
    ) -> Result<()> {
        self.check_snapshot(from)?;
        self.position = position;
        self.save(to)
    }

    fn save(&self, to: &Container) -> Result<()> {
        to.properties().set(PROPERTY, self.to_text().as_bytes()).wait()
    }

    /// Words: version, source, epoch or `-`, whether the snapshot is its own, position.
    fn to_text(&self) -> String {
        let epoch = self.epoch.map_or("-".to_owned(), |epoch| epoch.0.to_string());
        let own = if self.owns_snapshot { "own" } else { "given" };
        let position = match &self.position {
            Position::Start | Position::Behind { objects: Anchor::End, .. } => "start".to_owned(),
            Position::Behind { objects: Anchor::Start, oid } => format!("behind {oid}"),
            Position::Behind { objects: Anchor::After { shard, position }, oid } => {
                let hex: String = position.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("behind {oid} {shard} {hex}")
            }
            Position::End => "end".to_owned(),
        };
        format!("1 {} {epoch} {own} {position}", self.source)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let version = words.next()?;
        let source = Uuid::parse(words.next()?)?;
        let epoch = match words.next()? {
            "-" => None,
            number => Some(Epoch(number.parse().ok()?)),
        };
        let owns_snapshot = words.next()? == "own";
        let position = match words.next()? {
            "start" => Position::Start,
            "end" => Position::End,
            _ => Position::Behind {
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
        (version == "1").then_some(Self { source, epoch, owns_snapshot, position, resumed: true })
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = |at: usize| hex.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// How far a container is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Drained {
    source: Uuid,
    /// All that was written to the source until then is in the target.
    pub(super) until: Epoch,
    /// Somebody else began.
    pub(super) resumed: bool,
}

impl Drained {
    pub(super) fn save(&self, to: &Container) -> Result<()> {
        let text = format!("1 {} {}", self.source, self.until.0);
        to.properties().set(DRAINED, text.as_bytes()).wait()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let version = words.next()?;
        let source = Uuid::parse(words.next()?)?;
        let until = Epoch(words.next()?.parse().ok()?);
        (version == "1").then_some(Self { source, until, resumed: true })
    }
}

/// The target of a drain, made where it is not there, and how far it is. The note is there from the beginning.
pub(super) fn begin_drain(
    from: &Container,
    pool: &Pool,
    label: &str,
) -> Result<(Container, Drained)> {
    let new = Drained { source: from.info().uuid, until: Epoch(0), resumed: false };
    let note = format!("1 {} 0", new.source);
    let metadata: [(&str, &[u8]); 1] = [(DRAINED_METADATA, note.as_bytes())];
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
    let Some(noted) = to.properties().get(DRAINED).wait()? else { return Err(another(&to)) };
    let state = std::str::from_utf8(&noted).ok().and_then(Drained::parse).ok_or_else(damaged)?;
    if state.source == new.source { Ok((to, state)) } else { Err(another(&to)) }
}

/// The name says what the snapshot is for. One of a copy that was killed before it noted it is dropped.
pub(super) fn new_snapshot(from: &Container, to: &Container) -> Result<Epoch> {
    let name = format!("copy to {}", to.info().uuid);
    for left in from.snapshots().wait()?.iter().filter(|snapshot| snapshot.name == name) {
        from.destroy_snapshot(left.epoch).wait()?;
    }
    from.create_snapshot(&name).wait()
}

/// Gives the target all attributes and properties of the source.
pub(super) fn copy_metadata(from: &Container, to: &Container) -> Result<()> {
    for (from, to) in [(from.attributes(), to.attributes()), (from.properties(), to.properties())] {
        let all = from.list().wait()?;
        for name in all.iter().filter(|name| ![PROPERTY, DRAINED].contains(&name.as_str())) {
            if let Some(value) = from.get(name).wait()? {
                to.set(name, &value).wait()?;
            }
        }
    }
    Ok(())
}

/// No object made in the target gets an id that the source gave away.
pub(super) fn copy_next_oid(from: &Container, to: &Container) -> Result<()> {
    let (theirs, ours) = (from.next_oid().wait()?, to.next_oid().wait()?);
    match theirs.checked_sub(ours) {
        None | Some(0) => Ok(()),
        Some(missing) => to.allocate_oids(missing).wait().map(drop),
    }
}

/// The copy is whole.
pub(super) fn forget(to: &Container) -> Result<()> {
    to.properties().remove(PROPERTY).wait()
}

#[cold]
fn another(to: &Container) -> Error {
    let text = format!(
        "container {} is there already, and is no beginning of this: take another label, or remove it with \
         `esker cont destroy`",
        to.info().label
    );
    Error::new(ErrorKind::Exists, text)
}

#[cold]
fn damaged() -> Error {
    Error::new(ErrorKind::Corrupt, "the note of where the copy stands cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back() {
        let oid = ObjectId { hi: 7 << 40, lo: 9 };
        let after = Anchor::After { shard: 3, position: vec![0, 0x1f, 0xff] };
        for position in [
            Position::Start,
            Position::End,
            Position::Behind { objects: Anchor::Start, oid },
            Position::Behind { objects: after, oid },
        ] {
            for (epoch, owns_snapshot) in [(None, false), (Some(Epoch(5)), true)] {
                let source = Uuid::parse("1b4e28ba-2fa1-11d2-883f-0016d3cca427").unwrap();
                let state = State {
                    source,
                    epoch,
                    owns_snapshot,
                    position: position.clone(),
                    resumed: true,
                };
                assert_eq!(State::parse(&state.to_text()), Some(state));
            }
        }
        assert_eq!(State::parse("2 x"), None);
    }

    #[test]
    fn fuzz_notes() {
        let source = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let texts = ["- own start", "77 given end", "7 own behind 1.2 3 001fff", "9"];
        let notes = texts.map(|rest| format!("1 {source} {rest}").into_bytes());
        esker_testing::fuzz("notes", &notes, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let _ = Drained::parse(&text);
            if let Some(state) = State::parse(&text) {
                assert_eq!(
                    State::parse(&state.to_text()).map(|again| again.epoch),
                    Some(state.epoch)
                );
            }
        });
    }
}
