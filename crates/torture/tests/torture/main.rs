//! Torture of the native store: processes killed, forked and crowded, power cut, pools filled, bytes
//! damaged. Each failure names the seed it replays from (`ESKER_SEED`).
mod common;
mod crash;

/// Where processes that tests start begin: the job is named by the environment.
#[test]
fn job() {
    match std::env::var(common::JOB).as_deref() {
        Ok("crash") => crash::worker::run(),
        Ok(other) => panic!("no job is called {other}"),
        Err(_) => {}
    }
}
