//! Identifying the field of a message: by ecCodes, and with default labels.
use crate::Key;
use crate::eccodes::{Field, Library};
use esker_types::{Error, ErrorKind, Result};

/// Derives the key of a field from its message.
pub trait Identify {
    /// The key of the field in `message`, one complete GRIB message. If it has several fields, the key of the first.
    ///
    /// # Errors
    /// If the message cannot be decoded, or has nothing that identifies it.
    fn identify(&self, message: &[u8]) -> Result<Key>;
}

/// The name space of ecCodes with the keys that identify a field.
const SPACE: &str = "mars";

/// Identity by ecCodes: the keys of its name space `mars`, in its order and spelling.
///
/// It differs in two points. Keys that begin with an underscore are internal to ecCodes and left out. And
/// `param` is the parameter's number in ECMWF's database (`paramId`) if ecCodes knows one, so that a
/// parameter has one name whether it comes in GRIB 1 (where `mars` has `130.128`) or GRIB 2 (`130`).
#[derive(Clone, Copy, Debug)]
pub struct EcCodes(&'static Library);

impl EcCodes {
    /// Uses the ecCodes that is installed on this machine.
    ///
    /// # Errors
    /// The errors of [`Library::shared`], if ecCodes is not installed.
    pub fn new() -> Result<Self> {
        Library::shared().map(Self)
    }
}

impl Identify for EcCodes {
    /// The MARS keys that ecCodes finds, without those that begin with `_`. `param` is a number if ecCodes knows it.
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let field = self.0.field(message)?;
        let mut pairs = field.keys(SPACE)?;
        pairs.retain(|(name, _)| !name.starts_with('_'));
        if pairs.is_empty() {
            let message =
                "ecCodes finds no MARS keys in the message; archive it under an explicit key";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if let Some((_, param)) = pairs.iter_mut().find(|(name, _)| name == "param") {
            *param = number_of(&field).unwrap_or_else(|| std::mem::take(param));
        }
        Key::from_pairs(pairs)
    }
}

/// The parameter's number in ECMWF's database; ecCodes returns 0 for unknown parameters.
fn number_of(field: &Field<'_>) -> Option<String> {
    field.long("paramId").ok().filter(|id| *id > 0).map(|id| id.to_string())
}

/// The value of a label that a message lacks.
pub const UNKNOWN: &str = "unknown";

/// Labels that messages of other centres lack, with the values that [`Labelled`] gives them.
pub const UNLABELLED: [(&str, &str); 4] =
    [("class", UNKNOWN), ("expver", "0001"), ("stream", UNKNOWN), ("type", UNKNOWN)];

/// Adds default labels to the keys of another [`Identify`], for messages of other centres that lack them:
/// `class=unknown`, `expver=0001`, `stream=unknown` and `type=unknown`, after the key's own names.
#[derive(Debug)]
pub struct Labelled<I>(pub I);

impl<I: Identify> Identify for Labelled<I> {
    /// The key of the other [`Identify`], completed with default labels.
    fn identify(&self, message: &[u8]) -> Result<Key> {
        let mut key = self.0.identify(message)?;
        for (name, value) in UNLABELLED {
            if key.get(name).is_none() {
                key.set(name, value)?;
            }
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns this key for each message.
    struct Known(Key);

    impl Identify for Known {
        fn identify(&self, _: &[u8]) -> Result<Key> {
            Ok(self.0.clone())
        }
    }

    #[test]
    fn existing_labels_are_kept() {
        let known = |key: &str| Labelled(Known(Key::parse(key).unwrap())).identify(b"").unwrap();
        let filed = known("param=167,type=fc");
        assert_eq!(filed.as_str(), "param=167,type=fc,class=unknown,expver=0001,stream=unknown");
        let whole = "class=od,expver=0079,stream=oper,type=an,param=167";
        assert_eq!(known(whole).as_str(), whole);
    }
}
