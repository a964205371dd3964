//! Ids for new objects: one number of the container per process, then a counter of its own.
use esker::types::{ObjectClass, ObjectId, ObjectType, Result};
use esker::{Container, Wait};
use esker_os::ForkLock;

/// The first id of the upper word that is not taken by what every file system has.
const FIRST: u32 = 16;

/// Makes ids that nobody else makes (DAOS: `oid_gen` of DFS). A child made by fork begins a series of its
/// own.
#[derive(Default)]
pub(crate) struct Oids(ForkLock<Option<Series>>);

/// Ids of one process: a lower word of its own, the upper one counts.
#[derive(Clone, Copy)]
struct Series {
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
        let mut series = self.0.lock();
        let current = match series.filter(|series| series.next < u32::MAX) {
            Some(current) => current,
            None => Series { lo: fresh(container)?, next: FIRST },
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
