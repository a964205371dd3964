//! Raw TCP connections, the limit of what an engine can do: blocks in one direction, or there and back.
use crate::buffer::Buffer;
use crate::errors::Doing;
use crate::measure::{Measured, Meter};
use esker_os::start_thread;
use esker_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Most bytes that are sent or received at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Most bytes of an echo that are under way. The client sends them before it reads, and the server sends them back
/// before it reads more, so the buffers of the sockets must have room for them.
const ECHO_BYTES: u64 = 64 << 10;

/// Direction of the data on a raw connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    /// Blocks to the server, which confirms the last one.
    Send,
    /// Blocks from the server.
    Receive,
    /// Blocks to the server and back.
    Echo,
}

/// First message of a client to the server.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) flow: Flow,
    pub(super) block_bytes: u64,
    pub(super) blocks: u64,
}

const ORDER_LEN: usize = 17;

/// Names the action in errors of the raw connection.
fn connection() -> &'static str {
    "talking over a raw connection"
}

impl Order {
    /// Encodes an order.
    fn encode(self) -> [u8; ORDER_LEN] {
        let mut bytes = [self.flow as u8; ORDER_LEN];
        bytes[1..9].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[9..].copy_from_slice(&self.blocks.to_le_bytes());
        bytes
    }

    /// Decodes an order; `None` for an unknown flow.
    fn decode(bytes: [u8; ORDER_LEN]) -> Option<Self> {
        let flows = [Flow::Send, Flow::Receive, Flow::Echo];
        let number = |at: usize| bytes[at..at + 8].try_into().ok().map(u64::from_le_bytes);
        let flow = *flows.get(usize::from(bytes[0]))?;
        Some(Self { flow, block_bytes: number(1)?, blocks: number(9)? })
    }

    fn total(self) -> u64 {
        self.block_bytes.saturating_mul(self.blocks)
    }
}

/// Serves raw connections, each in a thread of its own, until the process ends. Returns the address as `host:port`.
pub(super) fn listen() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").doing(connection)?;
    let address = listener.local_addr().doing(connection)?.to_string();
    start_thread(move || {
        for stream in listener.incoming().flatten() {
            // The client reports errors of its connection.
            let _ = start_thread(move || serve(stream));
        }
    })?;
    Ok(address)
}

/// Serves one client of the raw server.
fn serve(mut stream: TcpStream) -> Result<()> {
    let _ = stream.set_nodelay(true);
    let mut order = [0; ORDER_LEN];
    stream.read_exact(&mut order).doing(connection)?;
    let Some(order) = Order::decode(order) else { return Ok(()) };
    let mut piece = Buffer::new(order.total().min(PIECE_BYTES))?;
    let done = match order.flow {
        Flow::Send => {
            receive_blocks(&mut stream, &mut piece, order).and_then(|()| stream.write_all(&[1]))
        }
        Flow::Receive => send_blocks(&mut stream, &piece, order),
        Flow::Echo => echo(&mut stream, &mut piece),
    };
    done.doing(connection)
}

/// Receives all bytes of an order, in pieces of any length.
fn receive_blocks(stream: &mut TcpStream, piece: &mut [u8], order: Order) -> std::io::Result<()> {
    let mut left = order.total();
    while left > 0 {
        match stream.read(piece)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => left = left.saturating_sub(count as u64),
        }
    }
    Ok(())
}

/// Sends as many bytes as the order has in total, by sending `piece` repeatedly.
fn send_blocks(stream: &mut TcpStream, piece: &[u8], order: Order) -> std::io::Result<()> {
    let mut left = order.total();
    while left > 0 {
        let len = left.min(piece.len() as u64);
        stream.write_all(&piece[..len as usize])?;
        left -= len;
    }
    Ok(())
}

/// Sends all received bytes back, until the client closes the connection.
fn echo(stream: &mut TcpStream, piece: &mut [u8]) -> std::io::Result<()> {
    loop {
        match stream.read(piece)? {
            0 => return Ok(()),
            count => stream.write_all(&piece[..count])?,
        }
    }
}

/// Opens a connection and measures its transfers. In an echo, `in_flight` blocks are under way at a time, but at most
/// [`ECHO_BYTES`].
pub(super) fn measure(address: &str, order: Order, in_flight: u32) -> Result<Measured> {
    let mut stream = TcpStream::connect(address).doing(connection)?;
    let _ = stream.set_nodelay(true);
    let mut block = Buffer::new(order.block_bytes.saturating_mul(u64::from(in_flight.max(1))))?;
    stream.write_all(&order.encode()).doing(connection)?;
    let mut meter = Meter::start();
    match order.flow {
        Flow::Echo => exchange(&mut stream, &mut block, order, &mut meter)?,
        _ => move_blocks(&mut stream, &mut block[..order.block_bytes as usize], order, &mut meter)?,
    }
    Ok(meter.finish())
}

/// Sends or receives the blocks of an order. A sender finally waits for one byte of the receiver, so that all have
/// arrived.
fn move_blocks(
    stream: &mut TcpStream,
    block: &mut [u8],
    order: Order,
    meter: &mut Meter,
) -> Result<()> {
    for left in (0..order.blocks).rev() {
        let moved = match order.flow {
            Flow::Receive => stream.read_exact(block),
            _ if left > 0 => stream.write_all(block),
            _ => stream.write_all(block).and_then(|()| stream.read_exact(&mut [0])),
        };
        moved.doing(connection)?;
        meter.tick(1, order.block_bytes)?;
    }
    Ok(())
}

/// Sends the blocks of an order to a server that returns them, and counts the returned blocks. Begins with as many
/// bytes as `blocks` and [`ECHO_BYTES`] allow, then sends one more for each that has come back.
fn exchange(
    stream: &mut TcpStream,
    blocks: &mut [u8],
    order: Order,
    meter: &mut Meter,
) -> Result<()> {
    let size = order.block_bytes.max(1);
    let (total, mut came) = (order.total(), 0);
    let mut sent = total.min(blocks.len() as u64).min(ECHO_BYTES);
    stream.write_all(&blocks[..sent as usize]).doing(connection)?;
    while came < total {
        let count = stream.read(blocks).doing(connection)? as u64;
        if count == 0 {
            return Err(Error::io(connection(), &std::io::ErrorKind::UnexpectedEof.into()));
        }
        let complete = (came + count) / size - came / size;
        came += count;
        meter.tick(complete, complete * size)?;
        let more = count.min(total - sent);
        stream.write_all(&blocks[..more as usize]).doing(connection)?;
        sent += more;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_of_large_blocks_ends() {
        let address = listen().unwrap();
        for (block_bytes, blocks, in_flight) in [(64, 1000, 16), (48_000, 100, 1), (16 << 20, 4, 4)]
        {
            let order = Order { flow: Flow::Echo, block_bytes, blocks };
            let measured = measure(&address, order, in_flight).unwrap();
            assert_eq!((measured.ops, measured.bytes), (blocks, block_bytes * blocks));
        }
    }
}
