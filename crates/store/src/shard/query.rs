//! Queries of the smallest and largest keys and extents, and of the last epoch of an object.
use super::scan::Visible;
use super::{ReadView, Scope, Target, scan, slot_of};
use crate::format::keys::{ARRAY, Key, Table};
use esker_types::info::ContainerId;
use esker_types::ops::{Edge, KeyFound, KeyQuery, ReadAt, View};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};

/// A query on one target.
struct Search<'t> {
    at: &'t ReadView<'t>,
    view: View,
    query: KeyQuery<'t>,
    /// Lower bound: only dkeys after this one match.
    after: Option<Key>,
    oid: ObjectId,
}

impl Target {
    /// The smallest or largest key or extent on this target; `None` if there is none.
    pub fn query_key(
        &self,
        container: ContainerId,
        oid: ObjectId,
        query: KeyQuery<'_>,
        at: ReadAt<'_>,
    ) -> Result<Option<KeyFound>> {
        if query.want_extent && query.akey.is_none() && !query.want_akey {
            return Err(Error::new(ErrorKind::Invalid, "an extent is requested without an akey"));
        }
        let key = |dkey| Key::dkey(Table::Data, container, oid, dkey);
        let prefix = match query.dkey {
            Some(dkey) => key(dkey)?,
            None => Key::object(Table::Data, container, oid),
        };
        let scope = Scope::UnderSlot(&prefix, slot_of(container, oid, query.dkey));
        let view = self.view_of_object(scope, at, container, oid, query.dkey)?;
        let after = query.after.map(key).transpose()?;
        let search = Search { at: &view, view: at.view, query, after, oid };
        match query.dkey {
            Some(dkey) => search.in_dkey(&prefix, dkey),
            None => search.over_dkeys(&prefix),
        }
    }

    /// Epoch of the last write to existing data of an object or one of its dkeys; zero if nothing exists.
    pub fn last_epoch(
        &self,
        container: ContainerId,
        oid: ObjectId,
        dkey: Option<&[u8]>,
        at: ReadAt<'_>,
    ) -> Result<Epoch> {
        let prefix = match dkey {
            Some(dkey) => Key::dkey(Table::Data, container, oid, dkey)?,
            None => Key::object(Table::Data, container, oid),
        };
        let view = self.view_of_object(Scope::Under(&prefix), at, container, oid, dkey)?;
        let mut scan = scan::Scan::new(&view, prefix.clone(), at.view)?;
        let mut latest = Epoch(0);
        let mut next = scan.seek(&prefix)?;
        while let Some(visible) = next {
            latest = latest.max(visible.record()?.epoch);
            next = scan.after(&visible.key)?;
        }
        Ok(latest)
    }
}

impl Search<'_> {
    /// Answer to a query that names no dkey: the first dkey of the object in which the query finds something or, for
    /// [`Edge::Max`], the last one. `None` if there is none.
    fn over_dkeys(&self, object: &Key) -> Result<Option<KeyFound>> {
        let begin = self.after.as_ref().filter(|_| self.query.edge == Edge::Min);
        let mut next = self.outermost(object, begin)?;
        // The last extent of an akey is often that of the last record of the object.
        if let Some(found) = next.as_ref().map(|last| self.last_extent(last)).transpose()?.flatten()
        {
            return Ok(Some(found));
        }
        while let Some(visible) = next.filter(|visible| self.is_after_bound(visible)) {
            let (parts, left_out) = (visible.parts()?, visible.record()?.left_out);
            let prefix = Key::table(Table::Data).push(&parts.dkey_prefix()[1..]);
            if let Some(found) = self.in_dkey(&prefix, &parts.dkey(left_out)?)? {
                return Ok(Some(found));
            }
            next = self.outermost(object, Some(&prefix))?;
        }
        Ok(None)
    }

    /// The extent of the last record of an object, if the query asks for the last extent of its akey.
    fn last_extent(&self, last: &Visible) -> Result<Option<KeyFound>> {
        let KeyQuery { edge, akey, want_akey, want_extent, .. } = self.query;
        let (parts, record) = (last.parts()?, last.record()?);
        let (Some(akey), Some(start)) = (akey, parts.start) else { return Ok(None) };
        let is_wanted = (edge, self.view) == (Edge::Max, View::Latest) && want_extent && !want_akey;
        if !is_wanted || parts.akey(record.left_out)? != akey || !self.is_after_bound(last) {
            return Ok(None);
        }
        let extent = Some(Extent::new(start, record.count));
        let dkey = parts.dkey(record.left_out)?.to_vec();
        Ok(Some(KeyFound { dkey, akey: akey.to_vec(), extent }))
    }

    /// True for entries after the lower bound.
    fn is_after_bound(&self, visible: &Visible) -> bool {
        self.after.as_ref().is_none_or(|after| visible.key[..] >= after.successor()[..])
    }

    /// The answer to the query within one dkey; `None` if nothing in it matches.
    fn in_dkey(&self, prefix: &Key, dkey: &[u8]) -> Result<Option<KeyFound>> {
        if let (false, Some(akey)) = (self.query.want_akey, self.query.akey) {
            return self.in_akey(&prefix.akey(self.oid, akey)?, dkey, akey);
        }
        if !self.query.want_akey {
            let any = self.outermost(prefix, None)?;
            let found = KeyFound { dkey: dkey.to_vec(), akey: Vec::new(), extent: None };
            return Ok(any.map(|_| found));
        }
        let mut next = self.outermost(prefix, None)?;
        while let Some(visible) = next {
            let (parts, left_out) = (visible.parts()?, visible.record()?.left_out);
            let akey_prefix = Key::table(Table::Data).push(&parts.akey_prefix()[1..]);
            if let Some(found) = self.in_akey(&akey_prefix, dkey, &parts.akey(left_out)?)? {
                return Ok(Some(found));
            }
            next = self.outermost(prefix, Some(&akey_prefix))?;
        }
        Ok(None)
    }

    /// The answer to the query within one akey: the akey itself or, if wanted, its outermost extent.
    fn in_akey(&self, prefix: &Key, dkey: &[u8], akey: &[u8]) -> Result<Option<KeyFound>> {
        let mut found = KeyFound { dkey: dkey.to_vec(), akey: akey.to_vec(), extent: None };
        if !self.query.want_extent {
            return Ok(self.outermost(prefix, None)?.map(|_| found));
        }
        let Some(outermost) = self.outermost(&prefix.clone().push(&[ARRAY]), None)? else {
            return Ok(None);
        };
        let start = outermost.start();
        if let Some(visible) =
            scan::extents(self.at, prefix, Extent::new(start, 1), self.view, 1)?.first()
        {
            found.extent = Some(Extent::new(visible.start(), visible.record()?.count));
        }
        Ok(Some(found))
    }

    /// The first visible record under `prefix`. With `bound`, it comes after all records under `bound`. For
    /// [`Edge::Max`], the last visible record, which comes before `bound`. `None` if there is no such record.
    fn outermost(&self, prefix: &Key, bound: Option<&Key>) -> Result<Option<Visible>> {
        match (self.query.edge, self.view) {
            (Edge::Min, _) => {
                let from = bound.map_or_else(|| prefix.clone(), Key::successor);
                scan::Scan::new(self.at, prefix.clone(), self.view)?.seek(&from)
            }
            (Edge::Max, View::Latest) => {
                let end = bound.cloned().unwrap_or_else(|| prefix.successor());
                let last = self.at.cursor()?.seek_before(&end)?;
                Ok(last.filter(|(key, _)| key.starts_with(prefix)).map(scan::to_visible))
            }
            (Edge::Max, View::Snapshot(_)) => self.last_in_snapshot(prefix, bound),
        }
    }

    /// Finds the last record of a snapshot by visiting all, since snapshots are merged in ascending order only.
    fn last_in_snapshot(&self, prefix: &Key, bound: Option<&Key>) -> Result<Option<Visible>> {
        let mut scan = scan::Scan::new(self.at, prefix.clone(), self.view)?;
        let mut last = None;
        let mut next = scan.seek(prefix)?;
        while let Some(visible) = next.take_if(|v| bound.is_none_or(|bound| v.key[..] < bound[..]))
        {
            next = scan.after(&visible.key)?;
            last = Some(visible);
        }
        Ok(last)
    }
}
