//! The tests of `esker fs find`.
use super::glob;
use super::mode::octal;
use dfs::{Attr, Kind, Time, Visit};
use esker::types::{Error, ErrorKind, Result};
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Operand of `-newer`: a path.
pub(super) type Reference = OsStr;

/// An expression: tests that must all hold, and options.
#[derive(Debug)]
pub(super) struct Expression {
    /// Each test with the result that it must have: `false` after `!` or `-not`.
    tests: Vec<(Test, bool)>,
    pub(super) depth_max: usize,
    depth_min: usize,
    pub(super) print0: bool,
    pub(super) json: bool,
}

#[derive(Debug)]
enum Test {
    Name(Vec<u8>, glob::Case),
    Path(Vec<u8>),
    Kind(Kind),
    /// Number of units, and the bytes of a unit.
    Size(Compared, u64),
    Newer(Time),
    /// Number of units since the last change of the data, and the seconds of a unit.
    Age(Compared, i64),
    Mode(Bits, u32),
    Uid(u32),
    Gid(u32),
    Empty,
}

/// A number to compare with, and how: `+N` is greater than N, `N` equal to it, `-N` less.
#[derive(Debug)]
struct Compared(Ordering, u64);

#[derive(Debug)]
enum Bits {
    Exactly,
    All,
    Any,
}

impl Compared {
    fn holds(&self, number: u64) -> bool {
        number.cmp(&self.1) == self.0
    }
}

/// The words of an expression that are still to be read.
struct Words<'a>(std::slice::Iter<'a, OsString>);

impl<'a> Words<'a> {
    fn value(&mut self, test: &str) -> Result<&'a OsStr> {
        let word = self.0.next().map(OsString::as_os_str);
        word.ok_or_else(|| refused(format!("{test} needs a value")))
    }

    fn text(&mut self, test: &str) -> Result<&'a str> {
        let value = self.value(test)?;
        value.to_str().ok_or_else(|| refused(format!("{test} {value:?}: the value is not UTF-8")))
    }

    /// A number without a sign: `+5` means "more than 5" in other implementations of find.
    fn number<N: std::str::FromStr>(&mut self, test: &str) -> Result<N> {
        let text = self.text(test)?;
        let number = text.parse().ok().filter(|_| !text.starts_with('+'));
        number.ok_or_else(|| refused(format!("{test} {text}: the value is not a number")))
    }

    /// A number with an optional sign, and the letters that follow it.
    fn compared(&mut self, test: &str) -> Result<(Compared, &'a str)> {
        let text = self.text(test)?;
        let (order, rest) = match text.as_bytes().first() {
            Some(b'+') => (Ordering::Greater, &text[1..]),
            Some(b'-') => (Ordering::Less, &text[1..]),
            _ => (Ordering::Equal, text),
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits].parse();
        let number =
            number.map_err(|_| refused(format!("{test} {text}: the value is not a number")))?;
        Ok((Compared(order, number), &rest[digits..]))
    }
}

impl Expression {
    /// Reads an expression; `newer` returns the time of the path after `-newer`.
    pub(super) fn parse(
        words: &[OsString],
        newer: &mut dyn FnMut(&Reference) -> Result<Time>,
    ) -> Result<Self> {
        let (tests, depth_max) = (Vec::new(), usize::MAX);
        let mut expression = Self { tests, depth_max, depth_min: 0, print0: false, json: false };
        let (mut words, mut holds) = (Words(words.iter()), true);
        // The last negation, until its test follows.
        let mut negation = None;
        while let Some(word) = words.0.next() {
            let word = word.to_string_lossy();
            // Two dashes, as options of other commands have them, are accepted too.
            let test = word.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(&word);
            if matches!(test, "!" | "-not") {
                (holds, negation) = (!holds, Some(test.to_owned()));
            } else if expression.take_option(test, &mut words)? {
                refuse_dangling(negation.as_deref())?;
            } else {
                expression.tests.push((parse_test(test, &mut words, newer)?, holds));
                (holds, negation) = (true, None);
            }
        }
        refuse_dangling(negation.as_deref())?;
        Ok(expression)
    }

    /// Takes a word that is not a test, with its value. False if it is a test.
    fn take_option(&mut self, word: &str, words: &mut Words<'_>) -> Result<bool> {
        match word {
            "-maxdepth" => self.depth_max = words.number(word)?,
            "-mindepth" => self.depth_min = words.number(word)?,
            "-print" | "-and" | "-a" => {}
            "-print0" => self.print0 = true,
            "-json" => self.json = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// True if all tests hold.
    pub(super) fn holds(&self, visit: &Visit) -> Result<bool> {
        if visit.depth < self.depth_min {
            return Ok(false);
        }
        let mut attr = None;
        for (test, wanted) in &self.tests {
            if test.holds(visit, &mut attr)? != *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Refuses a negation that no test follows.
fn refuse_dangling(negation: Option<&str>) -> Result<()> {
    let refused = |word| refused(format!("{word} needs a test after it, such as {word} -empty"));
    negation.map_or(Ok(()), |word| Err(refused(word)))
}

fn parse_test(
    test: &str,
    words: &mut Words<'_>,
    newer: &mut dyn FnMut(&Reference) -> Result<Time>,
) -> Result<Test> {
    Ok(match test {
        "-name" => Test::Name(words.value(test)?.as_bytes().to_vec(), glob::Case::Matters),
        "-iname" => Test::Name(words.value(test)?.as_bytes().to_vec(), glob::Case::Ignored),
        "-path" | "-wholename" => Test::Path(words.value(test)?.as_bytes().to_vec()),
        "-type" => Test::Kind(parse_kind(words.text(test)?)?),
        "-size" => {
            let (compared, unit) = words.compared(test)?;
            Test::Size(compared, unit_bytes(unit)?)
        }
        "-newer" => Test::Newer(newer(words.value(test)?)?),
        "-mtime" => Test::Age(words.compared(test)?.0, 24 * 3600),
        "-mmin" => Test::Age(words.compared(test)?.0, 60),
        "-perm" => parse_mode(words.text(test)?)?,
        "-uid" => Test::Uid(words.number(test)?),
        "-gid" => Test::Gid(words.number(test)?),
        "-empty" => Test::Empty,
        _ => {
            let known = "`esker fs find --help` lists all tests";
            return Err(refused(format!("{test:?} is not a test: {known}")));
        }
    })
}

fn parse_kind(text: &str) -> Result<Kind> {
    match text {
        "f" => Ok(Kind::File),
        "d" => Ok(Kind::Directory),
        "l" => Ok(Kind::Symlink),
        _ => Err(refused(format!("-type {text}: choose f, d or l"))),
    }
}

/// Bytes of a unit of `-size`, as in `find`.
fn unit_bytes(unit: &str) -> Result<u64> {
    match unit {
        "" | "b" => Ok(512),
        "c" => Ok(1),
        "w" => Ok(2),
        "k" => Ok(1 << 10),
        "M" => Ok(1 << 20),
        "G" => Ok(1 << 30),
        _ => Err(refused(format!("-size with unit {unit:?}: choose c, w, b, k, M or G"))),
    }
}

/// The value of `-perm`: `-MODE` for all of the bits, `/MODE` for any of them, or exactly `MODE`.
fn parse_mode(text: &str) -> Result<Test> {
    let (bits, digits) = match text.as_bytes().first() {
        Some(b'-') => (Bits::All, &text[1..]),
        Some(b'/') => (Bits::Any, &text[1..]),
        _ => (Bits::Exactly, text),
    };
    let wrong = |_| refused(format!("-perm {text}: the value is not an octal mode"));
    let mode = octal(digits).map_err(wrong)?;
    Ok(Test::Mode(bits, mode))
}

impl Test {
    /// True if the test holds. Reads the attributes only if it needs them.
    fn holds(&self, visit: &Visit, known: &mut Option<Attr>) -> Result<bool> {
        let node = &visit.node;
        let mut attr = || -> Result<Attr> {
            match known {
                Some(attr) => Ok(*attr),
                None => Ok(*known.insert(node.attr()?)),
            }
        };
        Ok(match self {
            Self::Name(pattern, case) => glob::matches(pattern, node.name(), *case),
            Self::Path(pattern) => glob::matches(pattern, &node.path(), glob::Case::Matters),
            Self::Kind(kind) => node.kind() == *kind,
            Self::Size(compared, unit) => compared.holds(attr()?.size.div_ceil(*unit)),
            Self::Newer(time) => attr()?.mtime > *time,
            Self::Age(compared, unit_s) => {
                let age_s = Time::now().seconds - attr()?.mtime.seconds;
                compared.holds(age_s.max(0).div_euclid(*unit_s) as u64)
            }
            Self::Mode(Bits::Exactly, mode) => node.inode().mode == *mode,
            Self::Mode(Bits::All, mode) => node.inode().mode & mode == *mode,
            Self::Mode(Bits::Any, mode) => *mode == 0 || node.inode().mode & mode != 0,
            Self::Uid(uid) => node.inode().uid == *uid,
            Self::Gid(gid) => node.inode().gid == *gid,
            Self::Empty => match node.kind() {
                Kind::File => attr()?.size == 0,
                Kind::Directory => node.is_empty()?,
                Kind::Symlink => false,
            },
        })
    }
}

#[cold]
fn refused(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Expression> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        Expression::parse(&words, &mut |_| Ok(Time { seconds: 7, nanos: 0 }))
    }

    #[test]
    fn expressions_are_read_with_one_dash_or_two() {
        let parsed = parse(&["-name", "*.c", "!", "--type", "d", "-maxdepth", "3"]).unwrap();
        assert_eq!((parsed.tests.len(), parsed.depth_max), (2, 3));
        assert!(parsed.tests[0].1 && !parsed.tests[1].1);
        let parsed = parse(&["-size", "+10k", "-newer", "x", "-perm", "-022"]).unwrap();
        assert!(matches!(&parsed.tests[0].0, Test::Size(Compared(Ordering::Greater, 10), 1024)));
        assert!(matches!(&parsed.tests[1].0, Test::Newer(Time { seconds: 7, .. })));
        assert!(matches!(&parsed.tests[2].0, Test::Mode(Bits::All, 0o22)));
    }

    #[test]
    fn invalid_expressions_are_refused() {
        for words in [
            &["-name"][..],
            &["-odd"],
            &["-size", "x"],
            &["-size", "1x"],
            &["-type", "s"],
            &["-perm", "9"],
            &["-perm", "+111"],
            &["-perm", "-+111"],
            &["-uid", "+5"],
            &["-maxdepth", "+1"],
            &["-maxdepth", "-1"],
            &["-not"],
            &["-empty", "!"],
            &["!", "-maxdepth", "1", "-empty"],
            &["-not", "-print"],
        ] {
            assert_eq!(parse(words).unwrap_err().kind(), ErrorKind::Invalid, "{words:?}");
        }
    }
}
