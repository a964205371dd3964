//! Completion scripts and man pages, generated from the definition of the command line.
use crate::args::Cli;
use crate::output::Answer;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use esker::types::{Error, Result};
use serde_json::json;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker completions bash > ~/.local/share/bash-completion/completions/esker
  esker completions zsh > ~/.zfunc/_esker
  esker completions fish > ~/.config/fish/completions/esker.fish")]
pub(crate) struct Completions {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the man pages of all commands
#[derive(Args)]
pub(crate) struct Man {
    /// Directory for the pages; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Answer> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "esker", &mut script);
        let response = json!({"shell": self.shell.to_string()});
        Ok(Answer::bytes(response, script))
    }
}

impl Man {
    pub(crate) fn run(self) -> Result<Answer> {
        let failed =
            |error| Error::io(format!("writing man pages to {}", self.out.display()), &error);
        std::fs::create_dir_all(&self.out).map_err(failed)?;
        clap_mangen::generate_to(Cli::command(), &self.out).map_err(failed)?;
        Ok(Answer::new(json!({"out": self.out.display().to_string()}), ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        let mut unexplained = Vec::new();
        visit(&Cli::command(), &mut unexplained);
        assert!(unexplained.is_empty(), "{unexplained:?}");
    }

    fn visit(command: &clap::Command, unexplained: &mut Vec<String>) {
        if command.get_about().is_none() {
            unexplained.push(command.get_name().to_owned());
        }
        // Hidden arguments exist only to be refused with a message.
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let arguments = shown.filter(|argument| argument.get_help().is_none());
        unexplained.extend(arguments.map(|argument| format!("{} {argument}", command.get_name())));
        command.get_subcommands().for_each(|command| visit(command, unexplained));
    }
}
