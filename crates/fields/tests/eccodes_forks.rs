//! Forks of a process whose threads are using ecCodes.
#![allow(unsafe_code)]
use esker_fields::eccodes::Library;
use esker_types::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a step and reads it back `times` times; returns how often both agree.
fn work(library: &Library, times: i64) -> Result<usize> {
    let mut agree = 0;
    for step in 0..times {
        let mut draft = library.sample("GRIB2")?;
        draft.set_long("step", step)?;
        agree += usize::from(library.field(&draft.message()?)?.long("step")? == step);
    }
    Ok(agree)
}

/// Forks a child that runs [`work`]; returns whether the child completed all of it.
fn child_works(library: &Library) -> bool {
    // SAFETY: the child only calls ecCodes, whose lock it inherited, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = work(library, 5).is_ok_and(|agree| agree == 5);
        // SAFETY: it ends the child.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    let mut status = 0;
    // SAFETY: the child belongs to this process.
    unsafe { libc::waitpid(child, &raw mut status, 0) == child && status == 0 }
}

#[test]
fn a_forked_child_can_use_eccodes_while_threads_do() {
    let found = Library::shared().inspect_err(|error| esker_testing::skip(error));
    let Ok(library) = found else { return };
    let (stop, busy) = (AtomicBool::new(false), work(library, 1));
    assert_eq!(busy.unwrap(), 1);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(work(library, 3).unwrap(), 3);
                }
            });
        }
        let children = (0..20).filter(|_| child_works(library)).count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(children, 20);
    });
}
