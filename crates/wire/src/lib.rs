//! The protocol between clients and engines: frames, the handshake, requests and replies. `docs/wire.md` draws its
//! bytes.
#![deny(unsafe_code)]

mod borrowed;
pub mod fabric;
pub mod frame;
pub mod handshake;
pub mod message;
pub mod outbox;
pub mod spare;
pub mod tls;
