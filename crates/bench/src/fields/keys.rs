//! Names of fields: keys of the MARS language for the default schema.
use super::{Field, Shape};
use esker_fields::Key;
use esker_types::{Error, ErrorKind, Result};

/// The part of the key that all fields share: one database and one index. All of it is given, so that a listed key
/// equals the archived key.
pub const FORECAST: [(&str, &str); 8] = [
    ("class", "rd"),
    ("expver", "hamm"),
    ("stream", "enfo"),
    ("date", "20240610"),
    ("time", "0000"),
    ("domain", "g"),
    ("type", "pf"),
    ("levtype", "pl"),
];

/// Keywords that distinguish fields, in the order of requests.
const APART: [&str; 4] = ["step", "number", "levelist", "param"];

impl Shape {
    /// The key of a field.
    pub fn key(&self, field: Field) -> Result<Key> {
        let values = self.values(field).map(|value| value.to_string());
        let apart = APART.into_iter().zip(values.iter().map(String::as_str));
        Key::from_pairs(FORECAST.into_iter().chain(apart))
    }

    /// Step, member, level and parameter; all but the step count from 1.
    fn values(&self, Field { owner, index }: Field) -> [u64; 4] {
        let (rest, param) = (index / self.params, index % self.params);
        let (rest, level) = (rest / self.levels, rest % self.levels);
        let (step, member) = (rest / self.members, rest % self.members);
        [step, self.first_member(owner) + member, level + 1, param + 1]
    }

    fn first_member(&self, owner: u32) -> u64 {
        u64::from(owner) * self.members + 1
    }

    /// A request for all fields of the processes `owners`, in the order in which they archive.
    pub fn request(&self, owners: std::ops::Range<u32>) -> Vec<(&'static str, String)> {
        let list = |first: u64, count: u64| {
            let values: Vec<_> = (first..first + count).map(|value| value.to_string()).collect();
            values.join("/")
        };
        let members = self.members * u64::from(owners.end.saturating_sub(owners.start));
        let apart = [
            list(0, self.steps),
            list(self.first_member(owners.start), members),
            list(1, self.levels),
            list(1, self.params),
        ];
        let shared = FORECAST.map(|(name, value)| (name, value.to_owned()));
        shared.into_iter().chain(APART.into_iter().zip(apart)).collect()
    }

    /// The process that archived a field, and its step.
    pub fn origin(&self, key: &Key) -> Result<(u32, u64)> {
        let number = |name: &str| key.get(name).and_then(|value| value.parse::<u64>().ok());
        let owner = |member: u64| u32::try_from(member.checked_sub(1)? / self.members.max(1)).ok();
        let origin = number("number").and_then(owner).zip(number("step"));
        origin.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("{key}: the benchmark archived no such field"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_fields::request::Request;
    use esker_fields::{Date, Schema};

    const SHAPE: Shape = Shape { steps: 3, levels: 2, params: 4, members: 2, size_bytes: 100 };

    #[test]
    fn requests_are_in_order_of_archiving() {
        let schema = Schema::default_mars().unwrap();
        let request = Request::from_pairs(SHAPE.request(1..2)).unwrap();
        let selection = request.expand(&schema, Date::today()).unwrap();
        let wanted: Vec<_> = selection.keys().unwrap().collect();
        let archived = (0..SHAPE.fields()).map(|index| SHAPE.key(Field { owner: 1, index }));
        assert_eq!(wanted, archived.collect::<Result<Vec<_>>>().unwrap());
    }

    #[test]
    fn key_identifies_archiving_process() {
        for (owner, index) in [(0, 0), (3, 17), (7, 47)] {
            let key = SHAPE.key(Field { owner, index }).unwrap();
            assert_eq!(SHAPE.origin(&key).unwrap(), (owner, index / 16));
        }
        assert!(SHAPE.origin(&Key::parse("step=1").unwrap()).is_err());
    }
}
