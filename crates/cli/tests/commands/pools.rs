//! `esker pool`, and its exit status where something is wrong.
use crate::support::{self, Site, left, noise};
use serde_json::json;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

#[test]
fn a_pool_is_made_found_and_removed() {
    let site = Site::new();
    assert_eq!(site.ok(&["pool", "list"]), "");
    let made = site.json(&["pool", "create", "tank", "--size", "32MiB", "--targets", "2"]);
    assert_eq!((&made["label"], &made["targets"]), (&json!("tank"), &json!(2)));
    assert!(made["size_bytes"].as_u64().unwrap() <= 32 << 20);
    assert_eq!(site.json(&["pool", "list"]), json!([made]));
    let uuid = made["uuid"].as_str().unwrap();
    assert!(!site.ok(&["pool", "list"]).contains(uuid));
    assert!(site.ok(&["pool", "list", "--verbose"]).contains(uuid));

    let url = made["url"].as_str().unwrap();
    for name in ["tank", made["uuid"].as_str().unwrap(), url] {
        let info = site.json(&["pool", "query", name]);
        assert_eq!((&info["uuid"], &info["url"]), (&made["uuid"], &made["url"]));
        assert_eq!(
            (&info["containers"], info["targets"].as_array().unwrap().len()),
            (&json!(0), 2)
        );
    }
    assert!(site.ok(&["pool", "query", "tank"]).contains("free"));
    assert_eq!(site.json(&["pool", "destroy", "tank"]), json!({"url": url}));
    assert_eq!(site.json(&["pool", "list"]), json!([]));
}

#[test]
fn a_pool_in_another_directory_is_found_by_its_url() {
    let (site, other) = (Site::new(), Site::new());
    let dir = other.dir.display().to_string();
    let said = site.ok(&["pool", "create", "--label", "tank", "--size", "32M", "--dir", &dir]);
    assert!(said.contains("use it as esker:"), "{said}");
    assert_eq!(site.json(&["pool", "list"]), json!([]));
    site.ok(&["pool", "query", &format!("esker:{dir}/tank")]);
    assert_eq!(site.fails(&["pool", "query", "tank"]), ("not_found".to_owned(), -1005));
}

/// A mistyped directory is not made: only its last component may be missing.
#[test]
fn directories_above_a_pool_are_made_with_parents_only() {
    let site = Site::new();
    let dir = site.dir.join("mnt/nvme-tpyo").display().to_string();
    let create = ["pool", "create", "tank", "--size", "32M", "--dir", &dir];
    let message = site.message(&create);
    assert!(message.contains("mnt:") && message.contains("--parents"), "{message}");
    assert!(left(&site, &[]).is_empty());
    site.ok(&[&create[..], &["--parents"]].concat());
    let (below, other) = (format!("{dir}/one"), format!("posix:{dir}/two/files"));
    site.ok(&["pool", "create", "tank", "--size", "32M", "--dir", &below]);
    site.ok(&["pool", "create", &other]);
    let deep = format!("posix:{dir}/three/four/files");
    assert_eq!(site.fails(&["pool", "create", &deep]).0, "not_found");
    site.ok(&["pool", "create", &deep, "--parents"]);
}

#[test]
fn a_pool_with_containers_is_destroyed_with_recursive_only() {
    let site = Site::with_container();
    let message = site.message(&["pool", "destroy", "tank"]);
    assert!(message.contains("(run1)") && message.contains("--recursive"), "{message}");
    for label in ["a", "b", "c"] {
        site.ok(&["cont", "create", "tank", label]);
    }
    let message = site.message(&["pool", "destroy", "tank"]);
    assert!(message.contains("4 containers") && message.contains(", ...)"), "{message}");
    site.ok(&["pool", "query", "tank"]);
    site.ok(&["pool", "destroy", "tank", "--recursive"]);
    assert_eq!(site.json(&["pool", "list"]), json!([]));
}

#[test]
fn a_terminal_is_asked_before_something_is_destroyed() {
    let site = Site::with_container();
    let cont = ["cont", "destroy", "tank", "run1"];
    let pool = ["pool", "destroy", "tank"];
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "value"]);
    for command in [&cont[..], &pool[..]] {
        for typed in ["n\n", "\n", "\u{4}"] {
            let (done, said) = site.on_terminal(command, typed);
            assert!(!done && said.contains("run1") && said.contains("[y/N]"), "{typed:?}: {said}");
            assert!(said.contains("nothing was destroyed"), "{said}");
        }
    }
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "key"]), "value");
    let (done, said) = site.on_terminal(&cont, "y\n");
    assert!(done && said.contains("destroyed container run1"), "{said}");
    site.ok(&["cont", "create", "tank", "run1"]);
    let (done, said) = site.on_terminal(&cont, "");
    assert!(done && !said.contains("[y/N]"), "an empty container: {said}");
    site.ok(&["cont", "create", "tank", "run1"]);
    let (done, said) = site.on_terminal(&[&pool[..], &["--recursive"]].concat(), "");
    assert!(done && !said.contains("[y/N]"), "{said}");
}

#[test]
fn options_of_a_pool_reach_it() {
    let site = Site::new();
    let options = ["--durability", "process", "--guarded", "--index-percent", "30"];
    let base =
        ["pool", "create", "tank", "--size", "64M", "--targets", "3", "--segment-size", "2M"];
    let made = site.json(&[&base[..], &options[..]].concat());
    assert_eq!((&made["durability"], &made["targets"]), (&json!("process"), &json!(3)));
    let space = &site.json(&["pool", "query", "tank"])["space"];
    let number = |name: &str| space[name].as_u64().unwrap();
    assert!(number("index_total_bytes") > 18 << 20);
    assert_eq!(number("data_total_bytes") % (3 * (2 << 20)), 0);
}

/// The target that is full first is named, in words and for programs.
#[test]
fn a_query_names_the_fullest_target() {
    let site = Site::with_container();
    let value = "x".repeat(100_000);
    for key in 0..6 {
        site.ok(&["kv", "put", "tank", "run1", "index", &format!("key{key}"), &value]);
        let info = site.json(&["pool", "query", "tank"]);
        let free = |target: &serde_json::Value| target["data_free_bytes"].as_u64().unwrap();
        let free: Vec<_> = info["targets"].as_array().unwrap().iter().map(free).collect();
        let fullest = info["fullest"].as_u64().unwrap() as usize;
        assert_eq!(free[fullest], *free.iter().min().unwrap(), "{free:?}");
        let said = site.ok(&["pool", "query", "tank"]);
        assert!(said.contains(&format!("fullest     target {fullest}, which has ")), "{said}");
        assert!(free[0] != free[1] || key > 0, "{free:?}");
    }
}

#[test]
fn invalid_pools_are_refused_with_a_reason() {
    let site = Site::new();
    site.create_pool();
    let kind = |arguments: &[&str]| site.fails(arguments).0;
    assert_eq!(kind(&["pool", "create", "tank", "--size", "32M"]), "exists");
    assert_eq!(kind(&["pool", "create", "tiny", "--size", "1K"]), "invalid");
    assert_eq!(kind(&["pool", "create", "no/label", "--size", "32M"]), "invalid");
    for label in ["memory:x", "esker:x", "nodes:x", "x:y"] {
        let refused = site.fails(&["pool", "create", label, "--size", "32M"]);
        assert_eq!(refused.0, "invalid", "{label}: {refused:?}");
        assert!(!site.dir.join(label).exists(), "{label}");
    }
    assert_eq!(kind(&["pool", "create", "huge", "--size", "900T"]), "no_space");
    assert_eq!(kind(&["pool", "create", "huge", "--size", "900P"]), "invalid");
    let disk = Site::new();
    if disk.json(&["pool", "create", "disk", "--size", "32M"])["medium"] == "block" {
        let huge = ["pool", "create", "pages", "--size", "32M", "--huge-pages"];
        assert_eq!(disk.fails(&huge).0, "invalid");
        assert_eq!(disk.fails(&["pool", "compact", "disk", "--huge-pages"]).0, "invalid");
    }
    for command in ["query", "destroy", "check", "scrub", "compact"] {
        assert_eq!(kind(&["pool", command, "nothing"]), "not_found", "{command}");
    }
}

/// The error names the file or pool that blocks a new pool. A refused pool leaves no files.
#[test]
fn existing_name_is_an_error_that_names_it() {
    let site = Site::new();
    site.create_pool();
    std::fs::create_dir(site.dir.join("other")).unwrap();
    site.file("other/file", b"");
    let says = |arguments: &[&str]| {
        let envelope = site.failure(arguments);
        envelope["error"]["message"].as_str().unwrap().to_owned()
    };
    let (tank, dir) = (site.dir.join("tank").display().to_string(), site.dir.display());
    let said = says(&["pool", "create", "tank", "--size", "32M"]);
    assert!(said.contains(&format!("a pool already exists at {tank}")), "{said}");
    assert!(said.contains(&format!("`esker pool destroy esker:{tank}`")), "{said}");
    let said = says(&["pool", "create", &format!("posix:{tank}")]);
    assert!(said.contains("a pool already exists at"), "{said}");
    let said = says(&["pool", "create", "other", "--size", "32M"]);
    assert!(said.contains("other already exists and is not a pool"), "{said}");
    for name in ["tank", "other"] {
        assert!(site.dir.join(name).read_dir().unwrap().next().is_some(), "{name}");
    }
    let before = left(&site, &[]);
    let below = format!("{dir}/a/b/c");
    let tiny = ["pool", "create", "new", "--size", "1K", "--dir", &below, "--parents"];
    assert_eq!(site.fails(&tiny).0, "invalid");
    let wrong = ["pool", "create", &format!("posix:{below}/no label"), "--parents"];
    assert_eq!(site.fails(&wrong).0, "invalid");
    assert_eq!(left(&site, &[]), before);
}

#[test]
fn a_sound_pool_passes_check_and_scrub() {
    let site = Site::with_container();
    let file = site.file("noise", &noise(100_000));
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    let check = site.json(&["pool", "check", "tank"]);
    assert_eq!((&check["problems"], &check["repaired"]), (&json!([]), &json!([])));
    assert!(check["live_bytes"].as_u64().unwrap() >= 100_000);
    let scrub = site.json(&["pool", "scrub", "tank"]);
    assert_eq!(scrub["damaged"], json!([]));
    assert!(scrub["bytes"].as_u64().unwrap() >= 100_000);
    assert!(site.json(&["pool", "compact", "tank"])["freed_bytes"].is_u64());
}

/// Changes `count` bytes of a file of each target at each `wanted`, starting `before` bytes before it.
fn damage(site: &Site, file: &str, wanted: &[u8], before: usize, count: usize) {
    let mut hits = 0;
    for target in ["target-0", "target-1"] {
        let path = site.dir.join("tank").join(target).join(file);
        let bytes = std::fs::read(&path).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let places = bytes.windows(wanted.len()).enumerate().filter(|(_, found)| *found == wanted);
        for (at, _) in places {
            file.write_all_at(&vec![0xee; count], (at - before) as u64).unwrap();
            hits += 1;
        }
    }
    assert_ne!(hits, 0);
}

#[test]
fn scrub_fails_where_data_is_damaged_and_names_the_object() {
    let site = Site::with_container();
    let bytes = noise(50_000);
    let file = site.file("noise", &bytes);
    let oid = site.json(&["array", "put", "tank", "run1", "field", &file])["oid"].clone();
    damage(&site, "data", &bytes[..64], 0, 1);
    assert_eq!(site.fails(&["pool", "scrub", "tank"]), ("checksum".to_owned(), -2021));
    let envelope = site.failure(&["pool", "scrub", "tank"]);
    let damaged: Vec<_> = envelope["response"]["damaged"].as_array().unwrap().iter().collect();
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].as_str().unwrap().contains(oid.as_str().unwrap()));
    assert_eq!(site.fails(&["array", "get", "tank", "run1", "field", "-o", &file]).0, "checksum");
}

#[test]
fn commands_that_read_all_of_a_pool_check_index_pages_first() {
    let site = Site::with_container();
    // Every page but the first two: its number is what LMDB follows.
    let path = site.dir.join("tank/target-0/index/data.mdb");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    (2..64).for_each(|page| file.write_all_at(&[0xee; 64], page * 4096).unwrap());
    for command in [&["pool", "scrub", "tank"][..], &["cont", "destroy", "tank", "run1"]] {
        assert_eq!(site.fails(command).0, "corrupt", "{command:?}");
    }
    let envelope = site.failure(&["pool", "check", "tank"]);
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("no repair mends"), "{message}");
}

#[test]
fn a_pool_with_a_damaged_page_is_salvaged_and_every_error_says_how() {
    let site = Site::with_container();
    let (file, name) = (site.file("noise", &noise(300_000)), |step: u32| format!("step {step}"));
    for step in 0..60 {
        site.ok(&["kv", "put", "tank", "run1", "index", &name(step), "here"]);
    }
    site.ok(&["cont", "create", "tank", "home", "--type", "posix"]);
    site.ok(&["fs", "import", &file, "tank/home:/noise"]);
    let whole = site.json(&["pool", "salvage", "tank", "copy"]);
    assert_eq!((&whole["lost_count"], &whole["lost"]), (&json!(0), &json!([])));
    let path = site.dir.join("tank/target-1/index/data.mdb");
    let bytes = std::fs::read(&path).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let held = bytes.chunks(4096).map(|page| page.windows(5).any(|word| word == b"step "));
    for (page, _) in held.enumerate().filter(|(_, held)| *held) {
        file.write_all_at(&[0xee; 4096], page as u64 * 4096).unwrap();
    }
    let says = |arguments: &[&str]| {
        let said = site.failure(arguments);
        let message = said["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("esker pool salvage"), "{arguments:?}: {message}");
        said["response"].clone()
    };
    says(&["pool", "check", "tank"]);
    says(&["pool", "check", "tank", "--repair"]);
    says(&["pool", "scrub", "tank"]);
    let control = std::fs::File::options().write(true).open(site.dir.join("tank/control")).unwrap();
    control.write_all_at(&0x1111_u64.to_ne_bytes(), 8).unwrap();
    control.write_all_at(&[0; 8], 0).unwrap();
    says(&["pool", "query", "tank"]);
    let doctor = String::from_utf8(site.run(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains("esker pool salvage"), "{doctor}");
    let report = site.failure(&["pool", "salvage", "tank", "saved"]);
    let response = &report["response"];
    assert!(response["lost_count"].as_u64().unwrap() > 0, "{report}");
    assert!(response["lost"][0].as_str().unwrap().contains("target 1"), "{report}");
    let there = |pool: &str, step| {
        site.run(&["kv", "get", pool, "run1", "index", &name(step)]).stdout == b"here"
    };
    assert!((0..60).all(|step| there("copy", step)));
    let left = (0..60).filter(|step| there("saved", *step)).count();
    assert!((1..60).contains(&left), "{left} of 60");
    let out = site.dir.join("out").display().to_string();
    site.ok(&["fs", "export", "copy/home:/noise", &out]);
    assert_eq!(std::fs::read(&out).unwrap(), noise(300_000));
    assert_eq!(site.fails(&["pool", "salvage", "tank", "small", "--size", "1M"]).0, "invalid");
    assert!(!site.dir.join("small").exists());
}

#[test]
fn salvaged_pool_keeps_durability_and_group_unless_others_are_given() {
    let site = Site::new();
    let group = std::fs::metadata(&site.dir).unwrap().gid().to_string();
    let create = ["pool", "create", "tank", "--size", "32M", "--targets", "2"];
    site.ok(&[&create[..], &["--durability", "process", "--group", &group]].concat());
    let modes = |pool: &str| {
        let status = site.dir.join(pool).metadata().unwrap();
        (status.mode() & 0o7777, status.gid())
    };
    let salvaged = |new: &str, more: &[&str]| {
        let report = site.json(&[&["pool", "salvage", "tank", new], more].concat());
        (report["pool"]["durability"].as_str().unwrap().to_owned(), modes(new))
    };
    assert_eq!(salvaged("alike", &[]), ("process".to_owned(), modes("tank")));
    let other = salvaged("other", &["--durability", "commit", "--group", &group]);
    assert_eq!(other, ("commit".to_owned(), modes("tank")));
    site.ok(&["pool", "create", "own", "--size", "32M", "--targets", "2"]);
    site.ok(&["pool", "salvage", "own", "copy"]);
    assert_eq!(modes("copy"), modes("own"));
    assert_ne!(modes("copy").0, modes("alike").0);
}

/// The new pool is removed, and the same command with enough space creates it.
#[test]
fn a_salvage_without_room_leaves_nothing_behind() {
    let site = Site::with_container();
    let file = site.file("noise", &noise(12 << 20));
    site.ok(&["array", "put", "tank", "run1", "field", &file]);
    let before = left(&site, &[]);
    let envelope = site.failure(&["pool", "salvage", "tank", "saved", "--size", "8M"]);
    assert_eq!(envelope["error"]["kind"], json!("no_space"), "{envelope}");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("saved") && message.contains("--size"), "{message}");
    assert_eq!(left(&site, &[]), before);
    site.ok(&["pool", "salvage", "tank", "saved"]);
    let out = site.dir.join("out").display().to_string();
    site.ok(&["array", "get", "saved", "run1", "field", "-o", &out]);
    assert!(std::fs::read(&out).unwrap() == noise(12 << 20));
}

#[test]
fn check_fails_where_a_record_of_the_index_is_damaged() {
    let site = Site::with_container();
    let value = "a value that stands nowhere else";
    site.ok(&["kv", "put", "tank", "run1", "index", "key", value]);
    damage(&site, "index/data.mdb", value.as_bytes(), 16, 16);
    let envelope = site.failure(&["pool", "check", "tank"]);
    assert_eq!(envelope["error"]["kind"], json!("corrupt"), "{envelope}");
    assert_ne!(envelope["response"]["problems"], json!([]));
}

#[test]
fn check_fails_where_pages_of_the_index_are_damaged() {
    let site = Site::with_container();
    let path = site.dir.join("tank").join("target-0").join("index").join("data.mdb");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xee; 64 << 10], 8 << 10).unwrap();
    assert_eq!(site.fails(&["pool", "check", "tank"]).0, "corrupt");
}

#[test]
fn leftovers_of_a_killed_creation_do_not_block_a_new_one() {
    let site = Site::in_memory();
    let draft = site.dir.join("tank/pool.new");
    let create = |size| ["pool", "create", "tank", "--targets", "2", "--size", size];
    let mut killed = 0;
    for _ in 0..20 {
        let mut child = site.command(&create("1G")).spawn().unwrap();
        while !draft.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let said = String::from_utf8(site.run(&create("32M")).stderr).unwrap();
        assert!(said.contains("another process") || said.contains("exists"), "{said}");
        child.kill().unwrap();
        child.wait().unwrap();
        killed += u32::from(draft.exists());
        if draft.exists() {
            site.ok(&create("32M"));
            assert!(site.ok(&["pool", "check", "tank"]).contains("0 problems"));
        }
        site.ok(&["pool", "destroy", "tank"]);
    }
    assert!(killed > 0, "no creation was caught half-way");
}

/// Runs a command again and again, killed at its first step, its second and so on, until it is done before it is
/// killed; `prepare` comes before each, `check` after.
fn killed_at_each_step(
    site: &Site,
    arguments: &[&str],
    prepare: impl Fn(),
    check: impl Fn(u32),
) -> u32 {
    let killer = site.dir.with_extension("killer.so");
    support::build_library("killer.c", &killer);
    let steps = (1..1000).find(|step| {
        prepare();
        let mut command = site.command(arguments);
        let status = command.env("LD_PRELOAD", &killer).env("KILL_AT", step.to_string()).output();
        let code = status.unwrap().status.code();
        assert!(code.is_none_or(|code| code == 0), "step {step} ended with {code:?}");
        check(*step);
        code.is_some()
    });
    std::fs::remove_file(killer).unwrap();
    steps.expect("an end")
}

const CREATE: [&str; 7] = ["pool", "create", "tank", "--targets", "2", "--size", "32M"];

/// The pool is whole, and nothing else is left next to it once it was destroyed.
fn is_whole_and_alone(site: &Site, step: u32) {
    assert!(site.ok(&["pool", "check", "tank"]).contains("0 problems"), "step {step}");
    site.ok(&["pool", "destroy", "tank", "--recursive"]);
    let left: Vec<_> = site.dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "step {step}: {left:?}");
}

#[test]
fn creation_killed_at_any_step_can_be_repeated() {
    let site = Site::in_memory();
    let steps = killed_at_each_step(
        &site,
        &CREATE,
        || (),
        |step| {
            if !site.ok(&["pool", "list"]).contains("tank") {
                site.ok(&CREATE);
            }
            is_whole_and_alone(&site, step);
        },
    );
    assert!(steps > 20, "{steps} steps");
}

#[test]
fn destruction_killed_at_any_step_leaves_a_complete_pool_or_none() {
    let site = Site::in_memory();
    let prepare = || drop(site.ok(&CREATE));
    let steps =
        killed_at_each_step(&site, &["pool", "destroy", "tank", "--recursive"], prepare, |step| {
            let whole = site.ok(&["pool", "list"]).contains("tank");
            assert_eq!(whole, step == 1, "the first step takes the name away");
            if !whole {
                site.ok(&CREATE);
            }
            is_whole_and_alone(&site, step);
        });
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn leftovers_of_the_first_release_do_not_block_a_new_pool() {
    let site = Site::in_memory();
    site.ok(&CREATE);
    std::fs::remove_file(site.dir.join("tank/pool")).unwrap();
    std::fs::remove_file(site.dir.join("tank/target-1/data")).unwrap();
    site.ok(&CREATE);
    is_whole_and_alone(&site, 0);
    std::fs::create_dir(site.dir.join("tank")).unwrap();
    std::fs::write(site.dir.join("tank/mine"), "no part of a pool").unwrap();
    assert_eq!(site.fails(&CREATE).0, "exists");
    assert!(site.dir.join("tank/mine").exists());
}

/// In a directory like `/tmp`, a link that another user made decides nothing.
#[test]
fn symbolic_links_of_other_users_are_not_followed() {
    let victim = Site::in_memory();
    let shared = Site::in_memory();
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return esker_testing::skip("this needs to be root: it makes links of another user");
    }
    victim.ok(&CREATE);
    victim.ok(&["cont", "create", "tank", "run1"]);
    std::fs::set_permissions(&shared.dir, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let link = shared.dir.join("tank");
    std::os::unix::fs::symlink(victim.dir.join("tank"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), Some(65534)).unwrap();
    let url = format!("esker:{}", link.display());
    let calls: [&[&str]; 7] = [
        &["pool", "destroy", "tank", "--force"],
        &["pool", "destroy", &url, "--force"],
        &["pool", "query", "tank"],
        &["pool", "check", "tank"],
        &["pool", "compact", "tank"],
        &["cont", "create", "tank", "run2"],
        &["cont", "list", &url],
    ];
    for call in calls {
        let said = shared.message(call);
        assert!(said.contains("link of another user (uid 65534)"), "{call:?}: {said}");
    }
    assert!(!shared.ok(&["pool", "list"]).contains("tank"));
    assert!(victim.ok(&["cont", "list", "tank"]).contains("run1"));
    // A link of one's own, as sites make them for pools elsewhere.
    std::os::unix::fs::lchown(&link, Some(0), Some(0)).unwrap();
    assert!(shared.ok(&["cont", "list", "tank"]).contains("run1"));
    shared.ok(&["pool", "destroy", "tank", "--recursive"]);
    assert!(!victim.dir.join("tank").exists());
}

#[test]
fn a_refused_destruction_changes_nothing() {
    let site = Site::in_memory();
    site.ok(&[&CREATE[..], &["--group", "1"]].concat());
    site.ok(&["cont", "create", "tank", "run1"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "key", "value"]);
    std::fs::set_permissions(&site.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let destroy = |groups: &str| {
        let program = site.command(&["pool", "destroy", "tank", "--recursive"]);
        let mut command = support::as_user(65534, groups);
        command.arg(program.get_program()).args(program.get_args());
        command.env("ESKER_POOLS", &site.dir).output()
    };
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    for groups in ["--groups=1", "--clear-groups"] {
        let Some(refused) = is_root.then(|| destroy(groups).ok()).flatten() else {
            return esker_testing::skip("this needs to be root, and setpriv");
        };
        assert!(!refused.status.success());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!said.contains("failed to execute"), "{said}");
        assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "key"]), "value");
    }
    // A member of the group may rename the directory, but not remove its content.
    std::fs::set_permissions(&site.dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(!destroy("--groups=1").unwrap().status.success());
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "key"]), "value");
    is_whole_and_alone(&site, 0);
}

#[test]
fn url_of_something_else_is_named_as_not_a_pool() {
    let site = Site::in_memory();
    let (directory, file) = (site.dir.display().to_string(), site.file("file", b"text"));
    for path in [directory, file] {
        let message = site.message(&["cont", "list", &format!("esker:{path}")]);
        let is_named = message.contains("is not a pool") && message.contains("`esker pool list`");
        assert!(is_named, "{message}");
    }
    let message = site.message(&["cont", "list", "nodes:/no/such.map"]);
    assert!(message.contains("copy the map"), "{message}");
}

#[test]
fn least_size_of_a_pool_is_enough() {
    let site = Site::in_memory();
    for targets in ["1", "2", "5"] {
        let create = ["pool", "create", "tank", "--targets", targets, "--size"];
        let message = site.message(&[&create[..], &["4096"]].concat());
        let least = message.split("at least ").nth(1).and_then(|rest| rest.split(',').next());
        assert!(
            message.contains("a pool of 4 KiB") && least.unwrap().ends_with(" MiB"),
            "{message}"
        );
        site.ok(&[&create[..], &[least.unwrap()]].concat());
        site.ok(&["pool", "destroy", "tank"]);
    }
}
