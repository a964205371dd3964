//! `esker fields watch`.
use super::select::{NAMING, RequestArg, StoreArg};
use super::shown;
use crate::output::Answer;
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use std::io::Write;
use std::time::{Duration, Instant};

/// How long one wait lasts where there is no --timeout.
const LONG: Duration = Duration::from_secs(3600);

/// Print the key of each field as it is flushed
///
/// A line for each, at once, also for a field that is archived anew; with --json a line of JSON each. It ends after
/// --count fields, or when none came for --timeout.
#[derive(Args)]
#[command(after_long_help = NAMING)]
pub(crate) struct Watch {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// Begin with the fields that are there
    #[arg(long)]
    existing: bool,
    /// End after so many fields
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End when no field came for so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

impl Watch {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let store = self.store.open(OpenMode::ReadOnly)?;
        let selections = self.request.selections(&store)?;
        let [selection] = &selections[..] else {
            return Err(Error::new(ErrorKind::Invalid, "watch one request at a time"));
        };
        let mut watch = store.watch(selection, self.existing)?;
        let timeout = self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (mut count, mut last) = (0, Instant::now());
        while self.count.is_none_or(|wanted| count < wanted) {
            match watch.next(timeout.unwrap_or(LONG))? {
                Some(field) => {
                    (count, last) = (count + 1, Instant::now());
                    let line = match json {
                        true => shown::with_place(field.key(), field.place()).to_string(),
                        false => field.key().to_string(),
                    };
                    if writeln!(std::io::stdout(), "{line}").is_err() {
                        break;
                    }
                }
                None if timeout.is_some_and(|timeout| last.elapsed() >= timeout) => break,
                None => {}
            }
        }
        Ok(Answer::ended(std::process::ExitCode::SUCCESS))
    }
}
