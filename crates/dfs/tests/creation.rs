//! Creation of file systems, while other processes wait for them.
use dfs::{Dfs, MountOptions, NewDfs};
use esker::backend::memory::Memory;
use esker::backend::{NewContainer, OpenContainer, Pool as _, Reply};
use esker::types::info::{ContainerRef, OpenMode};
use esker::types::ops::Change;
use esker::types::{Epoch, ErrorKind};
use esker::{Pool, Wait};
use esker_conformance::between::{Interceptor, PoolBetween};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LABEL: &str = "files";

/// Looks for the container by its label when its file system is about to be written. Then fails that write, or creates
/// another container with the label.
struct Watcher {
    pool: Arc<Memory>,
    fails: bool,
    takes_label: bool,
    has_label: AtomicBool,
}

impl Interceptor for Watcher {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        let found = self.pool.open_container(ContainerRef::Label(LABEL), OpenMode::ReadOnly).wait();
        self.has_label.fetch_or(found.is_ok(), Ordering::Relaxed);
        if self.takes_label {
            self.pool.create_container(&NewContainer::named(LABEL)).wait().unwrap();
        }
        match self.fails {
            true => Reply::Ready(Err(ErrorKind::Io.into())),
            false => to.write(change),
        }
    }
}

/// Creates a file system. Returns the error, and the pool.
fn create(fails: bool, takes_label: bool) -> (Option<ErrorKind>, Pool) {
    let memory = Arc::new(Memory::new(2));
    let (pool, has_label) = (Arc::clone(&memory), AtomicBool::new(false));
    let watcher = Arc::new(Watcher { pool, fails, takes_label, has_label });
    let between = PoolBetween::before(memory, &watcher);
    let pool = Pool::from_backend(Arc::new(between), OpenMode::ReadWrite);
    let created = Dfs::create_container(&pool, &NewContainer::named(LABEL), &NewDfs::default());
    assert!(!watcher.has_label.load(Ordering::Relaxed), "others would find no file system");
    (created.map(|info| assert_eq!(info.label, LABEL)).err().map(|error| error.kind()), pool)
}

#[test]
fn container_with_a_label_has_a_file_system() {
    let (error, pool) = create(false, false);
    assert_eq!(error, None);
    let container = pool.open_container(LABEL, OpenMode::ReadWrite).wait().unwrap();
    Dfs::mount(container, MountOptions::default()).unwrap();
}

#[test]
fn failed_creation_leaves_no_container() {
    let (error, pool) = create(true, false);
    assert_eq!(error, Some(ErrorKind::Io));
    assert!(pool.containers().wait().unwrap().is_empty());
}

/// Another process creates a container with the same label meanwhile.
#[test]
fn one_of_racing_creators_gets_the_label() {
    let (error, pool) = create(false, true);
    assert_eq!(error, Some(ErrorKind::Exists));
    let again = Dfs::create_container(&pool, &NewContainer::named(LABEL), &NewDfs::default());
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Exists);
    let all = pool.containers().wait().unwrap();
    assert_eq!(all.iter().map(|info| info.label.as_str()).collect::<Vec<_>>(), [LABEL]);
}
