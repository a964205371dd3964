//! Completion scripts and man pages, generated from the definition of the command line.
use crate::output::Answer;
use crate::{environment, man};
use clap::{Args, Command};
use clap_complete::Shell;
use esker::types::{Error, Result};
use serde_json::json;
use std::ffi::OsString;
use std::path::PathBuf;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker completions bash > ~/.local/share/bash-completion/completions/esker
  esker completions zsh > ~/.zfunc/_esker
  esker completions fish > ~/.config/fish/completions/esker.fish")]
pub struct Completions {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the man pages of all commands
#[derive(Args)]
pub struct Man {
    /// Directory for the pages; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Completions {
    /// Prints the script that completes the command `whole` and its subcommands.
    #[must_use]
    pub fn print(&self, mut whole: Command) -> Answer {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut whole, "esker", &mut script);
        let script = with_names(self.shell, String::from_utf8_lossy(&script).into_owned());
        Answer::bytes(json!({"shell": self.shell.to_string()}), script.into_bytes())
    }

    /// Words of a command line that has these arguments.
    pub(crate) fn words(&self) -> Vec<OsString> {
        ["completions".into(), self.shell.to_string().into()].to_vec()
    }
}

/// Adds the completion of pools and containers to a script. The script gets them from `esker complete`.
fn with_names(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH_NAMES,
        Shell::Fish => script + FISH_NAMES,
        Shell::Zsh => {
            let script = script.replace(":_default'", ":_esker_names'");
            script.replacen("_esker() {", &format!("{ZSH_NAMES}\n_esker() {{"), 1)
        }
        _ => script,
    }
}

const BASH_NAMES: &str = r#"
_esker_or_names() {
    _esker "$@"
    local names
    mapfile -t names < <("$1" complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    [ "${#names[@]}" -gt 0 ] || return 0
    COMPREPLY=("${names[@]}")
    case ${names[0]} in */ | *:) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _esker_or_names -o bashdefault -o default esker
"#;

const FISH_NAMES: &str = r#"
complete -c esker -a '(command esker complete -- (commandline -opc) (commandline -ct) 2>/dev/null)'
"#;

// `words` holds only those of the innermost command, hence `LBUFFER`.
const ZSH_NAMES: &str = r#"
_esker_names() {
    local -a line names
    line=("${(@Q)${(z)LBUFFER}}")
    [[ $LBUFFER == *[[:space:]] ]] && line+=("")
    names=("${(@f)$(command esker complete -- "${line[@]}" 2>/dev/null)}")
    if [[ -n ${names[1]} ]]; then
        compadd -S '' -a names
    else
        _default
    fi
}
"#;

impl Man {
    /// Writes the pages of the commands of `whole`.
    ///
    /// # Errors
    /// If the directory cannot be created, or a page cannot be written.
    pub fn write(&self, whole: Command) -> Result<Answer> {
        let failed =
            |error| Error::io(format!("writing man pages to {}", self.out.display()), &error);
        std::fs::create_dir_all(&self.out).map_err(failed)?;
        man::write_pages(whole, &self.out).map_err(failed)?;
        let page = self.out.join("esker-environment.7");
        std::fs::write(page, environment::page()).map_err(failed)?;
        Ok(Answer::new(json!({"out": self.out.display().to_string()}), ""))
    }

    /// Words of a command line that has these arguments.
    pub(crate) fn words(&self) -> Vec<OsString> {
        ["man".into(), "--out".into(), self.out.clone().into()].to_vec()
    }
}

/// Subcommands and arguments of the command `whole` that have no help text, for tests.
#[must_use]
pub fn unexplained(whole: &Command) -> Vec<String> {
    let own = whole.get_about().is_none().then(|| whole.get_name().to_owned());
    // Hidden arguments exist only to be refused with a message.
    let shown = whole.get_arguments().filter(|argument| !argument.is_hide_set());
    let arguments = shown.filter(|argument| argument.get_help().is_none());
    let arguments = arguments.map(|argument| format!("{} {argument}", whole.get_name()));
    let below = whole.get_subcommands().flat_map(unexplained);
    own.into_iter().chain(arguments).chain(below).collect()
}

#[cfg(test)]
mod tests {
    use crate::args::command;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        let unexplained = super::unexplained(&command());
        assert!(unexplained.is_empty(), "{unexplained:?}");
    }
}
