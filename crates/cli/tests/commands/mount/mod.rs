//! File systems mounted through FUSE. Without /dev/fuse and fusermount3 these tests say so and pass.
mod files;
mod lifecycle;
mod mount_point;
mod pages;
mod tensors;
mod transport;
