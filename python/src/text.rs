//! Option strings of the Python API.
use dfs::Open;
use esker::types::info::{Durability, Medium, OpenMode};
use esker::types::{Checksum, ObjectClass, ObjectType};
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;

/// `r`, `rw` or `exclusive`.
pub(crate) fn open_mode(text: &str) -> PyResult<OpenMode> {
    let known = [
        ("r", OpenMode::ReadOnly),
        ("rw", OpenMode::ReadWrite),
        ("exclusive", OpenMode::Exclusive),
    ];
    pick("mode", text, &known)
}

pub(crate) fn mode_name(mode: OpenMode) -> &'static str {
    match mode {
        OpenMode::ReadOnly => "r",
        OpenMode::ReadWrite => "rw",
        OpenMode::Exclusive => "exclusive",
    }
}

pub(crate) fn durability(text: &str) -> PyResult<Durability> {
    let known = [("process", Durability::Process), ("commit", Durability::Commit)];
    pick("durability", text, &known)
}

pub(crate) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Commit => "commit",
    }
}

pub(crate) fn medium_name(medium: Medium) -> &'static str {
    match medium {
        Medium::Memory => "memory",
        Medium::Block => "block",
        Medium::Other => "other",
    }
}

const CHECKSUMS: [(&str, Checksum); 3] =
    [("crc32c", Checksum::Crc32c), ("crc64", Checksum::Crc64), ("off", Checksum::Off)];

pub(crate) fn checksum(text: &str) -> PyResult<Checksum> {
    pick("checksum", text, &CHECKSUMS)
}

pub(crate) fn checksum_name(checksum: Checksum) -> &'static str {
    let found = CHECKSUMS.iter().find(|(_, known)| *known == checksum);
    found.map_or("", |(name, _)| name)
}

/// The order of the keys of a Key-Value.
pub(crate) fn kv_type(text: &str) -> PyResult<ObjectType> {
    let known = [
        ("hashed", ObjectType::KvHashed),
        ("lexical", ObjectType::KvLexical),
        ("integer", ObjectType::KvInteger),
    ];
    pick("keys", text, &known)
}

/// An object class by its name, such as `S1` or `SX`.
pub(crate) fn object_class(name: Option<&str>) -> PyResult<Option<ObjectClass>> {
    let unknown = |name| PyValueError::new_err(format!("{name:?} is not an object class"));
    name.map(|name| ObjectClass::from_name(name).ok_or_else(|| unknown(name))).transpose()
}

/// The value of the option `text`. `what` names the argument in the error for an unknown option.
fn pick<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        let message = format!("{what} {text:?} is unknown: use {}", names.join(", "));
        PyValueError::new_err(message)
    })
}

/// The options of opening a file in one of Python's modes.
#[derive(Clone, Copy)]
pub(crate) struct FileMode {
    pub(crate) open: Open,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) append: bool,
}

/// `r`, `w`, `x` or `a`, with a `+` for reading and writing.
pub(crate) fn file_mode(text: &str) -> PyResult<FileMode> {
    let plain = FileMode { open: Open::WRITE, create: true, exclusive: false, append: false };
    let emptied = Open { truncate: true, ..Open::WRITE };
    let known = [
        ("r", FileMode { open: Open::READ, create: false, ..plain }),
        ("w", FileMode { open: emptied, ..plain }),
        ("x", FileMode { exclusive: true, ..plain }),
        ("a", FileMode { append: true, ..plain }),
    ];
    let wanted: String = text.chars().filter(|letter| !"b+".contains(*letter)).collect();
    let mut mode = pick("mode", &wanted, &known)?;
    if text.contains('+') {
        mode.open = Open { read: true, write: true, ..mode.open };
    }
    Ok(mode)
}
