//! Tasks and schedulers (`daos/tse.h`): calls that wait for one another.
//!
//! A scheduler runs tasks on the threads that make it progress. One lock guards all schedulers and
//! tasks; it is never held while a function of the caller runs.
mod args;
mod callbacks;
pub mod calls;
pub mod lists;
mod memory;
mod run;
pub mod sched;
pub mod task;

pub use callbacks::Function;
pub use memory::{Body, Sched, SchedDone, Task};
