//! Pools over nodes: created, asked, restarted and destroyed, with several engines on this machine.
use crate::support::{NO_BENCH, Site, has_bench, wait_for};
use esker::Wait;
use esker::types::info::OpenMode;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A directory of pools in which nothing is left running.
struct Nodes {
    site: Site,
}

impl Nodes {
    fn new() -> Self {
        Self { site: Site::in_memory() }
    }

    /// Creates a pool `tank` over `nodes` engines on this machine.
    fn with_pool(nodes: usize) -> Self {
        let it = Self::new();
        let made = it.site.json(&create(&["--launcher", "local", "--nodes", &nodes.to_string()]));
        assert_eq!(made["nodes"].as_array().unwrap().len(), nodes);
        it
    }

    fn node_pool(&self, number: usize) -> PathBuf {
        self.site.dir.join(format!("tank.{number}"))
    }

    fn map(&self) -> PathBuf {
        self.site.dir.join("tank.map")
    }

    /// Names of the entries in the directory.
    fn left(&self) -> Vec<String> {
        let entries = self.site.dir.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Processes with the pool of a node in this directory on their command line.
    fn engines(&self) -> Vec<i32> {
        let processes = Path::new("/proc").read_dir().unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let wanted = format!("{}/", self.site.dir.display());
        let is_engine = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            words.contains("engine run") && words.contains(&wanted)
        };
        numbers.filter(is_engine).collect()
    }

    /// The process that serves a node's pool.
    fn engine(&self, number: usize) -> i32 {
        let directory = self.node_pool(number);
        let serves = |pid: &&i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words
                .split(|byte| *byte == 0)
                .any(|word| word == directory.as_os_str().as_encoded_bytes())
        };
        *self.engines().iter().find(serves).unwrap()
    }

    /// Kills the engine of a node, and removes the node's pool.
    fn lose(&self, number: usize) {
        let engine = self.engine(number);
        signal(engine, "KILL").unwrap();
        // Its command line goes first, and its port stays open for a moment.
        wait_for("the engine ends", || has_ended(engine));
        std::fs::remove_dir_all(self.node_pool(number)).unwrap();
    }

    /// A script in place of `ssh`, which runs a command on this machine, after `before`.
    fn fake_ssh(&self, before: &str) -> String {
        let text = format!(
            "#!/bin/sh\nhost=$1\nshift\necho \"$host\" >>{}/reached\n{before}\nexec sh -c \"$*\"\n",
            self.site.dir.display()
        );
        let path = self.site.file("ssh", text.as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for pid in self.engines() {
            let _ = signal(pid, "KILL");
        }
    }
}

fn signal(pid: i32, name: &str) -> std::io::Result<std::process::ExitStatus> {
    Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status()
}

/// True once a process has closed its files, even if its parent has not waited for it: only its first thread is left.
fn has_ended(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads == 0 || threads == 1 && state.contains(") Z ")
}

/// Arguments that create a pool `tank`, followed by `more`.
fn create<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["pool", "create", "tank", "--size", "16M", "--targets", "2"], more].concat()
}

/// Starts an engine by hand; returns what it says once it is ready.
fn run_engine(site: &Site, arguments: &[&str]) -> (Child, Value) {
    let mut command = site.command(&[&["engine", "run"], arguments].concat());
    let mut engine = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(engine.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not ready: {line:?}"));
    (engine, ready)
}

/// State of each node in a response about a pool.
fn states(response: &Value) -> Vec<String> {
    let nodes = response["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["state"].as_str().unwrap().to_owned()).collect()
}

/// The response and the error message of a command that fails.
fn trouble(site: &Site, arguments: &[&str]) -> (Value, String) {
    let envelope = site.failure(arguments);
    let message = envelope["error"]["message"].as_str().unwrap().to_owned();
    (envelope["response"].clone(), message)
}

#[test]
fn a_pool_over_nodes_is_made_asked_and_removed() {
    let nodes = Nodes::with_pool(3);
    let site = &nodes.site;
    for private in [nodes.map(), site.dir.join("tank.0.log")] {
        let mode = private.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", private.display());
    }
    let findings = site.json(&["doctor"]);
    let is_pool = |finding: &&Value| finding["check"] == "pool";
    assert_eq!(findings.as_array().unwrap().iter().filter(is_pool).count(), 3, "{findings}");
    let info = site.json(&["pool", "query", "tank"]);
    assert_eq!((states(&info), &info["targets"]), (vec!["up".to_owned(); 3], &json!(6)));
    let url = format!("nodes:{}", nodes.map().canonicalize().unwrap().display());
    assert_eq!(info["url"], json!(url));
    for name in [url.as_str(), info["uuid"].as_str().unwrap()] {
        assert_eq!(site.json(&["pool", "query", name])["uuid"], info["uuid"], "{name}");
    }
    let list = site.json(&["pool", "list"]);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["label"]), (1, &json!("tank")));
    let text = site.ok(&["pool", "list"]);
    assert!(text.contains("tank.2") && text.contains(", up"), "{text}");
    let checked = site.json(&["pool", "check", "tank"]);
    assert_eq!(
        (&checked["nodes"][2]["problems"], &checked["nodes"][2]["node"]),
        (&json!([]), &json!(2))
    );
    site.ok(&["pool", "check", &format!("esker:{}", nodes.node_pool(1).display())]);
    site.ok(&["cont", "create", "tank", "run1"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "step", "1"]);
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "step"]), "1");
    assert_eq!(site.json(&["pool", "query", "tank"])["containers"], json!(1));
    let user = esker::Pool::connect(&url, OpenMode::ReadWrite).unwrap();
    let open = user.open_container("run1", OpenMode::ReadWrite).wait().unwrap();
    assert_eq!(site.fails(&["pool", "destroy", "tank"]).0, "busy");
    drop((open, user));
    assert_eq!(site.fails(&["pool", "destroy", "tank"]).0, "not_empty");
    assert_eq!(site.json(&["pool", "destroy", "tank", "--recursive"])["url"], json!(url));
    wait_for("the engines end", || nodes.engines().is_empty());
    assert_eq!(nodes.left(), [""; 0]);
}

#[test]
fn a_killed_engine_is_named_and_starts_again() {
    let nodes = Nodes::with_pool(3);
    let site = &nodes.site;
    let before = site.json(&["pool", "query", "tank"]);
    let killed = nodes.engine(1);
    signal(killed, "KILL").unwrap();
    wait_for("the engine ends", || !nodes.engines().contains(&killed));
    let (info, message) = trouble(site, &["pool", "query", "tank"]);
    assert_eq!(states(&info), ["up", "down", "up"]);
    assert!(message.contains("localhost.1") && message.contains("--node 1"), "{message}");
    assert_eq!(trouble(site, &["pool", "list"]).0[0]["nodes"][1]["state"], json!("down"));
    let (_, message) = trouble(site, &["pool", "check", "tank"]);
    assert!(message.contains("localhost.1") && message.contains("--node 1"), "{message}");
    let (_, message) = trouble(site, &["pool", "destroy", "tank"]);
    assert!(message.contains("--force"), "{message}");

    let map = nodes.map().display().to_string();
    let (mut engine, ready) = run_engine(site, &["--map", &map, "--node", "1"]);
    assert_eq!(ready["address"], before["nodes"][1]["address"]);
    assert_eq!(states(&site.json(&["pool", "query", "tank"])), ["up"; 3]);
    let twice = site.command(&["engine", "run", "--map", &map, "--node", "1"]).output().unwrap();
    let said = String::from_utf8(twice.stderr).unwrap();
    assert!(!twice.status.success() && said.contains("another engine serves"), "{said}");

    signal(engine.id().try_into().unwrap(), "TERM").unwrap();
    assert!(engine.wait().unwrap().success());
    let (_, message) = trouble(site, &["pool", "destroy", "tank", "--force"]);
    assert!(message.contains("tank.1 on localhost.1"), "{message}");
    assert!(nodes.node_pool(1).exists() && !nodes.node_pool(0).exists() && !nodes.map().exists());
    site.ok(&["pool", "destroy", &format!("esker:{}", nodes.node_pool(1).display())]);
}

/// Success and output of `esker` as a remote client of all nodes, by this provider of libfabric.
fn by(provider: &str, site: &Site, arguments: &[&str]) -> (bool, String) {
    let mut command = site.command(arguments);
    let done = command.env("ESKER_NODE", "none").env("FI_PROVIDER", provider).output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn clients_reach_engines_over_the_fabric() {
    let nodes = Nodes::new();
    let site = &nodes.site;
    site.ok(&create(&["--launcher", "local", "--nodes", "2", "--transport", "fabric"]));
    let map = std::fs::read_to_string(nodes.map()).unwrap();
    assert!(map.contains("\"transport\": \"fabric\""), "{map}");
    let provider = "tcp;ofi_rxm";
    let (made, said) = by(provider, site, &["cont", "create", "tank", "run1"]);
    if said.contains("cannot be loaded") {
        return esker_testing::skip(said);
    }
    assert!(made, "{said}");
    for key in ["a", "b", "c", "d", "e", "f"] {
        let put = by(provider, site, &["kv", "put", "tank", "run1", "index", key, key]);
        assert!(put.0, "{}", put.1);
        let got = by(provider, site, &["kv", "get", "tank", "run1", "index", key]);
        assert_eq!(got, (true, key.to_owned()));
    }
    let (listed, said) = by("no-such-provider", site, &["cont", "list", "tank"]);
    assert!(!listed && said.contains("FI_PROVIDER") && said.contains("node localhost"), "{said}");
    site.ok(&["pool", "destroy", "tank", "--recursive"]);
    wait_for("the engines end", || nodes.engines().is_empty());
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let nodes = Nodes::new();
    let site = &nodes.site;
    site.ok(&create(&["--launcher", "local", "--nodes", "1", "--transport", "fabric"]));
    let mut command = site.command(&["cont", "list", "tank"]);
    let command = command.env("ESKER_NODE", "none").env("ESKER_LIBFABRIC", "/none/libfabric.so");
    let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(said.contains("install it") && said.contains("libfabric1"), "{said}");
    assert!(said.contains("node localhost"), "{said}");
}

#[test]
fn quiet_creation_and_destruction_print_nothing() {
    let nodes = Nodes::new();
    let made = nodes.site.ok(&create(&["--launcher", "local", "--nodes", "1", "-q"]));
    let destroyed = nodes.site.ok(&["pool", "destroy", "tank", "-q"]);
    assert_eq!((made, destroyed), (String::new(), String::new()));
}

#[test]
fn tls_over_the_fabric_is_refused() {
    let nodes = Nodes::new();
    let both = ["--launcher", "local", "--transport", "fabric", "--tls"];
    let (_, message) = trouble(&nodes.site, &create(&both));
    assert!(message.contains("not both"), "{message}");
    assert!(nodes.left().is_empty());
}

#[test]
fn a_pool_with_tls_is_used_with_tls_only() {
    let nodes = Nodes::new();
    let site = &nodes.site;
    let made = site.json(&create(&["--launcher", "local", "--nodes", "2", "--tls"]));
    assert_eq!((&made["tls"], &made["transport"]), (&json!(true), &json!("tcp")));
    assert_eq!(site.json(&["pool", "query", "tank"])["tls"], json!(true));
    assert!(site.ok(&["pool", "query", "tank"]).contains("TLS 1.3"));
    // Runs a command as a process on another node.
    let away = |arguments: &[&str]| {
        let made = site.command(arguments).env("ESKER_NODE", "none").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        String::from_utf8(made.stdout).unwrap()
    };
    away(&["cont", "create", "tank", "run1"]);
    away(&["kv", "put", "tank", "run1", "index", "step", "1"]);
    assert_eq!(away(&["kv", "get", "tank", "run1", "index", "step"]), "1");

    // An engine that is started again by the map has TLS, too.
    signal(nodes.engine(1), "TERM").unwrap();
    wait_for("the engine ends", || nodes.engines().len() == 1);
    let map = nodes.map().display().to_string();
    let (mut engine, _) = run_engine(site, &["--map", &map, "--node", "1"]);
    assert_eq!(states(&site.json(&["pool", "query", "tank"])), ["up"; 2]);

    // Clients without TLS are refused.
    let text = std::fs::read_to_string(&map).unwrap();
    let plain = site.file("plain.map", text.replace("\"tls\": true,", "").as_bytes());
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (info, _) = trouble(site, &["pool", "query", &format!("nodes:{plain}")]);
    assert_eq!((states(&info), &info["tls"]), (vec!["down".to_owned(); 2], &json!(false)));
    engine.kill().unwrap();
    engine.wait().unwrap();
}

#[test]
fn an_engine_takes_the_open_files_that_it_needs() {
    let nodes = Nodes::with_pool(1);
    signal(nodes.engine(0), "TERM").unwrap();
    wait_for("the engine ends", || nodes.engines().is_empty());
    let map = nodes.map().display().to_string();
    let limited = |limits: &str| {
        let engine = nodes.site.command(&["engine", "run", "--map", &map]);
        let words = engine.get_args().map(|word| word.to_str().unwrap());
        let program = engine.get_program().to_str().unwrap();
        let line = [&["exec", program], &words.collect::<Vec<_>>()[..]].concat().join(" ");
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits} && {line}"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let failed = limited("ulimit -n 1000").wait_with_output().unwrap();
    let said = String::from_utf8(failed.stderr).unwrap();
    assert!(!failed.status.success() && said.contains("ulimit -Hn"), "{said}");

    let mut engine = limited("ulimit -Sn 100 && ulimit -Hn 4000");
    let mut line = String::new();
    BufReader::new(engine.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("address"), "{line:?}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", engine.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("4000"), "{line}");
    engine.kill().unwrap();
    engine.wait().unwrap();
}

#[test]
fn engine_ends_with_its_pool_and_with_its_lifetime() {
    let nodes = Nodes::with_pool(2);
    let engine = nodes.engine(0);
    let pool = format!("esker:{}", nodes.node_pool(0).display());
    assert_eq!(nodes.site.fails(&["pool", "destroy", &pool]).0, "busy");
    nodes.site.ok(&["pool", "destroy", &pool, "--force"]);
    wait_for("the engine ends", || !nodes.engines().contains(&engine));

    let other = nodes.engine(1);
    signal(other, "INT").unwrap();
    wait_for("the engine ends", || nodes.engines().is_empty());
    let map = nodes.map().display().to_string();
    let (mut engine, _) = run_engine(&nodes.site, &["--map", &map, "--lifetime", "100ms"]);
    assert!(engine.wait().unwrap().success());
}

/// The secret comes from standard input, and the map need not exist.
#[test]
fn an_engine_takes_its_secret_from_standard_input() {
    let nodes = Nodes::with_pool(2);
    signal(nodes.engine(1), "TERM").unwrap();
    wait_for("the engine ends", || nodes.engines().len() == 1);
    let map: Value = serde_json::from_slice(&std::fs::read(nodes.map()).unwrap()).unwrap();
    let (address, pool) = (map["nodes"][1]["address"].as_str().unwrap(), nodes.node_pool(1));
    let pool = pool.display().to_string();
    let arguments =
        ["engine", "run", "--node-pool", &pool, "--secret-from-stdin", "--listen", address];
    let mut command = nodes.site.command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut engine = command.spawn().unwrap();
    writeln!(engine.stdin.take().unwrap(), "{}", map["secret"].as_str().unwrap()).unwrap();
    let mut line = String::new();
    BufReader::new(engine.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains(address), "{line}");
    assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"; 2]);
    engine.kill().unwrap();
    engine.wait().unwrap();
}

#[test]
fn a_pool_that_cannot_be_made_leaves_nothing() {
    let nodes = Nodes::new();
    let below = nodes.site.dir.join("a/b").display().to_string();
    let local = ["--launcher", "local", "--nodes", "2", "--dir", &below];
    let (_, message) = trouble(&nodes.site, &create(&local));
    assert!(message.contains("--parents"), "{message}");
    assert_eq!(nodes.left(), [""; 0]);
    let taken = nodes.site.dir.join("tank.1");
    std::fs::create_dir(&taken).unwrap();
    let (_, message) = trouble(&nodes.site, &create(&["--launcher", "local", "--nodes", "3"]));
    assert!(
        message.contains("node localhost.1: ") && message.contains("already exists"),
        "{message}"
    );
    assert_eq!(nodes.left(), ["tank.1"]);
    assert!(nodes.engines().is_empty());
}

fn hosts(count: usize) -> String {
    (1..=count).map(|number| format!("127.0.0.{number}")).collect::<Vec<_>>().join(",")
}

/// More nodes than one starter starts: those in between are started by others.
#[test]
fn a_tree_of_starters_starts_many_nodes() {
    let nodes = Nodes::new();
    let (ssh, hosts) = (nodes.fake_ssh(""), hosts(20));
    let made = nodes.site.json(&create(&["--launcher", "ssh", "--ssh", &ssh, "--hosts", &hosts]));
    let names = made["nodes"].as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap());
    assert!(names.eq(hosts.split(',')));
    let reached = std::fs::read_to_string(nodes.site.dir.join("reached")).unwrap();
    assert_eq!(reached.lines().count(), 20);
    assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"; 20]);
    nodes.site.ok(&["pool", "destroy", "tank"]);
    wait_for("the engines end", || nodes.engines().is_empty());
}

/// Nodes that cannot be reached are named, those below them too, and the others are cleaned up.
#[test]
fn nodes_that_cannot_be_reached_are_named() {
    let nodes = Nodes::new();
    let refuse = "case $host in 127.0.0.3) echo 'no route to host' >&2; exit 255;; esac";
    let (ssh, hosts) = (nodes.fake_ssh(refuse), hosts(12));
    let (_, message) =
        trouble(&nodes.site, &create(&["--launcher", "ssh", "--ssh", &ssh, "--hosts", &hosts]));
    assert!(message.contains("node 127.0.0.3: no route to host"), "{message}");
    wait_for("the engines end", || nodes.engines().is_empty());
    let mut left = nodes.left();
    left.sort_unstable();
    assert_eq!(left, ["reached", "ssh"]);
}

/// If `esker pool create` or a starter is killed, the nodes remove everything.
#[test]
fn killed_creation_leaves_nothing() {
    let nodes = Nodes::new();
    let fifo = nodes.site.dir.join("wait");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The last node waits for ever.
    let wait = format!("case $host in 127.0.0.3) exec cat {};; esac", fifo.display());
    let (ssh, hosts) = (nodes.fake_ssh(&wait), hosts(3));
    let arguments = create(&["--launcher", "ssh", "--ssh", &ssh, "--hosts", &hosts]);
    let mut creating = nodes.site.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    wait_for("two engines are there", || nodes.engines().len() == 2);
    creating.kill().unwrap();
    creating.wait().unwrap();
    wait_for("nothing is left", || {
        nodes.engines().is_empty() && !nodes.left().iter().any(|name| name.starts_with("tank"))
    });
    // Lets go the one that waits.
    let _ = std::fs::OpenOptions::new().read(true).write(true).open(&fifo);
}

/// The limit is checked before any node is reached.
#[test]
fn more_nodes_than_a_pool_can_have_are_refused() {
    let nodes = Nodes::new();
    let ssh = nodes.fake_ssh("");
    let named = ["--launcher", "ssh", "--ssh", &ssh, "--hosts", "n[1-513]"];
    let message = nodes.site.message(&create(&named));
    assert!(message.contains("at most 512 nodes") && message.contains("513"), "{message}");
    let output = nodes.site.run(&create(&["--launcher", "local", "--nodes", "513"]));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!nodes.site.dir.join("reached").exists());
}

#[test]
fn invalid_options_over_nodes_are_refused() {
    let nodes = Nodes::new();
    let kind = |more: &[&str]| nodes.site.fails(&create(more)).0;
    assert_eq!(kind(&["--hosts", "n1,n1"]), "invalid");
    assert_eq!(kind(&["--hosts", "n[1-"]), "invalid");
    assert_eq!(kind(&["--hosts", "n1", "--nodes", "2"]), "invalid");
    assert_eq!(kind(&["--hosts", "n1", "--group", "users"]), "not_supported");
    assert_eq!(kind(&["--hostfile", "/none/such"]), "not_found");
    for more in [&["--job"][..], &["--hosts", "a,b"], &["--ssh", "x"], &["--mpirun", "x"]] {
        let message = nodes.site.message(&create(&[&["--launcher", "local"], more].concat()));
        assert!(message.contains("--launcher local does not use --"), "{message}");
    }
    let mpirun = ["--hosts", "n1", "--launcher", "ssh", "--mpirun", "x"];
    assert_eq!(kind(&mpirun), "invalid");
    let lifetime = nodes.site.run(&create(&["--launcher", "local", "--lifetime", "0"]));
    assert_eq!(lifetime.status.code(), Some(2), "{lifetime:?}");
    let map = nodes.site.dir.join("none/x.map").display().to_string();
    let message = nodes.site.message(&create(&["--launcher", "local", "--map", &map]));
    assert!(message.contains("--parents"), "{message}");
    assert_eq!(nodes.left(), [""; 0]);
    // Each of these options is for pools over nodes only, and no node is named.
    for more in [
        &["--job"][..],
        &["--metrics", "0"],
        &["--lifetime", "1h"],
        &["--map", "x.map"],
        &["--ssh", "x"],
        &["--mpirun", "x"],
        &["--transport", "tcp"],
    ] {
        let mut outside = nodes.site.command(&create(more));
        let outside = outside.env_clear().env("ESKER_POOLS", &nodes.site.dir).output().unwrap();
        assert!(String::from_utf8(outside.stderr).unwrap().contains("not a job"), "{more:?}");
    }
}

#[test]
fn engines_listen_on_one_interface() {
    let nodes = Nodes::new();
    let none = ["--launcher", "local", "--interface", "none"];
    let message = nodes.site.message(&create(&none));
    assert!(message.contains("no network interface \"none\""), "{message}");
    let local = ["--launcher", "local", "--interface", "lo"];
    let made = nodes.site.json(&create(&local));
    let address = made["nodes"][0]["address"].as_str().unwrap();
    assert!(address.starts_with("127.0.0.1:") || address.starts_with("[::1]:"), "{address}");
    assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"]);
}

/// In a job of Slurm, the nodes are those of the job.
#[test]
fn the_nodes_of_a_job_are_found() {
    let nodes = Nodes::new();
    let ssh = nodes.fake_ssh("");
    let arguments = create(&["--job", "--launcher", "ssh", "--ssh", &ssh]);
    let mut command = nodes.site.command(&arguments);
    let made = command.env("SLURM_JOB_NODELIST", "127.0.0.[1-2]").output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"; 2]);
}

/// Response of an engine to an HTTP request: the first line and the text.
fn get(address: &str, request: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: esker\r\n\r\n").unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), text.to_owned())
}

#[test]
fn engine_serves_metrics_and_health() {
    let nodes = Nodes::with_pool(2);
    signal(nodes.engine(1), "TERM").unwrap();
    wait_for("the engine ends", || nodes.engines().len() == 1);
    let map = nodes.map().display().to_string();
    let (mut engine, ready) =
        run_engine(&nodes.site, &["--map", &map, "--node", "1", "--metrics", "0"]);
    let address = ready["metrics"].as_str().unwrap();
    assert!(address.starts_with("localhost:"), "{address}");
    nodes.site.ok(&["pool", "query", "tank"]);
    let (status, text) = get(address, "GET /metrics");
    assert!(status.ends_with("200 OK") && text.contains("# TYPE esker_"), "{status} {text}");
    assert_eq!(get(address, "GET /health").1, "ready\n");
    assert!(get(address, "GET /other").0.contains("404"));
    assert!(get(address, "POST /metrics").0.contains("405"));
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// Requests that an engine has answered.
fn requests(address: &str) -> u64 {
    let (_, text) = get(address, "GET /metrics");
    let counts = text.lines().filter(|line| line.starts_with("esker_engine_request_seconds_count"));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// A file system on a pool over one node, whose engine shows its metrics.
fn home_with_metrics(nodes: &Nodes) -> (Child, String) {
    signal(nodes.engine(0), "TERM").unwrap();
    wait_for("the engine ends", || nodes.engines().is_empty());
    let map = nodes.map().display().to_string();
    let arguments = ["--map", &map, "--node", "0", "--metrics", "0"];
    let (engine, ready) = run_engine(&nodes.site, &arguments);
    nodes.site.ok(&["cont", "create", "tank/home", "--type", "posix"]);
    (engine, ready["metrics"].as_str().unwrap().to_owned())
}

#[test]
fn a_listing_takes_few_requests() {
    const FILES: usize = 400;
    let nodes = Nodes::with_pool(1);
    let (mut engine, address) = home_with_metrics(&nodes);
    let (site, address) = (&nodes.site, address.as_str());
    let files: Vec<_> = (0..FILES).map(|number| format!("tank/home:/{number}")).collect();
    let touch: Vec<_> =
        ["fs", "touch"].into_iter().chain(files.iter().map(String::as_str)).collect();
    site.ok(&touch);
    let before = requests(address);
    let mut list = site.command(&["fs", "ls", "tank/home"]);
    let listed = list.env("ESKER_NODE", "none").output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap().lines().count(), FILES);
    let took = requests(address) - before;
    assert!((1..FILES as u64 / 4).contains(&took), "{took} requests");
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// Output of a Perl program that has the file system at `/esker`, and reaches it through engines only.
fn perl(nodes: &Nodes, program: &str) -> String {
    let mut run = nodes.site.command(&["run", "tank/home", "--", "perl", "-we", program]);
    let run = run.env("ESKER_PRELOAD", crate::run::library()).env("ESKER_NODE", "none");
    let output = run.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes files in a directory below another one.
const MAKE: &str = "$| = 1; my $dir = '/esker/outer/inner'; mkdir '/esker/outer'; mkdir $dir;
    for (1..100) { open F, '>', \"$dir/$_\" or die $!; print F 'text'; close F or die $! }";

/// Removals by paths that were seen before, while other processes change what is there.
#[test]
fn program_removes_what_its_paths_lead_to_now() {
    let nodes = Nodes::with_pool(1);
    let (mut engine, _) = home_with_metrics(&nodes);
    let program = format!(
        "{MAKE} sub gone {{ print unlink(\"$dir/$_[0]\") ? 'removed ' : ($!+0).' ' }}
        use Errno; use IPC::Open2; gone(1); gone(1);
        # Another process replaces a file, by a file and by a directory.
        system 'cd /esker/outer/inner; echo new >x; mv x 2; rm 3; mkdir 3; rm 4; ln -s 5 4'; gone(2); gone(2); gone(3); gone(4);
        # Another process holds a file open.
        my $reader = open2(my $out, my $in, 'bash', '-c', \"exec 3<$dir/6; echo; read; cat <&3\"); <$out>; gone(6);
        print $in \"go\\n\"; print <$out>, ' '; waitpid $reader, 0;
        # Another process moves the directory, and makes another one.
        system 'cd /esker/outer; mv inner moved; mkdir inner; echo new >inner/7'; gone(7); gone(8);
        system 'cd /esker/outer; ls inner; ls moved | grep -cx [5-9]'; $dir = '/esker/outer/moved'; gone(7);"
    );
    let said = perl(&nodes, &program);
    let (missing, is_directory) = (2, 21);
    let expected = format!(
        "removed {missing} removed {missing} {is_directory} removed removed text removed {missing} 4\nremoved "
    );
    assert_eq!(said, expected);
    assert_eq!(nodes.site.json(&["fs", "check", "tank/home"])["leftovers"]["files"], 0);
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// Also uses `mpiexec.hydra` if it is installed, which starts programs on this machine by itself.
#[test]
fn mpi_starts_each_node_by_a_command_of_its_own() {
    let nodes = Nodes::new();
    let text = format!(
        "#!/bin/sh\n[ \"$1 $2 $3\" = '-n 1 -host' ] || exit 9\necho \"$4\" >>{}/reached\nshift 4\nexec \"$@\"\n",
        nodes.site.dir.display()
    );
    let fake = nodes.site.file("mpirun", text.as_bytes());
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let hosts = (1..=10).map(|n| format!("127.0.0.{n}")).collect::<Vec<_>>().join(",");
    let made =
        nodes.site.json(&create(&["--launcher", "mpirun", "--mpirun", &fake, "--hosts", &hosts]));
    assert_eq!(made["nodes"].as_array().unwrap().len(), 10);
    let reached = std::fs::read_to_string(nodes.site.dir.join("reached")).unwrap();
    assert_eq!(reached.lines().count(), 10, "{reached}");
    nodes.site.ok(&["pool", "destroy", "tank"]);
    if Command::new("mpiexec.hydra").arg("--version").output().is_ok() {
        let mpi = ["--launcher", "mpirun", "--mpirun", "mpiexec.hydra", "--hosts", "localhost"];
        nodes.site.json(&create(&mpi));
        assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"]);
        nodes.site.ok(&["pool", "destroy", "tank"]);
    }
    wait_for("all engines end", || nodes.engines().is_empty());
}

/// Creates a pool over two nodes in a job, by a launcher that starts all nodes at once, with one standard input for all,
/// and stays as long as they do.
fn pool_of_a_job(more: &[&str]) -> Nodes {
    let nodes = Nodes::new();
    let dir = nodes.site.dir.display();
    let script = format!(
        "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do case $1 in --*=*|--overlap|--no-kill|--unbuffered) shift;; *) shift 2;; esac; done\n\
         mkfifo {dir}/in0 {dir}/in1\nSLURM_PROCID=0 \"$@\" <{dir}/in0 &\nSLURM_PROCID=1 \"$@\" <{dir}/in1 &\n\
         tee {dir}/in0 >{dir}/in1\nwait\nrm {dir}/in0 {dir}/in1\n"
    );
    let srun = nodes.site.file("srun", script.as_bytes());
    std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{dir}:{}", std::env::var("PATH").unwrap());
    let arguments = create(&[&["--job", "--json"], more].concat());
    let mut command = nodes.site.command(&arguments);
    command.env("PATH", path).env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "127.0.0.[1-2]");
    let made = command.output().unwrap();
    assert!(made.status.success(), "{made:?}");
    assert_eq!(states(&nodes.site.json(&["pool", "query", "tank"])), ["up"; 2]);
    nodes
}

#[test]
fn a_step_of_a_job_lasts_as_long_as_its_engines() {
    let nodes = pool_of_a_job(&[]);
    nodes.site.ok(&["pool", "destroy", "tank"]);
    wait_for("the step ends", || nodes.left() == ["srun"]);
}

/// A script in place of `srun`.
fn fake_srun(nodes: &Nodes, text: &str) -> std::process::Output {
    let srun = nodes.site.file("srun", text.as_bytes());
    std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", nodes.site.dir.display(), std::env::var("PATH").unwrap());
    let dir = nodes.site.dir.join("new").display().to_string();
    let arguments = create(&["--job", "--dir", &dir]);
    let mut command = nodes.site.command(&arguments);
    command.env("PATH", path).env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", "n[1-2]");
    command.output().unwrap()
}

/// One engine or node that fails must not end the others, whatever the site has configured.
#[test]
fn failed_step_of_a_job_is_explained_and_leaves_nothing() {
    let nodes = Nodes::new();
    let script = "#!/bin/sh\ncase \"$*\" in *--wait=0*--no-kill*) echo srun: nodes are busy >&2;; esac\nexit 1\n";
    let made = fake_srun(&nodes, script);
    let message = String::from_utf8(made.stderr).unwrap();
    assert!(message.contains("node n1: srun: nodes are busy"), "{message}");
    assert_eq!(nodes.left(), ["srun"]);
}

/// Processes that started these engines.
fn starters(engines: &[i32]) -> Vec<i32> {
    let parent = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap()
    };
    engines.iter().map(parent).collect()
}

/// Slurm signals the processes that it has started, which are not the engines.
#[test]
fn canceled_step_of_a_job_leaves_nothing() {
    let nodes = pool_of_a_job(&[]);
    nodes.site.ok(&["cont", "create", "tank", "run1"]);
    for starter in starters(&nodes.engines()) {
        signal(starter, "TERM").unwrap();
    }
    wait_for("the step ends", || nodes.left() == ["srun"]);
    assert_eq!(nodes.engines(), [0; 0]);
}

#[test]
fn canceled_step_of_a_job_keeps_pools_on_request() {
    let nodes = pool_of_a_job(&["--at-end", "keep"]);
    for starter in starters(&nodes.engines()) {
        signal(starter, "TERM").unwrap();
    }
    wait_for("the engines end", || nodes.engines().is_empty());
    assert!(nodes.node_pool(0).exists() && nodes.node_pool(1).exists() && nodes.map().exists());
}

/// A model says that it is one, and more nodes never take less time.
#[test]
fn the_start_of_many_nodes_is_modelled() {
    if !has_bench() {
        return esker_testing::skip(NO_BENCH);
    }
    let nodes = Nodes::new();
    let arguments = ["bench", "start", "--nodes", "1,8,512", "--size", "16M"];
    let text = nodes.site.ok(&arguments);
    assert!(text.starts_with("A model"), "{text}");
    let model = nodes.site.json(&arguments);
    assert!(model["host"]["cpus"].is_u64() && model["settings"]["version"].is_string(), "{model}");
    let starts = model["starts"].as_array().unwrap();
    let times: Vec<_> = starts.iter().map(|start| start["total_s"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.5 && starts[2]["depth"] == json!(3), "{starts:?}");
    assert!(nodes.left().is_empty());
}

fn problems(response: &Value) -> Vec<usize> {
    let nodes = response["nodes"].as_array().unwrap().iter();
    nodes.map(|node| node["problems"].as_array().map_or(0, Vec::len)).collect()
}

/// Containers and files of a lost node are listed as far as other nodes know them. The pool works again with a new,
/// empty pool of the node.
#[test]
fn objects_that_were_lost_with_a_node_are_listed() {
    let nodes = Nodes::with_pool(3);
    let site = &nodes.site;
    site.ok(&["cont", "create", "tank", "files", "--type", "posix"]);
    let file = site.file("file", b"what the file holds");
    let names: Vec<_> = (0..20).map(|number| format!("tank/files:/file-{number}")).collect();
    names.iter().for_each(|name| drop(site.ok(&["fs", "import", &file, name])));
    site.ok(&["kv", "put", "tank", "files", "spread", "key", "value"]);
    nodes.lose(2);

    let (found, message) = trouble(site, &["pool", "check", "tank"]);
    assert!(message.contains("localhost.2"), "{message}");
    let lost = &found["lost"][0];
    assert_eq!((&lost["label"], &lost["nodes"]), (&json!("files"), &json!(["localhost.2"])));
    assert_eq!(lost["oids"].as_array().unwrap().len() as u64, lost["objects"].as_u64().unwrap());
    assert!(lost["objects"].as_u64().unwrap() >= 1, "{lost}");
    let (report, message) = trouble(site, &["fs", "check", "tank/files"]);
    assert!(message.contains("localhost.2") && message.contains("--new-node-pool"), "{message}");
    assert_eq!(report["lost_nodes"], json!(["localhost.2"]));
    assert_eq!(site.fails(&["fs", "check", "tank/files", "--repair"]).0, "data_loss");

    let map = nodes.map().display().to_string();
    let refused = |node: &str, more: &[&str]| {
        let arguments = [&["engine", "run", "--map", &map, "--node", node], more].concat();
        String::from_utf8(site.command(&arguments).output().unwrap().stderr).unwrap()
    };
    assert!(refused("0", &["--new-node-pool"]).contains("list of containers"));
    assert!(refused("1", &["--new-node-pool"]).contains("is not gone"));
    assert!(refused("2", &[]).contains("--new-node-pool"));
    let (mut engine, _) = run_engine(site, &["--map", &map, "--node", "2", "--new-node-pool"]);
    let (found, _) = trouble(site, &["pool", "check", "tank"]);
    assert_eq!(problems(&found), [0, 0, 1], "{found}");
    assert_eq!(site.fails(&["kv", "get", "tank", "files", "spread", "key"]).0, "data_loss");
    let repaired = site.json(&["pool", "check", "tank", "--repair"]);
    assert!(repaired["nodes"][2]["repaired"][0].as_str().unwrap().contains("files"), "{repaired}");
    let found = site.json(&["pool", "check", "tank"]);
    assert_eq!((problems(&found), &found["lost"]), (vec![0; 3], &json!([])));
    site.ok(&["kv", "put", "tank", "files", "spread", "key", "again"]);
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// Archives fields in a store with this number of stripes: `steps` fields in each of `days` databases.
fn archive_fields(nodes: &Nodes, stripes: &str, (days, steps): (usize, usize)) {
    let file = nodes.site.file("field", b"what the field holds");
    for (day, step) in (0..days).flat_map(|day| (0..steps).map(move |step| (day, step))) {
        let key = format!(
            "class=od,expver=0001,stream=oper,date=2024061{day},time=0000,type=fc,levtype=sfc,step={step},param=167"
        );
        let archive = ["fields", "archive", "--store", "tank/fields", "--stripes", stripes];
        nodes.site.ok(&[&archive[..], &["--key", &key, &file]].concat());
    }
}

/// Fields and databases that a check found to be lost, and the fields that are there.
fn lost_fields(report: &Value) -> [usize; 3] {
    let lost = report["lost"].as_array().unwrap();
    assert!(lost.iter().all(|lost| lost["key"]["date"].is_string()), "{report}");
    let databases = lost.iter().filter(|lost| lost["database"] == json!(true)).count();
    let there = report["fields"].as_u64().unwrap() as usize;
    [lost.len() - databases, databases, there]
}

/// Fields whose bytes lay on the node, and databases whose lists of fields did.
#[test]
fn fields_that_were_lost_with_a_node_are_listed() {
    const DAYS: usize = 4;
    const STEPS: usize = 5;
    let nodes = Nodes::with_pool(3);
    let site = &nodes.site;
    archive_fields(&nodes, "1", (DAYS, STEPS));
    let check = ["fields", "check", "--store", "tank/fields"];
    assert_eq!(lost_fields(&site.json(&check)), [0, 0, DAYS * STEPS]);
    nodes.lose(2);

    let (report, message) = trouble(site, &check);
    assert!(message.contains("localhost.2") && message.contains("--new-node-pool"), "{message}");
    assert_eq!(report["lost_nodes"], json!(["localhost.2"]));
    let [lost, databases, there] = lost_fields(&report);
    assert!(lost > 0 && databases > 0 && there > 0, "{report}");
    assert_eq!(lost + there, (DAYS - databases) * STEPS, "{report}");

    let map = nodes.map().display().to_string();
    let (mut engine, _) = run_engine(site, &["--map", &map, "--node", "2", "--new-node-pool"]);
    assert_eq!(lost_fields(&trouble(site, &check).0), [lost, databases, there]);
    site.ok(&["pool", "check", "tank", "--repair"]);
    // The lists that were lost are empty now; the bytes that were are missing.
    let (report, message) = trouble(site, &check);
    assert_eq!((lost_fields(&report), &report["lost_nodes"]), ([lost, 0, there], &json!([])));
    assert!(message.contains("archive them again"), "{message}");
    archive_fields(&nodes, "1", (DAYS, STEPS));
    assert_eq!(lost_fields(&site.json(&[&check[..], &["--data"]].concat())), [0, 0, DAYS * STEPS]);
    // The list of databases is stored there.
    nodes.lose(1);
    let (report, message) = trouble(site, &check);
    assert!(report.is_null() && message.contains("list of databases"), "{report} {message}");
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// Each database loses the names of the fields in one of its stripes. The others are checked.
#[test]
fn databases_in_stripes_keep_fields_on_other_nodes() {
    const DAYS: usize = 2;
    const STEPS: usize = 12;
    let nodes = Nodes::with_pool(3);
    archive_fields(&nodes, "3", (DAYS, STEPS));
    nodes.lose(2);
    let check = ["fields", "check", "--store", "tank/fields"];
    let (report, _) = trouble(&nodes.site, &check);
    let [lost, databases, there] = lost_fields(&report);
    assert_eq!(databases, DAYS, "{report}");
    assert!(there > 0 && lost + there < DAYS * STEPS, "{report}");
}

/// Each engine repairs the pool of its node and serves again. Containers that are not in the list are removed.
#[test]
fn engines_repair_the_pools_of_their_nodes() {
    let nodes = Nodes::with_pool(2);
    let site = &nodes.site;
    site.ok(&["cont", "create", "tank", "run1"]);
    site.ok(&["kv", "put", "tank", "run1", "index", "step", "1"]);
    let pool = esker::Native::open(&nodes.node_pool(1), OpenMode::ReadWrite).unwrap();
    let forgotten = esker::backend::NewContainer::nameless();
    let made = esker::backend::Pool::create_container(&pool, &forgotten).wait().unwrap();
    drop(pool);
    let (found, message) = trouble(site, &["pool", "check", "tank"]);
    assert!(message.contains(&made.uuid.to_string()) && message.contains("--repair"), "{message}");
    assert_eq!(problems(&found), [0, 1]);
    let engines = nodes.engines();
    let repaired = site.json(&["pool", "check", "tank", "--repair"]);
    assert_eq!((problems(&repaired), nodes.engines()), (vec![0; 2], engines));
    assert_eq!(repaired["nodes"][1]["repaired"].as_array().unwrap().len(), 1, "{repaired}");
    assert_eq!(problems(&site.json(&["pool", "check", "tank"])), [0; 2]);
    assert_eq!(site.ok(&["kv", "get", "tank", "run1", "index", "step"]), "1");

    let url = format!("nodes:{}", nodes.map().display());
    let user = esker::Pool::connect(&url, OpenMode::ReadWrite).unwrap();
    let open = user.open_container("run1", OpenMode::ReadWrite).wait().unwrap();
    let repair = ["pool", "check", "tank", "--repair"];
    assert_eq!(site.fails(&repair).0, "busy");
    let said = String::from_utf8(site.run(&repair).stderr).unwrap();
    assert!(said.contains("end them first"), "{said}");
    drop((open, user));
    let scrubbed = site.json(&["pool", "scrub", "tank"]);
    assert_eq!(scrubbed["nodes"][1]["damaged"], json!([]));
    assert!(site.json(&["pool", "compact", "tank"])["nodes"][0]["freed_bytes"].is_u64());
    assert_eq!(site.fails(&["pool", "compact", "tank", "--huge-pages"]).0, "not_supported");
}
