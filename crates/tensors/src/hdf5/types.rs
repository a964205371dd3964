//! Encoding of element types in HDF5, with the mapping of h5py.
use super::unsupported;
use crate::dtype::{DataType, Field};
use esker_types::{Error, ErrorKind, Result};

/// Version of the encoding: compound types without padding.
const VERSION: u8 = 3;

/// Classes of types.
pub(super) const INTEGER: u8 = 0;
pub(super) const FLOAT: u8 = 1;
const TEXT: u8 = 3;
pub(super) const OPAQUE: u8 = 5;
pub(super) const COMPOUND: u8 = 6;
pub(super) const ENUMERATION: u8 = 8;
const VARIABLE: u8 = 9;
pub(super) const ARRAY: u8 = 10;

/// Longest tag of an opaque type.
const TAG_BYTES_MAX: usize = 248;

/// Layout of a floating-point number in bits, and the bias of its exponent.
struct Bits {
    /// Bits that the number uses.
    precision: u16,
    /// First bit of the exponent, and its number of bits.
    exponent: (u8, u8),
    /// Bits of the mantissa, which starts at bit 0.
    mantissa: u8,
    bias: u32,
    /// True if the first bit of the mantissa is not stored.
    is_implied: bool,
}

/// The message of a type.
///
/// Numbers keep their byte order. Complex numbers are compounds of `r` and `i`, booleans an enumeration of `FALSE` and
/// `TRUE`; dates, durations and texts of UTF-32 are opaque, with numpy's code in the tag.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for types that HDF5 lacks: without bytes, or with members that overlap or are out of
/// order.
pub(super) fn encode(of: &DataType) -> Result<Vec<u8>> {
    let size = size(of)?;
    if !of.fields.is_empty() {
        return compound(of, size);
    }
    let is_big = of.code.starts_with('>');
    Ok(match kind(of)? {
        'b' => boolean(),
        'i' => integer(size, is_big, true),
        'u' => integer(size, is_big, false),
        'f' => float(size, is_big),
        'c' => complex(size, is_big),
        // Padded with zeros, ASCII.
        'S' => head(TEXT, 1, size),
        'V' => opaque(size, ""),
        _ => opaque(size, &format!("NUMPY:{}", of.code)),
    })
}

/// The size of an element, which HDF5 stores in four bytes.
fn size(of: &DataType) -> Result<u32> {
    match u32::try_from(of.size()?) {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(unsupported(format!(
            "HDF5 has no type of {} bytes, as {} is: use a .npy file",
            of.size()?,
            of.code
        ))),
    }
}

/// The letter of the kind in the code of a type, such as `f` for floating-point numbers.
fn kind(of: &DataType) -> Result<char> {
    let unknown = || Error::new(ErrorKind::Invalid, format!("{:?} is not a type", of.code));
    of.code.chars().nth(1).ok_or_else(unknown)
}

/// First bytes of each type: class, 24 bits that depend on the class, size.
fn head(class: u8, bits: u32, size: u32) -> Vec<u8> {
    let mut bytes = vec![class | VERSION << 4];
    bytes.extend(&bits.to_le_bytes()[..3]);
    bytes.extend(size.to_le_bytes());
    bytes
}

/// Encodes the type of an integer of `size` bytes, big-endian if `is_big`.
pub(super) fn integer(size: u32, is_big: bool, is_signed: bool) -> Vec<u8> {
    let mut bytes = head(INTEGER, u32::from(is_big) | u32::from(is_signed) << 3, size);
    bytes.extend(0u16.to_le_bytes());
    bytes.extend((size as u16 * 8).to_le_bytes());
    bytes
}

/// Encodes the type of a floating-point number of 2, 4, 8, 12 or 16 bytes, big-endian if `is_big`.
pub(super) fn float(size: u32, is_big: bool) -> Vec<u8> {
    let Bits { precision, exponent, mantissa, bias, is_implied } = bits(size);
    let sign = u32::from(precision - 1) << 8;
    let mut bytes = head(FLOAT, sign | u32::from(is_implied) << 5 | u32::from(is_big), size);
    bytes.extend(0u16.to_le_bytes());
    bytes.extend(precision.to_le_bytes());
    bytes.extend([exponent.0, exponent.1, 0, mantissa]);
    bytes.extend(bias.to_le_bytes());
    bytes
}

/// Layout of a floating-point number of `size` bytes: IEEE 754, or for 16 bytes on x86 the 80-bit extended format.
fn bits(size: u32) -> Bits {
    let ieee = |precision: u16, exponent: u8| {
        let mantissa = precision as u8 - 1 - exponent;
        let bias = (1 << (exponent - 1)) - 1;
        Bits { precision, exponent: (mantissa, exponent), mantissa, bias, is_implied: true }
    };
    match size {
        2 => ieee(16, 5),
        4 => ieee(32, 8),
        8 => ieee(64, 11),
        16 if !cfg!(any(target_arch = "x86_64", target_arch = "x86")) => ieee(128, 15),
        // The extended numbers of the x87, which are long double on x86.
        _ => {
            Bits { precision: 80, exponent: (64, 15), mantissa: 64, bias: 16383, is_implied: false }
        }
    }
}

/// An enumeration of bytes, which h5py uses for booleans.
pub(super) fn boolean() -> Vec<u8> {
    let mut bytes = head(ENUMERATION, 2, 1);
    bytes.extend(integer(1, false, true));
    bytes.extend(b"FALSE\0TRUE\0\0\x01");
    bytes
}

/// A complex number: a compound of `r` and `i`, as h5py writes it.
fn complex(size: u32, is_big: bool) -> Vec<u8> {
    let mut bytes = head(COMPOUND, 2, size);
    for (name, offset) in [("r", 0), ("i", size / 2)] {
        push_member(&mut bytes, name, offset, size);
        bytes.extend(float(size / 2, is_big));
    }
    bytes
}

/// Bytes without meaning, with a tag.
pub(super) fn opaque(size: u32, tag: &str) -> Vec<u8> {
    let length = tag.len().next_multiple_of(8).min(TAG_BYTES_MAX);
    let mut bytes = head(OPAQUE, length as u32, size);
    let start = bytes.len();
    bytes.extend(tag.as_bytes());
    bytes.resize(start + length, 0);
    bytes
}

/// A text of any length in UTF-8, which is stored in a heap.
pub(super) fn text() -> Vec<u8> {
    // A text, in UTF-8.
    let mut bytes = head(VARIABLE, 1 | 1 << 8, 16);
    bytes.extend(integer(1, false, false));
    bytes
}

/// Name and offset of a member; its type follows.
fn push_member(bytes: &mut Vec<u8>, name: &str, offset: u32, size: u32) {
    bytes.extend(name.as_bytes());
    bytes.push(0);
    bytes.extend(&offset.to_le_bytes()[..offset_width(size)]);
}

/// Bytes of a member's offset in a compound of `size` bytes.
pub(super) fn offset_width(size: u32) -> usize {
    4 - size.leading_zeros() as usize / 8
}

/// Encodes a type with members.
fn compound(of: &DataType, size: u32) -> Result<Vec<u8>> {
    let mut bytes = head(COMPOUND, of.fields.len() as u32, size);
    let mut end = 0;
    for field in &of.fields {
        if field.offset < end || field.name.contains('\0') || of.fields.len() > 0xffff {
            return Err(unsupported(format!(
                "the member {:?} overlaps another, comes before it or has a zero byte in its name, which HDF5 does \
                 not allow: use a .npy file, or read the tensor from Python",
                field.name
            )));
        }
        end = field.offset + field.bytes()?;
        push_member(&mut bytes, &field.name, field.offset as u32, size);
        bytes.extend(member_type(field)?);
    }
    Ok(bytes)
}

/// Encodes the type of a member, which may be an array.
fn member_type(field: &Field) -> Result<Vec<u8>> {
    let inner = encode(field.data_type()?)?;
    if field.shape.is_empty() {
        return Ok(inner);
    }
    let size = u32::try_from(field.bytes()?).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| {
        unsupported(format!(
            "the member {:?} has no elements, which HDF5 does not allow",
            field.name
        ))
    })?;
    let mut bytes = head(ARRAY, 0, size);
    bytes.push(field.shape.len() as u8);
    bytes.extend(field.shape.iter().flat_map(|length| (*length as u32).to_le_bytes()));
    bytes.extend(inner);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(code: &str) -> Vec<u8> {
        encode(&DataType::parse(code).unwrap()).unwrap()
    }

    #[test]
    fn types_are_encoded_as_the_library_does() {
        assert_eq!(bytes("<f2"), b"\x31\x20\x0f\0\x02\0\0\0\0\0\x10\0\x0a\x05\0\x0a\x0f\0\0\0");
        assert_eq!(bytes(">f4"), b"\x31\x21\x1f\0\x04\0\0\0\0\0\x20\0\x17\x08\0\x17\x7f\0\0\0");
        assert_eq!(bytes("|S3"), b"\x33\x01\0\0\x03\0\0\0");
        assert_eq!(bytes("|V5"), b"\x35\0\0\0\x05\0\0\0");
        assert_eq!(bytes("<M8[ns]"), b"\x35\x10\0\0\x08\0\0\0NUMPY:<M8[ns]\0\0\0");
        assert_eq!(bytes(">i2"), b"\x30\x09\0\0\x02\0\0\0\0\0\x10\0");
    }

    #[test]
    fn types_that_hdf5_lacks_are_refused() {
        for code in ["|S0", "|V0", "<U0"] {
            let error = encode(&DataType::parse(code).unwrap()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{code}");
        }
        let field = |name: &str, offset| {
            let data_type = Some(DataType::parse("<f4").unwrap());
            Field { name: name.into(), offset, data_type, ..Field::default() }
        };
        let apart = DataType::structured(12, vec![field("a", 0), field("b", 8)]).unwrap();
        assert!(encode(&apart).is_ok());
        let overlapping = DataType::structured(12, vec![field("a", 0), field("b", 2)]).unwrap();
        assert!(encode(&overlapping).unwrap_err().message().contains("\"b\""));
    }
}
