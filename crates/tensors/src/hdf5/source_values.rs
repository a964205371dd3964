//! Attributes of datasets of HDF5.
use super::source_types::is_boolean;
use crate::messages::{Attribute, AttributeList, Value};
use hdf5_reader::{Attribute as Of, ByteOrder, Dataset, Datatype};
use std::collections::BTreeMap;

/// What netCDF and dimension scales keep for themselves.
const OWN: [&str; 9] = [
    "CLASS",
    "NAME",
    "DIMENSION_LIST",
    "REFERENCE_LIST",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_NCProperties",
    "_nc3_strict",
    "_NCCOPY",
];

/// The attributes of a dataset, and the names of those that are not kept.
pub(super) fn attributes(dataset: &Dataset) -> (BTreeMap<String, Attribute>, Vec<String>) {
    let (mut kept, mut left_out) = (BTreeMap::new(), Vec::new());
    for attribute in dataset.attributes() {
        match value(&attribute).filter(|_| !OWN.contains(&attribute.name.as_str())) {
            Some(value) => drop(kept.insert(attribute.name, value)),
            None => left_out.push(attribute.name),
        }
    }
    (kept, left_out)
}

/// The value of an attribute; `None` if there is no such value.
fn value(of: &Of) -> Option<Attribute> {
    let count = usize::try_from(of.num_elements().ok()?).ok()?;
    let values = values(of, count).filter(|values| values.len() == count)?;
    nested(&mut values.into_iter(), &of.shape)
}

fn nested(values: &mut impl Iterator<Item = Value>, shape: &[u64]) -> Option<Attribute> {
    let Some((length, rest)) = shape.split_first() else {
        return values.next().map(Attribute::from);
    };
    // As many as a file says, of nothing, would take forever.
    let length = if rest.contains(&0) { 0 } else { *length };
    let items = (0..length).map(|_| nested(values, rest)).collect::<Option<_>>()?;
    Some(Value::List(AttributeList { items }).into())
}

fn values(of: &Of, count: usize) -> Option<Vec<Value>> {
    if matches!(of.datatype, Datatype::String { .. } | Datatype::VarLen { .. }) {
        return match (of.read_strings(), count) {
            (Ok(texts), _) => Some(texts.into_iter().map(Value::Text).collect()),
            (Err(_), 1) => of.read_string().ok().map(|text| vec![Value::Text(text)]),
            (Err(_), _) => None,
        };
    }
    let size = hdf5_reader::dtype_element_size(&of.datatype).ok().filter(|size| *size > 0)?;
    let elements = of.raw_data.chunks_exact(size).take(count);
    elements.map(|bytes| element(&of.datatype, bytes)).collect()
}

fn element(of: &Datatype, bytes: &[u8]) -> Option<Value> {
    Some(match of {
        Datatype::FixedPoint { signed, byte_order, .. } => integer(bytes, *byte_order, *signed)?,
        Datatype::Bitfield { byte_order, .. } => integer(bytes, *byte_order, false)?,
        Datatype::FloatingPoint { byte_order, .. } => Value::Real(real(bytes, *byte_order)?),
        Datatype::Enum { members, .. } if is_boolean(members) => Value::Flag(bytes != [0]),
        Datatype::Enum { base, .. } => element(base, bytes)?,
        Datatype::Opaque { .. } => Value::Octets(bytes.to_vec()),
        _ => return None,
    })
}

/// Numbers that an attribute cannot have become floating-point ones.
fn integer(bytes: &[u8], order: ByteOrder, is_signed: bool) -> Option<Value> {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::LittleEndian {
        bytes.reverse();
    }
    let is_negative = is_signed && *bytes.first()? >= 0x80;
    let start = if is_negative { -1 } else { 0 };
    let number =
        bytes.iter().take(8).fold(start, |number: i128, byte| number << 8 | i128::from(*byte));
    Some(i64::try_from(number).map_or(Value::Real(number as f64), Value::Integer))
}

fn real(bytes: &[u8], order: ByteOrder) -> Option<f64> {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::BigEndian {
        bytes.reverse();
    }
    match bytes.len() {
        4 => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_their_byte_order() {
        let little =
            |bytes: &[u8], is_signed| integer(bytes, ByteOrder::LittleEndian, is_signed).unwrap();
        assert_eq!(little(&[0xfe, 0xff], true), Value::Integer(-2));
        assert_eq!(little(&[0xfe, 0xff], false), Value::Integer(65534));
        assert_eq!(integer(&[1, 2], ByteOrder::BigEndian, true), Some(Value::Integer(258)));
        assert_eq!(little(&[0xff; 8], false), Value::Real(18446744073709551615.0));
        assert_eq!(real(&0.5f32.to_be_bytes(), ByteOrder::BigEndian), Some(0.5));
    }
}
