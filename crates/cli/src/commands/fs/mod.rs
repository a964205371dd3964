//! `esker fs`: files in containers.
mod cat;
mod change;
mod check;
mod copy;
mod expression;
mod find;
mod glob;
mod list;
mod mode;
mod place;
mod run;
mod show;
mod space;
mod stage;

pub(super) use mode::octal;

use crate::output::Answer;
use clap::{Arg, ArgAction, Subcommand};
use esker::types::Result;
use rustix::fs::Mode;

/// Work with the files in containers, and bring them in and out
///
/// A container made by `esker cont create --type posix` holds a file system: directories, files, symbolic
/// links, with modes, times and extended attributes. Its layout is that of DFS.
#[derive(Subcommand)]
pub(crate) enum FsCommand {
    Ls(list::Ls),
    Cp(copy::Cp),
    Mv(change::Mv),
    Rm(change::Rm),
    Mkdir(change::Mkdir),
    Ln(change::Ln),
    Touch(change::Touch),
    Chmod(change::Chmod),
    Cat(cat::Cat),
    Stat(list::Stat),
    Du(list::Du),
    Df(space::Df),
    Find(find::Find),
    Import(stage::Import),
    Export(stage::Export),
    Check(check::Check),
}

impl FsCommand {
    pub(crate) fn run(self, json: bool) -> Result<Answer> {
        match self {
            Self::Ls(ls) => ls.run(json),
            Self::Cp(cp) => cp.run(),
            Self::Mv(mv) => mv.run(),
            Self::Rm(rm) => rm.run(),
            Self::Mkdir(mkdir) => mkdir.run(),
            Self::Ln(ln) => ln.run(),
            Self::Touch(touch) => touch.run(),
            Self::Chmod(chmod) => chmod.run(),
            Self::Cat(cat) => cat.run(json),
            Self::Stat(stat) => stat.run(),
            Self::Du(du) => du.run(json),
            Self::Df(df) => df.run(),
            Self::Find(find) => find.run(json),
            Self::Import(import) => import.run(),
            Self::Export(export) => export.run(),
            Self::Check(check) => check.run(),
        }
    }
}

/// The mode bits that new files of this process lack. It can only be read by setting it; nothing else runs
/// yet when a command asks.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

/// Help without its short form, for commands in which -h means readable by people.
fn long_help() -> Arg {
    Arg::new("help").long("help").help("Print help").action(ArgAction::Help)
}
