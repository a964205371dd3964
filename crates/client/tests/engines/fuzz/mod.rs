//! Malicious peers that know the secret: an engine that receives arbitrary requests, and a client that receives
//! arbitrary responses. Neither may panic, hang, or use memory that it does not account for.
mod client;
mod draw;
mod engine;
mod limits;
