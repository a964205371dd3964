//! Ids for new objects: one number of the container per process, combined with a counter of the process.
use esker::types::{ObjectClass, ObjectId, ObjectType, Result};
use esker::{Container, Wait};
use esker_os::ForkLock;

/// The first upper word after those of the objects that every file system has.
const FIRST: u32 = 16;

/// Generates unique ids (DAOS: `oid_gen` of DFS). A forked child starts a series of its own.
#[derive(Default)]
pub(crate) struct Oids(ForkLock<Option<Series>>);

/// Ids of one process: the lower word is its own, the upper one counts.
#[derive(Clone, Copy)]
struct Series {
    lo: u64,
    next: u32,
}

impl Oids {
    /// A new object id of this type and class, which no other process generates.
    pub(crate) fn next(
        &self,
        container: &Container,
        otype: ObjectType,
        class: Option<ObjectClass>,
    ) -> Result<ObjectId> {
        let (hi, lo) = self.number(container)?;
        container.generate_oid(u64::from(hi), lo, otype, class, 0)
    }

    /// The next number of a new object in this process's series.
    fn number(&self, container: &Container) -> Result<(u32, u64)> {
        let mut series = self.0.lock();
        let current = match series.filter(|series| series.next < u32::MAX) {
            Some(current) => current,
            None => Series { lo: new_lower_word(container)?, next: FIRST },
        };
        *series = Some(Series { next: current.next + 1, ..current });
        Ok((current.next, current.lo))
    }
}

/// A lower word that no other process has; 0 is reserved for the objects that every file system has.
fn new_lower_word(container: &Container) -> Result<u64> {
    loop {
        match container.allocate_oids(1).wait()? {
            0 => {}
            lo => return Ok(lo),
        }
    }
}
