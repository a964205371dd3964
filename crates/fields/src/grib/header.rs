//! The header of a message: the octets that identify its field, without the quantities in which fields of one kind
//! differ, and without the octets that depend on the data alone.
//!
//! Some octets hold a plain quantity, such as the step. [`slots`] lists their positions and the values for which the
//! quantity is plain. All other octets of the sections before the data stay
//! in the header as they are. Sources: WMO Manual on Codes, FM 92 GRIB, sections 1 and 2 of edition 1, sections
//! 0, 1 and 4 of edition 2 with templates 4.0, 4.1, 4.8 and 4.11; ECMWF's local section 1 of edition 1.
use super::frame::{INDICATOR_1, Sections, sections};
use super::octets::number;
use crate::limits::GRIB_HEADER_BYTES_MAX;
use smallvec::SmallVec;
use std::fmt::Write;
use std::ops::Range;

/// A quantity that differs between the fields of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Date,
    Time,
    Step,
    Level,
    Number,
}

/// Encodings of a quantity in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Year of the century, month, day; the century is in the twelfth octet after them.
    ShortDate,
    /// Year in two octets, month, day.
    LongDate,
    /// Hour, minute.
    Clock,
    /// A number in `octets` octets that counts units.
    Count { octets: usize, unit: u64 },
}

impl Form {
    /// The number of octets that a value of this form takes.
    fn octets(self) -> usize {
        match self {
            Self::ShortDate => 3,
            Self::LongDate => 4,
            Self::Clock => 2,
            Self::Count { octets, .. } => octets,
        }
    }
}

/// The position of a quantity in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) quantity: Quantity,
    /// Encoding of the value.
    form: Form,
    /// Offset of its first octet in the message.
    at: usize,
}

/// The slots of a message.
pub(super) type Slots = SmallVec<[Slot; 5]>;

/// Years that have four digits, in which ecCodes spells a date.
const YEARS: Range<u64> = 1000..10_000;

/// Production statuses to which ECMWF's rules for other archives do not apply: operational, test, research and
/// re-analysis products (code table 1.3).
const PLAIN_STATUS: Range<u64> = 0..4;

/// Hours, as unit of a step (code table 4.4; in edition 1 table 4).
const HOURS: u64 = 1;

/// Largest plain number: ecCodes rounds larger ones when it formats them.
const PLAIN_MAX: u64 = 99_999;

/// Centre ECMWF, whose parameters do not depend on pressure or model levels.
const ECMWF: u64 = 98;

impl Slot {
    /// The quantity in the message if it is plain; otherwise nothing, and the octets stay in the header.
    ///
    /// Zero is never plain: it may mean an analysis, a control forecast or a surface.
    pub(super) fn read(&self, message: &[u8]) -> Option<u64> {
        let octets = |offset, len| number(message, self.at + offset, len);
        match self.form {
            Form::ShortDate => {
                // The year of the century, 1 to 100; the century follows twelve octets later.
                let year = octets(12, 1)?.checked_sub(1)? * 100
                    + octets(0, 1).filter(|year| *year <= 100)?;
                date(year, octets(1, 1)?, octets(2, 1)?)
            }
            Form::LongDate => date(octets(0, 2)?, octets(2, 1)?, octets(3, 1)?),
            Form::Clock => {
                let (hour, minute) = (octets(0, 1)?, octets(1, 1)?);
                (hour < 24 && minute < 60).then_some(hour * 100 + minute)
            }
            Form::Count { octets: len, unit } => {
                let count = octets(0, len).filter(|count| count % unit == 0)?;
                // All bits set means missing; in four octets the highest bit is the sign.
                let end = if len == 4 { 1 << 31 } else { (1 << (8 * len)) - 1 };
                (1..end)
                    .contains(&count)
                    .then_some(count / unit)
                    .filter(|value| *value <= PLAIN_MAX)
            }
        }
    }

    /// Overwrites the quantity in the octets of `message` with `value`, which must be plain and fit in the octets.
    pub(super) fn write(&self, message: &mut [u8], value: u64) {
        let [high, low] = [value / 100, value % 100];
        let octets: u64 = match self.form {
            Form::ShortDate => (high / 100 % 100) << 16 | (high % 100) << 8 | low,
            Form::LongDate => (high / 100) << 16 | (high % 100) << 8 | low,
            Form::Clock => high << 8 | low,
            Form::Count { unit, .. } => value * unit,
        };
        for (octet, shift) in
            message.iter_mut().take(self.octets().end).rev().zip(0..self.form.octets())
        {
            *octet = (octets >> (8 * shift)) as u8;
        }
    }

    /// The octets of the value in the message.
    fn octets(&self) -> Range<usize> {
        self.at..self.at + self.form.octets()
    }

    /// The value as ecCodes spells it.
    pub(super) fn spell(&self, value: u64, text: &mut String) {
        // Writing to a string does not fail.
        let _ = match self.quantity {
            Quantity::Time => write!(text, "{value:04}"),
            _ => write!(text, "{value}"),
        };
    }
}

/// The date as a number of eight digits, if it may exist.
fn date(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_day = YEARS.contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    is_day.then_some(year * 10_000 + month * 100 + day)
}

/// The octets of a message that identify its field.
pub(super) struct Header<'a> {
    message: &'a [u8],
    /// Its end: before the bitmap and the data.
    end: usize,
    slots: Slots,
}

impl<'a> Header<'a> {
    /// The header of `message`; none if it is damaged, too long to keep, or of several fields.
    pub(super) fn parse(message: &'a [u8]) -> Option<Self> {
        let sections = sections(message)?;
        let before_data = if is_first_edition(message) { 2 } else { 4 };
        let in_order = sections.windows(2).all(|pair| pair[0].number < pair[1].number);
        let end =
            sections.iter().take_while(|section| section.number <= before_data).last()?.octets.end;
        if !in_order || end > GRIB_HEADER_BYTES_MAX {
            return None;
        }
        let mut slots = slots(message, &sections);
        slots.retain(|slot| slot.octets().end <= end && slot.read(message).is_some());
        Some(Self { message, end, slots })
    }

    /// The complete message.
    pub(super) fn message(&self) -> &'a [u8] {
        self.message
    }

    /// The plain quantities of the message.
    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Writes the header with zeros for its plain quantities, followed by a list of these. Messages with the same
    /// output differ only in these quantities and the data.
    pub(super) fn write_kind(&self, into: &mut Vec<u8>) {
        self.write_exact(into);
        let mut quantities = 0;
        for slot in &self.slots {
            quantities |= 1 << slot.quantity as u8;
            if let Some(octets) = into.get_mut(slot.octets()) {
                octets.fill(0);
            }
        }
        // The last octet is the one that `write_exact` appends: one bit for each quantity.
        if let Some(last) = into.last_mut() {
            *last = quantities;
        }
    }

    /// Writes the complete header without the octets that depend on the data: the length of the message, and the scale
    /// of the values.
    pub(super) fn write_exact(&self, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(self.message.get(..self.end).unwrap_or_default());
        let of_data = if is_first_edition(self.message) { OF_DATA_1 } else { OF_DATA_2 };
        for octets in of_data {
            if let Some(octets) = into.get_mut(octets) {
                octets.fill(0);
            }
        }
        into.push(0);
    }
}

/// True if the octet of the edition is 1.
fn is_first_edition(message: &[u8]) -> bool {
    message.get(7) == Some(&1)
}

/// The length of the message, and in edition 1 the decimal scale.
const OF_DATA_1: [Range<usize>; 2] = [4..7, INDICATOR_1 + 26..INDICATOR_1 + 28];
/// The length of the message.
const OF_DATA_2: [Range<usize>; 2] = [8..16, 0..0];

/// Possible positions of plain quantities in a message of either edition.
fn slots(message: &[u8], sections: &Sections) -> Slots {
    let section = |number| {
        let found = sections.iter().find(|section| section.number == number);
        found.map(|section| Octets { message, start: section.octets.start })
    };
    let slots = match (section(1), section(4)) {
        (Some(first), _) if is_first_edition(message) => slots_1(&first),
        (Some(first), Some(product)) => slots_2(&first, section(2).as_ref(), &product),
        _ => None,
    };
    slots.unwrap_or_default()
}

/// The octets of a section, counted from 1 as the standard does.
struct Octets<'a> {
    message: &'a [u8],
    start: usize,
}

impl Octets<'_> {
    /// The number in `len` octets from `octet` on; `None` past the end of the message.
    fn get(&self, octet: usize, len: usize) -> Option<u64> {
        number(self.message, self.start + octet - 1, len)
    }

    /// True if an octet has this value.
    fn is(&self, octet: usize, value: u64) -> bool {
        self.get(octet, 1) == Some(value)
    }

    /// The slot of a quantity that begins at an octet of the section.
    fn slot(&self, quantity: Quantity, octet: usize, form: Form) -> Slot {
        Slot { quantity, form, at: self.start + octet - 1 }
    }

    /// The slot of a quantity in `octets` octets that counts units.
    fn count(&self, quantity: Quantity, octet: usize, octets: usize, unit: u64) -> Slot {
        self.slot(quantity, octet, Form::Count { octets, unit })
    }
}

/// Slots of section 1 of edition 1. Steps are plain in hours, for a product valid at one time; levels where
/// ECMWF has pressure or model levels; numbers in its local sections.
fn slots_1(first: &Octets<'_>) -> Option<Slots> {
    // The centre and the number of its local definition, if section 1 has local octets.
    let local =
        if first.get(1, 3)? > 40 { Some((first.get(5, 1)?, first.get(41, 1)?)) } else { None };
    let (is_plain, number) = match local {
        None => (true, None),
        // These local definitions have an ensemble number in octet 50, of one or two octets.
        Some((ECMWF, 1 | 26 | 30 | 36)) => (true, Some(1)),
        Some((ECMWF, 15)) => (true, Some(2)),
        // The month of the forecast follows from date and time there.
        Some((ECMWF, 16)) => (false, Some(2)),
        _ => (false, None),
    };
    let mut slots = Slots::new();
    slots.extend(number.map(|octets| first.count(Quantity::Number, 50, octets, 1)));
    if is_plain {
        slots.push(first.slot(Quantity::Date, 13, Form::ShortDate));
        slots.push(first.slot(Quantity::Time, 16, Form::Clock));
        // Unit of the step, and time range indicator: the step has one octet for 0, two for 10.
        match (first.get(18, 1)?, first.get(21, 1)?) {
            (HOURS, 0) => slots.push(first.count(Quantity::Step, 19, 1, 1)),
            (HOURS, 10) => slots.push(first.count(Quantity::Step, 19, 2, 1)),
            _ => (),
        }
    }
    // Types of level: 100 for pressure levels, 109 for model levels.
    if is_plain && first.is(5, ECMWF) && matches!(first.get(10, 1)?, 100 | 109) {
        slots.push(first.count(Quantity::Level, 11, 2, 1));
    }
    Some(slots)
}

/// Slots of sections 1 and 4 of edition 2. A product over a time range has its end in its header, so only a
/// product at a point in time has a plain date, time and step; levels as in edition 1.
fn slots_2(first: &Octets<'_>, local: Option<&Octets<'_>>, product: &Octets<'_>) -> Option<Slots> {
    let centre = first.get(6, 2)?;
    let is_plain = PLAIN_STATUS.contains(&first.get(20, 1)?)
        && first.get(1, 4)? == 21
        && local.is_none_or(|local| centre == ECMWF && is_plain_local(local));
    if !is_plain {
        return None;
    }
    let (template, mut slots) = (product.get(8, 2)?, Slots::new());
    if matches!(template, 0 | 1) {
        slots.push(first.slot(Quantity::Date, 13, Form::LongDate));
        slots.push(first.slot(Quantity::Time, 17, Form::Clock));
    }
    if matches!(template, 0 | 1) && product.is(18, HOURS) {
        slots.push(product.count(Quantity::Step, 19, 4, 1));
    }
    // One surface, without a scale factor. Below, its type: 100 for pressure in Pa, 105 for model levels.
    let is_plain_level = centre == ECMWF && product.is(24, 0) && product.is(29, 255);
    if matches!(template, 0 | 1 | 8 | 11) && is_plain_level {
        match product.get(23, 1)? {
            100 => slots.push(product.count(Quantity::Level, 25, 4, 100)),
            105 => slots.push(product.count(Quantity::Level, 25, 4, 1)),
            _ => (),
        }
    }
    if matches!(template, 1 | 11) {
        slots.push(product.count(Quantity::Number, 36, 1, 1));
    }
    Some(slots)
}

/// True for local sections of ECMWF whose octets do not depend on date, time or step.
fn is_plain_local(local: &Octets<'_>) -> bool {
    matches!(local.get(6, 2), Some(1 | 15 | 26 | 30 | 36))
}
