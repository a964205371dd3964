//! File systems mounted through FUSE. Without /dev/fuse and fusermount3 these tests say so and pass.
mod files;
mod life;
mod place;
#[path = "../support/mod.rs"]
mod support;
