//! Queries to a store, for any number of requests together.
use super::request::Wanted;
use esker::types::Result;
use esker_fields::{
    Axes, Counted, FieldStore, Found, Key, Listed, Moved, Moving, Purged, Selection, Stats, Wiped,
};
use std::collections::BTreeMap;

/// Counts by name.
pub(super) type Counts = Vec<(&'static str, u64)>;

/// The fields of all requests. Unless `partial`, none may be missing.
pub(super) fn find(store: &FieldStore, wanted: Wanted, partial: bool) -> Result<Found> {
    let mut all = Found { fields: Vec::new(), missing: Vec::new(), missing_count: 0 };
    wanted.each(store, |selection| {
        if !partial {
            all.fields.append(&mut store.retrieve(selection)?);
            return Ok(());
        }
        let mut found = store.find(selection)?;
        all.fields.append(&mut found.fields);
        all.missing.append(&mut found.missing);
        all.missing_count += found.missing_count;
        Ok(())
    })?;
    Ok(all)
}

/// The fields that match, current or masked.
pub(super) fn list(store: &FieldStore, wanted: Wanted, masked: bool) -> Result<Found> {
    let mut fields = Vec::new();
    wanted.each(store, |selection| {
        if !masked {
            let listed = store.list(selection)?.into_iter();
            fields.extend(listed.map(|listed| store.listed(listed)));
            return Ok(());
        }
        store.visit(selection, masked, |listed| {
            fields.push(store.listed(listed));
            Ok(true)
        })
    })?;
    Ok(Found { fields, missing: Vec::new(), missing_count: 0 })
}

/// The values of each name over all requests; with `empty`, also the empty values of names that fields lack.
pub(super) fn axes(
    store: &FieldStore,
    wanted: Wanted,
    empty: bool,
) -> Result<BTreeMap<String, Vec<String>>> {
    let mut axes = Axes::new(store.schema());
    let axes_of = |selection: &Selection| match empty {
        true => store.axes_with_empty(selection),
        false => store.axes(selection),
    };
    for some in wanted.each(store, axes_of)? {
        for (name, values) in some.iter() {
            values.for_each(|value| axes.add_value(name, value));
        }
    }
    Ok(axes.to_map())
}

/// Statistics of the fields.
pub(super) fn stats(store: &FieldStore, wanted: Wanted) -> Result<Counts> {
    let all = wanted.each(store, |selection| store.stats(selection))?;
    let sum = |of: fn(&Stats) -> u64| all.iter().map(of).sum();
    Ok(vec![
        ("databases", sum(|stats| stats.databases)),
        ("indexes", sum(|stats| stats.indexes)),
        ("fields", sum(|stats| stats.fields)),
        ("bytes", sum(|stats| stats.bytes)),
        ("adopted", sum(|stats| stats.adopted)),
        ("adopted_bytes", sum(|stats| stats.adopted_bytes)),
        ("masked", sum(|stats| stats.masked)),
        ("masked_bytes", sum(|stats| stats.masked_bytes)),
    ])
}

/// Counts of the fields that a wipe removed, or would remove.
pub(super) fn wipe(store: &FieldStore, wanted: Wanted, doit: bool) -> Result<Counts> {
    let all = wanted.each(store, |selection| store.wipe(selection, doit, |_| Ok(())))?;
    let sum = |of: fn(&Wiped) -> u64| all.iter().map(of).sum();
    Ok(vec![
        ("fields", sum(|wiped| wiped.fields)),
        ("masked", sum(|wiped| wiped.masked)),
        ("bytes", sum(|wiped| wiped.bytes)),
    ])
}

/// Counts of the fields that a purge removed, or would remove.
pub(super) fn purge(store: &FieldStore, wanted: Wanted, doit: bool) -> Result<Counts> {
    let all = wanted.each(store, |selection| store.purge(selection, doit, |_| Ok(())))?;
    let sum = |of: fn(&Purged) -> u64| all.iter().map(of).sum();
    Ok(vec![
        ("masked", sum(|purged| purged.masked)),
        ("unflushed", sum(|purged| purged.unflushed)),
        ("removed", sum(|purged| purged.removed)),
        ("bytes", sum(|purged| purged.bytes)),
    ])
}

/// A database, or an index in it, with its fields.
pub(super) struct Row {
    pub(super) database: Key,
    pub(super) index: Option<Key>,
    pub(super) fields: u64,
    pub(super) bytes: u64,
}

/// The databases with fields of the requests.
pub(super) fn databases(store: &FieldStore, wanted: Wanted) -> Result<Vec<Row>> {
    let all = wanted.each(store, |selection| store.by_database(selection))?;
    let row = |(database, fields, bytes)| Row { database, index: None, fields, bytes };
    Ok(all.into_iter().flatten().map(row).collect())
}

/// The indexes with fields of the requests.
pub(super) fn indexes(store: &FieldStore, wanted: Wanted) -> Result<Vec<Row>> {
    let all = wanted.each(store, |selection| store.by_index(selection))?;
    let row = |Counted { database, index, fields, bytes }| {
        let index = Some(index);
        Row { database, index, fields, bytes }
    };
    Ok(all.into_iter().flatten().map(row).collect())
}

/// Moves fields and counts them; only counts them if `to` opens no store. A refused move does not open `to`.
pub(super) fn move_fields(
    store: &FieldStore,
    wanted: Wanted,
    to: impl FnOnce() -> Result<Option<FieldStore>>,
    how: Moving,
) -> Result<Counts> {
    let mut all = Moved::default();
    // Refuses the move before it moves any field.
    let selections = wanted.each(store, |selection| {
        if !how.keep {
            store.check_move(selection)?;
        }
        Ok(selection.clone())
    })?;
    let to = to()?;
    for selection in &selections {
        let moved = match &to {
            Some(to) => store.move_to(selection, to, how, |_| Ok(()))?,
            None => movable(store, selection)?,
        };
        all.fields += moved.fields;
        all.bytes += moved.bytes;
        all.there += moved.there;
        all.left += moved.left;
    }
    let Moved { fields, bytes, there, left } = all;
    Ok(vec![("fields", fields), ("bytes", bytes), ("there", there), ("left", left)])
}

/// Counts the fields that a move would move.
fn movable(store: &FieldStore, selection: &Selection) -> Result<Moved> {
    let mut moved = Moved::default();
    store.visit(selection, false, |listed: Listed| {
        (moved.fields, moved.bytes) = (moved.fields + 1, moved.bytes + listed.location.bytes);
        Ok(true)
    })?;
    Ok(moved)
}
