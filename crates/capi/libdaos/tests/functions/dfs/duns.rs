//! Paths that refer to containers.
use super::*;
use daos::abi::{DunsAttr, text_bytes, text_of};
use daos::duns::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const POSIX: u16 = 1;
const HDF5: u16 = 2;

/// Attributes that are all empty.
pub(crate) fn attr() -> DunsAttr {
    DunsAttr {
        layout: 0,
        oclass: 0,
        chunk_size: 0,
        props: Ptr::null(),
        flags: 0,
        pool: text_of(b""),
        cont: text_of(b""),
        sys: Ptr::null(),
        rel_path: Ptr::null(),
        on_lustre: 0,
        no_prefix: 0,
        pool_uuid: [0; 16],
        cont_uuid: [0; 16],
        dir_oclass: 0,
        file_oclass: 0,
        hints: text_of(b""),
    }
}

/// The parts of a resolved path: pool, container, the rest.
fn resolve(path: &CStr, flags: u32) -> Result<(String, String, String), c_int> {
    let mut found = DunsAttr { flags, ..attr() };
    match duns_resolve_path(text(path), at(&mut found)) {
        0 => {
            let string = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let rest = found.rel_path.bytes().map_or(Vec::new(), <[u8]>::to_vec);
            let all =
                (string(text_bytes(&found.pool)), string(text_bytes(&found.cont)), string(rest));
            duns_destroy_attr(at(&mut found));
            assert!(found.rel_path.is_null());
            Ok(all)
        }
        errno => Err(errno),
    }
}

/// The result of [`resolve`] for these parts.
fn parts(pool: &str, container: &str, rest: &str) -> Result<(String, String, String), c_int> {
    Ok((pool.to_owned(), container.to_owned(), rest.to_owned()))
}

#[test]
fn direct_paths_are_parsed() {
    const NO_PREFIX: u32 = 1;
    const NO_CHECK: u32 = 4;
    assert_eq!(resolve(c"daos://p/c", 0), parts("p", "c", ""));
    assert_eq!(resolve(c"daos://p/c/", 0), parts("p", "c", ""));
    assert_eq!(resolve(c"daos://p/c/a/b", 0), parts("p", "c", "/a/b"));
    assert_eq!(resolve(c"daos:/p/c", 0), parts("p", "c", ""));
    assert_eq!(resolve(c"daos://p", 0), parts("p", "", ""));
    assert_eq!(resolve(c"/p/c/a", NO_PREFIX), parts("p", "c", "/a"));
    assert_eq!(resolve(c"/p/c/a", NO_CHECK), parts("p", "c", "/a"));
    for wrong in [c"daos:", c"daos://", c"daos:p/c"] {
        assert_eq!(resolve(wrong, 0), Err(libc::EINVAL), "{wrong:?}");
    }
    let long = CString::new(format!("daos://{}/c", "p".repeat(128))).unwrap();
    assert_eq!(resolve(&long, 0), Err(libc::EINVAL));
}

#[test]
fn values_of_the_attribute_are_parsed() {
    let mut found = attr();
    let value = c"DAOS.HDF5://a2ea5ad0-0000-4000-8000-000000000001/c";
    let len = value.to_bytes_with_nul().len() as u64;
    assert_eq!(duns_parse_attr(text(value), len, at(&mut found)), 0);
    assert_eq!((found.layout, text_bytes(&found.cont)), (HDF5, b"c".to_vec()));
    assert_eq!((found.pool_uuid[0], found.cont_uuid), (0xa2, [0; 16]));
    assert_eq!(duns_parse_attr(text(value), 9, at(&mut found)), libc::EINVAL);
    assert_eq!(duns_parse_attr(Ptr::null(), 9, at(&mut found)), libc::EINVAL);
    assert_eq!(duns_set_sys_name(at(&mut found), text(c"system")), 0);
    assert_eq!(read(found.sys), "system");
    duns_destroy_attr(at(&mut found));
    assert!(found.sys.is_null());
    duns_destroy_attr(Ptr::null());
}

/// A temporary directory, which is removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("esker-duns-{}-{}", std::process::id(), number());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> CString {
        c_path(&self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn a_path_refers_to_a_container_until_it_is_destroyed() {
    let (store, folder) = (Store::new(), Folder::new());
    let path = folder.path("fs");
    let mut wanted = DunsAttr { layout: POSIX, chunk_size: 8192, ..attr() };
    match duns_create_path(store.poh, text(&path), at(&mut wanted)) {
        libc::ENOTSUP => return esker_testing::skip("no extended attributes here"),
        made => assert_eq!(made, 0),
    }
    let (pool, cont) = (text_bytes(&wanted.pool), text_bytes(&wanted.cont));
    let (pool, cont) = (String::from_utf8(pool).unwrap(), String::from_utf8(cont).unwrap());
    assert_eq!(duns_create_path(store.poh, text(&path), at(&mut wanted)), libc::EEXIST);
    assert_eq!(resolve(&path, 0), parts(&pool, &cont, ""));
    std::fs::create_dir_all(folder.0.join("fs/a/b")).unwrap();
    assert_eq!(resolve(&folder.path("fs/a/b"), 0), parts(&pool, &cont, "/a/b"));
    assert_eq!(resolve(&folder.path("fs/a"), 2), Err(libc::ENODATA), "only the path itself");
    assert_eq!(resolve(&folder.path("fs/a/none"), 0), Err(libc::ENOENT));
    std::fs::remove_dir_all(folder.0.join("fs/a")).unwrap();
    assert_eq!(resolve(&folder.path("other"), 0), Err(libc::ENOENT));
    std::fs::create_dir(folder.0.join("other")).unwrap();
    assert_eq!(resolve(&folder.path("other"), 0), Err(libc::ENODATA));
    let (mut coh, name) = (NONE, CString::new(cont).unwrap());
    let open = daos::container::daos_cont_open2;
    assert_eq!(open(store.poh, text(&name), RW, at(&mut coh), Ptr::null(), WAIT), 0);
    let mut dfs = Ptr::null();
    assert_eq!(dfs_mount(store.poh, coh, RDWR, at(&mut dfs)), 0);
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    let other = Store::new();
    assert_eq!(duns_destroy_path(other.poh, text(&path)), libc::EINVAL, "another pool");
    let second = folder.path("link");
    assert_eq!(duns_link_cont(store.poh, text(&name), text(&second)), 0);
    assert_eq!(resolve(&second, 0).unwrap().0, pool);
    assert_eq!(duns_destroy_path(store.poh, text(&path)), 0);
    assert_eq!(duns_destroy_path(store.poh, text(&path)), libc::ENOENT);
    assert_eq!(duns_destroy_path(store.poh, text(&second)), 0, "its container is gone already");
}

#[test]
fn a_file_stands_for_hdf5_and_failures_leave_nothing() {
    let (store, folder) = (Store::new(), Folder::new());
    let path = folder.path("data.h5");
    let mut wanted = DunsAttr { layout: HDF5, ..attr() };
    match duns_create_path(store.poh, text(&path), at(&mut wanted)) {
        libc::ENOTSUP => return esker_testing::skip("no extended attributes here"),
        made => assert_eq!(made, 0),
    }
    assert_eq!(duns_destroy_path(store.poh, text(&path)), 0);
    let mut wrong = DunsAttr { layout: POSIX, chunk_size: (1 << 30) + 1, ..attr() };
    let path = folder.path("wrong");
    assert_eq!(duns_create_path(store.poh, text(&path), at(&mut wrong)), libc::EINVAL);
    wrong.layout = 7;
    assert_eq!(duns_create_path(store.poh, text(&path), at(&mut wrong)), libc::EINVAL);
    assert_eq!(duns_link_cont(store.poh, text(c"none"), text(&path)), libc::ENOENT);
    assert_eq!(duns_link_cont(store.poh, text(c"test"), text(&path)), libc::EINVAL, "no layout");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}
