//! Properties written as text: `label:name;cksum:crc32`.
use super::{Value, table};
use crate::abi::{Prop, PropEntry, Ptr, Str};
use crate::boundary;
use crate::code::{Code, Result};
use crate::property::table::{CONTAINER, Property, Sort};
use std::ffi::{c_int, c_void};

/// Words for the numbers of properties.
const WORDS: [(u32, &[&str]); 7] = [
    (
        0x1002,
        &["unknown", "posix", "hdf5", "python", "spark", "database", "root", "seismic", "meteo"],
    ),
    (table::CO_CSUM, &["off", "crc16", "crc32", "crc64", "sha1", "sha256", "sha512", "adler32"]),
    (0x1006, &["off", "on"]),
    (table::CO_DEDUP, &["off", "memcmp", "hash"]),
    (
        table::CO_COMPRESS,
        &["off", "lz4", "deflate", "deflate1", "deflate2", "deflate3", "deflate4"],
    ),
    (
        table::CO_ENCRYPT,
        &[
            "off",
            "aes-xts128",
            "aes-xts256",
            "aes-cbc128",
            "aes-cbc192",
            "aes-cbc256",
            "aes-gcm128",
            "aes-gcm256",
        ],
    ),
    (table::CO_STATUS, &["healthy", "unclean"]),
];

/// Aliases of property names.
const ALIASES: [(&str, &str); 9] = [
    ("csum", "cksum"),
    ("csum_chunk_size", "cksum_size"),
    ("srv_csum", "srv_cksum"),
    ("rf", "rd_fac"),
    ("rf_lvl", "rd_lvl"),
    ("layout_version", "layout_ver"),
    ("ec_cell", "ec_cell_sz"),
    ("compress", "compression"),
    ("encrypt", "encryption"),
];

/// Parses properties of a container in a text of at most `len` bytes. C frees the list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_from_str(text: Str, len: u64, out: Ptr<Ptr<Prop>>) -> c_int {
    boundary::always(|| {
        let (text, out) = (text.needed()?.cast::<c_void>().read(len)?, out.needed()?);
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| Code::INVAL)?;
        out.set(to_list(&parse(text)?)?);
        Ok(())
    })
}

/// The values as a list of properties in memory that C frees. Each has the number of its property.
fn to_list(values: &[(u32, Value)]) -> Result<Ptr<Prop>> {
    let made = super::alloc(values.len() as u32)?;
    for (at, (kind, value)) in super::entries(made)?.into_iter().zip(values) {
        at.set(PropEntry { kind: *kind, ..PropEntry::default() });
        value.write(at)?;
    }
    Ok(made)
}

/// Parses properties in the form `NAME:VALUE;NAME:VALUE`, in which commas may stand for the semicolons.
fn parse(text: &str) -> Result<Vec<(u32, Value)>> {
    let parts = text.split([';', ',']).map(str::trim).filter(|part| !part.is_empty());
    let values = parts.map(one).collect::<Result<Vec<_>>>()?;
    if values.is_empty() { Err(Code::INVAL) } else { Ok(values) }
}

/// Parses one property of a container, `name:value` or `name=value`. `INVAL` if it is unknown or has no textual form.
fn one(part: &str) -> Result<(u32, Value)> {
    let (name, value) = part.split_once([':', '=']).ok_or(Code::INVAL)?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(&*name, |(_, name)| name);
    let property = CONTAINER.iter().find(|property| property.name == name);
    let property = property.ok_or(Code::INVAL)?;
    let value = match property.sort {
        Sort::Text => Value::Text(value.to_owned()),
        Sort::Number => Value::Number(number(property, value)?),
        Sort::Acl | Sort::Roots | Sort::Ranks => return Err(Code::INVAL),
    };
    Ok((property.id, value))
}

/// Parses the value of a numeric property: a word of that property, or a number with an optional unit of size. `INVAL`
/// above its maximum.
fn number(property: &Property, text: &str) -> Result<u64> {
    let words = WORDS.iter().find(|(id, _)| *id == property.id).map_or(&[][..], |(_, words)| words);
    let word = words.iter().position(|word| word.eq_ignore_ascii_case(text));
    let value = word.map(|index| index as u64).or_else(|| size(text)).ok_or(Code::INVAL)?;
    if value <= property.max { Ok(value) } else { Err(Code::INVAL) }
}

/// A number of bytes, optionally followed by `K`, `M` or `G` (also `KiB` and so on).
fn size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let shift = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_parsed() {
        let read = parse("label:run1; cksum:CRC32;rf:0;ec_cell_sz:128KiB,layout_type:POSIX");
        let expected = [
            (table::CO_LABEL, Value::Text("run1".to_owned())),
            (table::CO_CSUM, Value::Number(2)),
            (table::CO_REDUN_FAC, Value::Number(0)),
            (0x1014, Value::Number(128 << 10)),
            (0x1002, Value::Number(1)),
        ];
        assert_eq!(read, Ok(expected.to_vec()));
    }

    #[test]
    fn bad_text_is_refused() {
        for text in ["", ";", "label", "colour:red", "rd_fac:9", "cksum:crc8", "ec_cell_sz:1x"] {
            assert_eq!(parse(text), Err(Code::INVAL), "{text:?}");
        }
    }
}
