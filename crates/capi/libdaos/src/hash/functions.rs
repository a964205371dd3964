//! Hash functions.
use crate::abi::{Bytes, Str};
use crate::edge::guard;
use std::ffi::c_void;

/// First value and factor of the DJB2 hash.
const DJB2_START: u32 = 5381;
const DJB2_FACTOR: u32 = 33;

pub(super) fn djb2(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(DJB2_FACTOR).wrapping_add(u32::from(*byte));
    bytes.iter().fold(DJB2_START, step)
}

/// DJB2 hash of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_string_u32(text: Str, len: u32) -> u32 {
    guard(0, || text.cast::<c_void>().read(len.into()).map_or(0, djb2))
}

/// Factor and shift of MurmurHash64A.
const MURMUR_FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const MURMUR_SHIFT: u32 = 47;

fn murmur(bytes: &[u8], seed: u64) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let start = seed ^ (bytes.len() as u64).wrapping_mul(MURMUR_FACTOR);
    let mut hash = words.fold(start, |hash, word| {
        let mixed = little_endian(word).wrapping_mul(MURMUR_FACTOR);
        let mixed = (mixed ^ mixed >> MURMUR_SHIFT).wrapping_mul(MURMUR_FACTOR);
        (hash ^ mixed).wrapping_mul(MURMUR_FACTOR)
    });
    if !rest.is_empty() {
        hash = (hash ^ little_endian(rest)).wrapping_mul(MURMUR_FACTOR);
    }
    hash = (hash ^ hash >> MURMUR_SHIFT).wrapping_mul(MURMUR_FACTOR);
    hash ^ hash >> MURMUR_SHIFT
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// MurmurHash64A of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn d_hash_murmur64(key: Bytes, len: u32, seed: u32) -> u64 {
    guard(0, || key.read(len.into()).map_or(0, |bytes| murmur(bytes, seed.into())))
}
