//! Patterns of names, as in `find -name`. Glob libraries give other answers: `globset` takes only UTF-8 patterns,
//! refuses a bracket that is never closed, and gives braces and `**` a meaning of their own.

/// Whether letters that differ only in case match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Matters,
    Ignored,
}

/// True if the whole `name` matches `pattern`. `*` is any number of bytes, `?` one byte, `[a-z]` a byte of a set and
/// `[!a-z]` a byte outside of it; `\` takes the next byte literally. The time is at most proportional to the product of
/// the lengths of pattern and name.
pub(super) fn matches(pattern: &[u8], name: &[u8], case: Case) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Positions to retry from if the pattern after the last star does not match: the star then matches one more byte.
    let mut retry = None;
    while seen < name.len() {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, seen));
            at += 1;
            continue;
        }
        match match_element(&pattern[at..], name[seen], case) {
            Some(len) => (at, seen) = (at + len, seen + 1),
            None => {
                let Some((behind, under)) = retry else { return false };
                retry = Some((behind, under + 1));
                (at, seen) = (behind, under + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Length of the first element of the pattern (a letter, `?`, an escape or a set) if it matches this byte.
fn match_element(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    let same = |a: u8, b: u8| match case {
        Case::Matters => a == b,
        Case::Ignored => a.eq_ignore_ascii_case(&b),
    };
    match *pattern {
        [b'?', ..] => Some(1),
        [b'\\', next, ..] => same(next, byte).then_some(2),
        [b'[', ref set @ ..] => match set_end(set) {
            Some(end) => in_set(&set[..end], byte, same).then_some(end + 2),
            // A bracket that is never closed stands for itself.
            None => same(b'[', byte).then_some(1),
        },
        [first, ..] => same(first, byte).then_some(1),
        [] => None,
    }
}

/// Position of the bracket that ends a set. A bracket that comes first in the set is one of its members.
fn set_end(set: &[u8]) -> Option<usize> {
    let first = usize::from(matches!(set.first(), Some(b'!' | b'^'))) + 1;
    let end = set.get(first..)?.iter().position(|byte| *byte == b']')?;
    Some(first + end)
}

/// True if a byte is in the set of a pattern, such as `a-z` or `!a-z`.
fn in_set(set: &[u8], byte: u8, same: impl Fn(u8, u8) -> bool) -> bool {
    let (negated, mut rest) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while let [first, tail @ ..] = rest {
        rest = match tail {
            [b'-', last, tail @ ..] => {
                found |= (*first..=*last).any(|member| same(member, byte));
                tail
            }
            _ => {
                found |= same(*first, byte);
                tail
            }
        };
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let fits =
            |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes(), Case::Matters);
        for (pattern, name) in [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("*.grib", "x.grib"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            ("\\*", "*"),
            ("a*b*c", "aXbYbZc"),
            ("[", "["),
            ("[a-", "[a-"),
            ("*a*a*a*", "aaa"),
            ("*", ".hidden"),
            ("{a,b}", "{a,b}"),
            ("a**c", "ac"),
            ("x/*", "x/y/z"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "abb"),
            ("?", ""),
            ("[a-c]", "d"),
            ("[!a]", "a"),
            ("\\*", "a"),
            ("*b", "bc"),
            ("A", "a"),
            ("{a,b}", "a"),
            ("**/a", "a"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        assert!(matches(b"*.GRIB", b"x.grib", Case::Ignored));
        assert!(matches(b"[A-C]", b"b", Case::Ignored));
        assert!(matches(b"?\xff*", b"\xfe\xff\n", Case::Matters));
    }
}
