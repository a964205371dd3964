//! `esker pool` on pools of files.
use super::pool::Create;
use crate::output::Answer;
use crate::shapes;
use esker::types::{Error, ErrorKind, Result};
use esker::{PosixPool, PosixUrl};
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::Path;

/// Makes the pool at a `posix:` URL.
pub(super) fn create(url: &PosixUrl, options: &Create) -> Result<Answer> {
    if options.reserves() {
        let message = "a posix pool takes no option but --fsync: it reserves nothing, and grows with \
                       what is in it";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let fsync = options.fsync || url.fsync == Some(true);
    let pool = PosixPool::create(&url.path, fsync)?;
    let path = url.path.canonicalize().unwrap_or_else(|_| url.path.clone());
    let text = format!("pool {} of files: use it as posix:{}", pool.label, path.display());
    Ok(Answer::new(shapes::posix(&path, &pool), text))
}

pub(super) fn destroy(path: &Path) -> Result<Answer> {
    let url = format!("posix:{}", path.display());
    PosixPool::destroy(path)?;
    Ok(Answer::new(json!({"url": url}), format!("pool {} is gone", path.display())))
}

/// Looks for damage; there is nothing to repair that is not better restored.
pub(super) fn check(path: &Path, repair: bool) -> Result<Answer> {
    if repair {
        let message = "a posix pool cannot be repaired: restore or remove what the check names";
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
        "{} files, {} in them, {} in temporary ones, {} problems",
        report.files,
        Bytes(report.bytes),
        Bytes(report.temporary_bytes),
        report.problems.len()
    ));
    let remedy = "restore or remove it";
    let trouble = super::pool_check::found(ErrorKind::Corrupt, &report.problems, remedy);
    Ok(Answer::new(response, lines.join("\n")).with_trouble(trouble))
}
