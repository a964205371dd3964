//! The command line as a whole, and the arguments that several commands share.
use crate::commands::Command;
use crate::open;
use crate::output::{self, Answer, ColorArg};
use clap::{Args, CommandFactory, Parser, ValueEnum};
use esker::config::config;
use esker::types::{Error, ErrorKind, ObjectClass};
use jiff::SignedDuration;
use serde_json::Value;
use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

const ABOUT: &str = "\
Esker stores objects in pools and speaks the DAOS API. A pool on this machine needs no server: this tool, \
and every program, works on it directly. A pool over several nodes has an engine on each.

A POOL is named by its label, its UUID or a URL: esker:/path/to/pool for a pool of this machine, \
posix:/path/to/pool for one of plain files on any file system, nodes:/path/to/pool.map for one over several nodes, \
rados:CEPH_POOL?conf=FILE for one on Ceph, daos:POOL for one of a DAOS system. \
Labels and UUIDs are looked up in the directories of ESKER_POOLS (separated by colons), or else in \
esker/pools in the user's data directory (XDG_DATA_HOME, ~/.local/share).

A CONTAINER is named by its pool and its label or UUID, in one argument: POOL/CONT, daos://POOL/CONT, \
esker://POOL/CONT, rados:CEPH_POOL/CONT?conf=FILE, daos:POOL/CONT. Commands whose usage shows POOL and CONT as two \
arguments take them in either form.";

const EXAMPLES: &str = "\
Examples:
  esker doctor
  esker pool create tank --size 4G
  esker cont create tank/run1
  esker kv put tank/run1 index t2m 'step 0'
  esker kv get tank/run1 index t2m
  esker array put tank/run1 field-1 field.grib
  esker cont create tank/home --type posix
  esker fs import ./data tank/home:/data
  esker run tank/home -- ls -l /esker/data
  esker fields archive --store tank/fields forecast.grib

Exit status:
  0  success
  1  the command failed, or a check found a problem; standard error names the cause and the remedy
  2  the command line is not valid

Environment (all variables: man esker-environment):
  ESKER_POOLS    pool directories, separated by colons; new pools go into the first
  ESKER_FIELDS   default store of `esker fields`, as POOL/CONT
  ESKER_MOUNT    default mount point of `esker run` [/esker]
  ESKER_CONFIG   configuration file [/etc/esker/esker.conf and ~/.config/esker/esker.conf]
  XDG_DATA_HOME  directory of esker/pools if ESKER_POOLS is not set [~/.local/share]

Configuration file, one KEY = VALUE a line (options and variables take precedence):
  pools, fields, mount  as ESKER_POOLS, ESKER_FIELDS, ESKER_MOUNT
  jobs                  default of --jobs
  color, progress       auto, always or never; on or off";

const FIRST_STEPS: &str = "\
Esker is an object store for HPC. It speaks the DAOS API and needs no server.

The first five commands:
  esker doctor                                check that this machine is ready
  esker pool create tank --size 4G            create a pool and reserve its space
  esker cont create tank/home --type posix    create a container that holds a file system
  esker fs import ./data tank/home:/data      copy files into it
  esker run tank/home -- ls -l /esker/data    run a program that sees them under /esker

`esker --help` lists all commands, and `esker COMMAND --help` explains one.";

/// Object store for HPC that speaks the DAOS API and needs no server
#[derive(Parser)]
#[command(name = "esker", version, long_about = ABOUT, after_long_help = EXAMPLES)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    /// Print one JSON document: {"response": ..., "error": null, "status": 0}
    #[arg(id = "root_json", long = "json")]
    json: bool,
    /// Print only results and errors: no confirmations, notes and progress
    #[arg(id = "root_quiet", long = "quiet", short = 'q')]
    quiet: bool,
    /// Show no progress
    #[arg(id = "root_no_progress", long = "no-progress")]
    no_progress: bool,
    /// When to use colors [default: auto]
    #[arg(id = "root_color", long = "color", value_name = "WHEN")]
    color: Option<ColorArg>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl Cli {
    /// Returns the flags of the command line. They may be given before and after the command; a color after it takes
    /// precedence.
    pub(crate) fn flags(&self) -> Flags {
        let own = self.command.as_ref().and_then(Command::flags);
        Flags {
            json: self.json || own.is_some_and(|flags| flags.json),
            quiet: self.quiet || own.is_some_and(|flags| flags.quiet),
            no_progress: self.no_progress || own.is_some_and(|flags| flags.no_progress),
            color: own.and_then(|flags| flags.color).or(self.color),
        }
    }
}

/// Definition of the command line. Its `bench` has no commands: those are in `esker-bench`.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Text that `esker` prints without a command.
pub(crate) fn first_steps() -> Answer {
    Answer::new(Value::Null, FIRST_STEPS)
}

/// The words of a command line, where `POOL/CONT` has become the two arguments POOL and CONT.
///
/// Only commands that take these two as their first arguments are changed, and only where the first word names
/// both: see [`open::as_one`]. `help bench` becomes `bench help`, because `esker-bench` has the help.
pub(crate) fn separate(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    if words.get(1..3).is_some_and(|first| first == ["help", "bench"]) {
        words.swap(1, 2);
    }
    let whole = Cli::command();
    let Some((command, at)) = first_argument(&whole, &words) else { return words };
    let mut names = command.get_positionals().map(|argument| argument.get_id().as_str());
    let takes_both =
        names.next() == Some("pool") && matches!(names.next(), Some("container" | "name"));
    let both = words[at].to_str().filter(|_| takes_both).and_then(open::as_one);
    if let Some((pool, container)) = both.map(|(pool, container)| (pool, container.to_owned())) {
        words.splice(at..=at, [pool.into(), container.into()]);
    }
    words
}

/// The command that these words name, and the position of its first non-option argument. `None` if no such argument
/// precedes the first `--`, or the first word that is not UTF-8.
pub(crate) fn first_argument<'a>(
    whole: &'a clap::Command,
    words: &[OsString],
) -> Option<(&'a clap::Command, usize)> {
    let (mut command, mut at) = (whole, 1);
    while let Some(word) = words.get(at)?.to_str().filter(|word| *word != "--") {
        match command.find_subcommand(word) {
            Some(below) => command = below,
            None if !word.starts_with('-') => return Some((command, at)),
            None => at += usize::from(takes_next(command, word)),
        }
        at += 1;
    }
    None
}

/// True if `word` is an option whose value is the next word.
fn takes_next(command: &clap::Command, word: &str) -> bool {
    let is_meant = |option: &&clap::Arg| match word.strip_prefix("--") {
        Some(long) => {
            option.get_long() == Some(long)
                || option.get_all_aliases().is_some_and(|names| names.contains(&long))
        }
        None => option.get_short().is_some_and(|short| word[1..].chars().eq([short])),
    };
    command.get_arguments().find(is_meant).is_some_and(|option| option.get_action().takes_values())
}

/// Options of all commands, after the command.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// Print one JSON document: {"response": ..., "error": null, "status": 0}
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results and errors: no confirmations, notes and progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Show no progress
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// When to use colors [default: auto]
    #[arg(long, value_name = "WHEN", global = true)]
    pub(crate) color: Option<ColorArg>,
}

impl Flags {
    /// Applies the flags. For a flag that is not given, the configuration counts.
    pub(crate) fn apply(&self) -> Result<(), Error> {
        config()?;
        let applied = self.or_configured(configured);
        let color = applied.color.unwrap_or_default();
        output::configure(applied.quiet, !applied.no_progress, color);
        Ok(())
    }

    /// The flags, with values of the configuration for those that are not given.
    fn or_configured<'a>(&self, configured: impl Fn(&str) -> Option<&'a str>) -> Self {
        let color = || ColorArg::from_str(configured("color")?, true).ok();
        Self {
            no_progress: self.no_progress || configured("progress") == Some("off"),
            color: self.color.or_else(color),
            ..*self
        }
    }

    /// The flags that apply, as words for the program of another command. That program does not read the configuration.
    pub(crate) fn words(&self) -> Vec<String> {
        self.or_configured(configured).to_words()
    }

    fn to_words(self) -> Vec<String> {
        let switches =
            [("--json", self.json), ("--quiet", self.quiet), ("--no-progress", self.no_progress)];
        let switches =
            switches.into_iter().filter(|(_, given)| *given).map(|(word, _)| word.to_owned());
        let color = self.color.and_then(|color| color.to_possible_value());
        switches.chain(color.map(|value| format!("--color={}", value.get_name()))).collect()
    }
}

/// The value of a key of the configuration, as the default of an option. Errors of the configuration are reported when
/// the flags are applied.
pub(crate) fn configured(key: &str) -> Option<&'static str> {
    config().ok().and_then(|config| config.get(key))
}

/// Returns the number of threads that the configuration sets by `jobs`, if it does.
pub(crate) fn configured_jobs() -> Option<u16> {
    configured("jobs").and_then(|value| value.parse().ok())
}

/// Number of threads of a command.
#[derive(Args, Clone, Copy)]
pub(crate) struct JobsArg {
    /// Number of threads [default: `jobs` of the configuration file, or chosen by the command]
    #[arg(long, short, alias = "workers", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
}

impl JobsArg {
    /// The number that was given, on the command line or in the configuration.
    pub(crate) fn given(self) -> Option<usize> {
        self.jobs.or_else(configured_jobs).map(usize::from)
    }
}

/// Longest time of an option: a later moment might not be representable.
const TIME_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Value parser for a time such as `1m`, `500ms` or `1.5` (seconds).
///
/// # Errors
/// If this is not a time, with an example of one, or if it is longer than 100 years.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let with_unit = || SignedDuration::from_str(text).ok().and_then(|time| time.try_into().ok());
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match seconds.or_else(with_unit) {
        Some(time) if time > TIME_MAX => Err("write a time of at most 100 years".to_owned()),
        Some(time) => Ok(time),
        None => Err("write a time as 2 (seconds), 500ms, 30s, 1m or 24h".to_owned()),
    }
}

/// Value parser of `--lifetime`: a time that is not zero.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => {
            Err("a lifetime must be longer than zero: write 30s, 1m or 24h".to_owned())
        }
        lifetime => Ok(lifetime),
    }
}

/// A pool.
#[derive(Args)]
pub(crate) struct PoolArg {
    /// Pool: label, UUID or URL (esker:/path, posix:/path, nodes:/path/POOL.map, rados:CEPH_POOL?conf=FILE,
    /// daos:POOL)
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// A container in a pool.
#[derive(Args)]
pub(crate) struct ContainerArg {
    #[command(flatten)]
    pub(crate) pool: PoolArg,
    /// Container: label or UUID. `POOL/CONT` in one argument names both
    #[arg(value_name = "CONT")]
    pub(crate) container: String,
}

/// The state of a container that a command reads.
#[derive(Args)]
pub(crate) struct SnapshotArg {
    /// Read this snapshot, given by name or epoch [default: the latest state]
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) snapshot: Option<String>,
}

/// An object in a container, of any type.
#[derive(Args)]
pub(crate) struct AnyObjectArg {
    #[command(flatten)]
    pub(crate) container: ContainerArg,
    /// Object: a name, or an object ID HI.LO (decimal, or hexadecimal with 0x)
    #[arg(value_name = "OBJECT")]
    pub(crate) object: String,
}

/// A Key-Value or Array in a container.
#[derive(Args)]
pub(crate) struct ObjectArg {
    #[command(flatten)]
    pub(crate) container: ContainerArg,
    /// Key-Value or Array: a name, or an object ID HI.LO
    #[arg(value_name = "OBJECT")]
    pub(crate) object: String,
    /// Object class if OBJECT is not a full object ID: S1 (one target), S2, SX (all targets) ...
    ///
    /// Without it, a name stands for the object that has this name, whatever its class, and a new object is spread over
    /// all targets.
    #[arg(long, value_name = "CLASS", value_parser = parse_class)]
    pub(crate) class: Option<ObjectClass>,
}

/// Value parser for an object class by its DAOS name.
pub(crate) fn parse_class(text: &str) -> Result<ObjectClass, String> {
    class_of(text).map_err(|error| error.to_string())
}

/// The class of this name, with or without `OC_`.
///
/// # Errors
/// [`ErrorKind::Invalid`].
pub fn class_of(name: &str) -> esker::types::Result<ObjectClass> {
    ObjectClass::from_name(name.strip_prefix("OC_").unwrap_or(name)).ok_or_else(|| {
        let message =
            format!("{name:?} is not an object class: write S1, S2, SX or another class of DAOS");
        Error::new(ErrorKind::Invalid, message)
    })
}

/// How OBJECT names an object: the end of the help of commands that take one.
pub(crate) const NAMING: &str = "\
OBJECT is a name of your choice, or an object ID HI.LO (decimal, or hexadecimal with 0x). A name stands for \
the object whose 96 user bits are the first bits of the name's SHA-256: 4 bytes, with the highest bit set, are \
the lower half of HI, and the next 8 bytes are LO, both big-endian. If the upper half of HI is 0, the type and \
the class are filled in (see --class); otherwise the ID is used as it is.";

#[cfg(test)]
mod tests {
    use super::*;

    fn separated(line: &str) -> String {
        let words = separate(line.split(' ').map(OsString::from));
        words.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn a_container_in_one_argument_becomes_two() {
        for (one, two) in [
            ("esker cont query tank/run1", "esker cont query tank run1"),
            ("esker --json container query tank/run1", "esker --json container query tank run1"),
            ("esker kv put --class S1 tank/run1 a b c", "esker kv put --class S1 tank run1 a b c"),
            (
                "esker cont create --type=posix tank/run1",
                "esker cont create --type=posix tank run1",
            ),
            ("esker cont snapshot list daos://tank/run1", "esker cont snapshot list tank run1"),
            (
                "esker object list rados:data/run1?conf=/etc/ceph.conf",
                "esker object list rados:data?conf=/etc/ceph.conf run1",
            ),
        ] {
            assert_eq!(separated(one), two);
            assert_eq!(separated(two), two);
        }
    }

    /// Paths of the commands whose usage shows the arguments POOL and CONT, and of those that take one argument for
    /// both.
    fn collect_forms(command: &clap::Command, path: &str, forms: &mut [Vec<String>; 2]) {
        let shown = command.get_positionals().filter_map(|argument| argument.get_value_names());
        let shown: Vec<_> = shown.flatten().map(|name| name.as_str()).collect();
        if shown.starts_with(&["POOL", "CONT"]) {
            forms[0].push(path.to_owned());
        }
        if shown.first() == Some(&"POOL/CONT") {
            forms[1].push(path.to_owned());
        }
        for below in command.get_subcommands() {
            collect_forms(below, &format!("{path} {}", below.get_name()), forms);
        }
    }

    /// The help of `esker` promises both forms for commands with two arguments.
    #[test]
    fn commands_with_two_arguments_accept_one() {
        let mut forms = [Vec::new(), Vec::new()];
        collect_forms(&Cli::command(), "esker", &mut forms);
        let [two, one] = forms;
        assert!(two.len() > 10 && one.len() > 1, "{two:?} {one:?}");
        for command in two {
            let (one, two) = (format!("{command} tank/run1"), format!("{command} tank run1"));
            assert_eq!(separated(&one), two);
        }
        for command in one {
            assert_eq!(separated(&format!("{command} tank/run1")), format!("{command} tank/run1"));
        }
    }

    #[test]
    fn configured_flags_are_passed_to_other_programs() {
        let words = |flags: Flags, config: &[(&str, &'static str)]| {
            let get = |key: &str| config.iter().find(|(known, _)| *known == key).map(|(_, it)| *it);
            flags.or_configured(get).to_words().join(" ")
        };
        let (given, config) = (Flags::default(), [("progress", "off"), ("color", "never")]);
        assert_eq!(words(given, &[]), "");
        assert_eq!(words(given, &config), "--no-progress --color=never");
        let given = Flags { json: true, color: Some(ColorArg::Always), ..given };
        assert_eq!(words(given, &config), "--json --no-progress --color=always");
        assert_eq!(words(given, &[("progress", "on")]), "--json --color=always");
    }

    #[test]
    fn durations_are_seconds_or_have_units() {
        for (text, millis) in [("0", 0), ("2", 2000), ("1.5", 1500), ("500ms", 500), ("1m", 60_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in ["", "-1", "-1s", "soon", "1e19", "1e99", "NaN"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_words_are_not_changed() {
        for line in [
            "esker",
            "esker pool query tank/run1",
            "esker mount tank/run1 /mnt",
            "esker cont list tank",
            "esker kv get rados:data?conf=/etc/ceph.conf run1 a b",
            "esker kv put tank run1 index a/b value",
            "esker cont query -- tank/run1",
        ] {
            assert_eq!(separated(line), line);
        }
    }
}
