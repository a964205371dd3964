//! The file system calls. Those that would close the mount or the objects only get invalid arguments.
use super::arguments::Fuzz;
use super::setting;
use crate::common::*;
use crate::dfs::{DIR, FILE, Fs, RDWR, release};
use daos::abi::*;
use daos::dfs::{
    attr::*, connect::*, create::*, entry::*, file::*, global::*, io::*, list::*, mount::*,
    open::*, xattr::*,
};
use daos::dfs_sys::{attr::*, dir::*, entry::*, file::*, mount::*, xattr::*};
use daos::duns::*;

impl Fuzz {
    fn obj<T>(&mut self) -> Ptr<T> {
        if self.random.below(8) == 0 { Ptr::null() } else { wild(self.handle().cookie) }
    }

    fn wild_obj<T>(&mut self) -> Ptr<T> {
        wild(self.wild().cookie)
    }

    fn no_op(&mut self) -> Option<Filler> {
        None
    }

    fn dfs_iod(&mut self) -> Ptr<DfsIod> {
        let (nr, rgs) = (u64::from(self.small()), self.recxs().cast());
        self.boxed(DfsIod { nr, rgs })
    }

    /// Attributes with a list of properties or none.
    fn dfs_attr(&mut self) -> Ptr<DfsAttr> {
        let (oclass, chunk_size, props) = (self.n32(), self.random.number(), self.prop());
        let hints = self.random.one_of(&[&b""[..], b"file:max", b"x", b"dir:\xff"]);
        let (dir_oclass, file_oclass) = (self.n32(), self.n32());
        let hints = text_of(hints);
        let (id, mode) = (self.random.word(), self.n32());
        self.boxed(DfsAttr { id, chunk_size, oclass, props, mode, dir_oclass, file_oclass, hints })
    }

    /// Absolute paths and others.
    fn path(&mut self) -> Str {
        let paths = [c"/", c"/key", c"/test/key", c"/../.", c"//test//", c"/\xff", c"", c"key"];
        if self.random.below(9) == 0 { Ptr::null() } else { text(self.random.one_of(&paths)) }
    }

    /// Paths that do not exist on the machine, and malformed ones.
    fn host_path(&mut self) -> Str {
        let paths = [c"daos://p/c", c"daos:", c"/no/such/path", c"", c"daos://"];
        if self.random.below(6) == 0 { Ptr::null() } else { text(self.random.one_of(&paths)) }
    }

    fn bit(&mut self) -> u8 {
        self.random.below(2) as u8
    }

    fn open_mode(&mut self) -> u32 {
        let types = [FILE, DIR, libc::S_IFLNK, libc::S_IFIFO, 0, FILE];
        self.random.one_of(&types) | self.n32() & 0o7777
    }

    fn open_flags(&mut self) -> i32 {
        let known = [RDWR, RDWR | libc::O_CREAT, libc::O_RDONLY, libc::O_WRONLY | libc::O_TRUNC];
        if self.random.below(6) == 0 { self.n32() as i32 } else { self.random.one_of(&known) }
    }

    /// A number in the range of the file's size.
    fn offset(&mut self) -> u64 {
        self.random.one_of(&[0, 1, 5, 4096, 1 << 20, u64::MAX, 1 << 63])
    }
}

throw! { fuzz;
    dfs_lookup(obj, path, open_flags, ptr, ptr, ptr);
    dfs_lookup_rel(obj, obj, str, open_flags, ptr, ptr, ptr);
    dfs_open(obj, obj, str, open_mode, open_flags, n32, n64, str, ptr);
    dfs_dup(obj, obj, open_flags, ptr);
    dfs_mkdir(obj, obj, str, n32, n32);
    dfs_release(wild_obj);
    dfs_umount(wild_obj);
    dfs_disconnect(wild_obj);
    dfs_sys_umount(wild_obj);
    dfs_sys_closedir(wild_obj);
    dfs_get_file_oh(obj, ptr);
    dfs_update_parent(obj, obj, str);
    dfs_read(obj, obj, sgl, offset, ptr, ev);
    dfs_readx(obj, obj, dfs_iod, sgl, ptr, ev);
    dfs_write(obj, obj, sgl, offset, ev);
    dfs_writex(obj, obj, dfs_iod, sgl, ev);
    dfs_get_size(obj, obj, ptr);
    dfs_get_size_by_oid(obj, oid, n64, ptr);
    dfs_punch(obj, obj, offset, offset);
    dfs_readdir(obj, obj, anchor, sizes32, ptr);
    dfs_readdirplus(obj, obj, anchor, sizes32, ptr, ptr);
    dfs_iterate(obj, obj, anchor, sizes32, len_usize, no_op, ptr);
    dfs_dir_anchor_set(obj, str, ptr);
    dfs_obj_anchor_split(obj, ptr, ptr);
    dfs_obj_anchor_set(obj, n32, ptr);
    dfs_remove(obj, obj, str, bit, ptr);
    dfs_move(obj, obj, str, obj, str, ptr);
    dfs_exchange(obj, obj, str, obj, str);
    dfs_stat(obj, obj, str, ptr);
    dfs_ostat(obj, obj, ptr);
    dfs_osetattr(obj, obj, ptr, small_int);
    dfs_access(obj, obj, str, small_int);
    dfs_chmod(obj, obj, str, n32);
    dfs_chown(obj, obj, str, n32, n32, small_int);
    dfs_get_mode(obj, ptr);
    dfs_obj2id(obj, ptr);
    dfs_obj_get_info(obj, obj, ptr);
    dfs_get_chunk_size(obj, ptr);
    dfs_obj_set_oclass(obj, obj, small_int, n32);
    dfs_obj_set_chunk_size(obj, obj, small_int, n64);
    dfs_setxattr(obj, obj, str, ptr, n64, small_int);
    dfs_getxattr(obj, obj, str, ptr, sizes);
    dfs_removexattr(obj, obj, str);
    dfs_listxattr(obj, obj, ptr, sizes);
    dfs_get_symlink_value(obj, ptr, sizes);
    dfs_local2global(obj, iov_ptr);
    dfs_global2local(handle, handle, open_flags, iov, ptr);
    dfs_local2global_all(obj, iov_ptr);
    dfs_global2local_all(open_flags, iov, ptr);
    dfs_obj_local2global(obj, obj, iov_ptr);
    dfs_obj_global2local(obj, open_flags, iov, ptr);
    dfs_mount(handle, handle, open_flags, ptr);
    dfs_mount_snap(handle, handle, open_flags, n64, missing_name, ptr);
    dfs_connect(missing_name, str, missing_name, open_flags, dfs_attr, ptr);
    dfs_cont_create(wild, ptr, dfs_attr, ptr, ptr);
    dfs_query(obj, ptr);
    dfs_suggest_oclass(obj, str, ptr);
    dfs_pool_put(obj, handle);
    dfs_cont_put(obj, handle);
    dfs_pool_get(obj, ptr);
    dfs_set_prefix(obj, path);
    dfs_sync(obj);
    dfs_sys_mount(handle, handle, open_flags, small_int, ptr);
    dfs_sys_access(obj, path, small_int, small_int);
    dfs_sys_chmod(obj, path, n32);
    dfs_sys_setattr(obj, path, ptr, small_int, small_int);
    dfs_sys_utimens(obj, path, ptr, small_int);
    dfs_sys_stat(obj, path, small_int, ptr);
    dfs_sys_mknod(obj, path, open_mode, n32, n64);
    dfs_sys_getxattr(obj, path, str, ptr, sizes, small_int);
    dfs_sys_setxattr(obj, path, str, ptr, len, small_int, small_int);
    dfs_sys_readlink(obj, path, ptr, sizes);
    dfs_sys_symlink(obj, str, path);
    dfs_sys_open(obj, path, open_mode, open_flags, n32, n64, str, ptr);
    dfs_sys_read(obj, obj, ptr, offset, sizes, ev);
    dfs_sys_write(obj, obj, ptr, offset, sizes, ev);
    dfs_sys_punch(obj, path, offset, offset);
    dfs_sys_remove_type(obj, path, bit, open_mode, ptr);
    dfs_sys_mkdir_p(obj, path, n32, n32);
    dfs_sys_opendir(obj, path, small_int, ptr);
    dfs_sys_readdir(obj, obj, ptr);
    dfs_sys2base(obj, ptr);
    duns_resolve_path(host_path, duns_attr);
    duns_parse_attr(ptr, len, duns_attr);
    duns_create_path(wild, host_path, duns_attr);
    duns_link_cont(wild, missing_name, host_path);
    duns_destroy_path(wild, host_path);
}

impl Fuzz {
    /// Attributes without memory to free.
    fn duns_attr(&mut self) -> Ptr<DunsAttr> {
        let (flags, no_prefix) = (self.n32(), self.bit());
        let attr = DunsAttr { flags, no_prefix, ..crate::dfs::duns::attr() };
        self.boxed(attr)
    }
}

#[test]
fn no_argument_crashes_the_file_system() {
    let seed = esker_testing::seed();
    let rounds = setting("ESKER_FUZZ_ROUNDS", 50_000);
    let fs = Fs::new();
    let (file, dir) = (fs.file(c"key", b"data"), fs.dir(c"test"));
    let (mut sys, mut listing) = (Ptr::null(), Ptr::null());
    dfs_sys_mount(fs.store.poh, fs.coh, RDWR, 0, at(&mut sys));
    dfs_sys_opendir(sys, text(c"/"), 0, at(&mut listing));
    let cookie = |address: usize| Handle { cookie: address as u64 };
    let pointers = [
        fs.dfs.raw().addr(),
        fs.dfs.raw().addr(),
        file.raw().addr(),
        dir.raw().addr(),
        sys.raw().addr(),
        listing.raw().addr(),
    ];
    let mut handles = pointers.map(cookie).to_vec();
    handles.extend([fs.store.poh, fs.coh]);
    let mut oid = ObjId::default();
    dfs_obj2id(file, at(&mut oid));
    let mut fuzz = Fuzz::new(seed, &handles, &[oid]);
    for _ in 0..rounds {
        let call = fuzz.random.below(CALLS.len());
        CALLS[call](&mut fuzz);
    }
    assert!(fs.lookup(c"/", RDWR).is_ok(), "the mount still stands");
    [file, dir].into_iter().for_each(release);
    assert_eq!(dfs_sys_closedir(listing), 0);
    assert_eq!(dfs_sys_umount(sys), 0);
}
