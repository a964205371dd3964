//! Epochs as times, and the version of the interface.
use crate::abi::{Ptr, Timespec};
use crate::code::Code;
use esker::types::Epoch;
use std::ffi::c_int;

/// Time of an epoch.
#[unsafe(no_mangle)]
pub extern "C" fn daos_hlc2timespec(hlc: u64, ts: Ptr<Timespec>) -> c_int {
    if ts.is_null() {
        return Code::INVAL.0;
    }
    let time = Epoch(hlc).unix_time();
    ts.set(Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() });
    0
}

/// Time of an epoch in seconds.
#[unsafe(no_mangle)]
pub extern "C" fn daos_hlc2timestamp(hlc: u64, ts: Ptr<libc::time_t>) -> c_int {
    if ts.is_null() {
        return Code::INVAL.0;
    }
    ts.set(Epoch(hlc).unix_time().as_secs().cast_signed());
    0
}

/// Version of the C interface.
pub(crate) const VERSION: [u8; 3] = [2, 8, 0];

/// Tells the version of the C interface.
#[unsafe(no_mangle)]
pub extern "C" fn daos_version_get(major: Ptr<c_int>, minor: Ptr<c_int>, fix: Ptr<c_int>) -> c_int {
    let places = [major, minor, fix];
    if places.iter().any(|place| place.is_null()) {
        return Code::INVAL.0;
    }
    places.iter().zip(VERSION).for_each(|(place, number)| place.set(number.into()));
    0
}

/// Whether metrics are kept: they are not. Tools of DAOS read it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static daos_client_metric: bool = false;

/// Whether metrics outlive their process.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static daos_client_metric_retain: bool = false;
