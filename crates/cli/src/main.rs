//! `esker`: pools, containers and objects from the command line, benchmarks, and a doctor.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod doctor;
mod open;
mod output;
mod progress;
mod shapes;
mod when;

use args::Cli;
use clap::Parser;
use esker::types::{Error, ErrorKind};
use std::process::ExitCode;

/// Exit status of a command line that cannot be understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => {
            let json = cli.wants_json();
            output::show(commands::run(cli.command, json), json)
        }
        Err(error) => not_understood(&error),
    }
}

/// Help and version come this way too, and are no failure.
fn not_understood(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        output::show(Err(Error::new(ErrorKind::Invalid, first)), true);
        return ExitCode::from(USAGE);
    }
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
