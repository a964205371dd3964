//! The checker of file systems (`dfs_cont_check`), and what was removed below a file system.
use super::*;
use daos::abi::{Iov, ObjId, Str};
use daos::container::daos_cont_open2;
use daos::dfs::attr::{dfs_obj2id, dfs_stat};
use daos::dfs::check::dfs_cont_check;
use daos::object::{daos_obj_close, daos_obj_open, daos_obj_punch, daos_obj_punch_dkeys};

const PRINT: u64 = 1;
const REMOVE: u64 = 2;
const RELINK: u64 = 4;
const VERIFY: u64 = 8;
const EVICT_ALL: u64 = 16;

/// A container `files` with a file system; no client has it open.
struct Files {
    store: Store,
}

impl Files {
    /// A file system with the directory `d`, the file `d/in` of 5 bytes, and the file `f` of 3 bytes.
    fn new() -> Self {
        let store = Store::new();
        let (label, none) = (text(c"files"), Ptr::null());
        let made = daos::dfs::create::dfs_cont_create_with_label(
            store.poh,
            label,
            Ptr::null(),
            Ptr::null(),
            none,
            Ptr::null(),
        );
        assert_eq!(made, 0);
        let files = Self { store };
        files.mounted(|dfs| {
            assert_eq!(dfs_mkdir(dfs, ROOT, text(c"d"), 0o755, 0), 0);
            let dir = open_in(dfs, ROOT, c"d", DIR, RDWR).unwrap();
            for (parent, name, data) in [(dir, c"in", &b"inner"[..]), (ROOT, c"f", b"top")] {
                let file = open_in(dfs, parent, name, FILE | 0o644, RDWR | CREAT).unwrap();
                assert_eq!(dfs_write(dfs, file, at(&mut sgl(&mut [iov(data)])), 0, WAIT), 0);
                release(file);
            }
            release(dir);
        });
        files
    }

    /// Opens the container.
    fn opened(&self) -> Handle {
        let (mut coh, label) = (NONE, text(c"files"));
        let opened = daos_cont_open2(self.store.poh, label, RW, at(&mut coh), Ptr::null(), WAIT);
        assert_eq!(opened, 0);
        coh
    }

    /// Runs `work` on the mounted file system, and unmounts it.
    fn mounted<T>(&self, work: impl FnOnce(Ptr<Dfs>) -> T) -> T {
        let (coh, mut dfs) = (self.opened(), Ptr::null());
        assert_eq!(dfs_mount(self.store.poh, coh, RDWR, at(&mut dfs)), 0);
        let done = work(dfs);
        assert_eq!((dfs_umount(dfs), daos_cont_close(coh, WAIT)), (0, 0));
        done
    }

    /// The object id of a path.
    fn id_of(&self, path: &CStr) -> ObjId {
        self.mounted(|dfs| {
            let (obj, mut oid) = (lookup_in(dfs, path, RDONLY).unwrap(), ObjId::default());
            assert_eq!(dfs_obj2id(obj, at(&mut oid)), 0);
            release(obj);
            oid
        })
    }

    /// Removes entries of the root directory by punches, so that their objects lose their names.
    fn punch(&self, names: &[&[u8]]) {
        let root = self.id_of(c"/");
        for name in names {
            let mut name: Iov = iov(name);
            self.change(root, |oh| daos_obj_punch_dkeys(oh, NONE, 0, 1, at(&mut name), WAIT));
        }
    }

    /// Runs `work` on an object, which it changes below the file system.
    fn change(&self, oid: ObjId, work: impl FnOnce(Handle) -> c_int) {
        let (coh, mut oh) = (self.opened(), NONE);
        assert_eq!(daos_obj_open(coh, oid, OBJ_RW, at(&mut oh), WAIT), 0);
        assert_eq!((work(oh), daos_obj_close(oh, WAIT), daos_cont_close(coh, WAIT)), (0, 0, 0));
    }

    /// Runs the checker. `name` is the directory for relinked objects.
    fn check(&self, flags: u64, name: Str) -> c_int {
        dfs_cont_check(self.store.poh, text(c"files"), flags, name)
    }

    /// Number of objects in the container.
    fn objects(&self) -> usize {
        let coh = self.opened();
        let count = crate::tx::objects(coh);
        assert_eq!(daos_cont_close(coh, WAIT), 0);
        count
    }

    /// Size of the file at a path, or the errno.
    fn size(&self, path: &CStr) -> Result<i64, c_int> {
        self.mounted(|dfs| {
            let obj = lookup_in(dfs, path, RDONLY)?;
            let mut seen = stat();
            let asked = daos::dfs::attr::dfs_ostat(dfs, obj, at(&mut seen));
            release(obj);
            if asked == 0 { Ok(seen.st_size) } else { Err(asked) }
        })
    }
}

#[test]
fn checker_removes_objects_without_names() {
    let files = Files::new();
    assert_eq!((files.check(PRINT | VERIFY, Ptr::null()), files.objects()), (0, 5));
    files.punch(&[b"d"]);
    assert_eq!((files.check(PRINT, Ptr::null()), files.objects()), (0, 5));
    assert_eq!((files.check(REMOVE | VERIFY, Ptr::null()), files.objects()), (0, 3));
    assert_eq!(files.size(c"/f"), Ok(3));
}

#[test]
fn checker_relinks_objects_without_names() {
    let files = Files::new();
    let (dir, file) = (files.id_of(c"/d"), files.id_of(c"/f"));
    files.punch(&[b"d", b"f"]);
    assert_eq!(files.check(PRINT | RELINK | VERIFY, text(c"found")), 0);
    let path = |oid: ObjId, rest: &str| {
        std::ffi::CString::new(format!("/lost+found/found/{}.{}{rest}", oid.hi, oid.lo)).unwrap()
    };
    assert_eq!(files.size(&path(dir, "/in")), Ok(5));
    assert_eq!(files.size(&path(file, "")), Ok(3));
    assert_eq!(files.objects(), 7, "two directories more");
    assert_eq!(files.check(RELINK, text(c"found")), libc::EEXIST);
    assert_eq!(files.check(RELINK, Ptr::null()), 0, "the time names another directory");
    assert_eq!(files.objects(), 8);
    let mut seen = stat();
    let owner = files.mounted(|dfs| {
        let above = lookup_in(dfs, c"/lost+found/found", RDONLY).unwrap();
        let name = std::ffi::CString::new(format!("{}.{}", dir.hi, dir.lo)).unwrap();
        assert_eq!(dfs_stat(dfs, above, text(&name), at(&mut seen)), 0);
        release(above);
        (seen.st_uid, seen.st_mode)
    });
    assert_eq!(owner, (real_owner().0, DIR | 0o700));
}

#[test]
fn chunk_size_of_relinked_file_is_guessed() {
    let files = Files::new();
    let oid = files.mounted(|dfs| {
        let (name, mut file, mut oid) = (text(c"large"), Ptr::null(), ObjId::default());
        let (mode, chunk) = (FILE | 0o644, 4 << 20);
        let to = at(&mut file);
        assert_eq!(dfs_open(dfs, ROOT, name, mode, RDWR | CREAT, 0, chunk, Ptr::null(), to), 0);
        let data = vec![7; 9 << 20];
        assert_eq!(dfs_write(dfs, file, at(&mut sgl(&mut [iov(&data)])), 0, WAIT), 0);
        assert_eq!(dfs_obj2id(file, at(&mut oid)), 0);
        release(file);
        oid
    });
    files.punch(&[b"large"]);
    assert_eq!(files.check(RELINK, text(c"found")), 0);
    let path = format!("/lost+found/found/{}.{}", oid.hi, oid.lo);
    assert_eq!(files.size(&std::ffi::CString::new(path).unwrap()), Ok(9 << 20));
}

#[test]
fn checker_needs_the_container_for_itself() {
    let files = Files::new();
    let coh = files.opened();
    assert_eq!(files.check(REMOVE, Ptr::null()), libc::EBUSY);
    assert_eq!(files.check(REMOVE | EVICT_ALL, Ptr::null()), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    for flags in [REMOVE | RELINK, 32] {
        assert_eq!(files.check(flags, Ptr::null()), libc::EINVAL);
    }
    assert_eq!(files.check(RELINK, text(c"a/b")), libc::EINVAL);
    assert_eq!(dfs_cont_check(files.store.poh, text(c"none"), 0, Ptr::null()), libc::ENOENT);
}

#[test]
fn file_system_without_superblock_or_root_does_not_exist() {
    let refused = |punch: &dyn Fn(Handle) -> c_int| {
        let files = Files::new();
        let oid = superblock(&files);
        files.change(oid, punch);
        let (coh, mut dfs) = (files.opened(), Ptr::null());
        assert_eq!(dfs_mount(files.store.poh, coh, RDWR, at(&mut dfs)), libc::ENOENT);
        assert_eq!(daos_cont_close(coh, WAIT), 0);
        assert_eq!(files.check(PRINT, Ptr::null()), libc::ENOENT);
    };
    refused(&|oh| daos_obj_punch(oh, NONE, 0, WAIT));
    refused(&|oh| {
        let mut root: Iov = iov(b"/");
        daos_obj_punch_dkeys(oh, NONE, 0, 1, at(&mut root), WAIT)
    });
}

/// The superblock: its id differs from that of the root in the upper word.
fn superblock(files: &Files) -> ObjId {
    let coh = files.opened();
    let mut oid = ObjId::default();
    assert_eq!(daos::object::daos_obj_generate_oid2(coh, at(&mut oid), MULTI_HASHED, S1, 0, 0), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    oid
}
