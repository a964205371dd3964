//! What somebody may have meant.

/// Longest word that is compared.
const WORD_BYTES_MAX: usize = 64;

/// ` (did you mean step?)`, or nothing where no known word is near.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let far = 1 + word.len() / 4;
    let similar = known.filter(|known| known.len().abs_diff(word.len()) <= far);
    let near = similar.map(|known| (distance(word, known), known)).min();
    let near = near.filter(|(distance, _)| *distance <= far);
    near.map_or(String::new(), |(_, known)| format!(" (did you mean {known}?)"))
}

/// How many letters must be changed, added, removed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().max(b.len()) > WORD_BYTES_MAX {
        return usize::MAX;
    }
    // The row of the letter before the last, of the last one, and of this one.
    let mut rows = [[0; WORD_BYTES_MAX + 1]; 3];
    rows[1] = std::array::from_fn(|j| j);
    for (i, x) in a.iter().enumerate() {
        rows[2][0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = rows[1][j] + usize::from(!x.eq_ignore_ascii_case(y));
            let mut best = changed.min(rows[1][j + 1] + 1).min(rows[2][j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(rows[0][j - 1] + 1);
            }
            rows[2][j + 1] = best;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
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
