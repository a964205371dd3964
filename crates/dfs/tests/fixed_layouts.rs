//! Pools that take the layout of a container only when they create it.
use dfs::{Dfs, MountOptions, NewDfs};
use esker::Wait;
use esker::backend::{Capabilities, NewContainer};
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker_conformance::declaring;

/// A file system cannot be created in an existing container, but together with a new one.
#[test]
fn file_system_is_made_only_where_its_container_is() {
    let pool = declaring::memory(|able| Capabilities { fixed_layouts: true, ..able });
    pool.create_container(&NewContainer::named("plain")).wait().unwrap();
    let plain = pool.open_container("plain", OpenMode::ReadWrite).wait().unwrap();
    let error = Dfs::format(&plain, &NewDfs::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.message().contains("\"plain\"") && error.message().contains("--type posix"));
    assert!(plain.properties().list().wait().unwrap().is_empty(), "nothing was written");

    Dfs::create_container(&pool, &NewContainer::named("files"), &NewDfs::default()).unwrap();
    let files = pool.open_container("files", OpenMode::ReadWrite).wait().unwrap();
    let again = Dfs::format(&files, &NewDfs::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    Dfs::mount(files, MountOptions::default()).unwrap();
}
