//! Fuzzing of parsers that read untrusted bytes.
use crate::{Random, seed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Environment variable that multiplies the number of inputs of [`fuzz`].
const ROUNDS_VARIABLE: &str = "ESKER_FUZZ_ROUNDS";

/// Inputs in `make test`.
const INPUTS: u64 = 20_000;

/// Longest input, and most changes to one.
const LEN_MAX: usize = 4096;
const CHANGES_MAX: u64 = 8;

/// Numbers next to which sums and products overflow; inserted into inputs.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, u32::MAX as u64, i64::MAX as u64, u64::MAX, 1 << 60];

/// Feeds a parser with nearly valid inputs: those of `tests/corpus/<corpus>` and `more`, with random changes. The
/// parser may refuse them but must not panic.
///
/// # Panics
/// If the parser does. The message shows the input, which then belongs into the corpus.
pub fn fuzz(corpus: &str, more: &[Vec<u8>], parse: impl Fn(&[u8])) {
    let known = [read(corpus).as_slice(), more].concat();
    assert!(!known.is_empty(), "tests/corpus/{corpus} has no file");
    known.iter().for_each(|input| feed(corpus, input, &parse));
    let mut random = Random::new(seed(), 0xf0);
    for _ in 0..crate::rounds(INPUTS) * times() {
        feed(corpus, &changed(&known, &mut random), &parse);
    }
}

/// Calls the parser with an input. If it panics, the test fails with a message that shows the input.
fn feed(corpus: &str, input: &[u8], parse: &impl Fn(&[u8])) {
    let fed = catch_unwind(AssertUnwindSafe(|| parse(input)));
    assert!(fed.is_ok(), "an input for tests/corpus/{corpus}: \"{}\"", input.escape_ascii());
}

/// The files of a corpus, sorted by name.
fn read(corpus: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus")).join(corpus);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// The factor by which the environment multiplies the number of inputs.
fn times() -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(1)
}

/// One of the known inputs, with one or more random changes.
fn changed(known: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = pick(known, random).clone();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut input, known, random);
    }
    input.truncate(LEN_MAX);
    input
}

/// Changes `input` at a random position: flips a bit, sets a byte, removes, inserts or replaces bytes, or cuts the end
/// off.
fn change(input: &mut Vec<u8>, known: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() as u64 + 1) as usize;
    let len = random.below(17) as usize;
    let end = (at + len).min(input.len());
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.draw() as u8,
        2 => drop(input.drain(at..end)),
        3 => drop(input.splice(at..at, random.bytes(len))),
        4 => drop(input.splice(at..end, number(random))),
        5 => drop(input.splice(at..end, part(pick(known, random), random))),
        _ => input.truncate(at),
    }
}

/// A number from [`EDGES`] or one less, as bytes or as digits.
fn number(random: &mut Random) -> Vec<u8> {
    let edge = EDGES[random.below(EDGES.len() as u64) as usize].wrapping_sub(random.below(2));
    match random.below(3) {
        0 => edge.to_string().into_bytes(),
        1 => edge.to_le_bytes().to_vec(),
        _ => (edge as u32).to_le_bytes().to_vec(),
    }
}

/// A random part of a known input, at most 32 bytes long.
fn part(of: &[u8], random: &mut Random) -> Vec<u8> {
    let begin = random.below(of.len() as u64 + 1) as usize;
    let len = random.below(33) as usize;
    of[begin..(begin + len).min(of.len())].to_vec()
}

fn pick<'k>(known: &'k [Vec<u8>], random: &mut Random) -> &'k Vec<u8> {
    &known[random.below(known.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows that the search finds a panic.
    #[test]
    fn a_parser_that_panics_is_found() {
        let careless = |input: &[u8]| assert!(input.get(2) != Some(&0xff));
        let found = catch_unwind(|| fuzz("none", &[b"abcdef".to_vec()], careless));
        assert!(found.is_err());
        fuzz("none", &[b"abcdef".to_vec()], |_| {});
    }
}
