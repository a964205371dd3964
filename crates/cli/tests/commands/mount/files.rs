//! Operations of programs on files of a mount.
use super::mount_point::{MountPoint, is};
use crate::support::{self, wait_for};
use dfs::{Follow, Open};
use rustix::fs::{FallocateFlags, Mode, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

#[test]
fn files_hold_what_was_written() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let bytes = support::noise(3_000_001);
    fs::write(point.at("file"), &bytes).unwrap();
    assert!(fs::read(point.at("file")).unwrap() == bytes);
    let file = OpenOptions::new().read(true).write(true).open(point.at("file")).unwrap();
    file.write_all_at(b"inside", 1_500_000).unwrap();
    let mut part = [0; 8];
    file.read_exact_at(&mut part, 1_499_999).unwrap();
    assert_eq!(part[1..7], *b"inside");
    file.set_len(1_500_003).unwrap();
    assert_eq!(fs::metadata(point.at("file")).unwrap().len(), 1_500_003);
    let truncated = File::create(point.at("file")).unwrap();
    assert_eq!(truncated.metadata().unwrap().len(), 0);
    drop((file, truncated));
    point.umount();
    let found = point.direct().root().lookup(b"file").unwrap();
    assert_eq!(found.attr().unwrap().size, 0);
}

/// A copy of a mount into its own container, and out of the container into its own mount, ends.
#[test]
fn a_copy_of_a_mount_into_itself_ends() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::create_dir(point.at("data")).unwrap();
    fs::write(point.at("data/file"), "content").unwrap();
    let to = format!("{}/home", point.pool());
    let message = |arguments: &[&str]| {
        let envelope = point.site.failure(arguments);
        format!("{} {}", envelope["error"]["message"], envelope["response"]["failures"])
    };
    let said = message(&["fs", "import", point.dir(), &format!("{to}:/data/copy")]);
    assert!(
        said.contains("/data/copy: this is where") || said.contains("mount of the same"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(point.at("data/copy/data/file")).unwrap(), "content");
    assert!(!point.at("data/copy/data/copy").exists());
    let out = point.at("out").display().to_string();
    let said = message(&["fs", "export", &format!("{to}:/"), &out]);
    assert!(said.contains("mount of the same"), "{said}");
    assert_eq!(fs::read_to_string(point.at("out/data/file")).unwrap(), "content");
    let said = message(&["fs", "import", point.dir(), &format!("{to}:/")]);
    assert!(said.contains("mount of the same"), "{said}");
    let file = point.at("data/file").display().to_string();
    let said = message(&["fs", "import", &file, &format!("{to}:/data/file"), "--again"]);
    assert!(said.contains("mount of the same"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
}

#[test]
fn names_come_move_and_go() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::create_dir_all(point.at("a/b")).unwrap();
    fs::write(point.at("a/b/file"), "1").unwrap();
    fs::write(point.at("a/other"), "2").unwrap();
    let number = fs::metadata(point.at("a/b/file")).unwrap().ino();
    // Cached entries below a directory stay valid when the directory moves, and so do paths to the parent.
    fs::rename(point.at("a"), point.at("z")).unwrap();
    assert_eq!(fs::metadata(point.at("z/b/file")).unwrap().ino(), number);
    fs::create_dir(point.at("z/b/c")).unwrap();
    fs::rename(point.at("z/b/c"), point.at("z/c")).unwrap();
    fs::rename(point.at("z/c"), point.at("z/b/c")).unwrap();
    is(fs::rename(point.at("z"), point.at("z/b/c/z")), Errno::INVAL);
    fs::rename(point.at("z/b/file"), point.at("z/other")).unwrap();
    assert_eq!(fs::read(point.at("z/other")).unwrap(), b"1");
    is(fs::remove_dir(point.at("z")), Errno::NOTEMPTY);
    is(fs::remove_dir(point.at("z/other")), Errno::NOTDIR);
    is(fs::remove_file(point.at("z/b")), Errno::ISDIR);
    is(fs::create_dir(point.at("z/b")), Errno::EXIST);
    is(fs::create_dir(point.at(&"n".repeat(256))), Errno::NAMETOOLONG);
    is(fs::metadata(point.at("a")).map(drop), Errno::NOENT);
    is(fs::hard_link(point.at("z/other"), point.at("hard")), Errno::PERM);
    let pipe = rustix::fs::mknodat(
        rustix::fs::CWD,
        point.at("pipe"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    );
    assert_eq!(pipe, Err(Errno::PERM));
    fs::remove_dir_all(point.at("z")).unwrap();
    assert_eq!(fs::read_dir(&point.dir).unwrap().count(), 0);
}

#[test]
fn renames_have_flags() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::create_dir(point.at("dir")).unwrap();
    fs::write(point.at("dir/inside"), "1").unwrap();
    fs::write(point.at("file"), "2").unwrap();
    let cwd = rustix::fs::CWD;
    let rename =
        |flags| rustix::fs::renameat_with(cwd, point.at("dir"), cwd, point.at("file"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read(point.at("file/inside")).unwrap(), b"1");
    assert_eq!(fs::read(point.at("dir")).unwrap(), b"2");
    fs::write(point.at("file/inside"), "3").unwrap();
    assert_eq!(fs::read(point.at("file/inside")).unwrap(), b"3");
}

#[test]
fn attributes_are_kept() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("file");
    fs::write(&path, "12345").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(time).unwrap();
    let shown = file.metadata().unwrap();
    assert_eq!((shown.mode(), shown.len(), shown.nlink()), (0o100_640, 5, 1));
    assert_eq!(shown.modified().unwrap(), time);
    let before = SystemTime::UNIX_EPOCH - Duration::from_millis(800);
    file.set_modified(before).unwrap();
    drop(file);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    fs::write(&path, "6").unwrap();
    assert!(fs::metadata(&path).unwrap().modified().unwrap() > time);
    symlink("file", point.at("link")).unwrap();
    assert_eq!(fs::read_link(point.at("link")).unwrap(), PathBuf::from("file"));
    assert_eq!(fs::read(point.at("link")).unwrap(), b"6");
    assert!(fs::symlink_metadata(point.at("link")).unwrap().is_symlink());
    let space = rustix::fs::statvfs(&point.dir).unwrap();
    assert!(space.f_blocks > 0 && space.f_bavail <= space.f_blocks && space.f_namemax == 255);
}

#[test]
fn extended_attributes_are_kept() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("file");
    fs::write(&path, "").unwrap();
    let set = |value: &[u8], flags| rustix::fs::setxattr(&path, "user.colour", value, flags);
    assert_eq!(set(b"red", XattrFlags::REPLACE), Err(Errno::NODATA));
    set(b"red", XattrFlags::CREATE).unwrap();
    assert_eq!(set(b"blue", XattrFlags::CREATE), Err(Errno::EXIST));
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut value), Ok(3));
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut [0; 1]), Err(Errno::RANGE));
    let mut names = [0; 64];
    let len = rustix::fs::listxattr(&path, &mut names).unwrap();
    assert_eq!(names[..len], *b"user.colour\0");
    rustix::fs::removexattr(&path, "user.colour").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut value), Err(Errno::NODATA));
}

#[test]
fn holes_are_zeros_and_are_found() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("file");
    let mut file = File::create_new(&path).unwrap();
    file.write_all_at(b"end", 3 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(3 << 20));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(0)), Ok(0));
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(4 << 20)), Err(Errno::NXIO));
    file.rewind().unwrap();
    file.write_all(&[7; 8192]).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 0, 4096).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4 << 20).unwrap();
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(collapse, Err(Errno::OPNOTSUPP));
    let read = fs::read(&path).unwrap();
    assert_eq!((read.len(), &read[4094..4098]), (4 << 20, &[0, 0, 7, 7][..]));
    assert!(read[8192..3 << 20].iter().all(|byte| *byte == 0));
}

#[test]
fn files_without_a_name_live_until_they_are_closed() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("file");
    fs::write(&path, "one").unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "another").unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "one");
    file.write_all(b" more").unwrap();
    file.set_len(6).unwrap();
    let shown = file.metadata().unwrap();
    assert_eq!((shown.len(), shown.nlink()), (6, 0));
    let mut rest = [0; 6];
    file.read_exact_at(&mut rest, 0).unwrap();
    assert_eq!(&rest, b"one mo");
    fs::write(point.at("third"), "3").unwrap();
    fs::rename(point.at("third"), &path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"3");
}

#[test]
fn long_listings_are_complete() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let names: Vec<_> = (0..3000).map(|number| format!("entry-{number:05}")).collect();
    for name in &names {
        File::create(point.at(name)).unwrap();
    }
    let mut found: Vec<_> = fs::read_dir(&point.dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().ino(), entry.ino());
            entry.file_name().into_string().unwrap()
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, names);
    // Entries that go while they are listed do not hide others.
    let listed: Vec<_> = fs::read_dir(&point.dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            fs::remove_file(&path).unwrap();
            path
        })
        .collect();
    assert_eq!(listed.len(), names.len());
    assert_eq!(fs::read_dir(&point.dir).unwrap().count(), 0);
}

/// Programs on the mount and a process that does not use the mount append to one file.
#[test]
fn appends_never_overwrite_each_other() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("log");
    fs::write(&path, "").unwrap();
    let direct = point.direct();
    let line = |who: usize, number: usize| format!("{who} {number:05}\n");
    std::thread::scope(|scope| {
        for who in 0..2 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                (0..300).for_each(|number| file.write_all(line(who, number).as_bytes()).unwrap());
            });
        }
        let file = direct.root().lookup(b"log").unwrap().open(Open::BOTH).unwrap();
        for number in 0..300 {
            file.append(line(2, number).as_bytes()).unwrap();
        }
    });
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().map(|found| format!("{found}\n")).collect();
    lines.sort_unstable();
    let mut expected: Vec<_> =
        (0..3).flat_map(|who| (0..300).map(move |number| line(who, number))).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn open_files_show_the_writes_of_others() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let bytes = support::noise(300_000);
    fs::write(point.at("file"), &bytes).unwrap();
    let reader = OpenOptions::new().read(true).write(true).open(point.at("file")).unwrap();
    let mut part = [0; 8192];
    reader.read_exact_at(&mut part, 100_000).unwrap();
    assert!(part[..] == bytes[100_000..108_192]);
    let writer = OpenOptions::new().write(true).open(point.at("file")).unwrap();
    for round in 0..3 {
        // Neither the offset nor the length is that of a page.
        writer.write_all_at(&[round; 5000], 101_001).unwrap();
        reader.read_exact_at(&mut part, 100_000).unwrap();
        assert!(part[..1001] == bytes[100_000..101_001] && part[1001..6001] == [round; 5000]);
        reader.write_all_at(b"reader", 102_000).unwrap();
        reader.read_exact_at(&mut part, 100_000).unwrap();
        assert!(part[2000..2006] == *b"reader" && part[6001..] == bytes[106_001..108_192]);
    }
    writer.write_all_at(b"longer", 300_100).unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 300_106);
}

#[test]
fn changes_by_other_clients_are_visible() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let path = point.at("file");
    fs::write(&path, "before").unwrap();
    let open = File::open(&path).unwrap();
    let mut bytes = [0; 6];
    open.read_exact_at(&mut bytes, 0).unwrap();
    let direct = point.direct();
    let root = direct.root();
    let other = root.lookup(b"file").unwrap().open(Open::BOTH).unwrap();
    other.write_at(0, b"behind and longer").unwrap();
    other.sync().unwrap();
    // A process that opens the file sees the change at once; one that has it open sees it within a moment.
    assert_eq!(fs::read(&path).unwrap(), b"behind and longer");
    wait_for("the new content", || {
        let mut bytes = [0; 17];
        open.read_exact_at(&mut bytes, 0).is_ok() && &bytes == b"behind and longer"
    });
    root.rename(b"file", &root, b"moved", Default::default()).unwrap();
    wait_for("the old name to go", || fs::metadata(&path).is_err());
    assert_eq!(fs::read(point.at("moved")).unwrap(), b"behind and longer");
    open.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"behind");
    // And the other way round, at once.
    fs::write(point.at("mine"), "mine").unwrap();
    let mine = direct.resolve(&root, b"/mine", Follow::All).unwrap();
    assert_eq!(mine.attr().unwrap().size, 4);
}

/// The kernel has cached the size that the mount itself has set.
#[test]
fn size_that_others_have_changed_is_visible_at_open() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let (path, direct) = (point.at("file"), point.direct());
    for len in [3000, 90, 200_000, 7] {
        let mine = File::create(&path).unwrap();
        mine.set_len(1000).unwrap();
        drop(mine);
        let other = direct.root().lookup(b"file").unwrap().open(Open::BOTH).unwrap();
        other.set_len(0).unwrap();
        other.write_at(0, &vec![b'x'; len]).unwrap();
        other.close().unwrap();
        let mut file = File::open(&path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len as u64);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes == vec![b'x'; len], "{} of {len} bytes", bytes.len());
    }
}

#[test]
fn copies_stay_in_the_store() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let bytes = support::noise(2_500_000);
    fs::write(point.at("from"), &bytes).unwrap();
    let from = File::open(point.at("from")).unwrap();
    let to = File::create_new(point.at("to")).unwrap();
    let mut offsets = (1_000u64, 0u64);
    let copied = rustix::fs::copy_file_range(
        &from,
        Some(&mut offsets.0),
        &to,
        Some(&mut offsets.1),
        usize::MAX >> 1,
    );
    assert_eq!(copied, Ok(bytes.len() - 1_000));
    assert!(fs::read(point.at("to")).unwrap() == bytes[1_000..]);
}
