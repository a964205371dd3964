//! Damage detection: `check` verifies all structures, `scrub` reads all data.
use crate::commit::{
    Prepared, all_prepared, damaged_intent, is_sound_decision, is_sound_reply, is_sound_watermark,
    recover, repair_watermark, staged_on,
};
use crate::data::table::SegmentState;
use crate::format::keys::{DataKey, Table};
use crate::format::record::{self, Body, Record, parse_entry};
use crate::format::superblock::Superblock;
use crate::index::entries;
use crate::index::pages::{check_all, check_pinned};
use crate::index::txn::Txn;
use crate::io::folder::Folder;
use crate::pool::{Pool, Progress, Purpose, declare_sound, refuse_damaged};
use crate::shard::open_pool::OpenPool;
use crate::shard::{ReadView, Scope, Target, all_data, walk};
use esker_types::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Problems, one message each; empty for a sound pool.
    pub problems: Vec<String>,
    /// True if the problems are damaged pages of an index. No repair can mend them.
    pub pages_damaged: bool,
    /// Completed repairs, one message each.
    pub repaired: Vec<String>,
    /// Number of index records verified.
    pub records: u64,
    /// Bytes of data that the records refer to.
    pub live_bytes: u64,
    /// Bytes that count as live although no record refers to them.
    pub lost_bytes: u64,
    /// Segments with lost bytes, one message each.
    pub lost: Vec<String>,
}

impl CheckReport {
    fn of_damaged_pages(problems: Vec<String>) -> Self {
        Self { problems, pages_damaged: true, ..Self::default() }
    }
}

/// Result of a scrub.
#[derive(Clone, Debug, Default)]
pub struct ScrubReport {
    /// Number of records read.
    pub records: u64,
    /// Bytes of data that were read and compared with their checksums.
    pub bytes: u64,
    /// Damaged objects, one message each; empty for sound data.
    pub damaged: Vec<String>,
}

impl Pool {
    /// Verifies the pages of all indexes of the pool at `path` without LMDB, which trusts the fields of a damaged page.
    /// Tools that read complete indexes call this first.
    ///
    /// # Errors
    /// `Corrupt` if a page is damaged.
    pub fn check_pages(path: &Path) -> Result<()> {
        refuse_damaged(&Folder::open(path)?, false)
    }

    /// Verifies all structures of the pool at `path`. With `repair`, and if no other process has the pool open, it
    /// removes damaged records and recounts all space. After a crash of the machine, a pool may be refused. It can be
    /// opened again once a repairing check has found it sound.
    pub fn check(path: &Path, repair: bool, progress: Progress<'_>) -> Result<CheckReport> {
        Superblock::read(path)?;
        let path = esker_os::resolve_links(path)?;
        let pages = check_all(&Folder::open(&path)?, false)?;
        if !pages.pages.is_empty() {
            return Ok(CheckReport::of_damaged_pages(pages.pages));
        }
        let state = OpenPool::shared(&path, Purpose::Check)?;
        let problems = state.check_pinned_pages(&path, &pages.unproven)?;
        if !problems.is_empty() {
            return Ok(CheckReport::of_damaged_pages(problems));
        }
        let mut report = CheckReport::default();
        state.check(repair, progress, &mut report)?;
        Ok(report)
    }
}

impl OpenPool {
    /// Verifies the pages of the indexes of some targets while other processes commit. Returns the problems. Only one index
    /// at a time is pinned, since its writers cannot reuse pages meanwhile.
    fn check_pinned_pages(&self, path: &Path, targets: &[u32]) -> Result<Vec<String>> {
        let pool = Folder::open(path)?;
        let mut problems = Vec::new();
        for target in self.targets.iter().filter(|target| targets.contains(&target.number())) {
            let pin = target.index().read()?;
            problems.append(&mut check_pinned(&pool, target.number())?);
            drop(pin);
        }
        Ok(problems)
    }

    /// Runs a check. During a repair, other processes cannot open the pool.
    fn check(&self, repair: bool, progress: Progress<'_>, report: &mut CheckReport) -> Result<()> {
        if repair || !self.control.is_current() {
            self.control.exclusively(|| self.check_now(repair, progress, report))
        } else {
            self.check_now(repair, progress, report)
        }
    }

    /// Body of [`OpenPool::check`]: first the write buffers and intents, then the records, then the counts of space. The shared
    /// atomics are `current` unless the machine restarted since they were set up. Space is compared only if no other
    /// process can change it.
    fn check_now(
        &self,
        repair: bool,
        progress: Progress<'_>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let alone = !self.control.others_alive();
        let current = self.control.is_current();
        let repairs = repair && alone;
        for target in &self.targets {
            check_buffer(target, repairs, report)?;
        }
        if !report.problems.is_empty() {
            return Ok(()); // The records cannot be read without a sound buffer.
        }
        for target in &self.targets {
            check_intent(target, repairs, report)?;
        }
        if !report.problems.is_empty() {
            return Ok(()); // The records may miss a part of the commit.
        }
        if current {
            self.targets.iter().try_for_each(|target| collect(target))?;
        } else if alone {
            recover(&self.targets)?;
        }
        // A damaged prepared commit is reported with the records.
        let prepared = all_prepared(&self.targets).unwrap_or_default();
        let total = self.targets.len() as u64;
        let mut miscounted = Vec::new();
        for (number, target) in self.targets.iter().enumerate() {
            let mut problems = Vec::new();
            let damaged = check_records(target, report, &mut problems)?;
            if repairs && !damaged.is_empty() {
                remove(target, &damaged)?;
                report.repaired.append(&mut problems);
            }
            report.problems.append(&mut problems);
            if repairs && current {
                report.repaired.append(&mut target.repair_space()?);
            }
            if alone && current {
                check_space(target, &prepared, report, &mut miscounted)?;
            }
            progress(number as u64 + 1, total);
        }
        if repairs && report.problems.is_empty() {
            self.recount(&mut miscounted, report)?;
        }
        report.problems.append(&mut miscounted);
        if report.lost_bytes > 0 {
            report.problems.push(format!(
                "{} bytes count as live although no record refers to them",
                report.lost_bytes
            ));
        }
        Ok(())
    }

    /// Counts all space again from the records. So wrong counts are reported as repaired and not as problems.
    fn recount(&self, miscounted: &mut Vec<String>, report: &mut CheckReport) -> Result<()> {
        declare_sound(&self.control, &self.targets)?;
        report.repaired.append(miscounted);
        if report.lost_bytes > 0 {
            report.repaired.push(format!("recounted space: {} bytes", report.lost_bytes));
            report.repaired.append(&mut report.lost);
            report.lost_bytes = 0;
        }
        Ok(())
    }

    /// Reads all data and verifies its checksums.
    pub fn scrub(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        let mut report = ScrubReport::default();
        let used = |target: &Arc<Target>| walk::usage(target, &[]).map(|usage| live(&usage));
        let total = self.targets.iter().map(used).sum::<Result<u64>>()?;
        for target in &self.targets {
            scrub_target(target, total, progress, &mut report)?;
        }
        for prepared in all_prepared(&self.targets)? {
            self.scrub_prepared(&prepared, &mut report);
        }
        Ok(report)
    }

    /// Reads the data that the records of a prepared commit refer to.
    fn scrub_prepared(&self, prepared: &Prepared, report: &mut ScrubReport) {
        for (number, key, value) in prepared.puts() {
            let Some(target) = self.targets.get(number as usize) else { continue };
            let Some(Ok((_, record))) =
                Table::of_key(key).filter(is_record).map(|table| parse_entry(table, key, value))
            else {
                continue;
            };
            if let Err(error) = scrub_record(target, key, &record, report) {
                report.damaged.push(format!("{}: {error}", name(target, key)));
            }
        }
    }

    /// Compacts until no more space can be freed. Returns the number of freed bytes.
    pub fn compact(&self, progress: Progress<'_>) -> Result<u64> {
        let mut freed = 0;
        for (number, target) in self.targets.iter().enumerate() {
            let before = target.free_segment_bytes();
            target.flush()?;
            target.compact_all()?;
            freed += target.free_segment_bytes().saturating_sub(before);
            progress(number as u64 + 1, self.targets.len() as u64);
        }
        Ok(freed)
    }
}

/// Reports a damaged write buffer. A repair commits the undamaged puts in it and empties it.
fn check_buffer(target: &Target, repairs: bool, report: &mut CheckReport) -> Result<()> {
    match target.committed_and_buffered() {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
        Err(_) => {}
    }
    let number = target.number();
    if !repairs {
        let message = format!("target {number}: the write buffer is damaged");
        report.problems.push(message);
        return Ok(());
    }
    let count = target.recover_buffer()?;
    report.repaired.push(format!(
        "target {number}: the write buffer was damaged: {count} puts in it were recovered, others are lost"
    ));
    Ok(())
}

/// Reports a damaged intent of a commit over several targets. A repair removes it: it is no longer needed, unless the
/// machine stopped or a process died during the commit.
fn check_intent(target: &Target, repairs: bool, report: &mut CheckReport) -> Result<()> {
    let Some(key) = damaged_intent(target)? else { return Ok(()) };
    let what = format!(
        "target {}: the intent of its last commit over several targets is damaged",
        target.number()
    );
    if !repairs {
        report.problems.push(what);
        return Ok(());
    }
    remove(target, &[key.to_vec()])?;
    report.repaired.push(format!("{what}; if the commit was interrupted, other targets miss it"));
    Ok(())
}

fn is_record(table: &Table) -> bool {
    matches!(table, Table::Data | Table::History)
}

fn live(usage: &walk::Usage) -> u64 {
    usage.segments.values().map(|used| used.live).sum()
}

/// Verifies every record; returns the keys of the damaged ones.
fn check_records(
    target: &Target,
    report: &mut CheckReport,
    problems: &mut Vec<String>,
) -> Result<Vec<Vec<u8>>> {
    let view = target.view_in_doubt(Scope::Under(&all_data()))?;
    let txn = view.committed();
    let mut damaged = Vec::new();
    let mut previous: Option<(Vec<u8>, u64)> = None;
    walk::records(&view, |key, found| {
        report.records += 1;
        let trouble = match &found {
            Err(error) => Some(error.to_string()),
            Ok((parts, record)) => {
                report.live_bytes += record.bytes();
                let misplaced = misplaced(target, parts, record);
                let trouble = misplaced.or_else(|| overlaps(&mut previous, parts, record));
                trouble.or_else(|| wrong_key(parts, record))
            }
        };
        if let Some(trouble) = trouble {
            problems.push(format!("{}: {trouble}", name(target, key)));
            damaged.push(key.to_vec());
        }
        Ok(())
    })?;
    entries::table(txn, Table::Reply, |key, value| {
        if !is_sound_reply(key, value) {
            problems.push(format!(
                "target {}: an entry of the reply cache is damaged",
                target.number()
            ));
            damaged.push(key.to_vec());
        }
    })?;
    check_commits(target, txn, problems, &mut damaged)?;
    Ok(damaged)
}

/// Verifies the stored state of commits over several nodes.
fn check_commits(
    target: &Target,
    txn: &Txn,
    problems: &mut Vec<String>,
    damaged: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let mut report = |key: &[u8], what: &str| {
        problems.push(format!("target {}: {what}", target.number()));
        damaged.push(key.to_vec());
    };
    entries::table(txn, Table::Prepared, |key, value| {
        if Prepared::decode(key, value).is_err() {
            report(key, "a prepared commit is damaged");
        }
    })?;
    entries::table(txn, Table::Decision, |key, value| {
        if !is_sound_decision(key, value) {
            report(key, "a decision about a commit over several nodes is damaged");
        }
    })?;
    entries::table(txn, Table::Watermark, |key, value| {
        if !is_sound_watermark(value) {
            report(key, "the watermark of commit decisions is damaged");
        }
    })
}

/// Takes over the segments of dead processes, unless the target waits for a commit that another node decides.
fn collect(target: &Target) -> Result<()> {
    if target.is_prepared() {
        return Ok(());
    }
    match target.collect() {
        Err(error) if error.kind() == ErrorKind::InDoubt => Ok(()),
        collected => collected,
    }
}

fn name(target: &Target, key: &[u8]) -> String {
    format!("target {}, {}", target.number(), record::object_of(key))
}

/// Describes a record whose data has a wrong length, or is not within the segments; `None` for a sound one.
fn misplaced(target: &Target, _: &DataKey<'_>, record: &Record<'_>) -> Option<String> {
    let bytes = match record.body {
        Body::Inline(data) => {
            return (data.len() as u64 != record.bytes())
                .then(|| "the inline data has a wrong length".to_owned());
        }
        Body::Segment(place) => place,
    };
    let end = u64::from(bytes.offset) + record.bytes();
    let inside = bytes.segment < target.segment_count()
        && end <= target.segment_bytes()
        && bytes.base <= bytes.offset
        && end <= u64::from(bytes.base) + u64::from(bytes.covered);
    (!inside).then(|| "the data is outside the segments".to_owned())
}

/// Describes an extent that overlaps the one before it in the same akey; `None` if it does not. `previous` is the akey
/// and the end of the extent that was visited before. Records of the history, which have a time of creation, may
/// overlap.
fn overlaps(
    previous: &mut Option<(Vec<u8>, u64)>,
    parts: &DataKey<'_>,
    record: &Record<'_>,
) -> Option<String> {
    let start = parts.start.filter(|_| parts.created.is_none())?;
    let clash =
        previous.as_ref().is_some_and(|(akey, end)| akey == parts.akey_prefix() && *end > start);
    *previous = Some((parts.akey_prefix().to_vec(), start.saturating_add(record.count)));
    clash.then(|| "extents overlap".to_owned())
}

/// Describes long keys whose hash does not match the index key; `None` if it matches.
fn wrong_key(parts: &DataKey<'_>, record: &Record<'_>) -> Option<String> {
    let keys = parts.dkey(record.left_out).and_then(|_| parts.akey(record.left_out));
    keys.is_err().then(|| "the rest of a long key does not match its hash".to_owned())
}

/// Removes damaged entries. The watermark depends on the decisions, so it is set again if one of them is removed.
fn remove(target: &Target, keys: &[Vec<u8>]) -> Result<()> {
    let mut txn = target.begin_in_doubt()?;
    for key in keys {
        txn.delete(key)?;
    }
    let is_about_decisions =
        |key: &Vec<u8>| matches!(Table::of_key(key), Some(Table::Decision | Table::Watermark));
    if keys.iter().any(is_about_decisions) {
        repair_watermark(&mut txn, target.control.next_epoch())?;
    }
    txn.commit()
}

/// Compares the live and dead bytes of each segment with the records of the index.
fn check_space(
    target: &Target,
    prepared: &[Prepared],
    report: &mut CheckReport,
    miscounted: &mut Vec<String>,
) -> Result<()> {
    let usage = walk::usage(target, &staged_on(prepared, target.number()))?;
    let (mut unfit, mut damage) = target.space_problems(&usage)?;
    miscounted.append(&mut unfit);
    report.problems.append(&mut damage);
    let atomics = target.shared();
    for number in 0..target.segment_count() {
        let segment = atomics.segment(number);
        if target.is_prepared() && matches!(segment.load(), SegmentState::Busy(_)) {
            continue; // The owner is dead. The segment is counted once the commit is resolved.
        }
        let dead = usage.dead.get(&number).copied().unwrap_or(0);
        let (counted, state) = (segment.live(dead), segment.load());
        let named = usage.segments.get(&number).copied().unwrap_or_default().live;
        let message = || {
            format!(
                "target {}, segment {number}: {named} bytes referenced, {counted} counted, {dead} dead, \
                 {state:?}",
                target.number()
            )
        };
        let unusable =
            matches!(state, SegmentState::Free | SegmentState::Dead | SegmentState::Index);
        if counted < named || (unusable && named > 0) {
            miscounted.push(message());
        }
        if counted > named {
            report.lost.push(message());
        }
        report.lost_bytes = report.lost_bytes.saturating_add(counted.saturating_sub(named));
    }
    Ok(())
}

/// Scrubs a target in batches, each in a read transaction of its own. `total` is the number of bytes on all targets.
fn scrub_target(
    target: &Target,
    total: u64,
    progress: Progress<'_>,
    report: &mut ScrubReport,
) -> Result<()> {
    let mut from = Some(Vec::new());
    while let Some(position) = from {
        let view = target.view_in_doubt(Scope::Under(&all_data()))?;
        from = scrub_batch(target, &view, &position, report)?;
        progress(report.bytes, total);
    }
    Ok(())
}

/// Number of records that are scrubbed in one read transaction. It is bounded so that no transaction stays open for
/// long.
const SCRUB_BATCH: u64 = 256;

/// Reads the data of up to [`SCRUB_BATCH`] records from `position` on. Returns the position at which to continue;
/// `None` after the last record.
fn scrub_batch(
    target: &Target,
    view: &ReadView<'_>,
    position: &[u8],
    report: &mut ScrubReport,
) -> Result<Option<Vec<u8>>> {
    let mut seen = 0;
    let mut next = None;
    walk::records_from(view, position, |key, found| {
        if seen == SCRUB_BATCH {
            next = Some(key.to_vec());
            return Ok(false);
        }
        seen += 1;
        report.records += 1;
        if let Err(error) = found.and_then(|(_, record)| scrub_record(target, key, &record, report))
        {
            report.damaged.push(format!("{}: {error}", name(target, key)));
        }
        Ok(true)
    })?;
    Ok(next)
}

/// Reads the data of a record in a segment, and verifies its checksums.
fn scrub_record(
    target: &Target,
    key: &[u8],
    record: &Record<'_>,
    report: &mut ScrubReport,
) -> Result<()> {
    let Body::Segment(place) = record.body else { return Ok(()) };
    if let Some(trouble) =
        DataKey::parse(key).ok().and_then(|parts| misplaced(target, &parts, record))
    {
        return Err(target.damaged(key, &trouble));
    }
    let mut bytes = vec![0; record.bytes() as usize];
    report.bytes += record.bytes();
    target.read_verified(key, &place, 0, &mut bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContainerSpec;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
    use esker_types::{ObjectClass, ObjectId, ObjectType};
    use std::sync::atomic::Ordering;

    /// A segment counts 1119 live bytes to which no record refers.
    #[test]
    fn lost_bytes_are_reported_and_recounted() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let atomics = state.targets[1].shared();
        let segment = atomics.segment(2);
        segment.published.store(1119, Ordering::Release);
        segment.store(SegmentState::Sealed);
        let check = |repair| Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
        let (found, where_they_are) =
            (check(false), "target 1, segment 2: 0 bytes referenced, 1119 counted, 0 dead, Sealed");
        assert_eq!((found.lost_bytes, &found.lost[..]), (1119, &[where_they_are.to_owned()][..]));
        assert_eq!(found.problems, ["1119 bytes count as live although no record refers to them"]);
        let mended = check(true);
        assert_eq!((mended.lost_bytes, mended.lost.len()), (0, 0));
        assert!(mended.repaired.iter().any(|line| line == where_they_are), "{mended:?}");
        assert_eq!(check(false).lost_bytes, 0);
    }

    /// Creates a pool with a value on each of its two targets, and closes it.
    fn with_values() -> Scratch {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        {
            let state = pool.opened();
            let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
            state.create_container(&spec).unwrap();
            let label = ContainerRef::Label("c");
            let container = state.open_container(label, OpenMode::ReadWrite).unwrap();
            let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
            let value = Value::Single(Source::One(&[7; 4000]));
            let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
            let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
            for target in 0..2 {
                state.write(&container, target, &[Write { oid, op }], &[], None).unwrap();
            }
        }
        pool.close();
        pool
    }

    /// LMDB would initialize an empty file, as if nothing had been stored.
    #[test]
    fn truncated_index_is_refused_and_not_modified() {
        let pool = with_values();
        let file = pool.path().join("target-1/index/data.mdb");
        let whole = std::fs::metadata(&file).unwrap().len();
        for len in [0, 4096, whole - 1] {
            std::fs::File::options().write(true).open(&file).unwrap().set_len(len).unwrap();
            let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
            assert_eq!(refused.kind(), esker_types::ErrorKind::Corrupt, "{len}: {refused}");
            let found = Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap().problems;
            assert!(found[0].contains(&format!("{len} bytes of {whole}")), "{len}: {found:?}");
            assert_eq!(std::fs::metadata(&file).unwrap().len(), len);
        }
        std::fs::remove_file(&file).unwrap();
        assert!(Pool::open(&pool.path()).is_err());
        assert!(Pool::check(&pool.path(), false, &mut |_, _| {}).is_err());
        assert!(!file.exists());
    }

    /// The index of one target is replaced by that of an empty pool.
    #[test]
    fn outdated_index_is_reported_as_unreferenced_live_bytes() {
        let empty = {
            let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
            pool.close();
            std::fs::read(pool.path().join("target-1/index/data.mdb")).unwrap()
        };
        let pool = with_values();
        let check = || Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap();
        assert_eq!(check().problems, [""; 0]);
        std::fs::write(pool.path().join("target-1/index/data.mdb"), empty).unwrap();
        assert_eq!(
            check().problems,
            ["4000 bytes count as live although no record refers to them"]
        );
    }
}
