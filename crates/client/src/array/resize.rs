//! Changing the size of an array.
use super::punch::punch_update;
use super::{ATTRIBUTES_DKEY, Array};
use crate::access::Access;
use crate::limits::ARRAY_TRIES_MAX;
use crate::proof::Proof;
use crate::transaction::Transaction;
use esker_types::ops::{
    AkeyRef, Anchor, Cond, FIRST_CHUNK, Fetch, ListLimit, Sink, Source, Update, Value, Write,
    WriteOp,
};
use esker_types::{Error, ErrorKind, Extent, FLAT_AKEY, ObjectType, Result, key_to_u64};

/// Number of dkeys that are listed and removed per step.
const DKEYS_PER_STEP: usize = 1024;

impl Array {
    /// Sets the array's size to `size` cells: cells past it are removed; if the last cell does not exist, it is
    /// written as zeros. Outside a transaction the array shrinks in several steps. In a transaction, the cells that it
    /// has written so far count, too.
    ///
    /// # Errors
    /// [`ErrorKind::NoPermission`] if writing is not allowed, [`ErrorKind::Again`] if other processes kept writing the
    /// last cell; errors of the backend.
    pub async fn set_size(&self, size: u64, access: Access<'_>) -> Result<()> {
        self.object.check_writable()?;
        let Some(last) = size.checked_sub(1) else {
            self.remove_chunks_after(0, access).await?;
            return self.touch(access).await;
        };
        let (dkey, record) = self.layout.locate(last);
        self.prepare_write(size, access).await?;
        self.remove_chunks_after(dkey, access).await?;
        self.end_chunk_at(dkey, record, access).await
    }

    /// Removes all chunks with a dkey greater than `last`, but not the attributes.
    async fn remove_chunks_after(&self, last: u64, access: Access<'_>) -> Result<()> {
        let mut anchor = Anchor::Start;
        while !anchor.is_end() {
            let limit = ListLimit::entries(DKEYS_PER_STEP);
            let batch = self.object.list_dkeys(&mut anchor, limit, access).await?;
            let behind = |dkey: &&[u8]| key_to_u64(dkey).is_ok_and(|dkey| dkey > last);
            let writes: Vec<_> = batch.iter().filter(behind).map(|d| self.empty_chunk(d)).collect();
            if !writes.is_empty() {
                self.object.container().write(&writes, access).await?;
            }
        }
        match access {
            Access::Tx(transaction) => self.remove_buffered_after(last, transaction).await,
            _ => Ok(()),
        }
    }

    /// Removes the chunks with a dkey greater than `last` that the transaction is about to write: no listing has them.
    async fn remove_buffered_after(&self, last: u64, transaction: &Transaction) -> Result<()> {
        let mut dkeys = transaction.buffered_dkeys(self.oid())?;
        dkeys.retain(|dkey| key_to_u64(dkey).is_ok_and(|dkey| dkey > last));
        dkeys.sort_unstable();
        dkeys.dedup();
        let writes: Vec<_> = dkeys.iter().map(|dkey| self.empty_chunk(dkey)).collect();
        if writes.is_empty() {
            return Ok(());
        }
        self.object.container().write(&writes, Access::Tx(transaction)).await
    }

    /// Rewrites the attributes of an array that stores them: only they have the modification time of an empty array.
    async fn touch(&self, access: Access<'_>) -> Result<()> {
        match self.oid().object_type() {
            Some(ObjectType::Array) => self.put_attributes([Cond::NONE; 2], access).await,
            _ => Ok(()),
        }
    }

    /// Rewrites attributes that are stored with an array, whatever its type, so that its epoch moves.
    ///
    /// # Errors
    /// Errors of the backend.
    pub async fn touch_stored(&self, access: Access<'_>) -> Result<()> {
        let mut stored = Fetch::single(FLAT_AKEY, Sink::None);
        let fetches = std::slice::from_mut(&mut stored);
        self.object.fetch(&ATTRIBUTES_DKEY, Cond::NONE, fetches, access).await?;
        if stored.reply.size == 0 {
            Ok(())
        } else {
            self.put_attributes([Cond::NONE; 2], access).await
        }
    }

    /// Stores the attributes of the array in its object, under conditions of their dkey and akey.
    pub(super) async fn put_attributes(
        &self,
        [dkey, akey]: [Cond; 2],
        access: Access<'_>,
    ) -> Result<()> {
        let stored = self.attributes().to_bytes();
        let value = Value::Single(Source::One(&stored));
        let updates = [Update { akey: FLAT_AKEY, value, cond: akey }];
        self.object.update(&ATTRIBUTES_DKEY, dkey, &updates, access).await
    }

    /// The write that removes all records of a chunk.
    fn empty_chunk<'a>(&self, dkey: &'a [u8]) -> Write<'a> {
        match self.has_mark() && dkey == FIRST_CHUNK {
            true => self.empty_first_chunk(),
            false => Write { oid: self.oid(), op: WriteOp::PunchDkey { dkey, cond: Cond::NONE } },
        }
    }

    /// Removes the records after `last` in a chunk and makes sure that `last` exists. Where the pool has transactions, a
    /// zero does not replace a record that another process has written since this one looked for it.
    async fn end_chunk_at(&self, dkey: u64, last: u64, access: Access<'_>) -> Result<()> {
        let dkey = dkey.to_ne_bytes();
        let container = self.object.container();
        if !matches!(access, Access::Latest) || !container.capabilities().transactions {
            let present = self.has_record(&dkey, last, access).await?;
            return self.write_end(&dkey, last, present, None, access).await;
        }
        for _ in 0..ARRAY_TRIES_MAX {
            let transaction = container.transaction()?;
            let present = self.has_record(&dkey, last, Access::Tx(&transaction)).await?;
            let proof = transaction.proof()?;
            match self.write_end(&dkey, last, present, Some(&proof), access).await {
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                written => return written,
            }
        }
        Err(self.busy_chunk_error())
    }

    /// Removes the records after `last` in a chunk, and writes `last` as zeros unless it is present; at
    /// [`Access::Latest`] on condition that `proof` holds.
    async fn write_end(
        &self,
        dkey: &[u8],
        last: u64,
        present: bool,
        proof: Option<&Proof>,
        access: Access<'_>,
    ) -> Result<()> {
        let tail = [Extent::new(last + 1, u64::MAX - (last + 1))];
        let punch = [punch_update(&tail)];
        let zeros = vec![0; if present { 0 } else { self.layout.cell_size() as usize }];
        let last = [Extent::new(last, 1)];
        let data = Source::One(&zeros);
        let value = Value::Array { record_size: self.layout.cell_size(), extents: &last, data };
        let zero = [Update { akey: FLAT_AKEY, value, cond: Cond::NONE }];
        let writes = [self.write_op(dkey, &punch), self.write_op(dkey, &zero)];
        let writes = &writes[..if present { 1 } else { 2 }];
        match proof {
            Some(proof) => self.object.container().write_with(writes, proof).await,
            None => self.object.container().write(writes, access).await,
        }
    }

    /// The error of a resize that other processes disturbed each time.
    #[cold]
    fn busy_chunk_error(&self) -> Error {
        let text = format!(
            "array {}: other processes wrote its new last cell during {ARRAY_TRIES_MAX} attempts to set its size \
             (ARRAY_TRIES_MAX): try again",
            self.oid()
        );
        Error::new(ErrorKind::Again, text)
    }

    /// Whether the record at index `record` under `dkey` has been written. A write of the transaction comes before what
    /// is stored.
    async fn has_record(&self, dkey: &[u8], record: u64, access: Access<'_>) -> Result<bool> {
        if let Access::Tx(transaction) = access {
            let key = AkeyRef { dkey, akey: FLAT_AKEY };
            if let Some(stores) = transaction.buffered_record(self.oid(), key, record)? {
                return Ok(stores);
            }
        }
        let extents = [Extent::new(record, 1)];
        let mut cell = vec![0; self.layout.cell_size() as usize];
        let sink = Sink::One(&mut cell);
        let mut fetch = Fetch::array(FLAT_AKEY, self.layout.cell_size(), &extents, sink);
        fetch.request.want_filled = true;
        let fetches = std::slice::from_mut(&mut fetch);
        self.object.fetch(dkey, Cond::NONE, fetches, access).await?;
        Ok(!fetch.reply.filled.is_empty())
    }
}
