//! Evenness of an ideal hash. Objects are balls; targets or nodes are bins in a ring.
//!
//! An ideal hash gives each object a first bin at random. From there on, the object puts a known weight into each of
//! the following bins. So the counts of all bins are a sum of shifted copies of one pattern, and their spectrum is
//! known: for the frequency `k`, the expected power is the number of objects times the power of the pattern. The sum of
//! squared distances from the mean is that of these powers over `bins`; each of its terms is distributed as
//! chi-squared.
use std::f64::consts::PI;

/// Weights that one object puts into its first bin and the bins that follow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// An array: chunks 1 to `chunks` in turn over `groups` bins.
    Array { groups: u32, chunks: u32 },
    /// A Key-Value: each of its keys in one of `groups` bins, by another ideal hash.
    Kv { groups: u32, keys: u32 },
}

/// Expected distribution of the counts of bins under an ideal hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdealHash {
    bins: u32,
    mean: f64,
    /// Expected sum over bins of the squared distance from the mean.
    squares: f64,
    /// Number of independent terms in that sum, estimated from its variance.
    freedom: f64,
    /// Skewness of the count of one bin.
    skew: f64,
}

/// Sums of squares below this are rounding errors of zero.
const NOTHING: f64 = 1e-6;

impl Load {
    fn groups(self) -> f64 {
        match self {
            Self::Array { groups, .. } | Self::Kv { groups, .. } => f64::from(groups),
        }
    }

    /// Total weight of one object over all bins.
    fn total(self) -> f64 {
        match self {
            Self::Array { chunks: total, .. } | Self::Kv { keys: total, .. } => f64::from(total),
        }
    }

    /// Power of the pattern at an angle.
    fn power(self, angle: f64) -> f64 {
        match self {
            Self::Array { groups, chunks } => {
                let (rounds, rest) = (f64::from(chunks / groups), f64::from(chunks % groups));
                let (groups, one) = (f64::from(groups), window(f64::from(groups), angle) * rounds);
                let other = window(rest, angle);
                let between = ((groups - 1.0) - (rest + 1.0)) / 2.0 * angle;
                one * one + other * other + 2.0 * one * other * between.cos()
            }
            Self::Kv { groups, keys } => {
                let (keys, groups) = (f64::from(keys), f64::from(groups));
                keys + keys * (keys - 1.0) * (window(groups, angle) / groups).powi(2)
            }
        }
    }
}

/// The sum of `width` unit vectors, each turned by `angle` from the one before, along its own direction.
fn window(width: f64, angle: f64) -> f64 {
    (width * angle / 2.0).sin() / (angle / 2.0).sin()
}

impl IdealHash {
    /// For `objects` objects over `bins` bins.
    pub(super) fn for_load(load: Load, objects: u64, bins: u32) -> Self {
        let (objects, count) = (objects as f64, f64::from(bins));
        let term = |k: u32| objects * load.power(2.0 * PI * f64::from(k) / count) / count;
        let (squares, fourths) = (1..bins)
            .map(term)
            .fold((0.0, 0.0), |(squares, fourths), one| (squares + one, fourths + one * one));
        let squares = if squares < NOTHING { 0.0 } else { squares };
        // Each object that reaches a bin puts about the same into it.
        let reached = load.groups().min(load.total()).min(count);
        let share = reached / count;
        let deviation = (objects * share * (1.0 - share)).sqrt();
        Self {
            bins,
            mean: objects * load.total() / count,
            squares,
            freedom: if squares > 0.0 { squares * squares / fourths } else { 0.0 },
            skew: if deviation > 0.0 { (1.0 - 2.0 * share) / deviation } else { 0.0 },
        }
    }

    /// Expected standard deviation of the counts.
    pub(super) fn stddev(self) -> f64 {
        (self.squares / f64::from(self.bins)).sqrt()
    }

    /// Distance of a sum of squared distances from its expected value, in standard deviations of a normal
    /// distribution (by Wilson and Hilferty); above 0 where counts are less even. None if all counts must be equal.
    pub(super) fn score(self, squares: f64) -> Option<f64> {
        if self.squares <= 0.0 {
            return None;
        }
        let width = 2.0 / (9.0 * self.freedom);
        Some(((squares / self.squares).cbrt() - (1.0 - width)) / width.sqrt())
    }

    /// Count of the fullest bin over the mean that is not exceeded with this probability.
    pub(super) fn fullest(self, probability: f64) -> f64 {
        let normal = upper(-probability.ln() / f64::from(self.bins));
        let skewed = normal + (normal * normal - 1.0) * self.skew / 6.0;
        1.0 + skewed.max(0.0) * self.stddev() / self.mean.max(f64::MIN_POSITIVE)
    }
}

/// The number that a normal variable exceeds with this probability.
fn upper(probability: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 40.0);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        let exceeded = libm::erfc(middle / std::f64::consts::SQRT_2) / 2.0;
        (low, high) = if exceeded > probability { (middle, high) } else { (low, middle) };
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-3, "{found}, expected {expected}");
    }

    #[test]
    fn objects_on_one_target_are_balls_in_bins() {
        for load in [Load::Array { groups: 1, chunks: 1 }, Load::Kv { groups: 1, keys: 1 }] {
            let ideal = IdealHash::for_load(load, 64_000, 64);
            near(ideal.stddev(), (1000.0 * 63.0 / 64.0_f64).sqrt());
            near(ideal.freedom, 63.0);
        }
        let keys = IdealHash::for_load(Load::Kv { groups: 64, keys: 64_000 }, 1, 64);
        near(keys.stddev(), (1000.0 * 63.0 / 64.0_f64).sqrt());
    }

    #[test]
    fn shards_of_an_object_count_as_often_as_they_reach_a_bin() {
        let share: f64 = 4.0 / 64.0;
        let ideal = IdealHash::for_load(Load::Array { groups: 4, chunks: 8 }, 64_000, 64);
        near(ideal.stddev(), 2.0 * (64_000.0 * share * (1.0 - share)).sqrt());
        let even = IdealHash::for_load(Load::Array { groups: 64, chunks: 128 }, 1000, 64);
        assert_eq!((even.stddev(), even.score(0.0), even.fullest(0.99)), (0.0, None, 1.0));
        let folded = IdealHash::for_load(Load::Array { groups: 8, chunks: 8 }, 1000, 4);
        assert_eq!(folded.stddev(), 0.0);
    }

    #[test]
    fn tails_are_those_of_the_normal_distribution() {
        assert!((upper(0.025) - 1.959_964).abs() < 1e-5);
        assert!((upper(1e-6) - 4.753_424).abs() < 1e-5);
        let ideal = IdealHash::for_load(Load::Array { groups: 1, chunks: 1 }, 1 << 20, 64);
        let score = ideal.score(ideal.squares).unwrap();
        assert!(score.abs() < 0.1, "{score}");
    }
}
