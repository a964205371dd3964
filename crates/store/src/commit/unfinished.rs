//! Commits over several targets that a stop of the machine left unfinished, where nobody can finish them.
use super::coordinate::{applied, intent_key};
use super::intent::decode;
use crate::target::Target;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::sync::Arc;

/// Where nobody can write, all that was decided must have been carried out.
pub(super) fn refuse(targets: &[Arc<Target>]) -> Result<()> {
    for coordinator in targets {
        let txn = coordinator.index.read()?;
        let intent = txn.get(&intent_key())?.map(decode).transpose()?;
        for target in targets {
            let done = applied(&*target.index.read()?)?;
            target.control.pass_epoch(Epoch(done));
            if intent.iter().any(|it| {
                it.epoch.0 > done && it.parts.iter().any(|part| part.0 == target.number())
            }) {
                let message =
                    "a commit was left unfinished: open the pool once where it can be written";
                return Err(Error::new(ErrorKind::Busy, message));
            }
        }
    }
    Ok(())
}
