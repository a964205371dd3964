//! Encodes changes: keys in the message, values in the bulk. Long values are sent without a copy.
use crate::connection::Data;
use esker_types::ObjectId;
use esker_types::checksum::Crc32c;
use esker_types::ops::{Change, Source, Update, Value, WriteOp};
use esker_wire::frame::Bulk;
use esker_wire::message::{ChangeRequest, ValueRequest, WriteRequest};
use esker_wire::outbox::Borrowed;
use esker_wire::spare::Spare;

/// Bytes that are copied at a time before they are added to the checksum, while they are still in the cache.
const PIECE: usize = 32 << 10;

/// Shorter values are copied: that is as fast, and they are sent together with others.
const LONG: u64 = 64 << 10;

/// Fewest bytes per buffer of values that are not copied.
const LONG_BUFFER: u64 = 8 << 10;

/// The values of a change, and their checksum.
struct Values<'d> {
    place: Place<'d>,
    sum: Crc32c,
}

/// Memory from which the values are sent.
enum Place<'d> {
    /// A copy. The checksum covers the bytes sent, even if the caller's buffer changes.
    Copied(Vec<u8>),
    /// The caller's buffers.
    Borrowed(Vec<&'d [u8]>),
}

impl<'d> Values<'d> {
    /// Adds the buffers of a value to the data of the request. Returns the length of the value.
    fn add(&mut self, data: &Source<'d>) -> u64 {
        match *data {
            Source::One(buffer) => self.add_buffer(buffer),
            Source::Many(buffers) => buffers.iter().for_each(|buffer| self.add_buffer(buffer)),
        }
        data.len()
    }

    /// Adds a buffer to the data of the request: copies or borrows it, as decided for the whole change.
    fn add_buffer(&mut self, buffer: &'d [u8]) {
        match &mut self.place {
            Place::Borrowed(buffers) => {
                self.sum.add(buffer);
                buffers.push(buffer);
            }
            Place::Copied(bytes) => {
                for piece in buffer.chunks(PIECE) {
                    let begin = bytes.len();
                    bytes.extend_from_slice(piece);
                    self.sum.add(&bytes[begin..]);
                }
            }
        }
    }

    /// The data of the request with its checksum.
    fn into_data(self, spare: &Spare) -> Data<'d> {
        match self.place {
            Place::Copied(bytes) => {
                Data::Owned(Bulk::with_sum(spare.keep(bytes), self.sum.value()))
            }
            Place::Borrowed(buffers) => Data::Borrowed(Borrowed::new(buffers), self.sum.value()),
        }
    }
}

/// Number of buffers and of bytes of all values of a change.
fn size_of(change: &Change<'_>) -> (u64, u64) {
    let size = |update: &Update<'_>| match &update.value {
        Value::Single(data) | Value::Array { data, .. } => match data {
            Source::One(buffer) => (1, buffer.len() as u64),
            Source::Many(buffers) => (buffers.len() as u64, data.len()),
        },
        Value::PunchExtents(_) => (0, 0),
    };
    let updates = change.writes.iter().flat_map(|write| match write.op {
        WriteOp::Update { updates, .. } => updates,
        _ => &[],
    });
    updates.map(size).fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
}

/// Encodes a change and the tokens of its reads. Its values are copied if `copied` is set, if they are short, or if
/// they consist of many short buffers.
pub(crate) fn encode<'a>(
    change: &Change<'a>,
    tokens: Option<&'a [Vec<u8>]>,
    copied: bool,
    spare: &Spare,
) -> (ChangeRequest<'a>, Data<'a>) {
    let (buffers, bytes) = size_of(change);
    let place = match copied || bytes < LONG.max(buffers * LONG_BUFFER) {
        true => Place::Copied(spare.empty(bytes as usize)),
        false => Place::Borrowed(Vec::with_capacity(buffers as usize)),
    };
    let mut values = Values { place, sum: Crc32c::default() };
    let writes = change.writes.iter();
    let writes: Vec<(ObjectId, WriteRequest<'a>)> =
        writes.map(|write| (write.oid, encode_write(&write.op, &mut values))).collect();
    let tokens = tokens.map(|tokens| tokens.iter().map(Vec::as_slice).collect());
    (ChangeRequest { id: change.id, tokens, writes }, values.into_data(spare))
}

/// The write as a request. Its data goes to `values`.
fn encode_write<'a>(op: &WriteOp<'a>, values: &mut Values<'a>) -> WriteRequest<'a> {
    match *op {
        WriteOp::Update { dkey, cond, updates } => {
            let mut akey = |update: &Update<'a>| {
                (update.akey, update.cond, encode_value(&update.value, values))
            };
            WriteRequest::Update(dkey, cond, updates.iter().map(&mut akey).collect())
        }
        WriteOp::PunchObject { cond } => WriteRequest::PunchObject(cond),
        WriteOp::PunchDkey { dkey, cond } => WriteRequest::PunchDkey(dkey, cond),
        WriteOp::PunchAkeys { dkey, akeys, cond } => {
            WriteRequest::PunchAkeys(dkey, akeys.to_vec(), cond)
        }
    }
}

/// The value as a request. Its data goes to `values`.
fn encode_value<'a>(value: &Value<'a>, values: &mut Values<'a>) -> ValueRequest {
    match value {
        Value::Single(data) => ValueRequest::Single(values.add(data)),
        Value::Array { record_size, extents, data } => {
            ValueRequest::Array(*record_size, extents.to_vec(), values.add(data))
        }
        Value::PunchExtents(extents) => ValueRequest::PunchExtents(extents.to_vec()),
    }
}
