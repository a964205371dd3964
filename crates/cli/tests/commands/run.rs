//! `esker run`: real programs on a file system that only they see.
use crate::support::Site;
use crate::support::mounts::read_only_with;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The interception library, built when the first test asks for it: a C library cannot be a dependency of a
/// program, so cargo does not build it by itself.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut build = Command::new(cargo);
        build.args(["build-for-tests", "--quiet"]);
        // The variables that cargo sets for tests would make it compile `ring`, and all that depends on it, again.
        let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if of_package.iter().any(|prefix| name.starts_with(prefix)) {
                build.env_remove(&*name);
            }
        }
        assert!(build.status().unwrap().success());
        let program = Path::new(env!("CARGO_BIN_EXE_esker"));
        let debug = program.parent().unwrap().parent().unwrap().join("debug");
        debug.join("libesker_preload.so")
    })
}

/// A file system in memory.
fn site() -> Site {
    let site = Site::in_memory();
    site.ok(&["pool", "create", "tank", "--size", "64M", "--targets", "2"]);
    let made = run(&site, &["--create"], &["true"]);
    assert!(made.status.success(), "{made:?}");
    site
}

fn run(site: &Site, options: &[&str], program: &[&str]) -> Output {
    let base = ["run", "tank/home"];
    let arguments = [&base, options, &["--"], program].concat();
    site.command(&arguments).env("ESKER_PRELOAD", library()).output().unwrap()
}

/// Standard output of a script of the shell that succeeds.
fn shell(site: &Site, script: &str) -> String {
    let output = run(site, &[], &["bash", "-euc", script]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The command `esker` is also a program that can run in `esker run`. Its output file appears at the mount point as a
/// whole.
#[test]
fn esker_command_writes_files_at_the_mount_point() {
    let site = site();
    site.ok(&["pool", "create", "other", "--size", "32M", "--targets", "1"]);
    site.ok(&["cont", "create", "other", "run1"]);
    let file = site.file("input", b"content");
    site.ok(&["array", "put", "other", "run1", "field", &file]);
    let get = format!("{} array get other/run1 field -o", env!("CARGO_BIN_EXE_esker"));
    let said = shell(&site, &format!("{get} /esker/a; {get} /esker/a; cat /esker/a; ls -A /esker"));
    assert_eq!(said, "contenta\n");
    assert!(!Path::new("/esker/a").exists(), "only programs that are run see it");
}

#[test]
fn a_shell_writes_and_reads() {
    let site = site();
    assert_eq!(shell(&site, "echo hi >/esker/a; cat /esker/a; ls /esker"), "hi\na\n");
    assert_eq!(shell(&site, "cat /esker/a"), "hi\n", "another run");
    assert!(!Path::new("/esker/a").exists(), "only programs that are run see it");
}

/// The table of mounts that programs read through streams has a line for the mount point.
#[test]
fn df_names_the_container() {
    let site = site();
    let told =
        shell(&site, "touch /esker/a; df --output=source,fstype,target /esker/a | tail -n 1");
    let words: Vec<_> = told.split_whitespace().collect();
    assert_eq!(words, ["tank/home", "fuse.esker", "/esker"]);
    let told = shell(&site, "df --output=target");
    assert_eq!(told.lines().filter(|line| *line == "/esker").count(), 1, "{told}");
    let told = shell(&site, "cat /proc/self/mountinfo");
    assert!(!told.contains("fuse.esker /esker"), "descriptors read the kernel's table: {told}");
}

/// Opens walks by `fts` in the mount point, relative to it, and of a directory outside. Prints the number of entries,
/// or the error: `ENOTSUP` has the number of `EOPNOTSUPP`.
const WALKS: &str = "import ctypes, errno, os
c = ctypes.CDLL(None, use_errno=True)
c.fts_open.restype = c.fts_read.restype = ctypes.c_void_p
c.fts_read.argtypes = [ctypes.c_void_p]
def walk(root):
    walk = c.fts_open((ctypes.c_char_p * 2)(root, None), 16, None)
    if not walk:
        return errno.errorcode[ctypes.get_errno()]
    found = 0
    while c.fts_read(walk):
        found += 1
    return found
os.mkdir('outside')
open('outside/a', 'w').close()
outside = os.path.abspath('outside').encode()
os.chdir('/esker')
open('b', 'w').close()
print(walk(b'/esker'), walk(b'.'), walk(outside), os.getcwd(), os.path.exists('b'))";

#[test]
fn walks_by_fts_are_refused() {
    let site = site();
    let mut command = site.command(&["run", "tank/home", "--", "python3", "-c", WALKS]);
    let output = command.env("ESKER_PRELOAD", library()).current_dir(&site.dir).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told, "ENOTSUP ENOTSUP 3 /esker True\n");
    let warned = String::from_utf8(output.stderr).unwrap();
    assert_eq!(warned.matches("esker mount").count(), 1, "{warned}");
}

/// The dashes before the program may be left out, and its options are its own.
#[test]
fn a_program_follows_the_container() {
    let site = site();
    shell(&site, "echo hi >/esker/a");
    let run = |arguments: &[&str]| {
        let mut command = site.command(&[&["run"], arguments].concat());
        let output = command.env("ESKER_PRELOAD", library()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(&["tank/home", "ls", "-A", "/esker"]), "a\n");
    assert_eq!(run(&["tank/home", "--mount", "/scratch", "ls", "--", "/scratch"]), "a\n");
    assert_eq!(run(&["--read-only", "tank/home", "--", "ls", "-A", "/esker"]), "a\n");
}

/// A library that records calls, as Darshan's, which removes files through the next one.
const RECORDER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int unlinkat(int dir, const char *path, int flags) {
    int (*next)(int, const char *, int) = (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");
    dprintf(2, "recorded %s\n", path);
    return next(dir, path, flags);
}
"#;

#[test]
fn libraries_that_are_preloaded_already_see_all_calls() {
    let site = site();
    let (source, recorder) = (site.dir.join("recorder.c"), site.dir.join("recorder.so"));
    std::fs::write(&source, RECORDER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&recorder, &source]).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    // The second one is started by a shell that names the recorder alone.
    let script = "touch /esker/a /esker/b; rm /esker/a; LD_PRELOAD=$0 rm /esker/b; ls /esker";
    let named = recorder.to_str().unwrap();
    let arguments = ["run", "tank/home", "--", "bash", "-euc", script, named];
    let mut command = site.command(&arguments);
    let output =
        command.env("ESKER_PRELOAD", library()).env("LD_PRELOAD", &recorder).output().unwrap();
    // It also sees what `esker` itself removes.
    let recorded = String::from_utf8_lossy(&output.stderr);
    let recorded: Vec<&str> = recorded.lines().filter(|line| line.contains("/esker/")).collect();
    assert_eq!(recorded, ["recorded /esker/a", "recorded /esker/b"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
}

/// A copy of the interception library in `folder`.
fn copy_library(folder: &Path) -> PathBuf {
    std::fs::create_dir(folder).unwrap();
    let copy = folder.join("libesker_preload.so");
    std::fs::copy(library(), &copy).unwrap();
    copy
}

/// Standard error of a program that accesses a file outside, then one inside.
fn refusal(site: &Site, library: &Path) -> String {
    let script = "stat $0 >/dev/null; ! stat /esker/a";
    let named = site.dir.to_str().unwrap();
    let arguments = ["run", "tank/home", "--", "bash", "-euc", script, named];
    let output = site.command(&arguments).env("ESKER_PRELOAD", library).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn without_the_library_of_the_file_system_only_the_mount_point_fails() {
    let site = site();
    let error = refusal(&site, &copy_library(&site.dir.join("alone")));
    assert!(error.contains("/esker cannot be opened: libesker_preload_store.so was not found"));
}

#[test]
fn a_library_of_another_build_is_refused() {
    let site = site();
    let folder = site.dir.join("other");
    let copy = copy_library(&folder);
    let other = folder.join("libesker_preload_store.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-x", "c", "-o"]).arg(&other).arg("-");
    let mut compiler = compiler.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let code = "void *esker_preload_table(unsigned long fingerprint) { return (void *)(fingerprint * 0); }";
    std::io::Write::write_all(&mut compiler.stdin.take().unwrap(), code.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let error = refusal(&site, &copy);
    assert!(error.contains("libesker_preload_store.so is of another version"), "{error}");
}

/// The shell itself accesses nothing; each program has a process of its own.
#[test]
fn only_programs_that_access_the_mount_point_load_the_file_system() {
    let site = site();
    let script = "count() { \"$@\" | grep -c preload_store || true; }
                  count cat /proc/self/maps
                  bash -c 'echo text >/esker/a'; count cat /proc/self/maps
                  count cat /esker/a /proc/self/maps";
    let found = shell(&site, script);
    let counts: Vec<u32> = found.lines().map(|line| line.parse().unwrap()).collect();
    assert!(matches!(counts[..], [0, 0, more] if more > 0), "{found}");
}

/// Without a copy, and for reading only: each has the bytes of an export, also for programs that inherit it open.
#[test]
fn tensors_are_files_of_hdf5() {
    let site = site();
    let mut header = String::from("{'descr': '<u2', 'fortran_order': False, 'shape': (40, 30), }");
    header.push_str(&" ".repeat(118 - 1 - header.len()));
    header.push('\n');
    let elements: Vec<u8> = (0..2400).map(|at: u32| (at ^ at >> 8) as u8).collect();
    let npy = [b"\x93NUMPY\x01\0v\0", header.as_bytes(), &elements].concat();
    for (name, chunks) in [("rows", "40,30"), ("run/1/boxes", "16,7")] {
        site.feed(&["tensor", "put", "tank/t", "-", "--name", name, "--chunks", chunks], &npy);
        let file = site.dir.join(name.replace('/', "-")).display().to_string();
        site.ok(&["tensor", "export", "tank/t", name, &file]);
    }
    let script = "cd /esker; find . | sort; cmp rows.h5 $0/rows; cmp run/1/boxes.h5 $0/run-1-boxes
                  exec 3<rows.h5; (head -c 100 >/dev/null) <&3; cat <&3 | wc -c
                  ! touch new; ! rm rows.h5; test ! -e none.h5";
    let dir = site.dir.display().to_string();
    let arguments = ["run", "tank/t", "--", "bash", "-euc", script, &dir];
    let output = site.command(&arguments).env("ESKER_PRELOAD", library()).output().unwrap();
    let bytes = std::fs::metadata(site.dir.join("rows")).unwrap().len();
    let said = String::from_utf8(output.stdout).unwrap();
    let (listed, left) = said.trim_end().rsplit_once('\n').unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(listed, ".\n./rows.h5\n./run\n./run/1\n./run/1/boxes.h5");
    // The programs share the offset; head may have read more than it wrote.
    assert!(left.parse::<u64>().unwrap() <= bytes - 100, "{left} of {bytes}");
}

#[test]
fn descriptors_are_shared_over_fork_and_exec() {
    let script =
        "exec 3<>/esker/log; echo one >&3; (echo two >&3); /bin/echo three >&3; rm /esker/log
                  /bin/echo four >&3; cat /proc/self/fd/3";
    assert_eq!(shell(&site(), script), "one\ntwo\nthree\nfour\n");
}

/// The files of both containers have the same ids, since the same steps made them. Only the container tells them apart.
#[test]
fn inherited_descriptor_does_not_reach_another_container() {
    let site = site();
    let esker = env!("CARGO_BIN_EXE_esker");
    shell(&site, "echo home >/esker/file");
    let other = format!("{esker} run --create tank/other -- bash -c");
    shell(&site, &format!("cd /; {other} 'echo other >/esker/file'"));
    let said = format!("exec 5<>/esker/file; cd /; {other} 'cat <&5; ! echo overwritten >&5'");
    assert_eq!(shell(&site, &said), "");
    assert_eq!(
        shell(&site, &format!("cd /; {other} 'cat /esker/file'; cat /esker/file")),
        "other\nhome\n"
    );
}

#[test]
fn names_and_directories_work() {
    let script =
        "cd /esker; mkdir -p d/e; echo x >d/e/f; mv d/e d/g; mv d/g/f d/g/h; ln -s g/h d/l; cat d/l
                  cd d/g; pwd; cat ../g/h; cd ../../..; pwd; rm -r /esker/d; ls /esker";
    assert_eq!(shell(&site(), script), "x\n/esker/d/g\nx\n/\n");
}

#[test]
fn tools_edit_and_pack() {
    let script =
        "cd /esker; printf 'a\\nb\\n' >t; sed -i s/b/c/ t; tail -n 1 t; tar cf x.tar t; mkdir y
                  tar xf x.tar -C y; cmp t y/t; cp t u; mv -f u t; stat -c %s t";
    assert_eq!(shell(&site(), script), "c\n4\n");
}

#[test]
fn locks_exclude_between_processes() {
    let script = "cd /esker; : >lock; exec 9>lock; flock 9; flock -n lock true && echo taken
                  flock -u 9; flock -n lock echo free
                  exec 9<.; flock 9; flock -n . true && echo taken
                  flock -u 9; flock -n . echo free too";
    assert_eq!(shell(&site(), script), "free\nfree too\n");
}

#[test]
fn lock_files_are_removed_after_use() {
    let site = site();
    let script = "cd /esker; exec 8>one 9>two; flock 8; for n in 1 2 3; do (echo $n >&9); done
                  exec 8>&-; (exec 7>three; flock 7); flock four true; ls $ESKER_LOCKS";
    let during = shell(&site, script);
    let list = site.json(&["cont", "list", "tank"]);
    let uuid = list[0]["uuid"].as_str().unwrap();
    assert_eq!(during.matches(uuid).count(), 1, "two is open:\n{during}");
    assert_eq!(shell(&site, "ls $ESKER_LOCKS").matches(uuid).count(), 0);
    // Lock files that a process keeps are removed too, and those of files that are open at its end.
    shell(&site, "perl -e 'for (1..40) { open F, \">/esker/f$_\"; flock F, 2; close F } exit 0'");
    shell(&site, "perl -e 'open F, \">/esker/f\"; flock F, 2; use POSIX; POSIX::_exit(0)'");
    assert_eq!(shell(&site, "ls $ESKER_LOCKS").matches(uuid).count(), 0);
}

#[test]
fn removed_file_that_is_open_at_exit_is_freed() {
    let site = site();
    for end in ["exit 0", "use POSIX; POSIX::_exit(0)"] {
        let script =
            format!("open F, '>/esker/gone'; print F 'text' x 1000; unlink '/esker/gone'; {end}");
        shell(&site, &format!("perl -e \"{script}\""));
        let checked = site.json(&["fs", "check", "tank/home"]);
        assert_eq!(checked["leftovers"]["files"], 0, "{end}: {checked}");
    }
}

/// Permissions of the folder for locks, and of a lock file in it that is in use.
fn lock_permissions(site: &Site, pool: &str) -> String {
    let script = "exec 9>/esker/f; flock 9; stat -c %a $ESKER_LOCKS $ESKER_LOCKS/*.*";
    let arguments = ["run", "--create", &format!("{pool}/locked"), "--", "bash", "-euc", script];
    let output = site.command(&arguments).env("ESKER_PRELOAD", library()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Removes the folder for locks, in which nothing stays but the table of mapped files.
fn remove_locks(site: &Site, pool: &str) {
    let folder = site.dir.join(pool).join("locks");
    std::fs::remove_file(folder.join("mapped")).unwrap();
    std::fs::remove_dir(folder).unwrap();
}

#[test]
fn only_users_of_the_pool_may_lock() {
    let site = site();
    assert_eq!(lock_permissions(&site, "tank"), "700\n600\n");
    remove_locks(&site, "tank");
    assert_eq!(lock_permissions(&site, "tank"), "700\n600\n", "a pool of the first release");
    let group = Command::new("id").arg("-gn").output().unwrap().stdout;
    let group = String::from_utf8(group).unwrap();
    site.ok(&[
        "pool",
        "create",
        "team",
        "--size",
        "32M",
        "--targets",
        "1",
        "--group",
        group.trim(),
    ]);
    assert_eq!(lock_permissions(&site, "team"), "2770\n660\n");
    remove_locks(&site, "team");
    assert_eq!(lock_permissions(&site, "team"), "2770\n660\n", "a pool of the first release");
    site.ok(&["pool", "destroy", "team", "--recursive"]);
}

/// The pool has a directory of locks, but nothing can be made in it while the pool is mounted read-only.
#[test]
fn locks_are_in_another_directory_if_the_pool_is_read_only() {
    let site = site();
    shell(&site, "echo hi >/esker/a");
    let folder = site.dir.join("tank/locks");
    assert!(folder.is_dir());
    let script = "exec 9</esker/a; flock 9; cat /esker/a; echo in $ESKER_LOCKS";
    let command = format!("run --read-only tank/home -- bash -euc '{script}'");
    let ran = read_only_with(&site, &command, |command| {
        command.env("ESKER_PRELOAD", library());
    });
    let Some((fine, said)) = ran else { return };
    assert!(fine && said.starts_with("hi\nin /"), "{said}");
    assert!(!said.contains(&*folder.to_string_lossy()), "{said}");
}

#[test]
fn children_that_close_everything_leave_the_store_alone() {
    let script =
        "exec 5>/esker/f; for fd in $(seq 3 1023); do eval \"exec $fd>&-\" 2>/dev/null || :; done
                  echo fine >/esker/f; cat /esker/f";
    assert_eq!(shell(&site(), script), "fine\n");
}

#[test]
fn read_only_runs_refuse_changes() {
    let site = site();
    shell(&site, "echo hi >/esker/a");
    let refused = run(&site, &["--read-only"], &["bash", "-c", "echo no >/esker/a"]);
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("Read-only file system"), "{said}");
    let writable = run(&site, &["--read-only"], &["bash", "-c", "test -r /esker/a -a -w /esker/a"]);
    assert_eq!(writable.status.code(), Some(1), "access(W_OK)");
    assert_eq!(shell(&site, "cat /esker/a"), "hi\n");
}

#[test]
fn the_status_is_that_of_the_program() {
    let site = site();
    assert_eq!(run(&site, &[], &["bash", "-c", "exit 7"]).status.code(), Some(7));
    let killed = &["bash", "-c", "kill -9 $$"];
    assert_eq!(run(&site, &[], killed).status.signal(), Some(9));
    assert_eq!(run(&site, &["--report"], killed).status.code(), Some(137));
    assert_eq!(run(&site, &[], &["/no/such/program"]).status.code(), Some(127));
}

/// The program gets the signals that a job scheduler sends to the command, and the report is printed.
#[test]
fn signals_reach_a_program_with_report() {
    let site = site();
    let cases = [("TERM", "", 143), ("HUP", "", 129), ("TERM", "trap 'exit 7' TERM;", 7)];
    let fifo = site.dir.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (signal, trap, code) in cases {
        // The program waits on a pipe that nobody writes to.
        let script = format!("{trap} echo started; read -r line <>{}", fifo.display());
        let arguments = ["run", "tank/home", "--report", "--", "bash", "-c", &script];
        let mut command = site.command(&arguments);
        command.env("ESKER_PRELOAD", library()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        let sent =
            Command::new("kill").args([&format!("-{signal}"), &run.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{signal}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("calls that were served"), "{signal}: {said}");
    }
}

#[test]
fn the_report_counts_what_was_served() {
    let output = run(&site(), &["--report"], &["bash", "-c", "echo hi >/esker/a; cat /esker/a"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("calls that were served") && said.contains("open"), "{said}");
}

/// A program without a loader cannot be run here, so it is checked before the start.
#[test]
fn warning_for_programs_that_a_shell_starts() {
    let site = site();
    let program = site.dir.join("static");
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(b"\x7fELF");
    std::fs::write(&program, bytes).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let script =
        format!("{0}; env {0}; PATH={1}:$PATH; static", program.display(), site.dir.display());
    let output = run(&site, &["--report"], &["bash", "-c", &script]);
    let said = String::from_utf8(output.stderr).unwrap();
    let (warned, report) = said.split_once("calls that were served").unwrap();
    assert_eq!(warned.matches("esker: warning").count(), 1, "{said}");
    assert!(warned.contains("static is statically linked"), "{said}");
    assert!(report.contains("static is statically linked"), "{said}");
}

/// The first `static` on PATH may not be executed, so the second one is run.
#[test]
fn warning_is_about_the_program_that_is_executed() {
    let site = site();
    let folders = ["first", "second"].map(|name| site.dir.join(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(b"\x7fELF");
    std::fs::write(folders[0].join("static"), bytes).unwrap();
    let script = folders[1].join("static");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(folders.iter().map(PathBuf::from).chain(["/bin".into()]));
    let mut command = site.command(&["run", "tank/home", "--", "static"]);
    command.env("ESKER_PRELOAD", library()).env("PATH", path.unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn the_report_names_libraries_that_cannot_be_copied() {
    let script = ": >$ESKER_RUN_DIR/libraries; echo text >/esker/it.so
                  enable -f /esker/it.so it || enable -f /esker/missing.so it || enable -f /no/where.so it || true";
    let output = run(&site(), &["--report"], &["bash", "-c", script]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("was not loaded").count(), 1, "{said}");
    assert!(said.contains("the library /esker/it.so was not loaded"), "{said}");
}

/// A program that changes its working directory finds the same pools.
#[test]
fn relative_pool_directories_lead_to_the_same_pools_from_anywhere() {
    let site = site();
    let script = "cd /; echo $ESKER_POOLS; \"$ESKER\" pool list";
    let mut command = site.command(&["run", "tank/home", "--", "sh", "-c", script]);
    command.env("ESKER_PRELOAD", library()).env("ESKER", crate::support::esker());
    let output = command.env("ESKER_POOLS", ".:pools").current_dir(&site.dir).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let here = site.dir.display();
    assert!(said.starts_with(&format!("{here}:{here}/pools\n")), "{said}");
    assert!(said.contains("tank"), "{said}");
}

#[test]
fn another_mount_point_serves_as_well() {
    let output =
        run(&site(), &["--mount", "/data/set/"], &["bash", "-c", "cd /data/set; pwd; ls -d ."]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "/data/set\n.\n");
    let refused = run(&site(), &["--mount", "here"], &["true"]);
    assert_eq!(refused.status.code(), Some(1));
}
