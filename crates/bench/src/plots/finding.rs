//! Findings of papers, and the bounds that decide whether measurements reproduce them.
use crate::plots::words::short;
use serde::{Deserialize, Serialize};

/// A statement of a paper, and whether the measurements confirm it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Finding {
    /// The statement.
    pub text: String,
    /// Value in the paper, with its unit and section.
    pub paper: String,
    /// The measured value in the same unit.
    pub here: String,
    /// Class of the style sheet: `reproduced`, `not-reproduced`, `not-measured`, or empty without a verdict.
    pub class: &'static str,
    /// The verdict in words.
    pub verdict: &'static str,
    /// The rule, and the measurements that it compares.
    pub evidence: Vec<String>,
    /// Id of the figure that shows it.
    pub figure: Option<String>,
}

/// Classes of findings, and their verdicts in words.
pub const VERDICTS: [(&str, &str); 3] = [
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
    /// Decides a statement: each of the values must be within the bound. It is not measured if a value is missing.
    pub(crate) fn judged(text: &str, paper: &str, values: Evidence, bound: Bound) -> Self {
        let finding = Self { text: text.to_owned(), paper: paper.to_owned(), ..Self::default() };
        match values {
            Ok(values) if !values.is_empty() => {
                let holds = values.iter().all(|(_, value)| bound.holds(*value));
                let named = values.iter().map(|(name, value)| format!("{name} {}", short(*value)));
                Self {
                    here: named.collect::<Vec<_>>().join(", ").trim().to_owned(),
                    evidence: vec![format!("Rule: {}.", bound.words())],
                    ..finding.with_verdict(usize::from(!holds))
                }
            }
            Ok(_) => finding.not_measured("This run has no measurements for it."),
            Err(why) => finding.not_measured(&why),
        }
    }

    /// The same without a value of its own, for this reason.
    pub(crate) fn not_measured(self, why: &str) -> Self {
        Self { here: String::new(), evidence: vec![why.to_owned()], ..self.with_verdict(2) }
    }

    /// True if its measurements are those of this system and others.
    pub(crate) fn compares_with(&self, system: &str) -> bool {
        self.evidence.iter().any(|text| text.contains(system))
    }

    fn with_verdict(self, number: usize) -> Self {
        let (class, verdict) = VERDICTS[number];
        Self { class, verdict, ..self }
    }

    /// The statement alone, for runs whose measurements mean nothing.
    pub(crate) fn without_verdict(&mut self) {
        let Self { text, paper, figure, .. } = std::mem::take(self);
        *self = Self { text, paper, figure, ..Self::default() };
    }
}

impl Bound {
    fn holds(self, number: f64) -> bool {
        match self {
            Self::AtLeast(least) => number >= least,
            Self::AtMost(most) => number <= most,
            Self::Within(least, most) => (least..=most).contains(&number),
        }
    }

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
