//! Pools that take the layout of a container only when they create it.
use dfs::{Dfs, MountOptions, NewDfs};
use esker::backend::{Capabilities, NewContainer, Reply};
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::faulty::{Fault, Faulty};
use std::sync::Arc;

/// Declares that layouts are fixed.
struct FixedLayouts;

impl Interceptor for FixedLayouts {
    fn pass<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
    ) -> Reply<'a, T> {
        call()
    }

    fn capabilities(&self, of: Capabilities) -> Capabilities {
        Capabilities { fixed_layouts: true, ..of }
    }
}

#[test]
fn file_system_is_made_only_where_its_container_is() {
    let backend = PoolBetween::before(Arc::new(Faulty::new(Fault::None)), &Arc::new(FixedLayouts));
    let pool = Pool::from_backend(Arc::new(backend), OpenMode::ReadWrite);
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
