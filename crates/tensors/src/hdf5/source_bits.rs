//! Bit layout of numbers. Files may have layouts that numpy does not know, such as bfloat16.
use super::types::{self, ARRAY, COMPOUND, ENUMERATION, FLOAT, INTEGER, OPAQUE};
use hdf5_reader::error::Result;
use hdf5_reader::io::Cursor;

/// Classes of types that are read, but not written.
const TIME: u8 = 2;
const BITFIELD: u8 = 4;

/// Mask of the bits of a floating-point type that determine its numbers: byte order, first bit of the mantissa, sign.
const MEANING: u32 = 0xff71;

/// True if all numbers of a type are those of numpy, according to its description in a file.
pub(super) fn are_usual(description: &[u8]) -> bool {
    all_usual(&mut Cursor::new(description)).unwrap_or(false)
}

/// Reads the description of a type to its end. Returns true if all its numbers are *usual*: numpy has numbers with the
/// same bit layout. Continues after unusual numbers, so that the next description can be read. The function calls
/// itself for nested types. Their depth is limited, because the HDF5 reader has already parsed them.
fn all_usual(cursor: &mut Cursor<'_>) -> Result<bool> {
    let (head, size) = (cursor.read_u32_le()?, cursor.read_u32_le()?);
    let (class, version, bits) = (head as u8 & 15, head as u8 >> 4, head >> 8);
    match class {
        INTEGER | BITFIELD => {
            let (offset, precision) = (cursor.read_u16_le()?, cursor.read_u16_le()?);
            Ok(offset == 0 && u64::from(precision) == u64::from(size) * 8)
        }
        FLOAT => {
            let wanted = types::float(size, bits & 1 != 0);
            let (start, rest) = wanted.split_at(8);
            let meant = u32::from_le_bytes([start[1], start[2], start[3], 0]);
            Ok(cursor.read_bytes(rest.len())? == rest && (bits ^ meant) & MEANING == 0)
        }
        TIME => cursor.skip(2).map(|()| true),
        OPAQUE => cursor.skip((bits as usize & 0xff).next_multiple_of(8)).map(|()| true),
        COMPOUND => are_members_usual(cursor, version, bits & 0xffff, size),
        ENUMERATION => is_enumeration_usual(cursor, version, bits & 0xffff, size),
        ARRAY => is_array_usual(cursor, version),
        _ => Ok(true),
    }
}

/// Reads the rest of a compound type's description. True if all members are usual.
fn are_members_usual(cursor: &mut Cursor<'_>, version: u8, count: u32, size: u32) -> Result<bool> {
    let mut usual = true;
    for _ in 0..count {
        skip_name(cursor, version)?;
        cursor.skip(if version < 3 { 4 } else { types::offset_width(size) })?;
        // The first version has arrays here, which the reader interprets as single elements.
        if version == 1 {
            usual &= cursor.read_u8()? == 0;
            cursor.skip(27)?;
        }
        usual &= all_usual(cursor)?;
    }
    Ok(usual)
}

/// Reads the rest of an enumeration's description: its base type, then its names and values. True if numpy has numbers
/// with the bit layout of the base type.
fn is_enumeration_usual(
    cursor: &mut Cursor<'_>,
    version: u8,
    count: u32,
    size: u32,
) -> Result<bool> {
    let usual = all_usual(cursor)?;
    (0..count).try_for_each(|_| skip_name(cursor, version))?;
    cursor.skip(count as usize * size as usize)?;
    Ok(usual)
}

/// Reads the rest of an array type's description. True if its base type is usual.
fn is_array_usual(cursor: &mut Cursor<'_>, version: u8) -> Result<bool> {
    let dimensions = usize::from(cursor.read_u8()?);
    cursor.skip(if version < 3 { 3 + 8 * dimensions } else { 4 * dimensions })?;
    all_usual(cursor)
}

/// Skips a name. Before the third version, names are padded.
fn skip_name(cursor: &mut Cursor<'_>, version: u8) -> Result<()> {
    let start = cursor.position();
    cursor.read_null_terminated_string()?;
    let length = (cursor.position() - start) as usize;
    cursor.skip(if version < 3 { length.next_multiple_of(8) - length } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{DataType, Field};

    fn encoded(code: &str) -> Vec<u8> {
        types::encode(&DataType::parse(code).unwrap()).unwrap()
    }

    #[test]
    fn numbers_of_numpy_are_usual() {
        for code in ["|b1", ">i2", "<u8", "<f2", ">f4", "<f8", "<f16", ">c16", "|S7", "<M8[ns]"] {
            assert!(are_usual(&encoded(code)), "{code}");
        }
        assert!(!are_usual(&[]) && !are_usual(&encoded("<f4")[..19]));
    }

    #[test]
    fn other_bit_layouts_are_unusual() {
        let changed = |code: &str, at: usize, to: u8| {
            let mut bytes = encoded(code);
            assert_ne!(std::mem::replace(&mut bytes[at], to), to);
            are_usual(&bytes)
        };
        assert!(!changed("<f2", 13, 8), "an exponent of 8 bits, as bfloat16");
        assert!(!changed("<f4", 16, 126), "another bias");
        assert!(!changed("<f4", 1, 0x61), "the byte order of the VAX");
        assert!(!changed("<i2", 10, 12), "12 bits of 16");
        assert!(!changed("<i2", 8, 4), "not from bit 0 on");
        assert!(changed("<f4", 1, 0x22), "padding that no bit has");
    }

    #[test]
    fn numbers_within_others_count() {
        let field = |name: &str, offset, code, shape| {
            let data_type = Some(DataType::parse(code).unwrap());
            Field { name: name.into(), offset, data_type, shape, title: String::new() }
        };
        let fields = vec![field("flag", 0, "|b1", vec![]), field("x", 4, "<f4", vec![2, 3])];
        let mut bytes = types::encode(&DataType::structured(320, fields).unwrap()).unwrap();
        assert!(are_usual(&bytes));
        *bytes.last_mut().unwrap() = 1;
        assert!(!are_usual(&bytes));
    }
}
