//! Numbers as text.

/// A number with three significant figures, without needless zeros, and with commas between thousands.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.places$}");
    match text.split_once('.') {
        None => thousands(&text),
        Some((whole, rest)) => {
            let rest = rest.trim_end_matches('0');
            thousands(whole) + if rest.is_empty() { "" } else { "." } + rest
        }
    }
}

/// Groups digits by thousands.
fn thousands(whole: &str) -> String {
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    sign.to_owned() + &groups.join(",")
}

/// The text with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let known = [
            (0.0, "0"),
            (f64::NAN, "0"),
            (0.05, "0.05"),
            (1.0, "1"),
            (2.345, "2.35"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (1000.0, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1500.0, "-1,500"),
        ];
        for (value, text) in known {
            assert_eq!(short(value), text);
        }
    }
}
