//! Runs a pipeline: reads records, and returns or aggregates those that meet its conditions.
use super::expression::{Aggregate, AkeyData, Operand, Record};
use super::parse::Parsed;
use crate::abi::{self, IOD_ARRAY, IOD_SINGLE, Iod, KeyDesc, PipelineStats, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert::{self, Extents};
use crate::handles::Entry;
use crate::list::{self, Level};
use crate::object;
use crate::packing::Buffers;
use esker::types::ops::{Anchor, Cond, Fetch, ListLimit, Sink};
use esker::{Access, Object};

/// Dkeys that are listed at a time.
const DKEYS_PER_LIST: usize = 128;
/// Bytes of all akeys of a record.
const RECORD_MAX: u64 = 64 << 20;
/// Akeys of a record.
const AKEYS_MAX: u32 = 1024;

/// The arguments of C.
#[derive(Clone, Copy)]
pub(super) struct Arguments {
    pub(super) nr_iods: Ptr<u32>,
    pub(super) iods: Ptr<Iod>,
    pub(super) anchor: Ptr<abi::Anchor>,
    pub(super) nr_kds: Ptr<u32>,
    pub(super) kds: Ptr<KeyDesc>,
    pub(super) keys: Ptr<Sgl>,
    pub(super) values: Ptr<Sgl>,
    pub(super) sizes: Ptr<u64>,
    pub(super) aggregates: Ptr<Sgl>,
    pub(super) stats: Ptr<PipelineStats>,
}

/// An akey to fetch of each dkey.
struct Akey {
    name: Vec<u8>,
    /// `IOD_SINGLE` or `IOD_ARRAY`.
    kind: u32,
    extents: Extents,
    /// First record and number of records of each range.
    ranges: Vec<(u64, u64)>,
    /// Buffer for the data of one dkey.
    room: Vec<u8>,
}

/// A run, and what it has found.
pub(super) struct Run {
    pipeline: Parsed,
    arguments: Arguments,
    akeys: Vec<Akey>,
    /// Most records to return.
    room: usize,
    keys: Buffers,
    values: Buffers,
    /// Result of each aggregation so far.
    results: Vec<f64>,
    /// Records read.
    scanned: u64,
    /// Records that met the conditions.
    passed: u64,
    /// Records returned.
    returned: usize,
}

impl Akey {
    /// Reads which records of an akey the pipeline needs. `INVAL` if ranges overlap, or if their data has
    /// more than `left` bytes. Subtracts the size of the data from `left`.
    fn new(iod: &Iod, left: &mut u64) -> Result<Self> {
        let extents = match (iod.kind, iod.nr) {
            (IOD_SINGLE, 1) => Extents::Many(Vec::new()),
            (IOD_ARRAY, 1..) => Extents::new(iod.recxs, u64::from(iod.nr))?,
            _ => return Err(Code::INVAL),
        };
        if !extents.are_apart() {
            return Err(Code::INVAL);
        }
        let size = if iod.kind == IOD_ARRAY { extents.bytes(iod.size)? } else { iod.size };
        *left = left.checked_sub(size).ok_or(Code::INVAL)?;
        let ranges = extents.as_slice().iter().map(|extent| (extent.start, extent.count)).collect();
        let name = convert::key_in(&iod.name)?.to_vec();
        Ok(Self { name, kind: iod.kind, extents, ranges, room: vec![0; size as usize] })
    }
}

impl Run {
    /// Checks the arguments of a run against the pipeline.
    pub(super) fn new(pipeline: Parsed, arguments: Arguments) -> Result<Self> {
        let (count, room) = (arguments.nr_iods.get()?, arguments.nr_kds.get()? as usize);
        let is_reduced = !pipeline.aggregates.is_empty();
        if !(1..=AKEYS_MAX).contains(&count) || (room == 0 && !is_reduced) {
            return Err(Code::INVAL);
        }
        let akeys = arguments.iods.list(count as usize)?;
        let mut left = RECORD_MAX;
        let akeys = akeys.iter().map(|iod| Akey::new(iod, &mut left));
        let akeys = akeys.collect::<Result<Vec<_>>>()?;
        if room > 0 {
            arguments.kds.needed()?;
        }
        let results = pipeline.aggregates.iter().map(|(aggregate, _)| aggregate.start()).collect();
        let (mut keys, mut values) =
            (Buffers::new(arguments.keys)?, Buffers::new(arguments.values)?);
        keys.clear();
        values.clear();
        // An aggregation returns at most one record.
        let room = if is_reduced { room.min(1) } else { room };
        let (scanned, passed, returned) = (0, 0, 0);
        let run = Self {
            pipeline,
            arguments,
            akeys,
            room,
            keys,
            values,
            results,
            scanned,
            passed,
            returned,
        };
        run.check_aggregates().map(|()| run)
    }

    /// Fails unless the caller gave a buffer for the result of each aggregation.
    fn check_aggregates(&self) -> Result<()> {
        let wanted = self.results.len();
        if wanted == 0 {
            return Ok(());
        }
        let buffers = convert::buffers_of(self.arguments.aggregates)?;
        let fits = |iov: &abi::Iov| !iov.buf.is_null() && iov.buf_len >= size_of::<f64>();
        if buffers.len() == wanted && buffers.iter().all(fits) { Ok(()) } else { Err(Code::INVAL) }
    }

    /// Runs until there is no room for another record, or to the end.
    pub(super) async fn run(mut self, entry: &Entry, access: Access<'_>) -> Result<()> {
        let (object, positions) = object::listed(entry)?;
        let mut at = list::read_anchor(self.arguments.anchor, positions)?;
        let is_first = at == Anchor::Start;
        let is_reduced = !self.results.is_empty();
        // An aggregation reads all records in one call, so it cannot continue in the middle.
        if is_reduced && !is_first && !at.is_end() {
            return Err(Code::INVAL);
        }
        let is_over = at.is_end();
        while !at.is_end() && (is_reduced || self.returned < self.room) {
            let left = if is_reduced { DKEYS_PER_LIST } else { self.room - self.returned };
            let limit = ListLimit::entries(left.min(DKEYS_PER_LIST));
            let dkeys = Level::Dkeys.list(object, &mut at, limit, access).await?;
            for dkey in dkeys.iter() {
                self.read(object, dkey, access).await?;
            }
        }
        self.write_results(is_first, is_over)?;
        list::write_anchor(self.arguments.anchor, at, positions);
        Ok(())
    }

    /// Reads a record; returns and aggregates it if it meets the conditions.
    async fn read(&mut self, object: &Object, dkey: &[u8], access: Access<'_>) -> Result<()> {
        let found = fetch(&mut self.akeys, object, dkey, access).await?;
        let akeys = self.akeys.iter().zip(&found);
        let akeys = akeys.map(|(akey, (size, filled))| AkeyData {
            name: &akey.name,
            record_size: *size,
            ranges: &akey.ranges,
            data: &akey.room[..*filled],
        });
        let record = Record { dkey, akeys: akeys.collect() };
        self.scanned += 1;
        for condition in &self.pipeline.conditions {
            if !condition.holds(&record)? {
                return Ok(());
            }
        }
        self.passed += 1;
        aggregate(&self.pipeline.aggregates, &mut self.results, &record)?;
        if self.returned == self.room {
            return Ok(());
        }
        put(&mut self.keys, dkey)?;
        let description = KeyDesc { key_len: dkey.len() as u64, val_type: 0 };
        self.arguments.kds.at(self.returned).set(description);
        for (index, akey) in record.akeys.iter().enumerate() {
            put(&mut self.values, akey.data)?;
            if !self.arguments.sizes.is_null() {
                let index = self.returned * self.akeys.len() + index;
                self.arguments.sizes.at(index).set(akey.record_size);
            }
        }
        self.returned += 1;
        Ok(())
    }

    /// Writes all results but the anchor. `is_first`: the run began at the start; statistics are reset. `is_over`: it
    /// began at the end; statistics and aggregates stay.
    fn write_results(&self, is_first: bool, is_over: bool) -> Result<()> {
        self.keys.record()?;
        self.values.record()?;
        self.arguments.nr_kds.set(self.returned as u32);
        if is_over {
            return Ok(());
        }
        if !self.arguments.stats.is_null() {
            let before =
                if is_first { PipelineStats::default() } else { self.arguments.stats.get()? };
            let nr_dkeys = before.nr_dkeys + self.scanned;
            self.arguments.stats.set(PipelineStats { nr_dkeys, ..before });
        }
        if self.results.is_empty() { Ok(()) } else { self.write_aggregates() }
    }

    /// Writes the results of the aggregates to the buffers of the caller.
    fn write_aggregates(&self) -> Result<()> {
        let mut sgl = self.arguments.aggregates.get()?;
        let results = self.pipeline.aggregates.iter().zip(&self.results);
        for (index, ((aggregate, _), result)) in results.enumerate() {
            let at = sgl.iovs.at(index);
            let mut iov = at.get()?;
            let bytes = aggregate.end(*result, self.passed).to_ne_bytes();
            iov.buf.write(bytes.len() as u64)?.copy_from_slice(&bytes);
            iov.len = bytes.len();
            at.set(iov);
        }
        sgl.nr_out = self.results.len() as u32;
        self.arguments.aggregates.set(sgl);
        Ok(())
    }
}

/// Fetches the akeys of a dkey; returns for each the size of a record and the bytes found.
async fn fetch(
    akeys: &mut [Akey],
    object: &Object,
    dkey: &[u8],
    access: Access<'_>,
) -> Result<Vec<(u64, usize)>> {
    let fetches = akeys.iter_mut().map(|akey| {
        let room = &mut akey.room;
        match akey.kind {
            IOD_ARRAY => {
                // Records that do not exist read as zeros.
                room.fill(0);
                Fetch::array(&akey.name, 0, akey.extents.as_slice(), Sink::One(room))
            }
            _ => Fetch::single(&akey.name, Sink::One(room)),
        }
    });
    let mut fetches: Vec<_> = fetches.collect();
    object.fetch(dkey, Cond::NONE, &mut fetches, access).await?;
    let found = fetches.iter().map(|fetch| &fetch.reply);
    Ok(found.map(|reply| (reply.size, reply.filled_bytes as usize)).collect())
}

/// Adds a record to all aggregates.
fn aggregate(
    aggregates: &[(Aggregate, Operand)],
    results: &mut [f64],
    record: &Record<'_>,
) -> Result<()> {
    for ((aggregate, operand), result) in aggregates.iter().zip(results) {
        if let Some(value) = operand.value(record)?.and_then(super::value::Value::real) {
            *result = aggregate.add(*result, value);
        }
    }
    Ok(())
}

/// Copies a key or value to the buffers. `REC2BIG` if none has room for it.
fn put(buffers: &mut Buffers, data: &[u8]) -> Result<()> {
    if buffers.push(data)? { Ok(()) } else { Err(Code::REC2BIG) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dfs::intercepted::iov;

    #[test]
    fn akeys_of_a_record_share_the_limit_of_its_size() {
        let mut name = *b"akey";
        let (name, recxs) = (iov(&mut name), Ptr::null());
        let iod = Iod { name, kind: IOD_SINGLE, size: 40 << 20, flags: 0, nr: 1, recxs };
        let mut left = RECORD_MAX;
        assert!(Akey::new(&iod, &mut left).is_ok());
        assert_eq!(Akey::new(&iod, &mut left).map(drop), Err(Code::INVAL));
    }
}
