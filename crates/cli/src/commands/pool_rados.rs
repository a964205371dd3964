//! `esker pool` on pools on Ceph.
use super::pool::Create;
use crate::output::Answer;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Rados, RadosUrl, Wait};
use serde_json::json;
use std::sync::Arc;

/// Makes the pool at a `rados:` URL, in a pool of Ceph that is there.
pub(super) fn create(url: &RadosUrl, options: &Create) -> Result<Answer> {
    if options.reserves() || options.fsync {
        let message =
            "a rados pool takes no option: what it survives, and how large it grows, is up to Ceph";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if Rados::open(url, OpenMode::ReadOnly).is_ok() {
        return Err(Error::new(ErrorKind::Exists, format!("there is a pool at {url}")));
    }
    let made = Rados::open(url, OpenMode::ReadWrite)?;
    let info = Pool::from_backend(Arc::new(made), OpenMode::ReadWrite).info().wait()?;
    let response = json!({
        "uuid": info.uuid.to_string(),
        "label": info.label,
        "url": info.url,
        "medium": "other",
        "durability": "commit",
        "size_bytes": null,
        "targets": info.targets.len(),
    });
    Ok(Answer::new(response, format!("pool {} on Ceph: use it as {}", info.label, info.url)))
}
