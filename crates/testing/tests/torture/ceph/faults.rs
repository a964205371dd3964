//! Daemons that die, hang or are full, and clients that lack permission.
use super::{Cluster, run};
use crate::simple;
use dfs::{Create, Dfs, MountOptions, NewDfs, Open};
use esker::backend::NewContainer;
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_testing::{pause, wait_for};
use esker_types::info::OpenMode;
use esker_types::ops::{Sink, Source};
use esker_types::{Error, ErrorKind, Extent, ObjectType, Result};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LENGTHS: [usize; 2] = [100, 40_000];

/// Timeout of clients, in seconds, in tests that wait for it; and an upper bound below the default timeout.
const TIMEOUT: u32 = 2;
const SOON: Duration = Duration::from_secs(25);

/// Writes until `stop` is set, and counts the writes of all writers in `written`. Returns the number of own
/// acknowledged writes.
fn write_on(kv: &Kv, first: u64, written: &AtomicU64, stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let len = LENGTHS[number as usize % 2];
        simple::put(kv, first + number, len).expect("writing while the OSD stops and starts");
        number += 1;
        written.fetch_add(1, Ordering::Relaxed);
    }
    number
}

/// Waits until this many more values are written.
fn wait_for_more(written: &AtomicU64, more: u64) {
    let target = written.load(Ordering::Relaxed) + more;
    wait_for("writers make progress", || written.load(Ordering::Relaxed) >= target);
}

#[test]
fn writers_continue_when_an_osd_is_restarted() {
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
    // Read by a new client, which has cached nothing.
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

/// Runs an operation that must time out, and checks that it does so in time.
fn expect_timeout<T>(what: &str, work: impl FnOnce() -> Result<T>) {
    let start = Instant::now();
    let error = work().err().unwrap_or_else(|| panic!("{what} worked"));
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{what}: {error}");
    assert!(error.message().contains("ceph -s"), "{what}: {error}");
    assert!(start.elapsed() < SOON, "{what} took {:?}", start.elapsed());
}

/// Puts values of all lengths and reads them back.
fn expect_work(kv: &Kv, number: u64) {
    for len in LENGTHS {
        simple::put(kv, number, len).expect("writing");
        assert!(simple::is_there(kv, number, len).expect("reading"));
    }
}

/// Expects that each kind of operation times out.
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

/// Waits until the cluster answers, or until it does not, according to `answers`: clients notice a change with a delay.
fn wait_until(answers: bool, kv: &Kv) {
    let what = format!("waiting for: the cluster answers = {answers}");
    wait_for(&what, || simple::put(kv, 0, LENGTHS[1]).is_ok() == answers);
}

#[test]
fn no_request_waits_longer_than_its_timeout() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let pool = cluster.open(TIMEOUT);
    let (container, impatient) = simple::kv(&pool, "test").expect("opening");
    expect_work(&impatient, 0);
    cluster.freeze_osd();
    expect_timeouts(&container, &impatient);
    expect_timeout("opening", || Pool::connect(&cluster.url(TIMEOUT), OpenMode::ReadWrite));
    cluster.thaw_osd();
    // The cluster may have marked the OSD as down, and needs time to mark it as up.
    let (_container, kv) = simple::kv(&cluster.open(30), "test").expect("opening again");
    expect_work(&kv, 0);
    // Otherwise a failure because the OSD is still marked as down would be mistaken for the effect of the pause.
    wait_until(true, &impatient);
    cluster.ask(&["osd", "set", "pause"]);
    wait_until(false, &impatient);
    expect_timeouts(&container, &impatient);
    cluster.ask(&["osd", "unset", "pause"]);
    expect_work(&kv, 0);
    // Connected clients do not need the monitor.
    cluster.daemon("kill", "mon");
    expect_timeout("connecting", || Pool::connect(&cluster.url(TIMEOUT), OpenMode::ReadWrite));
    expect_work(&kv, 3);
}

/// The error of opening a pool, which must be refused before the default timeout.
fn refused(url: &str) -> Error {
    let start = Instant::now();
    let error = Pool::connect(url, OpenMode::ReadWrite).err();
    let error = error.unwrap_or_else(|| panic!("{url} was opened"));
    assert!(start.elapsed() < SOON, "{url}: refused after {:?}", start.elapsed());
    error
}

#[test]
fn errors_name_what_cannot_be_opened() {
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

/// Sets the ratios at which the cluster counts as nearly full, stops backfills, and is full. The ratios stay in
/// ascending order: rising ones are set in reverse order.
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

/// Writes to new arrays until that succeeds, or fails, according to `works`. Returns the last result.
fn write_until(
    container: &Container,
    mut numbers: std::ops::Range<u64>,
    works: bool,
) -> Result<()> {
    let data = vec![7; 100_000];
    let mut last = Ok(());
    wait_for("the cluster reports that it is full, or has space again", || {
        let Some(number) = numbers.next() else { return true };
        last = write(&array(container, number), &data);
        pause(100_000);
        last.is_ok() == works
    });
    last
}

/// A file system with one file of 3 MiB.
fn namespace(cluster: &Cluster) -> Dfs {
    let (pool, new) = (cluster.open(30), NewContainer::named("files"));
    Dfs::create_container(&pool, &new, &NewDfs::default()).expect("a namespace");
    let container = pool.open_container("files", OpenMode::ReadWrite).wait().expect("opening");
    let files = Dfs::mount(container, MountOptions::default()).expect("mounting");
    let node = files.root().create(b"file", &Create::with_mode(0o644)).expect("a file");
    let file = node.open(Open::WRITE).expect("opening the file");
    file.write_at(0, &vec![9; 3 << 20]).expect("writing the file");
    file.close().expect("closing the file");
    drop(node);
    files
}

#[test]
fn a_full_cluster_is_reported_and_recovers() {
    let Some(cluster) = Cluster::new(&[]) else { return };
    let (container, kv) = simple::kv(&cluster.open(30), "test").expect("opening");
    let data = vec![9; 3 << 20];
    let before = array(&container, 1);
    write(&before, &data).expect("writing");
    expect_work(&kv, 0);
    let files = namespace(&cluster);

    set_ratios(&cluster, ["0.00005", "0.00007", "0.0001"], false);
    let error = write_until(&container, 100..400, false).expect_err("the cluster is full");
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.message().contains("full"), "{error}");
    let mut found = vec![0; data.len()];
    let whole = [Extent::new(0, data.len() as u64)];
    before.read(&whole, Sink::One(&mut found), Access::Latest).wait().expect("reading");
    assert!(found == data && simple::is_there(&kv, 0, LENGTHS[1]).expect("reading"));
    before.destroy(Access::Latest).wait().expect("destroying an object of a full cluster");
    files.root().unlink(b"file").expect("removing a file of a full cluster");

    set_ratios(&cluster, ["0.85", "0.9", "0.95"], true);
    write_until(&container, 400..700, true).expect("the cluster has space again");
    expect_work(&kv, 1);
}
