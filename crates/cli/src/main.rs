//! `esker`: pools, containers and objects from the command line, benchmarks, and a check of the machine.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod confirm;
mod doctor;
mod engine;
mod nodes;
mod open;
mod output;
mod shapes;

use args::Cli;
use clap::Parser;
use clap::error::ErrorKind as UsageKind;
use esker::types::{Error, ErrorKind};
use std::process::ExitCode;

/// Exit status of a command line that does not parse.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match Cli::try_parse_from(args::separate(std::env::args_os())) {
        Ok(cli) => {
            let json = cli.wants_json();
            match cli.command {
                Some(command) => output::show(command.run(json), json),
                None if json => usage_as_json("name a command: `esker --help` lists them"),
                None => output::show(Ok(args::first_steps()), false),
            }
        }
        Err(error) => explain_usage(&error),
    }
}

/// Prints what clap has to say: an error, or the help or version that was asked for.
fn explain_usage(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        return usage_as_json(&first_line(error));
    }
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// The message of a usage error in one line, with the arguments or values that it lists. Help that is shown in place
/// of a missing command has none.
fn first_line(error: &clap::Error) -> String {
    if error.kind() == UsageKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "name a command: --help lists them".to_owned();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}

fn usage_as_json(message: &str) -> ExitCode {
    output::show(Err(Error::new(ErrorKind::Invalid, message)), true);
    ExitCode::from(USAGE)
}
