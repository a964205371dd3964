//! Listing and retrieving.
use super::worker::Worker;
use super::{Field, SCATTERED_MAX};
use crate::errors::ensure_intact;
use crate::measure::{Measured, Meter, Until, measure};
use esker_fields::read_ahead;
use esker_types::Result;

impl Worker {
    /// Lists the fields of all processes.
    pub(super) fn list(&mut self) -> Result<Measured> {
        let (all, store) =
            (self.job.shape.fields() * u64::from(self.job.member.procs), self.store()?);
        let mut meter = Meter::start();
        let selection = self.selection(0..self.job.member.procs)?;
        let mut count = 0;
        store.visit(&selection, false, |_| {
            count += 1;
            Ok(true)
        })?;
        meter.tick(count, 0)?;
        counted(count, all)?;
        Ok(meter.finish())
    }

    /// Asks for the axes of all fields.
    pub(super) fn axes(&mut self) -> Result<Measured> {
        let (shape, store) = (self.job.shape, self.store()?);
        let mut meter = Meter::start();
        let selection = self.selection(0..self.job.member.procs)?;
        let axes = store.axes(&selection)?;
        meter.tick(shape.fields() * u64::from(self.job.member.procs), 0)?;
        let count = |name: &str| axes.values(name).count() as u64;
        let members = count("number") / u64::from(self.job.member.procs);
        counted(count("step") * count("levelist") * count("param") * members, shape.fields())?;
        Ok(meter.finish())
    }

    /// Finds and reads fields of the next process, one at a time.
    pub(super) fn retrieve(&mut self, count: u64) -> Result<Measured> {
        let owner = self.job.member.neighbour();
        self.one_by_one((0..count).map(|index| Field { owner, index }).collect())
    }

    /// Finds and reads fields of any process in random order, one at a time.
    pub(super) fn scattered(&mut self) -> Result<Measured> {
        let (fields, procs) = (self.job.shape.fields(), u64::from(self.job.member.procs));
        let seed = self.job.member.seed ^ (u64::from(self.job.member.rank) << 32);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut any = || {
            let number = random.u64(..fields * procs);
            Field { owner: (number / fields) as u32, index: number % fields }
        };
        let some = (0..self.some()).map(|_| any()).collect();
        self.one_by_one(some)
    }

    /// Number of fields that are retrieved out of order.
    pub(super) fn some(&self) -> u64 {
        self.job.shape.fields().min(SCATTERED_MAX)
    }

    fn one_by_one(&mut self, fields: Vec<Field>) -> Result<Measured> {
        let (shape, store) = (self.job.shape, self.store()?);
        measure(Until::ops(fields.len() as u64), shape.size_bytes, |number| {
            let Some(field) = fields.get(number as usize) else { return Ok(()) };
            let found = store.field(&shape.key(*field)?)?;
            counted(found.bytes(), shape.size_bytes)?;
            found.read_at(0, &mut self.buffer)
        })
    }

    /// Retrieves all fields of the next process by one request, and compares them if `verify`.
    pub(super) fn request(&mut self, verify: bool) -> Result<Measured> {
        let (shape, store, owner) = (self.job.shape, self.store()?, self.job.member.neighbour());
        let mut meter = Meter::start();
        let selection = self.selection(owner..owner + 1)?;
        let fields = store.retrieve(&selection)?;
        counted(fields.len() as u64, shape.fields())?;
        read_ahead(&fields, |field, bytes| {
            meter.tick(1, bytes.len() as u64)?;
            if verify { self.message.check(field.key(), bytes) } else { Ok(()) }
        })?;
        Ok(meter.finish())
    }
}

/// Checks that as many fields were found as were archived.
fn counted(found: u64, archived: u64) -> Result<()> {
    ensure_intact(found == archived, || format!("found {found} of {archived} archived fields"))
}
