//! An agent of DAOS that hangs. The library is initialised once for a process, so this is a test program of its own,
//! which runs itself again with another environment.
#![cfg(feature = "daos")]
use esker::types::ErrorKind;
use esker::types::info::OpenMode;
use esker::{Daos, DaosUrl};
use std::path::Path;
use std::process::Command;

/// The file for which the library of the tests waits.
const AGENT: &str = "ESKER_DAOS_AGENT";

#[test]
fn initialisation_that_hangs_is_continued_by_a_later_attempt() {
    let (Ok(url), Ok(_)) = (std::env::var("ESKER_TEST_DAOS"), std::env::var("ESKER_DAOS_STRICT"))
    else {
        esker_testing::skip("ESKER_TEST_DAOS names no DAOS pool of the tests (scripts/daos.sh)");
        return;
    };
    match std::env::var(AGENT) {
        Ok(agent) => open_twice(&url, Path::new(&agent)),
        Err(_) => run_again(),
    }
}

/// Runs this test program again, with the path of an agent that does not exist yet.
fn run_again() {
    let name = format!("esker-agent-{}", std::process::id());
    let agent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = std::env::current_exe().expect("this program");
    let status = Command::new(program).env(AGENT, &agent).status();
    let _ = std::fs::remove_file(agent);
    assert!(status.expect("a process").success());
}

/// Opens the pool twice without an agent, which times out, and then with one.
fn open_twice(url: &str, agent: &Path) {
    let url = DaosUrl::parse(url).expect("a URL").expect("a daos URL");
    let hasty = DaosUrl { timeout: Some(1), ..url.clone() };
    for _ in 0..2 {
        let error = Daos::open(&hasty, OpenMode::ReadOnly).err().expect("no agent answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.message().contains("daos_agent.sock"), "{error}");
    }
    std::fs::write(agent, b"").expect("the agent answers");
    drop(Daos::open(&url, OpenMode::ReadOnly).expect("the pool"));
}
