//! Mounts whose requests come over io_uring.
use super::mount_point::{MountPoint, errno};
use crate::support::{self, wait_for};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// Threads of the server that serve the queues of the kernel.
fn ring_threads(point: &MountPoint) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", point.server())).unwrap();
    let name =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks
        .flatten()
        .filter(|task| task.path().join("comm").exists())
        .map(name)
        .filter(|name| name.starts_with("ring-"))
        .count()
}

#[test]
fn each_transport_serves_files() {
    let bytes = support::noise(3_000_000);
    let Some(point) = MountPoint::over_ring() else { return };
    for transport in ["io_uring", "device", "auto"] {
        point.umount();
        point.mount(&["--transport", transport]);
        assert_eq!(ring_threads(&point) > 0, transport != "device", "{transport}");
        fs::write(point.at(transport), &bytes).unwrap();
        for name in ["io_uring", transport] {
            assert!(fs::read(point.at(name)).unwrap() == bytes, "{name} over {transport}");
        }
    }
    assert_eq!(fs::read_dir(&point.dir).unwrap().count(), 3);
    point.umount();
}

/// Writes past the pages of a file wait until the kernel has dropped the pages. More of them than a queue has threads
/// wait at a time, while other programs read the pages.
#[test]
fn writes_that_wait_leave_threads_for_reads() {
    const WRITERS: u8 = 24;
    const LEN: usize = 4096;
    let Some(point) = MountPoint::over_ring() else { return };
    fs::write(point.at("file"), vec![0; LEN * usize::from(WRITERS)]).unwrap();
    let reader = File::open(point.at("file")).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = vec![0; LEN * usize::from(WRITERS)];
            while !done.load(Ordering::Relaxed) {
                reader.read_exact_at(&mut bytes, 0).unwrap();
            }
        });
        let write = |writer: u8| {
            let file = OpenOptions::new().write(true).open(point.at("file")).unwrap();
            for round in 0..100 {
                file.write_all_at(&[writer ^ round; LEN], u64::from(writer) * LEN as u64).unwrap();
            }
        };
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    drop(reader);
    let bytes = fs::read(point.at("file")).unwrap();
    for (writer, part) in (0..WRITERS).zip(bytes.chunks(LEN)) {
        assert!(part.iter().all(|byte| *byte == writer ^ 99), "writer {writer}");
    }
    point.umount();
}

/// Creates, reads and removes files until a call fails, and returns its error.
fn use_files(point: &MountPoint, thread: usize, rounds: &AtomicU32) -> Option<i32> {
    loop {
        let path = point.at(&format!("file-{thread}"));
        let used = fs::write(&path, b"content")
            .and_then(|()| fs::read(&path).map(drop))
            .and_then(|()| fs::remove_file(&path));
        rounds.fetch_add(1, Ordering::Relaxed);
        if used.is_err() {
            return errno(used);
        }
    }
}

#[test]
fn programs_get_errors_if_the_server_is_killed() {
    let Some(point) = MountPoint::over_ring() else { return };
    let rounds = AtomicU32::new(0);
    thread::scope(|scope| {
        let (point, rounds) = (&point, &rounds);
        let users: Vec<_> =
            (0..8).map(|thread| scope.spawn(move || use_files(point, thread, rounds))).collect();
        wait_for("files in use", || rounds.load(Ordering::Relaxed) > 200);
        point.signal("-KILL");
        for user in users {
            let error = user.join().unwrap();
            let expected = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED]
                .map(|errno| Some(errno.raw_os_error()));
            assert!(expected.contains(&error), "{error:?}");
        }
    });
    point.umount();
    point.mount(&[]);
    assert_eq!(point.site.json(&["pool", "check", "tank"])["problems"], serde_json::json!([]));
    point.umount();
}

#[test]
fn mount_can_be_removed_while_programs_use_it() {
    let Some(point) = MountPoint::over_ring() else { return };
    fs::write(point.at("file"), b"content").unwrap();
    let server = point.server();
    let rounds = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while fs::read(point.at("file")).is_ok() {
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        wait_for("files in use", || rounds.load(Ordering::Relaxed) > 200);
        point.site.ok(&["umount", "--lazy", point.dir()]);
    });
    wait_for("the end of the server", || {
        fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default().is_empty()
    });
}
