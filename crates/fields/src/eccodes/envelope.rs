//! Checks bytes before ecCodes sees them: it accepts anything as a message, and some releases abort the process on a
//! truncated one.
use esker_types::{Error, ErrorKind, Result};

/// The start and the end of every message.
const BEGIN: &[u8] = b"GRIB";
const END: &[u8] = b"7777";

/// The octets of the length in editions 1 and 2, counted from 0.
const LENGTH_1: std::ops::Range<usize> = 4..7;
const LENGTH_2: std::ops::Range<usize> = 8..16;

/// Bit of the length of edition 1 that marks another unit (messages from 8 MiB).
const LARGE_1: u64 = 0x80_0000;

/// Checks that `message` is one GRIB message from its first to its last byte.
pub(crate) fn check(message: &[u8]) -> Result<()> {
    let wrong = if !message.starts_with(BEGIN) {
        "they do not begin with GRIB"
    } else if !message.ends_with(END) || message.len() < LENGTH_2.end + END.len() {
        "they do not end in 7777"
    } else if !has_length(message) {
        "their stated length differs, or the edition is neither 1 nor 2"
    } else {
        return Ok(());
    };
    let bytes = message.len();
    Err(Error::new(ErrorKind::Invalid, format!("{bytes} bytes are not a GRIB message: {wrong}")))
}

/// Whether the message has the length that its header states. In large messages of edition 1, the length field means
/// something else and is not checked.
fn has_length(message: &[u8]) -> bool {
    let number = |range| message.get::<std::ops::Range<usize>>(range).map(big_endian);
    let bytes = Some(message.len() as u64);
    match message.get(LENGTH_1.end) {
        Some(1) => {
            number(LENGTH_1).is_some_and(|length| length & LARGE_1 != 0 || Some(length) == bytes)
        }
        Some(2) => number(LENGTH_2) == bytes,
        _ => false,
    }
}

/// The number in big-endian octets.
fn big_endian(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_messages_are_accepted() {
        let first = b"GRIB\0\0\x14\x01........7777";
        let second = b"GRIB\0\0\0\x02\0\0\0\0\0\0\0\x147777";
        for message in [first, second] {
            assert!(check(message).is_ok());
            assert!((0..message.len()).all(|end| check(&message[..end]).is_err()));
            assert!(check(&[message.as_slice(), b"7777"].concat()).is_err());
            assert!(check(&message[1..]).is_err());
        }
        assert!(check(b"GRIB\0\0\x14\x03........7777").is_err());
    }
}
