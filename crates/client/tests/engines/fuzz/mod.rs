//! Peers that know the secret and mean harm: an engine that gets any request, and a client that gets any response. Neither
//! may panic, hang, or take memory that it does not account for.
mod client;
mod draw;
mod engine;
mod limits;
