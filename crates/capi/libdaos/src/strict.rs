//! Rules of DAOS that Esker does not have, for tests. They apply once [`esker_libdaos_be_strict`] was called. A `daos:`
//! pool calls it if the environment has `ESKER_DAOS_STRICT=1`. Then this library refuses what DAOS refuses, and can
//! stand in for DAOS's own. docs/internals/daos.md lists each rule with its place in the source of DAOS.
pub(crate) mod akeys;

use crate::code::{Code, Result};
use crate::conditions;
use crate::list::Level;
use crate::mgmt::SYSTEM;
use ::dfs::limits::NAME_MAX;
use esker::types::limits::DAOS_LEXICAL_KEY_MAX;
use esker::types::ops::{AkeyRef, Anchor, Cond, ListLimit};
use esker::types::{Epoch, ObjectId, ObjectType};
use esker::{Access, Container, FILES_LAYOUT, Object};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// First byte of the property of a container that holds a file system: `DAOS_PROP_CO_LAYOUT_POSIX`.
const LAYOUT_POSIX: u8 = 1;

/// Entries of a listing without a buffer for keys.
const ENTRIES_MAX: usize = 128;

/// Environment variable that names the file of an agent: `daos_init` waits until it exists, as for an agent that hangs.
const AGENT_VARIABLE: &str = "ESKER_DAOS_AGENT";

/// Interval at which that file is looked for.
const LOOK: Duration = Duration::from_millis(2);

static ON: AtomicBool = AtomicBool::new(false);

/// Refuses what DAOS refuses, from now on.
#[unsafe(no_mangle)]
pub extern "C" fn esker_libdaos_be_strict() {
    ON.store(true, Ordering::Relaxed);
}

/// Whether strict mode is on.
fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Calls `make` in strict mode and returns its result. None otherwise.
pub(crate) fn if_on<T>(make: impl FnOnce() -> T) -> Option<T> {
    is_on().then(make)
}

/// Fails with `code` in strict mode if the rule does not hold.
fn rule(holds: impl FnOnce() -> bool, code: Code) -> Result<()> {
    if is_on() && !holds() { Err(code) } else { Ok(()) }
}

/// Waits for the agent, as DAOS's library does without a time-out. In tests, a file stands for it: it is there once the
/// file exists.
pub(crate) fn wait_for_agent() {
    let file = std::env::var_os(AGENT_VARIABLE).filter(|_| is_on()).map(PathBuf::from);
    while file.as_ref().is_some_and(|file| !file.exists()) {
        std::thread::sleep(LOOK);
    }
}

/// The agent serves one system. An empty name means this system.
pub(crate) fn check_system(name: &str) -> Result<()> {
    rule(|| name.is_empty() || name == SYSTEM, Code::INVAL)
}

/// An object's class must be one that DAOS has, and fit the pool.
pub(crate) fn check_class(container: &Container, oid: ObjectId) -> Result<()> {
    let capabilities = container.capabilities();
    let (targets, domains) = (capabilities.targets, capabilities.domains);
    rule(|| oid.class().opens_in_daos(targets, domains), Code::INVAL)
}

/// Refuses an update in a transaction whose akeys have different conditions: DAOS's library would crash the program.
/// Also refuses conditions on both the dkey and akeys, because DAOS checks at most one of them.
pub(crate) fn check_conditions(flags: u64, access: Access<'_>) -> Result<()> {
    let has = |conds: Cond| flags & conds.bits() != 0;
    let is_harmful = || has(Cond::PER_AKEY) && matches!(access, Access::Tx(_));
    let on_akeys = Cond::AKEY_INSERT.union(Cond::AKEY_UPDATE).union(Cond::PER_AKEY);
    let is_mixed = || has(Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE)) && has(on_akeys);
    rule(|| !is_harmful() && !is_mixed(), Code::INVAL)
}

/// Refuses a listing of records with more room than DAOS supports.
pub(crate) fn check_records(entries: usize) -> Result<()> {
    rule(|| entries <= ENTRIES_MAX, Code::INVAL)
}

/// Refuses to list the akeys of a flat object in a transaction: DAOS's engine would crash at the commit.
pub(crate) fn check_listing(oid: ObjectId, level: Level<'_>, access: Access<'_>) -> Result<()> {
    let is_harmful = || is_flat(oid) && matches!((level, access), (Level::Akeys(_), Access::Tx(_)));
    rule(|| !is_harmful(), Code::INVAL)
}

/// Refuses to list the records of a flat object's single value, which has none. DAOS finds no tree of records, and
/// returns the code of an invalid handle.
pub(crate) async fn check_array(
    object: &Object,
    key: AkeyRef<'_>,
    is_empty: bool,
    access: Access<'_>,
) -> Result<()> {
    if !is_on() || !is_empty || !is_flat(object.oid()) {
        return Ok(());
    }
    let limit = ListLimit::entries(1);
    let found = object.list_akeys(key.dkey, &mut Anchor::Start, limit, access).await?;
    rule(|| found.is_empty(), Code::NO_HDL)
}

/// A flat object has no akeys to punch.
pub(crate) fn check_akey_punch(oid: ObjectId) -> Result<()> {
    rule(|| !is_flat(oid), Code::INVAL)
}

/// Updates akeys of a dkey by `apply`. `changes` is `None` unless strict mode is on, which refuses two kinds of update.
/// Programs of DAOS could not read the first ([`check_update`]); DAOS handles the second differently ([`akeys`]).
pub(crate) async fn update(
    object: &Object,
    dkey: &[u8],
    changes: Option<Vec<akeys::Change<'_>>>,
    access: Access<'_>,
    apply: impl Future<Output = Result<()>>,
) -> Result<()> {
    let Some(changes) = changes else { return apply.await };
    check_update(object, dkey, &changes, access).await?;
    akeys::check(object, dkey, &changes, access).await?;
    apply.await?;
    akeys::finish(object, dkey, &changes, access).await
}

/// Refuses long keys in sorted objects, dkeys of directories that DAOS could not list, and a second akey under a dkey
/// of a flat object. DAOS replaces the first akey by the second, and no program should rely on that.
async fn check_update(
    object: &Object,
    dkey: &[u8],
    changes: &[akeys::Change<'_>],
    access: Access<'_>,
) -> Result<()> {
    let (oid, longest) = (object.oid(), changes.iter().map(|change| change.akey.len()).max());
    let sorts = |is_so: fn(ObjectType) -> bool| oid.object_type().is_some_and(is_so);
    let sorts_dkeys = sorts(ObjectType::has_lexical_dkeys);
    let sorts_akeys = sorts(ObjectType::has_lexical_akeys);
    let is_long = |sorts: bool, len: usize| sorts && len > DAOS_LEXICAL_KEY_MAX;
    if is_long(sorts_dkeys, dkey.len()) || is_long(sorts_akeys, longest.unwrap_or(0)) {
        return Err(Code::KEY2BIG);
    }
    check_name(object, dkey).await?;
    match changes {
        [change] if is_flat(oid) => check_only(object, dkey, change.akey, access).await,
        [_, _, ..] if is_flat(oid) => Err(Code::NO_PERM),
        _ => Ok(()),
    }
}

/// Refuses a dkey of a directory that is not a file name. DAOS would store it, but its file system could not list the
/// directory.
async fn check_name(object: &Object, dkey: &[u8]) -> Result<()> {
    let oid = object.oid();
    let is_superblock = (oid.hi as u32, oid.lo) == (0, 0);
    let is_directory = oid.object_type() == Some(ObjectType::MultiHashed) && !is_superblock;
    if !is_directory || is_name(dkey) {
        return Ok(());
    }
    let layout = object.container().properties().get(FILES_LAYOUT).await?;
    let holds_files = layout.is_some_and(|layout| layout.first() == Some(&LAYOUT_POSIX));
    rule(|| !holds_files, Code::INVAL)
}

/// True if a dkey can be the name of an entry of a directory. It has 1 to [`NAME_MAX`] bytes, no `/`, no zero byte, and
/// is neither `.` nor `..`.
fn is_name(dkey: &[u8]) -> bool {
    let is_special = matches!(dkey, b"" | b"." | b"..");
    !is_special && dkey.len() <= NAME_MAX && dkey.iter().all(|byte| !matches!(byte, b'/' | 0))
}

/// Fails with `INVAL` if the dkey has an akey other than `akey`. In a transaction, checks the latest state.
async fn check_only(object: &Object, dkey: &[u8], akey: &[u8], access: Access<'_>) -> Result<()> {
    let latest = if let Access::Tx(_) = access { Access::Latest } else { access };
    // Two are enough: one of them is another akey if there is any.
    let limit = ListLimit::entries(2);
    let found = object.list_akeys(dkey, &mut Anchor::Start, limit, latest).await?;
    if found.iter().all(|other| other == akey) { Ok(()) } else { Err(Code::INVAL) }
}

/// Punches an object. In strict mode, the punch of a missing object succeeds, whatever the condition.
pub(crate) async fn punch(object: &Object, cond: Cond, access: Access<'_>) -> Result<()> {
    let cond = if is_on() { Cond::NONE } else { cond };
    let cond = conditions::check_object_punch(object, cond, access).await?;
    akeys::note_punch(object, None, None, access);
    Ok(object.punch(cond, access).await?)
}

/// Epoch of the last change of an object. DAOS returns the epoch of the latest change even to a reader of an older
/// snapshot. In a transaction that is not of a snapshot, the call is refused: in DAOS, its commit would end the
/// program.
pub(crate) async fn epoch(object: &Object, access: Access<'_>) -> Result<Epoch> {
    let is_harmful = || matches!(access, Access::Tx(tx) if tx.is_open() && tx.epoch().is_none());
    rule(|| !is_harmful(), Code::INVAL)?;
    let epoch = object.epoch(access).await?;
    let is_snapshot = match access {
        Access::Latest => false,
        Access::Snapshot(_) => true,
        // An open transaction has an epoch only if it reads a snapshot.
        Access::Tx(tx) => tx.is_open() && tx.epoch().is_some(),
    };
    if !is_on() || !is_snapshot || epoch == Epoch::default() {
        return Ok(epoch);
    }
    Ok(epoch.max(object.epoch(Access::Latest).await?))
}

/// Whether the object is a Key-Value or an Array. DAOS stores one akey under each of its dkeys, without a name.
fn is_flat(oid: ObjectId) -> bool {
    oid.object_type().is_some_and(ObjectType::is_flat)
}
