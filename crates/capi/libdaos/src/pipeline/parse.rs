//! Reads a pipeline of C, and refuses what DAOS's `daos_pipeline_check` refuses.
use super::expression::{Aggregate, Comparison, Condition, Operand, Span};
use super::value::{Arithmetic, Class, DataType};
use crate::abi::{Iov, Pipeline, PipelineFilter, PipelinePart, Ptr};
use crate::code::{Code, Result};

/// Filters of a pipeline, and parts of a filter.
const COUNT_MAX: u32 = 4096;
/// Constants of a part.
const CONSTANTS_MAX: usize = 1 << 16;
/// Functions inside each other.
const DEPTH_MAX: usize = 64;
/// Longest constant, akey or name.
const BYTES_MAX: u64 = 1 << 20;

/// A pipeline: records that meet all conditions are returned or aggregated.
pub(super) struct Parsed {
    pub(super) conditions: Vec<Condition>,
    pub(super) aggregates: Vec<(Aggregate, Operand)>,
}

/// The type of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartType {
    Compare(Comparison),
    Like,
    Exists(bool),
    Not,
    And,
    Or,
    Arithmetic(Arithmetic),
    Aggregate(Aggregate),
    Dkey,
    Akey,
    Constant,
}

impl PartType {
    /// The function with this name in DAOS.
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "FUNC_EQ" | "FUNC_IN" => Self::Compare(Comparison::Eq),
            "FUNC_NE" => Self::Compare(Comparison::Ne),
            "FUNC_LT" => Self::Compare(Comparison::Lt),
            "FUNC_LE" => Self::Compare(Comparison::Le),
            "FUNC_GE" => Self::Compare(Comparison::Ge),
            "FUNC_GT" => Self::Compare(Comparison::Gt),
            "FUNC_LIKE" => Self::Like,
            "FUNC_ISNULL" => Self::Exists(false),
            "FUNC_ISNOTNULL" => Self::Exists(true),
            "FUNC_NOT" => Self::Not,
            "FUNC_AND" => Self::And,
            "FUNC_OR" => Self::Or,
            "FUNC_ADD" => Self::Arithmetic(Arithmetic::Add),
            "FUNC_SUB" => Self::Arithmetic(Arithmetic::Sub),
            "FUNC_MUL" => Self::Arithmetic(Arithmetic::Mul),
            "FUNC_DIV" => Self::Arithmetic(Arithmetic::Div),
            "FUNC_BITAND" => Self::Arithmetic(Arithmetic::BitAnd),
            "FUNC_SUM" => Self::Aggregate(Aggregate::Sum),
            "FUNC_MIN" => Self::Aggregate(Aggregate::Min),
            "FUNC_MAX" => Self::Aggregate(Aggregate::Max),
            "FUNC_AVG" => Self::Aggregate(Aggregate::Average),
            "DKEY" => Self::Dkey,
            "AKEY" => Self::Akey,
            "CONST" => Self::Constant,
            _ => return None,
        })
    }

    /// True if a part of this type may have `operands` operands.
    fn takes(self, operands: u32) -> bool {
        match self {
            Self::And | Self::Or => operands >= 2,
            Self::Compare(_) | Self::Like | Self::Arithmetic(_) => operands == 2,
            Self::Exists(_) | Self::Not | Self::Aggregate(_) => operands == 1,
            Self::Dkey | Self::Akey | Self::Constant => operands == 0,
        }
    }

    /// Whether a part may be in an aggregation, if that is true, or else in a condition.
    fn is_for(self, aggregation: bool) -> bool {
        match self {
            Self::Arithmetic(_) | Self::Dkey | Self::Akey | Self::Constant => true,
            Self::Aggregate(_) => aggregation,
            _ => !aggregation,
        }
    }
}

/// One part, with the data of C copied.
struct Part {
    kind: PartType,
    data_type: Option<DataType>,
    operands: u32,
    akey: Vec<u8>,
    constants: Vec<Vec<u8>>,
    span: Span,
}

/// Reads and checks a pipeline.
pub(super) fn parse(pipeline: Ptr<Pipeline>) -> Result<Parsed> {
    let pipeline = pipeline.get()?;
    let conditions = filters(pipeline.filters, pipeline.num_filters, c"DAOS_FILTER_CONDITION")?;
    let aggregates =
        filters(pipeline.aggr_filters, pipeline.num_aggr_filters, c"DAOS_FILTER_AGGREGATION")?;
    let conditions = conditions.into_iter().map(|filter| Reader::new(filter, false)?.condition());
    let conditions = conditions.collect::<Result<_>>()?;
    let aggregates = aggregates.into_iter().map(|filter| Reader::new(filter, true)?.aggregate());
    let aggregates = aggregates.collect::<Result<_>>()?;
    match pipeline.version {
        1 => Ok(Parsed { conditions, aggregates }),
        _ => Err(Code::MISMATCH),
    }
}

/// Whether a name is `expected`; NULs may follow it.
pub(super) fn is_named(name: &Iov, expected: &std::ffi::CStr) -> Result<bool> {
    Ok(text(name)? == expected.to_bytes())
}

/// A name in a buffer of C, without the NULs after it.
fn text<'a>(name: &Iov) -> Result<&'a [u8]> {
    let text = name.buf.read_at_most(name.len as u64, BYTES_MAX, Code::INVAL)?;
    Ok(text.split(|byte| *byte == 0).next().unwrap_or_default())
}

/// Returns a name without `prefix`; None if it does not begin with that.
fn name_after<'a>(name: &Iov, prefix: &str) -> Result<Option<&'a str>> {
    let text = std::str::from_utf8(text(name)?).map_err(|_| Code::NOSYS)?;
    Ok(text.strip_prefix(prefix))
}

/// Copies the bytes of a buffer of C.
fn bytes(data: &Iov) -> Result<Vec<u8>> {
    data.buf.read_at_most(data.len as u64, BYTES_MAX, Code::INVAL).map(<[u8]>::to_vec)
}

/// The filters of a list, which must have this type.
fn filters(
    list: Ptr<Ptr<PipelineFilter>>,
    count: u32,
    expected: &std::ffi::CStr,
) -> Result<Vec<PipelineFilter>> {
    let mut filters = Vec::new();
    for at in pointers(list, count)? {
        let filter = at.get()?;
        if !is_named(&filter.filter_type, expected)? {
            return Err(Code::INVAL);
        }
        filters.push(filter);
    }
    Ok(filters)
}

/// Reads the `count` pointers in `list`, an array of the caller. Refuses a `count` above [`COUNT_MAX`].
fn pointers<T>(list: Ptr<Ptr<T>>, count: u32) -> Result<Vec<Ptr<T>>> {
    match count {
        0 => Ok(Vec::new()),
        1..=COUNT_MAX => list.list(count as usize),
        _ => Err(Code::INVAL),
    }
}

impl Part {
    /// Reads a part. The checks have the order of DAOS's checks, so that the errors are the same.
    fn read(part: &PipelinePart, aggregation: bool) -> Result<Self> {
        let kind = name_after(&part.part_type, "DAOS_FILTER_")?.and_then(PartType::by_name);
        let kind = kind.filter(|kind| kind.is_for(aggregation)).ok_or(Code::NOSYS)?;
        if !kind.takes(part.num_operands) {
            return Err(Code::INVAL);
        }
        let is_data = kind.takes(0);
        if is_data && part.data_type.len == 0 {
            return Err(Code::INVAL);
        }
        let named = match part.data_type.len {
            0 => None,
            _ => name_after(&part.data_type, "DAOS_FILTER_TYPE_")?.and_then(DataType::by_name),
        };
        let constants = if kind == PartType::Constant { constants(part)? } else { Vec::new() };
        if let Some(data_type) = named {
            check_constants(data_type, &constants)?;
        }
        if part.data_type.len > 0 && named.is_none() {
            return Err(Code::NOSYS);
        }
        let akey = if kind == PartType::Akey { bytes(&part.akey)? } else { Vec::new() };
        if kind == PartType::Akey && akey.is_empty() {
            return Err(Code::INVAL);
        }
        let span = Span { offset: part.data_offset, len: part.data_len };
        Ok(Self { kind, data_type: named, operands: part.num_operands, akey, constants, span })
    }
}

/// Reads the constants of a part. `INVAL` unless there are 1 to [`CONSTANTS_MAX`] of them.
fn constants(part: &PipelinePart) -> Result<Vec<Vec<u8>>> {
    match part.num_constants {
        1..=CONSTANTS_MAX => part.constant.list(part.num_constants)?.iter().map(bytes).collect(),
        _ => Err(Code::INVAL),
    }
}

/// Fails with `INVAL` unless each constant contains a complete value of its type.
fn check_constants(data_type: DataType, constants: &[Vec<u8>]) -> Result<()> {
    let is_whole = |constant: &Vec<u8>| match data_type {
        DataType::Terminated => constant.contains(&0),
        DataType::Sized => {
            let size = DataType::Unsigned(8).read(constant).map(|size| size.real());
            size.flatten().is_some_and(|size| size <= (constant.len() - 8) as f64)
        }
        _ => data_type.read(constant).is_some(),
    };
    if constants.iter().all(is_whole) { Ok(()) } else { Err(Code::INVAL) }
}

/// Reads the parts of a filter as an expression: each function is followed by its operands.
struct Reader {
    parts: std::vec::IntoIter<Part>,
    /// Number of functions around the next part.
    depth: usize,
}

impl Reader {
    /// Reads all parts of a filter. Each but the first must be an operand of another.
    fn new(filter: PipelineFilter, aggregation: bool) -> Result<Self> {
        let parts = pointers(filter.parts, filter.num_parts)?;
        let parts = parts.iter().map(|part| Part::read(&part.get()?, aggregation));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let operands = parts.iter().map(|part| u64::from(part.operands)).sum::<u64>();
        match operands + 1 == parts.len() as u64 {
            true => Ok(Self { parts: parts.into_iter(), depth: 0 }),
            false => Err(Code::INVAL),
        }
    }

    /// Returns the next part of the expression. `INVAL` at its end, and if it is deeper than [`DEPTH_MAX`].
    fn next(&mut self) -> Result<Part> {
        self.depth += 1;
        match self.depth <= DEPTH_MAX {
            true => self.parts.next().ok_or(Code::INVAL),
            false => Err(Code::INVAL),
        }
    }

    /// Parses a condition, a function and its operands.
    fn condition(&mut self) -> Result<Condition> {
        let part = self.next()?;
        let condition = match part.kind {
            PartType::Compare(comparison) => self.comparison(comparison)?,
            PartType::Like => self.like()?,
            PartType::Exists(is_wanted) => self.existence(is_wanted)?,
            PartType::Not => Condition::Not(Box::new(self.nested()?)),
            PartType::And => Condition::All(self.several(part.operands)?),
            PartType::Or => Condition::Any(self.several(part.operands)?),
            _ => return Err(Code::INVAL),
        };
        self.depth -= 1;
        Ok(condition)
    }

    /// Parses `count` conditions inside another.
    fn several(&mut self, count: u32) -> Result<Vec<Condition>> {
        (0..count).map(|_| self.nested()).collect()
    }

    /// Parses a condition inside another. As in DAOS, a test whether an akey exists cannot be nested.
    fn nested(&mut self) -> Result<Condition> {
        match self.parts.as_slice().first().map(|part| part.kind) {
            Some(PartType::Exists(_)) => Err(Code::INVAL),
            _ => self.condition(),
        }
    }

    /// Parses a comparison, whose operands must have the same class.
    fn comparison(&mut self, comparison: Comparison) -> Result<Condition> {
        let (left, class) = self.operand(&|_| true)?;
        let (rights, other) = self.alternatives()?;
        match class == other {
            true => Ok(Condition::Compare(comparison, left, rights)),
            false => Err(Code::INVAL),
        }
    }

    /// Parses the right side of a comparison: one operand, or all constants of a part that has several. Also returns
    /// their class.
    fn alternatives(&mut self) -> Result<(Vec<Operand>, Class)> {
        let constants = self.parts.as_slice().first().map_or(0, |part| part.constants.len());
        if constants < 2 {
            return self.operand(&|_| true).map(|(operand, class)| (vec![operand], class));
        }
        let part = self.next()?;
        self.depth -= 1;
        let data_type = part.data_type.ok_or(Code::INVAL)?;
        let operands = part.constants.into_iter();
        let operands = operands.map(|constant| Operand::Constant(data_type, constant)).collect();
        Ok((operands, data_type.class()))
    }

    /// Parses `LIKE`. A constant pattern is checked.
    fn like(&mut self) -> Result<Condition> {
        let (text, pattern) = (self.plain_text()?, self.plain_text()?);
        if let Operand::Constant(kind, data) = &pattern
            && let Some(super::value::Value::Text(pattern)) = kind.read(data)
        {
            super::value::is_like(b"", pattern)?;
        }
        Ok(Condition::Like(text, pattern))
    }

    /// Parses an operand that is a text and not the result of a function.
    fn plain_text(&mut self) -> Result<Operand> {
        match self.operand(&|class| class == Class::Text)? {
            (Operand::Function(..), _) => Err(Code::INVAL),
            (operand, _) => Ok(operand),
        }
    }

    /// Parses a test whether an akey exists, or with `is_wanted` false whether it is missing.
    fn existence(&mut self, is_wanted: bool) -> Result<Condition> {
        match self.operand(&|_| true)? {
            (operand @ Operand::Akey(..), _) if is_wanted => Ok(Condition::Exists(operand)),
            (operand @ Operand::Akey(..), _) => {
                Ok(Condition::Not(Box::new(Condition::Exists(operand))))
            }
            _ => Err(Code::INVAL),
        }
    }

    /// Parses an aggregate of an operand that is a number.
    fn aggregate(&mut self) -> Result<(Aggregate, Operand)> {
        match self.next()?.kind {
            PartType::Aggregate(aggregate) => {
                Ok((aggregate, self.operand(&|class| class != Class::Text)?.0))
            }
            _ => Err(Code::INVAL),
        }
    }

    /// Parses an operand, and returns it with its class. `INVAL` if the class is not allowed.
    fn operand(&mut self, is_allowed: &dyn Fn(Class) -> bool) -> Result<(Operand, Class)> {
        let mut part = self.next()?;
        let (operand, class) = match part.kind {
            PartType::Arithmetic(function) => self.function(function)?,
            PartType::Dkey | PartType::Akey | PartType::Constant => {
                let kind = part.data_type.ok_or(Code::INVAL)?;
                let operand = match part.kind {
                    PartType::Dkey => Operand::Dkey(kind, part.span),
                    PartType::Akey => Operand::Akey(kind, part.span, part.akey),
                    _ if part.constants.len() == 1 => {
                        Operand::Constant(kind, part.constants.swap_remove(0))
                    }
                    _ => return Err(Code::INVAL),
                };
                (operand, kind.class())
            }
            _ => return Err(Code::INVAL),
        };
        self.depth -= 1;
        if is_allowed(class) { Ok((operand, class)) } else { Err(Code::INVAL) }
    }

    /// Parses an arithmetic function, whose operands must have the same class.
    fn function(&mut self, function: Arithmetic) -> Result<(Operand, Class)> {
        let is_allowed = |class| match function {
            Arithmetic::BitAnd => matches!(class, Class::Unsigned | Class::Signed),
            _ => class != Class::Text,
        };
        let (left, class) = self.operand(&is_allowed)?;
        let (right, other) = self.operand(&is_allowed)?;
        match class == other {
            true => Ok((Operand::Function(function, Box::new([left, right])), class)),
            false => Err(Code::INVAL),
        }
    }
}
