//! Clients whose engines are restarted while they are idle: they take their leases again, and notice if that was too late.
use super::{Cluster, SMALL, open_new, read_small, secret, write_small};
use dfs::{Dfs, File, MountOptions};
use esker::backend::Pool as _;
use esker::types::info::OpenMode;
use esker::types::ops::Sink;
use esker::types::{ErrorKind, Extent};
use esker::{Native, Pool, Wait};
use esker_engine::Engine;
use esker_nodes::{Map, ShardedPool};
use esker_tensors::{DataType, NewTensor, Slab, Strided, Tensor, TensorStore};
use std::sync::Arc;
use tokio::net::TcpListener;

impl Cluster {
    /// Stops all engines. The leases of their clients end.
    fn stop(&self) {
        for engine in &self.engines {
            self._runtime.block_on(engine.drain()).unwrap();
        }
    }

    /// Starts other engines at the same addresses.
    fn restart(&self) {
        for node in &self.map.nodes {
            let pool = Native::open(&node.directory, OpenMode::ReadWrite).unwrap();
            let engine = Engine::new(Arc::new(pool), node.uuid, secret());
            let listener = self.listen_again(&node.address);
            self._runtime.spawn(async move { engine.listen(listener).await });
        }
    }

    /// Listens at the address of an engine that was drained, once its task has closed its own listener.
    fn listen_again(&self, address: &str) -> TcpListener {
        let mut listener = None;
        esker_testing::wait_for("the listener of the earlier engine to be closed", || {
            listener = self._runtime.block_on(TcpListener::bind(address)).ok();
            listener.is_some()
        });
        listener.unwrap()
    }

    /// The pool, as a process has it for which all nodes are its own: it needs no engine.
    fn own_pool(&self) -> Pool {
        let own = (0..).zip(&self.map.nodes).map(|(number, node)| {
            let part = Native::open(&node.directory, OpenMode::ReadWrite).unwrap();
            (number, Arc::new(part) as Arc<dyn esker::backend::Pool>)
        });
        let path = Map::path(&self.folder, "pool");
        let pool = ShardedPool::open(&self.map, &path, own.collect()).unwrap();
        assert!(pool.capabilities().shared_leases);
        Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite)
    }

    /// A new file system, and an open file whose name was removed.
    fn file_without_a_name(&self) -> (Dfs, File) {
        self.format();
        let fs = self.mount();
        let file = open_new(&fs.root(), "file");
        write_small(&file);
        fs.root().unlink(b"file").unwrap();
        (fs, file)
    }

    /// Mounts the file system, which frees files that have no name and are not open.
    fn sweep(&self) {
        let container = self.own_pool().open_container("c", OpenMode::ReadWrite).wait().unwrap();
        drop(Dfs::mount(container, MountOptions::default()).unwrap());
    }
}

#[test]
fn file_without_a_name_outlives_restart_of_engines() {
    let cluster = Cluster::new(2);
    let (_fs, file) = cluster.file_without_a_name();
    cluster.stop();
    cluster.restart();
    let home = |pool: &Pool| {
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        container.object(file.node().oid()).unlink_on_last_close().wait().unwrap()
    };
    let pool = cluster.own_pool();
    esker_testing::wait_for("the idle client has its lease again", || home(&pool));
    cluster.sweep();
    read_small(&file);
    write_small(&file);
    file.close().unwrap();
}

#[test]
fn file_freed_while_its_node_was_away_is_not_read_as_empty() {
    let cluster = Cluster::new(2);
    let (_fs, file) = cluster.file_without_a_name();
    cluster.stop();
    cluster.sweep();
    cluster.restart();
    let refused = file.read_at(0, &mut [0; SMALL]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    assert!(refused.message().contains("is lost"), "{refused}");
    assert_eq!(file.write_at(0, b"more").unwrap_err().kind(), ErrorKind::NotFound);
}

/// Nothing has found that the content is lost before each of these calls.
#[test]
fn file_freed_while_its_node_was_away_is_not_resized() {
    let cluster = Cluster::new(2);
    let (_fs, file) = cluster.file_without_a_name();
    cluster.stop();
    cluster.sweep();
    cluster.restart();
    let mut content = [0; SMALL];
    let (ranges, sink) = ([Extent::new(0, 2), Extent::new(4, 2)], Sink::One(&mut content[..4]));
    let refused = [
        file.read_ranges(&ranges, sink).wait().map(drop),
        file.size().map(drop),
        file.set_len(1),
        file.punch(0, 1),
        file.allocate(0, 1, true),
        file.seek_data(0).map(drop),
    ];
    let kinds = refused.map(|refused| refused.map_err(|error| error.kind()));
    assert_eq!(kinds, [Err(ErrorKind::NotFound); 6]);
}

fn put(store: &TensorStore, value: u8) {
    let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[SMALL as u64]);
    let data = [value; SMALL];
    store.put(&new, &Strided::contiguous(&data, &[SMALL as u64], 1).unwrap(), Some("t")).unwrap();
}

fn read(tensor: &Tensor) -> esker::types::Result<Vec<u8>> {
    tensor.read_to_vec(&Slab::whole(tensor.grid().shape()))
}

#[test]
fn tensor_freed_while_its_node_was_away_is_not_read_as_zeros() {
    let cluster = Cluster::new(2);
    let store = TensorStore::create(&cluster.pool(), "tensors").unwrap();
    put(&store, 7);
    let tensor = store.open_tensor("t").unwrap();
    cluster.stop();
    put(&TensorStore::open(&cluster.own_pool(), "tensors", OpenMode::ReadWrite).unwrap(), 8);
    cluster.restart();
    assert_eq!(read(&tensor).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(read(&store.open_tensor("t").unwrap()).unwrap(), [8; SMALL]);
}
