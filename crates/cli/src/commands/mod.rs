//! What each command does.
pub(crate) mod array;
mod attributes;
pub(crate) mod bench;
mod compare;
pub(crate) mod cont;
mod copy;
mod drain;
pub(crate) mod fields;
mod files;
pub(crate) mod fs;
pub(crate) mod kv;
pub(crate) mod mount;
mod new_pool;
pub(crate) mod object;
mod paper;
pub(crate) mod pool;
mod pool_check;
mod pool_posix;
mod pool_rados;
mod pool_salvage;
mod posix;
mod properties;
mod report;
pub(crate) mod run;
pub(crate) mod shell;
mod snapshot;

use crate::args::Command;
use crate::output::Answer;
use esker::types::Result;

/// Runs a command; `json` says that standard output is taken by the answer.
pub(crate) fn run(command: Command, json: bool) -> Result<Answer> {
    match command {
        Command::Pool(group) => group.command.run(),
        Command::Cont(group) => group.command.run(),
        Command::Kv(group) => group.command.run(),
        Command::Array(group) => group.command.run(json),
        Command::Fs(group) => group.command.run(json),
        Command::Fields(group) => group.command.run(json),
        Command::Object(group) => group.command.run(),
        Command::Run(run) => run.run(),
        Command::Mount(mount) => mount.run(),
        Command::Umount(unmount) => unmount.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Bench(command) => command.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
