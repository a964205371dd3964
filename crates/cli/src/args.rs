//! The command line as a whole, and the arguments that several commands share.
use crate::commands::array::ArrayCommand;
use crate::commands::bench::BenchCommand;
use crate::commands::cont::ContCommand;
use crate::commands::fields::FieldsCommand;
use crate::commands::fs::FsCommand;
use crate::commands::kv::KvCommand;
use crate::commands::mount::{MountCommand, Unmount};
use crate::commands::object::ObjectCommand;
use crate::commands::pool::PoolCommand;
use crate::commands::run::Run;
use crate::commands::shell::{Completions, Man};
use crate::doctor::Doctor;
use clap::{Args, Parser, Subcommand};
use esker::types::ObjectClass;

const ABOUT: &str = "\
Esker stores objects in pools on this machine and speaks the DAOS API. There is no server: this tool, \
and every program, works on the pool itself.

A POOL is named by its label, its UUID or a URL (esker:/path/to/pool, or \
posix:/path/to/pool for one of plain files on any file system). Labels and UUIDs are looked up \
in the directories of ESKER_POOLS (separated by colons), else in esker/pools in the user's data \
directory (XDG_DATA_HOME, ~/.local/share). A CONTAINER is named by its label or UUID.";

const EXAMPLES: &str = "\
Examples:
  esker pool create tank --size 4G
  esker cont create tank run1
  esker kv put tank run1 index t2m 'step 0'
  esker kv get tank run1 index t2m
  esker array put tank run1 field-1 field.grib
  esker cont create tank home --type posix
  esker fs import ./data tank/home:/data
  esker fields archive --store tank/fields forecast.grib
  esker doctor

Exit status:
  0  all went well
  1  it failed, or a check found something; standard error says what and how to mend it
  2  the command line could not be understood

Environment:
  ESKER_POOLS    directories of pools, separated by colons; a new pool goes into the first
  ESKER_FIELDS   store of `esker fields`, as POOL/CONT
  XDG_DATA_HOME  where pools are looked for without it, in esker/pools";

/// Object store for HPC that speaks the DAOS API and needs no server
#[derive(Parser)]
#[command(name = "esker", version, long_about = ABOUT, after_long_help = EXAMPLES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Answer with one JSON document: {"response": ..., "error": null, "status": 0}
    #[arg(id = "root_json", long = "json")]
    json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Pool(Group<PoolCommand>),
    #[command(visible_alias = "container")]
    Cont(Group<ContCommand>),
    Kv(Group<KvCommand>),
    Array(Group<ArrayCommand>),
    #[command(visible_alias = "filesystem")]
    Fs(Group<FsCommand>),
    #[command(visible_alias = "fdb")]
    Fields(Group<FieldsCommand>),
    #[command(visible_alias = "obj")]
    Object(Group<ObjectCommand>),
    Run(Run),
    Mount(MountCommand),
    #[command(visible_alias = "unmount")]
    Umount(Unmount),
    Doctor(Doctor),
    #[command(subcommand)]
    Bench(BenchCommand),
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
}

/// Commands on one sort of thing.
#[derive(Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    #[command(subcommand)]
    pub(crate) command: C,
}

#[derive(Args)]
pub(crate) struct JsonFlag {
    /// Answer with one JSON document: {"response": ..., "error": null, "status": 0}
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Cli {
    /// True where the answer is for a program.
    pub(crate) fn wants_json(&self) -> bool {
        let within = match &self.command {
            Command::Pool(group) => group.json.json,
            Command::Cont(group) => group.json.json,
            Command::Kv(group) => group.json.json,
            Command::Array(group) => group.json.json,
            Command::Fs(group) => group.json.json,
            Command::Fields(group) => group.json.json,
            Command::Object(group) => group.json.json,
            Command::Mount(mount) => mount.json.json,
            Command::Umount(unmount) => unmount.json.json,
            Command::Doctor(doctor) => doctor.json.json,
            Command::Run(_) | Command::Bench(_) | Command::Completions(_) | Command::Man(_) => {
                false
            }
        };
        self.json || within
    }
}

/// A pool.
#[derive(Args)]
pub(crate) struct PoolArg {
    /// Pool: label, UUID or URL (esker:/path/to/pool, posix:/path/to/pool)
    #[arg(value_name = "POOL")]
    pub(crate) pool: String,
}

/// A container in a pool.
#[derive(Args)]
pub(crate) struct ContainerArg {
    #[command(flatten)]
    pub(crate) pool: PoolArg,
    /// Container: label or UUID
    #[arg(value_name = "CONT")]
    pub(crate) container: String,
}

/// The state that is read.
#[derive(Args)]
pub(crate) struct SnapshotArg {
    /// Read the state of this snapshot, by name or epoch
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) snapshot: Option<String>,
}

/// A Key-Value or Array in a container.
#[derive(Args)]
pub(crate) struct ObjectArg {
    #[command(flatten)]
    pub(crate) container: ContainerArg,
    /// Key-Value or Array: a name, or an object id HI.LO
    #[arg(value_name = "OBJECT")]
    pub(crate) object: String,
    /// Object class, where OBJECT is no full object id: S1 (one target), S2, SX (all targets) ...
    ///
    /// The class is part of the object's id: give the same one to all commands. Without it the object
    /// goes over all targets.
    #[arg(long, value_name = "CLASS", value_parser = parse_class)]
    pub(crate) class: Option<ObjectClass>,
}

pub(crate) fn parse_class(text: &str) -> Result<ObjectClass, String> {
    esker_bench::load::class_of(text).map_err(|error| error.to_string())
}

/// How objects are named, for the help of commands that take one.
pub(crate) const NAMING: &str = "\
OBJECT is a name of your own, or an object id HI.LO (decimal, or hexadecimal with 0x). A name stands for \
the object whose 96 user bits begin the name's SHA-256: the first 4 bytes (highest bit set) are the lower \
half of HI, the next 8 are LO, both big-endian. An id whose upper half of HI is 0 is completed with the \
type and class; one that has them is taken as it is.";
