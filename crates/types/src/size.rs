//! Sizes in bytes as text.
use std::fmt;

/// Units of a size, each 1024 times the one before.
const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A number of bytes, shown in the largest unit of which there is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The size rounded up to whole MiB, for error messages that name a sufficient size.
    #[must_use]
    pub fn whole_mib(self) -> String {
        format!("{} MiB", self.0.div_ceil(1 << 20))
    }
}

impl fmt::Display for ByteSize {
    /// Shows two decimal places unless the number is an integer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = (self.0.checked_ilog2().unwrap_or(0) / 10).min(5);
        let unit = UNITS[power as usize];
        let whole = 1u64 << (10 * power);
        match self.0.is_multiple_of(whole) {
            true => f.pad(&format!("{} {unit}", self.0 / whole)),
            false => f.pad(&format!("{:.2} {unit}", self.0 as f64 / whole as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_mib_rounds_up() {
        assert_eq!(ByteSize((33 << 20) + 1).whole_mib(), "34 MiB");
        assert_eq!(ByteSize(33 << 20).whole_mib(), "33 MiB");
        assert_eq!(ByteSize((33 << 20) + (1 << 19)).to_string(), "33.50 MiB");
    }
}
