//! The commands, each with its arguments and its work.
mod array;
mod attributes;
mod bench;
mod cont;
mod copy;
mod drain;
mod engine;
mod fields;
mod files;
mod fs;
mod kv;
mod mount;
mod object;
mod pool;
mod pool_check;
mod pool_destroy;
mod pool_maintenance;
mod pool_nodes;
mod pool_over_nodes;
mod pool_salvage;
mod posix;
mod properties;
mod run;
mod serve;
mod snapshot;
mod tensor;

pub use pool::DurabilityArg;

use crate::args::{Flags, command};
use crate::complete;
use crate::doctor::Doctor;
use crate::output::Answer;
use crate::shell;
use clap::{Args, Subcommand};
use esker::types::Result;

#[derive(Subcommand)]
pub(crate) enum Command {
    Doctor(Doctor),
    Pool(Group<pool::PoolCommand>),
    #[command(visible_alias = "container")]
    Cont(Group<cont::ContCommand>),
    Kv(Group<kv::KvCommand>),
    Array(Group<array::ArrayCommand>),
    #[command(visible_alias = "obj")]
    Object(Group<object::ObjectCommand>),
    #[command(visible_alias = "filesystem")]
    Fs(Group<fs::FsCommand>),
    Run(run::Run),
    Mount(mount::MountCommand),
    #[command(visible_alias = "unmount")]
    Umount(mount::Unmount),
    #[command(visible_alias = "fdb")]
    Fields(Group<fields::FieldsCommand>),
    #[command(visible_alias = "tensors")]
    Tensor(Group<tensor::TensorCommand>),
    Bench(bench::Bench),
    #[command(subcommand)]
    Engine(engine::EngineCommand),
    #[command(subcommand)]
    Serve(serve::ServeCommand),
    Completions(shell::Completions),
    #[command(hide = true)]
    Man(shell::Man),
    #[command(hide = true)]
    Complete(complete::Complete),
}

// The commands on one kind of entity. No documentation comment: the help would show it in place of that of `C`.
#[derive(Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: C,
}

impl Command {
    /// Runs the command; `flags.json` says that standard output is for the JSON document alone.
    pub(crate) fn run(self, flags: Flags) -> Result<Answer> {
        let json = flags.json;
        match self {
            Self::Pool(group) => group.command.run(),
            Self::Cont(group) => group.command.run(),
            Self::Kv(group) => group.command.run(json),
            Self::Array(group) => group.command.run(json),
            Self::Fs(group) => group.command.run(json),
            Self::Fields(group) => group.command.run(json),
            Self::Tensor(group) => group.command.run(json),
            Self::Object(group) => group.command.run(),
            Self::Run(run) => run.run(),
            Self::Mount(mount) => mount.run(),
            Self::Umount(unmount) => unmount.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Bench(bench) => bench.run(&flags),
            Self::Engine(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Completions(completions) => bench::let_bench_describe(completions.words(), json)
                .map(|()| completions.print(command())),
            Self::Man(man) => {
                bench::let_bench_describe(man.words(), json)?;
                man.write(command())
            }
            Self::Complete(complete) => Ok(complete.run()),
        }
    }

    /// The flags that were given after the command, if it takes them there.
    pub(crate) fn flags(&self) -> Option<&Flags> {
        Some(match self {
            Self::Pool(group) => &group.flags,
            Self::Cont(group) => &group.flags,
            Self::Kv(group) => &group.flags,
            Self::Array(group) => &group.flags,
            Self::Fs(group) => &group.flags,
            Self::Fields(group) => &group.flags,
            Self::Tensor(group) => &group.flags,
            Self::Object(group) => &group.flags,
            Self::Mount(mount) => &mount.flags,
            Self::Umount(unmount) => &unmount.flags,
            Self::Doctor(doctor) => &doctor.flags,
            Self::Run(_)
            | Self::Bench(_)
            | Self::Engine(_)
            | Self::Serve(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Complete(_) => return None,
        })
    }
}
