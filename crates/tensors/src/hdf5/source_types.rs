//! Conversion of HDF5 types to numpy types.
use super::unsupported;
use crate::dtype::{DataType, Field};
use esker_types::Result;
use hdf5_reader::{ByteOrder, CompoundField, Datatype, EnumMember, StringSize, VarLenKind};

/// The type of the elements of a dataset. Names of members and byte orders are kept. Enumerations become their numbers,
/// except the enumeration of booleans.
///
/// # Errors
/// [`esker_types::ErrorKind::NotSupported`] if they have no fixed size, or numpy has no such type.
pub(super) fn decode(of: &Datatype) -> Result<DataType> {
    match of {
        Datatype::FixedPoint { size, signed, byte_order } => {
            number(if *signed { 'i' } else { 'u' }, *size, *byte_order)
        }
        Datatype::FloatingPoint { size, byte_order } => number('f', *size, *byte_order),
        Datatype::Bitfield { size, byte_order } => number('u', *size, *byte_order),
        Datatype::String { size: StringSize::Fixed(size), .. } => {
            DataType::parse(&format!("|S{size}"))
        }
        Datatype::Opaque { size, tag } => opaque(*size, tag),
        Datatype::Enum { members, .. } if is_boolean(members) => DataType::parse("|b1"),
        Datatype::Enum { base, .. } => decode(base),
        Datatype::Compound { size, fields } => compound(*size, fields),
        _ => Err(unsupported(format!(
            "{} cannot be the elements of a tensor, which have one of numpy's types of a fixed size: convert the dataset \
             first",
            plural(of)
        ))),
    }
}

/// Name of values that cannot be stored, for messages.
fn plural(of: &Datatype) -> &'static str {
    match of {
        Datatype::String { .. } | Datatype::VarLen { kind: VarLenKind::String, .. } => {
            "texts of variable length"
        }
        Datatype::VarLen { .. } => "lists of variable length",
        Datatype::Reference { .. } => "references",
        Datatype::Array { .. } => "arrays",
        _ => "values of an unknown type",
    }
}

/// The data type of a number in numpy's notation, such as `<f4`, from its kind (`i`, `u`, `f` and so on), its size in
/// bytes and its byte order.
fn number(kind: char, size: u8, order: ByteOrder) -> Result<DataType> {
    let order = match (order, size) {
        (_, 1) => '|',
        (ByteOrder::LittleEndian, _) => '<',
        (ByteOrder::BigEndian, _) => '>',
    };
    DataType::parse(&format!("{order}{kind}{size}")).map_err(|_| {
        unsupported(format!("numpy has no such numbers of {size} bytes: convert the dataset first"))
    })
}

/// Type of bytes without a meaning, or the numpy type that the tag names.
fn opaque(size: u32, tag: &str) -> Result<DataType> {
    let named = tag.strip_prefix("NUMPY:").and_then(|code| DataType::parse(code).ok());
    match named.filter(|of| of.size() == Ok(size.into())) {
        Some(named) => Ok(named),
        None => DataType::parse(&format!("|V{size}")),
    }
}

/// True for the enumeration that h5py makes of booleans.
pub(super) fn is_boolean(members: &[EnumMember]) -> bool {
    let names = members.iter().map(|member| (member.name.as_str(), member.value.as_slice()));
    names.eq([("FALSE", &[0][..]), ("TRUE", &[1])])
}

/// True for the compound that h5py makes of complex numbers.
pub(super) fn is_complex(size: u32, fields: &[CompoundField]) -> bool {
    let [real, imaginary] = fields else { return false };
    let Datatype::FloatingPoint { size: half, .. } = real.datatype else { return false };
    (real.name.as_str(), imaginary.name.as_str()) == ("r", "i")
        && real.datatype == imaginary.datatype
        && (real.byte_offset, imaginary.byte_offset, size) == (0, half.into(), 2 * u32::from(half))
}

/// Type of a compound: a complex number, or members.
fn compound(size: u32, fields: &[CompoundField]) -> Result<DataType> {
    // Numpy has no complex type with parts of 2 bytes: such a compound becomes a structured type.
    if let [CompoundField { datatype: Datatype::FloatingPoint { size: half, byte_order }, .. }, _] =
        fields
        && is_complex(size, fields)
        && *half > 2
    {
        return number('c', 2 * half, *byte_order);
    }
    DataType::structured(size.into(), fields.iter().map(member).collect::<Result<_>>()?)
}

/// Converts a member of a compound.
fn member(of: &CompoundField) -> Result<Field> {
    let (inner, shape) = match &of.datatype {
        Datatype::Array { base, dims } => (&**base, dims.clone()),
        plain => (plain, Vec::new()),
    };
    let (name, offset, data_type) = (of.name.clone(), of.byte_offset.into(), Some(decode(inner)?));
    Ok(Field { name, offset, data_type, shape, title: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::types::encode;
    use hdf5_reader::messages::datatype::parse_datatype_description;

    fn there_and_back(of: &DataType) -> DataType {
        let bytes = encode(of).unwrap();
        let mut cursor = hdf5_reader::io::Cursor::new(&bytes);
        decode(&parse_datatype_description(&mut cursor).unwrap().0).unwrap()
    }

    #[test]
    fn types_survive_encoding_and_decoding() {
        let codes = [
            "|b1", "|i1", ">i2", "<u8", "<f2", ">f4", "<f16", "<c8", ">c16", "|S7", "<U3", "|V5",
            "<M8[ns]", ">m8[25s]",
        ];
        for code in codes {
            assert_eq!(there_and_back(&DataType::parse(code).unwrap()).code, code);
        }
        let field = |name: &str, offset, code, shape| {
            let data_type = Some(DataType::parse(code).unwrap());
            Field { name: name.into(), offset, data_type, shape, title: String::new() }
        };
        let fields = vec![field("a", 0, "<f4", vec![]), field("b", 300, ">i2", vec![2, 3])];
        let structured = DataType::structured(320, fields).unwrap();
        assert_eq!(there_and_back(&structured), structured);
    }

    #[test]
    fn numbers_of_other_sizes_are_not_supported() {
        let byte_order = ByteOrder::LittleEndian;
        for of in [
            Datatype::FixedPoint { size: 3, signed: true, byte_order },
            Datatype::FixedPoint { size: 16, signed: false, byte_order },
            Datatype::FloatingPoint { size: 1, byte_order },
        ] {
            assert_eq!(decode(&of).unwrap_err().kind(), esker_types::ErrorKind::NotSupported);
        }
    }
}
