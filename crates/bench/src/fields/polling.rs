//! Reading while others write.
use super::session::Session;
use super::worker::{Done, Moment};
use crate::clock::monotonic_ns;
use crate::measure::Meter;
use esker_types::{Error, ErrorKind, Result};
use std::time::Duration;

/// How long a reader waits for the next field.
const PATIENCE: Duration = Duration::from_secs(60);

impl Session {
    /// Begins to watch the fields of all processes.
    pub(super) fn look_out(&mut self) -> Result<()> {
        let selection = self.selection(0..self.job.procs)?;
        self.watch = Some(self.store()?.watch(&selection, true)?);
        Ok(())
    }

    /// Reads every field as soon as it can be seen; with the moments at which they were.
    pub(super) fn watch(&mut self) -> Result<Done> {
        let shape = self.job.shape;
        let all = shape.fields() * u64::from(self.job.procs);
        let Some(mut watch) = self.watch.take() else {
            return Err(Error::new(ErrorKind::Invalid, "nothing is watched"));
        };
        let (mut meter, mut moments) = (Meter::start(), Vec::new());
        while (moments.len() as u64) < all {
            let Some(field) = watch.next(PATIENCE)? else {
                return Err(nothing(moments.len(), all));
            };
            let (writer, step) = shape.origin(field.key())?;
            moments.push(Moment { writer, step, ns: monotonic_ns() });
            field.read_at(0, &mut self.buffer)?;
            meter.tick(1, field.bytes());
            if self.job.verify {
                self.message.check(field.key(), &self.buffer)?;
            }
        }
        Ok(Done { measured: meter.finish(), moments })
    }
}

#[cold]
fn nothing(seen: usize, all: u64) -> Error {
    let text = format!("{seen} of {all} fields were seen, then none for {} s", PATIENCE.as_secs());
    Error::new(ErrorKind::TimedOut, text)
}
