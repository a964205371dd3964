//! Open tensors.
use super::pieces::Selection;
use super::{TensorStore, layout, read};
use crate::dtype::DataType;
use crate::grid::Grid;
use crate::messages::{Attribute, State, TensorRecord};
use crate::slab::{self, Slab};
use esker::{Array, Lease, Wait};
use esker_types::ops::Sink;
use esker_types::{Error, ErrorKind, Extent, Result, Uuid};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A tensor, open for reading. It does not change. Clones are cheap; many threads may read at a time.
///
/// While a process has it open, its space is not freed, even if it is replaced or removed. On pools that do not show
/// leases of other processes (`posix:` and `rados:`), a collection may free it; then reads fail.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    store: TensorStore,
    uuid: Uuid,
    record: TensorRecord,
    grid: Grid,
    data_type: DataType,
    array: Array,
    lease: Option<Lease>,
    /// True if the tensor was already removed when the lease was taken: it may have been freed at the same time.
    was_removed: bool,
    /// Value of `lease_losses` when the tensor was last found to exist.
    losses: AtomicU64,
}

impl Drop for Inner {
    /// Frees a removed tensor, if no other process has it open.
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        if lease.release().wait().is_ok_and(|is_last| is_last) {
            // If this fails, a later collection frees it.
            let _ = self.store.free_unread(self.uuid);
        }
    }
}

impl Tensor {
    /// Opens a tensor; `None` if it was removed meanwhile.
    pub(super) fn open(
        store: &TensorStore,
        uuid: Uuid,
        record: TensorRecord,
    ) -> Result<Option<Self>> {
        let tensor = Self::leased(store, uuid, record)?;
        Ok(tensor.filter(|tensor| !tensor.0.was_removed))
    }

    /// Opens a tensor, also if it was removed while a process still has it open.
    pub(super) fn open_held(
        store: &TensorStore,
        uuid: Uuid,
        record: TensorRecord,
    ) -> Result<Option<Self>> {
        Self::leased(store, uuid, record)
    }

    /// Takes a lease, then checks that the tensor exists: `None` if it does not, or is not committed.
    fn leased(store: &TensorStore, uuid: Uuid, record: TensorRecord) -> Result<Option<Self>> {
        let (grid, data_type) = (record.grid()?, record.data_type()?.clone());
        let array = layout::data(&store.container, uuid, record.object_class, &grid)?;
        // Read before the lease is taken, so that no loss of the lease is missed.
        let losses = AtomicU64::new(store.container.lease_losses(array.object().oid()));
        let lease = match store.snapshot {
            None => Some(array.object().lease().wait()?),
            Some(_) => None,
        };
        let store = store.clone();
        let mut inner = Inner {
            store,
            uuid,
            record,
            grid,
            data_type,
            array,
            lease,
            was_removed: false,
            losses,
        };
        if inner.lease.is_none() {
            return Ok(Some(Self(Arc::new(inner))));
        }
        let current = inner.store.record(uuid, inner.store.access())?;
        match current.map(|record| record.state()) {
            Some(State::Committed) => {}
            Some(State::Removed) => inner.was_removed = true,
            Some(State::Pending) | None => return Ok(None),
        }
        Ok(Some(Self(Arc::new(inner))))
    }

    /// The UUID of the tensor.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.0.uuid
    }

    /// The name it had when it was opened, if it had one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.record.names.first().map(String::as_str)
    }

    /// The type of its elements.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.0.data_type
    }

    /// The shape and chunks of the tensor.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.0.grid
    }

    /// The attributes of the tensor, by name.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, Attribute> {
        &self.0.record.attributes
    }

    /// Time of its commit.
    #[must_use]
    pub fn committed(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.record.committed_ms)
    }

    /// The Array with its chunks: chunk `c` has the bytes from `c * chunk_bytes`, unencoded and in C order.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.0.array
    }

    /// The store of the tensor.
    #[must_use]
    pub fn store(&self) -> &TensorStore {
        &self.0.store
    }

    /// Bytes of the elements of a selection.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the selection does not fit the shape, [`ErrorKind::Overflow`] if they do not fit in
    /// memory.
    pub fn bytes_of(&self, slabs: &[Slab]) -> Result<usize> {
        slab::check(slabs, self.0.grid.shape())?;
        let counts = slabs.iter().map(|slab| slab.count);
        let bytes = counts.product::<u64>() * self.0.grid.item();
        let bytes = isize::try_from(bytes).map(isize::cast_unsigned);
        bytes.map_err(|_| {
            let text = "the elements do not fit in memory: read fewer at a time";
            Error::new(ErrorKind::Overflow, text)
        })
    }

    /// Fills `buffer` with the elements of a selection, in C order. Long runs are read without a copy, and chunks
    /// concurrently.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the selection does not fit the shape or `buffer` its length,
    /// [`ErrorKind::NotFound`] if the tensor was freed; errors of the backend.
    pub fn read(&self, slabs: &[Slab], buffer: &mut [u8]) -> Result<()> {
        let (inner, bytes) = (&*self.0, self.bytes_of(slabs)?);
        if bytes != buffer.len() {
            let text = format!("a buffer of {} bytes for elements of {bytes} bytes", buffer.len());
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let selection = Selection::new(&inner.grid, slabs);
        read::read(&inner.array, &selection, buffer, inner.store.access())?;
        self.check_there()
    }

    /// The elements of a selection, in C order.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub fn read_to_vec(&self, slabs: &[Slab]) -> Result<Vec<u8>> {
        let mut buffer = esker_types::memory::zeros(self.bytes_of(slabs)?)?;
        self.read(slabs, &mut buffer)?;
        Ok(buffer)
    }

    /// Fills `buffer` with bytes of the Array, starting at `at`: stored chunks, with zeros where a chunk has no
    /// elements.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub(crate) fn read_bytes(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let (inner, extent) = (&*self.0, Extent::new(at, buffer.len() as u64));
        let access = inner.store.access();
        inner.array.read_or_zero(&[extent], Sink::One(buffer), access).wait()?;
        self.check_there()
    }

    /// Checks after a read that the tensor was not freed meanwhile. That is possible if the pool does not show leases
    /// of other processes, or if the lease may have been lost.
    fn check_there(&self) -> Result<()> {
        let inner = &*self.0;
        let holds = !inner.was_removed && inner.lease.as_ref().is_some_and(Lease::counts);
        let container = &inner.store.container;
        let losses = container.lease_losses(inner.array.object().oid());
        let was_lost = losses != inner.losses.load(Ordering::Acquire);
        let is_sure = holds && !was_lost && container.capabilities().shared_leases;
        if is_sure || inner.store.snapshot.is_some() {
            return Ok(());
        }
        if inner.store.has_record(inner.uuid)? {
            inner.losses.store(losses, Ordering::Release);
            return Ok(());
        }
        let text = format!(
            "tensor {} was removed or replaced and then freed: open it again by its name",
            inner.uuid
        );
        Err(Error::new(ErrorKind::NotFound, text))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.debug_struct("Tensor")
            .field("uuid", &inner.uuid)
            .field("grid", &inner.grid)
            .finish_non_exhaustive()
    }
}
