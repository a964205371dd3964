//! The tool on pools on Ceph, on the cluster that a variable names.
use crate::support::{Site, noise};

/// A URL in a namespace of its own; none, with a message, where no cluster is named.
fn url() -> Option<String> {
    let Ok(url) = std::env::var("ESKER_TEST_RADOS") else {
        esker_testing::skip("ESKER_TEST_RADOS names no Ceph pool (make ceph-up prints one)");
        return None;
    };
    let join = if url.contains('?') { '&' } else { '?' };
    let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    Some(format!("{url}{join}namespace=cli-{}-{nanos}", std::process::id()))
}

#[test]
fn a_pool_on_ceph_is_made_once_and_used_like_others() {
    let (site, Some(url)) = (Site::new(), url()) else { return };
    assert_eq!(site.failure(&["cont", "list", &url])["error"]["kind"], "not_found");
    site.ok(&["pool", "create", &url]);
    assert_eq!(site.failure(&["pool", "create", &url])["error"]["kind"], "exists");
    site.ok(&["cont", "create", &url, "run1", "--type", "posix"]);
    site.ok(&["kv", "put", &url, "run1", "index", "t2m", "2.1"]);
    assert_eq!(site.ok(&["kv", "get", &url, "run1", "index", "t2m"]), "2.1");
    let (field, there) = (site.file("field", &noise(3_000_001)), format!("{url}/run1:/field"));
    let back = site.dir.join("back").display().to_string();
    site.ok(&["fs", "import", &field, &there]);
    site.ok(&["fs", "export", &there, &back]);
    assert!(std::fs::read(&back).unwrap() == noise(3_000_001));
    let (path, options) = url.split_once('?').unwrap();
    let one = format!("{path}/run1?{options}");
    assert_eq!(site.ok(&["kv", "get", &one, "index", "t2m"]), "2.1");
    assert_eq!(site.ok(&["fs", "ls", &format!("{one}:/")]).trim(), "field");
    site.ok(&["cont", "destroy", &one]);
}

#[test]
fn unsupported_commands_on_ceph_pools_are_errors() {
    let site = Site::new();
    let error = &site.failure(&["pool", "create", "rados:data", "--size", "1G"])["error"];
    assert_eq!(error["kind"], "invalid");
    for command in [["pool", "destroy", "rados:data"], ["pool", "check", "rados:data"]] {
        let error = &site.failure(&command)["error"];
        assert_eq!(error["kind"], "not_supported");
        assert!(error["message"].as_str().unwrap().contains("cont destroy"), "{error}");
    }
}
