//! Tests of handles on native pools.
use super::{Native, Opened};
use esker_store::{ContainerSpec, Pool, PoolSpec};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::ReadAt;
use esker_types::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory with a pool, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    /// The directory and the pool, which has a container `c`.
    fn with_pool(name: &str) -> (Self, Native) {
        let folder =
            Self(PathBuf::from(format!("/dev/shm/esker-native-{name}-{}", std::process::id())));
        let mut spec = PoolSpec::new("pool", 24 << 20);
        spec.targets = Some(2);
        Pool::create(&folder.0, &spec, &mut |_, _| {}).unwrap();
        let native = Native::open(&folder.0.join("pool"), OpenMode::ReadWrite).unwrap();
        let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
        native.pool().opened().unwrap().create_container(&spec).unwrap();
        (folder, native)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const C: ContainerRef<'_> = ContainerRef::Label("c");

/// A read that is in progress finds nothing after the container was emptied. That must not look like an empty container.
#[test]
fn read_during_destruction_of_container_fails() {
    let results: [Result<()>; 2] = [Ok(()), Err(Error::from(ErrorKind::NotFound))];
    for (number, found) in results.into_iter().enumerate() {
        let (_folder, native) = Folder::with_pool(&format!("read-{number}"));
        let container =
            native.pool().opened().unwrap().open_container(C, OpenMode::ReadWrite).unwrap();
        let opened = Opened { shared: Arc::clone(&native.0), container };
        let read = opened.with_checked_view(ReadAt::LATEST, |open| {
            open.destroy_container(C, true).unwrap();
            found
        });
        assert_eq!(read.wait().unwrap_err().kind(), ErrorKind::NoHandle);
        let next = opened.reading(|open| open.next_oid(&opened.container)).wait();
        assert_eq!(next.unwrap_err().kind(), ErrorKind::NoHandle);
    }
}
