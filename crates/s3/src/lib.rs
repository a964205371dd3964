//! Files of an Esker pool, served to programs that speak S3.
//!
//! A bucket is a container of a pool that holds a file system, and a key is the path of a file in it. An object that a
//! client puts is a file for `esker fs`, `esker run` and Python, and a file that they create is an object for a client.
//! In a container without files, clients can read Arrays and the values of Key-Values. The crate `s3s` implements the
//! HTTP of S3, its XML and its signatures. This crate implements the operations.
//!
//! A put writes a file of a hidden directory ([`HIDDEN`]) and publishes it in one transaction, together with the
//! metadata of S3. ETag, content type, user metadata and checksum are one extended attribute ([`RECORD`]), and tags
//! another ([`TAGS`]). The operations of the store block, so each connection has a thread of its own; their number is
//! bounded.
//!
//! [`Server`] serves connections; [`Keys`] are the keys whose signatures it accepts.
#![forbid(unsafe_code)]

mod admission;
mod body;
mod bucket;
mod completion;
mod condition;
mod configuration;
mod copy;
mod document;
mod fault;
mod find;
mod framing;
mod front;
mod guard;
mod headers;
mod host;
mod ids;
mod keep_alive;
mod keys;
pub mod limits;
mod list;
mod listings;
mod metered;
mod metrics;
mod multipart;
mod objects;
mod offered;
mod page;
mod parts;
mod place;
mod plain;
mod presigned;
mod put;
mod query;
mod read;
mod record;
mod remove;
mod resign;
mod server;
mod service;
mod signature;
mod sums;
mod timed;
mod upload_locks;
mod uploads;

pub use keys::{Key, Keys};
pub use place::HIDDEN;
pub use record::{DIRECTORY, RECORD, TAGS};
pub use server::{Options, Server, Tls};
pub use sums::Etags;
