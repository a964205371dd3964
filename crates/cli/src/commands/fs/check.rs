//! `esker fs check`.
use super::path::{FsPath, inside};
use crate::nodes::SurvivingPool;
use crate::output::{Answer, Bar};
use crate::shapes::{self, count};
use crate::units::Bytes;
use clap::Args;
use dfs::check::{CheckOptions, CheckReport, Finding, Leftovers};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Wait};
use serde_json::{Value, json};

/// Check the file system in a container
///
/// Visits all entries, then all objects. The data of files is read only with --data. A program that is killed at any
/// moment leaves a consistent tree, and at most some objects that no entry names: files that were removed while they
/// were open, or were just being created. Such leftovers are reported, but do not count as a failure. Any other
/// inconsistency is damage, and makes the exit status 1 unless --repair fixes it.
///
/// If a node of a pool over nodes does not have the container, the files that are lost with it are listed as damaged.
///
/// Other programs may use the container meanwhile. --repair requires exclusive use: it removes unreadable entries and
/// empty leftovers, restores the lost marks of directories, and links files and directories without a name in
/// /lost+found. It does not change damaged file data: remove such files, or import them again.
///
/// The content of a file that a killed program was removing looks like that of a file whose name was lost with a node or
/// in a salvage. So --repair keeps both, and only --remove-leftovers removes them.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker fs check tank/run1
  esker fs check tank/run1 --data --repair
  esker fs check tank/run1 --repair --remove-leftovers

See also `esker pool check`, which checks the structures of the pool, and `esker pool scrub`.")]
pub(crate) struct Check {
    /// Container that holds the file system
    #[arg(value_name = "POOL/CONT", value_parser = inside())]
    container: FsPath,
    /// Repair what can be repaired; no other process may have the container open
    #[arg(long)]
    repair: bool,
    /// With --repair: remove contents without a name, in place of linking them in /lost+found; only if no name can have
    /// been lost, by a lost node, by damage or in a salvage
    #[arg(long, requires = "repair")]
    remove_leftovers: bool,
    /// Read all data and compare it with its checksums
    #[arg(long)]
    data: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        let (pool_mode, mode) = match self.repair {
            true => (OpenMode::ReadWrite, OpenMode::Exclusive),
            false => (OpenMode::ReadOnly, OpenMode::ReadOnly),
        };
        // If nodes have lost the container, the others are checked, but nothing can be repaired without them.
        let left = SurvivingPool::open_if_damaged(&self.container.pool, &self.container.container)?;
        let without = left.as_ref().map(|left| left.error("this with --repair"));
        let (pool, lost) = match (left, &without) {
            (Some(_), Some(without)) if self.repair => return Err(without.clone()),
            (Some(SurvivingPool { pool, lost }), _) => (pool, lost),
            (None, _) => (Pool::connect(&self.container.pool, pool_mode)?, Vec::new()),
        };
        let container = pool.open_container(&self.container.container, mode).wait()?;
        let bar = Bar::spinner();
        let mut watch = |entries: u64| bar.say(&format!("{entries} entries"));
        let Self { data, repair, remove_leftovers, .. } = self;
        let options = CheckOptions { data, repair, remove_leftovers };
        let report = dfs::check::check(&container, options, &mut watch)?;
        drop(bar);
        let (mut shape, mut text) = (shape(&report, self.data), text(&report, self.data));
        shape["lost_nodes"] = json!(lost);
        if lost.is_empty() {
            return Ok(Answer::new(shape, text).with_trouble(trouble(&report, self.repair)));
        }
        text += &format!(
            "\nwithout {}: names that lay there are lost, and not listed",
            lost.join(", ")
        );
        Ok(Answer::new(shape, text).with_trouble(without))
    }
}

/// Error of the command if damage is left.
fn trouble(report: &CheckReport, repair: bool) -> Option<Error> {
    let left = report.damaged - report.repaired;
    let remedy = match repair {
        true => "remove the damaged files, or import them again",
        false => "--repair fixes what can be repaired",
    };
    (left > 0).then(|| {
        Error::new(ErrorKind::Corrupt, format!("{left} damaged entries or objects: {remedy}"))
    })
}

/// The answer as JSON.
fn shape(report: &CheckReport, data: bool) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "path": shapes::bytes(&finding.path),
            "what": finding.trouble.to_string(),
            "repaired": finding.repaired,
        })
    };
    let Leftovers { files, directories, others, bytes, removed, linked } = report.leftovers;
    json!({
        "files": report.files,
        "directories": report.directories,
        "links": report.links,
        "size_bytes": report.bytes,
        "data_read": data,
        "damaged": report.damaged,
        "repaired": report.repaired,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "leftovers": {
            "files": files,
            "directories": directories,
            "others": others,
            "size_bytes": bytes,
            "removed": removed,
            "linked": linked,
        },
    })
}

/// The answer of the command as text: each finding, then the totals.
fn text(report: &CheckReport, data: bool) -> String {
    let line = |finding: &Finding| {
        let path = String::from_utf8_lossy(&finding.path).escape_debug().to_string();
        let mended = if finding.repaired { " (repaired)" } else { "" };
        format!("{path}: {}{mended}", finding.trouble)
    };
    let mut lines: Vec<_> = report.findings.iter().map(line).collect();
    lines.push(format!(
        "{}, {}, {}, {}",
        count(report.files, "file"),
        count(report.directories, "directory"),
        count(report.links, "link"),
        Bytes(report.bytes)
    ));
    let left = report.leftovers;
    if left.count() > 0 {
        let removed =
            if left.removed > 0 { format!("; {} removed", left.removed) } else { String::new() };
        let linked = match left.linked {
            0 => String::new(),
            linked => format!("; {linked} linked in /lost+found"),
        };
        lines.push(format!(
            "leftovers: {} contents of removed files ({}), {} empty directories, {} other objects{removed}{linked}",
            left.files,
            Bytes(left.bytes),
            left.directories,
            left.others
        ));
    }
    lines.push(match (report.damaged, data) {
        (0, true) => "no damage; all data was read".to_owned(),
        (0, false) => "no damage; file data was not read: --data reads it too".to_owned(),
        (damaged, _) => format!("{damaged} damaged, {} repaired", report.repaired),
    });
    lines.join("\n")
}
