//! `esker cont`: containers, snapshots, properties, attributes; attributes of pools.
use crate::support::{self, Site};
use serde_json::json;

#[test]
fn a_container_is_made_found_and_removed() {
    let site = Site::new();
    site.create_pool();
    let made = site.json(&["cont", "create", "tank", "run1", "--checksum", "crc64"]);
    assert_eq!((&made["label"], &made["checksum"]), (&json!("run1"), &json!("crc64")));
    let uuid = made["uuid"].as_str().unwrap();
    assert_eq!(site.json(&["cont", "list", "tank"])[0]["uuid"], made["uuid"]);
    assert!(site.ok(&["cont", "list", "tank"]).contains(uuid));
    for name in ["run1", uuid] {
        let info = site.json(&["container", "query", "tank", name]);
        assert_eq!((&info["label"], &info["snapshots"]), (&json!("run1"), &json!([])));
    }
    site.ok(&["cont", "destroy", "tank", uuid]);
    assert_eq!(site.json(&["cont", "list", "tank"]), json!([]));
}

#[test]
fn labels_are_given_in_either_form_or_not_at_all() {
    let site = Site::new();
    site.create_pool();
    site.ok(&["cont", "create", "tank", "--label", "other"]);
    let nameless = site.json(&["cont", "create", "tank"]);
    assert_eq!(nameless["label"], json!(""));
    site.ok(&["cont", "query", "tank", nameless["uuid"].as_str().unwrap()]);
    assert_eq!(site.json(&["cont", "list", "tank"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_pool_and_a_container_are_one_argument_or_two() {
    let site = Site::new();
    site.create_pool();
    let url = format!("esker:{}/tank", site.dir.display());
    let files = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &files]);
    site.ok(&["cont", "create", "tank/run1", "--checksum", "crc64"]);
    site.ok(&["cont", "create", &format!("{files}/run1?fsync=on")]);
    let synced = format!("{files}?fsync=on");
    for pool in ["tank", &url, &files, &synced] {
        let one = match pool.split_once('?') {
            Some((path, options)) => format!("{path}/run1?{options}"),
            None => format!("{pool}/run1"),
        };
        let info = site.json(&["cont", "query", pool, "run1"]);
        assert_eq!(site.json(&["cont", "query", &one]), info);
        site.ok(&["kv", "put", "--class", "S1", &one, "index", "key", pool]);
        assert_eq!(site.ok(&["kv", "get", pool, "run1", "index", "key", "--class", "S1"]), pool);
        site.ok(&["cont", "set-attr", &one, "owner:me"]);
        assert_eq!(site.json(&["cont", "list-attr", pool, "run1"]), json!(["owner"]));
    }
    assert_eq!(site.json(&["cont", "query", "daos://tank/run1"])["checksum"], json!("crc64"));
    site.ok(&["cont", "destroy", "tank/run1"]);
    assert_eq!(site.fails(&["cont", "query", "tank/run1"]).0, "not_found");
}

#[test]
fn existing_name_is_an_error_that_names_it() {
    let site = Site::with_container();
    site.ok(&["cont", "snapshot", "create", "tank/run1", "monday"]);
    site.ok(&["cont", "create", "tank/home", "--type", "posix"]);
    site.ok(&["fs", "mkdir", "tank/home:/d"]);
    for (arguments, words) in [
        (&["cont", "create", "tank/run1"][..], "pool tank already has a container \"run1\""),
        (&["cont", "create", "tank/home", "--type", "posix"], "`esker cont destroy tank home`"),
        (
            &["cont", "snapshot", "create", "tank/run1", "monday"],
            "container run1 already has a snapshot \"monday\"",
        ),
        (&["cont", "copy", "tank/run1", "tank/home"], "home"),
        (&["fs", "mkdir", "tank/home:/d"], "already"),
        (&["fs", "ln", "-s", "x", "tank/home:/d"], "already"),
    ] {
        let envelope = site.failure(arguments);
        assert_eq!(envelope["error"]["kind"], json!("exists"), "{envelope}");
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.contains("os error"), "{message}");
    }
}

/// Each message names the object, the cause and the remedy, and shows no error number of the system.
#[test]
fn messages_say_what_is_wrong_and_what_to_do() {
    let site = Site::with_container();
    site.ok(&["cont", "create", "tank/home", "--type", "posix"]);
    let file = site.file("file", b"x");
    let at = |scheme: &str, name: &str| format!("{scheme}{}/{name}", site.dir.display());
    let (none, posix) = (at("esker:", "none"), at("posix:", "none"));
    let (path, missing) = (at("", "tank"), at("", "missing"));
    let directory = site.dir.display().to_string();
    for (arguments, words) in [
        (&["pool", "query", "nope"][..], "no pool \"nope\" in"),
        (&["pool", "query", &none], "`esker pool list`"),
        (&["pool", "query", &posix], "is not a posix pool"),
        (&["pool", "query", "posix:"], "posix:/path"),
        (&["pool", "query", "foo:/x"], "there is no kind of pool `foo:`"),
        (&["pool", "query", &path], "is a path: write esker:/"),
        (&["pool", "create", "x", "--size", "64M", "--targets", "100"], "choose 1 to 64"),
        (
            &["pool", "create", "x", "--size", "900T"],
            "make it smaller, or choose another directory",
        ),
        (&["cont", "query", "tank", "nope"], "`esker cont list tank`"),
        (&["fs", "ls", "tank/home:/a/b"], "tank/home:/a/b: /a does not exist"),
        (&["fs", "rm", "tank/home:/a"], "tank/home:/a does not exist"),
        (&["cont", "copy", "tank/home", "tank/run1"], "`esker cont destroy tank run1`"),
        (
            &["kv", "put", "tank/run1", "i", "k", "v", "--class", "S32"],
            "does not fit a pool of 2 targets",
        ),
        (&["array", "put", "tank/run1", "field", &directory], "is a directory: name a file"),
        (&["array", "stat", "tank/run1", "field"], "`esker object list tank run1`"),
        (&["fs", "ls", "tank/run1:/"], "holds no file system"),
        (&["fs", "rm", "tank/home:/"], "must end with the name of a file"),
        (&["mount", "tank/home", &missing], "`mkdir -p /"),
        (&["mount", "tank/home", &file], "choose a directory"),
    ] {
        let message = site.message(arguments);
        assert!(message.contains(words) && !message.contains("os error"), "{message}");
    }
    assert_eq!(site.json(&["object", "list", "tank/run1"]), json!([]));
}

/// User 65534 may not read the pool. Only root can run a command as that user.
#[test]
fn pool_of_another_user_is_reported_as_not_accessible() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::in_memory();
    site.create_pool();
    std::fs::set_permissions(&site.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = site.command(&["pool", "query", "tank"]);
    let mut other = support::as_user(65534, "--clear-groups");
    other.arg(program.get_program()).args(program.get_args()).env("ESKER_POOLS", &site.dir);
    let said = other.output().map(|output| String::from_utf8(output.stderr).unwrap());
    match said {
        Ok(said) if said.contains("esker: ") => {
            assert!(said.contains("/tank") && said.contains("Permission denied"), "{said}");
            assert!(said.contains("--group"), "{said}");
        }
        _ => esker_testing::skip("this needs to be root, and setpriv"),
    }
}

#[test]
fn invalid_container_commands_are_refused() {
    let site = Site::with_container();
    let fails = |arguments: &[&str]| site.fails(arguments);
    assert_eq!(fails(&["cont", "create", "tank", "run1"]), ("exists".to_owned(), -1004));
    assert_eq!(fails(&["cont", "create", "tank", "no label"]).0, "invalid");
    for more in [
        &["--properties", "label:zzz"][..],
        &["--checksum", "off", "--properties", "cksum:crc32"],
        &["--properties", "rd_fac:0,rd_fac:0"],
        &["--properties", "cksum:off,csum:crc64"],
    ] {
        let kind = fails(&[&["cont", "create", "tank", "q3"], more].concat()).0;
        assert_eq!(kind, "invalid", "{more:?}");
    }
    let hints = site.run(&["cont", "create", "tank", "q3", "--type", "posix", "--hints", "foo"]);
    assert_eq!(hints.status.code(), Some(2), "{hints:?}");
    site.ok(&["cont", "create", "tank", "--properties", "label:q3,cksum:crc64,rd_fac:0"]);
    assert_eq!(fails(&["cont", "query", "tank", "nothing"]), ("not_found".to_owned(), -1005));
    assert_eq!(fails(&["cont", "destroy", "tank", "nothing"]).0, "not_found");
    assert_eq!(fails(&["cont", "list", "nothing"]).0, "not_found");
}

#[test]
fn missing_container_error_names_pool_and_remedy() {
    let site = Site::with_container();
    let says = |arguments: &[&str]| {
        let envelope = site.failure(arguments);
        let message = envelope["error"]["message"].as_str().unwrap().to_owned();
        let names = ["pool tank has no container \"nothing\"", "`esker cont list tank`"];
        assert!(names.iter().all(|name| message.contains(name)), "{arguments:?}: {message}");
        message
    };
    says(&["cont", "query", "tank", "nothing"]);
    says(&["cont", "destroy", "tank", "nothing"]);
    says(&["fs", "ls", "tank/nothing"]);
    let said = site.failure(&["pool", "query", "tank/run1"]);
    let message = said["error"]["message"].as_str().unwrap();
    assert!(message.contains("tank/run1 names a container"), "{message}");
    let message = says(&["fields", "list", "--store", "tank/nothing"]);
    assert!(message.contains("`esker fields archive`"), "{message}");
}

#[test]
fn snapshots_keep_what_was_there() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "old"]);
    let made = site.json(&["cont", "snapshot", "create", "tank", "run1", "before"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "new"]);
    assert_eq!(site.json(&["cont", "snapshot", "list", "tank", "run1"]), json!([made]));
    let epoch = made["epoch"].to_string();
    for snapshot in ["before", &epoch] {
        let get = ["kv", "get", "tank", "run1", "index", "key", "--snapshot", snapshot];
        assert_eq!(site.ok(&get), "old");
    }
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "key"]), "new");
    site.ok(&["cont", "snapshot", "destroy", "tank", "run1", "before"]);
    assert_eq!(site.json(&["cont", "snapshot", "list", "tank", "run1"]), json!([]));
    assert_eq!(
        site.fails(&["cont", "snapshot", "destroy", "tank", "run1", "before"]).0,
        "not_found"
    );
    assert_eq!(
        site.fails(&["kv", "list", "tank", "run1", "index", "--snapshot", "x"]).0,
        "not_found"
    );
}

/// A snapshot may be named like the epoch of another one.
#[test]
fn snapshots_are_destroyed_by_epoch_or_by_name_only() {
    let site = Site::with_container();
    let create = ["cont", "snapshot", "create", "tank", "run1"];
    let destroy = ["cont", "snapshot", "destroy", "tank", "run1"];
    let first = site.json(&[&create[..], &["first"]].concat())["epoch"].to_string();
    let second = site.json(&[&create[..], &[first.as_str()]].concat())["epoch"].to_string();
    for wrong in [["--snap", &second], ["--epc", "7"]] {
        let message = site.message(&[&destroy[..], &wrong].concat());
        assert!(message.contains("`esker cont snapshot list tank run1`"), "{message}");
    }
    let output = site.run(&[&destroy[..], &["--epc", "first"]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let gone = site.json(&[&destroy[..], &["--epc", &first]].concat());
    assert_eq!(gone["epoch"].to_string(), first);
    let gone = site.json(&[&destroy[..], &["--snap", &first]].concat());
    assert_eq!(gone["epoch"].to_string(), second);
}

#[test]
fn attributes_of_pools_and_containers_are_kept() {
    let site = Site::with_container();
    for scope in [&["pool"][..], &["cont"][..]] {
        let names = if scope == ["pool"] { vec!["tank"] } else { vec!["tank", "run1"] };
        let run = |verb: &'static str, more: &[&'static str]| {
            let arguments = [scope, &[verb], &names[..], more].concat();
            site.json(&arguments)
        };
        assert_eq!(run("list-attr", &[]), json!([]));
        run("set-attr", &["owner:me", "path:a:b"]);
        assert_eq!(run("list-attr", &[]), json!(["owner", "path"]));
        assert_eq!(run("get-attr", &[]), json!({"owner": {"text": "me"}, "path": {"text": "a:b"}}));
        assert_eq!(run("get-attr", &["owner"]), json!({"owner": {"text": "me"}}));
        run("del-attr", &["owner"]);
        assert_eq!(run("list-attr", &[]), json!(["path"]));
        let fails = |verb, name| site.fails(&[scope, &[verb], &names[..], &[name]].concat()).0;
        assert_eq!(fails("get-attr", "owner"), "not_found");
        assert_eq!(fails("del-attr", "owner"), "not_found");
        assert_eq!(fails("set-attr", "no colon"), "invalid");
        let twice = [scope, &["set-attr"], &names[..], &["a:b", "a:c"]].concat();
        assert_eq!(site.fails(&twice).0, "invalid");
        assert_eq!(run("list-attr", &[]), json!(["path"]));
    }
}

#[test]
fn the_label_is_a_property_that_can_change() {
    let site = Site::with_container();
    let properties = site.json(&["cont", "get-prop", "tank", "run1"]);
    assert_eq!((&properties["label"], &properties["csum"]), (&json!("run1"), &json!("crc32c")));
    site.ok(&["cont", "set-prop", "tank", "run1", "label:run2"]);
    assert_eq!(site.json(&["cont", "get-prop", "tank", "run2", "label"]), json!({"label": "run2"}));
    assert_eq!(site.fails(&["cont", "set-prop", "tank", "run2", "csum:off"]).0, "not_supported");
    assert_eq!(site.fails(&["cont", "get-prop", "tank", "run2", "colour"]).0, "not_found");
}
