//! State of a commit over several nodes that a node stores until the coordinator has decided: the edits that it is
//! ready to apply.
use super::intent::{encode_step, take_bytes, take_number, take_step};
use crate::format::keys::{Key, Table};
use crate::format::record::{CHECKSUM_LEN, checksum_of};
use crate::index::entries;
use crate::index::txn::Txn;
use crate::shard::change::IndexEdit;
use crate::shard::segment::Appended;
use crate::shard::{Scope, Target};
use esker_types::info::ContainerId;
use esker_types::ops::{Commit, CommitId};
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use std::sync::Arc;

/// A prepared commit. It is stored in the index of the first of its targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) commit: Commit,
    /// Epoch at which it was prepared on this node.
    pub(crate) epoch: Epoch,
    /// The snapshot that it creates.
    pub(crate) snapshot: Option<PreparedSnapshot>,
    /// Its targets on this node, in ascending order.
    pub(crate) parts: Vec<PreparedPart>,
}

/// A snapshot that is created at the epoch of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreparedSnapshot {
    pub(crate) container: ContainerId,
    pub(crate) name: String,
}

/// Effect of a prepared commit on one target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreparedPart {
    pub(crate) target: u32,
    /// Staged data to which only this commit refers. It is live until the commit is aborted.
    pub(crate) staged: Vec<Appended>,
    /// Slots of the conflict table that the commit changes.
    pub(crate) touched: Vec<u32>,
    pub(crate) steps: Vec<IndexEdit>,
}

/// Key of a prepared commit.
pub(super) fn prepared_key(id: CommitId) -> Key {
    Key::table(Table::Prepared).push(&id.0.0)
}

const CHANGE: u8 = 0;
const SNAPSHOT: u8 = 1;

impl Prepared {
    /// Encodes the value that is stored under [`prepared_key`].
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.commit.coordinator.to_le_bytes().to_vec();
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        match &self.snapshot {
            None => out.push(CHANGE),
            Some(PreparedSnapshot { container, name }) => {
                out.push(SNAPSHOT);
                out.extend_from_slice(&container.0.to_le_bytes());
                out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
        }
        self.parts.iter().for_each(|part| part.encode(&mut out));
        let checksum = checksum_of(&prepared_key(self.commit.id), &out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Decodes an entry of table [`Table::Prepared`].
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let decoded = value.split_last_chunk::<CHECKSUM_LEN>().and_then(|(content, checksum)| {
            (*checksum == checksum_of(key, content)).then(|| Self::parse(key, content))?
        });
        decoded.ok_or_else(|| {
            let message = "a prepared commit is damaged: run `esker pool check --repair`";
            Error::new(ErrorKind::Corrupt, message)
        })
    }

    /// Decodes an entry without its checksum; `None` if it is invalid.
    fn parse(key: &[u8], mut rest: &[u8]) -> Option<Self> {
        let id = CommitId(Uuid(key.get(1..)?.try_into().ok()?));
        let commit = Commit { id, coordinator: take_number(&mut rest)? };
        let epoch = Epoch(take_long(&mut rest)?);
        let (&kind, mut rest) = rest.split_first()?;
        let snapshot = match kind {
            CHANGE => None,
            SNAPSHOT => Some(PreparedSnapshot {
                container: ContainerId(take_number(&mut rest)?),
                name: String::from_utf8(take_bytes(&mut rest)?).ok()?,
            }),
            _ => return None,
        };
        let mut parts = Vec::new();
        while !rest.is_empty() {
            parts.push(PreparedPart::take(&mut rest)?);
        }
        (!parts.is_empty()).then_some(Self { commit, epoch, snapshot, parts })
    }

    /// Index entries that the commit puts on this node: target, key and value.
    pub(crate) fn puts(&self) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
        self.parts.iter().flat_map(|part| {
            part.steps.iter().filter_map(|step| match step {
                IndexEdit::Put(key, value) => Some((part.target, &key[..], &value[..])),
                _ => None,
            })
        })
    }

    /// Numbers of the targets on this node that take part in the commit.
    pub(super) fn targets(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|part| part.target)
    }
}

impl PreparedPart {
    fn encode(&self, out: &mut Vec<u8>) {
        let count = |items: usize| (items as u32).to_le_bytes();
        out.extend_from_slice(&self.target.to_le_bytes());
        out.extend_from_slice(&count(self.staged.len()));
        for Appended { segment, bytes, end } in &self.staged {
            out.extend_from_slice(&segment.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&count(self.touched.len()));
        self.touched.iter().for_each(|slot| out.extend_from_slice(&slot.to_le_bytes()));
        out.extend_from_slice(&count(self.steps.len()));
        self.steps.iter().for_each(|step| encode_step(step, out));
    }

    /// Decodes a part from the start of `rest`, and removes its bytes from there. `None` if there is no valid part.
    fn take(rest: &mut &[u8]) -> Option<Self> {
        let target = take_number(rest)?;
        let staged = take_all(rest, take_appended)?;
        let touched = take_all(rest, take_number)?;
        let steps = take_all(rest, take_step)?;
        Some(Self { target, staged, touched, steps })
    }
}

/// Decodes a count, and then as many items by `take`; `None` if one of them is invalid.
fn take_all<T>(rest: &mut &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = take_number(rest)?;
    (0..count).map(|_| take(rest)).collect()
}

fn take_appended(rest: &mut &[u8]) -> Option<Appended> {
    Some(Appended { segment: take_number(rest)?, bytes: take_long(rest)?, end: take_long(rest)? })
}

/// Variant of [`take_number`] for a number of eight bytes.
fn take_long(rest: &mut &[u8]) -> Option<u64> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_le_bytes(*head))
}

/// All prepared commits that one index contains.
fn in_index(txn: &Txn) -> Result<Vec<Prepared>> {
    let mut found = Vec::new();
    entries::table(txn, Table::Prepared, |key, value| found.push(Prepared::decode(key, value)))?;
    found.into_iter().collect()
}

/// All commits that are prepared on the targets of a pool.
pub(crate) fn all(targets: &[Arc<Target>]) -> Result<Vec<Prepared>> {
    let mut found = Vec::new();
    for target in targets {
        found.append(&mut in_index(target.view_in_doubt(Scope::Committed)?.committed())?);
    }
    Ok(found)
}

/// The commit that is prepared on target `number`; `None` if there is none. Also reads the indexes of all lower
/// targets, since a prepared commit is stored on the first of its targets.
pub(super) fn on(targets: &[Arc<Target>], number: u32) -> Result<Option<Prepared>> {
    for target in targets.iter().take(number as usize + 1) {
        let found = in_index(target.view_in_doubt(Scope::Committed)?.committed())?;
        let mut on_target =
            found.into_iter().filter(|prepared| prepared.targets().any(|target| target == number));
        if let Some(found) = on_target.next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Staged data on a target to which only prepared commits refer.
pub(crate) fn staged_on(prepared: &[Prepared], number: u32) -> Vec<Appended> {
    let parts = prepared.iter().flat_map(|it| &it.parts);
    parts.filter(|part| part.target == number).flat_map(|part| &part.staged).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(snapshot: bool) -> Prepared {
        let part = PreparedPart {
            target: 1,
            staged: vec![Appended { segment: 7, bytes: 4000, end: 1 << 40 }],
            touched: vec![3, 4095],
            steps: vec![
                IndexEdit::Put(b"key".to_vec(), b"value".to_vec()),
                IndexEdit::Delete(b"gone".to_vec()),
            ],
        };
        Prepared {
            commit: Commit { id: CommitId(Uuid([9; 16])), coordinator: 2 },
            epoch: Epoch(77),
            snapshot: snapshot
                .then(|| PreparedSnapshot { container: ContainerId(5), name: "noon".to_owned() }),
            parts: vec![part, PreparedPart { target: 3, ..PreparedPart::default() }],
        }
    }

    #[test]
    fn prepared_commits_round_trip() {
        for prepared in [sample(false), sample(true)] {
            let (key, bytes) = (prepared_key(prepared.commit.id), prepared.encode());
            assert_eq!(Prepared::decode(&key, &bytes).unwrap(), prepared);
            for cut in 0..bytes.len() {
                assert!(Prepared::decode(&key, &bytes[..cut]).is_err(), "cut at {cut} unnoticed");
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                assert!(Prepared::decode(&key, &changed).is_err(), "byte {at} unnoticed");
            }
            let other = prepared_key(CommitId(Uuid([8; 16])));
            assert!(Prepared::decode(&other, &bytes).is_err());
        }
    }

    #[test]
    fn fuzz_prepared_commits() {
        let key = prepared_key(CommitId(Uuid([9; 16])));
        let content = |prepared: Prepared| {
            let bytes = prepared.encode();
            bytes[..bytes.len() - CHECKSUM_LEN].to_vec()
        };
        let samples = [content(sample(false)), content(sample(true))];
        esker_testing::fuzz("prepared", &samples, |bytes| drop(Prepared::parse(&key, bytes)));
    }
}
