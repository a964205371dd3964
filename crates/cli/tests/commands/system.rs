//! Pools as the system around them has it: file systems for reading only, groups from anywhere, huge pages or none.
use crate::support::mounts::{read_only_with, with_own_mounts};
use crate::support::{Site, noise};
use esker::types::info::OpenMode;
use serde_json::json;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

/// Success and output of a command while the pools are mounted read-only.
fn read_only(site: &Site, command: &str) -> Option<(bool, String)> {
    read_only_with(site, command, |_| {})
}

#[test]
fn a_pool_on_a_file_system_for_reading_only_is_read() {
    let site = Site::with_container();
    let bytes = noise(100_000);
    let large = site.dir.with_extension("large");
    std::fs::write(&large, &bytes).unwrap();
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "value"]);
    site.ok(&["array", "put", "tank", "run1", "field", &large.to_string_lossy()]);
    for state in ["in use since the machine started", "for the first time since then"] {
        let Some(got) = read_only(&site, "kv get tank run1 index key") else { return };
        assert_eq!(got, (true, "value".to_owned()), "{state}");
        let place = large.display();
        let (fine, said) =
            read_only(&site, &format!("array get tank run1 field -o {place}")).unwrap();
        assert!(fine, "{state}: {said}");
        assert!(std::fs::read(&large).unwrap() == bytes, "{state}");
        for command in ["pool query tank", "pool check tank", "pool scrub tank", "cont list tank"] {
            let (fine, said) = read_only(&site, command).unwrap();
            assert!(fine, "{state}, {command}: {said}");
        }
        for command in [
            "kv put tank run1 index key other",
            "cont create tank run2",
            "pool destroy tank --recursive",
            "pool compact tank",
        ] {
            let (fine, said) = read_only(&site, command).unwrap();
            assert!(!fine && said.to_lowercase().contains("read"), "{state}, {command}: {said}");
        }
        let control = std::fs::File::options().write(true).open(site.dir.join("tank/control"));
        control.unwrap().write_all_at(&[0; 8], 8).unwrap();
    }
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "key"]), "value");
    let url = format!("esker:{}", site.dir.join("tank").display());
    let writer = esker::Pool::connect(&url, OpenMode::ReadWrite).unwrap();
    let (fine, said) = read_only(&site, "kv get tank run1 index key").unwrap();
    assert!(!fine && said.contains("in use on a mount that is writable"), "{said}");
    drop(writer);
    std::fs::remove_file(large).unwrap();
}

/// A service that tells of one group of many members.
const SERVICE: &str = r#"
#include <errno.h>
#include <grp.h>
#include <nss.h>
#include <string.h>
enum nss_status _nss_eskertest_getgrnam_r(const char *name, struct group *group, char *room, size_t size, int *error)
{
    if (strcmp(name, "far-away") != 0)
        return NSS_STATUS_NOTFOUND;
    if (size < 200000) {
        *error = ERANGE;
        return NSS_STATUS_TRYAGAIN;
    }
    memset(room, 0, sizeof(char *));
    *group = (struct group){.gr_name = "far-away", .gr_passwd = "x", .gr_gid = GROUP, .gr_mem = (char **)room};
    return NSS_STATUS_SUCCESS;
}
"#;

#[test]
fn groups_are_those_the_system_knows() {
    let site = Site::in_memory();
    let place = site.dir.with_extension("service");
    std::fs::create_dir_all(&place).unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    build_service(&place, if is_root { 1 } else { 0 });
    std::fs::write(place.join("nsswitch.conf"), "group: files eskertest\n").unwrap();
    let create = |group: &str| {
        let script = format!(
            "mount --bind \"$SERVICE/nsswitch.conf\" /etc/nsswitch.conf || exit 99
             exec \"$ESKER\" pool create {group} --size 32M --targets 1 --group {group} 2>&1"
        );
        with_own_mounts(&script, |command| {
            let pools = command.env("ESKER_POOLS", &site.dir).env("SERVICE", &place);
            pools.env("LD_LIBRARY_PATH", &place);
        })
    };
    let Some(made) = create("far-away") else { return };
    let said = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "{said}");
    if is_root {
        assert_eq!(std::fs::metadata(site.dir.join("far-away")).unwrap().gid(), 1);
    }
    let refused = create("unknown").unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stdout).contains("there is no group `unknown`"));
    std::fs::remove_dir_all(place).unwrap();
}

fn build_service(place: &Path, group: u32) {
    let source = place.join("service.c");
    std::fs::write(&source, SERVICE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", &format!("-DGROUP={group}"), "-o"]);
    compiler.arg(place.join("libnss_eskertest.so.2")).arg(source);
    assert!(compiler.status().expect("running cc").success(), "cannot build the service");
}

/// A copy of the pool directory has fewer huge pages. The copied pool works, reports how many it has, and gets all of
/// them by a compaction.
#[test]
fn data_lies_in_huge_pages_if_one_wants_it() {
    if !esker_store::has_huge_pages(Path::new("/dev/shm")).unwrap() {
        return esker_testing::skip("this kernel makes no huge pages of files in memory");
    }
    let site = Site::in_memory();
    let bytes = |answer: serde_json::Value| answer["huge_page_bytes"].as_u64().unwrap();
    let all = bytes(site.json(&["pool", "create", "tank", "--size", "64M", "--huge-pages"]));
    assert!(all > 48 << 20, "{all}");
    assert_eq!(bytes(site.json(&["pool", "query", "tank"])), all);
    site.ok(&["cont", "create", "tank", "run1"]);
    site.ok(&["array", "put", "tank", "run1", "field", &site.file("noise", &noise(3_000_000))]);

    let moved = Site::in_memory();
    let copy = [site.dir.join("tank"), moved.dir.clone()];
    assert!(Command::new("cp").arg("-r").args(copy).status().unwrap().success());
    let before = bytes(moved.json(&["pool", "query", "tank"]));
    assert!(before < all, "{before} of {all}");
    let said = moved.ok(&["pool", "query", "tank"]);
    assert!(said.contains("huge pages") && said.contains("pool compact --huge-pages"), "{said}");
    assert_eq!(bytes(moved.json(&["pool", "compact", "tank", "--huge-pages"])), all);
    let out = moved.dir.join("out").display().to_string();
    moved.ok(&["array", "get", "tank", "run1", "field", "--output", &out]);
    assert!(std::fs::read(out).unwrap() == noise(3_000_000));
    assert_eq!(moved.json(&["pool", "scrub", "tank"])["damaged"], json!([]));
    assert_eq!(moved.json(&["pool", "check", "tank"])["problems"], json!([]));
}

/// Program that runs a command without huge pages, as on a kernel that makes none.
const WITHOUT_HUGE_PAGES: &str = "import ctypes, os, sys
PR_SET_THP_DISABLE = 41
assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_pool_made_where_there_are_no_huge_pages_works_and_says_so() {
    let site = Site::in_memory();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", WITHOUT_HUGE_PAGES, env!("CARGO_BIN_EXE_esker")]).args(arguments);
        command.env("ESKER_POOLS", &site.dir).output().unwrap()
    };
    let ok = |arguments: &[&str]| {
        let done = run(arguments);
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let said = ok(&["pool", "create", "tank", "--size", "64M", "--huge-pages"]);
    assert!(said.contains("huge pages: 0 B of") && said.contains("Linux 6.1"), "{said}");
    // It may find something else that is wrong on this machine.
    let doctor = run(&["doctor"]).stdout;
    assert!(String::from_utf8_lossy(&doctor).contains("not supported for files in memory"));
    ok(&["cont", "create", "tank", "run1"]);
    ok(&["array", "put", "tank", "run1", "field", &site.file("noise", &noise(3_000_000))]);
    let said = ok(&["pool", "compact", "tank", "--huge-pages"]);
    assert!(said.contains("huge pages: 0 B of"), "{said}");
    assert_eq!(site.json(&["pool", "query", "tank"])["huge_page_bytes"], json!(0));
    assert_eq!(site.json(&["pool", "scrub", "tank"])["damaged"], json!([]));
}
