//! Attributes.
use super::heap::Heap;
use super::pack::dataspace;
use super::{types, unsupported};
use crate::messages::{Attribute, Value};
use esker_types::Result;

/// Kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flag,
    Integer,
    Real,
    Text,
    /// This many bytes.
    Octets(usize),
}

/// The message of an attribute. Its texts are stored in `heap`.
///
/// Lists of values of one kind are arrays. Other lists are texts in JSON, because HDF5 has no lists of several kinds,
/// and netCDF refuses a file in which an attribute has two dimensions.
///
/// # Errors
/// [`esker_types::ErrorKind::NotSupported`] if its name cannot be one of HDF5.
pub(super) fn encode(name: &str, attribute: &Attribute, heap: &mut Heap) -> Result<Vec<u8>> {
    // A message has less than 64 KiB.
    if name.is_empty() || name.contains('\0') || name.len() > 60_000 {
        return Err(unsupported(format!("HDF5 allows no attribute with the name {name:?}")));
    }
    let (kind, shape, data) = match regular(attribute) {
        Some((kind, shape)) => (kind, shape, bytes(attribute, heap)),
        None => {
            let text = Attribute::from(Value::Text(json(attribute)));
            (Kind::Text, Vec::new(), bytes(&text, heap))
        }
    };
    let (data_type, space) = (data_type(kind), dataspace(&shape));
    // Version 3, not shared; the name is in UTF-8.
    let mut message = vec![3, 0];
    for length in [name.len() + 1, data_type.len(), space.len()] {
        message.extend((length as u16).to_le_bytes());
    }
    message.push(1);
    message.extend(name.as_bytes());
    message.push(0);
    message.extend([data_type, space, data].concat());
    Ok(message)
}

/// Encodes the type of an attribute.
fn data_type(kind: Kind) -> Vec<u8> {
    match kind {
        Kind::Flag => types::boolean(),
        Kind::Integer => types::integer(8, false, true),
        Kind::Real => types::float(8, false),
        Kind::Text => types::text(),
        Kind::Octets(length) => types::opaque(length as u32, ""),
    }
}

/// Kind and shape of a value, or of a list of values of one kind; `None` if only JSON can represent it. An empty list
/// is one of real numbers.
fn regular(attribute: &Attribute) -> Option<(Kind, Vec<u64>)> {
    let kind = match attribute.value.as_ref()? {
        Value::Flag(_) => Kind::Flag,
        Value::Integer(_) => Kind::Integer,
        Value::Real(_) => Kind::Real,
        Value::Text(text) => return (!text.contains('\0')).then_some((Kind::Text, Vec::new())),
        Value::Octets(octets) => {
            return (!octets.is_empty()).then_some((Kind::Octets(octets.len()), Vec::new()));
        }
        Value::List(list) => {
            let mut inner = list.items.iter().map(regular);
            let first = inner.next().unwrap_or(Some((Kind::Real, Vec::new())))?;
            let is_row = first.1.is_empty() && inner.all(|other| other.as_ref() == Some(&first));
            return is_row.then(|| (first.0, vec![list.items.len() as u64]));
        }
    };
    Some((kind, Vec::new()))
}

/// The values of an attribute, in C order.
fn bytes(attribute: &Attribute, heap: &mut Heap) -> Vec<u8> {
    match &attribute.value {
        None => Vec::new(),
        Some(Value::Flag(flag)) => vec![u8::from(*flag)],
        Some(Value::Integer(number)) => number.to_le_bytes().to_vec(),
        Some(Value::Real(number)) => number.to_le_bytes().to_vec(),
        Some(Value::Octets(octets)) => octets.clone(),
        Some(Value::Text(text)) => {
            // An empty text has no object.
            let reference = (!text.is_empty()).then(|| heap.push(text.as_bytes()));
            let (address, number) =
                reference.map_or((0, 0), |reference| (reference.collection, reference.number));
            let length = (text.len() as u32).to_le_bytes();
            [&length[..], &address.to_le_bytes(), &number.to_le_bytes()].concat()
        }
        Some(Value::List(list)) => list.items.iter().flat_map(|item| bytes(item, heap)).collect(),
    }
}

/// An attribute in JSON. Bytes are a list of numbers.
pub(super) fn json(attribute: &Attribute) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(", "));
    match &attribute.value {
        None => "null".to_owned(),
        Some(Value::Flag(flag)) => flag.to_string(),
        Some(Value::Integer(number)) => number.to_string(),
        Some(Value::Real(number)) if number.is_finite() => format!("{number:?}"),
        Some(Value::Real(number)) => quoted(&number.to_string()),
        Some(Value::Text(text)) => quoted(text),
        Some(Value::Octets(octets)) => list(octets.iter().map(u8::to_string).collect()),
        Some(Value::List(of)) => list(of.items.iter().map(json).collect()),
    }
}

/// Text in quotes, as in JSON.
fn quoted(text: &str) -> String {
    let escaped = |one: char| match one {
        '"' | '\\' => format!("\\{one}"),
        '\0'..='\u{1f}' => format!("\\u{:04x}", u32::from(one)),
        _ => one.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::AttributeList;

    fn list(items: &[Value]) -> Attribute {
        let items = items.iter().cloned().map(Attribute::from).collect();
        Value::List(AttributeList { items }).into()
    }

    #[test]
    fn lists_of_one_kind_are_arrays() {
        let numbers = [Value::Integer(1), Value::Integer(2)];
        assert_eq!(regular(&list(&numbers)), Some((Kind::Integer, vec![2])));
        let nested = list(&[list(&numbers).value.unwrap(), list(&numbers).value.unwrap()]);
        assert_eq!((regular(&nested), json(&nested).as_str()), (None, "[[1, 2], [1, 2]]"));
        assert_eq!(regular(&list(&[])), Some((Kind::Real, vec![0])));
        let mixed = [Value::Integer(1), Value::Real(2.0), Value::Text("a\"\n".into())];
        assert_eq!(regular(&list(&mixed)), None);
        assert_eq!(json(&list(&mixed)), "[1, 2.0, \"a\\\"\\u000a\"]");
    }

    #[test]
    fn texts_are_in_the_heap() {
        let mut heap = Heap::new(48);
        let message = encode("units", &Value::Text("K".into()).into(), &mut heap).unwrap();
        assert_eq!(message[message.len() - 16..], *b"\x01\0\0\0\x30\0\0\0\0\0\0\0\x01\0\0\0");
        assert!(heap.bytes().windows(1).any(|one| one == b"K"));
        assert!(encode("", &Value::Flag(true).into(), &mut Heap::new(0)).is_err());
    }
}
