//! How mounts begin, how they end, and what their options change.
use crate::place::{Place, errno, is};
use crate::support::{self, wait_for};
use dfs::Open;
use rustix::io::Errno;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

#[test]
fn every_cache_holds_files() {
    let bytes = support::noise(300_000);
    for cache in ["none", "auto", "writeback"] {
        let Some(place) = Place::mounted(&["--cache", cache, "--threads", "1"]) else { return };
        fs::write(place.at("file"), &bytes).unwrap();
        let mut file = OpenOptions::new().append(true).open(place.at("file")).unwrap();
        file.write_all(b"tail").unwrap();
        drop(file);
        let expected = [&bytes[..], b"tail"].concat();
        assert!(fs::read(place.at("file")).unwrap() == expected, "{cache}");
        place.umount();
        let file = place.direct().root().lookup(b"file").unwrap().open(Open::READ).unwrap();
        let mut read = vec![0; expected.len()];
        assert_eq!(file.read_at(0, &mut read).unwrap(), expected.len());
        assert!(read == expected, "{cache}");
    }
}

#[test]
fn nothing_changes_what_is_read_only() {
    let Some(place) = Place::mounted(&[]) else { return };
    fs::write(place.at("file"), "then").unwrap();
    place.umount();
    place.site.ok(&["cont", "snapshot", "create", "tank", "home", "then"]);
    place.mount(&[]);
    fs::write(place.at("file"), "now").unwrap();
    place.umount();
    for (options, content) in [(&["--snapshot", "then"][..], "then"), (&["--read-only"], "now")] {
        place.mount(options);
        assert_eq!(fs::read_to_string(place.at("file")).unwrap(), content);
        is(fs::write(place.at("file"), "never"), Errno::ROFS);
        is(fs::remove_file(place.at("file")), Errno::ROFS);
        place.umount();
    }
}

#[test]
fn a_mount_in_use_stays_unless_told_otherwise() {
    let Some(place) = Place::mounted(&[]) else { return };
    fs::write(place.at("file"), "content").unwrap();
    let mut open = File::open(place.at("file")).unwrap();
    assert_eq!(place.site.fails(&["umount", place.dir()]).0, "busy");
    assert!(place.is_mounted());
    let server = place.server();
    place.site.ok(&["umount", "--lazy", place.dir()]);
    assert!(!place.is_mounted());
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    drop(open);
    assert_eq!(place.site.fails(&["umount", place.dir()]).0, "not_found");
    wait_for("the end of the server", || {
        fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default().is_empty()
    });
}

#[test]
fn signals_unmount() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let Some(place) = Place::mounted(&[]) else { return };
        fs::write(place.at("file"), "content").unwrap();
        let server = place.server();
        place.signal(signal);
        wait_for("the end of the mount", || !place.is_mounted());
        wait_for("the end of the server", || {
            fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default().is_empty()
        });
        place.mount(&[]);
        assert_eq!(fs::read(place.at("file")).unwrap(), b"content");
        place.umount();
    }
}

#[test]
fn a_killed_server_loses_nothing() {
    let Some(place) = Place::mounted(&[]) else { return };
    fs::write(place.at("file"), "content").unwrap();
    place.signal("-KILL");
    wait_for("the end of the server", || {
        errno(fs::metadata(&place.dir)) == Some(Errno::NOTCONN.raw_os_error())
    });
    let said = place.site.failure(&["mount", "tank/home", place.dir()]);
    assert!(said["error"]["message"].as_str().unwrap().contains("esker umount"), "{said}");
    place.umount();
    place.mount(&[]);
    assert_eq!(fs::read(place.at("file")).unwrap(), b"content");
    place.umount();
    assert_eq!(place.site.json(&["pool", "check", "tank"])["problems"], json!([]));
}

#[test]
fn in_the_foreground_it_ends_with_the_command() {
    let Some(place) = Place::new() else { return };
    let mut command = place.site.command(&["mount", "tank/home", place.dir(), "--foreground"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, format!("esker: tank/home is mounted on {}\n", place.dir()));
    fs::write(place.at("file"), "content").unwrap();
    assert_eq!(place.server(), server.id().to_string());
    place.umount();
    assert!(server.wait().unwrap().success());
}

#[test]
fn what_cannot_be_mounted_is_told() {
    let Some(place) = Place::new() else { return };
    place.site.ok(&["cont", "create", "tank", "objects"]);
    let dir = place.dir();
    let nowhere = format!("{dir}/nowhere");
    let file = place.site.file("file", b"");
    let kind = |arguments: &[&str]| place.site.fails(&[&["mount"], arguments].concat()).0;
    assert_eq!(kind(&["tank", dir]), "invalid");
    assert_eq!(kind(&["tank/none", dir]), "not_found");
    assert_eq!(kind(&["tank/objects", dir]), "invalid");
    assert_eq!(kind(&["tank/home", &nowhere]), "not_found");
    assert_eq!(kind(&["tank/home", &file]), "not_directory");
    assert_eq!(kind(&["tank/home", dir, "--threads", "0"]), "invalid");
    assert_eq!(kind(&["tank/home", dir, "--snapshot", "none"]), "not_found");
    assert_eq!(place.site.fails(&["umount", dir]).0, "not_found");
    let mounted = place.site.json(&["mount", "tank/home", dir]);
    assert_eq!(mounted, json!({"source": "tank/home", "dir": dir}));
}
