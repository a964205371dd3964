//! `esker fields`: what a user archives, lists, reads and removes.
use crate::support::Site;
use esker_fields::grib::EcCodes;
use serde_json::{Value, json};
use std::process::Command;

const DATABASE: &str = "class=od,expver=0001,stream=oper,date=20240610,time=0000";

fn key(step: u32) -> String {
    format!("{DATABASE},type=fc,levtype=sfc,step={step},param=167")
}

/// A site with a pool, and steps archived in tank/fields, each of a file that holds its number.
fn site(steps: &[u32]) -> Site {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "64M"]);
    for step in steps {
        archive(&site, *step, &format!("step {step}"));
    }
    site
}

fn archive(site: &Site, step: u32, text: &str) {
    let file = site.dir.join("field");
    std::fs::write(&file, text).unwrap();
    fields(site, &["archive", "--key", &key(step), file.to_str().unwrap()]);
}

/// Standard output of a subcommand of `esker fields` on tank/fields. The first argument is its name.
fn fields(site: &Site, arguments: &[&str]) -> String {
    let (command, rest) = arguments.split_first().unwrap();
    site.ok(&[&["fields", command, "--store", "tank/fields"][..], rest].concat())
}

/// Standard error of a command that fails.
fn refused(site: &Site, arguments: &[&str]) -> String {
    let output = site.run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The response in JSON of a subcommand of `esker fields` on tank/fields.
fn answer(site: &Site, arguments: &[&str]) -> Value {
    let text = fields(site, &[arguments, &["--json"]].concat());
    serde_json::from_str::<Value>(&text).unwrap()["response"].clone()
}

#[test]
fn fields_are_archived_in_an_empty_container() {
    let site = site(&[]);
    site.ok(&["cont", "create", "tank/fields"]);
    archive(&site, 3, "step 3");
    assert!(fields(&site, &["list"]).contains("step=3"));
    site.ok(&["cont", "create", "tank/used"]);
    site.ok(&["kv", "put", "tank/used", "a", "b", "c"]);
    let file = site.dir.join("field");
    let command = ["fields", "archive", "--store", "tank/used", "--key", &key(3)];
    let said = refused(&site, &[&command[..], &[file.to_str().unwrap()]].concat());
    assert!(said.contains("container used holds no fields: name an empty container"), "{said}");
}

#[test]
fn archived_fields_are_listed_and_retrieved_in_order() {
    let site = site(&[0, 6, 12]);
    let listed = fields(&site, &["list", "step=6/12"]);
    assert_eq!(listed.lines().count(), 2);
    assert!(listed.contains("step=6,param=167"), "{listed}");
    assert!(fields(&site, &["axes"]).contains("step=0/6/12\n"));
    let out = site.dir.join("out");
    fields(&site, &["retrieve", "step=12/0/6", "param=167", "-o", out.to_str().unwrap()]);
    assert_eq!(std::fs::read(&out).unwrap(), b"step 12step 0step 6");
    assert!(fields(&site, &["status"]).contains("3 fields"));
    assert!(fields(&site, &["where"]).contains("tank"));
    assert!(
        fields(&site, &["list", "--long"])
            .lines()
            .all(|line| line.contains("  6  ") || line.contains("  7  "))
    );
}

#[test]
fn errors_name_missing_fields_and_wrong_requests() {
    let site = site(&[0]);
    let store = ["--store", "tank/fields"];
    let error = |arguments: &[&str]| refused(&site, &[&["fields"][..], arguments, &store].concat());
    let missing = error(&[
        "retrieve",
        &format!("{},step=0/24", key(0).replace(",step=0", "")),
        "-o",
        "/dev/null",
    ]);
    assert!(missing.contains("1 of 2") && missing.contains("step=24"), "{missing}");
    assert!(error(&["list", "date=notadate"]).contains("date=notadate"));
    assert!(error(&["list", "parm=167"]).contains("param"));
    assert!(error(&["retrieve", "-o", "/dev/null"]).contains("request"));
    assert!(error(&["wipe", "step=0", "--doit"]).contains("class=od"));
    let moved = ["move", "class=od,expver=0001,stream=oper", "--to", "tank/other"];
    let open = error(&moved);
    assert!(
        open.contains("to move fields of") && open.contains("add date=20240610,time=0000"),
        "{open}"
    );
    assert!(!open.contains("wipe"), "{open}");
    fields(&site, &[&moved[..], &["--keep"]].concat());
    let none = refused(&site, &["fields", "list", "--store", "tank/nothing"]);
    assert!(none.contains("nothing"), "{none}");
    let inspected = error(&["inspect", &key(0).replace("step=0", "step=0/3")]);
    assert!(inspected.contains("1 field found, 1 missing"), "{inspected}");
    // The same of requests that leave out names.
    let inspected = error(&["inspect", "class=od,step=0/3"]);
    assert!(inspected.contains("1 field found, 1 missing"), "{inspected}");
    let retrieved = error(&["retrieve", "class=od,step=0/3", "-o", "/dev/null"]);
    assert!(retrieved.contains("has step=3"), "{retrieved}");
    let partial = error(&["retrieve", "--partial", "class=od,step=0/3", "-o", "/dev/null"]);
    assert!(partial.contains("missing: 1 field"), "{partial}");
}

#[test]
fn archiving_again_masks_until_the_purge() {
    let site = site(&[0, 6]);
    archive(&site, 0, "step 0 anew");
    assert_eq!(answer(&site, &["stats"])["stats"][0]["masked"], json!(1));
    assert_eq!(fields(&site, &["dump"]).matches("masked").count(), 1);
    let two = site.file("two", b"step=0\nstep=6\n");
    let states = fields(&site, &["dump", "--from", &two]);
    let piped = ["fields", "dump", "--store", "tank/fields", "--from", "-"];
    assert_eq!(site.feed(&piped, b"step=0\nstep=6\n"), states.as_bytes());
    let states: Vec<_> = states.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(states, ["current", "current", "masked"]);
    assert_eq!(answer(&site, &["purge"])["masked"], json!(1));
    assert_eq!(answer(&site, &["purge", "--doit"])["masked"], json!(1));
    assert_eq!(answer(&site, &["purge"])["masked"], json!(0));
    let out = site.dir.join("out");
    fields(&site, &["retrieve", "step=0", "-o", out.to_str().unwrap()]);
    assert_eq!(std::fs::read(&out).unwrap(), b"step 0 anew");
}

#[test]
fn wiping_and_moving_are_dry_without_doit() {
    let site = site(&[0, 6]);
    assert!(fields(&site, &["wipe", DATABASE]).contains("nothing was changed"));
    assert_eq!(fields(&site, &["wipe", DATABASE, "--porcelain"]).lines().count(), 2);
    assert_eq!(fields(&site, &["list"]).lines().count(), 2);
    let part = format!("{DATABASE},step=0");
    assert!(fields(&site, &["move", &part, "--to", "tank/other"]).contains("nothing was changed"));
    fields(&site, &["move", &part, "--to", "tank/other", "--doit"]);
    assert_eq!(fields(&site, &["list"]).lines().count(), 1);
    let other = site.ok(&["fields", "list", "--store", "tank/other"]);
    assert!(other.contains("step=0,"), "{other}");
    fields(&site, &["wipe", DATABASE, "--doit"]);
    assert_eq!(fields(&site, &["list"]), "");
}

/// A refused request leaves the fields of the requests before it, and a file without requests changes nothing.
#[test]
fn requests_of_a_file_are_checked_before_the_first_is_carried_out() {
    let site = site(&[0, 6]);
    let two = site.file("two", format!("{DATABASE},step=0\nclass=od,step=6\n").as_bytes());
    let refusal = |arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        refused(&site, &[&["fields", command, "--store", "tank/fields"][..], rest].concat())
    };
    assert!(refusal(&["wipe", "--from", &two, "--doit"]).contains("name the whole database"));
    assert_eq!(fields(&site, &["list"]).lines().count(), 2);
    let (empty, out) = (site.file("empty", b"\n"), site.file("out", b"earlier"));
    for arguments in [
        &["retrieve", "-o", &out][..],
        &["wipe", "--doit"],
        &["move", "--to", "tank/b"],
        &["check"],
    ] {
        let error = refusal(&[arguments, &["--from", &empty]].concat());
        assert!(error.contains("no request in "), "{error}");
    }
    assert_eq!(std::fs::read(out).unwrap(), b"earlier");
}

#[test]
fn watch_fails_if_its_output_cannot_be_written() {
    let site = site(&[0]);
    let watch = ["fields", "watch", "--store", "tank/fields", "--existing", "--count", "1"];
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = site.command(&watch).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("standard output"), "{said}");
}

#[test]
fn links_and_sockets_in_a_directory_are_skipped_and_pipes_are_read() {
    let site = site(&[]);
    let dir = site.dir.join("run");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("field"), "step 0").unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
    let found = answer(&site, &["archive", "--key", &key(0), dir.to_str().unwrap()]);
    let counted = [&found["files"], &found["fields"], &found["skipped"]];
    assert_eq!(counted, [&json!(1), &json!(1), &json!(2)]);
    let piped = ["fields", "archive", "--store", "tank/fields", "--key", &key(6), "/dev/stdin"];
    site.feed(&piped, b"step 6");
    let out = site.dir.join("out");
    fields(&site, &["retrieve", "step=6", "-o", out.to_str().unwrap()]);
    assert_eq!(std::fs::read(&out).unwrap(), b"step 6");
}

#[test]
fn resume_does_not_copy_existing_objects_again() {
    let site = site(&[0]);
    let file = site.dir.join("field");
    std::fs::write(&file, "step 0").unwrap();
    let resumed = answer(&site, &["archive", "--resume", "--key", &key(0), file.to_str().unwrap()]);
    assert_eq!((&resumed["fields"], &resumed["there"]), (&json!(0), &json!(1)));
    std::fs::write(&file, "step X").unwrap();
    let resumed = answer(&site, &["archive", "--resume", "--key", &key(0), file.to_str().unwrap()]);
    assert_eq!(resumed["fields"], json!(1));
}

/// All files have one key. The last file in their order counts, whichever is read first.
#[test]
fn many_files_at_once_are_as_one_after_the_other() {
    let site = site(&[]);
    let dir = site.dir.join("files");
    std::fs::create_dir(&dir).unwrap();
    let content = |number: usize| {
        format!("file {number}").repeat(1 + 200_000 * usize::from(number.is_multiple_of(7)))
    };
    for number in 0..40 {
        std::fs::write(dir.join(format!("{number:02}")), content(number)).unwrap();
    }
    let last = content(39);
    for round in 0..3 {
        let mut answers = Vec::new();
        for jobs in ["1", "8"] {
            let (store, out) = (format!("tank/jobs-{jobs}"), site.dir.join("out"));
            let (key, dir) = (key(0), dir.to_str().unwrap());
            let mut archive =
                vec!["fields", "archive", "--store", &store, "--jobs", jobs, "--json"];
            archive.extend(["--key", &key, dir]);
            // --resume finds no field of this file: the previous file was another one.
            archive.extend((round > 0).then_some("--resume"));
            answers.push(site.ok(&archive));
            site.ok(&[
                "fields",
                "retrieve",
                "--store",
                &store,
                "step=0",
                "-o",
                out.to_str().unwrap(),
            ]);
            assert_eq!(std::fs::read_to_string(&out).unwrap(), last);
            site.ok(&["fields", "purge", "--store", &store, "--doit"]);
        }
        assert_eq!(answers[0], answers[1]);
        let response = &serde_json::from_str::<Value>(&answers[1]).unwrap()["response"];
        let counted = [&response["fields"], &response["duplicates"], &response["there"]];
        assert_eq!(counted, [&json!(40), &json!(39), &json!(0)], "round {round}");
    }
}

#[test]
fn watch_prints_each_field() {
    let site = site(&[0, 6]);
    let seen = fields(&site, &["watch", "--existing", "--count", "2"]);
    assert_eq!(seen.lines().count(), 2, "{seen}");
    assert_eq!(fields(&site, &["watch", "--timeout", "0"]), "");
}

#[test]
fn a_schema_is_printed_checked_and_explained() {
    let site = Site::in_memory();
    let schema = ["fields", "schema"];
    let file = site.dir.join("schema");
    std::fs::write(&file, site.ok(&schema)).unwrap();
    let file = file.to_str().unwrap();
    site.ok(&[&schema[..], &[file]].concat());

    let explained = site.ok(&[&schema[..], &["--explain", &key(6), file]].concat());
    assert!(explained.contains(&format!("database  {DATABASE},domain=g\n")), "{explained}");
    assert!(explained.contains("\n          step=6 (Step)\n"), "{explained}");
    let json = site.ok(&[&schema[..], &["--explain", &key(6), "--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["response"]["datum"], json!({"step": "6", "param": "167"}));

    let error = refused(&site, &[&schema[..], &["--explain", "class=od"]].concat());
    assert!(error.contains("expver is missing") && error.contains("Nearest rule"), "{error}");
    std::fs::write(file, "date: Date;\n[a [b]]").unwrap();
    let error = refused(&site, &[&schema[..], &[file]].concat());
    assert!(error.contains("schema:2: the rule ends at level 2 of three"), "{error}");
}

/// A message of a centre that gives no MARS labels, or none with a line that says why.
fn message() -> Option<Vec<u8>> {
    if let Err(error) = EcCodes::new() {
        esker_testing::skip(error);
        return None;
    }
    sample("regular_ll_pl_grib2")
}

#[test]
fn other_files_in_a_directory_are_skipped_and_counted() {
    let Some(message) = message() else { return };
    let site = site(&[]);
    let dir = site.dir.join("run");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("README"), "what was run").unwrap();
    std::fs::write(dir.join("empty"), "").unwrap();
    let (run, readme) = (dir.display().to_string(), dir.join("README").display().to_string());
    let fails = |paths: &[&str]| {
        refused(&site, &[&["fields", "archive", "--store", "tank/fields"], paths].concat())
    };
    assert!(fails(&[&run]).contains("no file contains a GRIB message"));
    std::fs::write(dir.join("t.grib"), message).unwrap();
    let found = answer(&site, &["archive", &run]);
    let counted = [&found["files"], &found["fields"], &found["skipped"], &found["troubles"]];
    assert_eq!(counted, [&json!(1), &json!(1), &json!(2), &json!(0)]);
    assert!(fields(&site, &["archive", &run]).contains("skipped, without a GRIB message: 2 files"));
    let named = fails(&[&run, &readme]);
    assert!(named.contains("README: the file contains no GRIB message"), "{named}");
    std::fs::write(dir.join("cut.grib"), "GRIB and no more").unwrap();
    assert!(fails(&[&run]).contains("cut.grib: damaged GRIB message 1"));
}

#[test]
fn fields_without_labels_are_explained() {
    let Some(message) = message() else { return };
    let site = site(&[]);
    let file = site.file("message", &message);
    let told = fields(&site, &["archive", &file]);
    assert!(told.contains("1 field") && told.contains("--set class="), "{told}");
    assert!(fields(&site, &["list"]).contains("class=unknown"));
    let labels = "class=rd,stream=oper,type=an";
    let found = answer(&site, &["archive", "--set", labels, &file]);
    assert_eq!(found["unlabelled"], json!(0));
    assert!(fields(&site, &["list", "class=rd"]).contains("type=an"));
}

/// A GRIB sample of ecCodes, or none with a line that says why.
fn sample(name: &str) -> Option<Vec<u8>> {
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/samples.sh");
    let paths = String::from_utf8(Command::new(samples).output().unwrap().stdout).unwrap();
    let path = paths.lines().find(|path| path.ends_with(&format!("/{name}.tmpl")));
    if path.is_none() {
        esker_testing::skip(format!("ecCodes' sample {name} is not installed"));
    }
    path.map(|path| std::fs::read(path).unwrap())
}

/// One key for every message; ecCodes orders the names of edition 1 and of edition 2 in different ways.
const ONE_KEY: &str = "class=od,expver=1,stream=oper,type=fc,date=20240610,time=0,step=0,levtype=pl,levelist=500,\
    param=130,domain=g";

#[test]
fn messages_of_one_key_are_one_field_whatever_the_order_of_its_names() {
    let Some((two, one)) = message().zip(sample("regular_ll_pl_grib1")) else { return };
    let site = site(&[]);
    let both = site.dir.join("both.grib");
    let archive = |store: &str, path: &std::path::Path, resume: bool| {
        let mut command = vec!["fields", "archive", "--json", "--store", store, "--jobs", "2"];
        command.extend(["--set", ONE_KEY, path.to_str().unwrap()]);
        command.extend(resume.then_some("--resume"));
        serde_json::from_str::<Value>(&site.ok(&command)).unwrap()["response"].clone()
    };
    let held = |store: &str| {
        let out = site.dir.join("out");
        let out = out.to_str().unwrap();
        site.ok(&["fields", "retrieve", "--store", store, "step=0", "-o", out]);
        std::fs::read(out).unwrap()
    };
    for (number, (first, last)) in [(&one, &two), (&two, &one)].into_iter().enumerate() {
        let (store, resumed) = (format!("tank/both-{number}"), format!("tank/resumed-{number}"));
        std::fs::write(&both, [&first[..], last].concat()).unwrap();
        let answer = archive(&store, &both, false);
        assert_eq!((&answer["fields"], &answer["duplicates"]), (&json!(2), &json!(1)), "{store}");
        // The last message of a file counts, although it is already there.
        let answer = archive(&store, &both, true);
        assert_eq!((&answer["fields"], &answer["duplicates"]), (&json!(2), &json!(1)), "{store}");
        assert!(held(&store) == *last, "{store}");
        // The later file counts, although it was there before the earlier one was archived.
        let tree = site.dir.join(format!("tree-{number}"));
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("b.grib"), last).unwrap();
        archive(&resumed, &tree.join("b.grib"), false);
        std::fs::write(tree.join("a.grib"), first.repeat(500)).unwrap();
        archive(&resumed, &tree, true);
        assert!(held(&resumed) == *last, "{resumed}");
    }
}
