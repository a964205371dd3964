//! The stored messages, in protobuf. `docs/tensors.proto` declares the same; a test compares them.
use crate::dtype::DataType;
use crate::limits::RECORD_BYTES_MAX;
use esker_types::{Error, ErrorKind, Result};
use prost::Message;
use std::collections::BTreeMap;

/// A tensor: the value of its UUID in the Key-Value of tensors. Times are in milliseconds since 1970, and 0 before they
/// are known. `names` are the names that may refer to the tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorRecord {
    #[prost(message, optional, tag = "1")]
    pub(crate) data_type: Option<DataType>,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) shape: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) chunks: Vec<u64>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub(crate) attributes: BTreeMap<String, Attribute>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) names: Vec<String>,
    #[prost(enumeration = "State", tag = "6")]
    pub(crate) state: i32,
    #[prost(uint64, tag = "7")]
    pub(crate) begun_ms: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) committed_ms: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) removed_ms: u64,
    #[prost(uint32, tag = "10")]
    pub(crate) object_class: u32,
    /// True if chunks may be missing, since their elements are zero.
    #[prost(bool, tag = "11")]
    pub(crate) sparse: bool,
}

/// State of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum State {
    /// The tensor's PUT has begun.
    Pending = 0,
    /// The tensor's PUT was committed.
    Committed = 1,
    /// The tensor was removed or replaced, and is freed when no process reads it.
    Removed = 2,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// The value; `None` only in messages of a later release.
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6")]
    pub value: Option<Value>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Value {
    /// True or false.
    #[prost(bool, tag = "1")]
    Flag(bool),
    /// An integer.
    #[prost(sint64, tag = "2")]
    Integer(i64),
    /// A floating-point number.
    #[prost(double, tag = "3")]
    Real(f64),
    /// A text.
    #[prost(string, tag = "4")]
    Text(String),
    /// Bytes.
    #[prost(bytes = "vec", tag = "5")]
    Octets(Vec<u8>),
    /// A list of values.
    #[prost(message, tag = "6")]
    List(AttributeList),
}

/// A list of values.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeList {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Attribute>,
}

/// A part that was written for a PUT: a value in the Key-Value of its parts.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Part {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) offset: Vec<u64>,
    #[prost(uint64, repeated, tag = "2")]
    pub(crate) shape: Vec<u64>,
}

impl From<Value> for Attribute {
    fn from(value: Value) -> Self {
        Self { value: Some(value) }
    }
}

impl Attribute {
    /// True if its lists are nested in more than `levels` levels.
    pub(crate) fn is_deeper_than(&self, levels: usize) -> bool {
        let Some(Value::List(list)) = &self.value else { return false };
        levels == 0 || list.items.iter().any(|item| item.is_deeper_than(levels - 1))
    }
}

impl TensorRecord {
    /// The bytes of the record.
    ///
    /// # Errors
    /// [`ErrorKind::RecordTooBig`] if there are more than [`RECORD_BYTES_MAX`].
    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        let bytes = self.encode_to_vec();
        if bytes.len() <= RECORD_BYTES_MAX {
            return Ok(bytes);
        }
        let text = format!(
            "type, shape and attributes of the tensor take {} bytes, more than {RECORD_BYTES_MAX} \
             (RECORD_BYTES_MAX): store large attributes as tensors of their own",
            bytes.len()
        );
        Err(Error::new(ErrorKind::RecordTooBig, text))
    }

    /// The record in `bytes`, about the tensor `uuid`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they cannot be decoded.
    pub(crate) fn parse(uuid: &str, bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(|error| damaged(&format!("the record of tensor {uuid}"), error))
    }
}

impl Part {
    /// The part in `bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they cannot be decoded.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes).map_err(|error| damaged("the record of a part", error))
    }
}

#[cold]
fn damaged(what: &str, error: impl std::fmt::Display) -> Error {
    let text = format!("{what} is damaged ({error}): run `esker tensor check`");
    Error::new(ErrorKind::Corrupt, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const PROTO: &str = include_str!("../../../docs/tensors.proto");
    const SOURCES: [&str; 2] = [include_str!("messages.rs"), include_str!("dtype.rs")];

    /// Message, type, name, number.
    type Line = (String, String, String, String);

    /// The members of the messages that the .proto file declares.
    fn proto_members() -> BTreeSet<Line> {
        let (mut message, mut found) = (String::new(), BTreeSet::new());
        for line in PROTO.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["message" | "enum", name, "{"] => message = name.to_owned(),
                [.., _, "=", _] if line.ends_with(';') && !line.starts_with("syntax") => {
                    let (left, number) = line.trim_end_matches(';').split_once(" = ").unwrap();
                    let (kind, name) = left.rsplit_once(' ').unwrap_or(("value", left));
                    let strings = [&message, kind, name, number].map(str::to_owned);
                    found.insert(strings.into());
                }
                _ => {}
            }
        }
        found
    }

    /// The name of a member as the .proto file spells it.
    fn snake(name: &str) -> String {
        name.chars().map(|one| one.to_ascii_lowercase()).collect()
    }

    /// The type in the .proto file of a member with this attribute.
    fn kind(attribute: &str, member: &str) -> String {
        let inner = |wrapper: &str| {
            let start = member.find(wrapper).unwrap() + wrapper.len();
            member[start..].split(['>', ')']).next().unwrap().to_owned()
        };
        let repeated = if attribute.contains("repeated") { "repeated " } else { "" };
        let first = attribute.split([',', ' ']).next().unwrap();
        let name = match first {
            "message" if attribute.contains("repeated") => inner("Vec<"),
            "message" if attribute.contains("optional") => inner("Option<"),
            "message" => inner("("),
            "btree_map" => "map<string, Attribute>".into(),
            "enumeration" => attribute.split('"').nth(1).unwrap().into(),
            plain => plain.into(),
        };
        format!("{repeated}{name}")
    }

    /// The members of the messages that a Rust file declares.
    fn rust_members(source: &str) -> BTreeSet<Line> {
        let (mut message, mut attribute, mut found) = (String::new(), None, BTreeSet::new());
        for line in source.split("#[cfg(test)]").next().unwrap().lines().map(str::trim) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [.., "struct" | "enum", name, "{"] = words[..] {
                message = if name == "Value" { "Attribute".into() } else { name.to_owned() };
            } else if let Some(text) = line.strip_prefix("#[prost(") {
                attribute =
                    Some(text.trim_end_matches(")]").to_owned()).filter(|t| t.contains("tag ="));
            } else if let Some(text) = attribute.take() {
                let number =
                    text.split("tag = \"").nth(1).unwrap().trim_end_matches('"').to_owned();
                let name = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
                let name = snake(name.split([':', '(']).next().unwrap());
                found.insert((message.clone(), kind(&text, line), name, number));
            } else if message == "State" && line.contains(" = ") {
                let (name, number) = line.trim_end_matches(',').split_once(" = ").unwrap();
                let line = [&message, "value", &name.to_uppercase(), number].map(str::to_owned);
                found.insert(line.into());
            }
        }
        found
    }

    #[test]
    fn the_proto_file_and_the_types_are_the_same() {
        let rust: BTreeSet<Line> = SOURCES.iter().flat_map(|source| rust_members(source)).collect();
        assert_eq!(proto_members(), rust);
        assert_eq!(rust.len(), 30);
    }

    #[test]
    fn records_have_the_bytes_that_the_format_says() {
        let data_type = Some(DataType::parse("<f8").unwrap());
        let attributes = BTreeMap::from([("a".to_owned(), Value::Integer(-1).into())]);
        let record =
            TensorRecord { data_type, shape: vec![300, 2], attributes, ..Default::default() };
        let expected = b"\x0a\x05\x0a\x03<f8\x12\x03\xac\x02\x02\x22\x07\x0a\x01a\x12\x02\x10\x01";
        assert_eq!(record.bytes().unwrap(), expected);
        assert_eq!(TensorRecord::parse("", expected).unwrap(), record);
    }

    #[test]
    fn invalid_records_are_refused() {
        let error = TensorRecord::parse("u", b"\x0a\x7f").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn fuzz_records() {
        let record =
            TensorRecord { shape: vec![1, 2], names: vec!["a".into()], ..Default::default() };
        esker_testing::fuzz("tensor_record", &[record.encode_to_vec()], |bytes| {
            drop(TensorRecord::parse("u", bytes))
        });
    }
}
