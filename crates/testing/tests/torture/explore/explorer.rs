//! Stops a writer before each of its stores, and lets other processes read.
use super::STOPS_VARIABLE;
use super::changes::{Kind, Plan};
use super::content::{IN_DOUBT, Item};
use super::copies::{self, Copier, NOT_SALVAGED};
use super::handles::content_of;
use super::observer::{self, Answer, Observer, Request, WAITS};
use super::writer::{Event, Method, Writer};
use crate::common::{Folder, PoolKind};
use esker_testing::{Random, SEED_VARIABLE};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Failures that are collected before the test ends.
const FAILURES_MAX: usize = 10;
/// Number of the first put of other writers; the numbers of the writer under test are smaller.
const FIRST_PUT: u64 = 1000;
/// Other writers put at one of this number of stops.
const STOPS_PER_PUT: u64 = 8;

/// Stops at which others read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample {
    All,
    Only(u64),
    /// One stop in this many on average.
    OneIn(u64),
}

/// Counts of one exploration.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stops: u64,
    pub(super) reads: u64,
    pub(super) copies: u64,
    /// Number of reads that waited for the writer.
    pub(super) waits: u64,
    pub(super) puts: u64,
    /// Puts of other writers that waited for the writer.
    pub(super) puts_waited: u64,
    pub(super) time: Duration,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stops, reads, copies, waits, puts, puts_waited, time } = self;
        write!(f, "{stops} stops, {copies} copies checked, {reads} reads ({waits} waited), ")?;
        write!(f, "{puts} puts of others ({puts_waited} waited), {:.1} s", time.as_secs_f64())
    }
}

/// A read of all items that has not been answered.
struct Pending {
    turn: u64,
    /// Steps that were visible when it began.
    visible: usize,
    /// True if the writer has continued since.
    has_waited: bool,
}

/// A reader, and its read that has not ended yet.
struct Reader {
    observer: Observer,
    pending: Option<Pending>,
    opens_anew: bool,
}

impl Reader {
    /// A request to read. `put` is the number of the last acknowledged put of other writers.
    fn request(&self, turn: u64, put: u64) -> Request<'static> {
        match self.opens_anew {
            true => Request::OpenAndRead { turn, put },
            false => Request::Read { turn, put },
        }
    }
}

/// Observations of the current step. `waited` is the first and the last stop at which readers waited. `last_old` is the
/// last stop at which a copy had the old content, and `first_new` the first at which it had the new one.
#[derive(Default)]
struct Doubt {
    waited: Option<(u64, u64)>,
    last_old: u64,
    first_new: Option<u64>,
}

/// One change of one pool being explored.
pub(super) struct Explorer {
    plan: Plan,
    seed: u64,
    folder: Folder,
    random: Random,
    readers: Vec<Reader>,
    other_writer: Observer,
    put_pending: bool,
    checker: Observer,
    copier: Copier,
    /// Number of the last acknowledged put of the other writer, and of the last one that it began.
    puts: [u64; 2],
    acknowledged: usize,
    /// Number of steps that a reader has seen or that are acknowledged.
    visible: usize,
    doubt: Doubt,
    counts: Counts,
    failures: Vec<String>,
}

fn home_in(folder: &Folder) -> PathBuf {
    folder.path().join("home")
}

impl Explorer {
    pub(super) fn new(kind: Kind, pool_kind: PoolKind, seed: u64) -> Self {
        let folder = Folder::new(pool_kind);
        let home = home_in(&folder);
        let plan = Plan::create(kind, pool_kind, &home);
        let reader = |opens_anew: bool| Reader {
            observer: Observer::start(plan, &home, !opens_anew),
            pending: None,
            opens_anew,
        };
        // Opening a pool over nodes resolves the commits that are in doubt.
        let readers = [false, true].into_iter().filter(|anew| !(*anew && kind.is_over_nodes()));
        Self {
            plan,
            seed,
            random: Random::new(seed, 900 + kind as u64),
            readers: readers.map(reader).collect(),
            other_writer: Observer::start(plan, &home, true),
            put_pending: false,
            checker: Observer::start(plan, &home, false),
            copier: Copier::new(),
            puts: [0, 0],
            acknowledged: 0,
            visible: 0,
            doubt: Doubt::default(),
            counts: Counts::default(),
            failures: Vec::new(),
            folder,
        }
    }

    fn home(&self) -> PathBuf {
        home_in(&self.folder)
    }

    fn start_writer(&self, method: Method) -> Option<Writer> {
        let home = self.home();
        let arguments = format!("{} {}", home.display(), self.plan.to_arguments());
        Writer::start(&arguments, &home, method)
    }

    /// The locations of all stores of the change.
    pub(super) fn list_stops(self, method: Method) -> Option<Vec<String>> {
        let mut writer = self.start_writer(method)?;
        let mut found = Vec::new();
        loop {
            match writer.proceed() {
                Event::Stop => found.push(writer.location()),
                Event::Acknowledged => {}
                Event::Done => return Some(found),
            }
        }
    }

    /// Explores the change from its beginning to its end. `None` if processes may not be traced.
    pub(super) fn explore(mut self, sample: Sample) -> Option<Counts> {
        let begun = Instant::now();
        let mut writer = self.start_writer(Method::Faults)?;
        while !self.must_end() {
            match writer.proceed() {
                Event::Stop => self.stop(&writer, sample),
                Event::Acknowledged => self.acknowledge(),
                Event::Done => break,
            }
        }
        self.expect_no_failures();
        self.counts.stops += 1;
        self.observe(&writer);
        writer.finish();
        self.conclude();
        self.counts.time = begun.elapsed();
        Some(std::mem::take(&mut self.counts))
    }

    /// Kills the writer at a stop; the others continue.
    pub(super) fn kill_at(mut self, stop: u64) -> Option<u64> {
        let mut writer = self.start_writer(Method::Faults)?;
        while self.counts.stops < stop {
            match writer.proceed() {
                Event::Stop => self.counts.stops += 1,
                Event::Acknowledged => self.acknowledge(),
                Event::Done => break,
            }
        }
        let when = self.describe(&writer);
        writer.kill();
        self.read_after_death(&when);
        self.put_after_death(&when);
        self.read_after_death(&when);
        let abandoned = self.readers[0].observer.expect(Request::ExpectAbandoned);
        self.expect_fine(abandoned.map(drop), &when);
        self.conclude();
        Some(self.counts.stops)
    }

    /// Notes that a step is acknowledged. If the step is one commit, readers may have waited only around its decision.
    fn acknowledge(&mut self) {
        self.acknowledged += 1;
        self.visible = self.visible.max(self.acknowledged);
        let Doubt { waited, last_old, first_new } = std::mem::take(&mut self.doubt);
        if !self.plan.kind.commits_once() {
            return;
        }
        let (Some((first, last)), Some(first_new)) = (waited, first_new) else { return };
        if first_new < first || last_old > last {
            let text = format!(
                "readers waited at stops {first} to {last}, the commit was decided at {last_old} to {first_new}"
            );
            self.failures.push(text);
        }
    }

    /// Handles a stop of the writer. If the sample includes it, others read.
    fn stop(&mut self, writer: &Writer, sample: Sample) {
        self.counts.stops += 1;
        let is_chosen = match sample {
            Sample::All => true,
            Sample::Only(stop) => stop == self.counts.stops,
            Sample::OneIn(times) => self.random.one_in(times),
        };
        if is_chosen {
            self.observe(writer);
        }
    }

    /// Description of the current stop, for the report of a failure.
    fn describe(&self, writer: &Writer) -> String {
        format!(
            "stop {}, {} steps acknowledged, before {}",
            self.counts.stops,
            self.acknowledged,
            writer.describe()
        )
    }

    /// Lets all others read while the writer is stopped.
    fn observe(&mut self, writer: &Writer) {
        let failures = self.failures.len();
        // All of them work at the same time.
        let (copy, turn) = (self.folder.path().join("copy"), self.counts.copies);
        self.begin_check(&copy, turn);
        (0..self.readers.len()).for_each(|number| self.begin_read(number));
        for number in 0..self.readers.len() {
            let found = self.end_read(number);
            self.note(found);
        }
        let checked = self.end_check(&copy, turn);
        self.note(checked);
        // Writing to a pool over nodes resolves the commits that are in doubt.
        let may_put = !self.plan.kind.is_over_nodes();
        if self.put_pending || may_put && self.random.one_in(STOPS_PER_PUT) {
            let put = self.put_elsewhere();
            self.note(put);
        }
        if self.failures.len() > failures {
            let when = self.describe(writer);
            self.failures[failures..].iter_mut().for_each(|text| *text = format!("{when}: {text}"));
        }
    }

    /// True if there are enough failures, or one after which no process can continue.
    fn must_end(&self) -> bool {
        let is_stuck = |text: &String| text.ends_with(WAITS);
        self.failures.len() >= FAILURES_MAX || self.failures.iter().any(is_stuck)
    }

    fn note(&mut self, outcome: Result<(), String>) {
        self.failures.extend(outcome.err());
    }

    /// Lets a reader read all items, unless its last read has not been answered.
    fn begin_read(&mut self, number: usize) {
        let (turn, visible) = (self.counts.reads, self.visible);
        let reader = &mut self.readers[number];
        if reader.pending.is_none() {
            reader.observer.ask(reader.request(turn, self.puts[0]));
            reader.pending = Some(Pending { turn, visible, has_waited: false });
            self.counts.reads += 1;
        }
    }

    /// Waits for the answer of a reader, or until it is certain that it waits for the writer.
    fn end_read(&mut self, number: usize) -> Result<(), String> {
        let reader = &mut self.readers[number];
        let Some(pending) = reader.pending.take() else { return Ok(()) };
        let answer = match self.plan.kind.lets_readers_wait(reader.opens_anew) {
            true => reader.observer.await_answer_or_wait(pending.has_waited),
            false => Answer::Given(reader.observer.await_answer()),
        };
        let Answer::Given(given) = answer else {
            self.counts.waits += u64::from(!pending.has_waited);
            reader.pending = Some(Pending { has_waited: true, ..pending });
            let first = self.doubt.waited.map_or(self.counts.stops, |(first, _)| first);
            self.doubt.waited = Some((first, self.counts.stops));
            return Ok(());
        };
        let found = observer::split(self.plan, &given?, pending.turn).swap_remove(0);
        self.visible = match pending.has_waited {
            false => self.step_of(found)?,
            true => self.steps_during(found, pending.visible)?,
        };
        Ok(())
    }

    /// The numbers of steps that a reader may see, if it has seen `visible` steps before.
    fn possible(&self, visible: usize) -> RangeInclusive<usize> {
        visible..=(self.acknowledged + 1).min(self.plan.kind.steps())
    }

    /// The number of steps that a reader has seen while no process made changes.
    fn step_of(&self, found: Vec<(Item, String)>) -> Result<usize, String> {
        self.step_from(self.visible, found)
    }

    /// The number of steps after which the pool has the content `found`, at least `visible`. The error describes the
    /// differences.
    fn step_from(&self, visible: usize, found: Vec<(Item, String)>) -> Result<usize, String> {
        let content = content_of(found);
        let mut differences = Vec::new();
        for steps in self.possible(visible) {
            let expected = self.plan.content_after(steps);
            let is_as = |(item, text): &(&Item, &String)| {
                **text == expected[*item] || **text == IN_DOUBT || **text == NOT_SALVAGED
            };
            match content.iter().find(|found| !is_as(found)) {
                None => return Ok(steps),
                Some((item, text)) => differences.push(format!(
                    "not the content after {steps} steps: {item:?} is {text}, not {}",
                    expected[item]
                )),
            }
        }
        Err(differences.join("; "))
    }

    /// The number of steps that a reader has seen while the writer continued: items that are read later are not older.
    fn steps_during(&self, found: Vec<(Item, String)>, visible: usize) -> Result<usize, String> {
        let last = *self.possible(visible).end();
        let mut steps = visible;
        for (item, text) in found.into_iter().filter(|(_, text)| text != IN_DOUBT) {
            while self.plan.content_after(steps)[&item] != text {
                steps += 1;
                if steps > last {
                    return Err(format!("in a read from {visible} steps on, {item:?} is {text}"));
                }
            }
        }
        Ok(steps.max(self.visible))
    }

    /// Lets another writer put a number, or polls for the answer to its last put.
    fn put_elsewhere(&mut self) -> Result<(), String> {
        if !self.put_pending {
            self.puts[1] = FIRST_PUT.max(self.puts[1] + 1);
            self.counts.puts += 1;
            self.other_writer.ask(Request::Put { number: self.puts[1] });
        }
        match self.other_writer.await_answer_or_wait(self.put_pending) {
            Answer::Given(given) => {
                self.put_pending = false;
                given?;
                self.puts[0] = self.puts[1];
            }
            Answer::Waits => {
                self.counts.puts_waited += u64::from(!self.put_pending);
                self.put_pending = true;
            }
        }
        Ok(())
    }

    /// Copies the pool in its current state, and lets a process check the copy.
    fn begin_check(&mut self, copy: &Path, turn: u64) {
        self.copier.copy(&self.home(), copy);
        self.counts.copies += 1;
        self.checker.ask(Request::Check { home: copy, turn, puts: self.puts });
    }

    /// Waits until the copy is checked.
    fn end_check(&mut self, copy: &Path, turn: u64) -> Result<(), String> {
        let answer = self.checker.await_answer();
        let _ = std::fs::remove_dir_all(copy);
        let answer = answer.map_err(|text| format!("in a copy: {text}"))?;
        let mut reads = observer::split(self.plan, &answer, turn);
        let salvaged = reads.swap_remove(1);
        let read =
            self.step_of(reads.swap_remove(0)).map_err(|text| format!("in a copy: {text}"))?;
        self.note_copy(read);
        self.judge_salvaged(salvaged).map_err(|text| format!("salvaged from a copy: {text}"))
    }

    /// Notes whether a copy has the content before or after the current step.
    fn note_copy(&mut self, steps: usize) {
        match steps > self.acknowledged {
            true => drop(self.doubt.first_new.get_or_insert(self.counts.stops)),
            false => self.doubt.last_old = self.counts.stops,
        }
    }

    /// A salvage delivers a change on one node completely or not at all. A node delivers its share of a commit over
    /// nodes only after it has committed, even if another node has committed before.
    fn judge_salvaged(&self, salvaged: Vec<(Item, String)>) -> Result<(), String> {
        if !self.plan.kind.is_over_nodes() {
            return self.step_of(salvaged).map(drop);
        }
        let from = self.acknowledged;
        salvaged.into_iter().try_for_each(|found| self.step_from(from, vec![found]).map(drop))
    }

    /// After the death of the writer, readers see the complete change or nothing, and do not wait.
    fn read_after_death(&mut self, when: &str) {
        let turn = self.counts.reads;
        self.counts.reads += 1;
        for number in 0..self.readers.len() {
            let reader = &mut self.readers[number];
            let answer = reader.observer.expect(reader.request(turn, self.puts[0]));
            let seen = answer.and_then(|answer| {
                self.step_of(observer::split(self.plan, &answer, turn).swap_remove(0))
            });
            self.visible = *seen.as_ref().unwrap_or(&self.visible);
            self.expect_fine(seen.map(drop), when);
        }
    }

    /// After the death of the writer, others can put.
    fn put_after_death(&mut self, when: &str) {
        let reader = &mut self.readers[0].observer;
        let put = reader.expect(Request::Put { number: FIRST_PUT });
        self.puts = [FIRST_PUT, FIRST_PUT];
        self.expect_fine(put.map(drop), when);
    }

    /// Fails the test if the outcome is an error.
    fn expect_fine(&mut self, outcome: Result<(), String>, when: &str) {
        let outcome = outcome.map_err(|text| format!("after a kill at {when}: {text}"));
        self.note(outcome);
        self.expect_no_failures();
    }

    /// Fails the test if any failure was noted, with the seed that replays it.
    fn expect_no_failures(&self) {
        let Plan { kind, pool_kind, .. } = self.plan;
        let replay = format!("{SEED_VARIABLE}={} {STOPS_VARIABLE}=<stop or all>", self.seed);
        let failures = self.failures.join("\n");
        assert!(failures.is_empty(), "{kind:?} on {pool_kind:?}, to replay: {replay}\n{failures}");
    }

    /// Waits for pending reads, closes the pool everywhere, and checks it.
    fn conclude(&mut self) {
        if self.put_pending {
            let put = self.other_writer.await_answer();
            self.expect_fine(put.map(drop), "the end");
        }
        for reader in self.readers.drain(..) {
            reader.observer.finish();
        }
        copies::expect_sound(self.plan, &self.home(), "at the end");
    }
}
