//! The command `esker`, and what it shares with `esker-bench`, the program of `esker bench`: output, sizes, arguments,
//! media, and the start of pools over nodes.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod complete;
mod confirm;
mod daos_words;
mod doctor;
mod engine;
pub mod environment;
mod man;
pub mod mounts;
pub mod nodes;
mod open;
pub mod output;
pub mod programs;
mod shapes;
pub mod shell;
pub mod signals;
pub mod units;
pub mod usage;

pub use args::{class_of, command, parse_duration};
pub use commands::DurabilityArg;
pub use shapes::{count, hex, time};

use args::Cli;
use std::process::ExitCode;

/// Runs `esker` with the arguments of this process, and returns its exit status.
#[must_use]
pub fn main() -> ExitCode {
    let words = match daos_words::translate(std::env::args_os().collect()) {
        Ok(words) => args::separate(words.into_iter()),
        Err(tip) => return usage::refuse(&tip),
    };
    usage::parse_and_run(words, |cli: Cli| {
        let flags = cli.flags();
        if let Err(error) = flags.apply() {
            return output::show(Err(error), flags.json);
        }
        match cli.command {
            Some(command) => output::show(command.run(flags), flags.json),
            None if flags.json => usage::show_as_json("name a command: `esker --help` lists them"),
            None => output::show(Ok(args::first_steps()), false),
        }
    })
}
