//! `esker-bench`: the program that `esker bench` runs.
#![forbid(unsafe_code)]

mod commands;

use clap::{Parser, Subcommand};
use commands::BenchCommand;
use esker_cli::output::ColorArg;
use esker_cli::{output, usage};
use std::process::ExitCode;

/// Measure this machine and the store on it
#[derive(Parser)]
#[command(name = "esker-bench", bin_name = "esker bench", max_term_width = 100)]
struct Bench {
    /// Print one JSON document: {"response": ..., "error": null, "status": 0}
    #[arg(id = "root_json", long = "json", hide = true)]
    json: bool,
    /// Print only results and errors
    #[arg(long, short, hide = true)]
    quiet: bool,
    /// Show no progress
    #[arg(long, hide = true)]
    no_progress: bool,
    /// When to use colors
    #[arg(long, value_name = "WHEN", default_value = "auto", hide = true)]
    color: ColorArg,
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    usage::parse_and_run(std::env::args_os(), |bench: Bench| {
        output::configure(bench.quiet, !bench.no_progress, bench.color);
        output::show(bench.command.run(), bench.json)
    })
}

/// Definition of the command line of `esker`, with the commands of `esker bench`.
fn whole_command() -> clap::Command {
    let bench = || BenchCommand::augment_subcommands(clap::Command::new("bench"));
    esker_cli::command()
        .mut_subcommand("bench", |_| bench().subcommand_required(true).arg_required_else_help(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::HashSet;

    #[test]
    fn command_line_is_consistent() {
        Bench::command().debug_assert();
        whole_command().debug_assert();
    }

    #[test]
    fn every_benchmark_and_argument_is_explained() {
        let unexplained = esker_cli::shell::unexplained(&whole_command());
        assert!(unexplained.is_empty(), "{unexplained:?}");
    }

    #[test]
    fn each_benchmark_has_a_summary_of_its_own() {
        let bench = Bench::command();
        let summaries = bench.get_subcommands().filter(|command| !command.is_hide_set());
        let summaries: Vec<_> = summaries.map(|command| command.get_about()).collect();
        let distinct: HashSet<_> =
            summaries.iter().map(|about| about.map(ToString::to_string)).collect();
        assert_eq!(distinct.len(), summaries.len(), "{distinct:?}");
    }
}
