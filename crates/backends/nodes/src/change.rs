//! Changes as messages: keys in the message, values in the bulk.
use bytes::{Bytes, BytesMut};
use esker_types::ObjectId;
use esker_types::ops::{Change, Source, Update, Value, WriteOp};
use esker_wire::message::{ChangeRequest, ValueRequest, WriteRequest};

/// The message of a change, and its values.
pub(crate) fn encode<'a>(
    change: &Change<'a>,
    tokens: Option<&'a [Vec<u8>]>,
) -> (ChangeRequest<'a>, Bytes) {
    let mut bulk = BytesMut::new();
    let writes = change.writes.iter().map(|write| (write.oid, encode_write(&write.op, &mut bulk)));
    let writes: Vec<(ObjectId, WriteRequest<'a>)> = writes.collect();
    let tokens = tokens.map(|tokens| tokens.iter().map(Vec::as_slice).collect());
    (ChangeRequest { id: change.id, tokens, writes }, bulk.freeze())
}

fn encode_write<'a>(op: &WriteOp<'a>, bulk: &mut BytesMut) -> WriteRequest<'a> {
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

fn encode_value(value: &Value<'_>, bulk: &mut BytesMut) -> ValueRequest {
    match value {
        Value::Single(data) => ValueRequest::Single(add(data, bulk)),
        Value::Array { record_size, extents, data } => {
            ValueRequest::Array(*record_size, extents.to_vec(), add(data, bulk))
        }
        Value::PunchExtents(extents) => ValueRequest::PunchExtents(extents.to_vec()),
    }
}

fn add(data: &Source<'_>, bulk: &mut BytesMut) -> u64 {
    let len = data.len();
    bulk.reserve(len as usize);
    data.visit(0, len, |piece| bulk.extend_from_slice(piece));
    len
}
