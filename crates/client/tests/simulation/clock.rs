//! The clock of a simulation. It advances when all tasks wait, so that no task really waits.
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Lets time pass for the calling task.
pub(crate) async fn pass(time: Duration) {
    sleep_until(Instant::now() + time).await;
}
