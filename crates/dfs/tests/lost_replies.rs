//! A change may fail although it took effect: the reply was lost.
use dfs::{Create, Dfs, MountOptions, NewDfs, Removal, remove_many};
use esker::backend::NewContainer;
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_conformance::faulty::{Fault, Faulty};
use std::collections::HashSet;
use std::sync::Arc;

const FILES: usize = 200;

/// A file system whose pool loses the replies to some changes.
fn mount() -> Dfs {
    let backend = Arc::new(Faulty::new(Fault::LostReply));
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("files");
    Dfs::create_container(&pool, &new, &NewDfs::default()).unwrap();
    let container = pool.open_container("files", OpenMode::ReadWrite).wait().unwrap();
    Dfs::mount(container, MountOptions::default()).unwrap()
}

#[test]
fn no_two_files_share_an_object() {
    let fs = mount();
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

/// If the transaction was tried again in smaller ones, they would not find the entries that it has removed.
#[test]
fn removals_whose_reply_is_lost_are_not_reported_as_missing() {
    let fs = mount();
    let root = fs.root();
    let names: Vec<_> = (0..8).map(|number: u32| number.to_string().into_bytes()).collect();
    let mut lost = 0;
    for _ in 0..FILES {
        for name in &names {
            let _ = root.create(name, &Create::with_mode(0o600));
        }
        let removal = |name| Removal { dir: &root, name, is_directory: false, check: None };
        let removals: Vec<_> = names.iter().map(|name| removal(&name[..])).collect();
        let failed = remove_many(&removals).into_iter().filter_map(Result::err);
        let kinds: Vec<_> = failed.map(|error| error.kind()).collect();
        assert!(kinds.iter().all(|kind| *kind == ErrorKind::TimedOut), "{kinds:?}");
        lost += kinds.len();
    }
    assert!(lost > 0);
}
