//! Children of processes that have a native pool open.
mod child;

use child::in_a_child;
use esker::types::ErrorKind;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::ops::Cond;
use esker::types::{ObjectClass, ObjectType};
use esker::{Access, Pool, Wait};
use esker_backend::NewContainer;
use esker_store::PoolSpec;
use esker_testing::wait_for;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Seconds after which a child that hangs is ended.
const CHILD_SECONDS: u32 = 60;

/// Lock of the test that runs. A child would wait for ever for a lock that another test holds during the fork.
static ALONE: Mutex<()> = Mutex::new(());

/// A directory with a pool, removed when the test ends.
struct Folder {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Folder {
    /// The directory `name` with an empty pool, when no other test runs.
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/esker-fork-{name}-{}", std::process::id()));
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Self { path, _alone: alone };
        folder.create_pool();
        folder
    }

    fn create_pool(&self) {
        let mut spec = PoolSpec::new("pool", 24 << 20);
        spec.targets = Some(2);
        esker_store::Pool::create(&self.path, &spec, &mut |_, _| {}).expect("creating a pool");
    }

    fn destroy_pool(&self) {
        esker_store::Pool::destroy(&self.path.join("pool"), true).expect("destroying the pool");
    }

    fn connect(&self, mode: OpenMode) -> esker::types::Result<Pool> {
        Pool::connect(&format!("esker:{}", self.path.join("pool").display()), mode)
    }

    /// The pool, with a new container of this name.
    fn pool_with(&self, container: &str) -> (Pool, ContainerInfo) {
        let pool = self.connect(OpenMode::ReadWrite).expect("the pool");
        let created = pool.create_container(&NewContainer::named(container)).wait();
        (pool, created.expect("a container"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A child closes inherited handles, and its own ones stay open. Meanwhile its parent has closed its handles.
#[test]
fn closing_inherited_handles_keeps_handles_of_the_child() {
    let folder = Folder::new("close");
    let (pool, _) = folder.pool_with("c");
    let container = pool.open_container("c", OpenMode::ReadWrite).wait().expect("the container");
    let handles = Mutex::new(Some((pool, container)));
    let take = || handles.lock().expect("the lock").take().expect("the handles");
    let (forked, closed) = (folder.path.join("forked"), folder.path.join("closed"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for("the child", || forked.exists());
            drop(take());
            File::create(&closed).expect("a file");
        });
        in_a_child(CHILD_SECONDS, || {
            File::create(&forked).expect("a file");
            wait_for("the parent", || closed.exists());
            let (pool, inherited) = take();
            // The first operation opens the pool in the child.
            inherited.allocate_oids(1).wait().expect("a number");
            let own = folder.connect(OpenMode::ReadWrite).expect("the pool");
            let kept = own.open_container("c", OpenMode::ReadWrite).wait().expect("open");
            inherited.close().wait().expect("closed");
            drop((inherited, pool));
            let container = own.open_container("c", OpenMode::Exclusive).wait().err();
            let pool = folder.connect(OpenMode::Exclusive).err();
            for refused in [container, pool] {
                assert_eq!(refused.expect("it is open").kind(), ErrorKind::Busy);
            }
            drop(kept);
        });
    });
}

/// The containers of the new pool have the same numbers as those of the old one.
#[test]
fn child_does_not_use_another_pool_at_the_path() {
    let folder = Folder::new("replace");
    let (pool, old) = folder.pool_with("a");
    let inherited = pool.open_container("a", OpenMode::ReadWrite).wait().expect("the container");
    let oid = inherited.generate_oid(0, 1, ObjectType::KvHashed, Some(ObjectClass::S1), 0);
    let kv = inherited.kv(oid.expect("an id")).expect("a Key-Value");
    in_a_child(CHILD_SECONDS, || {
        folder.destroy_pool();
        folder.create_pool();
        let refused = kv.put(b"key", b"value", Cond::NONE, Access::Latest).wait();
        assert_eq!(refused.expect_err("another pool").kind(), ErrorKind::NoHandle);
        let (_pool, new) = folder.pool_with("b");
        assert_eq!(new.id, old.id);
    });
}
