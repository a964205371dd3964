//! Removals by path whose connection is lost: before the engine has received the request, or before the client has received
//! the reply. A relay between client and engine breaks the connection.
use super::{Cluster, create, list};
use dfs::{Create, Dfs, MountOptions, Node};
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_nodes::{Map, ShardedPool};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// Work of other clients while a connection is lost.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// The next message that the relay loses.
enum Loss {
    Request(Meanwhile),
    Reply(Meanwhile),
}

/// Passes the bytes of connections on to an engine, until it is to lose a message.
struct Relay {
    address: String,
    loss: Arc<Mutex<Option<Loss>>>,
    has_ended: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl Relay {
    fn to(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (loss, has_ended) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (engine, losses, ended) =
            (engine.to_owned(), Arc::clone(&loss), Arc::clone(&has_ended));
        let accepts = std::thread::spawn(move || {
            for client in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let Ok(engine) = TcpStream::connect(&engine) else { continue };
                pass_on(client.unwrap(), engine, &losses);
            }
        });
        Self { address, loss, has_ended, accepts: Some(accepts) }
    }

    fn lose(&self, loss: Loss) {
        *self.loss.lock().unwrap() = Some(loss);
    }

    /// True if it has lost what it was to lose.
    fn has_lost(&self) -> bool {
        self.loss.lock().unwrap().is_none()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Release);
        let _ = TcpStream::connect(&self.address);
        let _ = self.accepts.take().map(JoinHandle::join);
    }
}

/// Takes the work to do if the bytes that have just arrived are to be lost.
fn take(mut loss: MutexGuard<'_, Option<Loss>>, is_reply: bool) -> Option<Meanwhile> {
    match loss.take() {
        Some(Loss::Request(work)) if !is_reply => Some(work),
        Some(Loss::Reply(work)) if is_reply => Some(work),
        other => {
            *loss = other;
            None
        }
    }
}

/// Passes bytes in both directions, by two threads that end with the connection.
fn pass_on(client: TcpStream, engine: TcpStream, loss: &Arc<Mutex<Option<Loss>>>) {
    for is_reply in [false, true] {
        let ends = [client.try_clone().unwrap(), engine.try_clone().unwrap()];
        let loss = Arc::clone(loss);
        std::thread::spawn(move || {
            let [client, engine] = &ends;
            let (mut from, mut to) = if is_reply { (engine, client) } else { (client, engine) };
            let mut bytes = [0; 1 << 16];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                let lost = take(loss.lock().unwrap(), is_reply);
                let is_lost = lost.is_some();
                lost.into_iter().for_each(|work| work());
                if is_lost || to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            let _ = (client.shutdown(Shutdown::Both), engine.shutdown(Shutdown::Both));
        });
    }
}

/// A file system with a directory, as a client sees it through the relay, and another one.
struct Site {
    one: Dfs,
    other: Dfs,
    dir: Node,
    relay: Relay,
    _cluster: Cluster,
}

impl Site {
    /// With two files, and a client that has removed another one by its path.
    fn new() -> Self {
        let cluster = Cluster::with_targets(1, 2, 64 << 20);
        cluster.format();
        let relay = Relay::to(&cluster.map.nodes[0].address);
        let mut map = cluster.map.clone();
        map.nodes[0].address.clone_from(&relay.address);
        let path = Map::path(&cluster.folder, "pool");
        let pool = ShardedPool::open(&map, &path, Vec::new()).unwrap();
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        let one = Dfs::mount(container, MountOptions::default()).unwrap();
        let other = cluster.mount();
        let dir = one.root().mkdir(b"dir", &Create::with_mode(0o755)).unwrap();
        ["first", "second", "third"].iter().for_each(|name| drop(create(&dir, name)));
        one.flush().unwrap();
        let site = Self { one, other, dir, relay, _cluster: cluster };
        assert!(site.unlink("first"));
        site
    }

    fn unlink(&self, name: &str) -> bool {
        let path = format!("/dir/{name}");
        self.one.unlink_by_known_path(&self.one.root(), path.as_bytes()).unwrap()
    }

    /// Removes the second file, while the other client does `work` and this one loses its connection.
    fn unlink_with(&self, loss: impl FnOnce(Meanwhile) -> Loss, work: fn(&Dfs)) {
        let other = self.other.clone();
        self.relay.lose(loss(Box::new(move || work(&other))));
        assert!(self.unlink("second"));
        assert!(self.relay.has_lost());
    }

    fn exists(&self, name: &[u8]) -> bool {
        match self.other.root().lookup(b"dir").unwrap().lookup(name) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Moves the directory away and back: the path leads there again, but was changed.
fn change_path(fs: &Dfs) {
    let root = fs.root();
    root.rename(b"dir", &root, b"moved", Default::default()).unwrap();
    root.rename(b"moved", &root, b"dir", Default::default()).unwrap();
}

#[test]
fn removal_whose_request_is_lost_is_done_although_its_path_has_changed() {
    let site = Site::new();
    site.unlink_with(Loss::Request, change_path);
    assert!(!site.exists(b"second") && site.exists(b"third"));
    assert_eq!(list(&site.dir), 1);
}

#[test]
fn removal_whose_reply_is_lost_is_reported_as_done() {
    for work in [change_path as fn(&Dfs), |_| ()] {
        let site = Site::new();
        site.unlink_with(Loss::Reply, work);
        assert!(!site.exists(b"second") && site.exists(b"third"));
    }
}

/// The client sends its request again, which must not remove what has the name now.
#[test]
fn removal_whose_reply_is_lost_spares_the_next_file_of_that_name() {
    let site = Site::new();
    site.unlink_with(Loss::Reply, |fs| {
        drop(create(&fs.root().lookup(b"dir").unwrap(), "second"));
    });
    assert!(site.exists(b"second"));
}
