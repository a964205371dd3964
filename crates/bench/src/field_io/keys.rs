//! Keys of fields, and the object names derived from them.
//!
//! A key has a most significant part, which all fields of a forecast share, and a least significant part. Names are md5
//! sums of keys, so that processes which create the same object at the same time create it once.
use super::{Contention, Field};
use esker_types::{ObjectId, Uuid};
use md5::{Digest, Md5};

/// The key of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The part that all fields of a forecast share.
    pub most_significant: String,
    /// The part that distinguishes them.
    pub least_significant: String,
}

/// This bit of the upper user bits is set for ids derived from keys, and clear for ids from a container's counter.
const NAMED: u64 = 1 << 31;

impl Key {
    /// The key of a field in an experiment. With low contention the processes write ensemble members of
    /// their own, each with its own forecast index; with high contention all write to one forecast.
    pub fn for_field(experiment: &str, contention: Contention, field: Field) -> Self {
        let Field { process, index } = field;
        let forecast = format!("class=od,stream=oper,expver={experiment},date=20201224,time=1200");
        let step =
            format!("type=fc,levtype=pl,param=130,level={},step={}", index % 1000, index / 1000);
        match contention {
            Contention::Low => Self {
                most_significant: format!("{forecast},number={process}"),
                least_significant: step,
            },
            Contention::High => Self {
                most_significant: forecast,
                least_significant: format!("{step},number={process}"),
            },
        }
    }

    /// The container with the forecast's index.
    pub fn index_container(&self) -> Uuid {
        Uuid(md5(&[&self.most_significant, "index"]))
    }

    /// The container with the forecast's fields.
    pub fn store_container(&self) -> Uuid {
        Uuid(md5(&[&self.most_significant, "store"]))
    }

    /// User bits of the forecast's Key-Value.
    pub fn index_bits(&self) -> ObjectId {
        bits(md5(&[&self.most_significant]))
    }

    /// User bits of an Array that is named by the complete key.
    pub fn array_bits(&self) -> ObjectId {
        bits(md5(&[&self.most_significant, &self.least_significant]))
    }
}

/// User bits of the main Key-Value.
pub fn main_bits() -> ObjectId {
    ObjectId { hi: NAMED, lo: 0 }
}

fn md5(parts: &[&str]) -> [u8; 16] {
    Md5::digest(parts.join("/")).into()
}

/// An object id from an MD5 sum: its first 12 bytes as big-endian numbers, and the bit that marks ids of named Arrays.
fn bits(sum: [u8; 16]) -> ObjectId {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    ObjectId { hi: number(&sum[..4]) | NAMED, lo: number(&sum[4..12]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(contention: Contention, process: u32, index: u32) -> Key {
        Key::for_field("x", contention, Field { process, index })
    }

    #[test]
    fn sums_are_those_of_md5() {
        // RFC 1321: MD5("abc") = 900150983cd24fb0 d6963f7d28e17f72
        assert_eq!(md5(&["abc"])[..4], [0x90, 0x01, 0x50, 0x98]);
        let bits = bits(md5(&["abc"]));
        assert_eq!(bits, ObjectId { hi: 0x9001_5098, lo: 0x3cd2_4fb0_d696_3f7d });
    }

    #[test]
    fn processes_share_forecasts_under_high_contention() {
        let (low, high) = (Contention::Low, Contention::High);
        assert_eq!(key(low, 1, 0).index_bits(), key(low, 1, 5).index_bits());
        assert_ne!(key(low, 1, 0).index_bits(), key(low, 2, 0).index_bits());
        assert_eq!(key(high, 1, 0).index_bits(), key(high, 2, 0).index_bits());
        assert_ne!(key(low, 1, 0).index_container(), key(low, 1, 0).store_container());
    }

    #[test]
    fn each_field_has_a_distinct_key() {
        for contention in [Contention::Low, Contention::High] {
            let fields =
                (0..3).flat_map(|process| [0, 1, 1000, 1001].map(|index| (process, index)));
            let mut names: Vec<_> = fields
                .map(|(process, index)| key(contention, process, index).array_bits())
                .collect();
            names.sort_unstable_by_key(|name| (name.hi, name.lo));
            names.dedup();
            assert_eq!(names.len(), 12);
        }
    }
}
