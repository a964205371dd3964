//! Daemons that end, hang or are full, and clients that may not.
use super::{Cluster, run};
use crate::simple;
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_torture::{pause, wait_for};
use esker_types::info::OpenMode;
use esker_types::ops::{Sink, Source};
use esker_types::{Error, ErrorKind, Extent, ObjectType, Result};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LENGTHS: [usize; 2] = [100, 40_000];

/// Seconds after which clients give up in tests that wait for it, and a bound that is below the default.
const TIMEOUT: u32 = 2;
const SOON: Duration = Duration::from_secs(25);

/// Writes until told to stop; answers how many were acknowledged.
fn write_on(kv: &Kv, first: u64, written: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let len = LENGTHS[number as usize % 2];
        simple::put(kv, first + number, len).expect("writing while the OSD comes and goes");
        number += 1;
        written.fetch_add(1, Ordering::Relaxed);
    }
    number
}

/// Until so many more were written.
fn wait_for_more(written: &AtomicU64, more: u64) {
    let target = written.load(Ordering::Relaxed) + more;
    wait_for("writers go on", || written.load(Ordering::Relaxed) >= target);
}

#[test]
fn writers_go_on_when_an_osd_comes_back() {
    let Some(cluster) = Cluster::new(&["--store", "bluestore"]) else { return };
    let pool = cluster.open(60);
    let (_container, kv) = simple::kv(&pool, "test").expect("opening");
    let (written, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let firsts = [0, 1 << 32];
    let counts = std::thread::scope(|scope| {
        let start = |first| {
            let (kv, written, stop) = (&kv, &written, &stop);
            scope.spawn(move || write_on(kv, first, written, stop))
        };
        let writers = firsts.map(start);
        for end in ["kill", "stop", "kill"] {
            wait_for_more(&written, 50);
            cluster.daemon(end, "osd");
            cluster.daemon("start", "osd");
        }
        wait_for_more(&written, 50);
        stop.store(true, Ordering::Relaxed);
        writers.map(|writer| writer.join().expect("a writer"))
    });
    // Asked for anew, by a client that has seen nothing of it.
    let (_container, kv) = simple::kv(&cluster.open(60), "test").expect("opening");
    for (first, count) in firsts.into_iter().zip(counts) {
        for number in 0..count {
            let len = LENGTHS[number as usize % 2];
            assert!(
                simple::is_there(&kv, first + number, len).expect("reading"),
                "{number} is lost"
            );
        }
    }
}

/// What must fail because nobody answers does so in time.
fn expect_timeout<T>(what: &str, work: impl FnOnce() -> Result<T>) {
    let start = Instant::now();
    let error = work().err().unwrap_or_else(|| panic!("{what} worked"));
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{what}: {error}");
    assert!(error.message().contains("ceph -s"), "{what}: {error}");
    assert!(start.elapsed() < SOON, "{what} took {:?}", start.elapsed());
}

fn expect_work(kv: &Kv, number: u64) {
    for len in LENGTHS {
        simple::put(kv, number, len).expect("writing");
        assert!(simple::is_there(kv, number, len).expect("reading"));
    }
}

fn expect_timeouts(container: &Container, kv: &Kv) {
    expect_timeout("writing", || simple::put(kv, 1, LENGTHS[0]));
    expect_timeout("writing a long value", || simple::put(kv, 2, LENGTHS[1]));
    expect_timeout("reading", || simple::is_there(kv, 0, LENGTHS[1]));
    expect_timeout("a transaction", || {
        let transaction = container.transaction()?;
        let access = Access::Tx(&transaction);
        kv.put(b"a", b"x", esker_types::ops::Cond::NONE, access).wait()?;
        kv.put(b"b", b"x", esker_types::ops::Cond::NONE, access).wait()?;
        transaction.commit().wait()
    });
}

/// It takes a moment until all know that the cluster answers, or does not.
fn wait_until(answers: bool, kv: &Kv) {
    let what = format!("the cluster answers: {answers}");
    wait_for(&what, || simple::put(kv, 0, LENGTHS[1]).is_ok() == answers);
}

#[test]
fn nobody_waits_longer_than_asked() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let pool = cluster.open(TIMEOUT);
    let (container, impatient) = simple::kv(&pool, "test").expect("opening");
    expect_work(&impatient, 0);
    cluster.freeze_osd();
    expect_timeouts(&container, &impatient);
    expect_timeout("opening", || Pool::connect(&cluster.url(TIMEOUT), OpenMode::ReadWrite));
    cluster.thaw_osd();
    // The cluster may have given the OSD up, and needs a moment to take it back.
    let (_container, kv) = simple::kv(&cluster.open(30), "test").expect("opening again");
    expect_work(&kv, 0);
    // What failed because of that would else be taken for the pause.
    wait_until(true, &impatient);
    cluster.ask(&["osd", "set", "pause"]);
    wait_until(false, &impatient);
    expect_timeouts(&container, &impatient);
    cluster.ask(&["osd", "unset", "pause"]);
    expect_work(&kv, 0);
    // Who is connected does not need the monitor.
    cluster.daemon("kill", "mon");
    expect_timeout("connecting", || Pool::connect(&cluster.url(TIMEOUT), OpenMode::ReadWrite));
    expect_work(&kv, 3);
}

fn refused(url: &str) -> Error {
    let start = Instant::now();
    let error = Pool::connect(url, OpenMode::ReadWrite).err();
    let error = error.unwrap_or_else(|| panic!("{url} was opened"));
    assert!(start.elapsed() < SOON, "{url}: refused after {:?}", start.elapsed());
    error
}

#[test]
fn what_cannot_be_opened_is_named() {
    let Some(cluster) = Cluster::new(&["--auth"]) else { return };
    let folder = cluster.folder.path().join("run");
    let wrong = folder.join("wrong.keyring");
    let mut command = Command::new("ceph-authtool");
    run(command.args(["--create-keyring", "--gen-key", "-n", "client.admin"]).arg(&wrong));
    let url = cluster.url(10);

    let error = refused(&format!("{url}&keyring={}", wrong.display()));
    assert_eq!(error.kind(), ErrorKind::NoPermission, "{error}");
    assert!(error.message().contains("keyring="), "{error}");

    let error = refused(&format!("{url}&keyring={}/none", folder.display()));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("keyring="), "{error}");

    let error = refused(&format!("rados:esker?conf={}/none.conf", folder.display()));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("none.conf"), "{error}");

    let error = refused(&url.replace("rados:esker", "rados:none"));
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("\"none\""), "{error}");

    let (_container, kv) = simple::kv(&cluster.open(10), "test").expect("opening");
    expect_work(&kv, 0);
}

fn array(container: &Container, number: u64) -> Array {
    let oid = container.generate_oid(0, number, ObjectType::ArrayByte, None, 0).expect("an id");
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: 1 << 20 };
    container.open_array_with_attributes(oid, attributes).expect("an array")
}

fn write(array: &Array, data: &[u8]) -> Result<()> {
    let whole = [Extent::new(0, data.len() as u64)];
    array.write(&whole, Source::One(data), Access::Latest).wait()
}

fn set_ratios(cluster: &Cluster, [near, backfill, full]: [&str; 3], rising: bool) {
    let mut commands = [
        ["osd", "set-nearfull-ratio", near],
        ["osd", "set-backfillfull-ratio", backfill],
        ["osd", "set-full-ratio", full],
    ];
    if rising {
        commands.reverse();
    }
    commands.iter().for_each(|command| cluster.ask(command));
}

/// Writes to new arrays until that is as expected.
fn write_until(
    container: &Container,
    mut numbers: std::ops::Range<u64>,
    works: bool,
) -> Result<()> {
    let data = vec![7; 100_000];
    let mut last = Ok(());
    wait_for("the cluster says that it is full, or no longer", || {
        let Some(number) = numbers.next() else { return true };
        last = write(&array(container, number), &data);
        pause(100_000);
        last.is_ok() == works
    });
    last
}

#[test]
fn a_full_cluster_says_so_and_goes_on_when_there_is_room() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let (container, kv) = simple::kv(&cluster.open(30), "test").expect("opening");
    let data = vec![9; 1_000_000];
    let before = array(&container, 1);
    write(&before, &data).expect("writing");
    expect_work(&kv, 0);

    set_ratios(&cluster, ["0.00005", "0.00007", "0.0001"], false);
    let error = write_until(&container, 100..400, false).expect_err("there is room");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.message().contains("full"), "{error}");
    let mut found = vec![0; data.len()];
    let whole = [Extent::new(0, data.len() as u64)];
    before.read(&whole, Sink::One(&mut found), Access::Latest).wait().expect("reading");
    assert!(found == data && simple::is_there(&kv, 0, LENGTHS[1]).expect("reading"));
    before.destroy(Access::Latest).wait().expect("what is full can be emptied");

    set_ratios(&cluster, ["0.85", "0.9", "0.95"], true);
    write_until(&container, 400..700, true).expect("there is room again");
    expect_work(&kv, 1);
}
