//! Global handles of mounts and objects.
use super::*;
use daos::abi::{Iov, ObjId};
use daos::dfs::attr::dfs_obj2id;
use daos::dfs::entry::dfs_move;
use daos::dfs::global::*;
use daos::dfs::mount::dfs_disconnect;

/// The global form of a handle, which `call` returns after it was asked for the size.
fn blob(call: impl Fn(Ptr<Iov>) -> c_int) -> Vec<u8> {
    let mut glob = Iov { buf: Ptr::null(), buf_len: 0, len: 0 };
    assert_eq!(call(at(&mut glob)), 0);
    let mut bytes = vec![0xee; glob.buf_len];
    let mut short = iov_room(&mut bytes[1..]);
    assert_eq!(call(at(&mut short)), libc::ERANGE);
    assert_eq!(short.buf_len, bytes.len());
    let mut glob = iov_room(&mut bytes);
    assert_eq!(call(at(&mut glob)), 0);
    bytes
}

#[test]
fn a_mount_is_opened_from_a_global_handle() {
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    let bytes = blob(|glob| dfs_local2global(fs.dfs, glob));
    let (poh, mut dfs) = (fs.store.poh, Ptr::null());
    assert_eq!(dfs_global2local(poh, fs.coh, 0, iov(&bytes), at(&mut dfs)), 0);
    release(open_in(dfs, ROOT, c"g", FILE, RDWR | CREAT).unwrap());
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(dfs_global2local(poh, fs.store.coh, 0, iov(&bytes), at(&mut dfs)), libc::EINVAL);
    assert_eq!(dfs_global2local(poh, fs.coh, 0, iov(&bytes[1..]), at(&mut dfs)), libc::EINVAL);
    assert_eq!(dfs_global2local(poh, fs.coh, 0, iov(&bytes[..30]), at(&mut dfs)), libc::EINVAL);
}

#[test]
fn a_mount_is_opened_with_its_handles_from_a_global_handle() {
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    let bytes = blob(|glob| dfs_local2global_all(fs.dfs, glob));
    let mut dfs = Ptr::null();
    assert_eq!(dfs_global2local_all(0, iov(&bytes), at(&mut dfs)), 0);
    release(lookup_in(dfs, c"/f", RDWR).unwrap());
    assert_eq!(dfs_disconnect(dfs), 0);
    assert_eq!(dfs_global2local_all(0, iov(&bytes[..20]), at(&mut dfs)), libc::EINVAL);
}

#[test]
fn an_object_is_opened_from_a_global_handle() {
    let fs = Fs::new();
    let (file, dir) = (fs.file(c"f", b"data"), fs.dir(c"d"));
    let bytes = blob(|glob| dfs_obj_local2global(fs.dfs, file, glob));
    let (mut other, mut oid, mut same) = (Ptr::null(), ObjId::default(), ObjId::default());
    let mut open = |flags| dfs_obj_global2local(fs.dfs, flags, iov(&bytes), at(&mut other));
    assert_eq!(open(0), 0);
    assert_eq!(dfs_obj2id(file, at(&mut oid)), 0);
    assert_eq!(dfs_obj2id(other, at(&mut same)), 0);
    assert_eq!(oid, same);
    assert_eq!(fs.write(other, b"D", 0), 0);
    release(other);
    let mut open = |flags| dfs_obj_global2local(fs.dfs, flags, iov(&bytes), at(&mut other));
    assert_eq!(open(WRONLY), 0);
    assert_eq!(fs.read(other, 0), Err(libc::EPERM));
    release(other);
    assert_eq!(dfs_move(fs.dfs, ROOT, text(c"f"), dir, text(c"f"), Ptr::null()), 0);
    let mut open = |flags| dfs_obj_global2local(fs.dfs, flags, iov(&bytes), at(&mut other));
    assert_eq!(open(0), libc::ENOENT, "it has another path now");
    release(fs.file(c"f", b"another"));
    let mut open = |flags| dfs_obj_global2local(fs.dfs, flags, iov(&bytes), at(&mut other));
    assert_eq!(open(0), libc::ENOENT, "that is another file");
    let bytes = blob(|glob| dfs_obj_local2global(fs.dfs, dir, glob));
    assert_eq!(dfs_obj_global2local(fs.dfs, 0, iov(&bytes), at(&mut other)), 0);
    [file, dir, other].into_iter().for_each(release);
}
