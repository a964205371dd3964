//! The protocol between clients and engines: frames, the handshake, requests and replies. `docs/wire.md` draws its
//! bytes.
#![deny(unsafe_code)]

mod borrowed;
mod destination;
pub mod fabric;
pub mod frame;
pub mod handshake;
mod long_part;
pub mod message;
pub mod outbox;
pub mod spare;
pub mod tls;
