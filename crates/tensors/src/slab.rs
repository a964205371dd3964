//! Hyperslabs: selections of indexes in each dimension.
use esker_types::{Error, ErrorKind, Result};
use std::fmt;

/// Indexes of one dimension: `count` indexes, starting at `start`, every `step`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first index.
    pub start: u64,
    /// The distance of an index to the next, at least 1.
    pub step: u64,
    /// Number of indexes.
    pub count: u64,
}

impl Slab {
    /// `count` indexes, starting at `start`, without gaps.
    #[must_use]
    pub const fn new(start: u64, count: u64) -> Self {
        Self { start, step: 1, count }
    }

    /// All of `shape`.
    #[must_use]
    pub fn whole(shape: &[u64]) -> Vec<Self> {
        shape.iter().map(|count| Self::new(0, *count)).collect()
    }

    /// Slabs in Python's notation, such as `10:20, ::2, 5`. A single index selects a dimension of length 1. Dimensions
    /// omitted at the end are selected completely. Negative numbers count from the end. Steps are positive.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it cannot be read or does not suit `shape`.
    pub fn parse(text: &str, shape: &[u64]) -> Result<Vec<Self>> {
        let mut texts: Vec<&str> = text.split(',').map(str::trim).collect();
        // An empty text selects everything, and Python allows a comma at the end. Other empty slabs are refused: without
        // one, the next slabs would apply to other dimensions.
        texts.pop_if(|last| last.is_empty());
        if texts.len() > shape.len() {
            let message = format!(
                "{text:?} has {} slabs for the shape {shape:?}: give at most one for each dimension",
                texts.len()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut slabs = Self::whole(shape);
        for ((slab, text), len) in slabs.iter_mut().zip(texts).zip(shape) {
            *slab = Self::parse_one(text, *len).ok_or_else(|| selection_error(text, *len))?;
        }
        Ok(slabs)
    }

    /// Parses one index or slice, as in Python: negative numbers count from the end. `None` if it is neither.
    fn parse_one(text: &str, len: u64) -> Option<Self> {
        let len = i64::try_from(len).ok()?;
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let at = |text: &str, usual: i64| match text {
            "" => Some(usual),
            _ => text.parse().ok().map(|at: i64| if at < 0 { at.saturating_add(len) } else { at }),
        };
        if let [index] = parts[..] {
            let index = at(index, -1).filter(|index| (0..len).contains(index))?;
            return Some(Self::new(index.cast_unsigned(), 1));
        }
        let step = match parts[..] {
            [_, _] | [_, _, ""] => 1,
            [_, _, step] => step.parse().ok().filter(|step| *step > 0)?,
            _ => return None,
        };
        let start = at(parts[0], 0)?.clamp(0, len).cast_unsigned();
        let stop = at(parts[1], len)?.clamp(0, len).cast_unsigned();
        Some(Self { start, step, count: stop.saturating_sub(start).div_ceil(step) })
    }

    /// Checks that all indexes are below `len`.
    fn fits(&self, len: u64) -> bool {
        let last = self.count.checked_sub(1).map(|last| last.checked_mul(self.step));
        match last {
            None => self.step > 0 && self.start <= len,
            Some(last) => {
                let last = last.and_then(|last| last.checked_add(self.start));
                self.step > 0 && last.is_some_and(|last| last < len)
            }
        }
    }
}

/// Checks that each dimension has one slab, and that each fits.
///
/// # Errors
/// [`ErrorKind::Invalid`]; the message names the slabs.
pub(crate) fn check(slabs: &[Slab], shape: &[u64]) -> Result<()> {
    let fits =
        slabs.len() == shape.len() && slabs.iter().zip(shape).all(|(slab, len)| slab.fits(*len));
    fits.then_some(()).ok_or_else(|| {
        let text = format!("{} does not fit in the shape {shape:?}", Shown(slabs));
        Error::new(ErrorKind::Invalid, text)
    })
}

/// Slabs in Python's notation.
pub(crate) struct Shown<'a>(pub(crate) &'a [Slab]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (number, slab) in self.0.iter().enumerate() {
            let stop = u128::from(slab.start) + u128::from(slab.count) * u128::from(slab.step);
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{}:{stop}", slab.start)?;
            if slab.step != 1 {
                write!(f, ":{}", slab.step)?;
            }
        }
        f.write_str("]")
    }
}

#[cold]
fn selection_error(text: &str, len: u64) -> Error {
    let text = format!(
        "{text:?} selects nothing of a dimension of length {len}: write START:STOP, START:STOP:STEP with a positive step, \
         or an index below {len}"
    );
    Error::new(ErrorKind::Invalid, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_notation_is_read() {
        let parse = |text| Slab::parse(text, &[10, 5, 3]).unwrap();
        let whole = Slab::whole(&[10, 5, 3]);
        assert_eq!(parse(""), whole);
        assert_eq!(
            parse("2:8:3, -1"),
            [Slab { start: 2, step: 3, count: 2 }, Slab::new(4, 1), whole[2]]
        );
        assert_eq!(parse(":, 3:, :-1")[1..], [Slab::new(3, 2), Slab::new(0, 2)]);
        assert_eq!(parse("20:30")[0].count, 0);
        assert_eq!(parse("5,"), parse("5"));
        assert_eq!(parse(":, :, 1,"), parse(":, :, 1"));
    }

    #[test]
    fn invalid_slabs_are_refused() {
        for text in ["10", "1:2:-1", "::0", "x", "1:2:3:4", ":,:,:,:", "0:2,,2", ",", ",1", "1,,"] {
            assert!(Slab::parse(text, &[10, 5, 3]).is_err(), "{text}");
        }
        assert!(check(&[Slab::new(9, 2)], &[10]).is_err());
        assert!(check(&[Slab { start: 1, step: u64::MAX, count: 3 }], &[10]).is_err());
        assert!(check(&[Slab::new(10, 0)], &[10]).is_ok());
        assert!(check(&[], &[10]).is_err());
    }
}
