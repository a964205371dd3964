//! The fields of a message that has several.
use super::frame::{BEGIN, END, INDICATOR_2, SECTION_2, Section, Sections, sections};
use esker_types::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::ops::Range;

/// Bitmap indicator: the previous bitmap applies (code table 6.0).
const BITMAP_BEFORE: u8 = 254;

/// Bitmap indicator: a bitmap follows.
const BITMAP_HERE: u8 = 0;

/// The fields of one message, each as a message of its own.
///
/// In edition 2 the sections 2 to 7, 3 to 7 or 4 to 7 may be repeated; sections that are not repeated stay in force.
/// Each field becomes a message with all its sections, like those of ecCodes' multi-field support. If the bitmap of the
/// previous field applies, the message gets a copy. A message with one field is returned as it is.
///
/// ```
/// let message = b"GRIB\0\0\0\x02\0\0\0\0\0\0\0\x19\0\0\0\x05\x017777";
/// let mut fields = esker_fields::grib::Fields::split(message);
/// assert_eq!(fields.next().unwrap().unwrap(), &message[..]);
/// assert!(fields.next().is_none());
/// ```
#[derive(Debug)]
pub struct Fields<'a> {
    message: &'a [u8],
    sections: std::vec::IntoIter<Section>,
    /// The sections in force at this point: 1 to 6, by number.
    current: [Option<Range<usize>>; 7],
    /// The section 6 with the bitmap in force.
    bitmap: Option<Range<usize>>,
    /// True if the message has one field, which was not returned yet.
    whole: bool,
}

impl<'a> Fields<'a> {
    /// The fields of `message`, one complete GRIB message of either edition.
    #[must_use]
    pub fn split(message: &'a [u8]) -> Self {
        let sections = sections(message).unwrap_or_default();
        let whole = sections.iter().filter(|section| section.number == 7).count() < 2;
        let sections = if whole { Sections::new() } else { sections };
        let sections = sections.into_vec().into_iter();
        Self { message, sections, current: Default::default(), bitmap: None, whole }
    }

    /// Makes `section` the one of its number that applies to the next fields. A section 6 may refer to an earlier
    /// bitmap, which then applies.
    fn pass(&mut self, section: Section) {
        if section.number == 6 {
            match self.message.get(section.octets.start + SECTION_2) {
                // The bitmap of an earlier field is used again.
                Some(&BITMAP_BEFORE) => {
                    self.current[6] = self.bitmap.clone().or(Some(section.octets));
                    return;
                }
                Some(&BITMAP_HERE) => self.bitmap = Some(section.octets.clone()),
                _ => (),
            }
        }
        if let Some(current) = self.current.get_mut(usize::from(section.number)) {
            *current = Some(section.octets);
        }
    }

    /// The field whose data are in `data`.
    fn field(&self, data: Range<usize>) -> Result<Vec<u8>> {
        // Only section 2 may be missing.
        if let Some(number) =
            [1, 3, 4, 5, 6].into_iter().find(|number| self.current[*number].is_none())
        {
            let text = format!("damaged GRIB message: a field has no section {number}");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let ranges = self.current.iter().flatten().chain([&data]);
        let parts: Vec<_> = ranges.filter_map(|range| self.message.get(range.clone())).collect();
        let length = INDICATOR_2 + parts.iter().map(|part| part.len()).sum::<usize>() + END.len();
        let mut field = Vec::with_capacity(length);
        field.extend_from_slice(BEGIN);
        field.extend_from_slice(self.message.get(4..8).unwrap_or_default());
        field.extend_from_slice(&(length as u64).to_be_bytes());
        parts.iter().for_each(|part| field.extend_from_slice(part));
        field.extend_from_slice(END);
        Ok(field)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Cow<'a, [u8]>>;

    /// The message itself if it has one field, else a message made of the next field: each data section ends one.
    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.whole) {
            return Some(Ok(Cow::Borrowed(self.message)));
        }
        loop {
            let section = self.sections.next()?;
            if section.number == 7 {
                return Some(self.field(section.octets).map(Cow::Owned));
            }
            self.pass(section);
        }
    }
}
