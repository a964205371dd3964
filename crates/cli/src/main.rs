//! `esker`: pools, containers and objects from the command line, and a check of the machine.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    esker_cli::main()
}
