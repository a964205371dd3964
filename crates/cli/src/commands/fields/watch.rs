//! `esker fields watch`: following a store.
use super::select::{NAMING, RequestArg, StoreArg};
use crate::args::parse_duration;
use crate::commands::fields as shown;
use crate::output::{Answer, print_line};
use clap::Args;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Duration of one wait without --timeout.
const LONG: Duration = Duration::from_secs(3600);

/// Print the key of each field when it becomes visible
///
/// Prints a line for each field, also for one that is archived again; with --json, a line of JSON. The command ends
/// after --count fields, or when no field has come for --timeout.
#[derive(Args)]
#[command(after_long_help = format!("Examples:
  esker fields watch -s tank/fields class=od --count 100
  esker fields watch -s tank/fields --existing --timeout 5m

{NAMING}"))]
pub(crate) struct Watch {
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    request: RequestArg,
    /// Print the existing fields first
    #[arg(long)]
    existing: bool,
    /// End after this number of fields
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End when no field has come for this time: 60 (seconds), 500ms, 5m [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

impl Watch {
    pub(super) fn run(self, json: bool) -> Result<Answer> {
        let store = self.store.open(OpenMode::ReadOnly)?;
        let selections = self.request.selections(&store)?;
        let [selection] = &selections[..] else {
            return Err(Error::new(
                ErrorKind::Invalid,
                "several requests cannot be watched at the same time: give one",
            ));
        };
        let mut watch = store.watch(selection, self.existing)?;
        let (mut count, mut last) = (0, Instant::now());
        while self.count.is_none_or(|wanted| count < wanted) {
            match watch.next(self.timeout.unwrap_or(LONG))? {
                Some(field) => {
                    (count, last) = (count + 1, Instant::now());
                    let line = match json {
                        true => shown::with_place(field.key(), field.location()).to_string(),
                        false => field.key().to_string(),
                    };
                    if !print_line(&line)? {
                        break;
                    }
                }
                None if self.timeout.is_some_and(|timeout| last.elapsed() >= timeout) => break,
                None => {}
            }
        }
        Ok(Answer::ended(std::process::ExitCode::SUCCESS))
    }
}
