//! Processes that are killed or fork while they have a pool on Ceph open.
use super::Cluster;
use crate::common::{self, Worker};
use crate::simple;
use esker::{Access, Container, Kv, Pool, Wait};
use esker_testing::{HANG, Random, SEED_VARIABLE, pause, scaled, seed};
use esker_types::info::OpenMode;
use esker_types::ops::Cond;
use esker_types::{ErrorKind, ObjectType, Result};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Number of accounts in each of the two Key-Values between which amounts move, and the initial balance of each.
const ACCOUNTS: u64 = 3;
const AMOUNT: u64 = 1000;

/// Three Key-Values, each a RADOS object: two with accounts, and one in which every writer counts its transfers.
struct Bank {
    container: Container,
    kvs: [Kv; 3],
}

impl Bank {
    fn open(pool: &Pool) -> Self {
        let (container, _) = simple::kv(pool, "bank").expect("opening");
        let kv = |number| {
            let oid = container.generate_oid(0, number, ObjectType::KvHashed, None, 0);
            container.kv(oid.expect("an id")).expect("a Key-Value")
        };
        let kvs = [10, 11, 12].map(kv);
        Self { container, kvs }
    }

    fn fill(&self) {
        for kv in &self.kvs[..2] {
            for account in 0..ACCOUNTS {
                set(kv, account, AMOUNT, Access::Latest).expect("filling");
            }
        }
    }

    /// Moves one unit between two accounts and counts the transfer, in one transaction; retried on conflicts.
    fn transfer(&self, writer: u64, random: &mut Random) -> Result<u64> {
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let turned = random.below(2) as usize;
        let transaction = self.container.transaction()?;
        loop {
            let access = Access::Tx(&transaction);
            let change = || {
                let (one, other) = (&self.kvs[turned], &self.kvs[1 - turned]);
                set(one, from, get(one, from, access)? - 1, access)?;
                set(other, to, get(other, to, access)? + 1, access)?;
                let count = get(&self.kvs[2], writer, access)? + 1;
                set(&self.kvs[2], writer, count, access)?;
                transaction.commit().wait().map(|()| count)
            };
            match change() {
                Err(error) if error.kind() == ErrorKind::TxRestart => transaction.restart()?,
                answered => return answered,
            }
        }
    }

    /// The sum of all accounts in one consistent state.
    fn sum(&self) -> Result<u64> {
        let transaction = self.container.transaction_read_only()?;
        loop {
            let all = self.kvs[..2].iter().flat_map(|kv| (0..ACCOUNTS).map(move |key| (kv, key)));
            let sum: Result<u64> =
                all.map(|(kv, key)| get(kv, key, Access::Tx(&transaction))).sum();
            let sum = sum.and_then(|sum| transaction.commit().wait().map(|()| sum));
            match sum {
                Err(error) if error.kind() == ErrorKind::TxRestart => transaction.restart()?,
                answered => return answered,
            }
        }
    }
}

/// Random numbers that determine the times of kills.
fn drawn() -> Random {
    let seed = seed();
    println!("{SEED_VARIABLE}={seed}");
    Random::new(seed, 0)
}

fn get(kv: &Kv, key: u64, access: Access<'_>) -> Result<u64> {
    let value = kv.get(&key.to_be_bytes(), access).wait()?;
    Ok(value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("a number"))))
}

fn set(kv: &Kv, key: u64, value: u64, access: Access<'_>) -> Result<()> {
    kv.put(&key.to_be_bytes(), &value.to_le_bytes(), Cond::NONE, access).wait()
}

/// The task of a writer. Arguments: URL, its number, a file for acknowledgements.
pub(crate) fn transfer() {
    let arguments = common::arguments();
    let pool = Pool::connect(&arguments[0], OpenMode::ReadWrite).expect("opening");
    let writer: u64 = arguments[1].parse().expect("a number");
    let mut acknowledged = std::fs::File::create(&arguments[2]).expect("making a file");
    let (bank, mut random) = (Bank::open(&pool), Random::new(writer, 0));
    loop {
        let count = bank.transfer(writer, &mut random).expect("a transfer");
        acknowledged.write_all(&count.to_le_bytes()).expect("noting it");
    }
}

/// The last acknowledged number; 0 before the first.
fn last_noted(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap_or_default();
    let last = bytes.chunks_exact(8).next_back();
    last.map_or(0, |number| u64::from_le_bytes(number.try_into().expect("8 bytes")))
}

/// A running writer, and the file of its acknowledgements.
struct Writer {
    worker: Worker,
    number: u64,
    file: PathBuf,
}

impl Writer {
    fn start(cluster: &Cluster, number: u64) -> Self {
        let file = cluster.folder.path().join(format!("writer-{number}"));
        let arguments = format!("{} {number} {}", cluster.url(60), file.display());
        Self { worker: Worker::start("ceph-transfer", &arguments), number, file }
    }

    /// The last acknowledged count.
    fn acknowledged(&self) -> u64 {
        last_noted(&self.file)
    }

    /// Waits until it has made progress.
    fn wait_for_more(&mut self, more: u64) {
        let (file, target) = (&self.file, self.acknowledged() + more);
        let what = format!("writer {} makes progress", self.number);
        self.worker.wait_until(&what, || last_noted(file) >= target);
    }

    /// Kills it. All acknowledged transfers must exist, and at most one more.
    fn kill(mut self, bank: &Bank) {
        self.worker.kill();
        let count = get(&bank.kvs[2], self.number, Access::Latest).expect("reading");
        let acknowledged = self.acknowledged();
        let right = count == acknowledged || count == acknowledged + 1;
        assert!(right, "writer {}: {count} done, {acknowledged} acknowledged", self.number);
    }
}

#[test]
fn killed_writers_lose_nothing() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let bank = Bank::open(&cluster.open(60));
    bank.fill();
    let mut random = drawn();
    let mut numbers = 1_u64..;
    let mut start = || Writer::start(&cluster, numbers.next().expect("a number"));
    let mut writers = vec![start(), start()];
    for _ in 0..scaled(12) {
        writers.iter_mut().for_each(|writer| writer.wait_for_more(2));
        pause(random.below(30_000));
        writers.remove(random.below(2) as usize).kill(&bank);
        let begun = Instant::now();
        assert_eq!(bank.sum().expect("adding up"), 2 * ACCOUNTS * AMOUNT);
        assert!(begun.elapsed() < HANG, "readers were blocked");
        writers.push(start());
    }
    writers.into_iter().for_each(|writer| writer.kill(&bank));
    assert_eq!(bank.sum().expect("adding up"), 2 * ACCOUNTS * AMOUNT);
    // The next writer cleans up after dead ones.
    bank.transfer(0, &mut random).expect("a transfer");
    assert_eq!(bank.sum().expect("adding up"), 2 * ACCOUNTS * AMOUNT);
}

/// Values of one transaction: one in each of two Key-Values; every second one is long.
const LENGTHS: [usize; 2] = [64, 20_000];

/// The task of a process that puts the same number into two Key-Values in one transaction. Arguments: URL, first
/// number, a file for acknowledgements.
pub(crate) fn pairs() {
    let arguments = common::arguments();
    let pool = Pool::connect(&arguments[0], OpenMode::ReadWrite).expect("opening");
    let first: u64 = arguments[1].parse().expect("a number");
    let bank = Bank::open(&pool);
    let mut acknowledged = std::fs::File::create(&arguments[2]).expect("making a file");
    for number in first.. {
        let transaction = bank.container.transaction().expect("a transaction");
        for kv in &bank.kvs[..2] {
            let (len, access) = (LENGTHS[number as usize % 2], Access::Tx(&transaction));
            let value = simple::value(number, len);
            kv.put(&number.to_be_bytes(), &value, Cond::NONE, access).wait().expect("buffering");
        }
        transaction.commit().wait().expect("committing");
        acknowledged.write_all(&(number + 1).to_le_bytes()).expect("noting it");
    }
}

/// The first number from `first` on that is in neither Key-Value. Fails unless both have all numbers before it. That
/// includes the `done` numbers that were acknowledged.
fn end_of_pairs(bank: &Bank, first: u64, done: u64) -> u64 {
    let mut number = first;
    loop {
        let len = LENGTHS[number as usize % 2];
        let there = |kv: &Kv| simple::is_there(kv, number, len).expect("reading");
        let both = [there(&bank.kvs[0]), there(&bank.kvs[1])];
        assert_eq!(both[0], both[1], "transaction {number} is torn");
        if !both[0] {
            assert!(number >= done, "the acknowledged number {number} is lost");
            assert!(number <= done + 1, "{number} was never begun");
            return number;
        }
        number += 1;
    }
}

#[test]
fn a_transaction_of_a_killed_process_is_completed_or_undone() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let bank = Bank::open(&cluster.open(60));
    let mut random = drawn();
    let file = cluster.folder.path().join("done");
    let mut next = 0;
    for _ in 0..scaled(25) {
        let mut worker =
            Worker::start("ceph-pairs", &format!("{} {next} {}", cluster.url(60), file.display()));
        worker.wait_until("work continues after a kill", || last_noted(&file) > next);
        pause(random.below(10_000));
        worker.kill();
        next = end_of_pairs(&bank, next, last_noted(&file));
    }
}

/// The task of a process that forks. Argument: URL.
pub(crate) fn fork() {
    let pool = Pool::connect(&common::arguments()[0], OpenMode::ReadWrite).expect("opening");
    let (_container, kv) = simple::kv(&pool, "forked").expect("opening");
    simple::put(&kv, 0, 5000).expect("writing");
    for number in 1..4 {
        fork_once(&kv, number);
    }
}

/// Forks once. The child reads what the parent wrote before, and writes a value that the parent then reads.
fn fork_once(kv: &Kv, number: u64) {
    // SAFETY: the child calls into this program only, which supports forks, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork");
    if child == 0 {
        // SAFETY: sets a timer that ends a hanging child.
        unsafe { libc::alarm(30) };
        let work = std::panic::AssertUnwindSafe(|| {
            assert!(simple::is_there(kv, number - 1, 5000).expect("reading"), "not inherited");
            simple::put(kv, number, 5000).expect("writing");
        });
        let fine = std::panic::catch_unwind(work);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(fine.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` is a valid local variable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "fork {number}: the child failed");
    assert!(
        simple::is_there(kv, number, 5000).expect("reading"),
        "the value that the child wrote is missing"
    );
}

#[test]
fn a_forked_child_uses_its_parents_pool() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    Worker::start("ceph-fork", &cluster.url(20)).finish_soon();
}
