//! Transactions over nodes: each adds its number to two lists, which are mostly on different nodes. A transaction takes
//! effect completely or not, once, and in the same order in all lists.
use esker_backend::OpenContainer;
use esker_types::ops::{
    Change, Cond, DkeyFetch, Fetch, ReadAt, ReadTokens, Sink, Source, Update, Value, View, Write,
    WriteOp,
};
use esker_types::{ObjectClass, ObjectId, ObjectType, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Lists, each in an object of its own.
pub(crate) const ACCOUNTS: u64 = 5;

/// Longest list in bytes.
const LIST_MAX: usize = 64 << 10;

/// Bytes of a number in a list.
const NUMBER: usize = 8;

/// Results of the transactions.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Numbers of acknowledged transactions.
    pub(crate) done: BTreeSet<u64>,
    /// Numbers of transactions that had to restart.
    pub(crate) undone: BTreeSet<u64>,
    /// Number of times that all lists were read at one moment.
    pub(crate) audits: u64,
}

/// The object of a list.
fn oid(account: u64) -> ObjectId {
    ObjectId::generate(0, 1000 + account, ObjectType::MultiHashed, ObjectClass::S1)
}

/// Reads a list, and records the read in `tokens`.
async fn read(container: &dyn OpenContainer, account: u64, tokens: &ReadTokens) -> Result<Vec<u8>> {
    let mut list = vec![0; LIST_MAX];
    let mut akeys = [Fetch::single(b"a", Sink::One(&mut list))];
    let mut dkeys = [DkeyFetch { dkey: b"list", cond: Cond::NONE, akeys: &mut akeys }];
    let at = ReadAt { view: View::Latest, tokens: Some(tokens) };
    container.fetch(oid(account), &mut dkeys, at).await?;
    let len = akeys[0].reply.size as usize;
    list.truncate(len);
    Ok(list)
}

/// Adds `number` to two lists.
pub(crate) async fn transfer(
    container: &dyn OpenContainer,
    number: u64,
    accounts: [u64; 2],
) -> Result<()> {
    let tokens = ReadTokens::default();
    let mut lists = Vec::new();
    for account in accounts {
        let mut list = read(container, account, &tokens).await?;
        list.extend_from_slice(&number.to_le_bytes());
        lists.push(list);
    }
    let update =
        |list| Update { akey: b"a", value: Value::Single(Source::One(list)), cond: Cond::NONE };
    let updates: Vec<_> = lists.iter().map(|list| [update(list)]).collect();
    let write = |(account, updates): (u64, _)| Write {
        oid: oid(account),
        op: WriteOp::Update { dkey: b"list", cond: Cond::NONE, updates },
    };
    let writes: Vec<_> =
        accounts.into_iter().zip(updates.iter().map(|of| &of[..])).map(write).collect();
    container
        .write(Change { tokens: Some(&tokens), ..Change::from_writes(&writes) })
        .await
        .map(drop)
}

/// All lists, as they were at one moment.
pub(crate) async fn audit(container: &dyn OpenContainer) -> Result<Vec<Vec<u64>>> {
    let tokens = ReadTokens::default();
    let mut lists = Vec::new();
    for account in 0..ACCOUNTS {
        let list = read(container, account, &tokens).await?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        lists.push(list.chunks(NUMBER).map(number).collect());
    }
    container.write(Change { tokens: Some(&tokens), ..Change::from_writes(&[]) }).await?;
    Ok(lists)
}

/// Positions of a number: lists, and indexes in them.
type Places = Vec<(usize, usize)>;

/// The positions of each number in the lists.
fn places(lists: &[Vec<u64>]) -> BTreeMap<u64, Places> {
    let mut places: BTreeMap<u64, Places> = BTreeMap::new();
    for (list, numbers) in lists.iter().enumerate() {
        for (position, number) in numbers.iter().enumerate() {
            places.entry(*number).or_default().push((list, position));
        }
    }
    places
}

/// A defect of lists that were read at one moment, if any.
pub(crate) fn wrong(lists: &[Vec<u64>]) -> Option<String> {
    let places = places(lists);
    for (number, of) in &places {
        if !matches!(of[..], [(first, _), (second, _)] if first != second) {
            return Some(format!("transaction {number} is at {of:?}, not in two lists: {lists:?}"));
        }
    }
    let turned = |(one, other): (&Places, &Places)| {
        let same_lists = one[0].0 == other[0].0 && one[1].0 == other[1].0;
        same_lists && (one[0].1 < other[0].1) != (one[1].1 < other[1].1)
    };
    let mut pairs = places
        .values()
        .enumerate()
        .flat_map(|(number, one)| places.values().skip(number + 1).map(move |other| (one, other)));
    pairs.find(|pair| turned(*pair)).map(|pair| format!("two orders of {pair:?}: {lists:?}"))
}

impl Ledger {
    /// A defect of the final lists, if any.
    pub(crate) fn wrong(&self, lists: &[Vec<u64>]) -> Option<String> {
        let present: BTreeSet<u64> = lists.iter().flatten().copied().collect();
        let lost = self.done.difference(&present).next().map(|lost| format!("{lost} was lost"));
        let undead = self.undone.intersection(&present).next();
        let undead = undead.map(|number| format!("{number} was done, but had to restart"));
        wrong(lists).or(lost).or(undead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_repeated_and_reordered_transactions_are_found() {
        assert_eq!(wrong(&[vec![1, 2], vec![1, 2]]), None);
        assert_eq!(wrong(&[vec![1, 2], vec![1], vec![2]]), None);
        assert!(wrong(&[vec![1, 2], vec![1]]).is_some(), "half of a transaction");
        assert!(wrong(&[vec![1, 1], vec![]]).is_some(), "twice in a list");
        assert!(wrong(&[vec![1], vec![1], vec![1]]).is_some(), "in three lists");
        assert!(wrong(&[vec![1, 2], vec![2, 1]]).is_some(), "two orders");
        let ledger = Ledger { done: [1].into(), undone: [2].into(), audits: 0 };
        assert_eq!(ledger.wrong(&[vec![1], vec![1]]), None);
        assert!(ledger.wrong(&[vec![], vec![]]).is_some(), "lost");
        assert!(ledger.wrong(&[vec![1, 2], vec![1, 2]]).is_some(), "one that had to restart");
    }
}
