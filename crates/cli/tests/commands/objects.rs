//! `esker kv`, `esker array`, `esker object`.
use crate::support::{Site, noise, wait_for};
use esker::types::ObjectType;
use esker::types::info::OpenMode;
use esker::{Access, ArrayAttributes, Kv, Pool, Wait};
use serde_json::json;
use std::io::Write;
use std::process::Stdio;

#[test]
fn values_come_back_as_they_were_put() {
    let site = Site::with_container();
    let binary = noise(3000);
    let file = site.file("binary", &binary);
    let put = |key: &str, value: &str| site.ok(&["kv", "put", "tank", "run1", "index", key, value]);
    put("text", "step 0");
    put("empty", "");
    put("negative", "-5");
    put("at", "@@home");
    put("file", &format!("@{file}"));
    site.feed(&["kv", "put", "tank", "run1", "index", "input"], &binary);
    let get = |key: &str| site.run(&["kv", "get", "tank", "run1", "index", key]).stdout;
    assert_eq!((get("text"), get("empty")), (b"step 0".to_vec(), Vec::new()));
    assert_eq!((get("negative"), get("at")), (b"-5".to_vec(), b"@home".to_vec()));
    assert_eq!((get("file"), get("input")), (binary.clone(), binary));
    let mut keys: Vec<_> =
        site.ok(&["kv", "list", "tank", "run1", "index"]).lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["at", "empty", "file", "input", "negative", "text"]);
}

#[test]
fn values_are_shown_in_json() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "tank", "run1", "index", "text", "step 0"]);
    site.feed(&["kv", "put", "tank", "run1", "index", "bytes", "-"], &[0xff, 0]);
    let value =
        |key: &str| site.json(&["kv", "get", "tank", "run1", "index", key])["value"].clone();
    assert_eq!(
        (value("text"), value("bytes")),
        (json!({"text": "step 0"}), json!({"hex": "ff00"}))
    );
    let within = site.ok(&["kv", "list", "--json", "tank", "run1", "index"]);
    assert!(within.contains("\"keys\""), "{within}");
}

#[test]
fn conditions_and_missing_keys_fail() {
    let site = Site::with_container();
    let put = ["kv", "put", "tank", "run1", "index", "key", "value"];
    let with = |flag| [&put[..], &[flag]].concat();
    assert_eq!(site.fails(&with("--update")), ("not_found".to_owned(), -1005));
    site.ok(&with("--insert"));
    assert_eq!(site.fails(&with("--insert")), ("exists".to_owned(), -1004));
    site.ok(&with("--update"));
    site.ok(&["kv", "rm", "tank", "run1", "index", "key"]);
    assert_eq!(site.fails(&["kv", "get", "tank", "run1", "index", "key"]).0, "not_found");
    assert_eq!(site.fails(&["kv", "rm", "tank", "run1", "index", "key"]).0, "not_found");
    site.ok(&put);
    site.ok(&["kv", "rm", "tank", "run1", "index", "--all"]);
    let list = ["kv", "list", "tank", "run1", "index"];
    assert_eq!(site.fails(&list), ("not_found".to_owned(), -1005));
    assert_eq!(site.fails(&["kv", "rm", "tank", "run1", "index", "--all"]).0, "not_found");
}

#[test]
fn a_name_and_its_id_are_one_object() {
    let site = Site::with_container();
    let put = site.json(&["kv", "put", "tank", "run1", "abc", "key", "value"]);
    let oid = put["oid"].as_str().unwrap();
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", oid, "key"]), "value");
    // The user bits of sha256("abc"), as any other program would find them.
    let bits = "0xba7816bf.0x8f01cfea414140de";
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", bits, "key"]), "value");
    let other = ["kv", "get", "tank", "run1", "abc", "key", "--class", "S1"];
    let message = site.message(&other);
    assert!(message.contains("no Key-Value \"abc\" of class S1"), "{message}");
    assert_eq!(
        site.run(&["kv", "list", "tank", "run1", "abc", "--class", "ODD"]).status.code(),
        Some(2)
    );
}

#[test]
fn a_name_is_found_whatever_its_class() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "tank", "run1", "index", "a", "1", "--class", "S1"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "b", "2"]);
    assert_eq!(site.ok(&["kv", "list", "tank", "run1", "index", "--class", "S1"]), "a\nb\n");
    let field = site.file("field", b"field");
    site.ok(&["array", "put", "tank", "run1", "field", "--class", "S1", &field]);
    site.ok(&["array", "put", "tank", "run1", "field", &field]);
    assert_eq!(site.json(&["object", "list", "tank", "run1"]).as_array().unwrap().len(), 2);
    assert_eq!(site.ok(&["array", "get", "tank", "run1", "field"]), "field");
    site.ok(&["kv", "rm", "tank", "run1", "index", "--all"]);
    let message = site.message(&["kv", "get", "tank", "run1", "index", "a"]);
    assert!(message.contains("no Key-Value") && message.contains("esker object list"), "{message}");
}

#[test]
fn missing_key_error_names_a_complete_command() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "tank", "run1", "index", "a", "1"]);
    for arguments in
        [["kv", "get", "tank/run1", "index", "b"], ["kv", "rm", "tank/run1", "index", "b"]]
    {
        let message = site.message(&arguments);
        assert!(message.contains("`esker kv list tank run1 index`"), "{message}");
    }
}

#[test]
fn url_of_python_names_a_container() {
    let site = Site::with_container();
    site.ok(&["kv", "put", "esker://tank/run1", "index", "a", "1"]);
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "a"]), "1");
    site.ok(&["cont", "create", "esker://tank/home", "--type", "posix"]);
    site.ok(&["fs", "mkdir", "esker://tank/home/dir"]);
    assert_eq!(site.ok(&["fs", "ls", "esker://tank/home"]), "dir\n");
}

#[test]
fn files_come_back_from_arrays() {
    let site = Site::with_container();
    let output = site.dir.join("output").display().to_string();
    for len in [0, 1, 1000, 5_000_000] {
        let bytes = noise(len);
        let file = site.file("input", &bytes);
        let put = site.json(&["array", "put", "tank", "run1", "field", &file]);
        assert_eq!(put["size_bytes"], json!(len));
        let get = site.json(&["array", "get", "tank", "run1", "field", "-o", &output]);
        assert_eq!(get["size_bytes"], json!(len));
        assert_eq!(std::fs::read(&output).unwrap(), bytes);
        assert_eq!(site.run(&["array", "get", "tank", "run1", "field"]).stdout, bytes);
    }
    let shorter = noise(77);
    site.feed(&["array", "put", "tank", "run1", "field", "-"], &shorter);
    assert_eq!(site.run(&["array", "get", "tank", "run1", "field"]).stdout, shorter);
}

#[test]
fn file_that_does_not_fit_leaves_no_partial_copy() {
    let site = Site::with_container();
    site.ok(&["pool", "create", "small", "--size", "24M", "--targets", "1"]);
    site.ok(&["cont", "create", "small", "c"]);
    let (large, little) = (site.file("large", &noise(30 << 20)), site.file("little", b"little"));
    let put = |file: &str| site.failure(&["array", "put", "small", "c", "a", file]);
    let said = put(&large)["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("the pool is full"), "{said}");
    assert_eq!(site.json(&["object", "list", "small", "c"]), json!([]));
    site.ok(&["array", "put", "small", "c", "a", &little]);
    let said = put(&large)["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.contains("\"a\" is incomplete"), "{said}");
}

/// Binary data is written to files and pipes, not to terminals.
#[test]
fn binary_data_is_not_written_to_a_terminal() {
    let site = Site::with_container();
    let (text, binary) =
        (site.file("text", "gr\u{fc}n\n".as_bytes()), site.file("binary", &[0; 100]));
    for (name, file) in [("text", &text), ("binary", &binary)] {
        site.ok(&["array", "put", "tank", "run1", name, file]);
        site.ok(&["kv", "put", "tank", "run1", "values", name, &format!("@{file}")]);
    }
    for get in [&["array", "get", "tank", "run1"][..], &["kv", "get", "tank", "run1", "values"]] {
        let (done, said) = site.on_terminal(&[get, &["text"]].concat(), "");
        assert!(done && said.starts_with("gr\u{fc}n"), "{get:?}: {said}");
        let (done, said) = site.on_terminal(&[get, &["binary"]].concat(), "");
        assert!(!done && said.contains("binary data") && !said.contains('\0'), "{get:?}: {said}");
    }
    assert_eq!(site.run(&["array", "get", "tank", "run1", "binary"]).stdout, [0; 100]);
}

/// The error about binary data on a terminal names an option, which all of these commands have.
#[test]
fn binary_data_is_written_to_a_file_by_the_option_of_the_error() {
    let site = Site::with_container();
    let (binary, out) = (site.file("binary", &[0; 100]), site.dir.join("out"));
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    site.ok(&["fs", "import", &binary, "tank/home:/binary"]);
    site.ok(&["array", "put", "tank", "run1", "binary", &binary]);
    site.ok(&["kv", "put", "tank", "run1", "values", "binary", &format!("@{binary}")]);
    for get in [
        &["fs", "cat", "tank/home:/binary"][..],
        &["array", "get", "tank", "run1", "binary"],
        &["kv", "get", "tank", "run1", "values", "binary"],
    ] {
        let (done, said) = site.on_terminal(get, "");
        assert!(!done && said.contains("name a file with -o"), "{get:?}: {said}");
        let (done, said) = site.on_terminal(&[get, &["-o", out.to_str().unwrap()]].concat(), "");
        assert!(done && !said.contains('\0'), "{get:?}: {said}");
        assert_eq!(std::fs::read(&out).unwrap(), [0; 100], "{get:?}");
        std::fs::remove_file(&out).unwrap();
    }
}

/// The command waits for the value, which looks as if it hung.
#[test]
fn value_that_is_read_from_a_terminal_is_announced() {
    let site = Site::with_container();
    let put = ["kv", "put", "tank", "run1", "values", "typed"];
    let (done, said) = site.on_terminal(&put, "hello\n\u{4}");
    assert!(done && said.contains("Ctrl-D"), "{said}");
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "values", "typed"]), "hello\n");
    let (done, said) = site.on_terminal(&[&["--quiet"], &put[..]].concat(), "again\n\u{4}");
    assert!(done && !said.contains("Ctrl-D"), "{said}");
}

#[test]
fn an_array_says_what_it_is() {
    let site = Site::with_container();
    let file = site.file("input", &noise(1000));
    let sizes = ["--cell-size", "8", "--chunk-size", "64K", "--class", "S1"];
    site.ok(&[&["array", "put", "tank", "run1", "field", &file][..], &sizes].concat());
    let stat = site.json(&["array", "stat", "tank", "run1", "field", "--class", "S1"]);
    assert_eq!((&stat["cells"], &stat["cell_bytes"]), (&json!(125), &json!(8)));
    assert_eq!((&stat["chunk_cells"], &stat["class"]), (&json!(8192), &json!("S1")));
    assert!(stat["changed"].as_str().unwrap().starts_with("20"));
    let odd = site.file("odd", &noise(1001));
    let put = ["array", "put", "tank", "run1", "field", &odd, "--class", "S1"];
    assert_eq!(site.fails(&put).0, "invalid");
}

#[test]
fn invalid_array_commands_are_refused() {
    let site = Site::with_container();
    let output = site.dir.join("output").display().to_string();
    assert_eq!(site.fails(&["array", "stat", "tank", "run1", "field"]).0, "not_found");
    assert_eq!(
        site.fails(&["array", "get", "tank", "run1", "field", "-o", &output]).0,
        "not_found"
    );
    assert_eq!(
        site.fails(&["array", "put", "tank", "run1", "field", "/no/such/file"]).0,
        "not_found"
    );
    let file = site.file("input", b"x");
    let sizes = ["--cell-size", "1000", "--chunk-size", "1500"];
    let put = ["array", "put", "tank", "run1", "field", &file];
    let message = site.message(&[&put[..], &sizes].concat());
    assert!(message.contains("choose --chunk-size 2000"), "{message}");
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    let envelope = site.failure(&["array", "get", "tank", "run1", "field"]);
    assert_eq!(envelope["error"]["kind"], json!("invalid"));
}

#[test]
fn objects_are_listed_and_shown() {
    let site = Site::with_container();
    assert_eq!(site.json(&["object", "list", "tank", "run1"]), json!([]));
    let kv = site.json(&["kv", "put", "tank", "run1", "index", "key", "value"])["oid"].clone();
    let file = site.file("input", b"x");
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    let objects = site.json(&["obj", "list", "tank", "run1"]);
    let types: Vec<_> = objects.as_array().unwrap().iter().map(|object| &object["type"]).collect();
    assert_eq!(types, [&json!("KvHashed"), &json!("Array")]);
    let shown = site.json(&["object", "query", "tank", "run1", kv.as_str().unwrap()]);
    assert_eq!((&shown["oid"], &shown["dkeys"]), (&kv, &json!(1)));
    assert_eq!(site.fails(&["object", "query", "tank", "run1", "1.2"]).0, "not_found");
    assert_eq!(site.json(&["object", "query", "tank", "run1", "index"])["oid"], kv);
    assert_eq!(site.fails(&["object", "query", "tank", "run1", "none"]).0, "not_found");
}

/// Names as a listing shows them, sorted.
fn names(site: &Site, command: &[&str]) -> Vec<Option<String>> {
    let listed = site.json(command);
    let names = listed.as_array().unwrap().iter().map(|object| object["name"].as_str());
    let mut names: Vec<_> = names.map(|name| name.map(str::to_owned)).collect();
    names.sort();
    names
}

#[test]
fn objects_are_listed_and_removed_by_name() {
    let site = Site::with_container();
    let file = site.file("input", b"x");
    let some = |name: &str| Some(name.to_owned());
    for name in ["field-1", "field-2", "both", "0.7"] {
        site.ok(&["array", "put", "tank", "run1", name, &file]);
        site.ok(&["array", "put", "tank", "run1", name, &file]);
    }
    site.ok(&["kv", "put", "tank", "run1", "both", "key", "value", "--class", "S1"]);
    let arrays = ["array", "ls", "tank", "run1"];
    assert_eq!(names(&site, &arrays), [None, some("both"), some("field-1"), some("field-2")]);
    assert_eq!(names(&site, &["object", "ls", "tank", "run1"]).len(), 5);
    assert!(site.ok(&arrays).contains("field-2"));

    site.ok(&["array", "rm", "tank", "run1", "field-1"]);
    let rm = ["array", "rm", "tank", "run1", "field-1"];
    assert_eq!(site.fails(&rm), ("not_found".to_owned(), -1005));
    let message = site.message(&["object", "rm", "tank", "run1", "both"]);
    assert!(message.contains("several objects") && message.contains("IDs"), "{message}");
    site.ok(&["array", "rm", "tank", "run1", "both"]);
    let objects = ["object", "list", "tank", "run1"];
    assert_eq!(names(&site, &objects), [None, some("both"), some("field-2")]);
    site.ok(&["object", "rm", "tank", "run1", "both"]);
    site.ok(&["object", "rm", "tank", "run1", "0.7"]);
    assert_eq!(names(&site, &objects), [some("field-2")]);
    site.ok(&["array", "put", "tank", "run1", "field-1", &file]);
    assert_eq!(names(&site, &objects), [some("field-1"), some("field-2")]);
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "value"]);
    site.ok(&["kv", "rm", "tank", "run1", "index", "key"]);
    assert_eq!(names(&site, &objects), [some("field-1"), some("field-2")]);
}

/// A put records the name also if the object exists already: the command that created it may have failed to.
#[test]
fn a_put_records_a_missing_name() {
    let site = Site::with_container();
    let url = format!("esker:{}/tank", site.dir.display());
    let pool = Pool::connect(&url, OpenMode::ReadWrite).unwrap();
    let container = pool.open_container("run1", OpenMode::ReadWrite).wait().unwrap();
    let oid = container.named_oid("index", ObjectType::KvHashed, None).unwrap();
    let kv = container.kv(oid).unwrap();
    kv.put(b"key", b"value", Kv::INSERT, Access::Latest).wait().unwrap();
    let oid = container.named_oid("field", ObjectType::Array, None).unwrap();
    let attributes = ArrayAttributes { cell_size: 1, chunk_size: 1024 };
    container.create_array(oid, attributes, Access::Latest).wait().unwrap();
    let objects = ["object", "list", "tank", "run1"];
    assert_eq!(names(&site, &objects), [None, None]);
    let file = site.file("input", b"x");
    site.ok(&["kv", "put", "tank", "run1", "index", "other", "value"]);
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    let both = [Some("field".to_owned()), Some("index".to_owned())];
    assert_eq!(names(&site, &objects), both);
}

/// Two processes store into one new Array: the one that created it fails, and the other one does not.
#[test]
fn a_failed_put_keeps_what_another_process_has_stored() {
    let site = Site::with_container();
    let mut first = site.command(&["array", "put", "tank", "run1", "a", "-", "--cell-size", "2"]);
    let first = first.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut first = first.spawn().unwrap();
    wait_for("the first process creates the Array", || {
        site.run(&["array", "stat", "tank", "run1", "a"]).status.success()
    });
    let file = site.file("input", b"whole");
    assert_eq!(site.fails(&["array", "put", "tank", "run1", "a", &file]).0, "invalid");
    let file = site.file("input", b"whole.");
    site.ok(&["array", "put", "tank", "run1", "a", &file]);
    first.stdin.take().unwrap().write_all(b"x").unwrap();
    let output = first.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("another process"), "{said}");
    assert_eq!(site.ok(&["array", "get", "tank", "run1", "a"]), "whole.");
}

/// A copy has the names, and so has a snapshot, also of what was removed since.
#[test]
fn names_of_objects_are_copied_and_kept_in_snapshots() {
    let site = Site::with_container();
    let file = site.file("input", b"x");
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    site.ok(&["cont", "snapshot", "create", "tank", "run1", "before"]);
    let files = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &files]);
    site.ok(&["cont", "copy", "tank/run1", &format!("{files}/run1")]);
    site.ok(&["array", "rm", "tank", "run1", "field"]);
    let field = [Some("field".to_owned())];
    assert_eq!(names(&site, &["array", "list", &files, "run1"]), field);
    assert_eq!(names(&site, &["array", "ls", "tank", "run1", "--snapshot", "before"]), field);
    assert!(names(&site, &["object", "list", "tank", "run1"]).is_empty());
    site.ok(&["array", "put", &files, "run1", "other", &file]);
    assert_eq!(names(&site, &["array", "list", &files, "run1"]).len(), 2);
}

/// Containers of files have names of their own.
#[test]
fn no_names_are_recorded_in_containers_of_files() {
    let site = Site::with_container();
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    let before = names(&site, &["object", "list", "tank", "home"]).len();
    site.ok(&["kv", "put", "tank", "home", "index", "key", "value"]);
    let after = names(&site, &["object", "list", "tank", "home"]);
    assert_eq!((after.len(), after.iter().flatten().count()), (before + 1, 0));
    let others = site.json(&["fs", "check", "tank/home"])["leftovers"]["others"].clone();
    assert_eq!(others, json!(1));
}

#[test]
fn empty_names_are_refused() {
    let site = Site::with_container();
    let file = site.file("input", b"x");
    for command in [
        &["kv", "put", "tank", "run1", "", "key", "value"][..],
        &["kv", "list", "tank", "run1", ""],
        &["array", "put", "tank", "run1", "", &file],
        &["object", "rm", "tank", "run1", ""],
    ] {
        assert_eq!(site.fails(command).0, "invalid", "{command:?}");
    }
    assert_eq!(site.json(&["object", "list", "tank", "run1"]), json!([]));
}
