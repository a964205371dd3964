//! Children of a process whose threads are busy with ecCodes.
#![allow(unsafe_code)]
use esker_eccodes::Library;
use esker_types::Result;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps set and read back; how many agree.
fn work(library: &Library, times: i64) -> Result<usize> {
    let mut agree = 0;
    for step in 0..times {
        let mut draft = library.sample("GRIB2")?;
        draft.set_long("step", step)?;
        agree += usize::from(library.field(&draft.message()?)?.long("step")? == step);
    }
    Ok(agree)
}

/// Forks a child that works; whether it did all of it.
fn child_works(library: &Library) -> bool {
    // SAFETY: the child calls nothing but ecCodes, whose lock it has taken over, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = work(library, 5).is_ok_and(|agree| agree == 5);
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(i32::from(!done)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's own.
    unsafe { libc::waitpid(child, &raw mut status, 0) == child && status == 0 }
}

#[test]
fn a_child_goes_on_where_threads_were_busy() {
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
