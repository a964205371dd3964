//! The protocol between clients and engines: frames, the handshake, requests and replies. `docs/wire.md` draws its bytes.
#![forbid(unsafe_code)]

mod borrowed;
pub mod frame;
pub mod handshake;
pub mod message;
pub mod outbox;
pub mod spare;
pub mod tls;
