//! Files of numpy: the header of `.npy`, with type and shape of the elements that follow.
use crate::dtype::{DataType, Field};
use crate::limits::DEPTH_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::fmt::Write as _;
use std::io::Read;

/// First bytes of a file, followed by the version.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest header.
const HEADER_BYTES_MAX: usize = 16 << 20;

/// Headers are padded to a multiple of this.
const ALIGNMENT: usize = 64;

/// The header of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type of the elements.
    pub data_type: DataType,
    /// The shape of the array.
    pub shape: Vec<u64>,
    /// True if the first index varies fastest.
    pub fortran_order: bool,
}

impl Header {
    /// Reads a header; the elements follow.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the header is invalid, or the type has no fixed size; [`ErrorKind::Io`].
    pub fn read(from: &mut impl Read) -> Result<Self> {
        let mut start = [0; 8];
        fill(from, &mut start)?;
        if !start.starts_with(MAGIC) {
            return Err(invalid("it does not begin with the magic bytes of one"));
        }
        let mut bytes = [0; 4];
        let length = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => {
                return Err(invalid(&format!("version {version} of the format is not known")));
            }
        };
        fill(from, &mut bytes[..length])?;
        let length = u32::from_le_bytes(bytes) as usize;
        if length > HEADER_BYTES_MAX {
            return Err(invalid("the header is too long"));
        }
        let mut text = vec![0; length];
        fill(from, &mut text)?;
        // Version 1 and 2 are Latin-1, version 3 is UTF-8.
        let text = match start[6] {
            3 => String::from_utf8(text).map_err(|_| invalid("the header is not UTF-8"))?,
            _ => text.into_iter().map(char::from).collect(),
        };
        Self::parse(&text)
    }

    /// Parses the header, which is a dictionary in Python's syntax.
    fn parse(text: &str) -> Result<Self> {
        let Some(Literal::Dictionary(pairs)) = Literal::parse(text) else {
            return Err(invalid("the header is not a dictionary"));
        };
        let get = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            found.ok_or_else(|| invalid(&format!("the header has no {name:?}")))
        };
        let shape = get("shape")?
            .lengths()
            .ok_or_else(|| invalid("the shape is not a tuple of numbers"))?;
        let fortran_order = match get("fortran_order")? {
            Literal::Flag(flag) => *flag,
            _ => return Err(invalid("fortran_order is neither True nor False")),
        };
        let data_type = data_type(get("descr")?, 0)?;
        data_type.check()?;
        Ok(Self { data_type, shape, fortran_order })
    }

    /// The bytes of the header.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if the members of the type overlap or are out of order: the format cannot express
    /// that.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let order = if self.fortran_order { "True" } else { "False" };
        let descr = descr(&self.data_type)?;
        let shape = tuple(&self.shape);
        let mut text =
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
        // In version 1 the length of the text has two bytes; the rest of 64 KiB is for the padding.
        let version: u8 = match (text.is_ascii(), text.len() > 60_000) {
            (false, _) => 3,
            (true, true) => 2,
            (true, false) => 1,
        };
        // Bytes before the text: magic bytes, version and length of the text.
        let before = if version == 1 { 10 } else { 12 };
        let whole = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
        text.push_str(&" ".repeat(whole - before - text.len() - 1));
        text.push('\n');
        let length = (text.len() as u32).to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        Ok([MAGIC, &[version, 0][..], length, text.as_bytes()].concat())
    }
}

/// Fills the buffer. An error if the file ends.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    from.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => invalid("it ends within its header"),
        _ => Error::io("reading the header of a .npy file", &error),
    })
}

#[cold]
fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("not a .npy file: {what}; numpy.save writes such files"))
}

/// A type in Python's notation: a text, or a list of the members of a structured type.
///
/// # Errors
/// [`ErrorKind::NotSupported`] if the members overlap or are out of order.
pub fn descr(of: &DataType) -> Result<String> {
    if of.fields.is_empty() {
        return Ok(format!("'{}'", of.code));
    }
    let (mut text, mut at) = (String::from("["), 0);
    for field in &of.fields {
        let gap = field.offset.checked_sub(at).ok_or_else(|| overlapping_members_error(field))?;
        push_padding(&mut text, gap);
        at = field.offset + field.bytes()?;
        let name = match field.title.as_str() {
            "" => quoted(&field.name),
            title => format!("({}, {})", quoted(title), quoted(&field.name)),
        };
        let inner = descr(field.data_type()?)?;
        let shape = if field.shape.is_empty() {
            String::new()
        } else {
            format!(", {}", tuple(&field.shape))
        };
        let _ = write!(text, "({name}, {inner}{shape}), ");
    }
    push_padding(
        &mut text,
        of.size()?.checked_sub(at).ok_or_else(|| overlapping_members_error(&of.fields[0]))?,
    );
    // Removes the last comma.
    text.truncate(text.len() - 2);
    text.push(']');
    Ok(text)
}

/// Adds unnamed bytes between two members, in numpy's form.
fn push_padding(text: &mut String, bytes: u64) {
    if bytes > 0 {
        let _ = write!(text, "('', '|V{bytes}'), ");
    }
}

#[cold]
fn overlapping_members_error(field: &Field) -> Error {
    let text = format!(
        "the member {:?} overlaps another or comes before it: .npy files cannot express that, read the tensor from Python",
        field.name
    );
    Error::new(ErrorKind::NotSupported, text)
}

/// A string literal of Python.
fn quoted(text: &str) -> String {
    let mut literal = String::from("'");
    for one in text.chars() {
        match one {
            '\\' | '\'' => literal.extend(['\\', one]),
            // All of them are below U+00A0.
            _ if one.is_control() => _ = write!(literal, "\\x{:02x}", u32::from(one)),
            _ => literal.push(one),
        }
    }
    literal + "'"
}

/// Python's spelling of a tuple of numbers.
fn tuple(lengths: &[u64]) -> String {
    match lengths {
        [one] => format!("({one},)"),
        _ => {
            let lengths: Vec<_> = lengths.iter().map(u64::to_string).collect();
            format!("({})", lengths.join(", "))
        }
    }
}

/// Type of the elements, from the header. `level` is the number of structured types around it.
fn data_type(of: &Literal, level: usize) -> Result<DataType> {
    match of {
        Literal::Text(code) => DataType::parse(code),
        Literal::List(members) if level < DEPTH_MAX => structured(members, level),
        _ => Err(invalid("descr is neither a text nor a list of members")),
    }
}

/// Type with members, from the header. Unnamed bytes between members are left out.
fn structured(members: &[Literal], level: usize) -> Result<DataType> {
    let (mut fields, mut offset) = (Vec::new(), 0u64);
    for member in members {
        let field = field(member, offset, level)?;
        let end = offset.checked_add(field.bytes()?);
        offset = end.ok_or_else(|| invalid("a type is too long"))?;
        if !(field.name.is_empty() && field.data_type()?.code.starts_with("|V")) {
            fields.push(field);
        }
    }
    DataType::structured(offset, fields)
}

/// Parses a member: name, type, and perhaps shape. `offset` is its offset in bytes.
fn field(member: &Literal, offset: u64, level: usize) -> Result<Field> {
    let wrong = || invalid("a member is not a tuple of name, type and shape");
    let Literal::Tuple(parts) = member else { return Err(wrong()) };
    let [name, of, shape @ ..] = &parts[..] else { return Err(wrong()) };
    let (title, name) = match name {
        Literal::Text(name) => (String::new(), name.clone()),
        Literal::Tuple(both) => match &both[..] {
            [Literal::Text(title), Literal::Text(name)] => (title.clone(), name.clone()),
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let shape = match shape {
        [] => Vec::new(),
        [shape] => shape.lengths().ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    Ok(Field { name, offset, data_type: Some(data_type(of, level + 1)?), shape, title })
}

/// A literal of Python, of a kind that headers have.
#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Text(String),
    Number(u64),
    Flag(bool),
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
    Dictionary(Vec<(String, Literal)>),
}

impl Literal {
    /// Parses a literal that takes all of `text`.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let literal = Self::take(&mut rest, 0)?;
        rest.trim().is_empty().then_some(literal)
    }

    /// The numbers of a tuple, or one number.
    fn lengths(&self) -> Option<Vec<u64>> {
        let all = match self {
            Self::Tuple(all) => all,
            Self::Number(one) => return Some(vec![*one]),
            _ => return None,
        };
        let number = |one: &Self| if let Self::Number(number) = one { Some(*number) } else { None };
        all.iter().map(number).collect()
    }

    /// Parses one literal at the beginning of `rest`, which afterwards begins after it. `level` counts the nesting, of
    /// which a header may have only a limited depth.
    fn take(rest: &mut &str, level: usize) -> Option<Self> {
        *rest = rest.trim_start();
        match rest.chars().next()? {
            _ if level > 4 * DEPTH_MAX => None,
            '{' => Some(Self::Dictionary(sequence(rest, '}', |rest| {
                let Self::Text(key) = Self::take(rest, level + 1)? else { return None };
                *rest = rest.trim_start().strip_prefix(':')?;
                Some((key, Self::take(rest, level + 1)?))
            })?)),
            '(' => Some(Self::Tuple(sequence(rest, ')', |rest| Self::take(rest, level + 1))?)),
            '[' => Some(Self::List(sequence(rest, ']', |rest| Self::take(rest, level + 1))?)),
            quote @ ('\'' | '"') => string(rest, quote),
            '0'..='9' => number(rest),
            _ => word(rest),
        }
    }
}

/// Parses items between brackets, separated by commas. `rest` begins with the opening bracket, and afterwards after the
/// closing one, `end`. `item` parses one item.
fn sequence<T>(
    rest: &mut &str,
    end: char,
    item: impl Fn(&mut &str) -> Option<T>,
) -> Option<Vec<T>> {
    let (mut items, mut chars) = (Vec::new(), rest.chars());
    chars.next();
    *rest = chars.as_str().trim_start();
    loop {
        if let Some(after) = rest.strip_prefix(end) {
            *rest = after;
            return Some(items);
        }
        items.push(item(rest)?);
        *rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => *rest = after.trim_start(),
            None if rest.starts_with(end) => {}
            None => return None,
        }
    }
}

/// Parses a string literal of Python that begins with `quote`. Afterwards `rest` begins after the closing quote.
fn string(rest: &mut &str, quote: char) -> Option<Literal> {
    let (mut text, mut chars) = (String::new(), rest.chars());
    chars.next();
    loop {
        match chars.next()? {
            '\\' => text.push(escaped(&mut chars)?),
            end if end == quote => break,
            other => text.push(other),
        }
    }
    *rest = chars.as_str();
    Some(Literal::Text(text))
}

/// Parses an escape sequence after its backslash, such as `n` or `x41`, and returns the character.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match chars.next()? {
        plain @ ('\\' | '\'' | '"') => return Some(plain),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let code: Option<String> = (0..digits).map(|_| chars.next()).collect();
    char::from_u32(u32::from_str_radix(&code?, 16).ok()?)
}

/// Parses a decimal number without a sign.
fn number(rest: &mut &str) -> Option<Literal> {
    let end = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    // Python 2 wrote an L after long integers.
    *rest = after.strip_prefix('L').unwrap_or(after);
    digits.parse().ok().map(Literal::Number)
}

/// Parses `True` or `False`.
fn word(rest: &mut &str) -> Option<Literal> {
    for (word, flag) in [("True", true), ("False", false)] {
        if let Some(after) = rest.strip_prefix(word) {
            *rest = after;
            return Some(Literal::Flag(flag));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Header> {
        let length = (text.len() as u16).to_le_bytes();
        Header::read(&mut &[b"\x93NUMPY\x01\0", &length[..], text.as_bytes()].concat()[..])
    }

    /// A header of a structured type from numpy 2.
    const STRUCTURED: &str = "{'descr': [('a', '<f4'), ('', '|V4'), (('long', 'b'), '<M8[ns]', (2, 3)), \
                              ('c', [('x', '|S3'), ('y', '>i2')])], 'fortran_order': False, 'shape': (3,), }";

    #[test]
    fn headers_of_numpy_are_read_and_written() {
        let header =
            read("{'descr': '>c16', 'fortran_order': True, 'shape': (3, 4), }   \n").unwrap();
        let expected = Header {
            data_type: DataType::parse(">c16").unwrap(),
            shape: vec![3, 4],
            fortran_order: true,
        };
        assert_eq!(header, expected);
        let structured = read(STRUCTURED).unwrap();
        let offsets = structured.data_type.fields.iter().map(|field| field.offset);
        assert_eq!(offsets.collect::<Vec<_>>(), [0, 8, 56]);
        assert_eq!(structured.data_type.size(), Ok(61));
        for header in [header, structured, Header { shape: vec![], ..expected }] {
            let bytes = header.to_bytes().unwrap();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(Header::read(&mut &bytes[..]).unwrap(), header);
        }
    }

    #[test]
    fn a_structured_type_is_written_as_numpy_does() {
        let bytes = read(STRUCTURED).unwrap().to_bytes().unwrap();
        assert!(std::str::from_utf8(&bytes[10..]).unwrap().starts_with(STRUCTURED));
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        let code = || Some(DataType::parse("|u1").unwrap());
        let (name, title) = ("a\n\r\0'\\\u{85}".to_owned(), "\t".to_owned());
        let field = Field { name, offset: 0, data_type: code(), shape: vec![], title };
        let data_type = DataType::structured(1, vec![field]).unwrap();
        let header = Header { data_type, shape: vec![1], fortran_order: false };
        let bytes = header.to_bytes().unwrap();
        assert!(bytes[10..bytes.len() - 1].iter().all(|byte| (0x20..0x7f).contains(byte)));
        assert_eq!(Header::read(&mut &bytes[..]).unwrap(), header);
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 'x', }",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,), }",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': [('a', '<f4')",
        ] {
            assert_eq!(read(text).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
        assert!(Header::read(&mut &b"\x89HDF\r\n\x1a\n"[..]).is_err());
        assert!(Header::read(&mut &b"\x93NUMPY\x01\0\xff\xff"[..]).is_err());
    }

    #[test]
    fn fuzz_headers() {
        let known: Vec<_> =
            [STRUCTURED, "{'descr': '>c16', 'fortran_order': True, 'shape': (3, 4), }"]
                .iter()
                .map(|text| text.as_bytes().to_vec())
                .collect();
        esker_testing::fuzz("npy", &known, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(header) = Header::parse(&text) {
                let _ = header.to_bytes();
            }
        });
    }
}
