//! Creating a file may fail although its entry was made: the reply was lost.
use dfs::{Create, Dfs, MountOptions, NewDfs};
use esker::backend::NewContainer;
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_conformance::faulty::{Fault, Faulty};
use std::collections::HashSet;
use std::sync::Arc;

const FILES: usize = 200;

#[test]
fn no_two_files_share_an_object() {
    let backend = Arc::new(Faulty::new(Fault::LostReply));
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("files");
    Dfs::create_container(&pool, &new, &NewDfs::default()).unwrap();
    let container = pool.open_container("files", OpenMode::ReadWrite).wait().unwrap();
    let fs = Dfs::mount(container, MountOptions::default()).unwrap();
    let new = Create { open: true, exclusive: true, ..Create::with_mode(0o600) };
    let (mut objects, mut lost) = (HashSet::new(), 0);
    for number in 0..FILES {
        let name = number.to_string().into_bytes();
        match fs.root().create(&name, &new) {
            Err(error) if error.kind() == ErrorKind::TimedOut => lost += 1,
            created => drop(created.unwrap()),
        }
        objects.insert(fs.root().lookup(&name).unwrap().oid());
    }
    assert!(lost > 0);
    assert_eq!(objects.len(), FILES);
}
