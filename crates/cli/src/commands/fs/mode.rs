//! Mode bits as users write them: octal, or as for `chmod`.
use std::str::FromStr;

/// A mode, or changes to one (POSIX: `chmod`).
#[derive(Clone, Debug)]
pub(crate) struct ModeChange(Vec<Clause>);

/// One clause of a mode, such as `u+rw`: classes of users, operator, permissions.
#[derive(Clone, Debug)]
struct Clause {
    /// The bits that the clause affects; `None` for all but those of the umask.
    who: Option<u32>,
    how: char,
    what: What,
    /// The set-id bits that the clause names. It does not change the others of a directory.
    named: u32,
}

#[derive(Clone, Debug)]
enum What {
    /// Bits, and whether `X` was given.
    Bits(u32, bool),
    /// All bits, from an octal number.
    Whole(u32),
}

/// Parses an octal mode of at most 7777, such as 755.
pub(crate) fn octal(text: &str) -> Result<u32, String> {
    // `from_str_radix` accepts a plus too, but `chmod +111` and `find -perm +111` mean other modes than 111.
    let is_number = !text.starts_with('+');
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_number && *mode <= 0o7777);
    mode.ok_or_else(|| format!("{text:?} is not an octal mode: write it as 755"))
}

/// Set-user-ID and set-group-ID.
const SET_IDS: u32 = 0o6000;

/// Digits of the longest octal mode that does not name the set-id bits which it lacks (GNU chmod).
const SHORT_MODE: usize = 4;

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(mode) = octal(text) {
            let named = if text.len() > SHORT_MODE { SET_IDS } else { mode & SET_IDS };
            return Ok(Self(vec![Clause { who: None, how: '=', what: What::Whole(mode), named }]));
        }
        let refuse = || format!("{text:?} is not a mode: write it as 644, u+x, go-w or a=rX");
        let clauses = text.split(',').map(|clause| Clause::parse(clause).ok_or_else(refuse));
        clauses.collect::<Result<_, _>>().map(Self)
    }
}

impl Clause {
    /// Parses a clause such as `u+rwX`; `None` if it is not one.
    fn parse(text: &str) -> Option<Self> {
        let at = text.find(['+', '-', '='])?;
        let (who, rest) = text.split_at(at);
        let who = who.chars().try_fold(0, |bits, letter| Some(bits | class_bits(letter)?))?;
        let mut letters = rest.chars();
        let (how, mut bits, mut runs) = (letters.next()?, 0, false);
        for letter in letters {
            runs |= letter == 'X';
            bits |= permission_bits(letter)?;
        }
        let who = Some(who).filter(|who| *who != 0);
        let named = bits & who.unwrap_or(SET_IDS) & SET_IDS;
        Some(Self { who, how, what: What::Bits(bits, runs), named })
    }

    /// Applies the clause to a mode. Without letters before the sign, the umask limits it. A directory keeps set-id bits
    /// that the clause does not name. Both are as in `chmod`.
    fn apply(&self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        let (who, bits) = match (&self.what, self.who) {
            (What::Whole(bits), _) => (0o7777, *bits),
            (What::Bits(bits, runs), who) => {
                let runs = *runs && (is_directory || mode & 0o111 != 0);
                let bits = bits | if runs { 0o111 } else { 0 };
                (who.unwrap_or(0o7777), bits & who.unwrap_or(!umask))
            }
        };
        let kept = if is_directory { SET_IDS & !self.named } else { 0 };
        let (who, bits) = (who & !kept, bits & !kept);
        match self.how {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => mode & !who | bits,
        }
    }
}

/// Mode bits of a class of users.
fn class_bits(letter: char) -> Option<u32> {
    match letter {
        'u' => Some(0o4700),
        'g' => Some(0o2070),
        'o' => Some(0o1007),
        'a' => Some(0o7777),
        _ => None,
    }
}

/// Mode bits of a permission, for all classes.
fn permission_bits(letter: char) -> Option<u32> {
    match letter {
        'r' => Some(0o444),
        'w' => Some(0o222),
        'x' => Some(0o111),
        's' => Some(0o6000),
        't' => Some(0o1000),
        'X' => Some(0),
        _ => None,
    }
}

impl ModeChange {
    /// Returns the mode that results from applying all clauses to `mode`, one after the other.
    pub(super) fn apply(&self, mode: u32, is_directory: bool, umask: u32) -> u32 {
        self.0.iter().fold(mode, |mode, clause| clause.apply(mode, is_directory, umask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_as_chmod_changes_them() {
        let change =
            |text: &str, mode| text.parse::<ModeChange>().unwrap().apply(mode, false, 0o022);
        for (text, before, after) in [
            ("640", 0o777, 0o640),
            ("u+x", 0o644, 0o744),
            ("go-r", 0o644, 0o600),
            ("a=r", 0o777, 0o444),
            ("+w", 0o444, 0o644),
            ("u=rw,g=r,o=", 0o777, 0o640),
            ("+X", 0o644, 0o644),
            ("+X", 0o744, 0o755),
            ("u+s", 0o755, 0o4755),
            ("o+t", 0o755, 0o1755),
        ] {
            assert_eq!(change(text, before), after, "{text} of {before:o}");
        }
        let of_directory =
            |text: &str, mode| text.parse::<ModeChange>().unwrap().apply(mode, true, 0o022);
        for (text, before, after) in [
            ("755", 0o2775, 0o2755),
            ("0755", 0o6775, 0o6755),
            ("00755", 0o6775, 0o755),
            ("2755", 0o4775, 0o6755),
            ("g=rx", 0o2775, 0o2755),
            ("a=rx", 0o6777, 0o6555),
            ("=rx", 0o2777, 0o2555),
            ("g-s", 0o2775, 0o775),
            ("g+s", 0o775, 0o2775),
            ("ug=s", 0o2775, 0o6005),
            ("u=s", 0o2775, 0o6075),
        ] {
            assert_eq!(of_directory(text, before), after, "{text} of the directory {before:o}");
        }
        assert_eq!(change("755", 0o6775), 0o755);
        assert_eq!(change("g=rx", 0o2775), 0o755);
        assert_eq!("a+X".parse::<ModeChange>().unwrap().apply(0o600, true, 0), 0o711);
        for text in ["", "8", "u", "u+q", "z+r", "77777", "+111", "-111"] {
            assert!(text.parse::<ModeChange>().is_err(), "{text}");
        }
    }
}
