//! Ids for new objects: one number of the container per process, then a counter of its own.
use esker::types::{ObjectClass, ObjectId, ObjectType, Result};
use esker::{Container, Wait};
use std::sync::{Mutex, PoisonError};

/// The first id of the upper word that is not taken by what every file system has.
const FIRST: u32 = 16;

/// Makes ids that nobody else makes (DAOS: `oid_gen` of DFS).
#[derive(Default)]
pub(crate) struct Oids(Mutex<Option<Series>>);

/// Ids of one process: a lower word of its own, the upper one counts.
#[derive(Clone, Copy)]
struct Series {
    process: u32,
    lo: u64,
    next: u32,
}

impl Oids {
    /// A fresh id of this type and class.
    pub(crate) fn next(
        &self,
        container: &Container,
        otype: ObjectType,
        class: Option<ObjectClass>,
    ) -> Result<ObjectId> {
        let (hi, lo) = self.number(container)?;
        container.generate_oid(u64::from(hi), lo, otype, class, 0)
    }

    fn number(&self, container: &Container) -> Result<(u32, u64)> {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        // A forked child has a copy of its parent's series, and must not go on with it.
        let own = series.filter(|series| series.process == process && series.next < u32::MAX);
        let current = match own {
            Some(current) => current,
            None => Series { process, lo: fresh(container)?, next: FIRST },
        };
        *series = Some(Series { next: current.next + 1, ..current });
        Ok((current.next, current.lo))
    }
}

/// A lower word that no other process has; 0 belongs to what every file system has.
fn fresh(container: &Container) -> Result<u64> {
    loop {
        match container.allocate_oids(1).wait()? {
            0 => {}
            lo => return Ok(lo),
        }
    }
}
