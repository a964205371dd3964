//! The frame of a message: its length, and the sections that must fill it.
//!
//! Sources: WMO Manual on Codes, FM 92 GRIB, editions 1 and 2. The length field of edition 1 is too short for messages
//! from 8 MiB. ECMWF's GRIBEX sets its highest bit for them, and counts units of 120 octets in the rest. The length
//! field of section 4 then holds the number of octets (fewer than 120) to subtract.
use super::octets::{length, number};
use crate::limits::GRIB_MESSAGE_BYTES_MAX;
use std::ops::Range;

/// The start of every message.
pub(super) const BEGIN: &[u8; 4] = b"GRIB";

/// The end of every message.
pub(super) const END: &[u8; 4] = b"7777";

/// Octets before section 1.
pub(super) const INDICATOR_1: usize = 8;
pub(super) const INDICATOR_2: usize = 16;

/// Octets of a section's length and number in edition 2.
pub(super) const SECTION_2: usize = 5;

/// The shortest section 1 of edition 1.
const SECTION_1_MIN: usize = 28;

/// Bit in the length of edition 1 that marks a large message, and the unit of its length in octets.
const LARGE: usize = 0x80_0000;
const LARGE_UNIT: usize = 120;

/// Result of examining bytes that begin with GRIB.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message of this many bytes.
    Whole(usize),
    /// More bytes are needed to decide: this many in all.
    More(usize),
    /// Not a message, and why.
    Damaged(String),
}

/// Examines bytes that begin with GRIB: a complete message, one of which more bytes are needed, or damage.
pub(super) fn frame(bytes: &[u8]) -> Frame {
    let bytes_of = match bytes.get(7) {
        None => return Frame::More(INDICATOR_1),
        Some(1) => length_1(bytes),
        Some(2) => length_2(bytes),
        Some(edition) => Err(damaged(format!("its edition is {edition}; 1 and 2 are supported"))),
    };
    match bytes_of {
        Ok(length) => check_end(bytes, length),
        Err(frame) => frame,
    }
}

/// Checks that the message and its sections end after `length` bytes.
fn check_end(bytes: &[u8], length: usize) -> Frame {
    if length > GRIB_MESSAGE_BYTES_MAX {
        let most = format!("the limit is {GRIB_MESSAGE_BYTES_MAX}");
        return damaged(format!("its stated length is {length} bytes; {most}"));
    }
    if bytes.len() < length {
        return Frame::More(length);
    }
    let message = bytes.get(..length).unwrap_or_default();
    if !message.ends_with(END) {
        return damaged(format!(
            "its stated length is {length} bytes, but 7777 is not at their end"
        ));
    }
    match sections(message) {
        Some(_) => Frame::Whole(length),
        None => damaged(format!("its sections do not fill its {length} bytes")),
    }
}

fn damaged(what: String) -> Frame {
    Frame::Damaged(what)
}

/// The length of a message of edition 2.
fn length_2(bytes: &[u8]) -> Result<usize, Frame> {
    let stated = number(bytes, 8, 8).ok_or(Frame::More(INDICATOR_2))?;
    // A length beyond the limit must stay beyond it on 32-bit machines.
    Ok(usize::try_from(stated).unwrap_or(usize::MAX))
}

/// The length of a message of edition 1.
fn length_1(bytes: &[u8]) -> Result<usize, Frame> {
    let stated = length(bytes, 4, 3).ok_or(Frame::More(INDICATOR_1))?;
    if stated & LARGE == 0 {
        return Ok(stated);
    }
    // A large message states its length without 7777, rounded up to units of 120 octets. Section 4 then begins with the
    // number of octets that rounding added. A number of 120 or more is the length of section 4: then the whole field
    // states the length, of 8 MiB or more.
    let data = before_data(bytes)?.end;
    let excess = length(bytes, data, 3).ok_or(Frame::More(data + 3))?;
    match excess {
        0..LARGE_UNIT => Ok(((stated & !LARGE) * LARGE_UNIT + END.len()).saturating_sub(excess)),
        _ => Ok(stated),
    }
}

/// The octets of the bitmap of a message of edition 1, empty if it has none; section 4 follows it.
fn before_data(bytes: &[u8]) -> Result<Range<usize>, Frame> {
    let section = |at: usize| length(bytes, at, 3).ok_or(Frame::More(at + 3));
    // Flags of section 1: 0x80 for a section 2, 0x40 for a bitmap.
    let flags = *bytes.get(INDICATOR_1 + 7).ok_or(Frame::More(INDICATOR_1 + 8))?;
    let first = section(INDICATOR_1)?;
    if first < SECTION_1_MIN {
        return Err(damaged(format!("the stated length of its section 1 is {first} bytes")));
    }
    let mut start = INDICATOR_1 + first;
    if flags & 0x80 != 0 {
        start += section(start)?;
    }
    let end = if flags & 0x40 != 0 { start + section(start)? } else { start };
    Ok(start..end)
}

/// A section of a message: its number and its octets, length and number included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Its number in the standard.
    pub(super) number: u8,
    /// Its octets in the message.
    pub(super) octets: Range<usize>,
}

/// The sections of a message between its indicator and its end; none if they do not fill it.
pub(super) fn sections(message: &[u8]) -> Option<Sections> {
    match message.get(7)? {
        1 => sections_1(message),
        _ => sections_2(message),
    }
}

/// The sections of a message. Nearly all messages have at most 8.
pub(super) type Sections = smallvec::SmallVec<[Section; 8]>;

/// The sections of a GRIB 2 message; `None` if they are damaged.
fn sections_2(message: &[u8]) -> Option<Sections> {
    let end = message.len().checked_sub(END.len())?;
    let (mut at, mut sections) = (INDICATOR_2, Sections::new());
    while at < end {
        let next = at.checked_add(length(message, at, 4)?).filter(|next| *next <= end)?;
        let number = *message.get(at + 4)?;
        if next < at + SECTION_2 || !(1..=7).contains(&number) {
            return None;
        }
        sections.push(Section { number, octets: at..next });
        at = next;
    }
    (at == end).then_some(sections)
}

/// The sections of a message of edition 1. Section 4 gets all remaining octets: its stated length means something else
/// in large messages, and some files have padding after it.
fn sections_1(message: &[u8]) -> Option<Sections> {
    let end = message.len().checked_sub(END.len())?;
    let bitmap = before_data(message).ok()?;
    let first = INDICATOR_1 + length(message, INDICATOR_1, 3)?;
    let all = [
        (1, INDICATOR_1..first),
        (2, first..bitmap.start),
        (3, bitmap.clone()),
        (4, bitmap.end..end),
    ];
    // Section 4 has at least 11 octets.
    if bitmap.end + 11 > end || first > bitmap.start {
        return None;
    }
    let present = all.into_iter().filter(|(_, octets)| !octets.is_empty());
    Some(present.map(|(number, octets)| Section { number, octets }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of edition 1 with sections 1 and 4 of these lengths, and this stated length.
    fn first(stated: usize, flags: u8, data: usize) -> Vec<u8> {
        let mut message = b"GRIB".to_vec();
        message.extend(&(stated as u32).to_be_bytes()[1..]);
        message.extend([1, 0, 0, 28, 0, 0, 0, 0, flags]);
        message.resize(8 + 28, 0);
        message.extend(&(data as u32).to_be_bytes()[1..]);
        message
    }

    /// The message, extended to a length of `bytes` with the end section.
    fn whole(mut message: Vec<u8>, bytes: usize) -> Vec<u8> {
        message.resize(bytes - 4, 0);
        message.extend(END);
        message
    }

    #[test]
    fn large_messages_count_units_of_120_octets() {
        let length = 10 * 120 + 4 - 17;
        let message = whole(first(LARGE | 10, 0, 17), length);
        assert_eq!(frame(&message), Frame::Whole(length));
        let sections = sections(&message).unwrap();
        assert_eq!(sections[1], Section { number: 4, octets: 36..length - 4 });
    }

    #[test]
    fn lengths_beyond_8_mib_may_be_literal() {
        let length = LARGE + 2400;
        let message = whole(first(length, 0, length - 40), length);
        assert_eq!(frame(&message), Frame::Whole(length));
    }

    #[test]
    fn absurd_lengths_are_damage() {
        for message in [first(LARGE, 0, 100), first(0, 0, 100), first(30, 0, 100)] {
            assert!(matches!(frame(&whole(message, 200)), Frame::Damaged(_)));
        }
        let mut second = b"GRIB\0\0\0\x02".to_vec();
        assert_eq!(frame(&second), Frame::More(16));
        second.extend([0xff; 8]);
        assert!(matches!(frame(&second), Frame::Damaged(what) if what.contains("the limit is")));
        assert!(
            matches!(frame(b"GRIB\0\0\0\x03"), Frame::Damaged(what) if what.contains("edition is 3"))
        );
        assert_eq!(frame(b"GRIB"), Frame::More(8));
    }

    #[test]
    fn sections_fill_a_message_of_edition_2() {
        let message = |sections: &[u8]| {
            let length = (16 + sections.len() + 4) as u64;
            [b"GRIB\0\0\0\x02", &length.to_be_bytes()[..], sections, END].concat()
        };
        let good = message(&[0, 0, 0, 5, 1, 0, 0, 0, 6, 7, 9]);
        assert_eq!(frame(&good), Frame::Whole(good.len()));
        for bad in
            [&[0, 0, 0, 4, 1][..], &[0, 0, 0, 5, 8], &[0, 0, 0, 9, 1], &[0, 0, 0, 5], &[0xff; 5]]
        {
            assert!(
                matches!(frame(&message(bad)), Frame::Damaged(what) if what.contains("sections"))
            );
        }
    }
}
