//! Memory with strides, and copies between two of them.
use esker_types::{Error, ErrorKind, Result};

/// An n-dimensional array in memory: bytes, the offset of the first element, and the distance of elements in each
/// dimension.
#[derive(Clone, Debug)]
pub struct Strided<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) first: i64,
    pub(crate) shape: Vec<u64>,
    pub(crate) strides: Vec<i64>,
    /// Bytes of an element.
    pub(crate) item: u64,
}

impl<'a> Strided<'a> {
    /// Elements of `item` bytes, contiguous in C order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the length of `bytes` does not match the shape.
    pub fn contiguous(bytes: &'a [u8], shape: &[u64], item: u64) -> Result<Self> {
        let wanted = shape.iter().try_fold(item, |bytes, count| bytes.checked_mul(*count));
        if wanted != Some(bytes.len() as u64) {
            let text = format!(
                "{} bytes are not the elements of {item} bytes of the shape {shape:?}",
                bytes.len()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let strides = row_major(shape, item);
        Ok(Self { bytes, first: 0, shape: shape.to_vec(), strides, item })
    }

    /// Elements of `item` bytes. The first is at byte `first`; `strides` are in bytes and may be negative.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if an element is outside `bytes`.
    pub fn new(
        bytes: &'a [u8],
        first: u64,
        shape: &[u64],
        strides: &[i64],
        item: u64,
    ) -> Result<Self> {
        let new = Self {
            bytes,
            first: first.cast_signed(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            item,
        };
        let (mut least, mut most) = (i128::from(first), i128::from(first) + i128::from(item));
        for (count, stride) in shape.iter().zip(strides) {
            let reach = i128::from(count.saturating_sub(1)) * i128::from(*stride);
            least += reach.min(0);
            most += reach.max(0);
        }
        let is_empty = item == 0 || shape.contains(&0);
        let fits = is_empty || (least >= 0 && most <= bytes.len() as i128);
        if fits && shape.len() == strides.len() {
            return Ok(new);
        }
        let text =
            format!("strides {strides:?} and shape {shape:?} lead out of {} bytes", bytes.len());
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

/// Strides in bytes of elements in C order.
pub(crate) fn row_major(shape: &[u64], item: u64) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut bytes = item.cast_signed();
    for (stride, count) in strides.iter_mut().zip(shape).rev() {
        *stride = bytes;
        bytes = bytes.wrapping_mul(count.cast_signed());
    }
    strides
}

/// A box of elements that is in two memories, called sides: the offset of its first element and the strides in each, in
/// bytes.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    /// Number of runs in each dimension.
    pub(crate) counts: Vec<u64>,
    pub(crate) first: [i64; 2],
    pub(crate) strides: [Vec<i64>; 2],
    /// Bytes of a run: elements that are contiguous on the merged sides.
    pub(crate) run: u64,
}

impl Sides {
    /// Merges inner dimensions to runs as long as their elements are contiguous: with `both` on both sides, otherwise
    /// on the first side.
    #[must_use]
    pub(crate) fn merged(&self, both: bool) -> Self {
        let mut merged = self.clone();
        while let Some(count) = merged.counts.last().copied() {
            let own = |side: usize| {
                merged.strides[side].last().copied() == Some(merged.run.cast_signed())
            };
            if count != 1 && !(own(0) && (!both || own(1))) {
                break;
            }
            merged.run *= count;
            merged.counts.pop();
            merged.strides.iter_mut().for_each(|strides| strides.truncate(merged.counts.len()));
        }
        merged
    }

    /// Number of contiguous runs that a copy consists of.
    pub(crate) fn runs(&self) -> u64 {
        self.counts.iter().product()
    }

    /// The offsets of all runs on both sides, in C order.
    pub(crate) fn offsets(&self) -> Offsets<'_> {
        Offsets {
            sides: self,
            at: vec![0; self.counts.len()],
            offset: self.first,
            left: self.runs(),
        }
    }

    /// Copies all elements from the second side to the first.
    pub(crate) fn gather(&self, to: &mut [u8], from: &[u8]) {
        let merged = self.merged(true);
        merged.copy(to, from, 0, 1);
    }

    /// Copies all elements from the first side to the second.
    pub(crate) fn scatter(&self, from: &[u8], to: &mut [u8]) {
        let merged = self.merged(true);
        merged.copy(to, from, 1, 0);
    }

    /// Copies from the side `other` to the side `side`, one row after the other. Each usual element size has
    /// a loop with a constant, so that the compiler needs no call for each element.
    fn copy(mut self, to: &mut [u8], from: &[u8], side: usize, other: usize) {
        let count = self.counts.pop().unwrap_or(1);
        let mut step = |side: usize| self.strides[side].pop().unwrap_or(0);
        let row = Row { count, steps: [step(side), step(other)], run: self.run as usize };
        for offset in self.offsets() {
            let at = [offset[side], offset[other]];
            match row.run {
                1 => row.copy::<1>(to, from, at),
                2 => row.copy::<2>(to, from, at),
                4 => row.copy::<4>(to, from, at),
                8 => row.copy::<8>(to, from, at),
                16 => row.copy::<16>(to, from, at),
                _ => row.copy_long(to, from, at),
            }
        }
    }
}

/// The runs of the last dimension, at equal distances. `steps` are the distances in the target and in the source in
/// bytes, `run` is the length of a run.
struct Row {
    count: u64,
    steps: [i64; 2],
    run: usize,
}

impl Row {
    /// Copies a row of runs of `N` bytes. The last argument has the offset of the first run in `to`, and in `from`.
    fn copy<const N: usize>(&self, to: &mut [u8], from: &[u8], [mut own, mut other]: [i64; 2]) {
        for _ in 0..self.count {
            let (own_at, other_at) = (own as usize, other as usize);
            to[own_at..own_at + N].copy_from_slice(&from[other_at..other_at + N]);
            own += self.steps[0];
            other += self.steps[1];
        }
    }

    /// Copies a row of runs of any length, for which there is no [`Self::copy`].
    fn copy_long(&self, to: &mut [u8], from: &[u8], [mut own, mut other]: [i64; 2]) {
        for _ in 0..self.count {
            let (own_at, other_at) = (own as usize, other as usize);
            to[own_at..own_at + self.run].copy_from_slice(&from[other_at..other_at + self.run]);
            own += self.steps[0];
            other += self.steps[1];
        }
    }
}

/// Iterator over the offsets of runs on both sides, in bytes.
pub(crate) struct Offsets<'a> {
    sides: &'a Sides,
    at: Vec<u64>,
    offset: [i64; 2],
    left: u64,
}

impl Iterator for Offsets<'_> {
    type Item = [i64; 2];

    fn next(&mut self) -> Option<[i64; 2]> {
        self.left = self.left.checked_sub(1)?;
        let now = self.offset;
        for dimension in (0..self.at.len()).rev() {
            let (at, count) = (&mut self.at[dimension], self.sides.counts[dimension]);
            *at += 1;
            let ended = *at == count;
            // After the last index of a dimension: back to its first, and one further in the dimension before it.
            let moved = if ended { 1 - count.cast_signed() } else { 1 };
            if ended {
                *at = 0;
            }
            for side in 0..2 {
                self.offset[side] += moved * self.sides.strides[side][dimension];
            }
            if !ended {
                break;
            }
        }
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_twice_restores_the_elements() {
        let from: Vec<u8> = (0..24).collect();
        let mut to = vec![0; 24];
        // Transposes 2 x 3 x 4 elements of one byte to 4 x 3 x 2.
        let sides = Sides {
            counts: vec![2, 3, 4],
            first: [0, 0],
            strides: [vec![1, 2, 6], row_major(&[2, 3, 4], 1)],
            run: 1,
        };
        sides.gather(&mut to, &from);
        assert_eq!(to[..8], [0, 12, 4, 16, 8, 20, 1, 13]);
        let mut back = vec![0; 24];
        sides.scatter(&to, &mut back);
        assert_eq!(back, from);
    }

    #[test]
    fn neighbours_are_joined() {
        let strides = row_major(&[5, 4, 3], 8);
        let whole = Sides {
            counts: vec![5, 4, 3],
            first: [0, 0],
            strides: [strides.clone(), strides.clone()],
            run: 8,
        };
        assert_eq!((whole.merged(true).runs(), whole.merged(true).run), (1, 480));
        let part = Sides { counts: vec![5, 2, 3], ..whole };
        assert_eq!((part.merged(true).runs(), part.merged(true).run), (5, 48));
    }

    #[test]
    fn elements_outside_are_refused() {
        let bytes = [0; 16];
        assert!(Strided::new(&bytes, 8, &[2], &[-8], 8).is_ok());
        assert!(Strided::new(&bytes, 0, &[2], &[-8], 8).is_err());
        assert!(Strided::new(&bytes, 8, &[2], &[8], 8).is_err());
        assert!(Strided::new(&bytes, 99, &[0], &[8], 8).is_ok());
        assert!(Strided::contiguous(&bytes, &[3], 8).is_err());
        assert!(Strided::contiguous(&bytes, &[u64::MAX, 3], 8).is_err());
    }
}
