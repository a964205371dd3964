//! Byte sizes as text, and rates.
use esker::types::ByteSize;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes, parsed from `4G`, `512MiB`, `1.5 TiB` or `64`.
///
/// `K` and `KiB` to `P` and `PiB` are powers of 1024; `kB` to `PB` are powers of 1000. Case does not matter. Parsers
/// from registries take `4G` for powers of 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a size: write it as 64, 8K, 512MiB, 1.5G or 2TB");
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit_bytes(unit.trim()).ok_or_else(refuse)?;
        match number.parse::<u64>() {
            Ok(number) => number.checked_mul(unit).map(Self).ok_or_else(refuse),
            Err(_) => fraction(number, unit).map(Self).ok_or_else(refuse),
        }
    }
}

/// Bytes per unit; an empty unit is the byte.
fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.strip_suffix("ib").or(unit.strip_suffix('i')) {
        Some(prefix) => (prefix, 1024),
        None if unit.len() == 2 && unit.ends_with('b') => (&unit[..1], 1000),
        None => (unit.as_str(), 1024),
    };
    let power = match prefix {
        "" | "b" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some(u64::pow(base, power))
}

/// Bytes of a decimal number of units, rounded down; `None` if it is not a number or the bytes exceed 64 bits.
fn fraction(number: &str, unit: u64) -> Option<u64> {
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.0).fmt(f)
    }
}

/// Rounds to three decimal places, more than any measurement is precise to.
#[must_use]
pub fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// An amount with the time that it took and the rate, as in `3 MiB in 1.50 s, 2 MiB/s`. There is no rate of nothing,
/// and none is rounded to zero.
#[must_use]
pub fn amount_and_rate(bytes: u64, seconds: f64) -> String {
    let amount = format!("{} in {}", Bytes(bytes), time(seconds));
    match per_second(bytes as f64, seconds) {
        rate if rate > 0.0 => format!("{amount}, {}/s", Bytes((rate as u64).max(1))),
        _ => amount,
    }
}

/// Seconds with two decimal places, or with as many as a short time needs.
fn time(seconds: f64) -> String {
    match seconds {
        short if short < 0.001 => "less than 1 ms".to_owned(),
        short if short < 0.1 => format!("{:.0} ms", short * 1000.0),
        long => format!("{long:.2} s"),
    }
}

/// MiB per second.
#[must_use]
pub fn mib_per_s(bytes: u64, seconds: f64) -> f64 {
    per_second(bytes as f64 / f64::from(1 << 20), seconds)
}

/// A rate; 0 if no time has passed.
#[must_use]
pub fn per_second(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_spellings_of_sizes_are_parsed() {
        let known = [
            ("0", 0),
            ("64", 64),
            ("64B", 64),
            ("8K", 8 << 10),
            ("8KiB", 8 << 10),
            ("8kb", 8000),
            ("512 MiB", 512 << 20),
            ("1.5G", 3 << 29),
            ("4g", 4 << 30),
            ("4Gi", 4 << 30),
            ("2TB", 2_000_000_000_000),
        ];
        for (text, bytes) in known {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "G", "-1", "4X", "4 G G", "1.2.3", "99999999999G", "ib"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_their_largest_unit() {
        let known = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536 << 20, "1.50 GiB"),
            (u64::MAX, "16384.00 PiB"),
        ];
        for (bytes, text) in known {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn rates_are_never_shown_as_zero() {
        for (bytes, seconds, text) in [
            (3 << 20, 1.5, "3 MiB in 1.50 s, 2 MiB/s"),
            (10, 0.02, "10 B in 20 ms, 500 B/s"),
            (1, 1000.0, "1 B in 1000.00 s, 1 B/s"),
            (0, 0.5, "0 B in 0.50 s"),
            (64, 0.0, "64 B in less than 1 ms"),
        ] {
            assert_eq!(amount_and_rate(bytes, seconds), text);
        }
    }

    #[test]
    fn rate_over_zero_time_is_zero() {
        assert_eq!(mib_per_s(1 << 20, 0.0), 0.0);
        assert_eq!(mib_per_s(3 << 20, 2.0), 1.5);
        assert_eq!(rounded(1.23456), 1.235);
    }
}
