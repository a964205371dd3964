//! The interception library: unmodified programs on an Esker file system.
//!
//! It is loaded into a program (`LD_PRELOAD`, which `esker run` sets) and intercepts the functions of the C library
//! that work on files. The store answers calls on the mount point in the same process; all others pass on to the C
//! library. The file system itself is in another library, which `store` loads at the first access. `edge` defines the
//! form of exported functions, `serve` decides whether the store or the C library answers a call, `descriptors` and
//! `open_file` track open files, and `paths` resolves paths. The other modules implement the functions, one group each.
//! docs/semantics.md lists the functions that are served, and docs/decisions/0017-interception.md gives the reasons.
#![allow(unsafe_code)]
mod aio;
mod answer;
mod attributes;
mod close;
mod config;
mod control;
mod copies;
mod cwd;
mod descriptors;
mod dirs;
mod edge;
mod elf;
mod exec;
mod fts;
mod identity;
mod inside;
mod internal;
mod io;
mod keeper;
mod left_open;
mod libaio;
mod libraries;
mod limits;
mod lock_cache;
mod locks;
mod mapped;
mod maps;
mod mount_table;
mod mounted;
mod names;
mod needed;
mod next;
mod open;
mod open_file;
mod pages;
mod paths;
mod position;
mod private_maps;
mod process;
mod raw;
mod report;
mod search;
mod serve;
mod sockets;
mod space;
mod spawn;
mod stat;
mod stdio;
mod store;
mod syscalls;
mod temps;
mod threads;
mod transfer;
mod unreached;
mod unshared;
mod walk;
mod words;
mod xattrs;
