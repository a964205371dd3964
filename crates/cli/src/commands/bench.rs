//! `esker bench`: hands over to the program `esker-bench`.
use crate::args::Flags;
use crate::output::Answer;
use crate::programs::companion;
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Program of the benchmarks. It is large, and no other command needs it.
const PROGRAM: &str = "esker-bench";

/// Measure this machine and the store on it
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Bench {
    /// Benchmark and its options: `esker bench --help` lists them
    #[arg(value_name = "BENCHMARK", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Bench {
    /// Replaces this process by the program.
    pub(crate) fn run(self, flags: &Flags) -> Result<Answer> {
        let program = companion(PROGRAM).ok_or_else(missing_error)?;
        Err(replace_by(program, self.arguments, flags))
    }
}

/// If the program is installed, replaces this process by it. Its `completions` and `man` include its own commands.
pub(super) fn let_bench_describe(arguments: Vec<OsString>, json: bool) -> Result<()> {
    let flags = Flags { json, ..Flags::default() };
    companion(PROGRAM).map_or(Ok(()), |program| Err(replace_by(program, arguments, &flags)))
}

/// Replaces this process by `program`, and returns the error if that fails. The variable ESKER names this command.
fn replace_by(program: PathBuf, arguments: Vec<OsString>, flags: &Flags) -> Error {
    let mut command = Command::new(&program);
    command.args(flags.words()).args(arguments);
    if let Ok(esker) = std::env::current_exe() {
        command.env("ESKER", esker);
    }
    let cause = command.exec();
    Error::io(format_args!("starting {}", program.display()), &cause)
}

#[cold]
fn missing_error() -> Error {
    let directory = std::env::current_exe().ok();
    let directory = directory.as_deref().and_then(std::path::Path::parent);
    let beside = directory.map_or_else(String::new, |place| format!("in {} nor ", place.display()));
    let message = format!(
        "`esker bench` runs the program {PROGRAM}, which is neither {beside}on PATH: `make install`, the Debian package and the \
         wheel install it beside esker; in a source tree, `make build` builds both"
    );
    Error::new(ErrorKind::NotFound, message)
}
