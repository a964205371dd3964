//! `esker fs df`.
use super::long_help;
use super::place::{FsPath, Mounts, NAMING, inside};
use super::show;
use crate::output::Answer;
use clap::Args;
use esker::types::Result;
use esker_bench::table::Table;
use serde_json::json;

/// Show how much room there is
///
/// The room is that of the pool, which all its containers share.
#[derive(Args)]
#[command(after_long_help = NAMING, disable_help_flag = true, arg = long_help())]
pub(crate) struct Df {
    /// Containers, or anything in them
    #[arg(value_name = "PATH", required = true, value_parser = inside())]
    paths: Vec<FsPath>,
    /// Sizes with units
    #[arg(long, short)]
    human_readable: bool,
}

impl Df {
    pub(super) fn run(self) -> Result<Answer> {
        let (mut mounts, mut values) = (Mounts::reading(), Vec::new());
        let mut table = Table::new(&["container", ">bytes", ">used", ">free", ">files free"]);
        for path in &self.paths {
            let space = mounts.fs(path)?.space()?;
            let name = format!("{}/{}", path.pool, path.container);
            let size = |bytes| show::size(bytes, self.human_readable);
            let used = space.total.saturating_sub(space.free);
            let files = space.files_free.to_string();
            table.row([name.clone(), size(space.total), size(used), size(space.free), files]);
            values.push(json!({
                "container": name,
                "total_bytes": space.total,
                "free_bytes": space.free,
                "files": space.files,
                "files_free": space.files_free,
            }));
        }
        Ok(Answer::new(json!(values), table.to_string()))
    }
}
