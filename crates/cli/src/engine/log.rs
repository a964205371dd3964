//! The log of an engine.
use esker::types::{Error, Result};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Appends structured log lines to a file that only its owner may read, or writes them to standard error.
pub(crate) fn log_to(file: Option<&Path>) -> Result<()> {
    let builder = tracing_subscriber::fmt().with_max_level(Level::INFO).with_ansi(false);
    let Some(path) = file else {
        builder.with_writer(std::io::stderr).finish().with(levels()).init();
        return Ok(());
    };
    let opened = File::options().append(true).create(true).mode(0o600).open(path);
    let file = opened
        .map_err(|error| Error::io(format_args!("opening the log {}", path.display()), &error))?;
    builder.with_writer(file).finish().with(levels()).init();
    Ok(())
}

/// Levels that are logged. `s3s` logs requests that it refuses as errors of the server. `esker_s3` logs those that
/// failed.
fn levels() -> Targets {
    Targets::new().with_default(Level::INFO).with_target("s3s", LevelFilter::OFF)
}
