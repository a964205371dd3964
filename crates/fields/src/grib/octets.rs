//! Numbers as GRIB writes them: big-endian, signed ones as sign and magnitude.

/// The unsigned number in `len` (at most 8) octets from `at`, if `bytes` has them.
pub(super) fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let octets = bytes.get(at..at.checked_add(len)?)?;
    Some(octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
}

/// The unsigned number in `len` octets from `at`, as `usize`.
pub(super) fn length(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    usize::try_from(number(bytes, at, len)?).ok()
}
