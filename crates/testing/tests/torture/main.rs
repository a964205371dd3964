//! Torture tests of the native store, of file systems in it and of pools on Ceph: processes killed, forked and
//! crowded, power failures, full pools, damaged bytes, stopped daemons. Each failure prints the seed that replays it
//! (`ESKER_SEED`).
#![allow(unsafe_code)]
mod brim;
mod ceph;
mod closing;
mod common;
mod control;
mod crash;
mod crowd;
mod damage;
#[cfg(target_arch = "x86_64")]
mod explore;
mod fork;
mod full;
mod histories;
mod leases;
mod machine;
mod monotonic;
mod mutation;
mod namespace;
mod parts;
mod resent;
mod salvage;
mod simple;
mod space;
mod survivors;
mod views;
mod words;

/// The entry point of processes that tests start; the environment names the task.
#[test]
fn job() {
    match std::env::var(common::JOB).as_deref() {
        Ok("brim") => brim::run(),
        Ok("closing") => closing::close(),
        Ok("closing-child") => closing::leave_child(),
        Ok("control-use") => control::use_damaged(),
        Ok("crash") => crash::worker::run(),
        Ok("crash-values") => crash::power::put_values(),
        Ok("ceph-fork") => ceph::kills::fork(),
        Ok("ceph-pairs") => ceph::kills::pairs(),
        Ok("ceph-transfer") => ceph::kills::transfer(),
        Ok("fork") => fork::run(),
        Ok("full") => full::run(),
        Ok("histories") => histories::client::run(),
        Ok("leases") => leases::run(),
        Ok("crowd-read") => crowd::read(),
        Ok("crowd-hold") => crowd::hold(),
        Ok("crowd-keep") => crowd::keep(),
        Ok("crowd-lock") => crowd::lock_all(),
        Ok("damage-check") => damage::check_pool(),
        #[cfg(target_arch = "x86_64")]
        Ok("explore-write") => explore::write(),
        #[cfg(target_arch = "x86_64")]
        Ok("explore-observe") => explore::observer::run(),
        Ok("mutation-use") => mutation::use_pool(),
        Ok("mutation-hold") => mutation::hold(),
        Ok("namespace-race") => namespace::races::race(),
        Ok("namespace-append") => namespace::files::append(),
        Ok("namespace-stripes") => namespace::files::stripes(),
        Ok("namespace-overlap") => namespace::files::overlap(),
        Ok("namespace-removed") => namespace::files::removed(),
        Ok("namespace-replace") => namespace::dirs::replace(),
        Ok("namespace-vanish") => namespace::dirs::vanish(),
        Ok("namespace-listed") => namespace::dirs::listed(),
        Ok("namespace-shuffle") => namespace::dirs::shuffle(),
        Ok("namespace-mix") => namespace::kills::mix(),
        Ok("parts") => parts::run(),
        Ok("resent") => resent::run(),
        Ok("space-hold") => space::hold_view(),
        Ok("space-idle") => space::idle(),
        Ok("space-pause") => space::pause_view(),
        Ok("survivors-read") => survivors::reader::run(),
        Ok("survivors-write") => survivors::writer::run(),
        Ok("views-hold") => views::hold_exclusively(),
        Ok("machine-use") => machine::use_pool(),
        Ok("machine-open") => machine::open_pool(),
        Ok("machine-idle") => machine::idle(),
        Ok(other) => panic!("unknown job: {other}"),
        Err(_) => {}
    }
}
