//! Attributes of HDF5 datasets.
use super::source_bits;
use super::source_numbers::{Real, integer, real};
use super::source_types::{is_boolean, is_complex};
use super::values::json;
use crate::limits::DEPTH_MAX;
use crate::messages::{Attribute, AttributeList, Value};
use hdf5_reader::messages::dataspace::DataspaceType;
use hdf5_reader::{Attribute as Of, ByteOrder, CompoundField, Dataset, Datatype, RawAttribute};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Internal attributes of netCDF and dimension scales.
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

/// Remark that an attribute of the file is changed or left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The name of the attribute.
    pub attribute: String,
    /// False if it was left out.
    pub is_kept: bool,
    /// The new form of the attribute, or the reason why it is left out.
    pub what: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_kept { "is kept as" } else { "is not kept:" };
        write!(f, "attribute {:?} {verb} {}", self.attribute, self.what)
    }
}

/// The new form of the values of one attribute, if it differs from the file.
#[derive(Default)]
struct Changes(Option<&'static str>);

/// Why an attribute cannot be kept.
type Refusal = &'static str;

/// The attributes of a dataset, and remarks about them.
pub(super) fn attributes(dataset: &Dataset) -> (BTreeMap<String, Attribute>, Vec<Remark>) {
    let raw = dataset.raw_attributes().unwrap_or_default();
    let raw: HashMap<&str, &RawAttribute> = raw.iter().map(|raw| (raw.name(), raw)).collect();
    let (mut kept, mut remarks) = (BTreeMap::new(), Vec::new());
    for attribute in dataset.attributes() {
        let mut changes = Changes::default();
        let name = attribute.name.clone();
        let mut remark = |is_kept, what: &str| {
            remarks.push(Remark { attribute: name.clone(), is_kept, what: what.to_owned() });
        };
        match value(&attribute, raw.get(name.as_str()).copied(), &mut changes) {
            Ok(value) => {
                changes.0.iter().for_each(|what| remark(true, what));
                kept.insert(attribute.name, value);
            }
            Err(why) => remark(false, why),
        }
    }
    (kept, remarks)
}

/// Value of an attribute, or why it is left out.
fn value(of: &Of, raw: Option<&RawAttribute>, changes: &mut Changes) -> Result<Attribute, Refusal> {
    if OWN.contains(&of.name.as_str()) {
        return Err("netCDF uses it internally");
    }
    let raw = raw.ok_or("it cannot be read")?;
    if raw.message().dataspace.dataspace_type == DataspaceType::Null {
        return Err("it has no value");
    }
    if !source_bits::are_usual(raw.raw_datatype()) {
        return Err("its numbers have a bit layout that numpy does not know");
    }
    let count = of.num_elements().ok().and_then(|count| usize::try_from(count).ok());
    let count = count.ok_or("it has too many values")?;
    let values = values(of, count, changes)?;
    if values.len() != count {
        return Err("the file is damaged where its values are");
    }
    arranged(values, &of.shape)
}

/// Arranges all values of an attribute as nested lists of the given shape.
fn arranged(values: Vec<Attribute>, shape: &[u64]) -> Result<Attribute, Refusal> {
    let value = nested(&mut values.into_iter(), shape);
    let value = value.ok_or("the file is damaged where its values are")?;
    match value.is_deeper_than(DEPTH_MAX) {
        true => Err("its lists have more than 16 levels (DEPTH_MAX)"),
        false => Ok(value),
    }
}

/// Arranges values as nested lists of the given shape.
fn nested(values: &mut impl Iterator<Item = Attribute>, shape: &[u64]) -> Option<Attribute> {
    let Some((length, rest)) = shape.split_first() else {
        return values.next();
    };
    // A file may state a huge number of empty items, which would take forever.
    let length = if rest.contains(&0) { 0 } else { *length };
    let items = (0..length).map(|_| nested(values, rest)).collect::<Option<_>>()?;
    Some(Value::List(AttributeList { items }).into())
}

/// The first `count` elements of an attribute. If an element is converted to something else, `changes` says to what.
fn values(of: &Of, count: usize, changes: &mut Changes) -> Result<Vec<Attribute>, Refusal> {
    if is_text(&of.datatype) {
        return texts(of, count);
    }
    let size = hdf5_reader::dtype_element_size(&of.datatype).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| unknown(&of.datatype))?;
    let elements = of.raw_data.chunks_exact(size).take(count);
    elements.map(|bytes| element(&of.datatype, bytes, changes)).collect()
}

fn is_text(of: &Datatype) -> bool {
    matches!(of, Datatype::String { .. } | Datatype::VarLen { .. })
}

/// The `count` strings of an attribute. Fails if their encoding cannot be read.
fn texts(of: &Of, count: usize) -> Result<Vec<Attribute>, Refusal> {
    match (of.read_strings(), count) {
        (Ok(texts), _) => Ok(texts.into_iter().map(|text| Value::Text(text).into()).collect()),
        (Err(_), 1) => {
            // Texts of variable length that the reader has not decoded yet can only be read one by one.
            let text = of.read_string().map_err(|_| unknown(&of.datatype))?;
            Ok(vec![Value::Text(text).into()])
        }
        (Err(_), _) => Err(unknown(&of.datatype)),
    }
}

/// The reason why a value of this type cannot be kept.
fn unknown(of: &Datatype) -> Refusal {
    match of {
        Datatype::Reference { .. } => "it refers to an object in the file",
        Datatype::VarLen { .. } => "it has lists of variable length",
        _ => "attributes of a tensor have no values of its type",
    }
}

/// Converts the bytes of one element to a value of a tensor's attribute. A value that has no equal counterpart is noted
/// in `changes`.
fn element(of: &Datatype, bytes: &[u8], changes: &mut Changes) -> Result<Attribute, Refusal> {
    let value = match of {
        Datatype::FixedPoint { signed, byte_order, .. } => {
            whole_number(bytes, *byte_order, *signed, changes)
        }
        Datatype::Bitfield { byte_order, .. } => whole_number(bytes, *byte_order, false, changes),
        Datatype::FloatingPoint { byte_order, .. } => real(bytes, *byte_order).map(|real| {
            if let Real::Rounded(_) = real {
                changes.0 = Some("the nearest number of 8 bytes");
            }
            Value::Real(real.number())
        }),
        Datatype::Enum { members, .. } if is_boolean(members) => Some(Value::Flag(bytes != [0])),
        Datatype::Enum { base, .. } => return element(base, bytes, changes),
        Datatype::Opaque { .. } => Some(Value::Octets(bytes.to_vec())),
        Datatype::Compound { size, fields } if is_complex(*size, fields) => {
            let item = |field: &CompoundField| {
                element(&field.datatype, member_bytes(field, bytes)?, changes)
            };
            let items = fields.iter().map(item).collect::<Result<_, _>>()?;
            changes.0 = Some("a list of the real and the imaginary part");
            Some(Value::List(AttributeList { items }))
        }
        Datatype::Compound { fields, .. } => {
            let text = members(fields, bytes, changes)?;
            changes.0 = Some("a text in JSON with its members");
            Some(Value::Text(text))
        }
        Datatype::Array { base, dims } => return array(base, dims, bytes, changes),
        Datatype::String { .. } => Some(Value::Text(fixed_text(bytes))),
        _ => None,
    };
    value.map(Attribute::from).ok_or_else(|| unknown(of))
}

/// Converts an integer. If it is too large for an attribute, the nearest floating-point number.
fn whole_number(
    bytes: &[u8],
    order: ByteOrder,
    is_signed: bool,
    changes: &mut Changes,
) -> Option<Value> {
    let value = integer(bytes, order, is_signed)?;
    if let Value::Real(_) = value {
        changes.0 = Some("the nearest floating-point number of 8 bytes");
    }
    Some(value)
}

/// A text within a compound or an array: up to the first zero byte.
fn fixed_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
}

/// Reason to refuse a value that ends before all members or elements of its type.
const SHORT_VALUE: Refusal = "the file is damaged: a value is shorter than its type says";

/// The bytes of one member of the compound value `bytes`.
fn member_bytes<'b>(field: &CompoundField, bytes: &'b [u8]) -> Result<&'b [u8], Refusal> {
    let size = hdf5_reader::dtype_element_size(&field.datatype);
    let size = size.map_err(|_| unknown(&field.datatype))?;
    let inner = bytes.get(field.byte_offset as usize..).and_then(|rest| rest.get(..size));
    inner.ok_or(SHORT_VALUE)
}

/// A compound value as text in JSON, because attributes of tensors have no members.
fn members(
    fields: &[CompoundField],
    bytes: &[u8],
    changes: &mut Changes,
) -> Result<String, Refusal> {
    let pair = |field: &CompoundField| {
        let name = json(&Value::Text(field.name.clone()).into());
        let inner = member_bytes(field, bytes)?;
        let value = match &field.datatype {
            Datatype::Compound { size, fields } if !is_complex(*size, fields) => {
                members(fields, inner, changes)?
            }
            other => json(&element(other, inner, changes)?),
        };
        Ok(format!("{name}: {value}"))
    };
    let pairs = fields.iter().map(pair).collect::<Result<Vec<_>, Refusal>>()?;
    Ok(format!("{{{}}}", pairs.join(", ")))
}

/// Converts an element that is an array.
fn array(
    base: &Datatype,
    dims: &[u64],
    bytes: &[u8],
    changes: &mut Changes,
) -> Result<Attribute, Refusal> {
    let size = hdf5_reader::dtype_element_size(base).ok().filter(|size| *size > 0);
    let elements = bytes.chunks_exact(size.ok_or_else(|| unknown(base))?);
    let elements: Vec<_> =
        elements.map(|bytes| element(base, bytes, changes)).collect::<Result<_, _>>()?;
    nested(&mut elements.into_iter(), dims).ok_or(SHORT_VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_become_other_numbers_are_remarked() {
        let byte_order = ByteOrder::LittleEndian;
        let of = Datatype::FixedPoint { size: 8, signed: false, byte_order };
        let mut changes = Changes::default();
        let exact = element(&of, &(u64::MAX >> 1).to_le_bytes(), &mut changes).unwrap();
        assert_eq!((exact, changes.0), (Value::Integer(i64::MAX).into(), None));
        let rounded = element(&of, &u64::MAX.to_le_bytes(), &mut changes).unwrap();
        assert_eq!(rounded, Value::Real(18446744073709551615.0).into());
        assert!(changes.0.is_some());
    }

    #[test]
    fn attributes_nested_too_deep_are_left_out() {
        let values = || vec![Value::Integer(1).into()];
        assert!(arranged(values(), &[1; DEPTH_MAX]).is_ok());
        assert!(arranged(values(), &[1; DEPTH_MAX + 1]).is_err());
    }
}
