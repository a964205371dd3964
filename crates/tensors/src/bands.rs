//! Division of a tensor into parts that follow each other in C order, as in files.
use crate::grid::Grid;
use esker_types::Result;

/// Bytes that are copied at a time, approximately.
const PIECE_BYTES: u64 = 32 << 20;

/// Calls `each` for parts that follow each other in C order: with the start of each in bytes, its first index and its
/// shape. Parts have about 32 MiB, and complete chunks if possible. The grid must have elements.
///
/// # Errors
/// The first error of `each`.
pub fn bands(grid: &Grid, mut each: impl FnMut(u64, &[u64], &[u64]) -> Result<()>) -> Result<()> {
    let (shape, item) = (grid.shape(), grid.item());
    let rest = |dimension: usize| shape[dimension + 1..].iter().product::<u64>() * item;
    let Some(last) = shape.len().checked_sub(1) else {
        // A tensor without dimensions has one element.
        return each(0, &[], &[]);
    };
    let split = (0..last).find(|dimension| rest(*dimension) <= PIECE_BYTES).unwrap_or(last);
    let (row, chunk) = (rest(split), grid.chunks()[split]);
    // Complete chunks if one fits in a piece, otherwise the rows that fit, but at least one.
    let rows = (PIECE_BYTES / row / chunk * chunk).max((PIECE_BYTES / row).min(chunk)).max(1);
    let (mut offset, mut part) = (vec![0; shape.len()], vec![1; shape.len()]);
    part[split + 1..].copy_from_slice(&shape[split + 1..]);
    let outer: u64 = shape[..split].iter().product();
    for number in 0..outer {
        let mut left = number;
        for dimension in (0..split).rev() {
            offset[dimension] = left % shape[dimension];
            left /= shape[dimension];
        }
        for first in (0..shape[split]).step_by(rows as usize) {
            offset[split] = first;
            part[split] = rows.min(shape[split] - first);
            each((number * shape[split] + first) * row, &offset, &part)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_bands(shape: &[u64], chunks: &[u64], item: u64) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
        let (grid, mut found) = (Grid::new(shape, Some(chunks), item).unwrap(), Vec::new());
        bands(&grid, |at, offset, part| {
            found.push((at, offset.to_vec(), part.to_vec()));
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn bands_follow_each_other() {
        assert_eq!(all_bands(&[], &[], 8), [(0, vec![], vec![])]);
        let rows = all_bands(&[100, 1 << 20], &[3, 1 << 20], 8);
        assert_eq!(rows[1], (24 << 20, vec![3, 0], vec![3, 1 << 20]));
        assert_eq!((rows.len(), &rows[33].2), (34, &vec![1, 1 << 20]));
        // A row does not fit.
        let long = all_bands(&[2, 10 << 20], &[2, 1 << 20], 8);
        assert_eq!(long[3], (80 << 20, vec![1, 0], vec![1, 4 << 20]));
        assert_eq!(long[5], (144 << 20, vec![1, 8 << 20], vec![1, 2 << 20]));
        // An element does not fit.
        let large = all_bands(&[2], &[1], 40 << 20);
        assert_eq!(large, [(0, vec![0], vec![1]), (40 << 20, vec![1], vec![1])]);
    }

    #[test]
    fn bands_contain_complete_chunks_if_these_fit() {
        let lengths = |row| all_bands(&[90, row], &[5, row], 1)[0].2[0];
        assert_eq!(lengths(1 << 20), 30);
        assert_eq!(lengths(10 << 20), 3);
    }
}
