//! Attributes of tensors.
use crate::abi::{Bytes, Handle, Ptr, Str};
use crate::code::Code;
use crate::stores::arguments;
use crate::stores::call::{self, opened};
use crate::stores::failure::{Failure, Result};
use esker_tensors::{Attribute, AttributeList, Tensor, Value};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// `ESKER_ATTR_FLAG`: one byte, 0 or 1.
const FLAG: u32 = 1;
/// `ESKER_ATTR_INTEGER`: an `int64_t`.
const INTEGER: u32 = 2;
/// `ESKER_ATTR_REAL`: a `double`.
const REAL: u32 = 3;
/// `ESKER_ATTR_TEXT`: a text in UTF-8, without a NUL.
const TEXT: u32 = 4;
/// `ESKER_ATTR_BYTES`: bytes.
const BYTES: u32 = 5;

/// `ESKER_ATTR_LIST`: with one of the first four types, a list of such values, each text with a NUL.
const LIST: u32 = 256;

/// Most attributes of a new tensor: more do not fit in its record.
const ATTRIBUTES_MAX: usize = 65_536;

/// `esker_attr_t`: an attribute of a new tensor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attr {
    /// Its name.
    pub name: Str,
    /// Its value.
    pub value: Bytes,
    /// Bytes of the value.
    pub size: u64,
    /// `ESKER_ATTR_*`.
    pub kind: u32,
    /// Unused; 0.
    pub padding: u32,
}

impl Attr {
    /// Checks an attribute that the caller gives, and returns its name and value.
    fn parse(self) -> Result<(String, Attribute)> {
        let name = arguments::text(self.name, "the name of an attribute")?;
        let what = format!("the value of attribute {name}");
        let bytes = arguments::bytes(self.value, self.size, &what)?;
        let value = self.value(bytes);
        let value = value.filter(|_| self.padding == 0 && !name.is_empty()).ok_or_else(|| {
            let (kind, size) = (self.kind, self.size);
            let text = format!(
                "attribute {name:?} of type {kind} and {size} bytes: the type must be one of ESKER_ATTR_*, the size that \
                 of the type, a text valid UTF-8, and the padding 0"
            );
            Failure::invalid(text)
        })?;
        Ok((name.to_owned(), value.into()))
    }

    /// Value of the attribute; `None` if the type and the size do not fit.
    fn value(self, bytes: &[u8]) -> Option<Value> {
        match self.kind & LIST {
            0 => one_value(self.kind, bytes),
            _ => list_of_values(self.kind & !LIST, bytes),
        }
    }
}

/// Decodes a value that is not a list. `None` if the bytes are not a value of this type (`ESKER_ATTR_*`).
fn one_value(kind: u32, bytes: &[u8]) -> Option<Value> {
    Some(match (kind, bytes) {
        (FLAG, [flag @ (0 | 1)]) => Value::Flag(*flag == 1),
        (INTEGER, bytes) => Value::Integer(i64::from_ne_bytes(bytes.try_into().ok()?)),
        (REAL, bytes) => Value::Real(f64::from_ne_bytes(bytes.try_into().ok()?)),
        (TEXT, bytes) => Value::Text(std::str::from_utf8(bytes).ok()?.to_owned()),
        (BYTES, bytes) => Value::Octets(bytes.to_vec()),
        _ => return None,
    })
}

/// Decodes a list of values of one type. `None` if the bytes are not such a list.
fn list_of_values(kind: u32, bytes: &[u8]) -> Option<Value> {
    let parts: Vec<&[u8]> = match kind {
        FLAG => bytes.chunks(1).collect(),
        INTEGER | REAL => bytes.chunks(8).collect(),
        TEXT => texts(bytes)?,
        _ => return None,
    };
    let values = parts.into_iter().map(|part| one_value(kind, part).map(Attribute::from));
    Some(Value::List(AttributeList { items: values.collect::<Option<_>>()? }))
}

/// Splits texts that each end with a NUL. `None` if the last has none.
fn texts(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    match bytes.split_last() {
        None => Some(Vec::new()),
        Some((0, bytes)) => Some(bytes.split(|byte| *byte == 0).collect()),
        Some(_) => None,
    }
}

/// Reads the attributes of a new tensor. Refuses two of the same name.
pub(super) fn parse(attributes: Ptr<Attr>, count: u32) -> Result<BTreeMap<String, Attribute>> {
    let all = arguments::list(attributes, count, ATTRIBUTES_MAX, "ATTRIBUTES_MAX", "attrs")?;
    let mut parsed = BTreeMap::new();
    for attribute in all {
        let (name, value) = attribute.parse()?;
        if parsed.contains_key(&name) {
            return Err(Failure::invalid(format!("attribute {name:?} is given twice")));
        }
        parsed.insert(name, value);
    }
    Ok(parsed)
}

/// Reads an attribute by its name.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_attribute(
    th: Handle,
    name: Str,
    kind: Ptr<u32>,
    buf: Bytes,
    size: Ptr<u64>,
) -> c_int {
    call::now(|| {
        let tensor = opened::<Tensor>(th)?;
        let name = arguments::text(name, "name")?;
        let attribute = tensor.attributes().get(name).ok_or_else(|| {
            let text = format!("tensor {} has no attribute {name:?}", tensor.uuid());
            Failure::new(Code::NONEXIST, text)
        })?;
        let (number, bytes) = encoded(name, attribute)?;
        kind.set(number);
        arguments::fill(buf, size, bytes.len() as u64, |room| {
            room.copy_from_slice(&bytes);
            Ok(())
        })
    })
}

/// The type and the bytes of a value, as C gets them. `NOTSUPPORTED` if C has no type for it.
fn encoded(name: &str, attribute: &Attribute) -> Result<(u32, Vec<u8>)> {
    let encoded = match &attribute.value {
        Some(Value::List(list)) => encoded_list(&list.items),
        Some(value) => encoded_one(value),
        None => None,
    };
    encoded.ok_or_else(|| {
        let text = format!(
            "attribute {name:?} has no value, or is a list of lists, of bytes or of values of several types: read it \
             with Python or Rust"
        );
        Failure::new(Code::NOTSUPPORTED, text)
    })
}

/// The type and the bytes of a value that is not a list.
fn encoded_one(value: &Value) -> Option<(u32, Vec<u8>)> {
    Some(match value {
        Value::Flag(flag) => (FLAG, vec![u8::from(*flag)]),
        Value::Integer(number) => (INTEGER, number.to_ne_bytes().to_vec()),
        Value::Real(number) => (REAL, number.to_ne_bytes().to_vec()),
        Value::Text(text) => (TEXT, text.as_bytes().to_vec()),
        Value::Octets(bytes) => (BYTES, bytes.clone()),
        Value::List(_) => return None,
    })
}

/// The type and the bytes of a list of values of one type. `None` for values that a list in C cannot have.
fn encoded_list(items: &[Attribute]) -> Option<(u32, Vec<u8>)> {
    let (mut all, mut bytes) = (LIST, Vec::new());
    for item in items {
        let (kind, mut value) = encoded_one(item.value.as_ref()?)?;
        // Texts end with a NUL, so one that contains a NUL cannot be in a list; bytes cannot either.
        if kind == TEXT && !value.contains(&0) {
            value.push(0);
        } else if kind >= TEXT {
            return None;
        }
        if all != LIST && all != LIST | kind {
            return None;
        }
        all = LIST | kind;
        bytes.append(&mut value);
    }
    Some((all, bytes))
}

/// Returns the name of an attribute by its number.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_attribute_name(
    th: Handle,
    index: u32,
    name: Str,
    name_size: u64,
) -> c_int {
    call::now(|| {
        let tensor = opened::<Tensor>(th)?;
        let all = tensor.attributes();
        let found = all.keys().nth(index as usize).ok_or_else(|| {
            Failure::invalid(format!("attribute {index} of a tensor with {}", all.len()))
        })?;
        arguments::give_text(arguments::needed(name, "name")?, name_size, found, "name")
    })
}
