//! `esker fs check`.
use super::place::{FsPath, inside};
use crate::output::Answer;
use crate::progress::Bar;
use crate::shapes;
use clap::Args;
use dfs::check::{CheckOptions, CheckReport, Finding, Leftovers};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Wait};
use esker_bench::units::Bytes;
use serde_json::{Value, json};

/// Check that the file system of a container is whole
///
/// Goes through all entries, then through all objects; the data of files is read with --data only. A program
/// that is killed, at whatever moment, leaves a tree that is whole, and at most objects that no entry names: what
/// was removed while it had it open, or was just being made. These leftovers are told, and are no reason to fail.
/// Everything else that does not fit is damage; then the exit status is 1, unless --repair could mend it.
///
/// Others may use the container meanwhile. --repair needs it alone: it removes leftovers and entries that
/// cannot be read, sets lost marks of directories, and gives what lost its name to damage a new one in
/// /lost+found. Damaged data of files stays as it is; remove such files, or bring them in again.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker fs check tank/run1
  esker fs check tank/run1 --data --repair

See also `esker pool check`, for what the pool is made of, and `esker pool scrub`.")]
pub(crate) struct Check {
    /// The container: POOL/CONT
    #[arg(value_name = "POOL/CONT", value_parser = inside())]
    container: FsPath,
    /// Mend what can be mended; nobody else may have the container open
    #[arg(long)]
    repair: bool,
    /// Read all data, and compare it with its checksums
    #[arg(long)]
    data: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        let (pool_mode, mode) = match self.repair {
            true => (OpenMode::ReadWrite, OpenMode::Exclusive),
            false => (OpenMode::ReadOnly, OpenMode::ReadOnly),
        };
        let pool = Pool::connect(&self.container.pool, pool_mode)?;
        let container = pool.open_container(&self.container.container, mode).wait()?;
        let bar = Bar::spinner();
        let mut watch = |entries: u64| bar.say(&format!("{entries} entries"));
        let options = CheckOptions { data: self.data, repair: self.repair };
        let report = dfs::check::check(&container, options, &mut watch)?;
        drop(bar);
        let (shape, text) = (shape(&report, self.data), text(&report, self.data));
        Ok(Answer::new(shape, text).with_trouble(trouble(&report, self.repair)))
    }
}

fn trouble(report: &CheckReport, repair: bool) -> Option<Error> {
    let left = report.damaged - report.repaired;
    let remedy = match repair {
        true => "remove what is damaged, or bring it in again",
        false => "--repair mends what can be mended",
    };
    (left > 0)
        .then(|| Error::new(ErrorKind::Corrupt, format!("{left} things are damaged; {remedy}")))
}

fn shape(report: &CheckReport, data: bool) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "path": shapes::bytes(&finding.path),
            "what": finding.trouble.to_string(),
            "repaired": finding.repaired,
        })
    };
    let Leftovers { files, directories, others, bytes, removed } = report.leftovers;
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
        },
    })
}

fn text(report: &CheckReport, data: bool) -> String {
    let line = |finding: &Finding| {
        let path = String::from_utf8_lossy(&finding.path).escape_debug().to_string();
        let mended = if finding.repaired { " (mended)" } else { "" };
        format!("{path}: {}{mended}", finding.trouble)
    };
    let mut lines: Vec<_> = report.findings.iter().map(line).collect();
    lines.push(format!(
        "{} files, {} directories, {} links, {}",
        report.files,
        report.directories,
        report.links,
        Bytes(report.bytes)
    ));
    let left = report.leftovers;
    if left.count() > 0 {
        let removed =
            if left.removed > 0 { format!("; {} removed", left.removed) } else { String::new() };
        lines.push(format!(
            "left over: {} contents of removed files ({}), {} empty directories, {} other objects{removed}",
            left.files,
            Bytes(left.bytes),
            left.directories,
            left.others
        ));
    }
    lines.push(match (report.damaged, data) {
        (0, true) => "whole, with all data".to_owned(),
        (0, false) => {
            "the tree is whole; the data of files were not read: --data does that".to_owned()
        }
        (damaged, _) => format!("{damaged} damaged, {} mended", report.repaired),
    });
    lines.join("\n")
}
