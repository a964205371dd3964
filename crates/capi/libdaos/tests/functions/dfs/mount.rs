//! Creating, mounting and unmounting file systems.
use super::*;
use daos::abi::{DfsAttr, text_bytes, text_of};
use daos::container::daos_cont_open2;
use daos::dfs::check::dfs_cont_scan;
use daos::dfs::connect::*;
use daos::dfs::create::*;
use daos::dfs::mount::*;
use daos::dfs::open::dfs_dup;
use daos::snapshot::daos_cont_create_snap;

/// Attributes that leave all to the defaults.
fn attr() -> DfsAttr {
    DfsAttr {
        id: 0,
        chunk_size: 0,
        oclass: 0,
        props: Ptr::null(),
        mode: 0,
        dir_oclass: 0,
        file_oclass: 0,
        hints: text_of(b""),
    }
}

#[test]
fn a_file_system_stores_its_attributes() {
    let store = Store::new();
    let mut wanted = DfsAttr { chunk_size: 8192, hints: text_of(b"file:single"), ..attr() };
    wanted.dir_oclass = SX;
    let (mut uuid, mut coh, mut dfs) = ([0; 16], NONE, Ptr::null());
    let label = text(c"home");
    let wanted = at(&mut wanted);
    let make =
        |coh, dfs| dfs_cont_create_with_label(store.poh, label, wanted, Ptr::null(), coh, dfs);
    assert_eq!(make(Ptr::null(), at(&mut dfs)), libc::EINVAL, "a mount needs its handle");
    let made = dfs_cont_create_with_label(
        store.poh,
        label,
        wanted,
        at(&mut uuid),
        at(&mut coh),
        at(&mut dfs),
    );
    assert_eq!(made, 0);
    assert_ne!(uuid, [0; 16]);
    assert_eq!(make(Ptr::null(), Ptr::null()), libc::EEXIST);
    let mut known = attr();
    assert_eq!(dfs_query(dfs, at(&mut known)), 0);
    assert_eq!((known.chunk_size, known.dir_oclass, known.file_oclass), (8192, SX, S1));
    assert_eq!(text_bytes(&known.hints), b"file:single");
    assert_eq!(dfs_cont_scan(store.poh, label, 0, Ptr::null()), 0);
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(dfs_umount(dfs), libc::EINVAL);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
}

#[test]
fn query_names_the_classes_in_effect() {
    let fs = Fs::new();
    let mut known = attr();
    assert_eq!(dfs_query(fs.dfs, at(&mut known)), 0);
    let over_all_targets = S1 + 3;
    assert_eq!((known.oclass, known.dir_oclass, known.file_oclass), (0, S1, over_all_targets));
}

#[test]
fn invalid_attributes_are_refused() {
    let store = Store::new();
    let make = |attr: &mut DfsAttr| {
        dfs_cont_create(store.poh, at(&mut [0; 16]), at(attr), Ptr::null(), Ptr::null())
    };
    for mut wrong in [
        DfsAttr { chunk_size: (1 << 30) + 1, ..attr() },
        DfsAttr { hints: text_of(b"everything:fast"), ..attr() },
        DfsAttr { hints: text_of(b"\xff"), ..attr() },
    ] {
        assert_eq!(make(&mut wrong), libc::EINVAL);
    }
    let nameless = dfs_cont_create(store.poh, Ptr::null(), Ptr::null(), Ptr::null(), Ptr::null());
    assert_eq!(nameless, libc::EINVAL, "neither a label nor an output for the UUID");
    let mut dfs = Ptr::null();
    assert_eq!(dfs_mount(store.poh, store.coh, RDWR, at(&mut dfs)), libc::EINVAL, "no file system");
    assert_eq!(dfs_mount(store.poh, NONE, RDWR, at(&mut dfs)), libc::EINVAL);
    assert_eq!(dfs_mount(NONE, store.coh, RDWR, at(&mut dfs)), libc::EINVAL);
    assert_eq!(
        dfs_cont_create(NONE, Ptr::null(), Ptr::null(), Ptr::null(), Ptr::null()),
        libc::EINVAL
    );
}

#[test]
fn balanced_mode_must_be_requested_on_mount() {
    const BALANCED: c_int = 4;
    let store = Store::new();
    let (mut coh, mut made, label) = (NONE, Ptr::null(), text(c"balanced"));
    let mut wanted = DfsAttr { mode: BALANCED as u32, ..attr() };
    let create = dfs_cont_create_with_label(
        store.poh,
        label,
        at(&mut wanted),
        Ptr::null(),
        at(&mut coh),
        at(&mut made),
    );
    assert_eq!(create, 0);
    let mut dfs = Ptr::null();
    for flags in [RDONLY, RDWR] {
        assert_eq!(dfs_mount(store.poh, coh, flags, at(&mut dfs)), libc::EPERM);
        assert_eq!(dfs_mount(store.poh, coh, flags | BALANCED, at(&mut dfs)), 0);
        assert_eq!(dfs_umount(dfs), 0);
    }
    assert_eq!(dfs_umount(made), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    let fs = Fs::new();
    for flags in [RDWR, RDWR | BALANCED] {
        assert_eq!(dfs_umount(fs.mount(flags)), 0, "a relaxed one is mounted either way");
    }
}

#[test]
fn chunks_may_be_small() {
    let store = Store::new();
    let (mut uuid, mut coh, mut dfs) = ([0; 16], NONE, Ptr::null());
    let mut wanted = DfsAttr { chunk_size: 64, ..attr() };
    let wanted = at(&mut wanted);
    let made = dfs_cont_create(store.poh, at(&mut uuid), wanted, at(&mut coh), at(&mut dfs));
    assert_eq!(made, 0);
    let fs = Fs { dfs, coh, store };
    let data: Vec<u8> = (0..200).collect();
    let file = fs.file(c"f", &data);
    assert_eq!(fs.read(file, 60), Ok(data[60..124].to_vec()));
    let mut chunk = 0;
    assert_eq!(daos::dfs::attr::dfs_get_chunk_size(file, at(&mut chunk)), 0);
    assert_eq!(chunk, 64);
    release(file);
}

#[test]
fn classes_are_suggested() {
    let fs = Fs::new();
    let mut class = 77;
    let mut suggest = |hint| (dfs_suggest_oclass(fs.dfs, text(hint), at(&mut class)), class);
    assert_eq!(suggest(c"max"), (0, SX));
    assert_eq!(suggest(c"file:single"), (0, S1));
    assert_eq!(suggest(c""), (0, 0));
    assert_eq!(suggest(c"quickly").0, libc::EINVAL);
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    let dfs = fs.mount(RDONLY);
    assert_eq!(open_in(dfs, ROOT, c"g", FILE, RDWR | CREAT).map(drop), Err(libc::EPERM));
    assert_eq!(dfs_mkdir(dfs, ROOT, text(c"d"), 0o755, 0), libc::EPERM);
    let file = lookup_in(dfs, c"/f", RDWR).unwrap();
    assert_eq!(fs.write(file, b"x", 0), libc::EPERM);
    assert_eq!(fs.read(file, 0), Ok(b"data".to_vec()));
    release(file);
    assert_eq!(dfs_umount(dfs), 0);
}

#[test]
fn a_read_only_container_is_mounted_read_only() {
    let fs = Fs::new();
    let (mut coh, mut dfs) = (NONE, Ptr::null());
    let made = dfs_cont_create_with_label(
        fs.store.poh,
        text(c"label"),
        Ptr::null(),
        Ptr::null(),
        Ptr::null(),
        Ptr::null(),
    );
    assert_eq!(made, 0);
    let name = text(c"label");
    assert_eq!(daos_cont_open2(fs.store.poh, name, RO, at(&mut coh), Ptr::null(), WAIT), 0);
    assert_eq!(dfs_mount(fs.store.poh, coh, RDWR, at(&mut dfs)), libc::EPERM);
    assert_eq!(dfs_mount(fs.store.poh, coh, RDONLY, at(&mut dfs)), 0);
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
}

#[test]
fn a_snapshot_is_mounted() {
    let fs = Fs::new();
    let file = fs.file(c"f", b"before");
    let (mut epoch, mut dfs) = (0, Ptr::null());
    assert_eq!(daos_cont_create_snap(fs.coh, at(&mut epoch), Ptr::null(), WAIT), 0);
    assert_eq!(fs.write(file, b"after.", 0), 0);
    let (poh, coh) = (fs.store.poh, fs.coh);
    let mut mount = |epoch, name| dfs_mount_snap(poh, coh, RDONLY, epoch, name, at(&mut dfs));
    assert_eq!(mount(0, Ptr::null()), libc::EINVAL);
    assert_eq!(mount(epoch, text(c"name")), libc::ENOTSUP);
    assert_eq!(mount(epoch + 1, Ptr::null()), libc::ENOENT);
    assert_eq!(mount(epoch, Ptr::null()), 0);
    let then = lookup_in(dfs, c"/f", RDONLY).unwrap();
    assert_eq!(fs.read(then, 0), Ok(b"before".to_vec()));
    assert_eq!(fs.read(file, 0), Ok(b"after.".to_vec()));
    [then, file].into_iter().for_each(release);
    assert_eq!(dfs_umount(dfs), 0);
}

#[test]
fn a_file_system_is_mounted_by_pool_and_container_name() {
    let store = Store::new();
    let (pool, mut dfs) = (text(&store.name), Ptr::null());
    let mut connect = |name: &CStr, flags| {
        dfs_connect(pool, Ptr::null(), text(name), flags, Ptr::null(), at(&mut dfs))
    };
    assert_eq!(dfs_init(), 0);
    assert_eq!(connect(c"new", RDWR), libc::ENOENT);
    assert_eq!(connect(c"test", RDWR), libc::EINVAL, "no file system");
    assert_eq!(connect(c"new", RDWR | CREAT), 0);
    let (mut poh, mut coh) = (NONE, NONE);
    assert_eq!((dfs_pool_get(dfs, at(&mut poh)), dfs_cont_get(dfs, at(&mut coh))), (0, 0));
    assert_ne!((poh, coh), (NONE, NONE));
    assert_eq!((dfs_pool_put(dfs, poh), dfs_cont_put(dfs, coh)), (0, 0));
    assert_eq!(dfs_pool_put(dfs, coh), libc::EINVAL);
    assert_eq!(dfs_destroy(pool, Ptr::null(), text(c"new"), 0, WAIT), libc::EBUSY);
    assert_eq!(dfs_disconnect(dfs), 0);
    assert_eq!(daos_cont_close(coh, WAIT), NO_HDL, "the handle ended with the mount");
    assert_eq!(dfs_destroy(pool, Ptr::null(), text(c"new"), 0, WAIT), 0);
    assert_eq!(dfs_destroy(pool, Ptr::null(), text(c"new"), 0, WAIT), libc::ENOENT);
    assert_eq!(dfs_fini(), 0);
}

/// The program has closed the container before, so that its close fails.
#[test]
fn disconnect_closes_the_pool_if_the_container_fails_to_close() {
    let store = Store::new();
    let (pool, none, mut dfs) = (text(&store.name), Ptr::null(), Ptr::null());
    let (to, flags) = (at(&mut dfs), RDWR | CREAT);
    assert_eq!(dfs_init(), 0);
    assert_eq!(dfs_connect(pool, Ptr::null(), text(c"new"), flags, none, to), 0);
    let (mut poh, mut coh) = (NONE, NONE);
    assert_eq!((dfs_pool_get(dfs, at(&mut poh)), dfs_cont_get(dfs, at(&mut coh))), (0, 0));
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    assert_ne!(dfs_disconnect(dfs), 0);
    assert_eq!(daos::pool::daos_pool_disconnect(poh, WAIT), NO_HDL);
    assert_eq!(dfs_fini(), 0);
}

#[test]
fn a_prefix_is_removed_from_paths() {
    let fs = Fs::new();
    release(fs.file(c"f", b"data"));
    assert_eq!(dfs_set_prefix(fs.dfs, text(c"relative")), libc::EINVAL);
    assert_eq!(dfs_set_prefix(fs.dfs, text(c"/mnt/fs/")), 0);
    for path in [c"/mnt/fs/f", c"/f", c"/mnt/fs", c"/mnt/fs/"] {
        release(fs.lookup(path, RDONLY).unwrap());
    }
    assert_eq!(fs.lookup(c"/mnt/fsf", RDONLY).map(drop), Err(libc::ENOENT));
    assert_eq!(dfs_set_prefix(fs.dfs, Ptr::null()), 0);
    assert_eq!(fs.lookup(c"/mnt/fs/f", RDONLY).map(drop), Err(libc::ENOENT));
    assert_eq!(dfs_sync(fs.dfs), 0);
}

#[test]
fn objects_outlive_their_mount() {
    let fs = Fs::new();
    let dfs = fs.mount(RDWR);
    let file = open_in(dfs, ROOT, c"f", FILE | 0o644, RDWR | CREAT).unwrap();
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(fs.write(file, b"data", 0), 0, "through another mount");
    let mut other = Ptr::null();
    assert_eq!(dfs_dup(dfs, file, RDWR, at(&mut other)), libc::EINVAL);
    release(file);
}

#[test]
fn owners_of_container_and_root_change_together() {
    let fs = Fs::new();
    let mut seen = stat();
    let owner = |user, uid| dfs_cont_set_owner(fs.coh, user, uid, Ptr::null(), u32::MAX);
    assert_eq!(owner(text(c"someone@"), 4321), 0);
    let dfs = fs.mount(RDONLY);
    assert_eq!(daos::dfs::attr::dfs_stat(dfs, ROOT, Ptr::null(), at(&mut seen)), 0);
    assert_eq!(seen.st_uid, 4321);
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(owner(text(c"no name"), 1), libc::EINVAL);
    assert_eq!(owner(Ptr::null(), 1), libc::EINVAL);
}
