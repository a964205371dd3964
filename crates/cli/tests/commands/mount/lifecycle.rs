//! How mounts begin, how they end, and what their options change.
use super::mount_point::{MountPoint, errno, is};
use crate::support::{self, wait_for};
use dfs::Open;
use rustix::io::Errno;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

#[test]
fn every_cache_holds_files() {
    let bytes = support::noise(300_000);
    for cache in ["none", "auto", "writeback"] {
        let Some(point) = MountPoint::mounted(&["--cache", cache, "--threads", "1"]) else {
            return;
        };
        fs::write(point.at("file"), &bytes).unwrap();
        let mut file = OpenOptions::new().append(true).open(point.at("file")).unwrap();
        file.write_all(b"tail").unwrap();
        drop(file);
        let expected = [&bytes[..], b"tail"].concat();
        assert!(fs::read(point.at("file")).unwrap() == expected, "{cache}");
        point.umount();
        let file = point.direct().root().lookup(b"file").unwrap().open(Open::READ).unwrap();
        let mut read = vec![0; expected.len()];
        assert_eq!(file.read_at(0, &mut read).unwrap(), expected.len());
        assert!(read == expected, "{cache}");
    }
}

#[test]
fn second_mount_on_a_directory_is_refused() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    let envelope = point.site.failure(&["mount", "tank/home", point.dir()]);
    assert_eq!(envelope["error"]["kind"], json!("exists"), "{envelope}");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("tank/home is already mounted on"), "{message}");
    assert!(message.contains("`esker umount "), "{message}");
    point.umount();
}

#[test]
fn a_mount_keeps_no_files_of_its_caller_open() {
    let Some(point) = MountPoint::new() else { return };
    let held = point.site.dir.join("held");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 9>\"$1\"; shift; exec \"$@\"", "sh"]).arg(&held);
    shell.arg(env!("CARGO_BIN_EXE_esker")).args(["mount", "tank/home", point.dir()]);
    assert!(shell.env("ESKER_POOLS", &point.site.dir).status().unwrap().success());
    let open = fs::read_dir(format!("/proc/{}/fd", point.server())).unwrap();
    let paths: Vec<_> = open.map(|entry| fs::read_link(entry.unwrap().path())).collect();
    assert!(paths.len() > 3 && !paths.iter().flatten().any(|path| *path == held), "{paths:?}");
    point.umount();
}

#[test]
fn read_only_mounts_refuse_changes() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::write(point.at("file"), "then").unwrap();
    point.umount();
    point.site.ok(&["cont", "snapshot", "create", "tank", "home", "then"]);
    point.mount(&[]);
    fs::write(point.at("file"), "now").unwrap();
    point.umount();
    for (options, content) in [(&["--snapshot", "then"][..], "then"), (&["--read-only"], "now")] {
        point.mount(options);
        assert_eq!(fs::read_to_string(point.at("file")).unwrap(), content);
        is(fs::write(point.at("file"), "never"), Errno::ROFS);
        is(fs::remove_file(point.at("file")), Errno::ROFS);
        point.umount();
    }
}

#[test]
fn a_mount_in_use_stays_unless_told_otherwise() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::write(point.at("file"), "content").unwrap();
    let mut open = File::open(point.at("file")).unwrap();
    assert_eq!(point.site.fails(&["umount", point.dir()]).0, "busy");
    assert!(point.is_mounted());
    let server = point.server();
    point.site.ok(&["umount", "--lazy", point.dir()]);
    assert!(!point.is_mounted());
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "content");
    drop(open);
    assert_eq!(point.site.fails(&["umount", point.dir()]).0, "not_found");
    wait_for("the end of the server", || {
        fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default().is_empty()
    });
}

#[test]
fn signals_unmount() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let Some(point) = MountPoint::mounted(&[]) else { return };
        fs::write(point.at("file"), "content").unwrap();
        let server = point.server();
        point.signal(signal);
        wait_for("the end of the mount", || !point.is_mounted());
        wait_for("the end of the server", || {
            fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default().is_empty()
        });
        point.mount(&[]);
        assert_eq!(fs::read(point.at("file")).unwrap(), b"content");
        point.umount();
    }
}

#[test]
fn a_killed_server_loses_nothing() {
    let Some(point) = MountPoint::mounted(&[]) else { return };
    fs::write(point.at("file"), "content").unwrap();
    point.signal("-KILL");
    wait_for("the end of the server", || {
        errno(fs::metadata(&point.dir)) == Some(Errno::NOTCONN.raw_os_error())
    });
    let said = point.site.failure(&["mount", "tank/home", point.dir()]);
    assert!(said["error"]["message"].as_str().unwrap().contains("esker umount"), "{said}");
    point.umount();
    point.mount(&[]);
    assert_eq!(fs::read(point.at("file")).unwrap(), b"content");
    point.umount();
    assert_eq!(point.site.json(&["pool", "check", "tank"])["problems"], json!([]));
}

#[test]
fn foreground_server_ends_with_its_mount() {
    let Some(point) = MountPoint::new() else { return };
    let mut command = point.site.command(&["mount", "tank/home", point.dir(), "--foreground"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, format!("esker: tank/home is mounted on {}\n", point.dir()));
    fs::write(point.at("file"), "content").unwrap();
    assert_eq!(point.server(), server.id().to_string());
    point.umount();
    assert!(server.wait().unwrap().success());
}

#[test]
fn invalid_mounts_are_refused() {
    let Some(point) = MountPoint::new() else { return };
    point.site.ok(&["cont", "create", "tank", "objects"]);
    let dir = point.dir();
    let nowhere = format!("{dir}/nowhere");
    let file = point.site.file("file", b"");
    let kind = |arguments: &[&str]| point.site.fails(&[&["mount"], arguments].concat()).0;
    assert_eq!(kind(&["tank", dir]), "invalid");
    assert_eq!(kind(&["tank/none", dir]), "not_found");
    assert_eq!(kind(&["tank/objects", dir]), "invalid");
    assert_eq!(kind(&["tank/home", &nowhere]), "not_found");
    assert_eq!(kind(&["tank/home", &file]), "not_directory");
    assert_eq!(kind(&["tank/home", dir, "--threads", "0"]), "invalid");
    assert_eq!(kind(&["tank/home", dir, "--snapshot", "none"]), "not_found");
    assert_eq!(point.site.fails(&["umount", dir]).0, "not_found");
    let mounted = point.site.json(&["mount", "tank/home", dir]);
    assert_eq!(mounted, json!({"source": "tank/home", "dir": dir}));
}
