//! Pages of files that the kernel may cache, and pages that it must drop.
use super::mount_point::MountPoint;
use crate::support;
use dfs::Open;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mount whose replies can be counted: over io_uring, they are not written to a descriptor.
fn mounted_through_device() -> Option<MountPoint> {
    MountPoint::mounted(&["--transport", "device"])
}

/// Bytes that the server has written to its descriptors, which are replies to the kernel.
fn replied(point: &MountPoint) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", point.server())).unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    written.parse().unwrap()
}

/// Bytes of replies while the file `name` is opened, read and closed.
fn cost_of_reading(point: &MountPoint, name: &str, expected: &[u8]) -> u64 {
    let before = replied(point);
    assert!(fs::read(point.at(name)).unwrap() == expected, "{name}");
    replied(point) - before
}

/// True if the kernel has the content: not always at the next open, since it also drops pages when it is told another
/// time of change, which may be late.
fn is_kept(point: &MountPoint, name: &str, expected: &[u8]) -> bool {
    (0..20).any(|_| cost_of_reading(point, name, expected) < expected.len() as u64 / 10)
}

#[test]
fn a_file_that_did_not_change_is_read_from_the_kernels_pages() {
    let Some(point) = mounted_through_device() else { return };
    let mut bytes = support::noise(3_000_000);
    let len = bytes.len() as u64;
    fs::write(point.at("file"), &bytes).unwrap();
    assert!(cost_of_reading(&point, "file", &bytes) >= len);
    assert!(is_kept(&point, "file", &bytes));
    // Others change one byte, and neither the length nor, for a while, the stored time.
    let direct = point.direct();
    let other = direct.root().lookup(b"file").unwrap().open(Open::BOTH).unwrap();
    for at in [0, 1_500_000, bytes.len() - 1] {
        bytes[at] ^= 1;
        other.write_at(at as u64, &bytes[at..=at]).unwrap();
        assert!(cost_of_reading(&point, "file", &bytes) >= len, "a change at {at}");
        assert!(is_kept(&point, "file", &bytes), "after the change at {at}");
    }
    // After the file is truncated and extended, the new range reads as zeros.
    other.set_len(len / 2).unwrap();
    other.set_len(len).unwrap();
    bytes[len as usize / 2..].fill(0);
    assert!(cost_of_reading(&point, "file", &bytes) >= len);
    // A program on the mount is another like any.
    let mine = OpenOptions::new().write(true).open(point.at("file")).unwrap();
    bytes[7] ^= 1;
    mine.write_all_at(&bytes[7..8], 7).unwrap();
    assert!(cost_of_reading(&point, "file", &bytes) >= len);
}

/// Opens that drop cached pages and opens that keep them run concurrently, while other clients change the file. Each
/// open sees all writes that completed before it.
#[test]
fn concurrent_opens_see_all_completed_writes() {
    let Some(point) = MountPoint::mounted(&["--threads", "4"]) else { return };
    let content = |round: u32| round.to_le_bytes().repeat(5_000);
    fs::write(point.at("file"), content(0)).unwrap();
    const OPENS: u32 = 300;
    let (written, opens) = (AtomicU32::new(0), AtomicU32::new(0));
    let reads = || {
        let mut bytes = Vec::new();
        while opens.fetch_add(1, Ordering::SeqCst) < OPENS {
            let at_least = written.load(Ordering::SeqCst);
            bytes.clear();
            File::open(point.at("file")).unwrap().read_to_end(&mut bytes).unwrap();
            for word in bytes.as_chunks().0 {
                let found = u32::from_le_bytes(*word);
                assert!(found >= at_least, "{found} was written before {at_least}");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(reads)));
        let other = point.direct().root().lookup(b"file").unwrap().open(Open::BOTH).unwrap();
        for round in 1.. {
            other.write_at(0, &content(round)).unwrap();
            written.store(round, Ordering::SeqCst);
            if opens.load(Ordering::SeqCst) >= OPENS {
                break;
            }
        }
    });
}

/// A program that fills a new file goes past the kernel's pages, also if it may read it, and others read what it wrote.
#[test]
fn new_file_can_be_read_while_it_is_written() {
    let Some(point) = mounted_through_device() else { return };
    let bytes = support::noise(1 << 20);
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(true).open(point.at("new")).unwrap();
    for part in 0..12 {
        file.write_all(&bytes).unwrap();
        let mut read = vec![0; bytes.len()];
        file.read_exact_at(&mut read, part << 20).unwrap();
        assert!(read == bytes, "part {part}");
        assert!(fs::read(point.at("new")).unwrap().len() as u64 == (part + 1) << 20);
    }
    drop(file);
    assert!(is_kept(&point, "new", &bytes.repeat(12)));
}
