//! Audit of a PUT: its parts must cover the tensor without gaps, overlaps or indexes outside.
use crate::messages::Part;
use crate::slab::{Shown, Slab};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Most faults that a message names.
const NAMED_MAX: usize = 8;

/// A box: for each dimension the first index, and the index after the last one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Region {
    low: Vec<u64>,
    high: Vec<u64>,
}

/// Checks that `parts` cover a tensor of `shape` exactly once. Returns a text that names the faults; `None` if there
/// are none.
pub(crate) fn faults(shape: &[u64], parts: &[Part]) -> Option<String> {
    let whole = Region { low: vec![0; shape.len()], high: shape.to_vec() };
    let mut audit = Audit { faults: BTreeSet::new(), pairs: BTreeSet::new() };
    let (mut inside, mut regions) = (Vec::new(), Vec::new());
    for part in parts {
        match Region::from_part(part, shape) {
            Some(region) if !region.is_empty() => regions.push(region),
            // A part without elements covers nothing.
            Some(_) => {}
            None => audit.report_outside(part),
        }
    }
    inside.extend(0..regions.len());
    if !whole.is_empty() {
        audit.run(whole, inside, &regions);
    }
    audit.text()
}

impl Region {
    /// The box of a part; `None` if it does not fit in a tensor of `shape`.
    fn from_part(part: &Part, shape: &[u64]) -> Option<Self> {
        if part.offset.len() != shape.len() || part.shape.len() != shape.len() {
            return None;
        }
        let ends = part.offset.iter().zip(&part.shape).map(|(low, count)| low.checked_add(*count));
        let high: Vec<u64> = ends.collect::<Option<_>>()?;
        let fits = high.iter().zip(shape).all(|(high, length)| high <= length);
        fits.then(|| Self { low: part.offset.clone(), high })
    }

    fn is_empty(&self) -> bool {
        self.low.iter().zip(&self.high).any(|(low, high)| low >= high)
    }

    fn intersects(&self, other: &Self) -> bool {
        let dimensions = 0..self.low.len();
        dimensions.into_iter().all(|d| self.low[d] < other.high[d] && other.low[d] < self.high[d])
    }

    fn covers(&self, other: &Self) -> bool {
        let dimensions = 0..self.low.len();
        dimensions.into_iter().all(|d| self.low[d] <= other.low[d] && other.high[d] <= self.high[d])
    }

    /// The box in Python's notation, such as `[0:2, 0:3]`.
    fn shown(&self) -> String {
        let slabs = self.low.iter().zip(&self.high).map(|(low, high)| Slab::new(*low, high - low));
        Shown(&slabs.collect::<Vec<_>>()).to_string()
    }
}

/// The faults found so far.
struct Audit {
    /// Messages, sorted.
    faults: BTreeSet<String>,
    /// Overlapping parts that `faults` names: the numbers of their regions, the lower one first.
    pairs: BTreeSet<(usize, usize)>,
}

impl Audit {
    /// Divides the tensor at the faces of parts until each box contains no part, or is covered by one. `inside` has the
    /// numbers of the `regions` that intersect the box `whole`.
    fn run(&mut self, whole: Region, inside: Vec<usize>, regions: &[Region]) {
        let mut left = vec![(whole, inside)];
        while let Some((region, inside)) = left.pop() {
            if self.faults.len() > NAMED_MAX {
                break;
            }
            let covering = inside.iter().find(|part| regions[**part].covers(&region));
            match (&inside[..], covering) {
                ([], _) => drop(self.faults.insert(format!("{} is missing", region.shown()))),
                ([_], Some(_)) => {}
                (_, Some(covering)) => self.report_overlap(*covering, &inside, regions),
                (_, None) => left.extend(divided(&region, &inside, regions)),
            }
        }
    }

    /// Records that the part `covering` overlaps each other part of `inside`. A pair that overlaps in several boxes is
    /// recorded once.
    fn report_overlap(&mut self, covering: usize, inside: &[usize], regions: &[Region]) {
        for other in inside.iter().filter(|other| **other != covering).take(NAMED_MAX) {
            let pair = (covering.min(*other), covering.max(*other));
            if self.pairs.insert(pair) {
                let (one, two) = (regions[pair.0].shown(), regions[pair.1].shown());
                // Sorts the two, so that the message does not depend on the order of the parts.
                let (one, two) = if one <= two { (one, two) } else { (two, one) };
                self.faults.insert(format!("part {one} overlaps part {two}"));
            }
        }
    }

    /// Records a part that is not within the tensor.
    fn report_outside(&mut self, part: &Part) {
        let text = match part.offset.len() == part.shape.len() {
            true => {
                let slabs = part.offset.iter().zip(&part.shape);
                let slabs: Vec<_> = slabs.map(|(low, count)| Slab::new(*low, *count)).collect();
                Shown(&slabs).to_string()
            }
            false => format!("at {:?} of the shape {:?}", part.offset, part.shape),
        };
        self.faults.insert(format!("part {text} does not fit"));
    }

    /// All faults in one text, which names at most [`NAMED_MAX`] of them; `None` if there are none.
    fn text(self) -> Option<String> {
        let mut text = String::new();
        for fault in self.faults.iter().take(NAMED_MAX) {
            let comma = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{comma}{fault}");
        }
        if self.faults.len() > NAMED_MAX {
            text.push_str("; and more");
        }
        (!text.is_empty()).then_some(text)
    }
}

/// Divides `region` by a plane. Returns both sides with the numbers of the parts that intersect each; nothing if all
/// parts cover the region.
fn divided(region: &Region, inside: &[usize], regions: &[Region]) -> Vec<(Region, Vec<usize>)> {
    // If no face of a part is inside the region, each part covers all of it.
    let Some((dimension, at)) = plane(region, inside, regions) else { return Vec::new() };
    let (mut below, mut above) = (region.clone(), region.clone());
    below.high[dimension] = at;
    above.low[dimension] = at;
    let with_parts = |side: Region| {
        let parts =
            inside.iter().copied().filter(|part| regions[*part].intersects(&side)).collect();
        (side, parts)
    };
    vec![with_parts(below), with_parts(above)]
}

/// Number of parts, approximately, whose faces are considered for a plane: to consider all would take too long.
const SAMPLES: usize = 9;

/// The plane at a face of a part that cuts the fewest parts and divides the others best: its dimension and index.
/// `None` if no face is inside `region`.
fn plane(region: &Region, inside: &[usize], regions: &[Region]) -> Option<(usize, u64)> {
    let samples = inside.iter().step_by((inside.len() / SAMPLES).max(1));
    let samples = samples.chain([&inside[inside.len() / 2]]).take(2 * SAMPLES);
    let faces = samples.flat_map(|part| {
        let region = &regions[*part];
        (0..region.low.len()).flat_map(|d| [(d, region.low[d]), (d, region.high[d])])
    });
    let faces: BTreeSet<_> =
        faces.filter(|(d, at)| region.low[*d] < *at && *at < region.high[*d]).collect();
    let cost = |(dimension, at): &(usize, u64)| {
        let below = inside.iter().filter(|part| regions[**part].low[*dimension] < *at).count();
        let above = inside.iter().filter(|part| regions[**part].high[*dimension] > *at).count();
        // A part that the plane cuts is on both sides, and costs four times as much as another.
        (below + above).saturating_sub(inside.len()) * 4 + below.max(above)
    };
    faces.into_iter().min_by_key(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_testing::Random;

    fn part(offset: &[u64], shape: &[u64]) -> Part {
        Part { offset: offset.to_vec(), shape: shape.to_vec() }
    }

    #[test]
    fn faults_are_named() {
        let halves = [part(&[0, 0], &[2, 3]), part(&[2, 0], &[2, 3])];
        assert_eq!(faults(&[4, 3], &halves), None);
        let missing = faults(&[4, 3], &halves[..1]).unwrap();
        assert_eq!(missing, "[2:4, 0:3] is missing");
        let more = [halves[0].clone(), halves[1].clone(), part(&[1, 1], &[2, 1])];
        let overlap = faults(&[4, 3], &more).unwrap();
        assert_eq!(
            overlap,
            "part [0:2, 0:3] overlaps part [1:3, 1:2]; part [1:3, 1:2] overlaps part [2:4, 0:3]"
        );
        let outside = faults(&[2, 3], &[halves[0].clone(), part(&[1, 1], &[2, 1])]).unwrap();
        assert_eq!(outside, "part [1:3, 1:2] does not fit");
        assert!(faults(&[2], &[part(&[], &[])]).unwrap().contains("does not fit"));
    }

    #[test]
    fn parts_of_tensors_without_elements_or_dimensions_are_checked() {
        assert_eq!(faults(&[0, 3], &[]), None);
        assert_eq!(faults(&[], &[part(&[], &[])]), None);
        assert_eq!(faults(&[], &[]).unwrap(), "[] is missing");
        assert!(faults(&[], &[part(&[], &[]), part(&[], &[])]).unwrap().contains("overlaps"));
    }

    #[test]
    fn message_names_only_the_first_faults() {
        let holes: Vec<_> = (0..100).map(|at| part(&[2 * at], &[1])).collect();
        assert!(faults(&[200], &holes).unwrap().ends_with("; and more"));
    }

    #[test]
    fn large_grids_are_quick_to_check() {
        let index = |n: u64| [n / 1024 * 3, n / 32 % 32 * 5, n % 32 * 7];
        let mut parts: Vec<_> = (0..32 * 1024).map(|n| part(&index(n), &[3, 5, 7])).collect();
        assert_eq!(faults(&[96, 160, 224], &parts), None);
        parts.swap_remove(12345);
        let [x, y, z] = index(12345);
        let expected = format!("[{x}:{}, {y}:{}, {z}:{}] is missing", x + 3, y + 5, z + 7);
        assert_eq!(faults(&[96, 160, 224], &parts), Some(expected));
    }

    /// Compares the audit with a count of how often each element is written.
    #[test]
    fn audit_of_random_parts_agrees_with_counting() {
        let mut random = Random::new(esker_testing::seed(), 1);
        for _ in 0..2000 {
            let shape = [1 + random.below(5), 1 + random.below(4)];
            let parts: Vec<_> = (0..random.below(6))
                .map(|_| {
                    let offset = [random.below(shape[0]), random.below(shape[1])];
                    let count = [
                        1 + random.below(shape[0] - offset[0]),
                        1 + random.below(shape[1] - offset[1]),
                    ];
                    part(&offset, &count)
                })
                .collect();
            let times = |x: u64, y: u64| {
                let has = |part: &&Part| {
                    (0..2).all(|d| {
                        let at = [x, y][d];
                        part.offset[d] <= at && at < part.offset[d] + part.shape[d]
                    })
                };
                parts.iter().filter(has).count()
            };
            let all: Vec<usize> = (0..shape[0])
                .flat_map(|x| (0..shape[1]).map(move |y| (x, y)))
                .map(|(x, y)| times(x, y))
                .collect();
            let text = faults(&shape, &parts).unwrap_or_default();
            assert_eq!(text.contains("missing"), all.contains(&0), "{shape:?} {parts:?}: {text}");
            assert_eq!(
                text.contains("overlaps"),
                all.iter().any(|n| *n > 1),
                "{shape:?} {parts:?}: {text}"
            );
        }
    }
}
