//! Expressions of filters, and their evaluation for a record.
use super::value::{Arithmetic, DataType, Value, is_like};
use crate::code::Result;
use std::cmp::Ordering;

/// A record: a dkey, and the data of its akeys as far as it was fetched.
pub(super) struct Record<'a> {
    pub(super) dkey: &'a [u8],
    pub(super) akeys: Vec<AkeyData<'a>>,
}

/// The data of an akey.
pub(super) struct AkeyData<'a> {
    pub(super) name: &'a [u8],
    /// Bytes of a record of an array; 0 for a single value.
    pub(super) record_size: u64,
    /// First record and number of records of each range of an array.
    pub(super) ranges: &'a [(u64, u64)],
    /// Empty if the akey does not exist.
    pub(super) data: &'a [u8],
}

/// The bytes that a part of a filter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// A byte, or a record of an array.
    pub(super) offset: usize,
    /// Bytes, or records of an array; 0 for all.
    pub(super) len: usize,
}

/// Operand of a comparison or aggregation: an expression that yields a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Dkey(DataType, Span),
    Akey(DataType, Span, Vec<u8>),
    Constant(DataType, Vec<u8>),
    Function(Arithmetic, Box<[Operand; 2]>),
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Ge,
    Gt,
}

/// Condition of a filter, which is true or false for each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// True if the comparison holds between the operand and at least one of the others.
    Compare(Comparison, Operand, Vec<Operand>),
    Like(Operand, Operand),
    Exists(Operand),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// A function of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Min,
    Max,
    Average,
}

impl Comparison {
    /// True if values of this order fulfil the comparison. `None` means that they are unordered.
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Eq => order == Some(Ordering::Equal),
            Self::Ne => order != Some(Ordering::Equal),
            Self::Lt => order == Some(Ordering::Less),
            Self::Gt => order == Some(Ordering::Greater),
            Self::Le => order.is_some_and(Ordering::is_le),
            Self::Ge => order.is_some_and(Ordering::is_ge),
        }
    }
}

impl Span {
    /// The bytes of `data` that this span names; `None` if they begin behind its end.
    fn bytes(self, data: &[u8]) -> Option<&[u8]> {
        let rest = data.get(self.offset..)?;
        let len = if self.len == 0 { rest.len() } else { self.len.min(rest.len()) };
        Some(&rest[..len])
    }

    /// The bytes of the records that this span names, as far as one range has them. `None` if no range has the first.
    fn records<'a>(self, akey: &AkeyData<'a>) -> Option<&'a [u8]> {
        let size = usize::try_from(akey.record_size).ok()?;
        let (wanted, mut start) = (self.offset as u64, 0usize);
        for (first, count) in akey.ranges {
            let skipped = wanted.checked_sub(*first).filter(|skipped| skipped < count);
            if let Some(skipped) = skipped {
                let from = start.checked_add((skipped as usize).checked_mul(size)?)?;
                let end = start.checked_add((*count as usize).checked_mul(size)?)?;
                let range = akey.data.get(from..end.min(akey.data.len()))?;
                return Self { offset: 0, len: self.len.checked_mul(size)? }.bytes(range);
            }
            start = start.checked_add((*count as usize).checked_mul(size)?)?;
        }
        None
    }
}

impl Operand {
    /// The value for a record; `None` if it has none.
    pub(super) fn value<'a>(&'a self, record: &Record<'a>) -> Result<Option<Value<'a>>> {
        match self {
            Self::Dkey(kind, span) => Ok(span.bytes(record.dkey).and_then(|data| kind.read(data))),
            Self::Akey(kind, span, name) => {
                Ok(data_of(record, name, *span).and_then(|data| kind.read(data)))
            }
            Self::Constant(kind, data) => Ok(kind.read(data)),
            Self::Function(function, operands) => {
                let [left, right] = &**operands;
                match (left.value(record)?, right.value(record)?) {
                    (Some(left), Some(right)) => function.apply(left, right).map(Some),
                    _ => Ok(None),
                }
            }
        }
    }

    /// True if the record has the bytes of the akey that this operand reads. Operands that read no akey always exist.
    fn exists(&self, record: &Record<'_>) -> bool {
        match self {
            Self::Akey(_, span, name) => data_of(record, name, *span).is_some(),
            _ => true,
        }
    }
}

/// The data of an akey; `None` if it does not exist or was not fetched.
fn data_of<'a>(record: &Record<'a>, name: &[u8], span: Span) -> Option<&'a [u8]> {
    let akey = record.akeys.iter().find(|akey| akey.name == name)?;
    match akey.data.is_empty() {
        true => None,
        false if akey.ranges.is_empty() => span.bytes(akey.data),
        false => span.records(akey),
    }
}

impl Condition {
    /// Whether a record meets the condition. A comparison with an operand without a value is false.
    pub(super) fn holds(&self, record: &Record<'_>) -> Result<bool> {
        match self {
            Self::Compare(comparison, left, rights) => {
                let Some(left) = left.value(record)? else { return Ok(false) };
                any(rights, |right| {
                    let right = right.value(record)?;
                    Ok(right.is_some_and(|right| comparison.holds(left.order(right))))
                })
            }
            Self::Like(text, pattern) => match (text.value(record)?, pattern.value(record)?) {
                (Some(Value::Text(text)), Some(Value::Text(pattern))) => is_like(text, pattern),
                _ => Ok(false),
            },
            Self::Exists(operand) => Ok(operand.exists(record)),
            Self::Not(condition) => Ok(!condition.holds(record)?),
            Self::All(conditions) => {
                Ok(!any(conditions, |condition| Ok(!condition.holds(record)?))?)
            }
            Self::Any(conditions) => any(conditions, |condition| condition.holds(record)),
        }
    }
}

/// True if one of the items meets the condition.
fn any<T>(items: &[T], is_so: impl Fn(&T) -> Result<bool>) -> Result<bool> {
    for item in items {
        if is_so(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Aggregate {
    /// Returns the value from which the aggregation starts, before the first record.
    pub(super) fn start(self) -> f64 {
        match self {
            Self::Sum | Self::Average => 0.0,
            Self::Min => f64::INFINITY,
            Self::Max => f64::NEG_INFINITY,
        }
    }

    /// Adds a value to the result of the aggregate so far.
    pub(super) fn add(self, result: f64, value: f64) -> f64 {
        match self {
            Self::Sum | Self::Average => result + value,
            Self::Min => {
                if value < result {
                    value
                } else {
                    result
                }
            }
            Self::Max => {
                if value > result {
                    value
                } else {
                    result
                }
            }
        }
    }

    /// Returns the final result after `count` records: for an average, the sum divided by `count`; otherwise `result`
    /// itself.
    pub(super) fn end(self, result: f64, count: u64) -> f64 {
        match self {
            Self::Average if count > 0 => result / count as f64,
            _ => result,
        }
    }
}
