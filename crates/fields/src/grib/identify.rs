//! What identifies a field, as ecCodes tells it.
use crate::Key;
use esker_eccodes::{Field, Library};
use esker_types::{Error, ErrorKind, Result};

/// Tells the key of a field from its message.
pub trait Identify {
    /// The key of the field in `message`, one whole GRIB message; of several fields that of the first.
    ///
    /// # Errors
    /// Where the message is not understood, or has nothing that identifies it.
    fn identify(&self, message: &[u8]) -> Result<Key>;
}

/// The name space of ecCodes that holds what identifies a field.
const SPACE: &str = "mars";

/// Identity by ecCodes: the keys of its name space `mars`, in its order and spelling.
///
/// Two things differ. Keys that begin with an underscore are left out: ecCodes works with them itself. And
/// `param` is the parameter's number in ECMWF's database (`paramId`) where ecCodes knows one, so that a
/// parameter has one name whether it comes in GRIB 1 (where `mars` has `130.128`) or GRIB 2 (`130`).
#[derive(Clone, Copy, Debug)]
pub struct EcCodes(&'static Library);

impl EcCodes {
    /// ecCodes as this machine has it.
    ///
    /// # Errors
    /// As [`Library::shared`]: where there is none.
    pub fn new() -> Result<Self> {
        Library::shared().map(Self)
    }
}

impl Identify for EcCodes {
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let field = self.0.field(message)?;
        let mut pairs = field.keys(SPACE)?;
        pairs.retain(|(name, _)| !name.starts_with('_'));
        if pairs.is_empty() {
            let message =
                "ecCodes knows no MARS keys of the message; archive it under a key of its own";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some((_, param)) = pairs.iter_mut().find(|(name, _)| name == "param") {
            *param = number_of(&field).unwrap_or_else(|| std::mem::take(param));
        }
        Key::from_pairs(pairs)
    }
}

/// The parameter's number in ECMWF's database; ecCodes has 0 for what it does not know.
fn number_of(field: &Field<'_>) -> Option<String> {
    field.long("paramId").ok().filter(|id| *id > 0).map(|id| id.to_string())
}
