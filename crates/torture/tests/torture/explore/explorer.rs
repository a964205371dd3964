//! Stops a writer at each of its stores, and lets others look.
use super::changes::{Kind, Plan};
use super::copies::{self, Copier, NOT_SALVAGED};
use super::handles::world_of;
use super::observer::{self, Answer, Observer, Request, WAITS};
use super::world::{IN_DOUBT, Item};
use super::writer::{Event, Method, Writer};
use crate::common::{Folder, Sort};
use esker_torture::{Random, SEED_VARIABLE};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Failures that are collected before the test ends.
const FAILURES_MAX: usize = 10;
/// Number of the first put of other writers; the numbers of the writer under test are smaller.
const FIRST_PUT: u64 = 1000;
/// Other writers put at one stop of this many.
const STOPS_PER_PUT: u64 = 24;

/// Stops at which others look.
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
    pub(super) looks: u64,
    pub(super) copies: u64,
    /// Looks that waited for the writer.
    pub(super) waits: u64,
    pub(super) puts: u64,
    /// Puts of other writers that waited for the writer.
    pub(super) puts_waited: u64,
    pub(super) time: Duration,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stops, looks, copies, waits, puts, puts_waited, time } = self;
        write!(f, "{stops} stops, {copies} copies checked, {looks} looks ({waits} waited), ")?;
        write!(f, "{puts} puts of others ({puts_waited} waited), {:.1} s", time.as_secs_f64())
    }
}

/// A look of a reader during which the writer has gone on.
struct Pending {
    turn: u64,
    /// Steps that were visible when it began.
    floor: usize,
}

/// A reader, and its look that has not ended yet.
struct Reader {
    observer: Observer,
    pending: Option<Pending>,
    opens_anew: bool,
}

/// Stops at which readers waited for the current step, and the copies that were old and new.
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
    putter: Observer,
    put_pending: bool,
    checker: Observer,
    copier: Copier,
    /// Numbers of the last acknowledged put of the other writer and of the last that it began.
    puts: [u64; 2],
    acknowledged: usize,
    /// Steps that somebody has seen, or that are acknowledged.
    floor: usize,
    doubt: Doubt,
    counts: Counts,
    failures: Vec<String>,
}

fn home_in(folder: &Folder) -> PathBuf {
    folder.path().join("home")
}

impl Explorer {
    pub(super) fn new(kind: Kind, sort: Sort, seed: u64) -> Self {
        let folder = Folder::new(sort);
        let home = home_in(&folder);
        let plan = Plan::create(kind, sort, &home);
        let reader = |opens_anew: bool| Reader {
            observer: Observer::start(plan, &home, !opens_anew),
            pending: None,
            opens_anew,
        };
        // To open a pool over nodes resolves what is in doubt.
        let readers = [false, true].into_iter().filter(|anew| !(*anew && kind.is_over_nodes()));
        Self {
            plan,
            seed,
            random: Random::new(seed, 900 + kind as u64),
            readers: readers.map(reader).collect(),
            putter: Observer::start(plan, &home, true),
            put_pending: false,
            checker: Observer::start(plan, &home, false),
            copier: Copier::new(),
            puts: [0, 0],
            acknowledged: 0,
            floor: 0,
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

    /// The places of all stores of the change.
    pub(super) fn list_stops(self, method: Method) -> Option<Vec<String>> {
        let mut writer = self.start_writer(method)?;
        let mut found = Vec::new();
        loop {
            match writer.proceed() {
                Event::Stop => found.push(writer.place()),
                Event::Acknowledged => {}
                Event::Done => return Some(found),
            }
        }
    }

    /// Explores the change from its beginning to its end. `None` if processes may not be traced.
    pub(super) fn explore(mut self, sample: Sample) -> Option<Counts> {
        let begun = Instant::now();
        let mut writer = self.start_writer(Method::Faults)?;
        while !self.is_enough() {
            match writer.proceed() {
                Event::Stop => self.stop(&writer, sample),
                Event::Acknowledged => self.acknowledge(),
                Event::Done => break,
            }
        }
        self.expect_no_failures();
        self.counts.stops += 1;
        self.look_around(&writer);
        writer.finish();
        self.conclude();
        self.counts.time = begun.elapsed();
        Some(std::mem::take(&mut self.counts))
    }

    /// Kills the writer at a stop; the others go on.
    pub(super) fn kill_at(mut self, stop: u64) -> Option<u64> {
        let mut writer = self.start_writer(Method::Faults)?;
        while self.counts.stops < stop {
            match writer.proceed() {
                Event::Stop => self.counts.stops += 1,
                Event::Acknowledged => self.acknowledge(),
                Event::Done => break,
            }
        }
        let place = self.place(&writer);
        writer.kill();
        self.look_after_death(&place);
        self.put_after_death(&place);
        self.look_after_death(&place);
        let abandoned = self.readers[0].observer.expect(Request::ExpectAbandoned);
        self.expect_fine(abandoned.map(drop), &place);
        self.conclude();
        Some(self.counts.stops)
    }

    fn acknowledge(&mut self) {
        self.acknowledged += 1;
        self.floor = self.floor.max(self.acknowledged);
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

    fn stop(&mut self, writer: &Writer, sample: Sample) {
        self.counts.stops += 1;
        let is_chosen = match sample {
            Sample::All => true,
            Sample::Only(stop) => stop == self.counts.stops,
            Sample::OneIn(times) => self.random.one_in(times),
        };
        if is_chosen {
            self.look_around(writer);
        }
    }

    /// The place at which the writer stands, for the report of a failure.
    fn place(&self, writer: &Writer) -> String {
        format!(
            "stop {}, {} steps acknowledged, before {}",
            self.counts.stops,
            self.acknowledged,
            writer.describe()
        )
    }

    /// Lets all others look while the writer stands still.
    fn look_around(&mut self, writer: &Writer) {
        let failures = self.failures.len();
        for number in 0..self.readers.len() {
            let looked = self.look(number);
            self.note(looked);
        }
        // To write to a pool over nodes resolves what is in doubt.
        let may_put = !self.plan.kind.is_over_nodes();
        if self.put_pending || may_put && self.random.one_in(STOPS_PER_PUT) {
            let put = self.put_elsewhere();
            self.note(put);
        }
        let checked = self.check_copy();
        self.note(checked);
        if self.failures.len() > failures {
            let place = self.place(writer);
            self.failures[failures..]
                .iter_mut()
                .for_each(|text| *text = format!("{place}: {text}"));
        }
    }

    /// There are enough failures, or one after which nobody can go on.
    fn is_enough(&self) -> bool {
        let is_stuck = |text: &String| text.ends_with(WAITS);
        self.failures.len() >= FAILURES_MAX || self.failures.iter().any(is_stuck)
    }

    fn note(&mut self, outcome: Result<(), String>) {
        self.failures.extend(outcome.err());
    }

    /// Lets a reader look, or asks for the answer to its last look.
    fn look(&mut self, number: usize) -> Result<(), String> {
        let (turn, floor) = (self.counts.looks, self.floor);
        let reader = &mut self.readers[number];
        let may_wait = self.plan.kind.lets_readers_wait(reader.opens_anew);
        let was_pending = reader.pending.take();
        if was_pending.is_none() {
            let anew = reader.opens_anew;
            reader.observer.ask(if anew {
                Request::Visit { turn }
            } else {
                Request::Look { turn }
            });
            self.counts.looks += 1;
        }
        let answer = match may_wait {
            true => reader.observer.await_answer_or_wait(was_pending.is_some()),
            false => Answer::Given(reader.observer.await_answer()),
        };
        let is_new = was_pending.is_none();
        let pending = was_pending.unwrap_or(Pending { turn, floor });
        let Answer::Given(given) = answer else {
            self.counts.waits += u64::from(is_new);
            reader.pending = Some(pending);
            let first = self.doubt.waited.map_or(self.counts.stops, |(first, _)| first);
            self.doubt.waited = Some((first, self.counts.stops));
            return Ok(());
        };
        let looked = observer::split(self.plan, &given?, pending.turn).swap_remove(0);
        self.floor = match is_new {
            true => self.step_of(looked)?,
            false => self.steps_during(looked, pending.floor)?,
        };
        Ok(())
    }

    fn possible(&self, floor: usize) -> RangeInclusive<usize> {
        floor..=(self.acknowledged + 1).min(self.plan.kind.steps())
    }

    /// The steps that a look has seen while nobody changed anything: it must be the content after one of them.
    fn step_of(&self, looked: Vec<(Item, String)>) -> Result<usize, String> {
        self.step_from(self.floor, looked)
    }

    fn step_from(&self, floor: usize, looked: Vec<(Item, String)>) -> Result<usize, String> {
        let world = world_of(looked);
        let mut differences = Vec::new();
        for steps in self.possible(floor) {
            let expected = self.plan.world(steps);
            let is_as = |(item, text): &(&Item, &String)| {
                **text == expected[*item] || **text == IN_DOUBT || **text == NOT_SALVAGED
            };
            match world.iter().find(|found| !is_as(found)) {
                None => return Ok(steps),
                Some((item, text)) => differences.push(format!(
                    "not the content after {steps} steps: {item:?} is {text}, not {}",
                    expected[item]
                )),
            }
        }
        Err(differences.join("; "))
    }

    /// The steps that a look has seen during which the writer went on: later items are not older.
    fn steps_during(&self, looked: Vec<(Item, String)>, floor: usize) -> Result<usize, String> {
        let last = *self.possible(floor).end();
        let mut steps = floor;
        for (item, text) in looked.into_iter().filter(|(_, text)| text != IN_DOUBT) {
            while self.plan.world(steps)[&item] != text {
                steps += 1;
                if steps > last {
                    return Err(format!("in a look from {floor} steps on, {item:?} is {text}"));
                }
            }
        }
        Ok(steps.max(self.floor))
    }

    /// Lets another writer put a number, or asks for the answer to its last put.
    fn put_elsewhere(&mut self) -> Result<(), String> {
        if !self.put_pending {
            self.puts[1] = FIRST_PUT.max(self.puts[1] + 1);
            self.counts.puts += 1;
            self.putter.ask(Request::Put { number: self.puts[1] });
        }
        match self.putter.await_answer_or_wait(self.put_pending) {
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

    /// Checks a copy of the pool as it is now.
    fn check_copy(&mut self) -> Result<(), String> {
        let (copy, turn) = (self.folder.path().join("copy"), self.counts.copies);
        self.copier.copy(&self.home(), &copy);
        self.counts.copies += 1;
        let answer = self.checker.expect(Request::Check { home: &copy, turn, puts: self.puts });
        let _ = std::fs::remove_dir_all(&copy);
        let answer = answer.map_err(|text| format!("in a copy: {text}"))?;
        let mut looks = observer::split(self.plan, &answer, turn);
        let salvaged = looks.swap_remove(1);
        let read =
            self.step_of(looks.swap_remove(0)).map_err(|text| format!("in a copy: {text}"))?;
        self.note_copy(read);
        self.judge_salvaged(salvaged).map_err(|text| format!("salvaged from a copy: {text}"))
    }

    fn note_copy(&mut self, steps: usize) {
        match steps > self.acknowledged {
            true => drop(self.doubt.first_new.get_or_insert(self.counts.stops)),
            false => self.doubt.last_old = self.counts.stops,
        }
    }

    /// A salvage delivers all or nothing of a change on one node. Of a commit over nodes, a node delivers nothing before it has
    /// committed, even if another one has.
    fn judge_salvaged(&self, salvaged: Vec<(Item, String)>) -> Result<(), String> {
        if !self.plan.kind.is_over_nodes() {
            return self.step_of(salvaged).map(drop);
        }
        let from = self.acknowledged;
        salvaged.into_iter().try_for_each(|found| self.step_from(from, vec![found]).map(drop))
    }

    /// After the death of the writer a reader sees the change as a whole or not at all, and waits for nobody.
    fn look_after_death(&mut self, place: &str) {
        let turn = self.counts.looks;
        self.counts.looks += 1;
        for number in 0..self.readers.len() {
            let reader = &mut self.readers[number];
            let anew = reader.opens_anew;
            let request = if anew { Request::Visit { turn } } else { Request::Look { turn } };
            let answer = reader.observer.expect(request);
            let seen = answer.and_then(|answer| {
                self.step_of(observer::split(self.plan, &answer, turn).swap_remove(0))
            });
            self.floor = *seen.as_ref().unwrap_or(&self.floor);
            self.expect_fine(seen.map(drop), place);
        }
    }

    fn put_after_death(&mut self, place: &str) {
        self.puts = [FIRST_PUT, FIRST_PUT];
        let reader = &mut self.readers[0].observer;
        let put = reader.expect(Request::Put { number: FIRST_PUT });
        self.expect_fine(put.map(drop), place);
    }

    fn expect_fine(&mut self, outcome: Result<(), String>, place: &str) {
        let outcome = outcome.map_err(|text| format!("after a kill at {place}: {text}"));
        self.note(outcome);
        self.expect_no_failures();
    }

    fn expect_no_failures(&self) {
        let Plan { kind, sort, .. } = self.plan;
        let replay = format!("{SEED_VARIABLE}={} {kind:?} on {sort:?}", self.seed);
        assert!(self.failures.is_empty(), "{replay}\n{}", self.failures.join("\n"));
    }

    /// Waits for what is pending, closes the pool everywhere and checks it.
    fn conclude(&mut self) {
        if self.put_pending {
            let put = self.putter.await_answer();
            self.expect_fine(put.map(drop), "the end");
        }
        for reader in self.readers.drain(..) {
            reader.observer.finish();
        }
        copies::expect_sound(self.plan, &self.home(), "at the end");
    }
}
