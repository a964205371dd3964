//! Man pages of the commands. The synopsis has the values of options, which the generator leaves out.
use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use std::io;
use std::path::Path;

const SYNOPSIS: &str = ".SH SYNOPSIS\n";

/// Writes the pages of a command and of all commands below it.
///
/// # Errors
/// Errors of writing a file.
pub(crate) fn write_pages(whole: Command, folder: &Path) -> io::Result<()> {
    let mut whole = whole.disable_help_subcommand(true);
    whole.build();
    write_page(&whole, folder)
}

/// Writes the manual page of `command` into `folder`, and those of its subcommands first.
fn write_page(command: &Command, folder: &Path) -> io::Result<()> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.into_iter().try_for_each(|command| write_page(command, folder))?;
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = with_synopsis(&String::from_utf8_lossy(&page), command);
    std::fs::write(folder.join(man.get_filename()), page)
}

/// The page with a synopsis that has the values of options.
fn with_synopsis(page: &str, command: &Command) -> String {
    let Some((before, rest)) = page.split_once(SYNOPSIS) else { return page.to_owned() };
    let after = rest.find("\n.SH ").map_or("", |at| &rest[at + 1..]);
    let mut text = Roff::new();
    text.text(synopsis(command));
    // The preamble of the library is already in the page.
    let line = text.to_roff();
    format!("{before}{SYNOPSIS}{}\n{after}", line.trim_end())
}

/// Returns the synopsis of a command: its name, its options and its positional arguments.
fn synopsis(command: &Command) -> Vec<Inline> {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    let options = shown().filter(|argument| !argument.is_positional());
    options.chain(command.get_positionals()).for_each(|argument| line.extend(piece(argument)));
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    line
}

/// An argument in the synopsis: ` [--size SIZE]`, ` POOL`.
fn piece(argument: &Arg) -> Vec<Inline> {
    let (open, close) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    let mut line = vec![roman(open), bold(names.join("|"))];
    if argument.get_action().takes_values() {
        let values = argument.get_value_names().unwrap_or_default();
        let values: Vec<_> = values.iter().map(|name| name.as_str()).collect();
        let space = if names.is_empty() { "" } else { " " };
        line.extend([roman(space), italic(values.join(" "))]);
        let is_repeated =
            argument.get_num_args().is_some_and(|count| count.max_values() > values.len());
        line.push(roman(if is_repeated { "..." } else { "" }));
    }
    line.push(roman(close));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let size = Arg::new("size").long("size").short('s').value_name("SIZE");
        let switch = Arg::new("all").long("all").action(ArgAction::SetTrue);
        let pool = Arg::new("pool").value_name("POOL").required(true);
        let mut command = Command::new("make").args([size, switch, pool]).disable_help_flag(true);
        command.build();
        let mut page = Vec::new();
        Man::new(command.clone()).render(&mut page).unwrap();
        let page = with_synopsis(std::str::from_utf8(&page).unwrap(), &command);
        let line = page.split(SYNOPSIS).nth(1).unwrap().lines().next().unwrap();
        let plain = ["\\fB", "\\fI", "\\fR"]
            .iter()
            .fold(line.replace("\\-", "-"), |line, mark| line.replace(mark, ""));
        assert_eq!(plain, "make [-s|--size SIZE] [--all] POOL");
        assert_eq!(page.matches(".SH OPTIONS").count(), 1, "{page}");
    }
}
