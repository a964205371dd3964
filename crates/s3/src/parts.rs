//! Parts that an object was completed with, in an extended attribute of its file.
use crate::fault::{Fault, Outcome};
use crate::find::Found;
use crate::limits::PARTS_BYTES_MAX;
use crate::record::Stored;
use crate::uploads::{Chosen, Part};
use esker::types::ErrorKind;
use s3s::S3ErrorCode;
use s3s::dto::{GetObjectAttributesParts, ObjectPart};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The extended attribute with the [`Parts`] of a file: JSON.
pub(crate) const PARTS: &str = "user.esker.s3.parts";

/// The parts of an object, in the order of their numbers. Of many parts, only the number is kept if the rest is longer
/// than [`PARTS_BYTES_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Parts {
    count: usize,
    /// Parts of one size, whose numbers follow each other: the first number, how many, and the size of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sizes: Vec<(i32, i32, u64)>,
    /// The checksums of all parts, if one has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Stored>,
}

impl Parts {
    /// Describes `parts`, which are in the order of their numbers. Consecutive parts of the same size take one entry.
    pub(crate) fn new(parts: &[Part]) -> Self {
        let mut sizes: Vec<(i32, i32, u64)> = Vec::new();
        for part in parts {
            match sizes.last_mut() {
                Some((first, count, size))
                    if *first + *count == part.number && *size == part.size =>
                {
                    *count += 1;
                }
                _ => sizes.push((part.number, 1, part.size)),
            }
        }
        let mut checksums: Vec<_> = parts.iter().map(|part| part.checksum.clone()).collect();
        if checksums.iter().all(|sums| *sums == Stored::default()) {
            checksums.clear();
        }
        Self { count: parts.len(), sizes, checksums }
    }

    /// Encodes the parts for the attribute [`PARTS`]. If the text is longer than [`PARTS_BYTES_MAX`], leaves out the
    /// checksums, and then also the sizes.
    pub(crate) fn written(&self) -> Vec<u8> {
        let with_sizes = Self { checksums: Vec::new(), ..self.clone() };
        let counted = Self { count: self.count, ..Self::default() };
        let texts = [self, &with_sizes].map(|parts| serde_json::to_vec(parts).unwrap_or_default());
        let fitting = texts.into_iter().find(|text| text.len() <= PARTS_BYTES_MAX);
        fitting.unwrap_or_else(|| serde_json::to_vec(&counted).unwrap_or_default())
    }

    /// The parts of an object; `None` if it was put as a whole, or another program wrote the file.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn read(found: &Found) -> Outcome<Option<Self>> {
        let is_upload = found.record.upload.is_some()
            && found.record.holds(found.attr.mtime, Some(found.attr.size));
        if !is_upload {
            return Ok(None);
        }
        match found.node.get_xattr(PARTS.as_bytes()) {
            Ok(value) => Ok(serde_json::from_slice(&value).ok()),
            Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Number of parts.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Number and size in bytes of each part; nothing if the sizes were left out to save space.
    fn each(&self) -> impl Iterator<Item = (i32, u64)> {
        let run = |&(first, count, size): &(i32, i32, u64)| {
            (first..first.saturating_add(count)).map(move |number| (number, size))
        };
        self.sizes.iter().flat_map(run)
    }

    /// True if the client chooses these parts: by their numbers, and by the checksums that it gives. What is not stored,
    /// to save space, is not compared.
    pub(crate) fn are_chosen_by(&self, chosen: &[Chosen]) -> bool {
        let numbers = self.each().zip(chosen).all(|((number, _), chosen)| number == chosen.number);
        let sums = self.checksums.iter().zip(chosen).all(|(sum, chosen)| chosen.has(sum));
        self.count == chosen.len() && numbers && sums
    }

    /// The bytes of the part with the number `wanted`.
    ///
    /// # Errors
    /// `InvalidPart` if the part does not exist; `NotImplemented` if the sizes of the parts are not known.
    pub(crate) fn range_of(&self, wanted: i32) -> Outcome<Range<u64>> {
        if self.sizes.is_empty() {
            let why = "the object has too many parts of different sizes, so their sizes are not stored (PARTS_BYTES_MAX)";
            return Err(Fault::new(S3ErrorCode::NotImplemented, why));
        }
        let mut start: u64 = 0;
        for (number, size) in self.each() {
            let end = start.saturating_add(size);
            if number == wanted {
                return Ok(start..end);
            }
            start = end;
        }
        Err(no_part(wanted))
    }

    /// The checksums of the part with the number `wanted`; empty if they are not stored.
    pub(crate) fn checksum_of(&self, wanted: i32) -> Stored {
        let at = self.each().position(|(number, _)| number == wanted);
        at.and_then(|at| self.checksums.get(at)).cloned().unwrap_or_default()
    }

    /// At most `count` parts after the number `after`, in the form of `GetObjectAttributes`.
    pub(crate) fn listed(&self, after: i32, count: usize) -> GetObjectAttributesParts {
        let sums = self.checksums.iter().cloned().map(Some).chain(std::iter::repeat(None));
        let later = self.each().zip(sums).filter(|((number, _), _)| *number > after);
        let mut parts: Vec<_> = later.take(count.saturating_add(1)).map(shown).collect();
        // An empty page has no marker with which a client could continue.
        let is_truncated = count > 0 && parts.len() > count;
        parts.truncate(count);
        GetObjectAttributesParts {
            is_truncated: Some(is_truncated),
            max_parts: Some(count as i32),
            next_part_number_marker: parts.last().and_then(|part| part.part_number),
            part_number_marker: Some(after),
            parts: Some(parts),
            total_parts_count: Some(self.count as i32),
        }
    }
}

/// Converts a part with its checksums to the form in replies.
fn shown(((number, size), sums): ((i32, u64), Option<Stored>)) -> ObjectPart {
    let sums = sums.unwrap_or_default();
    ObjectPart {
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        part_number: Some(number),
        size: Some(size as i64),
    }
}

/// The error that an object has no such part.
#[cold]
pub(crate) fn no_part(number: i32) -> Fault {
    Fault::new(S3ErrorCode::InvalidPart, format!("the object has no part {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part with this SHA-256, if any.
    fn part(number: i32, size: u64, sha256: Option<&str>) -> Part {
        let mut checksum = Stored::default();
        sha256.into_iter().for_each(|sum| checksum.set("sha256", sum));
        Part::for_test(number, size, checksum)
    }

    #[test]
    fn parts_are_kept_with_their_numbers_and_sizes() {
        let all = [part(1, 5, None), part(2, 5, None), part(4, 5, None), part(5, 3, None)];
        let parts = Parts::new(&all);
        assert_eq!(parts.sizes, [(1, 2, 5), (4, 1, 5), (5, 1, 3)]);
        assert_eq!(serde_json::from_slice::<Parts>(&parts.written()).unwrap(), parts);
        let range = |number| parts.range_of(number).ok();
        assert_eq!([1, 2, 4, 5].map(range), [0..5, 5..10, 10..15, 15..18].map(Some));
        assert_eq!([0, 3, 6, -1].map(range), [const { None }; 4]);
        let page = parts.listed(1, 2);
        let numbers: Vec<_> = page.parts.unwrap().iter().map(|part| part.part_number).collect();
        assert_eq!(numbers, [Some(2), Some(4)]);
        assert_eq!((page.is_truncated, page.next_part_number_marker), (Some(true), Some(4)));
        let last = parts.listed(4, 1000);
        assert_eq!((last.is_truncated, last.parts.unwrap().len()), (Some(false), 1));
        assert_eq!(parts.listed(0, 0).is_truncated, Some(false));
    }

    #[test]
    fn checksums_and_sizes_are_left_out_if_the_attribute_is_full() {
        let sum = "x".repeat(44);
        let many = |sizes: u64| -> Vec<_> {
            (1..=10_000).map(|n: i32| part(n, (5 << 20) + n as u64 % sizes, Some(&sum))).collect()
        };
        const { assert!(PARTS_BYTES_MAX <= dfs::limits::XATTR_VALUE_MAX) };
        for (sizes, known) in [(1, 10_000), (2, 0)] {
            let text = Parts::new(&many(sizes)).written();
            assert!(text.len() <= PARTS_BYTES_MAX);
            let parts: Parts = serde_json::from_slice(&text).unwrap();
            assert_eq!((parts.count(), parts.each().count()), (10_000, known));
            assert_eq!(parts.checksums, []);
            let refused = parts.range_of(1).err().map(s3s::S3Error::from);
            let code = refused.map(|error| error.code().clone());
            assert_eq!(code, (known == 0).then_some(S3ErrorCode::NotImplemented));
        }
        let few = Parts::new(&many(2)[..9]);
        assert_eq!(serde_json::from_slice::<Parts>(&few.written()).unwrap().checksums.len(), 9);
    }
}
