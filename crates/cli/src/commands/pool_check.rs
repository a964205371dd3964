//! `esker pool check` and `esker pool scrub`: looking for damage.
use super::pool_posix;
use crate::args::PoolArg;
use crate::output::Answer;
use crate::progress::Bar;
use clap::Args;
use esker::names::{self, Named};
use esker::types::{Error, ErrorKind, Result};
use esker_bench::units::Bytes;
use esker_store::{CheckReport, ScrubReport};
use serde_json::json;

/// Look for damage in the structures of a pool
///
/// Exit status 1 where something is wrong. A pool that does not survive a stop of the machine must pass
/// a check with --repair before it opens again.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pool: PoolArg,
    /// Remove damaged records and count all space anew; nobody else may use the pool
    #[arg(long)]
    repair: bool,
}

/// Read all data of a pool and compare it with its checksums
///
/// Names the object of everything that is damaged. Exit status 1 where anything is.
#[derive(Args)]
pub(crate) struct Scrub {
    #[command(flatten)]
    pool: PoolArg,
}

impl Check {
    pub(super) fn run(self) -> Result<Answer> {
        let path = match names::resolve(&self.pool.pool)? {
            Named::Posix(url) => return pool_posix::check(&url.path, self.repair),
            Named::Native(path) => path,
        };
        let bar = Bar::steps("checking");
        let report =
            esker_store::Pool::check(&path, self.repair, &mut |done, all| bar.update(done, all))?;
        drop(bar);
        let remedy = match report.pages_damaged {
            true => {
                "esker pool salvage, which saves what can be read: no repair mends pages of an index"
            }
            false => "esker pool check --repair",
        };
        let trouble = found(ErrorKind::Corrupt, &report.problems, remedy);
        Ok(check_answer(&report).with_trouble(trouble))
    }
}

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
    let (data, problems) = (Bytes(report.live_bytes), report.problems.len());
    lines.push(format!("{} records, {data} of data, {problems} problems", report.records));
    Answer::new(response, lines.join("\n"))
}

/// A failure where anything was found.
pub(super) fn found(kind: ErrorKind, problems: &[String], remedy: &str) -> Option<Error> {
    let message = match problems {
        [] => return None,
        [one] => format!("{one}; to mend it: {remedy}"),
        [one, rest @ ..] => format!("{one}, and {} more; to mend it: {remedy}", rest.len()),
    };
    Some(Error::new(kind, message))
}

impl Scrub {
    pub(super) fn run(self) -> Result<Answer> {
        let path = names::find(&self.pool.pool)?;
        esker_store::Pool::check_pages(&path)?;
        let pool = esker_store::Pool::open(&path)?;
        let bar = Bar::bytes("reading");
        let report = pool.state()?.scrub(&mut |done, all| bar.update(done, all))?;
        drop(bar);
        let remedy = "write the object anew, or remove it";
        let trouble = found(ErrorKind::Checksum, &report.damaged, remedy);
        Ok(scrub_answer(&report).with_trouble(trouble))
    }
}

fn scrub_answer(report: &ScrubReport) -> Answer {
    let response =
        json!({"records": report.records, "bytes": report.bytes, "damaged": report.damaged});
    let mut lines: Vec<_> =
        report.damaged.iter().map(|damage| format!("damaged: {damage}")).collect();
    lines.push(format!(
        "{} records, {} read, {} damaged",
        report.records,
        Bytes(report.bytes),
        report.damaged.len()
    ));
    Answer::new(response, lines.join("\n"))
}
