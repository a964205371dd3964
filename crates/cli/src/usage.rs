//! Command lines that do not parse.
use crate::output;
use crate::units::Bytes;
use clap::error::{ContextKind, ContextValue, ErrorKind as UsageKind};
use clap::{ColorChoice, Command, Parser};
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
    let words: Vec<_> = words.into_iter().collect();
    let command = C::command().color(color_of(&words));
    let read = |found| C::from_arg_matches(&found).map_err(|error| error.format(&mut C::command()));
    let parsed = command.try_get_matches_from(&words).and_then(read);
    match parsed {
        Ok(command_line) => run(command_line),
        Err(error) => explain(&with_tip(error), wants_json(C::command(), &words)),
    }
}

/// Adds a tip to an error about the store of `esker fields`, or about a size that is not the value of an option.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let argument = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let tip = match error.kind() {
        UsageKind::MissingRequiredArgument if argument.contains("--store <POOL/CONT>") => {
            "`export ESKER_FIELDS=POOL/CONT` names the store for all commands".to_owned()
        }
        UsageKind::UnknownArgument
            if usage.contains("pool create") && argument.parse::<Bytes>().is_ok() =>
        {
            format!("give the size by an option: --size {argument}")
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// The value of `--color`, which usage errors and help follow too.
fn color_of(words: &[OsString]) -> ColorChoice {
    let words: Vec<_> =
        words.iter().map(|word| word.to_string_lossy()).take_while(|word| word != "--").collect();
    let at = words.iter().position(|word| word == "--color");
    let next = at.and_then(|at| words.get(at + 1)).map(|word| word.as_ref());
    let value = words.iter().find_map(|word| word.strip_prefix("--color=")).or(next);
    value.and_then(|value| value.parse().ok()).unwrap_or(ColorChoice::Auto)
}

/// Refuses a command line with a message, as JSON if that is requested, and returns the exit status.
pub(crate) fn refuse(message: &str) -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if wants_json(crate::command(), &words) {
        return show_as_json(message);
    }
    output::say(message);
    ExitCode::from(USAGE)
}

/// True if the option for a JSON document is given. `--json` of some benchmarks is another option, with a file; after
/// `--`, it belongs to another program.
fn wants_json(mut whole: Command, words: &[OsString]) -> bool {
    whole.build();
    let mut command = &whole;
    let words = words.iter().skip(1).map(|word| word.to_string_lossy());
    for word in words.take_while(|word| word != "--") {
        if word == "--json" && has_switch(command, "json") {
            return true;
        }
        command = command.find_subcommand(&*word).unwrap_or(command);
    }
    false
}

/// True if the command has an option of this name without a value.
fn has_switch(command: &Command, name: &str) -> bool {
    let mut options = command.get_arguments();
    options.any(|option| option.get_long() == Some(name) && !option.get_action().takes_values())
}

/// Prints the output of clap: an error, or the requested help or version.
fn explain(error: &clap::Error, as_json: bool) -> ExitCode {
    if error.use_stderr() && as_json {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    #[test]
    fn usage_errors_are_json_documents_where_the_option_asks_for_one() {
        let wants = |command: Command, line: &str| {
            wants_json(command, &line.split(' ').map(OsString::from).collect::<Vec<_>>())
        };
        for (line, wanted) in [
            ("esker --json pool create", true),
            ("esker pool create tank --json", true),
            ("esker nonsense --json", true),
            ("esker pool create tank", false),
            ("esker pool query -- --json", false),
            ("esker run tank/home -- ls --json", false),
            ("esker bench kv --json", false),
        ] {
            assert_eq!(wants(crate::command(), line), wanted, "{line}");
        }
        let bench = || {
            let switch = Arg::new("root").long("json").action(ArgAction::SetTrue);
            let file = Arg::new("json").long("json");
            Command::new("bench").arg(switch).subcommand(Command::new("kv").arg(file))
        };
        assert!(wants(bench(), "esker-bench --json kv --odd"));
        assert!(!wants(bench(), "esker-bench kv --odd --json file"));
    }

    #[test]
    fn usage_errors_follow_the_option_for_colors() {
        let color = |line: &str| color_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(color("esker --color never pool"), ColorChoice::Never);
        assert_eq!(color("esker pool list --color=always"), ColorChoice::Always);
        assert_eq!(color("esker pool list"), ColorChoice::Auto);
        assert_eq!(color("esker run a/b -- ls --color=never"), ColorChoice::Auto);
    }
}
