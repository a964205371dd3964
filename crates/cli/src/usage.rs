//! Command lines that do not parse.
use crate::output;
use clap::Parser;
use clap::error::ErrorKind as UsageKind;
use esker::types::{Error, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit status of a command line that does not parse.
const USAGE: u8 = 2;

/// Parses a command line and runs it. If it does not parse, explains why; with `--json`, as a JSON document.
pub fn parse_and_run<C: Parser>(
    words: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(C) -> ExitCode,
) -> ExitCode {
    match C::try_parse_from(words) {
        Ok(command_line) => run(command_line),
        Err(error) => explain(&error),
    }
}

/// Prints what clap has to say: an error, or the help or version that was asked for.
fn explain(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        return show_as_json(&first_line(error));
    }
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// The message of a usage error in one line, with the arguments or values that it lists. If clap shows help because the
/// command is missing, there is no message to shorten.
fn first_line(error: &clap::Error) -> String {
    if error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "name a command: --help lists them".to_owned();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

/// Prints a usage error as a JSON document, and returns the exit status.
#[must_use]
pub fn show_as_json(message: &str) -> ExitCode {
    output::show(Err(Error::new(ErrorKind::Invalid, message)), true);
    ExitCode::from(USAGE)
}
