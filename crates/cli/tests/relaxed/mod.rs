//! Relaxed file systems over nodes: what they save in requests, and what they still promise.
use super::{
    Cluster, FILES, SHARED, contents, create_by_path, names, open, open_new, read_small,
    write_small,
};
use dfs::{Create, NewDfs, Open};
use esker_testing::wait_for;

const NODES: u32 = 4;

/// A pool with a file system that is relaxed, or not.
fn cluster(relaxed: bool) -> Cluster {
    let cluster = Cluster::new(NODES);
    cluster.format_as(&NewDfs { relaxed, ..NewDfs::default() });
    cluster
}

/// Requests per file of two clients to remove it.
fn measure(cluster: &Cluster) -> f64 {
    let clients = [cluster.mount(), cluster.mount()];
    let outer = clients[0].root().mkdir(b"outer", &Create::with_mode(0o755)).unwrap();
    let inner = outer.mkdir(b"inner", &Create::with_mode(0o755)).unwrap();
    cluster.count("create and write by path", || {
        for (name, fs) in names().zip(clients.iter().cycle()) {
            let path = format!("/outer/inner/{name}");
            let file = create_by_path(fs, &path).unwrap().open(Open::BOTH).unwrap();
            write_small(&file);
            file.close().unwrap();
        }
    });
    clients.iter().for_each(|fs| fs.flush().unwrap());
    let listed = inner.read_dir(&mut Default::default(), 2 * FILES).unwrap();
    let removed = cluster.count("unlink", || {
        listed.iter().for_each(|entry| inner.unlink(&entry.name).unwrap());
        clients[0].flush().unwrap();
    });
    assert_eq!(contents(&clients[1]), []);
    removed.saturating_sub(SHARED) as f64 / FILES as f64
}

/// The number of files that are freed together depends on how many are removed within 20 ms.
#[test]
fn removed_files_of_relaxed_file_system_are_freed_together() {
    let [balanced, relaxed] = [false, true].map(|relaxed| measure(&cluster(relaxed)));
    println!("balanced: {balanced:?}, relaxed: {relaxed:?}");
    assert!(relaxed < balanced, "{relaxed} {balanced}");
}

#[test]
fn removed_file_of_relaxed_file_system_is_freed_soon() {
    let cluster = cluster(true);
    let [one, other] = [cluster.mount(), cluster.mount()];
    for name in names().take(10) {
        write_small(&open_new(&one.root(), &name));
    }
    one.flush().unwrap();
    names().take(10).for_each(|name| one.root().unlink(name.as_bytes()).unwrap());
    assert!(other.root().is_empty().unwrap(), "the names are gone at once");
    wait_for("the contents to be freed", || contents(&other).is_empty());
}

/// The content of a removed file stays while a process has it open, and is freed with the last one.
#[test]
fn file_removed_from_relaxed_file_system_is_kept_while_open() {
    let cluster = cluster(true);
    let [one, other] = [cluster.mount(), cluster.mount()];
    for name in names().take(20) {
        write_small(&open_new(&one.root(), &name));
    }
    one.flush().unwrap();
    let kept: Vec<_> = names().take(10).map(|name| open(&other, &format!("/{name}"))).collect();
    names().take(20).for_each(|name| one.root().unlink(name.as_bytes()).unwrap());
    one.flush().unwrap();
    assert_eq!(contents(&one).len(), kept.len());
    for file in kept {
        read_small(&file);
        assert_eq!(file.attr().unwrap().nlink, 0);
        file.close().unwrap();
    }
    other.flush().unwrap();
    assert_eq!(contents(&one), []);
}
