//! Runs the same sequence on two trees, compares every result, and shortens failing sequences.
use crate::sequence::{self, Sequence};
use std::fmt::Write;

/// Environment variable that sets how many sequences are tried.
const ROUNDS_VARIABLE: &str = "ESKER_REFERENCE_ROUNDS";

/// Operations of a sequence.
const LEN: usize = 150;

/// Something that performs sequences of operations, each in a directory of its own.
pub(crate) trait Tree {
    /// The result of each operation. Fewer results than operations mean that the run stopped early.
    fn replay(&self, sequence: &[String]) -> Vec<String>;
}

/// The number in [`ROUNDS_VARIABLE`], else `usual`.
pub(crate) fn rounds(usual: u64) -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(usual)
}

/// Runs random sequences on both.
///
/// # Panics
/// If the two differ. The message has the seed, and the shortest sequence that was found to differ.
pub(crate) fn agree(seed: u64, rounds: u64, reference: &dyn Tree, subject: &dyn Tree) {
    println!("{}={seed}", esker_testing::SEED_VARIABLE);
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        let sequence = sequence::random(seed, LEN);
        if let Some(report) = difference(&sequence, reference, subject) {
            panic!(
                "{}={seed} {ROUNDS_VARIABLE}=1 shows it again:\n{report}",
                esker_testing::SEED_VARIABLE
            );
        }
    }
}

/// The difference between the two, on a shortened sequence; `None` if they agree.
pub(crate) fn difference(
    sequence: &[String],
    reference: &dyn Tree,
    subject: &dyn Tree,
) -> Option<String> {
    let differ = |sequence: &[String]| reference.replay(sequence) != subject.replay(sequence);
    differ(sequence).then(|| {
        let short = shrink(sequence, &differ);
        side_by_side(&short, &reference.replay(&short), &subject.replay(&short))
    })
}

/// Leaves out operations, many at a time first, for as long as the sequence still fails.
pub(crate) fn shrink(sequence: &[String], fails: &dyn Fn(&[String]) -> bool) -> Sequence {
    let mut sequence = sequence.to_vec();
    let mut step = sequence.len() / 2;
    while step > 0 {
        let before = sequence.len();
        let mut at = 0;
        while at < sequence.len() {
            let mut shorter = sequence.clone();
            shorter.drain(at..(at + step).min(sequence.len()));
            if fails(&shorter) {
                sequence = shorter;
            } else {
                at += step;
            }
        }
        // One by one until nothing more can go; larger steps are not worth a second time.
        if step > 1 || sequence.len() == before {
            step /= 2;
        }
    }
    sequence
}

/// A report of the operations with their results in the reference and, where it differs, in the subject.
fn side_by_side(sequence: &[String], reference: &[String], subject: &[String]) -> String {
    let missing = "(stopped early)".to_owned();
    let mut report = String::new();
    for (at, operation) in sequence.iter().enumerate() {
        let left = reference.get(at).unwrap_or(&missing);
        let right = subject.get(at).unwrap_or(&missing);
        let _ = writeln!(report, "{operation}\n    reference: {}", readable(left));
        if left != right {
            let _ = writeln!(report, "    SUBJECT:   {}", readable(right));
        }
    }
    report
}

/// A result as people read it: errors by their text, trees a line for an entry.
fn readable(result: &str) -> String {
    let number = result.strip_prefix("errno ").and_then(|number| number.parse().ok());
    match number {
        Some(number) => format!("{result}, {}", std::io::Error::from_raw_os_error(number)),
        None => result.replace(" | ", "\n        "),
    }
}
