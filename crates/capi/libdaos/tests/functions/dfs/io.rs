//! Reading and writing.
use super::*;
use daos::abi::{DfsIod, ObjId, Range};
use daos::dfs::attr::dfs_obj2id;
use daos::dfs::io::*;
use daos::event::*;

fn size(fs: &Fs, obj: Ptr<DfsObj>) -> u64 {
    let mut size = u64::MAX;
    assert_eq!(dfs_get_size(fs.dfs, obj, at(&mut size)), 0);
    size
}

#[test]
fn reads_stop_at_the_end_of_the_file() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"0123456789");
    assert_eq!(fs.read(file, 0), Ok(b"0123456789".to_vec()));
    assert_eq!(fs.read(file, 7), Ok(b"789".to_vec()));
    assert_eq!(fs.read(file, 10), Ok(vec![]));
    assert_eq!(fs.write(file, b"x", 20), 0);
    assert_eq!(fs.read(file, 8), Ok(b"89\0\0\0\0\0\0\0\0\0\0x".to_vec()));
    assert_eq!(fs.write(file, b"", 1 << 40), 0, "no bytes are no change");
    assert_eq!(size(&fs, file), 21);
    release(file);
}

#[test]
fn access_modes_are_enforced() {
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    let file = fs.open(ROOT, c"f", FILE, WRONLY).unwrap();
    assert_eq!(fs.read(file, 0), Err(libc::EPERM));
    assert_eq!(fs.write(file, b"D", 0), 0);
    release(file);
    let file = fs.open(ROOT, c"f", FILE, RDONLY).unwrap();
    assert_eq!(fs.write(file, b"D", 0), libc::EPERM);
    assert_eq!(dfs_punch(fs.dfs, file, 0, u64::MAX), libc::EPERM);
    assert_eq!(fs.read(file, 0), Ok(b"Data".to_vec()));
    release(file);
    let dir = fs.dir(c"d");
    assert_eq!(fs.read(dir, 0), Err(libc::EINVAL));
    assert_eq!(fs.write(dir, b"D", 0), libc::EINVAL);
    assert_eq!(dfs_get_size(fs.dfs, dir, at(&mut 0)), libc::EINVAL);
    release(dir);
}

#[test]
fn ranges_span_several_buffers() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"");
    let mut ranges = [Range { idx: 3, len: 4 }, Range { idx: 0, len: 2 }];
    let mut iod = DfsIod { nr: 2, rgs: list(&mut ranges) };
    let (mut parts, mut read) = ([iov(b"abc"), iov(b"def")], 0);
    let mut out = sgl(&mut parts);
    assert_eq!(dfs_writex(fs.dfs, file, at(&mut iod), at(&mut out), WAIT), 0);
    assert_eq!(fs.read(file, 0), Ok(b"ef\0abcd".to_vec()));
    let mut place = [0; 6];
    let mut parts = [iov_room(&mut place)];
    let mut room = sgl(&mut parts);
    let done = dfs_readx(fs.dfs, file, at(&mut iod), at(&mut room), at(&mut read), WAIT);
    assert_eq!((done, read, &place), (0, 6, b"abcdef"));
    iod.nr = 1;
    assert_eq!(dfs_writex(fs.dfs, file, at(&mut iod), at(&mut out), WAIT), libc::EINVAL);
    let (mut a, mut b) = ([0; 3], [0; 9]);
    let mut parts = [iov_room(&mut a), iov_room(&mut b)];
    let mut room = sgl(&mut parts);
    assert_eq!(dfs_read(fs.dfs, file, at(&mut room), 0, at(&mut read), WAIT), 0);
    assert_eq!((read, &a, &b[..4]), (7, b"ef\0", &b"abcd"[..]));
    assert_eq!((room.nr_out, parts[1].len), (2, 4));
    (parts[0].len, parts[1].len) = (2, 3);
    assert_eq!(dfs_read(fs.dfs, file, at(&mut room), 0, at(&mut read), WAIT), 0);
    assert_eq!((read, &a[..2], &b[..3]), (5, &b"ef"[..], &b"\0ab"[..]));
    assert_eq!(
        (room.nr_out, parts[0].len, parts[1].len),
        (2, 2, 3),
        "each buffer up to its length"
    );
    release(file);
}

#[test]
fn ranges_are_written_all_or_none() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"data");
    let mut ranges = [Range { idx: 0, len: 4 }, Range { idx: (1 << 63) - 1, len: 4 }];
    let mut iod = DfsIod { nr: 2, rgs: list(&mut ranges) };
    let mut parts = [iov(b"new data")];
    let mut out = sgl(&mut parts);
    assert_eq!(dfs_writex(fs.dfs, file, at(&mut iod), at(&mut out), WAIT), libc::EFBIG);
    assert_eq!(fs.read(file, 0), Ok(b"data".to_vec()));
    release(file);
}

#[test]
fn number_of_short_ranges_is_limited() {
    const MOST: u64 = 16384;
    let fs = Fs::new();
    let file = fs.file(c"f", b"");
    let mut ranges: Vec<_> = (0..=MOST).map(|index| Range { idx: 2 * index, len: 1 }).collect();
    let mut iod = DfsIod { nr: MOST + 1, rgs: list(&mut ranges) };
    let data = vec![1; ranges.len()];
    let mut parts = [iov(&data)];
    let (mut out, mut read) = (sgl(&mut parts), 0);
    let (iod, out, read) = (at(&mut iod), at(&mut out), at(&mut read));
    assert_eq!(dfs_writex(fs.dfs, file, iod, out, WAIT), libc::ENOTSUP);
    assert_eq!(dfs_readx(fs.dfs, file, iod, out, read, WAIT), libc::ENOTSUP);
    assert_eq!(fs.read(file, 0), Ok(Vec::new()), "nothing was written");
    release(file);
}

#[test]
fn files_are_punched_and_truncated() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"0123456789");
    assert_eq!(dfs_punch(fs.dfs, file, 2, 3), 0);
    assert_eq!(fs.read(file, 0), Ok(b"01\0\0\x0056789".to_vec()));
    assert_eq!(dfs_punch(fs.dfs, file, 100, 1), 0);
    assert_eq!(size(&fs, file), 10);
    assert_eq!(dfs_punch(fs.dfs, file, 8, 5), 0, "a hole up to the end cuts");
    assert_eq!(size(&fs, file), 8);
    assert_eq!(dfs_punch(fs.dfs, file, 12, u64::MAX), 0, "grows");
    assert_eq!(size(&fs, file), 12);
    assert_eq!(dfs_punch(fs.dfs, file, 3, u64::MAX), 0, "shrinks");
    assert_eq!(fs.read(file, 0), Ok(b"01\0".to_vec()));
    let (mut oid, mut known) = (ObjId::default(), 0);
    assert_eq!(dfs_obj2id(file, at(&mut oid)), 0);
    assert_eq!(dfs_get_size_by_oid(fs.dfs, oid, 0, at(&mut known)), 0);
    assert_eq!(known, 3);
    release(file);
}

#[test]
fn an_event_holds_a_positive_errno() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"data");
    let mut eq = NONE;
    assert_eq!(daos_eq_create(at(&mut eq)), 0);
    let mut ev = event();
    assert_eq!(daos_event_init(at(&mut *ev), eq, Ptr::null()), 0);
    let (mut place, mut read) = ([0; 9], 0);
    let mut parts = [iov_room(&mut place)];
    let mut room = sgl(&mut parts);
    let wait = |launched: c_int, ev: &mut daos::abi::Event| {
        let mut done = 0;
        assert_eq!(launched, 0);
        assert_eq!(daos_event_test(at(ev), -1, at(&mut done)), 0);
        (done, ev.error)
    };
    let launched = dfs_read(fs.dfs, file, at(&mut room), 1, at(&mut read), at(&mut *ev));
    assert_eq!(wait(launched, &mut ev), (1, 0));
    assert_eq!((read, &place[..3]), (3, &b"ata"[..]));
    let wild = dfs_read(fs.dfs, ROOT, at(&mut room), 1, at(&mut read), at(&mut *ev));
    assert_eq!(wait(wild, &mut ev), (1, libc::EINVAL));
    let mut unknown = event();
    let refused = dfs_read(fs.dfs, file, at(&mut room), 1, at(&mut read), at(&mut *unknown));
    assert_eq!(refused, libc::EINVAL);
    assert_eq!(daos_event_fini(at(&mut *ev)), 0);
    assert_eq!(daos_eq_destroy(eq, 0), 0);
    release(file);
}

#[test]
fn handles_of_other_types_are_refused() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"data");
    let mut size = 0;
    assert_eq!(dfs_get_size(Ptr::null(), file, at(&mut size)), libc::EINVAL);
    assert_eq!(dfs_get_size(file.cast(), file, at(&mut size)), libc::EINVAL);
    assert_eq!(dfs_get_size(fs.dfs, fs.dfs.cast(), at(&mut size)), libc::EINVAL);
    assert_eq!(dfs_get_size(fs.dfs, file, Ptr::null()), libc::EINVAL);
    assert_eq!(dfs_get_size(fs.dfs, wild(0x7fff_0000_1234), at(&mut size)), libc::EINVAL);
    release(file);
}
