//! Object IDs of a container, in the order of their keys.
//!
//! A pool lists IDs as numbers, S3 compares their decimal digits: 10.1 is before 9.1. Numbers with the same count of
//! digits have the same order in both. So the order of keys is that of up to 20 runs of numbers, merged. Each run is
//! read from the beginning of the page on. So a page reads the IDs that it shows and a few more, however many exist.
use crate::limits::{LIST_RUNS, LIST_WINDOW, LIST_WINDOW_MIN};
use esker::types::ops::Anchor;
use esker::types::{ObjectId, Result};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// IDs that follow each other in the container.
struct Run {
    /// ID from which the container was listed.
    from: ObjectId,
    ids: Vec<ObjectId>,
    /// True if there are no more.
    is_last: bool,
}

impl Run {
    /// Looks up the first listed ID that is not below `id`. Outer `None`: this run does not cover `id`, so the caller
    /// has to list. Inner `None`: no such ID exists.
    fn next(&self, id: ObjectId) -> Option<Option<ObjectId>> {
        if id < self.from {
            return None;
        }
        let at = self.ids.partition_point(|other| *other < id);
        match self.ids.get(at) {
            Some(found) => Some(Some(*found)),
            None => self.is_last.then_some(None),
        }
    }
}

/// The IDs of a container, in runs that were read last.
struct Runs<L> {
    /// Lists at most a number of IDs from an anchor on.
    list: L,
    recent: VecDeque<Run>,
    /// Number of listings so far.
    lists: u32,
}

impl<L: FnMut(&mut Anchor, usize) -> Result<Vec<ObjectId>>> Runs<L> {
    /// The first ID in the container that is not below `id`; `None` if there is none.
    fn next(&mut self, id: ObjectId) -> Result<Option<ObjectId>> {
        if self.lists == 0 {
            // The first listing begins at the start, because some backends then collect all IDs and list them in runs.
            self.read(ObjectId::default())?;
        }
        loop {
            if let Some(next) = self.recent.iter().find_map(|run| run.next(id)) {
                return Ok(next);
            }
            self.read(id)?;
        }
    }

    /// Lists object ids from `from` on, and keeps them. Each listing reads more IDs as their number grows, up to
    /// [`LIST_WINDOW`].
    fn read(&mut self, from: ObjectId) -> Result<()> {
        let entries = LIST_WINDOW_MIN << (self.lists / 8).min(5);
        self.lists += 1;
        let mut anchor = Anchor::at_object(from);
        let mut ids = Vec::new();
        while ids.is_empty() && !anchor.is_end() {
            ids = (self.list)(&mut anchor, entries.min(LIST_WINDOW))?;
        }
        self.recent.push_front(Run { from, ids, is_last: anchor.is_end() });
        self.recent.truncate(LIST_RUNS);
        Ok(())
    }
}

/// Numbers with the same count of digits, from the first to the last.
struct Range {
    from: u64,
    last: u64,
}

/// Numbers in the order of their decimal digits: one range for each count of digits.
struct Numbers(Vec<Range>);

impl Numbers {
    /// The numbers for which `side` is `Equal`. Among numbers with the same count of digits, all `Less` come before
    /// them and all `Greater` after.
    fn new(side: impl Fn(u64) -> Ordering) -> Self {
        Self((1..=20).filter_map(|digits| Range::new(digits, &side)).collect())
    }

    /// Removes and returns the next number that is in use, in the order of decimal digits; `None` after the last.
    /// `find` returns the first number in use that is not below its argument.
    fn next(&mut self, mut find: impl FnMut(u64) -> Result<Option<u64>>) -> Result<Option<u64>> {
        let mut ranges = Vec::with_capacity(self.0.len());
        for Range { from, last } in self.0.drain(..) {
            let found = find(from)?.filter(|found| *found <= last);
            ranges.extend(found.map(|from| Range { from, last }));
        }
        self.0 = ranges;
        let first = self.0.iter_mut().min_by_key(|range| range.from.to_string());
        Ok(first.map(Range::take))
    }
}

impl Range {
    /// The numbers with this count of digits for which `side` is `Equal`; `None` if there are none.
    fn new(digits: u32, side: impl Fn(u64) -> Ordering) -> Option<Self> {
        let first = if digits == 1 { 0 } else { 10_u64.pow(digits - 1) };
        let end = 10_u128.pow(digits).min(1 << 64);
        let at = |is_before: &dyn Fn(Ordering) -> bool| {
            partition_point(first.into(), end, |number| is_before(side(number)))
        };
        let from = at(&|side| side == Ordering::Less);
        let end = at(&|side| side != Ordering::Greater);
        (from < end).then(|| Self { from: from as u64, last: (end - 1) as u64 })
    }

    /// Removes the first number from the range, and returns it.
    fn take(&mut self) -> u64 {
        let first = self.from;
        match first.checked_add(1).filter(|next| *next <= self.last) {
            Some(next) => self.from = next,
            // No number is left: the range is empty.
            None => (self.from, self.last) = (1, 0),
        }
        first
    }
}

/// The first number for which `is_before` is false, as it is for all greater ones; `end` if there is none.
fn partition_point(mut first: u128, mut end: u128, is_before: impl Fn(u64) -> bool) -> u128 {
    while first < end {
        let middle = (first + end) / 2;
        match is_before(middle as u64) {
            true => first = middle + 1,
            false => end = middle,
        }
    }
    first
}

/// The IDs that `list` lists, in the order of their keys.
pub(crate) struct Ids<L, S> {
    runs: Runs<L>,
    /// Compares a prefix of keys with the requested keys: `Less` and `Greater` if all keys with it precede or follow
    /// them, else `Equal`.
    side: S,
    /// The high words of ids that are still to be listed.
    highs: Numbers,
    /// The ids that are still to be listed of the current high word.
    group: Option<(u64, Numbers)>,
}

impl<L, S> Ids<L, S>
where
    L: FnMut(&mut Anchor, usize) -> Result<Vec<ObjectId>>,
    S: Fn(&str) -> Ordering,
{
    /// The IDs that `list` lists. `side` compares a prefix of keys with the requested keys ([`Ids::side`]).
    pub(crate) fn new(list: L, side: S) -> Self {
        let highs = Numbers::new(|hi| side(&format!("{hi}.")));
        let runs = Runs { list, recent: VecDeque::new(), lists: 0 };
        Self { runs, side, highs, group: None }
    }

    /// The next ID that has a key, and the prefix of its keys. `beginning` returns that prefix, or `None` for an ID
    /// without keys.
    pub(crate) fn next(
        &mut self,
        beginning: impl Fn(ObjectId) -> Option<String>,
    ) -> Result<Option<(ObjectId, String)>> {
        loop {
            if let Some(oid) = self.next_of_group()? {
                if let Some(name) = beginning(oid) {
                    return Ok(Some((oid, name)));
                }
            } else if !self.next_group(&beginning)? {
                return Ok(None);
            }
        }
    }

    /// The next ID with the current high word; `None` after the last.
    fn next_of_group(&mut self) -> Result<Option<ObjectId>> {
        let Some((hi, numbers)) = &mut self.group else { return Ok(None) };
        let (hi, runs) = (*hi, &mut self.runs);
        let find = |lo| {
            let found = runs.next(ObjectId { hi, lo })?;
            Ok(found.filter(|oid| oid.hi == hi).map(|oid| oid.lo))
        };
        Ok(numbers.next(find)?.map(|lo| ObjectId { hi, lo }))
    }

    /// Goes to the next high word. False if there is none.
    fn next_group(&mut self, beginning: impl Fn(ObjectId) -> Option<String>) -> Result<bool> {
        let runs = &mut self.runs;
        let find = |hi| Ok(runs.next(ObjectId { hi, lo: 0 })?.map(|oid| oid.hi));
        let Some(hi) = self.highs.next(find)? else { return Ok(false) };
        // The high word contains the type of the object, so either all IDs of the group have keys or none has.
        let side = |lo| match beginning(ObjectId { hi, lo }) {
            Some(name) => (self.side)(&name),
            None => Ordering::Less,
        };
        self.group = Some((hi, Numbers::new(side)));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// The first `most` keys after `after`, and the number of IDs that were read for them.
    fn listed(all: &BTreeSet<ObjectId>, after: &str, most: usize) -> (Vec<String>, usize) {
        let looked = Cell::new(0);
        let list = |anchor: &mut Anchor, entries: usize| {
            let from = match &*anchor {
                Anchor::Start => ObjectId::default(),
                Anchor::After { position, .. } => {
                    let last = u128::from_be_bytes(position.as_slice().try_into().unwrap());
                    ObjectId::from_bytes((last + 1).to_be_bytes())
                }
                Anchor::End => panic!("listed after the end"),
            };
            let page: Vec<_> = all.range(from..).take(entries).copied().collect();
            looked.set(looked.get() + page.len());
            if page.len() < entries {
                *anchor = Anchor::End;
            }
            Ok(page)
        };
        let side = |name: &str| match name > after || after.starts_with(name) {
            true => Ordering::Equal,
            false => Ordering::Less,
        };
        let mut ids = Ids::new(list, side);
        let next = || ids.next(|oid| Some(oid.to_string())).unwrap().map(|(_, name)| name);
        let page = std::iter::from_fn(next).filter(|name| name.as_str() > after);
        let page = page.take(most).collect();
        (page, looked.get())
    }

    /// Lists all IDs in pages of `most` keys, and checks their order. No page may read more than `looked_max` IDs.
    fn check_pages(all: &BTreeSet<ObjectId>, most: usize, looked_max: usize) {
        let mut sorted: Vec<_> = all.iter().map(ObjectId::to_string).collect();
        sorted.sort();
        let mut after = String::new();
        let mut pages = Vec::new();
        loop {
            let (page, looked) = listed(all, &after, most);
            assert!(looked <= looked_max, "{looked} IDs were looked at for a page after {after:?}");
            let Some(last) = page.last() else { break };
            after = last.clone();
            pages.extend(page);
        }
        assert!(pages == sorted, "{} of {} keys", pages.len(), sorted.len());
    }

    /// Two sets of IDs: consecutive ones as `esker array` makes them, and hashes of names.
    fn many(count: u64) -> [BTreeSet<ObjectId>; 2] {
        let counted = (0..count).map(|lo| ObjectId { hi: 576_742_238_483_139_410, lo });
        let mixed = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hashed = (0..count).map(|number| {
            let hi = (576_742_238_483_139_410 & !0xffff_ffff) | (mixed(number) >> 32);
            ObjectId { hi, lo: mixed(number ^ 0x5555) }
        });
        [counted.collect(), hashed.collect()]
    }

    #[test]
    fn page_reads_few_ids_of_a_large_container() {
        for all in many(100_000) {
            check_pages(&all, 1000, 3000);
        }
    }

    #[test]
    fn ids_are_listed_in_the_order_of_their_keys() {
        let words = [0, 1, 9, 10, 11, 19, 99, 100, 101, 110, 1 << 32, u64::MAX - 1, u64::MAX];
        let each = |hi: u64| words.map(|lo| ObjectId { hi, lo });
        let all: BTreeSet<_> = words.into_iter().flat_map(each).collect();
        for most in [1, 2, 7, 1000] {
            check_pages(&all, most, usize::MAX);
        }
        for all in many(300) {
            check_pages(&all, 7, usize::MAX);
        }
        let mut sorted: Vec<_> = all.iter().map(ObjectId::to_string).collect();
        sorted.sort();
        for after in ["", " ", "x", "1", "1.", "1.1", "10/", "10a", "9.99/name", "0.0", "18.", "."]
        {
            let later: Vec<_> = sorted.iter().filter(|key| key.as_str() > after).collect();
            let page = listed(&all, after, usize::MAX).0;
            assert_eq!(page.iter().collect::<Vec<_>>(), later, "{after:?}");
        }
    }
}
