//! Applies the same operations to both sides and compares the results.
use super::changes::changes;
use super::reads::{Answer, Read};
use super::space::Space;
use super::takes::{Content, Removing};
use esker_backend::OwnedWrites;
use esker_backend::memory::Memory;
use esker_backend::{Capabilities, NewContainer, OpenContainer, Pool};
use esker_testing::Random;
use esker_testing::SEED_VARIABLE;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{Change, ReadAt, ReadTokens, View};
use esker_types::{Epoch, ErrorKind, ObjectId, Result};
use std::sync::Arc;

/// Maximum number of snapshots that exist at the same time.
const SNAPSHOTS: usize = 5;
/// Steps between comparisons of all content.
const STEPS_BETWEEN_AUDITS: u64 = 250;

/// A backend with one open container.
struct Side {
    container: Box<dyn OpenContainer>,
    snapshots: Vec<Epoch>,
}

impl Side {
    fn new(pool: Arc<dyn Pool>) -> Result<Self> {
        let info = pool.create_container(&NewContainer::default()).wait()?;
        let name = ContainerRef::Uuid(info.uuid);
        let container = pool.open_container(name, OpenMode::ReadWrite).wait()?;
        Ok(Self { container, snapshots: Vec::new() })
    }

    /// The latest state, or the snapshot at this index of the list.
    fn view(&self, snapshot: Option<usize>) -> View {
        snapshot.map_or(View::Latest, |index| View::Snapshot(self.snapshots[index]))
    }

    /// The answer to a read, in the latest state or at the snapshot with this index.
    fn ask(&self, read: &Read, snapshot: Option<usize>) -> Answer {
        let at = ReadAt { view: self.view(snapshot), tokens: None };
        read.ask(&*self.container, at)
    }

    /// The answer to a read of a transaction, which `tokens` record.
    fn ask_noted(&self, read: &Read, tokens: &ReadTokens) -> Answer {
        let at = ReadAt { view: View::Latest, tokens: Some(tokens) };
        read.ask(&*self.container, at)
    }

    /// Applies a change. With `tokens`, only if the reads that they record still hold.
    fn write(&self, buffer: &OwnedWrites, tokens: Option<&ReadTokens>) -> Result<()> {
        let parts = buffer.parts();
        let writes = buffer.writes(&parts);
        self.container.write(Change { tokens, ..Change::from_writes(&writes) }).wait().map(drop)
    }

    fn create_snapshot(&mut self) -> Result<()> {
        let epoch = self.container.create_snapshot("").wait()?;
        self.snapshots.push(epoch);
        Ok(())
    }

    fn destroy_snapshot(&mut self, index: usize) -> Result<()> {
        let epoch = self.snapshots.remove(index);
        self.container.destroy_snapshot(epoch).wait()
    }
}

/// Reads of a transaction, with their answers.
type Noted = Vec<(Read, Answer)>;

/// The state of a comparison.
pub(super) struct Driver {
    seed: u64,
    step: u64,
    random: Random,
    space: Space,
    /// The capabilities of the subject.
    able: Capabilities,
    /// The backend under test, and the reference in memory.
    subject: Side,
    reference: Side,
    transactions: u64,
    needless_restarts: u64,
}

impl Driver {
    pub(super) fn new(seed: u64, subject: Arc<dyn Pool>) -> Result<Self> {
        let able = subject.capabilities();
        Ok(Self {
            seed,
            step: 0,
            random: Random::new(seed, 0),
            space: Space::new(able),
            able,
            subject: Side::new(subject)?,
            reference: Side::new(Arc::new(Memory::new(able.targets)))?,
            transactions: 0,
            needless_restarts: 0,
        })
    }

    /// Executes `steps` random operations on both sides.
    pub(super) fn run(&mut self, steps: u64) -> Result<()> {
        for step in 1..=steps {
            self.step = step;
            self.one_step()?;
            if step % STEPS_BETWEEN_AUDITS == 0 || step == steps {
                self.audit();
            }
        }
        // A backend may restart transactions without a conflict, but rarely.
        let most = 3 + self.transactions / 5;
        let restarts = self.needless_restarts;
        let seed = self.seed;
        assert!(
            restarts <= most,
            "{SEED_VARIABLE}={seed}: {restarts} of {} transactions restarted without a conflict",
            self.transactions
        );
        Ok(())
    }

    /// Executes one random operation that the subject is capable of.
    fn one_step(&mut self) -> Result<()> {
        match self.random.below(40) {
            0 if self.able.snapshots => self.change_snapshots(),
            1..=3 if self.able.transactions => self.transaction(),
            4 | 5 if self.able.transactions => self.take(),
            6 | 7 if self.able.transactions => self.take_with_array(),
            0..=19 => self.write(),
            _ => {
                let read = Read::random(&mut self.random, &self.space);
                let snapshot = self.some_view();
                self.compare(&read, snapshot);
                Ok(())
            }
        }
    }

    /// Index of a random snapshot in one of three cases, otherwise `None` for the latest state. Always `None` if there
    /// are no snapshots.
    fn some_view(&mut self) -> Option<usize> {
        let count = self.subject.snapshots.len();
        let wanted = count > 0 && self.random.one_in(3);
        wanted.then(|| self.random.below(count as u64) as usize)
    }

    /// Fails the test unless subject and reference give the same answer to a read.
    #[track_caller]
    fn compare(&self, read: &Read, snapshot: Option<usize>) {
        let (found, expected) =
            (self.subject.ask(read, snapshot), self.reference.ask(read, snapshot));
        self.check(found == expected, || {
            format!("{read:?} at {snapshot:?}:\nsubject   {found:?}\nreference {expected:?}")
        });
    }

    /// Fails the test with the seed, the step and the message, unless `holds`.
    #[track_caller]
    fn check(&self, holds: bool, message: impl Fn() -> String) {
        assert!(holds, "{SEED_VARIABLE}={} step {}: {}", self.seed, self.step, message());
    }

    fn write(&mut self) -> Result<()> {
        let space = self.space.clone();
        self.write_in(&space)
    }

    /// Writes one random change of this key space to both sides.
    fn write_in(&mut self, space: &Space) -> Result<()> {
        let buffer = changes(&mut self.random, space, 1)?;
        let outcomes = [&self.subject, &self.reference].map(|side| side.write(&buffer, None));
        self.check_outcomes(&buffer, outcomes);
        Ok(())
    }

    /// Fails the test unless a change succeeded on both sides or failed on both. If only one check of the change can
    /// fail, the kinds of error must be equal, too.
    #[track_caller]
    fn check_outcomes(&self, buffer: &OwnedWrites, outcomes: [Result<()>; 2]) {
        let [found, expected] = outcomes.map(|outcome| outcome.map_err(|error| error.kind()));
        let agree = match buffer.is_simple() {
            true => found == expected,
            false => found.is_ok() == expected.is_ok(),
        };
        self.check(agree, || format!("{buffer:?}\nsubject   {found:?}\nreference {expected:?}"));
    }

    /// Creates a snapshot on both sides. In one of three cases, or if there are [`SNAPSHOTS`] already, destroys a
    /// random one on both sides.
    fn change_snapshots(&mut self) -> Result<()> {
        let count = self.subject.snapshots.len();
        if count < SNAPSHOTS && !self.random.one_in(3) {
            self.subject.create_snapshot()?;
            return self.reference.create_snapshot();
        }
        if count > 0 {
            let index = self.random.below(count as u64) as usize;
            self.subject.destroy_snapshot(index)?;
            self.reference.destroy_snapshot(index)?;
        }
        Ok(())
    }

    /// Removes a dkey on both sides, and compares the content that each returns.
    fn take(&mut self) -> Result<()> {
        let removing = Removing::random(&mut self.random, &self.space, &*self.reference.container);
        let found = removing.remove(&*self.subject.container);
        self.check_taken(&removing, &found);
        Ok(())
    }

    /// Removes a dkey and an array, at times on condition that a read still holds. A refusal is always allowed then.
    fn take_with_array(&mut self) -> Result<()> {
        let focus = self.space.focus(&mut self.random);
        let removing = Removing::random(&mut self.random, &focus, &*self.reference.container);
        let tokens = [ReadTokens::default(), ReadTokens::default()];
        let noted = self.random.one_in(2).then(|| self.read_in_transaction(&focus, &tokens));
        if self.random.one_in(3) {
            self.write_in(&focus)?;
        }
        let reads = noted.as_ref().map(|_| &tokens[0]);
        let found = removing.remove_with_array(&*self.subject.container, reads);
        if reads.is_some() && found == Err(ErrorKind::TxRestart) {
            return Ok(());
        }
        for (read, answer) in noted.iter().filter(|_| found.is_ok()) {
            let now = self.reference.ask(read, None);
            self.check(now == *answer, || format!("a conflict was not detected: {read:?}"));
        }
        let removal = found.as_ref().ok().and_then(|found| found.as_ref()?.removal);
        self.check_taken(&removing, &found.map(|found| found.map(|found| found.taken)));
        if let Some(removal) = removal {
            let expected = self.reference.container.remove_unused(removing.array).wait()?;
            self.check(removal == expected, || format!("{removing:?}: {removal:?}, {expected:?}"));
        }
        Ok(())
    }

    /// Removes a dkey from the reference, and fails the test unless the removed content equals `found`, the content
    /// that the subject removed.
    #[track_caller]
    fn check_taken(&self, removing: &Removing, found: &Content) {
        let expected = removing.remove(&*self.reference.container);
        self.check(*found == expected, || {
            format!("{removing:?}:\nsubject   {found:?}\nreference {expected:?}")
        });
    }

    /// Reads, with concurrent changes, then a commit. Everything uses few objects, so that conflicts are frequent.
    fn transaction(&mut self) -> Result<()> {
        self.transactions += 1;
        let focus = self.space.focus(&mut self.random);
        let tokens = [ReadTokens::default(), ReadTokens::default()];
        let mut noted = Noted::new();
        for _ in 0..self.random.below(4) {
            noted.push(self.read_in_transaction(&focus, &tokens));
        }
        if self.random.one_in(2) {
            (0..4).try_for_each(|_| self.write_in(&focus))?;
        }
        let count = self.random.below(6);
        let buffer = changes(&mut self.random, &focus, count)?;
        self.commit(&buffer, &tokens, &noted);
        Ok(())
    }

    /// A random read on both sides, which `tokens` record for the check at the commit, and its answer.
    fn read_in_transaction(&mut self, focus: &Space, tokens: &[ReadTokens; 2]) -> (Read, Answer) {
        let read = Read::random_in_transaction(&mut self.random, focus);
        let found = self.subject.ask_noted(&read, &tokens[0]);
        let expected = self.reference.ask_noted(&read, &tokens[1]);
        self.check(found == expected, || {
            format!("{read:?}:\nsubject   {found:?}\nreference {expected:?}")
        });
        (read, expected)
    }

    /// A commit may only succeed if all reads would give the same answers now. A restart is always allowed, but must
    /// not be frequent without a conflict.
    fn commit(&mut self, buffer: &OwnedWrites, tokens: &[ReadTokens; 2], noted: &Noted) {
        let found = self.subject.write(buffer, Some(&tokens[0]));
        if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::TxRestart) {
            // An empty commit of the reference tells whether there was a conflict.
            let is_needless =
                self.reference.write(&OwnedWrites::default(), Some(&tokens[1])).is_ok();
            self.needless_restarts += u64::from(is_needless);
            return;
        }
        if found.is_ok() {
            for (read, answer) in noted {
                let now = self.reference.ask(read, None);
                self.check(now == *answer, || format!("a conflict was not detected: {read:?}"));
            }
        }
        let expected = self.reference.write(buffer, None);
        self.check_outcomes(buffer, [found, expected]);
    }

    /// Compares all objects, dkeys and their content on both sides, in the latest state and in every snapshot.
    fn audit(&mut self) {
        let snapshots = (0..self.subject.snapshots.len()).map(Some);
        for view in std::iter::once(None).chain(snapshots) {
            self.compare(&Read::Objects { step: 3 }, view);
            for &oid in &self.space.oids {
                self.compare(&Read::Dkeys { oid, step: 100 }, view);
                let dkeys = self.reference.ask(&Read::Dkeys { oid, step: 100 }, view);
                let Answer::Keys(dkeys) = dkeys else { continue };
                dkeys.into_iter().for_each(|dkey| self.audit_dkey(oid, dkey, view));
            }
        }
    }

    /// Compares the content of a dkey on both sides.
    fn audit_dkey(&self, oid: ObjectId, dkey: Vec<u8>, view: Option<usize>) {
        let read = Read::Akeys { oid, dkey: dkey.clone(), step: 100 };
        self.compare(&read, view);
        let Answer::Keys(akeys) = self.reference.ask(&read, view) else { return };
        for akey in akeys {
            [true, false].iter().for_each(|is_array| {
                self.compare(&Read::whole(oid, &dkey, &akey, *is_array), view);
            });
            self.compare(&Read::Extents { oid, dkey: dkey.clone(), akey, step: 4 }, view);
        }
    }
}
