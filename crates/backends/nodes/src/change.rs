//! Changes as messages: keys in the message, values in the bulk.
use esker_types::ObjectId;
use esker_types::checksum::Crc32c;
use esker_types::ops::{Change, Source, Update, Value, WriteOp};
use esker_wire::frame::Bulk;
use esker_wire::message::{ChangeRequest, ValueRequest, WriteRequest};
use esker_wire::spare::Spare;

/// Bytes that are copied before they are added to the checksum, so that they still are in the cache.
const PIECE: usize = 32 << 10;

/// Values that were copied, and their checksum. What is sent is what it is over, even if the caller's buffer changes.
struct Values {
    bytes: Vec<u8>,
    sum: Crc32c,
}

impl Values {
    fn add(&mut self, data: &Source<'_>) -> u64 {
        let len = data.len();
        data.visit(0, len, |buffer| {
            for piece in buffer.chunks(PIECE) {
                let begin = self.bytes.len();
                self.bytes.extend_from_slice(piece);
                self.sum.add(&self.bytes[begin..]);
            }
        });
        len
    }
}

/// Bytes of all values of a change.
fn len_of(change: &Change<'_>) -> u64 {
    let len = |update: &Update<'_>| match &update.value {
        Value::Single(data) | Value::Array { data, .. } => data.len(),
        Value::PunchExtents(_) => 0,
    };
    let writes = change.writes.iter().map(|write| match write.op {
        WriteOp::Update { updates, .. } => updates.iter().map(len).sum(),
        _ => 0,
    });
    writes.sum()
}

/// The message of a change, and its values.
pub(crate) fn encode<'a>(
    change: &Change<'a>,
    tokens: Option<&'a [Vec<u8>]>,
    spare: &Spare,
) -> (ChangeRequest<'a>, Bulk) {
    let mut bulk = Values { bytes: spare.empty(len_of(change) as usize), sum: Crc32c::default() };
    let writes = change.writes.iter().map(|write| (write.oid, encode_write(&write.op, &mut bulk)));
    let writes: Vec<(ObjectId, WriteRequest<'a>)> = writes.collect();
    let tokens = tokens.map(|tokens| tokens.iter().map(Vec::as_slice).collect());
    let data = Bulk::with_sum(spare.keep(bulk.bytes), &bulk.sum);
    (ChangeRequest { id: change.id, tokens, writes }, data)
}

fn encode_write<'a>(op: &WriteOp<'a>, bulk: &mut Values) -> WriteRequest<'a> {
    match *op {
        WriteOp::Update { dkey, cond, updates } => {
            let mut akey =
                |update: &Update<'a>| (update.akey, update.cond, encode_value(&update.value, bulk));
            WriteRequest::Update(dkey, cond, updates.iter().map(&mut akey).collect())
        }
        WriteOp::PunchObject { cond } => WriteRequest::PunchObject(cond),
        WriteOp::PunchDkey { dkey, cond } => WriteRequest::PunchDkey(dkey, cond),
        WriteOp::PunchAkeys { dkey, akeys, cond } => {
            WriteRequest::PunchAkeys(dkey, akeys.to_vec(), cond)
        }
    }
}

fn encode_value(value: &Value<'_>, bulk: &mut Values) -> ValueRequest {
    match value {
        Value::Single(data) => ValueRequest::Single(bulk.add(data)),
        Value::Array { record_size, extents, data } => {
            ValueRequest::Array(*record_size, extents.to_vec(), bulk.add(data))
        }
        Value::PunchExtents(extents) => ValueRequest::PunchExtents(extents.to_vec()),
    }
}
