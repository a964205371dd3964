//! `esker cont copy`: containers between pools of all sorts.
use crate::support::{self, Site, noise};
use serde_json::json;
use std::io::Write as _;
use std::path::Path;

/// A pool of files next to `tank`, by its URL.
fn files(site: &Site) -> String {
    let url = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &url]);
    url
}

#[test]
fn a_container_is_copied_to_files_and_back() {
    let site = Site::with_container();
    let url = files(&site);
    let field = site.file("field", &noise(3_000_001));
    site.ok(&["kv", "put", "tank", "run1", "index", "t2m", "2.1"]);
    site.ok(&["array", "put", "tank", "run1", "field", "--class", "S1", &field]);
    site.ok(&["cont", "set-attr", "tank", "run1", "owner:me"]);
    let there = format!("{url}/saved");
    let found = site.json(&["cont", "copy", "tank/run1", &there, "--dry-run"]);
    // The third object is the catalog of names.
    assert_eq!(found["objects"], json!(3));
    assert_eq!(site.json(&["cont", "list", &url]), json!([]));
    let copied = site.json(&["cont", "copy", "tank/run1", &there]);
    // The field, the value `2.1`, and 24 bytes in the catalog of names.
    assert_eq!((&copied["copied_bytes"], &copied["resumed"]), (&json!(3_000_028), &json!(false)));
    assert_eq!(copied["verified_bytes"], copied["copied_bytes"]);
    site.ok(&["container", "clone", &there, "tank/back", "-j", "2"]);
    assert_eq!(
        site.json(&["cont", "get-attr", "tank", "back", "owner"])["owner"],
        json!({"text": "me"})
    );
    // The class of the copies is that of the pool they came from.
    assert_eq!(site.ok(&["kv", "get", &url, "saved", "index", "t2m"]), "2.1");
    let back = site.dir.join("back").display().to_string();
    site.ok(&["array", "get", "tank", "back", "field", "-o", &back]);
    assert!(std::fs::read(&back).unwrap() == noise(3_000_001));
    assert_eq!(site.ok(&["kv", "get", "tank", "back", "index", "t2m"]), "2.1");
    assert_eq!(site.json(&["cont", "snapshot", "list", "tank", "run1"]), json!([]));
}

#[test]
fn a_snapshot_is_copied_as_it_was() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "old"]);
    site.ok(&["cont", "snapshot", "create", "tank", "run1", "before"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "new"]);
    site.ok(&["cont", "copy", "tank/run1", "tank/then", "--snapshot", "before"]);
    assert_eq!(site.ok(&["kv", "get", "tank", "then", "index", "key"]), "old");
    assert_eq!(
        site.json(&["cont", "snapshot", "list", "tank", "run1"])[0]["name"],
        json!("before")
    );
}

#[test]
fn invalid_copies_are_refused() {
    let site = Site::with_container();
    let kind = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(kind(&["cont", "copy", "tank/run1", "tank"]), "invalid");
    assert_eq!(kind(&["cont", "copy", "tank/run1", "tank/run1"]), "exists");
    assert_eq!(kind(&["cont", "copy", "tank/none", "tank/to"]), "not_found");
    assert_eq!(kind(&["cont", "copy", "tank/run1", "none/to"]), "not_found");
    assert_eq!(kind(&["cont", "copy", "tank/run1", "tank/to", "--snapshot", "x"]), "not_found");
}

/// The copy keeps the object ids, which were allocated in a pool with another number of targets.
#[test]
fn a_file_system_works_where_it_was_copied_to() {
    let site = Site::new();
    site.ok(&["pool", "create", "tank", "--size", "64M", "--targets", "2"]);
    site.ok(&["pool", "create", "wide", "--size", "64M", "--targets", "5"]);
    site.ok(&["cont", "create", "tank", "home", "--type", "posix", "--dir-class", "SX"]);
    let tree = site.dir.join("tree");
    std::fs::create_dir_all(tree.join("a/b")).unwrap();
    for (name, len) in [("one", 0), ("a/two", 70_000), ("a/b/three", 2_500_000)] {
        std::fs::write(tree.join(name), noise(len)).unwrap();
    }
    site.ok(&["fs", "import", tree.to_str().unwrap(), "tank/home:/tree"]);
    site.ok(&["cont", "copy", "tank/home", "wide/home"]);
    site.ok(&["fs", "check", "wide/home"]);
    let out = site.dir.join("out");
    site.ok(&["fs", "export", "wide/home:/tree", out.to_str().unwrap()]);
    for name in ["one", "a/two", "a/b/three"] {
        let read = |dir: &Path| std::fs::read(dir.join(name)).unwrap();
        assert!(read(&tree) == read(&out), "{name}");
    }
    site.feed(&["fs", "cp", "-", "wide/home:/tree/new"], b"new");
    assert_eq!(site.ok(&["fs", "cat", "wide/home:/tree/new"]), "new");
}

#[test]
fn killed_copies_go_on() {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "256M", "--targets", "2"]);
    site.ok(&["cont", "create", "tank", "run1"]);
    let url = files(&site);
    let field = site.file("field", &noise(30_000_000));
    for name in ["a", "b", "c"] {
        site.ok(&["array", "put", "tank", "run1", name, &field]);
    }
    let there = format!("{url}/saved");
    let mut copies = [0, 1, 20, 45, 70].into_iter();
    let was_killed = |megabytes: u64| {
        let mut copy = site.command(&["cont", "copy", "tank/run1", &there]).spawn().unwrap();
        support::kill_at(&mut copy, &site.dir.join("files"), megabytes * 1_000_000)
    };
    // If a copy was complete before it was killed, there is nothing to resume.
    if copies.all(was_killed) {
        site.ok(&["cont", "copy", "tank/run1", &there]);
    }
    let back = site.dir.join("back").display().to_string();
    site.ok(&["cont", "copy", &there, "tank/back"]);
    for name in ["a", "b", "c"] {
        site.ok(&["array", "get", "tank", "back", name, "-o", &back]);
        assert!(std::fs::read(&back).unwrap() == noise(30_000_000), "{name}");
    }
    assert_eq!(site.json(&["cont", "snapshot", "list", "tank", "run1"]), json!([]));
}

fn put(site: &Site, object: &str, key: &str, value: &str) {
    site.ok(&["kv", "put", "tank", "run1", object, key, value, "--class", "S1"]);
}

#[test]
fn drain_moves_existing_and_new_objects() {
    let site = Site::with_container();
    let there = format!("{}/run1", files(&site));
    put(&site, "index", "a", "1");
    let drain = ["cont", "drain", "tank/run1", "--to", &there, "--every", "0.05"];
    // Existing objects are drained without a pause.
    let once = [&drain[..5], &["--every", "1000h", "--until-idle", "0"]].concat();
    let first = site.json(&once);
    assert_eq!((&first["objects"], &first["removed"]), (&json!(2), &json!(2)), "with the names");
    assert_eq!(site.json(&["object", "list", "tank", "run1"]), json!([]));
    let mut command = site.command(&drain);
    let mut running = command.spawn().unwrap();
    put(&site, "index", "b", "2");
    put(&site, "other", "c", "3");
    let is_empty = || site.json(&["object", "list", "tank", "run1"]) == json!([]);
    support::wait_for("the drain takes what comes", is_empty);
    running.kill().unwrap();
    running.wait().unwrap();
    put(&site, "index", "a", "4");
    assert_eq!(site.json(&once)["resumed"], json!(true));
    site.ok(&["cont", "copy", &there, "tank/back"]);
    for (object, key, value) in [("index", "a", "4"), ("index", "b", "2"), ("other", "c", "3")] {
        let get = ["kv", "get", "tank", "back", object, key, "--class", "S1"];
        assert_eq!(site.ok(&get), value);
    }
}

#[test]
fn signal_ends_a_drain_without_an_error() {
    let site = Site::with_container();
    put(&site, "index", "a", "1");
    let drain = ["--json", "cont", "drain", "tank/run1", "--to", "tank/other", "--keep"];
    let mut command = site.command(&drain);
    let running = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let is_there = || site.run(&["kv", "get", "tank", "other", "index", "a", "--class", "S1"]);
    support::wait_for("the drain copies", || is_there().status.success());
    let pid = running.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["response"]["removed"], json!(0));
    assert_eq!(site.json(&["cont", "snapshot", "list", "tank", "run1"]), json!([]));
}

#[test]
fn invalid_drains_are_refused() {
    let site = Site::with_container();
    let url = files(&site);
    site.ok(&["cont", "create", &url, "run1"]);
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    let kind = |from: &str| site.fails(&["cont", "drain", from, "--to", "tank/new"]).0;
    assert_eq!(kind(&format!("{url}/run1")), "not_supported");
    assert_eq!(kind("tank/home"), "not_supported");
    assert_eq!(site.fails(&["cont", "drain", "tank/run1", "--to", "tank/home"]).0, "exists");
}

/// Once, `esker array put` set the length at its end. After a drain, this created an Array of zeros in the source,
/// which replaced the data at the next drain.
#[test]
fn a_put_may_be_drained_under_way() {
    const PIECE: usize = 4 << 20;
    let site = Site::with_container();
    let there = format!("{}/run1", files(&site));
    let field = noise(PIECE);
    let mut put = site.command(&["array", "put", "tank", "run1", "field", "-", "--class", "S1"]);
    let mut putting = put.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = putting.stdin.take().unwrap();
    input.write_all(&field).unwrap();
    let stat = || site.run(&["--json", "array", "stat", "tank", "run1", "field", "--class", "S1"]);
    support::wait_for("the data are there", || {
        let answer: serde_json::Value = serde_json::from_slice(&stat().stdout).unwrap();
        answer["response"]["size_bytes"] == json!(PIECE)
    });
    let drain = ["cont", "drain", "tank/run1", "--to", &there, "--until-idle", "0"];
    assert_eq!(site.json(&drain)["removed"], json!(2), "with the names");
    drop(input);
    assert!(putting.wait().unwrap().success());
    site.ok(&drain);
    site.ok(&["cont", "copy", &there, "tank/back"]);
    let back = site.dir.join("back").display().to_string();
    site.ok(&["array", "get", "tank", "back", "field", "-o", &back, "--class", "S1"]);
    assert!(std::fs::read(&back).unwrap() == field);
}

/// Killed at any moment, and begun again: all that was written arrives, whatever was removed already.
#[test]
fn killed_drains_lose_nothing() {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "128M", "--targets", "2"]);
    site.ok(&["cont", "create", "tank", "run1"]);
    let there = format!("{}/run1", files(&site));
    let drain = ["cont", "drain", "tank/run1", "--to", &there, "--every", "0.01"];
    let field = site.file("field", &noise(400_000));
    for round in 0..12u64 {
        let mut command = site.command(&drain);
        let mut running = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        for number in 0..3 {
            let name = format!("field {round} {number}");
            site.ok(&["array", "put", "tank", "run1", &name, &field, "--class", "S1"]);
            put(&site, "index", &name, &round.to_string());
        }
        esker_testing::pause(round * 3000 % 25_000);
        running.kill().unwrap();
        running.wait().unwrap();
    }
    site.ok(&[&drain[..], &["--until-idle", "0"]].concat());
    assert_eq!(site.json(&["object", "list", "tank", "run1"]), json!([]));
    site.ok(&["cont", "copy", &there, "tank/back"]);
    let back = site.dir.join("back").display().to_string();
    for (round, number) in (0..12).flat_map(|round| (0..3).map(move |number| (round, number))) {
        let name = format!("field {round} {number}");
        site.ok(&["array", "get", "tank", "back", &name, "-o", &back, "--class", "S1"]);
        assert!(std::fs::read(&back).unwrap() == noise(400_000), "{name}");
        let get = ["kv", "get", "tank", "back", "index", &name, "--class", "S1"];
        assert_eq!(site.ok(&get), round.to_string());
    }
}
