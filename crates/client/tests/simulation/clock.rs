//! The clock of a simulation. It goes on when all tasks wait, so that nobody ever really does.
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Lets time pass for the calling task.
pub(crate) async fn pass(time: Duration) {
    sleep_until(Instant::now() + time).await;
}
