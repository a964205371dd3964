//! `esker fs`: files in containers.
mod change;
mod check;
mod copy;
mod each;
mod expression;
mod find;
mod glob;
mod list;
mod mode;
mod path;
mod run;
mod show;
mod stage;

pub(super) use mode::octal;

use crate::output::Answer;
use clap::{Arg, ArgAction, Subcommand};
use esker::types::Result;
use rustix::fs::Mode;

/// List, copy and change the files in a container, and import and export trees
///
/// A container created by `esker cont create --type posix` holds a file system: directories, files and symbolic links
/// with modes, times and extended attributes. Its layout is that of DAOS's DFS.
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
    Cat(list::Cat),
    Stat(list::Stat),
    Du(list::Du),
    Df(list::Df),
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

/// The umask of this process. It can be read only by setting it, which is safe here: no other thread runs yet.
fn umask() -> u32 {
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

/// `--help` without `-h`, for commands where -h means human-readable.
fn long_help() -> Arg {
    Arg::new("help").long("help").help("Print help").action(ArgAction::Help)
}
