//! `esker fs`: listing, changing, importing and exporting a tree in a container.
use crate::support::{self, Site};
use crate::tree::{make_odd_tree, same_trees};
use esker::types::Extent;
use esker::types::ops::{Cond, Source, Update, Value as Stored};
use esker::{Access, Wait};
use serde_json::{Value, json};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

fn site() -> Site {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "256M", "--targets", "2"]);
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    site
}

/// Recursive listing of a path, sorted.
fn listed(site: &Site, path: &str) -> Vec<String> {
    let mut lines: Vec<_> =
        site.ok(&["fs", "ls", "-aR", path]).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn containers_for_files_are_made_as_daos_makes_them() {
    let site = Site::in_memory();
    site.create_pool();
    let made = site.ok(&[
        "container",
        "create",
        "tank",
        "home",
        "--type=POSIX",
        "--properties",
        "rd_fac:0,ec_cell_sz:128KiB",
        "--oclass",
        "SX",
        "--dir-oclass",
        "S1",
        "--file-oclass",
        "SX",
        "--chunk-size",
        "64KiB",
        "--mode",
        "1777",
    ]);
    let line = made.lines().find(|line| line.contains("UUID")).unwrap();
    let uuid = line.split_whitespace().nth(3).unwrap();
    assert_eq!(site.json(&["cont", "query", "tank", uuid])["label"], json!("home"));
    let root = &site.json(&["fs", "stat", "tank/home:/"])[0];
    assert_eq!((&root["mode"], &root["kind"]), (&json!("1777"), &json!("directory")));
    assert_eq!((&root["class"], &root["chunk_size_bytes"]), (&json!("S1"), &json!(65536)));
    site.ok(&["cont", "create", "tank", "--type", "posix", "--properties", "label:named"]);
    assert_eq!(site.ok(&["fs", "ls", "tank/named"]), "");
    let fails = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(fails(&["cont", "create", "tank", "x", "--chunk-size", "64K"]), "invalid");
    let with = |property| ["cont", "create", "tank", "x", "--properties", property];
    assert_eq!(fails(&with("rd_fac:1")), "not_supported");
    assert_eq!(fails(&with("colour:red")), "not_supported");
    site.ok(&["cont", "create", "tank", "plain"]);
    assert_eq!(fails(&["fs", "ls", "tank/plain:/"]), "invalid");
    assert_eq!(site.run(&["fs", "ls", "nothing"]).status.code(), Some(2));
}

#[test]
fn a_tree_is_made_listed_moved_and_removed() {
    let site = site();
    site.ok(&["fs", "mkdir", "-p", "tank/home:/a/b/c", "tank/home:/a/b"]);
    site.feed(&["fs", "cp", "-", "tank/home:/a/file"], b"some bytes");
    site.ok(&["fs", "ln", "-s", "../file", "tank/home:/a/b/link"]);
    site.ok(&["fs", "touch", "tank/home:/a/.hidden"]);
    assert_eq!(
        listed(&site, "tank/home:"),
        ["a", "a/.hidden", "a/b", "a/b/c", "a/b/link", "a/file"]
    );
    assert_eq!(site.ok(&["fs", "ls", "daos://tank/home/a/b/c"]), "");
    assert!(!site.ok(&["fs", "ls", "tank/home:/a"]).contains("hidden"));
    let long = site.ok(&["fs", "ls", "-l", "tank/home:/a/b"]);
    assert!(long.contains("lrwxrwxrwx") && long.contains("link -> ../file"), "{long}");
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/a/b/link"]), "some bytes");
    let part = ["fs", "cat", "--offset", "5", "--length", "3", "tank/home:/a/file"];
    assert_eq!(site.ok(&part), "byt");
    site.ok(&["fs", "mv", "tank/home:/a/file", "tank/home:/a/b/c"]);
    site.ok(&["fs", "mv", "-T", "tank/home:/a/b/c/file", "tank/home:/moved"]);
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/moved"]), "some bytes");
    let fails = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(fails(&["fs", "mv", "-n", "tank/home:/moved", "tank/home:/a/.hidden"]), "exists");
    assert_eq!(fails(&["fs", "ls", "tank/home:/a/b/link"]), "not_found");
    assert_eq!(fails(&["fs", "rm", "tank/home:/a"]), "is_directory");
    assert_eq!(fails(&["fs", "rm", "-d", "tank/home:/a"]), "not_empty");
    assert_eq!(fails(&["fs", "ln", "a", "tank/home:/hard"]), "not_supported");
    assert_eq!(fails(&["fs", "mkdir", "tank/home:/a"]), "exists");
    assert_eq!(fails(&["fs", "mkdir", "-p", "tank/home:/moved/x"]), "not_directory");
    site.ok(&["fs", "rm", "-r", "tank/home:/a"]);
    assert_eq!(fails(&["fs", "rm", "tank/home:/a"]), "not_found");
    site.ok(&["fs", "rm", "-f", "tank/home:/a", "tank/home:/moved"]);
    assert_eq!(listed(&site, "tank/home:/"), Vec::<String>::new());
    assert_eq!(site.json(&["fs", "check", "tank/home"])["leftovers"]["files"], json!(0));
}

#[test]
fn check_says_whether_it_read_the_data() {
    let site = site();
    let bytes = support::noise(100_000);
    site.feed(&["fs", "cp", "-", "tank/home:/file"], &bytes);
    for target in ["target-0", "target-1"] {
        let data = site.dir.join("tank").join(target).join("data");
        let stored = std::fs::read(&data).unwrap();
        let found = stored.windows(64).position(|found| *found == bytes[..64]);
        if let Some(at) = found {
            let file = std::fs::File::options().write(true).open(data).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0xee], at as u64).unwrap();
        }
    }
    let said = site.ok(&["fs", "check", "tank/home"]);
    assert!(said.contains("file data was not read"), "{said}");
    assert_eq!(site.json(&["fs", "check", "tank/home"])["data_read"], json!(false));
    assert_eq!(site.fails(&["fs", "check", "tank/home", "--data"]).0, "corrupt");
    site.ok(&["fs", "rm", "tank/home:/file"]);
    let said = site.ok(&["fs", "check", "tank/home", "--data"]);
    assert!(said.contains("no damage; all data was read"), "{said}");
}

#[test]
fn modes_and_sizes_are_shown_and_summed_up() {
    let site = site();
    site.ok(&["fs", "mkdir", "-m", "700", "tank/home:/d"]);
    site.feed(&["fs", "cp", "-", "tank/home:/d/large"], &support::noise(3 << 20));
    site.feed(&["fs", "cp", "-", "tank/home:/d/small"], b"12345");
    site.ok(&["fs", "chmod", "640", "tank/home:/d/small"]);
    site.ok(&["fs", "chmod", "-R", "go+rX", "tank/home:/d"]);
    let stat = |path: &str| site.json(&["fs", "stat", path])[0].clone();
    assert_eq!(stat("tank/home:/d")["mode"], json!("0755"));
    let small = stat("tank/home:/d/small");
    assert_eq!((&small["mode"], &small["size_bytes"]), (&json!("0644"), &json!(5)));
    let sum = &site.json(&["fs", "du", "-s", "tank/home:/"])[0];
    assert_eq!((&sum["size_bytes"], &sum["files"]), (&json!((3 << 20) + 5), &json!(2)));
    let text = site.ok(&["fs", "du", "-ah", "tank/home:/"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[3].starts_with("3.00 MiB") && lines[3].ends_with("tank/home:/"), "{text}");
    let df = &site.json(&["fs", "df", "tank/home"])[0];
    assert!(df["free_bytes"].as_u64() < df["total_bytes"].as_u64(), "{df}");
}

#[test]
fn totals_of_sparse_files_end_at_the_largest_number() {
    let site = site();
    let url = format!("esker:{}", site.dir.join("tank").display());
    let fs = dfs::Dfs::open(&url, "home", dfs::MountOptions::default()).unwrap();
    for name in [b"a", b"b", b"c"] {
        let node = fs.root().create(name, &dfs::Create::with_mode(0o644)).unwrap();
        let file = node.open(dfs::Open::BOTH).unwrap();
        file.set_len(dfs::limits::FILE_SIZE_MAX).unwrap();
    }
    let sum = &site.json(&["fs", "du", "-s", "tank/home:/"])[0];
    assert_eq!((&sum["size_bytes"], &sum["files"]), (&json!(u64::MAX), &json!(3)));
    let report = site.json(&["fs", "check", "tank/home", "--data"]);
    assert_eq!((&report["size_bytes"], &report["files"]), (&json!(u64::MAX), &json!(3)));
}

#[test]
fn find_applies_its_tests() {
    let site = site();
    site.ok(&["fs", "mkdir", "-p", "tank/home:/out/2026", "tank/home:/empty"]);
    for (name, len) in [("a.grib", 2000), ("b.GRIB", 10), ("c.txt", 0)] {
        let path = format!("tank/home:/out/2026/{name}");
        site.feed(&["fs", "cp", "-", &path], &support::noise(len));
    }
    let find = |tests: &[&str]| {
        let text = site.ok(&[&["fs", "find", "tank/home:/"], tests].concat());
        let mut names: Vec<_> =
            text.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(find(&["-name", "*.grib"]), "a.grib");
    assert_eq!(find(&["--iname", "*.grib"]), "a.grib b.GRIB");
    assert_eq!(find(&["-type", "f", "!", "-name", "*.txt"]), "a.grib b.GRIB");
    assert_eq!(find(&["-size", "+1k"]), "a.grib");
    assert_eq!(find(&["-size", "-2"]), " 2026 b.GRIB c.txt empty out");
    assert_eq!(find(&["-empty"]), "c.txt empty");
    assert_eq!(find(&["-maxdepth", "1", "-mindepth", "1", "-type", "d"]), "empty out");
    assert_eq!(find(&["-path", "/out/*6/*t"]), "c.txt");
    assert_eq!(find(&["-newer", "tank/home:/out/2026/a.grib", "-name", "b*"]), "b.GRIB");
    assert_eq!(find(&["-mmin", "-5", "-type", "d"]), " 2026 empty out");
    let zeros = site.ok(&["fs", "find", "tank/home:/", "-name", "?.txt", "-print0"]);
    assert_eq!(zeros, "tank/home:/out/2026/c.txt\0");
    let found = site.json(&["fs", "find", "tank/home:/out", "-name", "a*"]);
    assert_eq!(found[0]["path"], json!({"text": "/out/2026/a.grib"}));
    assert_eq!(site.fails(&["fs", "find", "tank/home:/", "-colour", "red"]).0, "invalid");
    assert_eq!(site.fails(&["fs", "find", "tank/home:/", "-not"]).0, "invalid");
    let pathless = site.message(&["fs", "find", "-name", "x"]);
    assert!(pathless.contains("no path to search"), "{pathless}");
}

#[test]
fn cp_copies_within_and_between() {
    let site = site();
    site.ok(&["cont", "create", "tank", "other", "--type", "posix"]);
    let host = site.file("host file", b"from the host");
    site.ok(&["fs", "cp", &host, "tank/home:/"]);
    site.ok(&["fs", "mkdir", "tank/home:/d"]);
    site.ok(&["fs", "cp", "tank/home:/host file", &host, "tank/home:/d"]);
    site.ok(&["fs", "cp", "tank/home:/host file", "tank/home:/d/second"]);
    site.ok(&["fs", "cp", "-r", "tank/home:/d", "tank/other:/new"]);
    site.ok(&["fs", "cp", "-r", "tank/home:/d", "tank/other:/new"]);
    assert_eq!(
        listed(&site, "tank/other:/"),
        ["new", "new/d", "new/d/host file", "new/d/second", "new/host file", "new/second"]
    );
    let back = site.dir.join("back");
    site.ok(&["fs", "cp", "-r", "tank/other:/new", back.to_str().unwrap()]);
    assert_eq!(std::fs::read(back.join("d/second")).unwrap(), b"from the host");
    // A root has no name, so its entries are copied.
    site.ok(&["cont", "create", "tank", "third", "--type", "posix"]);
    site.ok(&["fs", "cp", "-r", "tank/home:/d", "tank/third:/"]);
    site.ok(&["cont", "create", "tank", "fourth", "--type", "posix"]);
    site.ok(&["fs", "cp", "-r", "tank/third:/", "tank/fourth:/"]);
    assert_eq!(listed(&site, "tank/fourth:/"), ["d", "d/host file", "d/second"]);
    site.ok(&["fs", "cp", "-r", "tank/third:/", back.to_str().unwrap()]);
    assert_eq!(std::fs::read(back.join("d/host file")).unwrap(), b"from the host");
    let fails = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(fails(&["fs", "cp", "-r", "tank/home:/", "tank/home:/"]), "invalid");
    assert_eq!(fails(&["fs", "cp", "tank/home:/d", "tank/home:/e"]), "is_directory");
    assert_eq!(fails(&["fs", "cp", "-r", "tank/home:/d", "tank/home:/d/e"]), "invalid");
    assert_eq!(fails(&["fs", "cp", "tank/home:/d/second", "tank/home:/d/second"]), "invalid");
    assert_eq!(fails(&["fs", "cp", &host, &host]), "invalid");
    assert_eq!(fails(&["fs", "cp", &host, &host, "tank/home:/none"]), "not_directory");
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/d/second"]), "from the host");
}

#[test]
fn odd_trees_come_in_and_out_as_they_were() {
    let site = site();
    let (from, to) = (site.dir.join("from"), site.dir.join("to"));
    make_odd_tree(&from);
    let import = ["fs", "import", from.to_str().unwrap(), "tank/home:/in/side", "--verify"];
    let first = site.json(&import);
    assert_eq!(first["failed"], json!(0), "{first}");
    let export = ["fs", "export", "tank/home:/in/side", to.to_str().unwrap(), "--verify"];
    let out = site.json(&export);
    assert_eq!((&out["failed"], &out["files"]), (&json!(0), &first["files"]), "{out}");
    same_trees(&from, &to);
    let sparse = to.join("sparse").metadata().unwrap();
    assert!(sparse.blocks() * 512 < sparse.len() / 2, "{} blocks", sparse.blocks());
    // All of it is there already.
    for again in [&import[..4], &import, &export[..4], &export] {
        let again = site.json(again);
        assert_eq!((&again["files"], &again["failed"]), (&json!(0), &json!(0)), "{again}");
        let skipped = first["files"].as_u64().unwrap() + first["links"].as_u64().unwrap();
        assert_eq!(again["skipped"], json!(skipped));
    }
    same_trees(&from, &to);
    assert_eq!(site.json(&["fs", "check", "tank/home", "--data"])["damaged"], json!(0));
}

#[test]
fn import_copies_again_files_that_changed_on_either_side() {
    let site = site();
    let from = site.dir.join("from");
    std::fs::create_dir(&from).unwrap();
    for name in ["stays", "grows", "is cut there"] {
        std::fs::write(from.join(name), name).unwrap();
    }
    let import = ["fs", "import", from.to_str().unwrap(), "tank/home:/"];
    assert_eq!(site.json(&import)["files"], json!(3));
    std::fs::write(from.join("grows"), "longer than it was").unwrap();
    site.feed(&["fs", "cp", "-", "tank/home:/is cut there"], b"is");
    let again = site.json(&import);
    assert_eq!((&again["files"], &again["skipped"]), (&json!(2), &json!(1)));
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/is cut there"]), "is cut there");
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/grows"]), "longer than it was");
    assert_eq!(site.json(&[&import[..], &["--again"]].concat())["files"], json!(3));
}

#[test]
fn import_lists_unsupported_files_and_copies_the_rest() {
    let site = site();
    let from = site.dir.join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("fine"), "fine").unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, from.join("pipe"), pipe, mode, 0).unwrap();
    let output = site.run(&["fs", "import", from.to_str().unwrap(), "tank/home:/x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("pipe: is a device"));
    let envelope = site.failure(&["fs", "import", from.to_str().unwrap(), "tank/home:/x"]);
    let response = &envelope["response"];
    assert_eq!((&response["failed"], &response["skipped"]), (&json!(1), &json!(1)));
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/x/fine"]), "fine");
    assert_eq!(site.fails(&["fs", "import", "/no/such/place", "tank/home:/y"]).0, "not_found");
}

#[test]
fn full_pool_stops_an_import_without_damage() {
    let site = Site::in_memory();
    site.create_pool();
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    let from = site.dir.join("from");
    std::fs::create_dir(&from).unwrap();
    for number in 0..8 {
        std::fs::write(from.join(format!("file {number}")), support::noise(8 << 20)).unwrap();
    }
    let envelope = site.failure(&["fs", "import", from.to_str().unwrap(), "tank/home:/x"]);
    assert_eq!(envelope["error"]["kind"], json!("no_space"), "{envelope}");
    assert_eq!(site.json(&["fs", "check", "tank/home", "--data"])["damaged"], json!(0));
}

/// A failed copy leaves neither a file of full size with holes, nor the beginning of a file.
#[test]
fn failed_copy_leaves_no_incomplete_file() {
    let site = Site::in_memory();
    site.create_pool();
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    site.ok(&["fs", "cp", &site.file("small", b"small"), "tank/home:/"]);
    let large = site.file("large", &support::noise(100 << 20));
    let sparse = std::fs::File::options().write(true).open(&large).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for command in [["import", &large, "tank/home:/large"], ["cp", &large, "tank/home:/large"]] {
        assert_eq!(site.fails(&[&["fs"], &command[..]].concat()).0, "no_space", "{command:?}");
        assert_eq!(listed(&site, "tank/home:/"), ["small"], "{command:?}");
    }
    let mut command = site.command(&["fs", "cp", "-", "tank/home:/large"]);
    let output = command.stdin(std::fs::File::open(&large).unwrap()).output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(listed(&site, "tank/home:/"), ["small"]);
    let free = site.json(&["fs", "check", "tank/home", "--data"]);
    assert_eq!(free["damaged"], json!(0));
}

#[test]
fn killed_import_is_resumed() {
    let site = site();
    let (from, to) = (site.dir.join("from"), site.dir.join("to"));
    for dir in 0..20 {
        let dir = from.join(format!("dir {dir}"));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..100usize {
            std::fs::write(dir.join(format!("{file}")), support::noise(file * 100)).unwrap();
        }
    }
    std::fs::write(from.join("large"), support::noise(40 << 20)).unwrap();
    let import = ["fs", "import", from.to_str().unwrap(), "tank/home:/x"];
    let mut left = 2001;
    for delay_ms in [5, 20, 40, 60, 80, 100] {
        let mut process = site.command(&import).spawn().unwrap();
        esker_testing::pause(delay_ms * 1000);
        process.kill().unwrap();
        process.wait().unwrap();
        let check = site.json(&["fs", "check", "tank/home", "--data"]);
        assert_eq!(check["damaged"], json!(0), "{check}");
    }
    let last = site.json(&import);
    left -= last["skipped"].as_u64().unwrap();
    assert_eq!((&last["files"], &last["failed"]), (&json!(left), &json!(0)), "{last}");
    site.ok(&["fs", "export", "tank/home:/x", to.to_str().unwrap(), "--verify"]);
    same_trees(&from, &to);
    site.ok(&["fs", "check", "tank/home", "--repair"]);
    let check = site.json(&["fs", "check", "tank/home"]);
    assert_eq!(check["leftovers"]["files"], json!(0), "{check}");
}

#[test]
fn killed_export_is_resumed() {
    let site = site();
    let (from, to) = (site.dir.join("from"), site.dir.join("to"));
    make_odd_tree(&from);
    std::fs::write(from.join("large"), support::noise(60 << 20)).unwrap();
    site.ok(&["fs", "import", from.to_str().unwrap(), "tank/home:/x"]);
    let export = ["fs", "export", "tank/home:/x", to.to_str().unwrap()];
    for delay_ms in [5, 20, 40, 60] {
        let mut process = site.command(&export).spawn().unwrap();
        esker_testing::pause(delay_ms * 1000);
        process.kill().unwrap();
        process.wait().unwrap();
        // A file has its name only once it is complete.
        if let Ok(large) = std::fs::read(to.join("large")) {
            assert!(large == support::noise(60 << 20), "{} bytes", large.len());
        }
    }
    site.ok(&export);
    same_trees(&from, &to);
}

/// An existing file stays as it is until its replacement is complete; its mode, its owner and its other names stay.
#[test]
fn replaced_file_is_never_partial() {
    let site = Site::in_memory();
    site.create_pool();
    site.ok(&["cont", "create", "tank", "run1"]);
    let (out, bytes) = (site.file("out", b"old"), support::noise(100_000));
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o640)).unwrap();
    let file = site.file("input", &bytes);
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    site.ok(&["array", "get", "tank", "run1", "field", "-o", &out]);
    assert!(std::fs::read(&out).unwrap() == bytes && mode(Path::new(&out)) == 0o640);
    // The chunk is damaged, so that the command fails in the middle.
    for target in ["target-0", "target-1"] {
        let data = site.dir.join("tank").join(target).join("data");
        let mut content = std::fs::read(&data).unwrap();
        let places = content.windows(64).position(|found| found == &bytes[50_000..50_064]);
        if let Some(at) = places {
            content[at] ^= 1;
            std::fs::write(&data, content).unwrap();
        }
    }
    assert_eq!(site.fails(&["array", "get", "tank", "run1", "field", "-o", &out]).0, "checksum");
    assert!(std::fs::read(&out).unwrap() == bytes);
    let new = site.dir.join("new").display().to_string();
    assert_eq!(site.fails(&["array", "get", "tank", "run1", "field", "-o", &new]).0, "checksum");
    assert!(!Path::new(&new).exists());
    assert_eq!(support::left(&site, &["tank", "out", "input"]).len(), 0);
}

/// A command continues if no process reads its standard error.
#[test]
fn import_continues_if_standard_error_is_closed() {
    let site = site();
    let from = site.dir.join("from");
    std::fs::create_dir(&from).unwrap();
    for number in 0..200 {
        let pipe = from.join(format!("pipe {number}"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        std::fs::write(from.join(format!("{number}")), "x").unwrap();
    }
    let program = site.command(&["fs", "import", from.to_str().unwrap(), "tank/home:/x"]);
    let script = "\"$@\" 2>&1 | true; echo ${PIPESTATUS[0]}";
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", script, "bash"]).arg(program.get_program()).args(program.get_args());
    let done = shell.env("ESKER_POOLS", &site.dir).output().unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap().trim(), "1", "not the status of a panic");
    assert_eq!(site.ok(&["fs", "ls", "tank/home:/x"]).lines().count(), 200);
}

#[test]
fn names_that_are_not_utf8_are_hexadecimal_in_json() {
    let site = site();
    let odd = std::ffi::OsStr::from_bytes(b"tank/home:/odd\n\xff");
    let mut command = site.command(&["fs", "mkdir"]);
    assert!(command.arg(odd).status().unwrap().success());
    let listed = site.run(&["fs", "ls", "tank/home:/"]);
    assert_eq!(listed.stdout, b"odd\n\xff\n");
    let found = site.json(&["fs", "ls", "tank/home:/"]);
    assert_eq!(found[0]["path"], json!({"hex": "2f6f64640aff"}));
}

/// Permission bits of a file of the host.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

#[test]
fn cp_keeps_what_it_is_told_to_keep() {
    let site = site();
    let host = site.file("host", b"x");
    std::fs::set_permissions(&host, PermissionsExt::from_mode(0o640)).unwrap();
    let old = Path::new(&host);
    let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    std::fs::File::options().write(true).open(old).unwrap().set_times(times).unwrap();
    site.ok(&["fs", "cp", &host, "tank/home:/plain"]);
    site.ok(&["fs", "cp", "-p", &host, "tank/home:/kept"]);
    let mtime = |path: &str| site.json(&["fs", "stat", path])[0]["mtime"].clone();
    assert_eq!(mtime("tank/home:/kept"), json!("1970-01-01T00:00:00.000000000Z"));
    assert_ne!(mtime("tank/home:/plain"), mtime("tank/home:/kept"));
    let out = site.dir.join("out");
    site.ok(&["fs", "cp", "-a", "tank/home:/kept", out.to_str().unwrap()]);
    assert_eq!((mode(&out), out.metadata().unwrap().mtime()), (0o640, 0));
    assert_ne!(site.json(&["fs", "stat", "tank/home:/kept"])[0], Value::Null);
}

#[test]
fn removal_of_a_tree_on_a_durable_pool_takes_few_syncs() {
    let site = Site::in_memory();
    let create = ["pool", "create", "tank", "--size", "256M", "--targets", "2"];
    site.ok(&[&create[..], &["--durability", "commit"]].concat());
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    let tree = site.dir.join("tree");
    for number in 0..200 {
        let dir = tree.join(format!("deep/{}", number % 4));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("file {number}")), b"content").unwrap();
    }
    std::fs::write(tree.join("large"), support::noise(5 << 20)).unwrap();
    site.ok(&["fs", "cp", "-r", tree.to_str().unwrap(), "tank/home:/"]);
    assert_eq!(listed(&site, "tank/home:/tree").len(), 206);
    let free =
        || site.json(&["pool", "query", "tank"])["space"]["data_free_bytes"].as_u64().unwrap();
    let before = free();
    let syncs = support::count_syncs(&site, &["fs", "rm", "-r", "tank/home:/tree"]);
    assert!((5..100).contains(&syncs), "{syncs} syncs for 206 entries");
    assert_eq!(site.ok(&["fs", "ls", "-a", "tank/home:"]), "");
    assert!(free() >= before + (5 << 20), "the contents are freed");
    assert!(site.ok(&["fs", "check", "tank/home"]).contains("no damage"));
}

/// The first containers of two pools have the same number, and their roots the same object ID.
#[test]
fn files_are_copied_between_pools() {
    let site = site();
    site.ok(&["pool", "create", "backup", "--size", "64M", "--targets", "1"]);
    site.ok(&["cont", "create", "backup", "home", "--type", "posix"]);
    site.feed(&["fs", "cp", "-", "tank/home:/file"], b"some bytes");
    site.ok(&["fs", "cp", "-r", "tank/home:/", "backup/home:/copy"]);
    site.ok(&["fs", "cp", "tank/home:/file", "backup/home:/file"]);
    site.ok(&["fs", "cp", "tank/home:/file", "backup/home:/file"]);
    assert_eq!(site.ok(&["fs", "cat", "backup/home:/copy/file"]), "some bytes");
    let fails = |source, dest| site.fails(&["fs", "cp", "-r", source, dest]).0;
    assert_eq!(fails("tank/home:/", "tank/home:/copy"), "invalid");
    assert_eq!(fails("tank/home:/file", "tank/home:/file"), "invalid");
}

#[test]
fn standard_input_replaces_a_symbolic_link() {
    let site = site();
    site.feed(&["fs", "cp", "-", "tank/home:/file"], b"a file");
    site.ok(&["fs", "ln", "-s", "file", "tank/home:/link"]);
    site.feed(&["fs", "cp", "-", "tank/home:/link"], b"new");
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/link"]), "new");
    assert_eq!(site.ok(&["fs", "cat", "tank/home:/file"]), "a file");
}

/// A reader that looks for the link all the time always finds a file or a link.
#[test]
fn links_are_replaced_atomically() {
    let site = site();
    site.feed(&["fs", "cp", "-", "tank/home:/current"], b"a file");
    let pool = format!("esker:{}/tank", site.dir.display());
    let fs = dfs::Dfs::open(&pool, "home", dfs::MountOptions::default()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                fs.root().lookup(b"current").unwrap();
            }
        });
        let link = |target| site.run(&["fs", "ln", "-sf", target, "tank/home:/current"]);
        let outputs = ["run1", "run2", "run3", "run4", "run5"].map(link);
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        assert!(outputs.iter().all(|output| output.status.success()), "{outputs:?}");
    });
    assert_eq!(fs.root().lookup(b"current").unwrap().read_link().unwrap(), b"run5");
    assert_eq!(listed(&site, "tank/home:/"), ["current"]);
    site.ok(&["fs", "mkdir", "tank/home:/dir"]);
    assert_eq!(site.fails(&["fs", "ln", "-sf", "run6", "tank/home:/dir"]).0, "is_directory");
    assert_eq!(listed(&site, "tank/home:/").len(), 2);
}

/// Commands over a tree report a directory that cannot be listed, and continue with the others.
#[test]
fn walks_continue_after_a_damaged_directory() {
    let site = site();
    for dir in ["a", "b", "c"] {
        site.ok(&["fs", "mkdir", &format!("tank/home:/{dir}")]);
        site.feed(&["fs", "cp", "-", &format!("tank/home:/{dir}/file")], b"some bytes");
    }
    damage_entry(&site, b"/b", b"file");
    for (command, found) in [
        (&["find"][..], &["/a/file\n", "/c/file\n"][..]),
        (&["ls", "-R"], &["a/file\n", "c/file\n"]),
        (&["du"], &["/a\n", "/c\n"]),
        (&["chmod", "-R", "600"], &[]),
    ] {
        let output = site.run(&[&["fs"], command, &["tank/home:/"]].concat());
        let (told, said) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        let (told, said) = (told.unwrap(), said.unwrap());
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("tank/home:/b: ") && said.contains("failed: 1 entry"), "{said}");
        assert!(found.iter().all(|line| told.contains(line)), "{command:?}: {told}");
    }
    for file in ["tank/home:/a/file", "tank/home:/c/file"] {
        assert_eq!(site.json(&["fs", "stat", file])[0]["mode"], json!("0600"));
    }
}

/// Overwrites the inode of an entry with zeros.
fn damage_entry(site: &Site, dir: &[u8], name: &[u8]) {
    let pool = format!("esker:{}/tank", site.dir.display());
    let fs = dfs::Dfs::open(&pool, "home", dfs::MountOptions::default()).unwrap();
    let dir = fs.resolve(&fs.root(), dir, dfs::Follow::All).unwrap();
    let extents = [Extent::new(0, 88)];
    let data = Source::One(&[0; 88]);
    let value = Stored::Array { record_size: 1, extents: &extents, data };
    let update = [Update { akey: b"DFS_INODE", value, cond: Cond::NONE }];
    let object = fs.container().object(dir.oid());
    object.update(name, Cond::NONE, &update, Access::Latest).wait().unwrap();
}

/// A reader that has read enough is not an error, as with `cat` of the host.
#[test]
fn readers_of_data_may_end_early() {
    let site = site();
    site.feed(&["fs", "cp", "-", "tank/home:/file"], &support::noise(1 << 20));
    let mut cat = site.command(&["fs", "cat", "tank/home:/file"]);
    let mut cat = cat.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0];
    cat.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = cat.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
