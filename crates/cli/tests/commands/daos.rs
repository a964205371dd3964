//! The tool on pools of DAOS. Esker's own libdaos stands in for that of a DAOS system, on a pool of its own.
use crate::support::{NO_BENCH, Site, has_bench, noise, wait_for, with_json};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const POOL: &str = "daos:standin";

/// Esker's libdaos in the directory of the tested tool; `None`, with a message, if it was not built.
fn library() -> Option<PathBuf> {
    let library = Path::new(env!("CARGO_BIN_EXE_esker")).with_file_name("libdaos.so");
    if library.is_file() {
        return Some(library);
    }
    esker_testing::skip("libdaos.so is not built (cargo build -p esker-libdaos)");
    None
}

/// A site with a pool that is reached through a library.
struct Standin {
    site: Site,
    library: PathBuf,
}

impl Standin {
    fn new(size: &str) -> Option<Self> {
        let (library, site) = (library()?, Site::in_memory());
        site.ok(&["pool", "create", "standin", "--size", size, "--targets", "2"]);
        Some(Self { site, library })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.site.command(arguments);
        command.env("ESKER_LIBDAOS", &self.library).env("ESKER_LIBDAOS_OWN", "allow");
        command.env("ESKER_DAOS_STRICT", "1");
        command
    }

    /// A directory in which programs find the library.
    fn loadable(&self) -> PathBuf {
        let directory = self.site.dir.join("lib");
        let _ = std::fs::create_dir(&directory);
        let _ = std::os::unix::fs::symlink(&self.library, directory.join("libdaos.so.2"));
        directory
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The response of a command.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ok(&with_json(arguments));
        serde_json::from_str::<Value>(&output).unwrap()["response"].clone()
    }

    /// Output of a command that fails.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// All objects of a container, with their ids, and the contents of its files.
    fn content(&self, container: &str) -> (String, Vec<u8>) {
        let objects = self.ok(&["object", "list", container]);
        let back = self.site.dir.join("back").display().to_string();
        self.ok(&["fs", "export", &format!("{container}:/"), &back]);
        let mut files = Vec::new();
        for number in 0..FILES {
            files.extend(std::fs::read(format!("{back}/file{number}")).unwrap());
        }
        std::fs::remove_dir_all(&back).unwrap();
        (objects, files)
    }
}

const FILES: usize = 6;

#[test]
fn a_pool_of_daos_is_used_like_others() {
    let Some(standin) = Standin::new("64M") else { return };
    standin.ok(&["cont", "create", "daos:standin/run1", "--type", "posix"]);
    standin.ok(&["kv", "put", POOL, "run1", "index", "t2m", "2.1"]);
    assert_eq!(standin.ok(&["kv", "get", "daos:standin/run1", "index", "t2m"]), "2.1");
    let field = standin.site.file("field", &noise(3_000_001));
    let back = standin.site.dir.join("back").display().to_string();
    standin.ok(&["fs", "import", &field, "daos:standin/run1:/field"]);
    standin.ok(&["fs", "export", "daos:standin/run1:/field", &back]);
    assert!(std::fs::read(&back).unwrap() == noise(3_000_001));
    assert_eq!(standin.ok(&["fs", "ls", "daos:standin/run1?timeout=20:/"]).trim(), "field");
    // The same pool without the detour: what Esker writes through DAOS is what DAOS has.
    assert_eq!(standin.ok(&["kv", "get", "standin", "run1", "index", "t2m"]), "2.1");
    assert_eq!(standin.ok(&["fs", "ls", "standin/run1:/"]).trim(), "field");
    let about = standin.ok(&["pool", "query", POOL]);
    assert!(about.contains("others have written again") && about.contains("100 bytes"), "{about}");
    assert!(!standin.ok(&["pool", "query", "standin"]).contains("exception"));
    standin.ok(&["cont", "snapshot", "create", "daos:standin/run1", "monday"]);
    assert!(standin.ok(&["cont", "snapshot", "list", "daos:standin/run1"]).contains("monday"));
    standin.ok(&["cont", "destroy", "daos:standin/run1"]);
}

/// The agent of DAOS hangs: the command ends, although libdaos waits.
#[test]
fn silent_agent_is_an_error_that_names_its_socket() {
    let Some(standin) = Standin::new("16M") else { return };
    let mut command = standin.command(&["cont", "list", "daos:standin?timeout=1"]);
    command.env("ESKER_DAOS_AGENT", standin.site.dir.join("never"));
    let output = command.env("DAOS_AGENT_DRPC_DIR", "/somewhere").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("/somewhere/daos_agent.sock") && said.contains("within 1 s"), "{said}");
}

/// A listing shows when a container was created, also after its metadata has changed. DAOS does not tell, so it is not
/// known of a container that a tool of DAOS made.
#[test]
fn listing_shows_when_containers_were_created() {
    let Some(standin) = Standin::new("16M") else { return };
    standin.ok(&["cont", "create", "daos:standin/mine", "--type", "posix"]);
    standin.site.ok(&["cont", "create", "standin/theirs"]);
    let queried = standin.json(&["cont", "query", "daos:standin/mine"]);
    let listed = standin.json(&["cont", "list", POOL]);
    let find = |label| {
        let mut all = listed.as_array().unwrap().iter();
        &all.find(|info| info["label"] == label).unwrap()["created"]
    };
    assert!(find("mine").is_string());
    assert_eq!((find("mine"), find("theirs")), (&queried["created"], &Value::Null));
    assert!(standin.ok(&["cont", "list", POOL]).contains("unknown"));
}

/// Copies to DAOS and back, and kills each copy while it runs. The same command then completes it.
#[test]
fn killed_copy_is_resumed() {
    let Some(standin) = Standin::new("256M") else { return };
    standin.site.ok(&["pool", "create", "wide", "--size", "64M", "--targets", "3"]);
    standin.ok(&["cont", "create", "wide/run1", "--type", "posix"]);
    let file = standin.site.file("file", &noise(10));
    standin.ok(&["fs", "import", &file, "wide/run1:/file"]);
    // The file is striped over three targets, and the DAOS pool has two.
    let said = standin.fails(&["cont", "copy", "wide/run1", "daos:standin/wide"]);
    assert!(said.contains("class S3") && said.contains("2 targets"), "{said}");
    assert!(!standin.ok(&["cont", "list", POOL]).contains("wide"));
    standin.site.ok(&["pool", "create", "tank", "--size", "256M", "--targets", "2"]);
    standin.ok(&["cont", "create", "tank/run1", "--type", "posix"]);
    for number in 0..FILES {
        let file = standin.site.file("file", &noise(3_000_000 + number));
        standin.ok(&["fs", "import", &file, &format!("tank/run1:/file{number}")]);
    }
    let original = standin.content("tank/run1");
    for (from, pool) in [("tank/run1", POOL), ("daos:standin/run1", "tank")] {
        let label = if pool == POOL { "run1" } else { "back" };
        let to = format!("{pool}/{label}");
        let mut killed = standin.command(&["cont", "copy", from, &to]).spawn().unwrap();
        wait_for("the copy to begin", || standin.ok(&["cont", "list", pool]).contains(label));
        killed.kill().unwrap();
        killed.wait().unwrap();
        if !standin.ok(&["cont", "list", pool]).contains(&format!("{label}.copying")) {
            standin.ok(&["cont", "destroy", &to]);
        }
        standin.ok(&["cont", "copy", from, &to]);
        assert!(standin.content(&to) == original, "{from} to {to}");
    }
    let mounted = standin.ok(&["fs", "ls", "standin/run1:/"]);
    assert_eq!(mounted.lines().count(), FILES, "DAOS's own tools find the file system");
}

/// Reads what DAOS's libdfs needs of a container, then connects to it as a program for DFS does, and prints a file.
const MOUNTING: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <daos.h>
#include <daos_fs.h>
static int layout(const char *pool, const char *container) {
    struct daos_prop_co_roots *roots; daos_prop_t *asked = daos_prop_alloc(2);
    daos_handle_t poh, coh;
    asked->dpp_entries[0].dpe_type = DAOS_PROP_CO_LAYOUT_TYPE;
    asked->dpp_entries[1].dpe_type = DAOS_PROP_CO_ROOTS;
    int error = daos_pool_connect(pool, NULL, DAOS_PC_RO, &poh, NULL, NULL);
    error = error ? error : daos_cont_open(poh, container, DAOS_COO_RO, &coh, NULL, NULL);
    error = error ? error : daos_cont_query(coh, NULL, asked, NULL);
    roots = error ? NULL : asked->dpp_entries[1].dpe_val_ptr;
    error = error ? error : asked->dpp_entries[0].dpe_val != DAOS_PROP_CO_LAYOUT_POSIX;
    return error ? error : !roots || !roots->cr_oids[0].hi || !roots->cr_oids[1].hi;
}
int main(int count, char **words) {
    dfs_t *dfs; dfs_obj_t *file; char text[9] = ""; daos_size_t size = 0;
    d_iov_t iov; d_sg_list_t sgl = { .sg_nr = 1, .sg_iovs = &iov };
    d_iov_set(&iov, text, sizeof(text) - 1);
    int error = count != 4 || dfs_init();
    error = error ? error : layout(words[1], words[2]);
    error = error ? error : dfs_connect(words[1], NULL, words[2], O_RDONLY, NULL, &dfs);
    error = error ? error : dfs_lookup(dfs, words[3], O_RDONLY, &file, NULL, NULL);
    error = error ? error : dfs_read(dfs, file, &sgl, 0, &size, NULL);
    printf("%d %s\n", error, text);
    return error != 0;
}
"#;

/// Both a container that was created there and one that was copied there have the layout and the roots that DFS needs.
#[test]
fn libdfs_mounts_created_and_copied_containers() {
    let Some(standin) = Standin::new("64M") else { return };
    standin.site.ok(&["pool", "create", "tank", "--size", "64M", "--targets", "2"]);
    standin.ok(&["cont", "create", "daos:standin/made", "--type", "posix"]);
    standin.ok(&["cont", "create", "tank/copied", "--type", "posix"]);
    let file = standin.site.file("file", b"the file");
    for container in ["daos:standin/made", "tank/copied"] {
        standin.ok(&["fs", "import", &file, &format!("{container}:/file")]);
    }
    standin.ok(&["cont", "copy", "tank/copied", "daos:standin/copied"]);
    let source = standin.site.file("mounting.c", MOUNTING.as_bytes());
    let program = source.replace(".c", "");
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include");
    let mut compiler = Command::new("cc");
    compiler.args(["-o", &program, &source, include]).arg(&standin.library).arg("-luuid");
    assert!(compiler.status().unwrap().success());
    for container in ["made", "copied"] {
        let mut mounting = Command::new(&program);
        mounting.env("ESKER_POOLS", &standin.site.dir);
        mounting.env("LD_LIBRARY_PATH", standin.loadable());
        let output = mounting.args(["standin", container, "/file"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "0 the file\n", "{container}");
    }
}

/// A job writes while its container is drained to DAOS; the job and the drain are killed again and again. What was
/// acknowledged arrives, and comes back.
#[test]
fn drain_to_daos_loses_nothing_when_killed() {
    let Some(standin) = Standin::new("256M") else { return };
    standin.site.ok(&["pool", "create", "tank", "--size", "128M", "--targets", "2"]);
    standin.ok(&["cont", "create", "tank/run1"]);
    let drain = ["cont", "drain", "tank/run1", "--to", "daos:standin/run1", "--every", "0.01"];
    let field = standin.site.file("field", &noise(400_000));
    for round in 0..6u64 {
        let mut draining = standin.command(&drain).spawn().unwrap();
        standin.ok(&["array", "put", "tank", "run1", &format!("whole {round}"), &field]);
        let part = ["array", "put", "tank", "run1", &format!("part {round}"), &field];
        let mut writing = standin.command(&part).spawn().unwrap();
        esker_testing::pause(round * 3000);
        for killed in [&mut writing, &mut draining] {
            killed.kill().unwrap();
            killed.wait().unwrap();
        }
    }
    standin.ok(&[&drain[..], &["--until-idle", "0"]].concat());
    assert_eq!(standin.ok(&["object", "list", "tank/run1"]), "");
    standin.ok(&["cont", "copy", "daos:standin/run1", "tank/back"]);
    let back = standin.site.dir.join("back").display().to_string();
    for round in 0..6 {
        let name = format!("whole {round}");
        standin.ok(&["array", "get", "tank", "back", &name, "-o", &back]);
        assert!(std::fs::read(&back).unwrap() == noise(400_000), "{name}");
    }
}

#[test]
fn full_pool_is_an_error_that_names_it() {
    let Some(standin) = Standin::new("16M") else { return };
    standin.ok(&["cont", "create", "daos:standin/run1", "--type", "posix"]);
    let large = standin.site.file("large", &noise(20 << 20));
    let said = standin.fails(&["fs", "import", &large, "daos:standin/run1:/large"]);
    assert!(said.contains("the DAOS pool is full"), "{said}");
    assert_eq!(standin.ok(&["fs", "ls", "daos:standin/run1:/"]), "", "nothing incomplete stays");
}

#[test]
fn own_or_missing_libdaos_is_refused_with_remedy() {
    let Some(standin) = Standin::new("16M") else { return };
    let said = |command: &mut Command| {
        let output = command.args(["cont", "list", POOL]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let own = said(standin.command(&[]).env_remove("ESKER_LIBDAOS_OWN"));
    let file = standin.library.display().to_string();
    assert!(own.contains("Esker's own libdaos") && own.contains(&file), "{own}");
    assert!(own.contains("ESKER_LIBDAOS="), "{own}");
    let missing = said(standin.command(&[]).env("ESKER_LIBDAOS", "/no/such/libdaos.so.2"));
    assert!(missing.contains("/no/such/libdaos.so.2"), "{missing}");
    assert!(missing.contains("ESKER_LIBDAOS") && missing.contains("daos-client"), "{missing}");
    // Without these variables, the library is searched for by its name.
    let directory = standin.loadable();
    let mut command = standin.command(&[]);
    command.env_remove("ESKER_LIBDAOS").env_remove("ESKER_LIBDAOS_OWN");
    let found = said(command.env("LD_LIBRARY_PATH", &directory));
    assert!(found.contains("Esker's own libdaos") && found.contains("libdaos.so"), "{found}");
}

#[test]
fn commands_of_daos_administrators_are_refused() {
    let site = Site::new();
    for command in ["create", "destroy", "check"] {
        let error = &site.failure(&["pool", command, "daos:prod"])["error"];
        assert_eq!(error["kind"], "not_supported", "{command}");
        assert!(error["message"].as_str().unwrap().contains("DAOS"), "{error}");
    }
}

/// Stores that a machine lacks are named with the reason; those that it has are measured.
#[test]
fn comparison_names_absent_stores() {
    if !has_bench() {
        return esker_testing::skip(NO_BENCH);
    }
    let Some(standin) = Standin::new("64M") else { return };
    let compare = |stores: &str, daos: &str| {
        let words = ["bench", "compare", "--stores", stores, "--size", "4K", "--ops", "9"];
        let mut command =
            standin.command(&[&words[..], &["--rounds", "1", "--json", "-"]].concat());
        command.arg("--path").arg(&standin.site.dir);
        command.env("ESKER_BENCH_DAOS", daos).env("ESKER_BENCH_RADOS", "rados:x?conf=/no/such");
        command.output().unwrap()
    };
    let output = compare("rados,native,posix,daos", POOL);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["settings"]["stores"], serde_json::json!(["native", "posix", "daos"]));
    assert_eq!(report["absent"].as_object().unwrap().keys().collect::<Vec<_>>(), ["rados"]);
    assert!(report["compared"][0]["first_store_over"]["daos"].is_f64(), "{report}");
    assert!(standin.ok(&["cont", "list", POOL]).is_empty(), "nothing is left behind");
    let output = compare("rados,native,daos", "daos:none");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = report["absent"]["daos"].as_str().unwrap();
    assert!(reason.contains("daos pool list"), "{reason}");
    let output = compare("rados,daos", "daos:none");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("absent: daos:"), "{said}");
    let output = compare("native,daos:none", POOL);
    assert!(!output.status.success(), "a pool that is named must be there: {output:?}");
}

/// A library whose thread ends it if it is polled while the process releases it, and that tells how it is ended.
const POLLED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int is_polled, is_gone;
int daos_eq_poll(void) {
    is_polled = 1;
    usleep(20000);
    if (is_gone) abort();
    is_polled = 0;
    return 0;
}
int daos_eq_destroy(void) { fprintf(stderr, "queue %s ", is_polled ? "used" : "ended"); return 0; }
int daos_fini(void) { fprintf(stderr, "library ended\n"); return 0; }
__attribute__((destructor)) static void release(void) { is_gone = 1; usleep(100000); }
"#;

/// A library with all functions of libdaos that Esker uses. All succeed and do nothing, so no call that was launched
/// ever ends; but the one with this name returns `code`.
fn silent_library(site: &Site, failing: &str, code: i32) -> String {
    let rest = esker_daos::binding::SYMBOLS.iter().filter(|name| !POLLED.contains(*name));
    let code_of = |name: &str| if name == failing { code } else { 0 };
    let function = |name: &&str| format!("int {name}(void) {{ return {}; }}\n", code_of(name));
    let rest: String = rest.map(function).collect();
    let source = site.file(&format!("{failing}{code}.c"), format!("{POLLED}{rest}").as_bytes());
    let library = source.replace(".c", ".so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", &library, &source]);
    assert!(compiler.status().unwrap().success());
    library
}

#[test]
fn unanswered_request_to_a_system_times_out() {
    let late = refusal(&Site::new(), "none", 0);
    assert_eq!(late.0, "timed_out", "{}", late.1);
    assert!(late.1.contains("did not answer within 1 s") && late.1.contains("prod"), "{}", late.1);
}

/// The library is ended in order where nothing uses it, and left open where a call is in progress. In neither case is
/// it polled while it releases what it has.
#[test]
fn library_is_not_used_while_the_process_ends() {
    let site = Site::new();
    for (failing, code, ends) in [("none", 0, ""), ("daos_pool_connect2", -1005, END)] {
        let mut command = site.command(&["cont", "list", "daos:prod?timeout=1"]);
        command.env("ESKER_LIBDAOS", silent_library(&site, failing, code));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.ends_with(ends) && said.contains("library ended") != ends.is_empty(),
            "{said}"
        );
    }
}

/// Output of the library when it is ended.
const END: &str = "queue ended library ended\n";

/// The kind and the message of the error if a function of libdaos fails.
fn refusal(site: &Site, failing: &str, code: i32) -> (String, String) {
    let library = silent_library(site, failing, code);
    let mut command = site.command(&["--json", "cont", "list", "daos:prod?sys=x&timeout=1"]);
    let output = command.env("ESKER_LIBDAOS", library).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let envelope: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |name: &str| envelope["error"][name].as_str().unwrap().to_owned();
    (text("kind"), text("message"))
}

#[test]
fn errors_name_the_cause_of_daos() {
    let (site, connect) = (Site::new(), "daos_pool_connect2");
    for (failing, code, kind, words) in [
        ("daos_init", -2034, "timed_out", "start daos_agent"),
        ("daos_init", -1025, "timed_out", "start daos_agent"),
        ("daos_init", -1001, "no_permission", "socket of the agent"),
        ("daos_init", -2044, "no_permission", "certificate"),
        ("daos_init", -2029, "incompatible", "daos_agent version"),
        (connect, -1001, "no_permission", "access control list of the pool"),
        (connect, -1003, "invalid", "system \"x\""),
        (connect, -1005, "not_found", "daos pool list"),
        (connect, -1006, "timed_out", "dmg system query"),
        (connect, -1020, "timed_out", "dmg system query"),
        (connect, -2039, "timed_out", "majority"),
    ] {
        let (found, message) = refusal(&site, failing, code);
        assert_eq!(found, kind, "{failing} {code}: {message}");
        assert!(message.contains(words) && message.contains(&code.to_string()), "{message}");
    }
}
