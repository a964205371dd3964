//! `esker pool check` and `esker pool scrub`: finding damage.
use super::pool_maintenance;
use crate::args::PoolArg;
use crate::nodes::NodesPool;
use crate::output::{Answer, Bar};
use crate::shapes::count;
use crate::units::Bytes;
use clap::Args;
use esker::PosixPool;
use esker::names::{self, Named};
use esker::types::{Error, ErrorKind, Result};
use esker_store::{CheckReport, ScrubReport};
use serde_json::json;
use std::path::Path;

/// Check the structures of a pool for damage
///
/// The exit status is 1 if there is any. After a crash of the machine, a pool whose durability is `process` must pass
/// a check with --repair before it can be opened.
///
/// For a pool over nodes, each engine checks or repairs the pool of its node. Containers that a node has lost are
/// listed, with the objects that are known to have had data there. --repair creates these containers again, empty: run
/// `esker fs check` first to list the files that are lost. --repair also removes data of destroyed containers from
/// nodes that did not run when the containers were destroyed.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool check tank
  esker pool check tank --repair")]
pub(crate) struct Check {
    #[command(flatten)]
    pool: PoolArg,
    /// Remove damaged records and recount the space; no other program may use the pool
    #[arg(long)]
    repair: bool,
}

/// Read all data of a pool and compare it with its checksums
///
/// Names the object that each piece of damaged data belongs to. The exit status is 1 if there is any.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool scrub tank")]
pub(crate) struct Scrub {
    #[command(flatten)]
    pool: PoolArg,
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        if let Some(pool) = NodesPool::find(&self.pool.pool)? {
            return pool_maintenance::check(&pool, self.repair);
        }
        let path = match names::resolve(&self.pool.pool)? {
            Named::Posix(url) => return check_posix(&url.path, self.repair),
            Named::Native(path) | Named::Nodes(path) => path,
        };
        let bar = Bar::steps("checking");
        let report =
            esker_store::Pool::check(&path, self.repair, &mut |done, all| bar.update(done, all))?;
        drop(bar);
        let remedy = match report.pages_damaged {
            true => "esker pool salvage, which saves what can be read: no repair mends index pages",
            false => "esker pool check --repair",
        };
        let trouble = problems_error(ErrorKind::Corrupt, &report.problems, remedy);
        Ok(check_answer(&report).with_trouble(trouble))
    }
}

/// The answer of the command for `report`: each problem and each loss on a line, then the totals.
fn check_answer(report: &CheckReport) -> Answer {
    let response = json!({
        "problems": report.problems,
        "repaired": report.repaired,
        "records": report.records,
        "live_bytes": report.live_bytes,
        "lost_bytes": report.lost_bytes,
        "lost": report.lost,
    });
    let mut lines = Vec::new();
    let texts =
        [("problem", &report.problems), ("lost", &report.lost), ("repaired", &report.repaired)];
    for (what, texts) in texts {
        lines.extend(texts.iter().map(|text| format!("{what}: {text}")));
    }
    let (data, problems) = (Bytes(report.live_bytes), count(report.problems.len(), "problem"));
    lines.push(format!("{}, {data} of data, {problems}", count(report.records, "record")));
    Answer::new(response, lines.join("\n"))
}

/// Checks a pool of plain files. It cannot be repaired: damaged files must be restored.
fn check_posix(path: &Path, repair: bool) -> Result<Answer> {
    if repair {
        let message =
            "a posix: pool cannot be repaired: restore or remove the files that the check names";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    let report = PosixPool::check(path)?;
    let response = json!({
        "problems": report.problems,
        "repaired": [],
        "records": report.files,
        "live_bytes": report.bytes,
        "lost_bytes": report.temporary_bytes,
        "lost": [],
    });
    let mut lines: Vec<_> =
        report.problems.iter().map(|problem| format!("problem: {problem}")).collect();
    lines.push(format!(
        "{} with {}, {} in temporary files, {}",
        count(report.files, "file"),
        Bytes(report.bytes),
        Bytes(report.temporary_bytes),
        count(report.problems.len(), "problem")
    ));
    let trouble =
        problems_error(ErrorKind::Corrupt, &report.problems, "restore or remove the file");
    Ok(Answer::new(response, lines.join("\n")).with_trouble(trouble))
}

/// An error if there are problems: the first of them, how many more there are, and the remedy.
fn problems_error(kind: ErrorKind, problems: &[String], remedy: &str) -> Option<Error> {
    let message = match problems {
        [] => return None,
        [one] => format!("{one}; remedy: {remedy}"),
        [one, rest @ ..] => format!("{one}, and {} more; remedy: {remedy}", rest.len()),
    };
    Some(Error::new(kind, message))
}

impl Scrub {
    pub(super) fn run(self) -> Result<Answer> {
        if let Some(pool) = NodesPool::find(&self.pool.pool)? {
            return pool_maintenance::scrub(&pool);
        }
        let path = names::find(&self.pool.pool)?;
        esker_store::Pool::check_pages(&path)?;
        let pool = esker_store::Pool::open(&path)?;
        let bar = Bar::bytes("reading");
        let report = pool.opened()?.scrub(&mut |done, all| bar.update(done, all))?;
        drop(bar);
        let remedy = "write the object again, or remove it";
        let trouble = problems_error(ErrorKind::Checksum, &report.damaged, remedy);
        Ok(scrub_answer(&report).with_trouble(trouble))
    }
}

/// The answer of `scrub`.
fn scrub_answer(report: &ScrubReport) -> Answer {
    let response =
        json!({"records": report.records, "bytes": report.bytes, "damaged": report.damaged});
    let mut lines: Vec<_> =
        report.damaged.iter().map(|damage| format!("damaged: {damage}")).collect();
    lines.push(format!(
        "read {} with {}, {} damaged",
        count(report.records, "record"),
        Bytes(report.bytes),
        report.damaged.len()
    ));
    Answer::new(response, lines.join("\n"))
}
