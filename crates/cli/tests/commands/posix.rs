//! Pools of files on the command line.
use crate::support::{self, Site};
use serde_json::json;

#[test]
fn a_pool_of_files_is_made_used_and_removed() {
    let site = Site::new();
    let url = format!("posix:{}/files", site.dir.display());
    let made = site.json(&["pool", "create", &url]);
    assert_eq!((&made["url"], &made["label"]), (&json!(url), &json!("files")));
    assert_eq!((&made["durability"], &made["size_bytes"]), (&json!("process"), &json!(null)));
    assert_eq!(site.json(&["pool", "list"]), json!([made]));
    for name in ["files", made["uuid"].as_str().unwrap(), &url] {
        assert_eq!(site.json(&["pool", "query", name])["uuid"], made["uuid"]);
    }
    site.ok(&["cont", "create", "files", "run1"]);
    site.ok(&["kv", "put", "files", "run1", "index", "../t2m", "2.1"]);
    assert_eq!(site.ok(&["kv", "get", "files", "run1", "index", "../t2m"]), "2.1");
    assert_eq!(site.json(&["pool", "check", &url])["problems"], json!([]));
    assert_eq!(site.fails(&["pool", "destroy", "files"]).0, "not_empty");
    assert_eq!(site.json(&["pool", "destroy", "--recursive", "files"]), json!({"url": url}));
    assert_eq!(site.json(&["pool", "list"]), json!([]));
}

#[test]
fn an_array_of_files_comes_back() {
    let site = Site::new();
    let url = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &url, "--fsync"]);
    assert_eq!(site.json(&["pool", "query", &url])["durability"], json!("commit"));
    site.ok(&["cont", "create", &url, "run1"]);
    let (from, to) = (site.dir.join("from"), site.dir.join("to"));
    std::fs::write(&from, support::noise(3_000_001)).unwrap();
    site.ok(&["array", "put", &url, "run1", "field", from.to_str().unwrap()]);
    site.ok(&["array", "get", &url, "run1", "field", "-o", to.to_str().unwrap()]);
    assert!(std::fs::read(from).unwrap() == std::fs::read(to).unwrap());
    assert_eq!(site.json(&["array", "stat", &url, "run1", "field"])["cells"], json!(3_000_001));
}

#[test]
fn unsupported_commands_on_posix_pools_are_refused_with_a_reason() {
    let site = Site::new();
    let url = format!("posix:{}/files", site.dir.display());
    let kind = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(kind(&["pool", "create", &url, "--size", "1G"]), "invalid");
    for option in [&["--hosts", "n[1-4]"][..], &["--job"], &["--tls"], &["--lifetime", "1h"]] {
        assert_eq!(kind(&[&["pool", "create", &url][..], option].concat()), "invalid");
    }
    let message = site.message(&["pool", "create", &format!("{url}?fsync=off"), "--fsync"]);
    assert!(message.contains("--fsync contradicts"), "{message}");
    assert!(!site.dir.join("files").exists());
    let below = format!("posix:{}/a/b/files", site.dir.display());
    assert_eq!(kind(&["pool", "create", &below]), "not_found");
    site.ok(&["pool", "create", &url]);
    assert_eq!(kind(&["pool", "create", &url]), "exists");
    site.ok(&["cont", "create", &url, "run1"]);
    assert_eq!(kind(&["cont", "snapshot", "create", &url, "run1", "s"]), "not_supported");
    for command in ["scrub", "compact"] {
        assert_eq!(kind(&["pool", command, &url]), "not_supported");
    }
    assert_eq!(kind(&["pool", "check", &url, "--repair"]), "not_supported");
    assert_eq!(kind(&["pool", "query", "posix:/dev/null/none"]), "not_found");
    assert_eq!(kind(&["pool", "create", "tank"]), "invalid");
}

/// User 65534 may only read the pool. Only root can run a command as that user.
#[test]
fn file_is_copied_out_of_a_pool_that_may_only_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::in_memory();
    let url = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &url]);
    site.ok(&["cont", "create", &url, "home", "--type", "posix"]);
    let (path, out) = (format!("{url}/home:/file"), site.dir.join("out"));
    site.feed(&["fs", "cp", "-", &path], b"content");
    std::fs::create_dir(&out).unwrap();
    for (dir, mode) in [(&site.dir, 0o755), (&out, 0o777)] {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let as_other = |arguments: &[&str]| {
        let program = site.command(arguments);
        let mut other = support::as_user(65534, "--clear-groups");
        other.arg(program.get_program()).args(program.get_args()).current_dir(&out).output()
    };
    if !as_other(&["version"]).is_ok_and(|output| output.status.success()) {
        return esker_testing::skip("this needs to be root, and setpriv");
    }
    let output = as_other(&["fs", "cp", &path, "copy"]).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read(out.join("copy")).unwrap(), b"content");
}

#[test]
fn file_systems_and_fields_are_kept_in_a_pool_of_files() {
    let site = Site::new();
    let url = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &url]);
    site.ok(&["cont", "create", &url, "home", "--type", "posix"]);
    let (tree, back) = (site.dir.join("tree"), site.dir.join("back"));
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    std::fs::write(tree.join("sub/data"), support::noise(3_000_001)).unwrap();
    std::fs::write(tree.join("empty"), b"").unwrap();
    let at = |path: &str| format!("{url}/home:{path}");
    site.ok(&["fs", "import", tree.to_str().unwrap(), &at("/tree")]);
    assert_eq!(site.ok(&["fs", "ls", &at("/tree/sub")]), "data\n");
    site.ok(&["fs", "mv", &at("/tree/sub/data"), &at("/tree/moved")]);
    site.ok(&["fs", "export", &at("/tree/moved"), back.to_str().unwrap()]);
    assert!(std::fs::read(back).unwrap() == support::noise(3_000_001));
    site.ok(&["fs", "check", &format!("{url}/home")]);

    let field = site.file("field", b"data of a field");
    let key =
        "class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=sfc,step=3,param=167";
    let (store, output) = (format!("{url}/fields"), site.dir.join("output"));
    site.ok(&["fields", "archive", "--store", &store, "--key", key, &field]);
    assert!(site.ok(&["fields", "list", "--store", &store]).contains("step=3"));
    let retrieve = ["fields", "retrieve", "--store", &store, key, "-o"];
    site.ok(&[&retrieve[..], &[output.to_str().unwrap()]].concat());
    assert_eq!(std::fs::read(output).unwrap(), b"data of a field");
    assert_eq!(site.json(&["pool", "check", &url])["problems"], json!([]));
}

#[test]
fn damage_is_found_by_a_check() {
    let site = Site::new();
    let url = format!("posix:{}/files", site.dir.display());
    site.ok(&["pool", "create", &url]);
    site.ok(&["cont", "create", &url, "run1"]);
    let uuid = site.json(&["cont", "query", &url, "run1"])["uuid"].as_str().unwrap().to_owned();
    let meta = site.dir.join("files/containers").join(uuid).join("meta");
    let mut bytes = std::fs::read(&meta).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&meta, bytes).unwrap();
    assert_eq!(site.fails(&["pool", "check", &url]).0, "corrupt");
}
