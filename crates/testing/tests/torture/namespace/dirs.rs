//! Many processes in one directory.
use super::{
    DIRECTORY, FILE, TestTree, WORKERS, WorkerContext, expect_error, names, read_file, write_file,
};
use dfs::{Kind, Node, RenameMode};
use esker_testing::{Random, scaled};
use esker_types::ErrorKind;
use std::collections::BTreeSet;

/// Body of a worker: the first one replaces a file by renaming others over it, the rest open it.
pub(crate) fn replace() {
    let mut part = WorkerContext::from_arguments();
    if part.worker > 1 {
        return (0..part.rounds * 4).for_each(|_| read_settings(&part.root));
    }
    for number in 0..part.rounds {
        let fresh = format!("fresh{}", part.worker);
        let data = [part.worker, number].map(u64::to_le_bytes).concat().repeat(200);
        write_file(&part.root, &fresh, &data).expect("writing");
        let renamed =
            part.root.rename(fresh.as_bytes(), &part.root, b"settings", RenameMode::Replace);
        renamed.expect("renaming over a file");
        part.note(&number.to_string());
    }
}

/// Looks up and reads the file that others replace. It must exist, and have the bytes of one writer.
fn read_settings(root: &Node) {
    let node = root.lookup(b"settings").expect("a name that is replaced by renames always exists");
    match read_file(&node) {
        Ok(data) => {
            assert_eq!(data.len(), 3200, "a file that was complete before it got its name");
            let first = &data[..16];
            assert!(data.chunks(16).all(|part| part == first), "parts of two files");
        }
        // The file was replaced between lookup and open: open(2) would look the name up again.
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
    }
}

#[test]
fn a_name_replaced_by_renames_always_exists() {
    let test_tree = TestTree::new();
    let root = test_tree.mount().root();
    write_file(&root, "settings", &[7_u8; 16].repeat(200)).expect("writing");
    test_tree.run("replace", scaled(100));
    assert_eq!(names(&root), ["settings"]);
}

/// Body of a worker: half of them repeatedly remove a directory, the others create files in it.
pub(crate) fn vanish() {
    let part = WorkerContext::from_arguments();
    for number in 0..part.rounds {
        match part.worker % 2 {
            0 => make_and_remove(&part.root),
            _ => make_inside(&part.root, &format!("file{}-{number}", part.worker)),
        }
    }
}

/// Creates a directory and removes it, unless another worker was faster.
fn make_and_remove(root: &Node) {
    let _ = root.mkdir(b"dir", &DIRECTORY);
    match root.rmdir(b"dir") {
        Ok(()) => {}
        lost => expect_error(lost, &[ErrorKind::NotFound, ErrorKind::NotEmpty], "rmdir"),
    }
}

/// Creates a file, which prevents the removal: the directory exists until the file is removed.
fn make_inside(root: &Node, name: &str) {
    let Ok(dir) = root.lookup(b"dir") else { return };
    match dir.create(name.as_bytes(), &FILE) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        Ok(_) => {
            let now = root.lookup(b"dir").expect("a directory with an entry was removed");
            assert_eq!(now.oid(), dir.oid(), "a file was made in a directory that was removed");
            now.unlink(name.as_bytes()).expect("a created file is missing");
        }
    }
}

#[test]
fn no_file_is_created_in_a_removed_directory() {
    let test_tree = TestTree::new();
    test_tree.run("vanish", scaled(300));
}

const STAYING: u64 = 1500;

fn staying(number: u64) -> String {
    format!("stays{number}")
}

/// Body of a worker: the first one lists, the others create, rename and remove files in addition to the permanent ones.
pub(crate) fn listed() {
    let part = WorkerContext::from_arguments();
    if part.worker == 0 {
        return (0..part.rounds / 10 + 2).for_each(|_| list(&part.root));
    }
    for number in 0..part.rounds * 4 {
        let (name, other) =
            (format!("p{}-{number}", part.worker), format!("q{}-{number}", part.worker));
        part.root.create(name.as_bytes(), &FILE).expect("creating");
        let renamed =
            part.root.rename(name.as_bytes(), &part.root, other.as_bytes(), RenameMode::Replace);
        renamed.expect("renaming");
        if number > 20 {
            let old = format!("q{}-{}", part.worker, number - 20);
            part.root.unlink(old.as_bytes()).expect("removing");
        }
    }
}

/// Lists the directory: no name may be listed twice, and every permanent entry must be listed.
fn list(root: &Node) {
    let seen = names(root);
    let distinct: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(distinct.len(), seen.len(), "a name is listed twice");
    for number in 0..STAYING {
        assert!(distinct.contains(&staying(number)), "{} is not listed", staying(number));
    }
}

#[test]
fn permanent_entries_are_listed_exactly_once() {
    let test_tree = TestTree::new();
    let root = test_tree.mount().root();
    for number in 0..STAYING {
        root.create(staying(number).as_bytes(), &FILE).expect("creating");
    }
    test_tree.run("listed", scaled(60));
}

const MOVING: u64 = 6;

/// Body of a worker: moves directories into each other. None may get lost or below itself.
pub(crate) fn shuffle() {
    let mut part = WorkerContext::from_arguments();
    for _ in 0..part.rounds {
        let directories = find_all(&part.root);
        let pick = |random: &mut Random| random.below(directories.len() as u64) as usize;
        let (from, to) = (pick(&mut part.random), pick(&mut part.random));
        let Some((above, name)) = directories[from].1.clone() else { continue };
        let renamed =
            above.rename(name.as_bytes(), &directories[to].0, name.as_bytes(), RenameMode::Replace);
        if let Err(error) = renamed {
            // Another worker was faster, or the directory would get below itself.
            let expected = [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::NotEmpty];
            assert!(expected.contains(&error.kind()), "{error}");
        }
    }
}

/// A directory, with its parent and its name there; the root has none.
type Found = (Node, Option<(Node, String)>);

/// All directories below the root and the root itself; some may be missed while other workers move them.
fn find_all(root: &Node) -> Vec<Found> {
    let mut found: Vec<Found> = vec![(root.clone(), None)];
    let mut at = 0;
    while at < found.len() && found.len() < 100 {
        let dir = found[at].0.clone();
        for name in names(&dir) {
            match dir.lookup(name.as_bytes()) {
                Ok(node) if node.kind() == Kind::Directory => {
                    found.push((node, Some((dir.clone(), name))));
                }
                _ => {}
            }
        }
        at += 1;
    }
    found
}

#[test]
fn directories_moved_into_each_other_stay_one_tree() {
    let test_tree = TestTree::new();
    let root = test_tree.mount().root();
    for number in 0..MOVING {
        let dir = root.mkdir(format!("dir{number}").as_bytes(), &DIRECTORY).expect("a directory");
        write_file(&dir, "inside", number.to_string().as_bytes()).expect("writing");
    }
    test_tree.run("shuffle", scaled(100));
    let all = find_all(&test_tree.mount().root());
    let found: BTreeSet<_> = all.iter().filter_map(|(_, at)| Some(at.clone()?.1)).collect();
    let wanted: BTreeSet<_> = (0..MOVING).map(|number| format!("dir{number}")).collect();
    assert_eq!(found, wanted, "of {WORKERS} workers' moves");
    assert_eq!(all.len() as u64, MOVING + 1, "a directory has two parents");
    for (dir, at) in all.iter().skip(1) {
        let inside = read_file(&dir.lookup(b"inside").expect("its file")).expect("reading");
        let name = at.as_ref().map_or("", |(_, name)| name);
        assert_eq!(format!("dir{}", String::from_utf8_lossy(&inside)), name);
    }
}
