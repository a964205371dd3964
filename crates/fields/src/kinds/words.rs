//! Suggestions for misspelt words.

/// Longest word that is compared.
const WORD_BYTES_MAX: usize = 64;

/// ` (did you mean step?)`, or nothing if no known word is near.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    // A longer word may differ in more letters.
    let far = 1 + word.len() / 4;
    let similar = known.filter(|known| known.len().abs_diff(word.len()) <= far);
    let near = similar.map(|known| (distance(word, known), known)).min();
    let near = near.filter(|(distance, _)| *distance <= far);
    near.map_or(String::new(), |(_, known)| format!(" (did you mean {known}?)"))
}

/// Edit distance: number of letters to change, add, remove or swap with their neighbour, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    if a.len().max(b.len()) > WORD_BYTES_MAX {
        return usize::MAX;
    }
    strsim::osa_distance(&a.to_ascii_lowercase(), &b.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_changed_added_removed_and_swapped() {
        for (a, b, far) in [("", "", 0), ("", "ab", 2), ("step", "step", 0), ("stpe", "step", 1)] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
        for (a, b, far) in [("date", "data", 1), ("dat", "date", 1), ("levellist", "levelist", 1)] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
        assert_eq!(distance(&"x".repeat(65), "x"), usize::MAX);
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["step", "date", "param"];
        assert_eq!(nearest("Stpe", known.into_iter()), " (did you mean step?)");
        assert_eq!(nearest("latitude", known.into_iter()), "");
    }
}
