//! Check of a store: names must refer to tensors, and tensors must have all their chunks.
use super::names::all_keys;
use super::{Tensor, TensorStore, layout};
use crate::messages::{State, TensorRecord};
use crate::slab::Slab;
use esker::Wait;
use esker_types::ops::{Anchor, ListLimit};
use esker_types::{ErrorKind, Result, Uuid};

/// Keys that are listed at a time.
const BATCH: usize = 4096;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Visible tensors.
    pub tensors: u64,
    /// Bytes of their elements.
    pub bytes: u64,
    /// PUTs and removed tensors, which a collection may free.
    pub hidden: u64,
    /// Problems, each in a sentence.
    pub problems: Vec<String>,
}

impl TensorStore {
    /// Checks all records, names and chunks. With `data`, all elements are read, so that their checksums are verified.
    ///
    /// # Errors
    /// Errors of the backend. Damage is reported as a problem, without an error.
    pub fn check(&self, data: bool) -> Result<Checked> {
        let mut checked = Checked::default();
        for name in all_keys(&self.names, self.access())? {
            if let Err(error) = self.find(&name) {
                // Unless the name was removed meanwhile.
                if self.names.size(name.as_bytes(), self.access()).wait()?.is_some() {
                    checked
                        .problems
                        .push(format!("the name {name:?} does not refer to a tensor: {error}"));
                }
            }
        }
        for key in all_keys(&self.tensors, self.access())? {
            if let Err(error) = self.check_one(&key, data, &mut checked) {
                checked.problems.push(format!("tensor {key}: {error}"));
            }
        }
        Ok(checked)
    }

    /// Checks one record, and with `data` the elements. What is wrong is noted, and is not an error.
    fn check_one(&self, key: &str, data: bool, checked: &mut Checked) -> Result<()> {
        let Some(uuid) = Uuid::parse(key) else {
            checked.problems.push(format!("{key:?} is not the UUID of a tensor"));
            return Ok(());
        };
        let Some(record) = self.record(uuid, self.access())? else { return Ok(()) };
        if record.state() != State::Committed || !self.is_visible(uuid, &record, self.access())? {
            checked.hidden += 1;
            return Ok(());
        }
        let grid = record.grid()?;
        record.data_type()?.check()?;
        checked.tensors += 1;
        checked.bytes += grid.bytes();
        let (chunks, expected) = (self.chunks(uuid, &record)?, grid.chunk_count());
        let may_lack_chunks = record.sparse && chunks < expected;
        // Without a record, the tensor was freed meanwhile.
        if chunks != expected && !may_lack_chunks && self.has_record(uuid)? {
            checked.problems.push(format!("tensor {uuid} has {chunks} of {expected} chunks"));
        }
        if data { self.read_all(uuid, record) } else { Ok(()) }
    }

    /// Number of stored chunks of a tensor.
    fn chunks(&self, uuid: Uuid, record: &TensorRecord) -> Result<u64> {
        let object = self.container.object(layout::data_oid(uuid, record.object_class));
        let (mut anchor, mut count) = (Anchor::Start, 0);
        while !anchor.is_end() {
            let limit = ListLimit::entries(BATCH);
            count += object.list_dkeys(&mut anchor, limit, self.access()).wait()?.len() as u64;
        }
        Ok(count)
    }

    /// Reads a tensor, one chunk of the first dimension after another.
    fn read_all(&self, uuid: Uuid, record: TensorRecord) -> Result<()> {
        let Some(tensor) = Tensor::open(self, uuid, record)? else { return Ok(()) };
        let grid = tensor.grid();
        if grid.bytes() == 0 {
            return Ok(());
        }
        let mut slabs = Slab::whole(grid.shape());
        let (length, chunk) =
            (slabs.first().map(|slab| slab.count), grid.chunks().first().copied());
        let (Some(length), Some(chunk)) = (length, chunk) else {
            return tensor.read_to_vec(&slabs).map(drop);
        };
        for start in (0..length).step_by(chunk.try_into().unwrap_or(usize::MAX)) {
            slabs[0] = Slab::new(start, chunk.min(length - start));
            match tensor.read_to_vec(&slabs) {
                // The tensor was freed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                read => drop(read?),
            }
        }
        Ok(())
    }
}
