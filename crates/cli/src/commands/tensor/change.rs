//! `esker tensor rename`, `rm` and `gc`.
use super::open;
use crate::args::{ContainerArg, parse_duration};
use crate::output::Answer;
use crate::shapes;
use clap::Args;
use esker::types::Result;
use esker::types::info::OpenMode;
use serde_json::json;
use std::time::Duration;

/// Give a tensor another name, or its first
///
/// A tensor that has the name is replaced.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor rename tank/tensors t2m t2m-old
  esker tensor rename tank/tensors 67e55044-10b1-426f-9247-bb680e5fe0c8 t2m")]
pub(crate) struct Rename {
    #[command(flatten)]
    container: ContainerArg,
    /// Tensor: its name or UUID
    #[arg(value_name = "TENSOR")]
    tensor: String,
    /// Its new name
    #[arg(value_name = "NAME")]
    name: String,
}

/// Remove tensors
///
/// Processes that have one open read on; its space is freed when the last of them has closed it. On posix:, rados: and
/// daos: pools, where processes do not see each other, `esker tensor gc` frees it.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor rm tank/tensors t2m msl")]
pub(crate) struct Remove {
    #[command(flatten)]
    container: ContainerArg,
    /// Tensors: names or UUIDs
    #[arg(value_name = "TENSOR", required = true)]
    tensors: Vec<String>,
}

/// Free the space of PUTs that were never committed, and of removed tensors
///
/// A PUT counts as abandoned if it began longer ago than --age: choose more than the longest PUT takes. Removed and
/// replaced tensors are freed if no process has them open; on posix:, rados: and daos: pools, where processes do not see
/// each other, if they were removed longer ago than --age. A reader of a freed tensor gets an error.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker tensor gc tank/tensors --dry-run
  esker tensor gc tank/tensors
  esker tensor gc tank/tensors --age 1h")]
pub(crate) struct Collect {
    #[command(flatten)]
    container: ContainerArg,
    /// Age from which a PUT counts as abandoned
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    age: Duration,
    /// Only count
    #[arg(long)]
    dry_run: bool,
}

impl Rename {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadWrite, None)?;
        store.rename(&self.tensor, &self.name)?;
        Ok(Answer::new(json!({"name": self.name}), ""))
    }
}

impl Remove {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadWrite, None)?;
        let removed = self.tensors.iter().map(|name| store.remove(name));
        let removed = removed.map(|uuid| Ok(uuid?.map(|uuid| uuid.to_string())));
        let removed: Vec<_> = removed.collect::<Result<_>>()?;
        Ok(Answer::new(json!({"removed": removed}), ""))
    }
}

impl Collect {
    pub(super) fn run(self) -> Result<Answer> {
        let store = open(&self.container, OpenMode::ReadWrite, None)?;
        let collected = store.collect(self.age, !self.dry_run)?;
        let response = json!({
            "done": !self.dry_run,
            "puts": collected.puts,
            "removed": collected.removed,
            "objects": collected.objects,
            "kept": collected.kept,
        });
        let text = format!(
            "{}: {}, {}, {}; {} kept",
            if self.dry_run { "would free" } else { "freed" },
            shapes::count(collected.puts, "uncommitted PUT"),
            shapes::count(collected.removed, "removed tensor"),
            shapes::count(collected.objects, "stray object"),
            collected.kept
        );
        Ok(Answer::new(response, text))
    }
}
