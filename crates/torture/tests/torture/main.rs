//! Torture of the native store: processes killed, forked and crowded, power cut, pools filled, bytes
//! damaged. Each failure names the seed it replays from (`ESKER_SEED`).
mod common;
mod crash;
mod crowd;
mod damage;
mod fork;
mod holds;
mod machine;
mod simple;
mod space;
mod views;

/// Where processes that tests start begin: the job is named by the environment.
#[test]
fn job() {
    match std::env::var(common::JOB).as_deref() {
        Ok("crash") => crash::worker::run(),
        Ok("fork") => fork::run(),
        Ok("holds") => holds::run(),
        Ok("crowd-read") => crowd::read(),
        Ok("crowd-hold") => crowd::hold(),
        Ok("crowd-lock") => crowd::lock_all(),
        Ok("damage-look") => damage::look(),
        Ok("space-hold") => space::hold_view(),
        Ok("space-idle") => space::idle(),
        Ok("views-hold") => views::hold_exclusively(),
        Ok("machine-use") => machine::use_pool(),
        Ok("machine-open") => machine::open_pool(),
        Ok("machine-idle") => machine::idle(),
        Ok(other) => panic!("no job is called {other}"),
        Err(_) => {}
    }
}
