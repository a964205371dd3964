//! Mounts whose requests come over io_uring.
use super::mount_point::{MountPoint, errno};
use crate::support::{self, Site, esker, wait_for};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::process::{Command, Stdio};
use std::sync::Barrier;
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

/// Ids and names of the server's threads.
fn threads(point: &MountPoint) -> impl Iterator<Item = (String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", point.server())).unwrap().flatten();
    tasks.map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        (task.file_name().into_string().unwrap(), name.trim_end().to_owned())
    })
}

/// Names of the threads that serve queues of the kernel.
fn served_queues(point: &MountPoint) -> BTreeSet<String> {
    threads(point).map(|(_, name)| name).filter(|name| name.starts_with("ring-")).collect()
}

/// Ids of the server's threads with a name.
fn threads_named(point: &MountPoint, wanted: &str) -> Vec<String> {
    threads(point).filter(|(_, name)| name == wanted).map(|(id, _)| id).collect()
}

/// Makes the thread that drops pages slower than all others, on the first processor.
fn drop_pages_slowly(point: &MountPoint) {
    let [thread] = &threads_named(point, "drop-pages")[..] else { panic!("not one thread") };
    for change in [&["chrt", "--idle", "--pid", "0"][..], &["taskset", "--pid", "1"]] {
        let output = Command::new(change[0]).args(&change[1..]).arg(thread).output().unwrap();
        assert!(output.status.success(), "{change:?}: {output:?}");
    }
}

/// More writes wait at a time than a queue of the kernel has threads for long operations (`RING_THREADS_MAX`). They are
/// writes to different files, since the kernel lets one write at a time to a file that has pages.
#[test]
fn all_writes_of_a_processor_may_wait_at_a_time() {
    const WRITERS: usize = 200;
    let Some(point) = MountPoint::over_ring() else { return };
    let paths: Vec<_> = (0..WRITERS).map(|number| point.at(&number.to_string())).collect();
    let read = |path| {
        fs::write(path, [0; 4096]).unwrap();
        File::open(path).unwrap()
    };
    let readers: Vec<_> = paths.iter().map(read).collect();
    drop_pages_slowly(&point);
    let together = Barrier::new(WRITERS + 1);
    let write = |path| {
        let mut first = CpuSet::new();
        first.set(0);
        sched_setaffinity(None, &first).unwrap();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        together.wait();
        together.wait();
        (1..=5).try_for_each(|round| file.write_all_at(&[round; 4096], 0))
    };
    thread::scope(|scope| {
        let start = |path| scope.spawn(move || write(path));
        let writers: Vec<_> = paths.iter().map(start).collect();
        together.wait();
        // From now on, the kernel has pages of the files, which writes drop.
        readers.iter().for_each(|reader| reader.read_exact_at(&mut [0; 4096], 0).unwrap());
        together.wait();
        writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
    });
    for reader in readers {
        let mut bytes = [0; 4096];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [5; 4096]);
    }
    let threads = threads_named(&point, "ring-0").len();
    assert!(threads > 128, "only {threads} threads served the queue of the first processor");
    point.umount();
}

/// The server of a mount may have few open files: then entries cannot be registered, and the kernel uses the device.
#[test]
fn mount_uses_the_device_if_entries_cannot_be_registered() {
    let Some(point) = MountPoint::over_ring() else { return };
    fs::write(point.at("file"), b"content").unwrap();
    let queues = served_queues(&point);
    point.umount();
    let mut used = [0; 2];
    for files in 16..48 {
        let limit = format!("--nofile={files}:{files}");
        let mut mount = Command::new("timeout");
        mount.args(["--signal=KILL", "20", "prlimit", &limit]).arg(esker());
        mount.args(["mount", "tank/home", point.dir(), "--transport", "auto"]);
        mount.env("ESKER_POOLS", &point.site.dir).stdin(Stdio::null());
        let output = mount.output().unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{files} files: {output:?}");
        if !output.status.success() {
            continue;
        }
        assert_eq!(fs::read(point.at("file")).unwrap(), b"content", "{files} open files");
        // The kernel uses the device until all its queues have an entry.
        used[usize::from(served_queues(&point) == queues)] += 1;
        point.umount();
    }
    assert!(used.iter().all(|count| *count > 0), "by device and over io_uring: {used:?}");
}

/// A user other than root mounts over io_uring. The mount serves nobody else.
#[test]
fn users_mount_over_ring() {
    const USER: u32 = 65534;
    if let Err(error) = esker_fuse::check_ring() {
        return esker_testing::skip(error);
    }
    let site = Site::in_memory();
    let home = site.dir.join("home");
    fs::create_dir(&home).unwrap();
    let as_user = |program: &[&str]| {
        let mut command = support::as_user(USER, "--clear-groups");
        command.args(program);
        command.env("ESKER_POOLS", &home).env("ESKER_CONFIG", "").stdin(Stdio::null());
        command.output()
    };
    let (program, dir) = (esker().display().to_string(), home.join("mnt").display().to_string());
    let has_device = fs::metadata("/dev/fuse").is_ok_and(|device| device.mode() & 0o6 == 0o6);
    let may_run = Command::new("fusermount3").arg("--version").output().is_ok()
        && chown(&home, Some(USER), Some(USER)).is_ok()
        && as_user(&[&program, "version"]).is_ok_and(|output| output.status.success());
    if !has_device || !may_run {
        return esker_testing::skip(
            "this needs to be root, setpriv, fusermount3, and a /dev/fuse for all",
        );
    }
    let ok = |arguments: &[&str]| {
        let output = as_user(arguments).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    };
    let pool = ["pool", "create", "tank", "--size", "64M", "--targets", "2"];
    ok(&[&[&program[..]][..], &pool].concat());
    ok(&[&program, "cont", "create", "tank/home", "--type", "posix"]);
    ok(&["mkdir", &dir]);
    ok(&[&program, "mount", "tank/home", &dir, "--transport", "io_uring"]);
    let file = format!("{dir}/file");
    ok(&["sh", "-c", &format!("echo content >{file}")]);
    assert_eq!(ok(&["cat", &file]), b"content\n");
    assert_eq!(errno(fs::read(&file)), Some(Errno::ACCESS.raw_os_error()));
    ok(&[&program, "umount", &dir]);
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
