//! Findings of papers, and the bounds that decide whether measurements reproduce them.
use crate::plots::words::short;
use serde::{Deserialize, Serialize};

/// A statement of a paper, and whether the measurements confirm it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Finding {
    /// The statement.
    pub(crate) text: String,
    /// Value in the paper, with its unit and section.
    pub(crate) paper: String,
    /// The measured value in the same unit.
    pub(crate) here: String,
    /// Class of the style sheet: `reproduced`, `not-reproduced`, `not-measured`, or empty without a verdict.
    pub(crate) class: &'static str,
    /// The verdict in words.
    pub(crate) verdict: &'static str,
    /// The rule, and the measurements that it compares.
    pub(crate) evidence: Vec<String>,
    /// Id of the figure that shows it.
    pub(crate) figure: Option<String>,
}

/// Classes of findings, and their verdicts in words.
pub(crate) const VERDICTS: [(&str, &str); 3] = [
    ("reproduced", "reproduced here"),
    ("not-reproduced", "not reproduced here"),
    ("not-measured", "not measured"),
];

/// Limits of a value.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
}

/// Values with their names, or the reason why there are none.
pub(crate) type Evidence = Result<Vec<(String, f64)>, String>;

impl Finding {
    /// Judges a statement: it is reproduced if each value is within the bound. Without values or a bound, it counts as
    /// not measured.
    pub(crate) fn judged(text: &str, paper: &str, values: Evidence, bound: Option<Bound>) -> Self {
        let finding = Self { text: text.to_owned(), paper: paper.to_owned(), ..Self::default() };
        let none = "This run has no measurements for it.".to_owned();
        let measured = values.and_then(|values| match bound {
            Some(bound) if !values.is_empty() => Ok((values, bound)),
            _ => Err(none),
        });
        // Verdicts: 0 is reproduced, 1 not reproduced, 2 not measured.
        match measured {
            Ok((values, bound)) => {
                let holds = values.iter().all(|(_, value)| bound.holds(*value));
                let named = values.iter().map(|(name, value)| format!("{name} {}", short(*value)));
                Self {
                    here: named.collect::<Vec<_>>().join(", "),
                    evidence: vec![format!("Rule: {}.", bound.words())],
                    ..finding.with_verdict(usize::from(!holds))
                }
            }
            Err(why) => Self { evidence: vec![why], ..finding.with_verdict(2) },
        }
    }

    /// Sets the verdict: its position in [`VERDICTS`].
    fn with_verdict(self, number: usize) -> Self {
        let (class, verdict) = VERDICTS[number];
        Self { class, verdict, ..self }
    }

    /// Leaves only the statement and the paper's value. For quick runs, whose measurements mean nothing.
    pub(crate) fn remove_verdict(&mut self) {
        let Self { text, paper, figure, .. } = std::mem::take(self);
        *self = Self { text, paper, figure, ..Self::default() };
    }
}

impl Bound {
    /// True if the number is within the bound.
    fn holds(self, number: f64) -> bool {
        match self {
            Self::AtLeast(least) => number >= least,
            Self::AtMost(most) => number <= most,
            Self::Within(least, most) => (least..=most).contains(&number),
        }
    }

    /// The bound in words.
    fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Within(least, most) => format!("{least} to {most}"),
        }
    }
}

/// The least and the greatest of some numbers.
pub(crate) fn ends_of(numbers: &[f64]) -> Vec<(String, f64)> {
    let all = || numbers.iter().copied();
    let ends = [("least", all().reduce(f64::min)), ("greatest", all().reduce(f64::max))];
    ends.into_iter().filter_map(|(name, end)| Some((name.to_owned(), end?))).collect()
}
