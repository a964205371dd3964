//! `esker tensor`.
use crate::support::Site;
use serde_json::json;

/// A file as numpy.save writes it.
fn npy(descr: &str, order: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(118 - 1 - header.len()));
    header.push('\n');
    [b"\x93NUMPY\x01\0v\0", header.as_bytes(), elements].concat()
}

fn site() -> Site {
    let site = Site::new();
    site.create_pool();
    site
}

/// 4 x 3 elements of two bytes, in C order.
fn elements() -> Vec<u8> {
    (0..24).collect()
}

#[test]
fn files_of_numpy_come_back() {
    let site = site();
    let file = npy("<u2", "False", "(4, 3)", &elements());
    let put = ["tensor", "put", "tank/t", "-", "--name", "a b", "--chunks", "2,2"];
    let uuid = String::from_utf8(site.feed(&put, &file)).unwrap().trim().to_owned();
    let get = |name: &str| site.run(&["tensor", "get", "tank/t", name]).stdout;
    assert!(get("a b") == file && get(&uuid) == file);
    let part = site.run(&["tensor", "get", "tank/t", "a b", "--slab", "1::2, -1"]).stdout;
    assert_eq!(part, npy("<u2", "False", "(2, 1)", &[10, 11, 22, 23]));
    // The same elements in Fortran order: the first index varies fastest.
    let turned: Vec<u8> =
        (0..12).flat_map(|at| [2 * (at % 4 * 3 + at / 4), 2 * (at % 4 * 3 + at / 4) + 1]).collect();
    let path = site.file("f.npy", &npy("<u2", "True", "(4, 3)", &turned));
    site.ok(&["tensor", "put", "tank", "t", &path, "--name", "f"]);
    assert_eq!(get("f"), file);
    let scalar = npy(">f4", "False", "()", &[1, 2, 3, 4]);
    site.feed(&["tensor", "put", "tank/t", "-", "--name", "scalar"], &scalar);
    assert_eq!(get("scalar"), scalar);
    for (command, remedy) in [
        (&["tensor", "get", "tank/t", "f"][..], "name a file with -o"),
        (&["tensor", "export", "tank/t", "f", "-"], "name a file in place of -"),
    ] {
        let (done, said) = site.on_terminal(command, "");
        assert!(!done && said.contains("binary data") && said.contains(remedy), "{said}");
        assert!(!said.contains("NUMPY"), "{said}");
    }
}

#[test]
fn tensors_are_listed_shown_renamed_and_removed() {
    let site = site();
    let file = npy("<u2", "False", "(4, 3)", &elements());
    let put =
        ["tensor", "put", "tank/t", "-", "--name", "a", "--attr", "step=3", "--attr", "units=K"];
    site.feed(&put, &file);
    let shown = site.json(&["tensor", "show", "tank/t", "a"]);
    assert_eq!((&shown["dtype"], &shown["shape"]), (&json!("<u2"), &json!([4, 3])));
    assert_eq!(shown["attributes"], json!({"step": 3, "units": "K"}));
    assert!(site.ok(&["tensor", "show", "tank/t", "a"]).contains("units = \"K\""));
    site.ok(&["tensor", "rename", "tank/t", "a", "b"]);
    let listed = site.json(&["tensor", "list", "tank/t"]);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("b")));
    assert!(site.ok(&["tensor", "list", "tank/t"]).contains("4 x 3"));
    assert_eq!(site.fails(&["tensor", "rm", "tank/t", "a"]).0, "not_found");
    site.ok(&["tensor", "rm", "tank/t", "b"]);
    assert_eq!(site.json(&["tensor", "list", "tank/t"]), json!([]));
    let freed = site.json(&["tensor", "gc", "tank/t"]);
    assert_eq!(freed, json!({"done": true, "puts": 0, "removed": 0, "objects": 0, "kept": 0}));
}

/// Object id of the Key-Value of names in a container of tensors (docs/format.md).
const NAMES: &str = "576742231608655872.0";

#[test]
fn listing_names_damaged_tensors() {
    let site = site();
    let path = site.file("a.npy", &npy("<u2", "False", "(4, 3)", &elements()));
    for name in ["a", "b", "c"] {
        site.ok(&["tensor", "put", "tank/t", &path, "--name", name]);
    }
    site.ok(&["kv", "put", "tank", "t", NAMES, "a", "x"]);
    let list = ["tensor", "list", "tank/t"];
    assert!(site.message(&list).contains("tensor \"a\" cannot be listed"));
    site.ok(&["kv", "put", "tank", "t", NAMES, "b", "x"]);
    assert!(site.message(&list).contains("tensor \"a\" and 1 other cannot be listed"));
    site.ok(&["tensor", "rm", "tank/t", "a"]);
    site.ok(&["tensor", "rm", "tank/t", "b"]);
    assert_eq!(site.json(&list).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_file_that_is_cut_short_leaves_nothing() {
    let site = site();
    let path = site.file("cut.npy", &npy("<u2", "False", "(4, 3)", &elements()[..20]));
    let put = ["tensor", "put", "tank/t", &path, "--name", "a"];
    assert_eq!(site.fails(&put), ("invalid".to_owned(), -1003));
    let gc = site.json(&["tensor", "gc", "tank/t", "--age", "0"]);
    assert_eq!((&gc["puts"], &gc["objects"]), (&json!(0), &json!(0)));
    let other = site.file("other", b"text");
    assert!(site.message(&["tensor", "put", "tank/t", &other]).contains("not a .npy file"));
}

#[test]
fn invalid_tensors_create_no_container() {
    let site = site();
    let path = site.file("a.npy", &npy("<u2", "False", "(4, 3)", &elements()));
    for (options, word) in
        [(["--chunks", "2"], "suit"), (["--chunks", "2,0"], "suit"), (["--name", ""], "empty")]
    {
        let put = [&["tensor", "put", "tank/t", &path][..], &options].concat();
        assert!(site.message(&put).contains(word), "{options:?}");
    }
    assert_eq!(site.json(&["cont", "list", "tank"]), json!([]));
}

#[test]
fn an_empty_container_takes_tensors() {
    let site = site();
    let path = site.file("a.npy", &npy("<u2", "False", "(4, 3)", &elements()));
    site.ok(&["cont", "create", "tank", "t"]);
    site.ok(&["tensor", "put", "tank/t", &path, "--name", "a"]);
    site.ok(&["tensor", "put", "tank/t", &path, "--name", "b"]);
    assert_eq!(site.json(&["tensor", "list", "tank/t"]).as_array().map(Vec::len), Some(2));
    site.ok(&["cont", "create", "tank", "used"]);
    site.ok(&["kv", "put", "tank", "used", "index", "key", "value"]);
    site.ok(&["cont", "create", "tank", "files", "--type", "posix"]);
    for label in ["tank/used", "tank/files"] {
        assert!(site.message(&["tensor", "put", label, &path]).contains("holds no tensors"));
    }
}

#[test]
fn a_snapshot_has_the_tensors_of_its_time() {
    let site = site();
    let put = ["tensor", "put", "tank/t", "-", "--name", "a"];
    let (old, new) = (npy("|u1", "False", "(1,)", &[1]), npy("|u1", "False", "(1,)", &[2]));
    site.feed(&put, &old);
    site.ok(&["cont", "snapshot", "create", "tank/t", "monday"]);
    site.feed(&put, &new);
    let at = site.run(&["tensor", "get", "tank/t", "a", "--snapshot", "monday"]).stdout;
    assert!(at == old && site.run(&["tensor", "get", "tank/t", "a"]).stdout == new);
}

#[test]
fn damage_is_found_by_a_check() {
    let site = site();
    site.feed(
        &["tensor", "put", "tank/t", "-", "--name", "a"],
        &npy("<u2", "False", "(4, 3)", &elements()),
    );
    let sound = site.json(&["tensor", "check", "tank/t", "--data"]);
    assert_eq!(sound, json!({"tensors": 1, "size_bytes": 24, "hidden": 0, "problems": []}));
    // The Key-Value with the records of tensors: its user bits are those of the format.
    let objects = site.json(&["object", "list", "tank/t"]);
    let is_records = |oid: &&str| {
        let hi: u64 = oid.split('.').next().unwrap().parse().unwrap();
        hi & 0xffff_ffff == 1 << 24
    };
    let oids = objects.as_array().unwrap().iter().map(|object| object["oid"].as_str().unwrap());
    let records = oids.clone().find(is_records).unwrap();
    site.ok(&["kv", "rm", "tank/t", records, "--all"]);
    let found = site.failure(&["tensor", "check", "tank/t"]);
    assert!(
        found["response"]["problems"][0].as_str().unwrap().contains("does not refer to a tensor"),
        "{found}"
    );
}
