//! From values to places on the paper, and where axes are labelled.

/// Maps a range of values to a range of places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Scale {
    /// Equal steps of values are equal steps of places.
    #[must_use]
    pub fn linear((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        Self { from, to, start, end, log: false }
    }

    /// Equal ratios of values are equal steps of places. Values must be above 0.
    #[must_use]
    pub fn log((from, to): (f64, f64), (start, end): (f64, f64)) -> Self {
        let floor = |value: f64| value.max(f64::MIN_POSITIVE).ln();
        Self { from: floor(from), to: floor(to), start, end, log: true }
    }

    /// The place of a value; the middle where the range has no width.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let width = self.to - self.from;
        let share = if width == 0.0 { 0.5 } else { (value - self.from) / width };
        self.start + share * (self.end - self.start)
    }
}

/// Values from 0 to at least `max` in steps of 1, 2 or 5 times a power of ten, about `count` of them.
#[must_use]
pub fn nice_ticks(max: f64, count: usize) -> Vec<f64> {
    if !max.is_finite() || max <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = max / count.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|unit| unit * power);
    let step = step.clone().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
    let steps = (max / step * 0.9999).ceil().max(1.0) as usize;
    (0..=steps).map(|index| index as f64 * step).collect()
}

/// A number as it is written on an axis: three significant figures, no needless zeros, groups of
/// three digits apart.
#[must_use]
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    let places = (2.0 - magnitude).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.places$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    grouped(&text)
}

fn grouped(text: &str) -> String {
    let whole = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (index, character) in text.chars().enumerate() {
        let left = whole.saturating_sub(index);
        let is_gap = index > 0 && left > 0 && left % 3 == 0 && !grouped.ends_with('-');
        if is_gap {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}
