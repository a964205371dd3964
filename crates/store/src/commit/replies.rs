//! Reply cache of a target: the last change of each slot of each session. If a change is sent again, it is answered
//! from the cache and not repeated. The cache is stored in the index, in the transaction of the change itself.
use crate::format::keys::{Key, Table};
use crate::index::entries;
use crate::index::txn::Txn;
use crate::shard::change::Change;
use crate::shard::{Scope, Target};
use esker_types::limits::CHANGE_IDS_MAX;
use esker_types::ops::ChangeId;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result};
use smallvec::SmallVec;

/// Bytes of a value: sequence number, epoch and checksum.
const VALUE_LEN: usize = 20;

/// Bytes of a key after its table: session and slot.
const KEY_LEN: usize = 10;

/// Number of entries up to which a full index accepts more. They fit into a page or two.
const ENTRIES_IN_FULL_INDEX: u64 = 64;

/// Number of entries that are evicted for each one that is added to a full index. They are on few pages, so the
/// headroom suffices.
const EVICTIONS_IN_FULL_INDEX: u64 = 16;

/// Key of the entry that stores the number of remembered changes.
fn count_key() -> Key {
    Key::table(Table::Reply)
}

fn key_of(id: ChangeId) -> Key {
    count_key().push(&id.session.to_be_bytes()).push(&id.slot.to_be_bytes())
}

/// Value to store under `key`: sequence number and epoch of a change, and their checksum.
fn value_of(key: &[u8], sequence: u64, epoch: Epoch) -> [u8; VALUE_LEN] {
    let mut value = [0; VALUE_LEN];
    let (numbers, checksum) = value.split_at_mut(16);
    numbers[..8].copy_from_slice(&sequence.to_le_bytes());
    numbers[8..].copy_from_slice(&epoch.0.to_le_bytes());
    checksum.copy_from_slice(&checksum_of(key, numbers));
    value
}

/// Checksum of an entry. It covers the key, so that an entry under a wrong key is detected too.
fn checksum_of(key: &[u8], numbers: &[u8]) -> [u8; 4] {
    let covered: SmallVec<[u8; 32]> = key.iter().chain(numbers).copied().collect();
    (Checksum::Crc32c.sum(&covered) as u32).to_le_bytes()
}

/// Number and epoch of the change that an entry of the reply cache remembers. Fails with `Corrupt` if the entry does
/// not match its checksum.
fn parse(key: &[u8], value: &[u8]) -> Result<(u64, Epoch)> {
    let fields = value.split_first_chunk().and_then(|(sequence, rest)| {
        let (epoch, checksum) = rest.split_first_chunk()?;
        Some((u64::from_le_bytes(*sequence), u64::from_le_bytes(*epoch), checksum))
    });
    match fields {
        Some((sequence, epoch, checksum)) if *checksum == checksum_of(key, &value[..16]) => {
            Ok((sequence, Epoch(epoch)))
        }
        _ => Err(Error::new(
            ErrorKind::Corrupt,
            "the reply cache is damaged: run `esker pool check --repair`",
        )),
    }
}

/// True if an entry of the table is well-formed. The entry without a key is the number of entries.
pub(crate) fn is_sound(key: &[u8], value: &[u8]) -> bool {
    match key.len() - 1 {
        0 => value.len() == 8,
        len => len == KEY_LEN && parse(key, value).is_ok(),
    }
}

/// The epoch of a change that was applied before. `None` for a change without an id. Fails if a later change of the
/// same slot was applied.
pub(super) fn find(txn: &Txn, id: Option<ChangeId>) -> Result<Option<Epoch>> {
    let Some(id) = id else { return Ok(None) };
    let key = key_of(id);
    let Some(last) = txn.get(&key)? else { return Ok(None) };
    let (sequence, epoch) = parse(&key, last)?;
    id.after(sequence, epoch)
}

/// Variant of [`find`] without the write lock. It does not find a change that is being applied right now.
pub(super) fn find_early(target: &Target, id: ChangeId) -> Result<Option<Epoch>> {
    find(target.view_of(Scope::Committed)?.committed(), Some(id))
}

/// Stores that a change was applied, if it has an id.
pub(super) fn remember(change: &mut Change<'_>, id: Option<ChangeId>) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    let key = key_of(id);
    if change.txn().get(&key)?.is_none() {
        count_new_entry(change, CHANGE_IDS_MAX)?;
    }
    change.put(&key, &value_of(&key, id.sequence, change.epoch))
}

/// Adds one to the stored number of entries, because the caller is about to add one. If there are `most` entries, or if
/// the index is almost full, evicts old entries first.
fn count_new_entry(change: &mut Change<'_>, most: usize) -> Result<()> {
    let stored = change.txn().get(&count_key())?;
    let mut count = stored.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes);
    let surplus = surplus(change, count, most as u64)?;
    if surplus > 0 {
        count = evict_oldest(change, surplus)?;
    }
    change.put(&count_key(), &(count + 1).to_le_bytes())
}

/// Number of entries to evict before one is added, given that there are `count`. If only the headroom of the index is
/// left, the cache shrinks, because deletions need the headroom and a deletion with an id adds an entry. Otherwise a
/// quarter is evicted when there are `most` entries. The number is limited by the pages of the headroom, since each
/// entry may be on a page of its own.
fn surplus(change: &Change<'_>, count: u64, most: u64) -> Result<usize> {
    let surplus = match change.untouched_headroom()? {
        None if count >= ENTRIES_IN_FULL_INDEX => EVICTIONS_IN_FULL_INDEX,
        Some(pages) if count >= most => (most / 4).min(pages / 2),
        _ => 0,
    };
    Ok(surplus as usize)
}

/// Removes the `surplus` oldest entries; returns the number of remaining ones.
fn evict_oldest(change: &mut Change<'_>, surplus: usize) -> Result<u64> {
    let mut entries = entries(change.txn())?;
    let forgotten = surplus.min(entries.len());
    if forgotten < entries.len() {
        entries.select_nth_unstable(forgotten);
    }
    for (_, key) in &entries[..forgotten] {
        change.delete(key)?;
    }
    Ok((entries.len() - forgotten) as u64)
}

/// Epoch and key of every entry. Damaged entries count as the oldest.
fn entries(txn: &Txn) -> Result<Vec<(Epoch, Vec<u8>)>> {
    let mut entries = Vec::new();
    entries::table(txn, Table::Reply, |key, value| {
        if key.len() > count_key().len() {
            let epoch = parse(key, value).map_or(Epoch::default(), |(_, epoch)| epoch);
            entries.push((epoch, key.to_vec()));
        }
    })?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    fn id(slot: u16, sequence: u64) -> ChangeId {
        ChangeId { session: 7, slot, sequence }
    }

    fn found(target: &Target, slot: u16, sequence: u64) -> Option<Epoch> {
        find_early(target, id(slot, sequence)).unwrap()
    }

    /// An earlier change of the slot is refused. The last one is also found after the pool was closed.
    #[test]
    fn last_change_of_each_slot_is_stored() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let epoch = {
            let state = pool.opened();
            let target = &state.targets[0];
            for sequence in 1..=3 {
                target.change(|change| remember(change, Some(id(0, sequence)))).unwrap();
            }
            assert_eq!(found(target, 0, 4), None);
            let late = find_early(target, id(0, 2)).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::Invalid, "{late}");
            found(target, 0, 3)
        };
        assert!(epoch.is_some());
        pool.reopen();
        assert_eq!(found(&pool.opened().targets[0], 0, 3), epoch);
    }

    /// Each byte of the entry is damaged in turn.
    #[test]
    fn a_damaged_entry_is_reported_and_repaired() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let key = key_of(id(0, 5));
        {
            let state = pool.opened();
            state.targets[0].change(|change| remember(change, Some(id(0, 5)))).unwrap();
            for byte in 0..VALUE_LEN {
                let mut value = value_of(&key, 5, Epoch(9));
                value[byte] ^= 1;
                state.targets[0].change(|change| change.put(&key, &value)).unwrap();
                let refused = find_early(&state.targets[0], id(0, 6)).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Corrupt, "byte {byte}");
            }
        }
        pool.close();
        let check = |repair| crate::Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
        assert_eq!(check(false).problems.len(), 1);
        assert_eq!(check(true).repaired.len(), 1);
        assert_eq!(check(false).problems.len(), 0);
    }

    /// 500 slots make one change each. At most 100 entries are stored, those of the latest changes.
    #[test]
    fn least_recently_used_slots_are_evicted() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let target = &state.targets[0];
        let (most, slots) = (100, 500);
        for slot in 0..slots {
            target
                .change(|change| {
                    count_new_entry(change, most)?;
                    let key = key_of(id(slot, 1));
                    change.put(&key, &value_of(&key, 1, change.epoch))
                })
                .unwrap();
            let kept = entries(target.view_of(crate::shard::Scope::Committed).unwrap().committed())
                .unwrap()
                .len();
            assert!(kept <= most, "{kept} are kept");
        }
        let kept = entries(target.view_of(crate::shard::Scope::Committed).unwrap().committed())
            .unwrap()
            .len();
        let newest = slots - kept as u16;
        assert!(kept >= most * 3 / 4);
        assert!((0..slots).all(|slot| found(target, slot, 1).is_some() == (slot >= newest)));
    }

    /// Adds values until the index is full; returns their number.
    fn fill(target: &Target) -> u64 {
        for number in 0u64.. {
            let put = target.change(|change| {
                change.check_room()?;
                change.put(&value_key(number), &[7; 900])
            });
            if let Err(error) = put {
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
                return number;
            }
        }
        unreachable!()
    }

    fn value_key(number: u64) -> Vec<u8> {
        [&b"T"[..], &number.to_be_bytes()].concat()
    }

    /// Change id of session number `number`. Session ids are spread like hashes, so an entry may be on any page of the
    /// cache.
    fn client(number: u64) -> Option<ChangeId> {
        let session = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(ChangeId { session, slot: 0, sequence: 1 })
    }

    /// Each deletion comes from a new client, whose change id adds an entry to the full index. The reply cache is empty
    /// at first, or almost full.
    #[test]
    fn new_clients_can_delete_from_full_index() {
        for known in [0, CHANGE_IDS_MAX as u64 - 10] {
            let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
            let state = pool.opened();
            let target = &state.targets[0];
            let remember_known = |change: &mut Change<'_>| {
                (0..known).try_for_each(|number| remember(change, client(number)))
            };
            target.change(remember_known).unwrap();
            let count = fill(target);
            // These changes remove nothing, and their ids are stored.
            for number in 0..1000 {
                target.change(|change| remember(change, client(known + number))).unwrap();
            }
            for number in 0..count {
                let remove = |change: &mut Change<'_>| {
                    change.delete(&value_key(number))?;
                    remember(change, client(known + 1000 + number))
                };
                target
                    .change(remove)
                    .unwrap_or_else(|error| panic!("{number} of {count}: {error}"));
            }
        }
    }
}
