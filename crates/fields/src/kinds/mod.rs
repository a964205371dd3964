//! The types that a schema gives to names: canonical form, valid values, order.
//!
//! The names are those of FDB's schema language, so that a centre's schema file works as it is.
mod calendar;
mod params;
mod rank;
mod span;
mod spelling;
pub(crate) mod ticks;
mod words;

pub(crate) use rank::Rank;
pub(crate) use span::Span;
pub(crate) use words::nearest;

use crate::date::Date;
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// The type of a name: its valid values, and the canonical form in which each is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyType {
    /// Any text, in lower case.
    #[default]
    Default,
    /// A whole number without leading zeros.
    Integer,
    /// A number; whole ones without a point.
    Double,
    /// A day, `20200131`.
    Date,
    /// A time of day, `0600`.
    Time,
    /// A forecast step or a range of them in hours, `24`, `0-24`, `1h30m`.
    Step,
    /// A parameter by its number, `167`.
    Param,
    /// Alias of [`KeyType::Param`].
    ParamId,
    /// A version of an experiment, filled up with zeros to four characters, `0001`.
    Expver,
    /// A day of any year, `0131`.
    ClimateDaily,
    /// A month of any year, `1` to `12`.
    ClimateMonthly,
    /// The month of a date, `1` to `12`.
    Month,
    /// The month of a date, `01` to `12`.
    MonthOfDate,
    /// The year of a date, `2020`.
    Year,
    /// Year and month of a date, `202001`.
    YearMonth,
    /// The first three characters of a text.
    First3,
    /// A grid, with `+` for `/`: `o1280`, `0.25+0.25`.
    Grid,
    /// Any text; it is not stored.
    Ignore,
}

/// Every type, with its name in a schema and examples of its values.
const TYPES: [(KeyType, &str, &str); 18] = [
    (KeyType::Default, "Default", "text without commas"),
    (KeyType::Integer, "Integer", "12, -3"),
    (KeyType::Double, "Double", "500, 0.5, -1e-7"),
    (KeyType::Date, "Date", "20200131, 2020-01-31"),
    (KeyType::Time, "Time", "0600, 6, 06:00"),
    (KeyType::Step, "Step", "24, 0-24, 30m, 1h30m, 2d"),
    (KeyType::Param, "Param", "167, 167.128, 2t"),
    (KeyType::ParamId, "ParamID", "167, 167.128, 2t"),
    (KeyType::Expver, "Expver", "1, 0001, hz9o"),
    (KeyType::ClimateDaily, "ClimateDaily", "0131, jan-31, 20200131"),
    (KeyType::ClimateMonthly, "ClimateMonthly", "1, jan, 20200131"),
    (KeyType::Month, "Month", "1, jan, 20200131"),
    (KeyType::MonthOfDate, "MonthOfDate", "01, jan, 20200131"),
    (KeyType::Year, "Year", "2020, 20200131"),
    (KeyType::YearMonth, "YearMonth", "202001, 2020-01, 20200131"),
    (KeyType::First3, "First3", "text without commas"),
    (KeyType::Grid, "Grid", "o1280, 0.25/0.25"),
    (KeyType::Ignore, "Ignore", "any text"),
];

impl KeyType {
    /// Every type.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().map(|(kind, _, _)| *kind)
    }

    /// The name of the type in a schema.
    #[must_use]
    pub fn name(self) -> &'static str {
        TYPES[self as usize].1
    }

    /// Values it takes, as examples for people.
    #[must_use]
    pub fn examples(self) -> &'static str {
        TYPES[self as usize].2
    }

    /// The type of this name, as a schema spells it.
    ///
    /// # Errors
    /// An error if no type has the name; the message lists the types and suggests the nearest.
    pub fn by_name(name: &str) -> Result<Self> {
        let found = TYPES.iter().find(|(_, known, _)| *known == name);
        found.map(|(kind, _, _)| *kind).ok_or_else(|| {
            let known: Vec<_> = TYPES.iter().map(|(_, known, _)| *known).collect();
            let hint = nearest(name, known.iter().copied());
            let list = known.join(", ");
            Error::new(
                ErrorKind::Invalid,
                format!("a schema has no type {name}{hint}; types are {list}"),
            )
        })
    }

    /// The canonical form of `value`, which is stored. It is its own canonical form.
    ///
    /// Relative days such as `0` and `-1` count from `today`; without it they are refused.
    ///
    /// # Errors
    /// If the value is invalid: the message names the value, the type and valid examples.
    pub fn canonical<'a>(self, value: &'a str, today: Option<Date>) -> Result<Cow<'a, str>> {
        self.form(value, today).ok_or_else(|| {
            let more = match self {
                Self::Date if today.is_some() => ", 0, -1".to_owned(),
                Self::Param | Self::ParamId => nearest(value, params::short_names()),
                _ => String::new(),
            };
            let message = format!("{value}: not a {self}, such as {}{more}", self.examples());
            Error::new(ErrorKind::Invalid, message)
        })
    }

    /// The canonical form, if the value is valid.
    pub(crate) fn form(self, value: &str, today: Option<Date>) -> Option<Cow<'_, str>> {
        match self {
            Self::Default => Some(spelling::lower(value)),
            Self::Integer => spelling::integer(value),
            Self::Double => spelling::double(value),
            Self::Date => calendar::date(value, today),
            Self::Time => span::time(value),
            Self::Step => span::step(value),
            Self::Param | Self::ParamId => params::param(value),
            Self::Expver => spelling::expver(value),
            Self::ClimateDaily => calendar::climate_daily(value),
            Self::ClimateMonthly | Self::Month => calendar::month(value),
            Self::MonthOfDate => calendar::month_of_date(value),
            Self::Year => calendar::year(value),
            Self::YearMonth => calendar::year_month(value),
            Self::First3 => Some(spelling::first3(value)),
            Self::Grid => Some(spelling::grid(value)),
            Self::Ignore => Some(Cow::Borrowed("")),
        }
    }

    /// Whether it keeps only a part of a date, so that dates with the same part become equal.
    pub(crate) fn is_part_of_a_date(self) -> bool {
        matches!(self, Self::Year | Self::Month | Self::MonthOfDate)
    }

    /// Whether the canonical form keeps all information of a value.
    pub(crate) fn keeps_all(self) -> bool {
        use KeyType::{ClimateDaily, ClimateMonthly, First3, Ignore, YearMonth};
        !self.is_part_of_a_date()
            && !matches!(self, ClimateDaily | ClimateMonthly | First3 | Ignore | YearMonth)
    }

    /// True for a type whose values may be ranges, such as steps `0-24`.
    pub(crate) fn has_ranges(self) -> bool {
        self == Self::Step
    }

    /// The range of steps from the start up to a canonical step, `0-24` for `24`. `None` for 0, for a range, and for
    /// values that are not steps.
    pub(crate) fn range_to(self, value: &str) -> Option<String> {
        if self.has_ranges() { span::range_to(value) } else { None }
    }

    /// The order of two canonical values on an axis: numbers by number, steps by step, dates by date; texts
    /// after numbers.
    #[must_use]
    pub fn compare(self, a: &str, b: &str) -> Ordering {
        Rank::new(self, a).cmp(&Rank::new(self, b))
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
