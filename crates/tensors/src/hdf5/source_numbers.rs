//! Numbers of attributes, from their bytes in a file.
use crate::messages::Value;
use hdf5_reader::ByteOrder;

/// A floating-point number, converted to 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Real {
    Exact(f64),
    /// The number had more digits, or was too large or too small.
    Rounded(f64),
}

impl Real {
    /// The value as a 64-bit float, whether it is exact or was rounded.
    pub(super) fn number(self) -> f64 {
        match self {
            Self::Exact(number) | Self::Rounded(number) => number,
        }
    }
}

/// A copy of a number's bytes in little-endian order; `order` is the order in the file.
fn little(bytes: &[u8], order: ByteOrder) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::BigEndian {
        bytes.reverse();
    }
    bytes
}

/// An integer of up to 8 bytes; `None` if there are more. One that is too large for an `i64` becomes a floating-point
/// number.
pub(super) fn integer(bytes: &[u8], order: ByteOrder, is_signed: bool) -> Option<Value> {
    if bytes.len() > 8 {
        return None;
    }
    let bytes = little(bytes, order);
    let is_negative = is_signed && *bytes.last()? >= 0x80;
    let start = if is_negative { -1 } else { 0 };
    let number =
        bytes.iter().rev().fold(start, |number: i128, byte| number << 8 | i128::from(*byte));
    Some(i64::try_from(number).map_or(Value::Real(number as f64), Value::Integer))
}

/// A number of IEEE 754 with 2, 4 or 8 bytes, or a long double of the x87 in 16 bytes; `None` for other lengths.
pub(super) fn real(bytes: &[u8], order: ByteOrder) -> Option<Real> {
    let bytes = little(bytes, order);
    match bytes.len() {
        2 => Some(Real::Exact(half(u16::from_le_bytes(bytes.try_into().ok()?)))),
        4 => Some(Real::Exact(f32::from_le_bytes(bytes.try_into().ok()?).into())),
        8 => Some(Real::Exact(f64::from_le_bytes(bytes.try_into().ok()?))),
        16 => {
            let mantissa = u64::from_le_bytes(bytes[..8].try_into().ok()?);
            let head = u16::from_le_bytes(bytes[8..10].try_into().ok()?);
            Some(long(mantissa, head))
        }
        _ => None,
    }
}

/// A number of 2 bytes: 10 bits of mantissa, 5 of exponent.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * 2f64.powi(-24),
        0x1f if mantissa == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

/// A long double: 64 bits of mantissa, including the bit before the point; exponent (15 bits) and sign in `head`.
fn long(mantissa: u64, head: u16) -> Real {
    let sign = if head & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(head & 0x7fff);
    match (exponent, mantissa) {
        (_, 0) => return Real::Exact(sign * 0.0),
        (0x7fff, _) if mantissa << 1 == 0 => return Real::Exact(sign * f64::INFINITY),
        (0x7fff, _) => return Real::Exact(f64::NAN),
        _ => {}
    }
    // The power of two of the lowest bit. Denormal numbers, of exponent 0, have the powers of exponent 1.
    let power = exponent.max(1) - 16383 - 63;
    // The powers of two of the highest and the lowest bit that is set: they must suit a number of 8 bytes.
    let top = power + 63 - mantissa.leading_zeros() as i32;
    let lowest = power + mantissa.trailing_zeros() as i32;
    let number = sign * scaled(mantissa as f64, power);
    let is_exact = top - lowest < 53 && lowest >= -1074 && top <= 1023;
    if is_exact { Real::Exact(number) } else { Real::Rounded(number) }
}

/// `number` times a power of two. Multiplies in steps, because the power itself may overflow.
fn scaled(number: f64, power: i32) -> f64 {
    const STEP: i32 = 1000;
    let (mut number, mut left) = (number, power);
    while left.abs() > STEP && number != 0.0 && number.is_finite() {
        number *= 2f64.powi(STEP * left.signum());
        left -= STEP * left.signum();
    }
    number * 2f64.powi(left.clamp(-STEP, STEP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_their_byte_order() {
        let little =
            |bytes: &[u8], is_signed| integer(bytes, ByteOrder::LittleEndian, is_signed).unwrap();
        assert_eq!(little(&[0xfe, 0xff], true), Value::Integer(-2));
        assert_eq!(little(&[0xfe, 0xff], false), Value::Integer(65534));
        assert_eq!(integer(&[1, 2], ByteOrder::BigEndian, true), Some(Value::Integer(258)));
        assert_eq!(little(&[0xff; 8], false), Value::Real(18446744073709551615.0));
        assert_eq!(integer(&[0; 16], ByteOrder::LittleEndian, true), None);
    }

    #[test]
    fn numbers_of_4_and_8_bytes_are_themselves() {
        assert_eq!(real(&0.5f32.to_be_bytes(), ByteOrder::BigEndian), Some(Real::Exact(0.5)));
        assert_eq!(real(&0.1f64.to_le_bytes(), ByteOrder::LittleEndian), Some(Real::Exact(0.1)));
        assert_eq!(real(&[0; 12], ByteOrder::LittleEndian), None);
    }

    #[test]
    fn halves_are_exact() {
        let cases = [(0x3c00, 1.0), (0xc000, -2.0), (1, 2f64.powi(-24)), (0x7bff, 65504.0)];
        for (bits, number) in cases {
            assert_eq!(half(bits), number, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan() && half(0xfc00) == f64::NEG_INFINITY);
        assert_eq!(half(0x8000).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn long_doubles_are_rounded_where_they_must_be() {
        let one = 1 << 63;
        assert_eq!(long(one, 16383), Real::Exact(1.0));
        assert_eq!(long(one, 0x8000 | 16384), Real::Exact(-2.0));
        assert_eq!(long(0, 0), Real::Exact(0.0));
        assert_eq!(long(one, 0x7fff), Real::Exact(f64::INFINITY));
        // 0.1 as a long double.
        assert_eq!(long(0xcccc_cccc_cccc_cccd, 16379), Real::Rounded(0.1));
        assert_eq!(long(one, 16383 + 1024), Real::Rounded(f64::INFINITY));
        assert_eq!(long(one, 16383 - 1074), Real::Exact(5e-324));
        assert_eq!(long(one, 1), Real::Rounded(0.0));
    }
}
