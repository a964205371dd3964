//! Transactions: atomicity, detection of conflicts, isolation.
use super::long_keys::transactions_work_with_long_keys;
use super::store::{
    Store, checks, dkeys, get, get_with, objects, put, put_with, refused, run, single,
};
use super::{Make, Outcome};
use esker::{Access, Object, Proof, Transaction, Wait};
use esker_types::ops::{Anchor, Cond, ListLimit, Update, Write, WriteOp};
use esker_types::{ErrorKind, Result};

/// Checks transactions, if the backend supports them.
///
/// # Panics
/// If the backend violates a requirement.
pub fn transactions(make: Make<'_>) -> Outcome {
    let pool = make();
    if !pool.capabilities().transactions {
        return Outcome::Skipped { capability: "transactions" };
    }
    run(
        "transactions",
        &pool,
        checks![
            writes_wait_for_the_commit,
            writes_take_effect_in_order,
            an_aborted_transaction_does_nothing,
            a_failed_condition_undoes_all_writes,
            conditions_see_earlier_writes,
            conditions_on_other_dkeys_are_checked,
            conditional_punch_of_an_object_sees_earlier_writes,
            many_objects_change_together,
            a_changed_value_is_a_conflict,
            a_new_value_is_a_conflict,
            a_punched_value_is_a_conflict,
            listings_conflict_with_inserts,
            a_restarted_transaction_discards_its_operations,
            unrelated_transactions_do_not_conflict,
            read_only_transactions_detect_conflicts,
            a_read_only_transaction_refuses_writes,
            a_transaction_ends_only_once,
            a_transaction_rejects_other_containers,
            an_empty_transaction_commits,
            conditional_write_fails_after_a_change_of_its_reads,
            a_version_holds_until_the_object_changes,
            no_increment_is_lost,
            sums_do_not_change,
            transactions_work_with_long_keys,
        ],
    )
}

pub(super) fn open(store: &Store) -> Result<Transaction> {
    store.container.transaction()
}

pub(super) fn put_tx(
    object: &Object,
    dkey: &[u8],
    value: &[u8],
    transaction: &Transaction,
) -> Result<()> {
    put_with(object, dkey, b"a", value, Access::Tx(transaction))
}

fn get_tx(object: &Object, dkey: &[u8], transaction: &Transaction) -> Result<Option<Vec<u8>>> {
    get_with(object, dkey, b"a", Access::Tx(transaction))
}

fn writes_wait_for_the_commit(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"old")?;
    let transaction = open(store)?;
    put_tx(&object, b"d", b"new", &transaction)?;
    put_tx(&object, b"e", &[7; 5000], &transaction)?;
    assert_eq!(get(&object, b"d", b"a")?.as_deref(), Some(b"old".as_slice()));
    assert_eq!(get(&object, b"e", b"a")?, None);
    transaction.commit().wait()?;
    assert_eq!(get(&object, b"d", b"a")?.as_deref(), Some(b"new".as_slice()));
    assert_eq!(get(&object, b"e", b"a")?, Some(vec![7; 5000]));
    assert!(transaction.epoch().is_some_and(|epoch| epoch.0 > 0));
    Ok(())
}

fn writes_take_effect_in_order(store: &Store) -> Result<()> {
    let object = store.object()?;
    let transaction = open(store)?;
    put_tx(&object, b"d", b"first", &transaction)?;
    put_tx(&object, b"d", b"second", &transaction)?;
    put_tx(&object, b"e", b"first", &transaction)?;
    object.punch_dkey(b"e", Cond::NONE, Access::Tx(&transaction)).wait()?;
    object.punch_dkey(b"f", Cond::NONE, Access::Tx(&transaction)).wait()?;
    put_tx(&object, b"f", b"second", &transaction)?;
    transaction.commit().wait()?;
    assert_eq!(get(&object, b"d", b"a")?.as_deref(), Some(b"second".as_slice()));
    assert_eq!(get(&object, b"e", b"a")?, None);
    assert_eq!(get(&object, b"f", b"a")?.as_deref(), Some(b"second".as_slice()));
    Ok(())
}

fn an_aborted_transaction_does_nothing(store: &Store) -> Result<()> {
    let object = store.object()?;
    let transaction = open(store)?;
    put_tx(&object, b"d", b"v", &transaction)?;
    transaction.abort()?;
    drop(transaction);
    put_tx(&object, b"d", b"v", &open(store)?)?;
    assert_eq!(get(&object, b"d", b"a")?, None);
    Ok(())
}

fn a_failed_condition_undoes_all_writes(store: &Store) -> Result<()> {
    let (object, other) = (store.object()?, store.object()?);
    put(&object, b"d", b"a", b"v")?;
    let transaction = open(store)?;
    let access = Access::Tx(&transaction);
    for number in 0..20u8 {
        put_tx(&other, &[number], b"v", &transaction)?;
    }
    object.update(b"d", Cond::DKEY_INSERT, &[single(b"a", b"w")], access).wait()?;
    put_tx(&other, b"last", b"v", &transaction)?;
    refused(transaction.commit().wait(), ErrorKind::Exists);
    assert_eq!(dkeys(&other, 10, Access::Latest)?.len(), 0);
    assert_eq!(get(&object, b"d", b"a")?.as_deref(), Some(b"v".as_slice()));
    Ok(())
}

fn conditions_see_earlier_writes(store: &Store) -> Result<()> {
    type Step<'a> = &'a dyn Fn(Access<'_>) -> Result<()>;
    let object = store.object()?;
    let with = |dkey: &'static [u8], on_dkey, on_akey, access: Access<'_>| {
        let update = Update { cond: on_akey, ..single(b"a", b"v") };
        object.update(dkey, on_dkey, &[update], access).wait()
    };
    let write: Step<'_> = &|access| with(b"new", Cond::NONE, Cond::NONE, access);
    let insert: Step<'_> = &|access| with(b"new", Cond::DKEY_INSERT, Cond::NONE, access);
    let change: Step<'_> = &|access| with(b"new", Cond::DKEY_UPDATE, Cond::AKEY_UPDATE, access);
    let remove: Step<'_> = &|access| object.punch_dkey(b"new", Cond::PUNCH, access).wait();
    let remove_akey: Step<'_> =
        &|access| object.punch_akeys(b"new", &[b"a"], Cond::PUNCH, access).wait();
    let punch: Step<'_> = &|access| object.punch(Cond::NONE, access).wait();
    let (exists, missing) = (Some(ErrorKind::Exists), Some(ErrorKind::NotFound));
    let cases: [(&[Step<'_>], Option<ErrorKind>); 9] = [
        (&[write, insert], exists),
        (&[insert, remove, insert, change], None),
        (&[write, remove_akey, insert], None),
        (&[write, remove_akey, change], missing),
        (&[write, remove], None),
        (&[write, remove_akey], None),
        (&[write, remove, remove], missing),
        (&[write, remove_akey, remove_akey], missing),
        (&[write, punch, change], missing),
    ];
    for (index, (steps, expected)) in cases.into_iter().enumerate() {
        let transaction = open(store)?;
        steps.iter().try_for_each(|step| step(Access::Tx(&transaction)))?;
        let outcome = transaction.commit().wait().err().map(|error| error.kind());
        assert_eq!(outcome, expected, "case {index}");
        punch(Access::Latest)?;
    }
    Ok(())
}

/// Writes that change nothing and only check a condition. The dkeys of an object are on all targets, so most of the
/// conditions are on another target than the change.
fn conditions_on_other_dkeys_are_checked(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"there", b"a", b"v")?;
    let require = |dkey| WriteOp::Update { dkey, cond: Cond::DKEY_UPDATE, updates: &[] };
    for number in 0..12_u8 {
        let (name, updates) = ([number], [single(b"a", b"v")]);
        let insert = WriteOp::Update { dkey: &name, cond: Cond::DKEY_INSERT, updates: &updates };
        let write = |required| {
            let writes = [require(required), insert].map(|op| Write { oid: object.oid(), op });
            store.container.write(&writes, Access::Latest).wait()
        };
        let commit = |required, reads: bool, changes: bool| {
            let transaction = open(store)?;
            let access = Access::Tx(&transaction);
            if reads {
                get_tx(&object, &name, &transaction)?;
            }
            if changes {
                put_tx(&object, &name, b"v", &transaction)?;
            }
            object.update(required, Cond::DKEY_UPDATE, &[], access).wait()?;
            transaction.commit().wait()
        };
        refused(write(b"missing"), ErrorKind::NotFound);
        for (reads, changes) in [(false, true), (true, true), (true, false)] {
            refused(commit(b"missing", reads, changes), ErrorKind::NotFound);
        }
        assert_eq!(get(&object, &name, b"a")?, None, "dkey {number} was written");
        commit(b"there", true, false)?;
        write(b"there")?;
        commit(b"there", true, true)?;
    }
    Ok(())
}

/// The object spans all nodes, so none of them knows alone whether the punch removes anything.
fn conditional_punch_of_an_object_sees_earlier_writes(store: &Store) -> Result<()> {
    type Step<'a> = &'a dyn Fn(Access<'_>) -> Result<()>;
    let object = store.object()?;
    let put: Step<'_> = &|access| put_with(&object, b"d", b"a", b"v", access);
    let add: Step<'_> = &|access| put_with(&object, b"d", b"b", b"v", access);
    let put_other: Step<'_> = &|access| put_with(&object, b"e", b"a", b"v", access);
    let remove: Step<'_> = &|access| object.punch_dkey(b"d", Cond::NONE, access).wait();
    let remove_akey: Step<'_> =
        &|access| object.punch_akeys(b"d", &[b"a"], Cond::NONE, access).wait();
    let clear: Step<'_> = &|access| object.punch(Cond::NONE, access).wait();
    let (removed, missing) = (None, Some(ErrorKind::NotFound));
    let cases: [(&[Step<'_>], &[Step<'_>], Option<ErrorKind>); 12] = [
        (&[], &[], missing),
        (&[put], &[], removed),
        (&[], &[put_other, remove], removed),
        (&[], &[put, remove], missing),
        (&[put], &[remove], missing),
        (&[put, put_other], &[remove], removed),
        (&[put], &[clear, remove], missing),
        (&[put], &[clear, put_other, remove], removed),
        (&[put], &[remove_akey], missing),
        (&[put, add], &[remove_akey], removed),
        (&[put], &[add, remove_akey], removed),
        (&[put], &[remove, put, remove_akey], missing),
    ];
    for (index, (before, steps, expected)) in cases.into_iter().enumerate() {
        before.iter().try_for_each(|step| step(Access::Latest))?;
        let transaction = open(store)?;
        steps.iter().try_for_each(|step| step(Access::Tx(&transaction)))?;
        object.punch(Cond::PUNCH, Access::Tx(&transaction)).wait()?;
        let outcome = transaction.commit().wait().err().map(|error| error.kind());
        assert_eq!(outcome, expected, "case {index}");
        clear(Access::Latest)?;
    }
    Ok(())
}

fn many_objects_change_together(store: &Store) -> Result<()> {
    let all: Vec<_> = (0..40).map(|_| store.object()).collect::<Result<_>>()?;
    all.iter().try_for_each(|object| put(object, b"old", b"a", b"v"))?;
    let transaction = open(store)?;
    for object in &all {
        put_tx(object, b"new", &[7; 2000], &transaction)?;
        object.punch_dkey(b"old", Cond::NONE, Access::Tx(&transaction)).wait()?;
    }
    transaction.commit().wait()?;
    for object in &all {
        assert_eq!(dkeys(object, 10, Access::Latest)?, [b"new".to_vec()]);
    }
    Ok(())
}

/// Reads `d` in a transaction, lets another client make `change`, and writes `e`: the commit must detect the conflict.
/// `exists` determines whether `d` has a value at first.
#[track_caller]
fn conflict(store: &Store, change: impl Fn(&Object) -> Result<()>, exists: bool) -> Result<()> {
    let object = store.object()?;
    if exists {
        put(&object, b"d", b"a", b"old")?;
    }
    let transaction = open(store)?;
    assert_eq!(get_tx(&object, b"d", &transaction)?.is_some(), exists);
    put_tx(&object, b"e", b"v", &transaction)?;
    change(&object)?;
    refused(transaction.commit().wait(), ErrorKind::TxRestart);
    assert_eq!(get(&object, b"e", b"a")?, None, "a conflict leaves nothing behind");
    Ok(())
}

fn a_changed_value_is_a_conflict(store: &Store) -> Result<()> {
    conflict(store, |object| put(object, b"d", b"a", b"new"), true)?;
    match store.pool.capabilities().proves_by_value {
        true => Ok(()),
        false => conflict(store, |object| put(object, b"d", b"a", b"old"), true),
    }
}

fn a_new_value_is_a_conflict(store: &Store) -> Result<()> {
    conflict(store, |object| put(object, b"d", b"a", b"new"), false)
}

fn a_punched_value_is_a_conflict(store: &Store) -> Result<()> {
    let akey: [&[u8]; 1] = [b"a"];
    let latest = Access::Latest;
    conflict(store, |object| object.punch(Cond::NONE, latest).wait(), true)?;
    conflict(store, |object| object.punch_dkey(b"d", Cond::NONE, latest).wait(), true)?;
    conflict(store, |object| object.punch_akeys(b"d", &akey, Cond::NONE, latest).wait(), true)
}

/// Number of akeys that a transaction sees under a dkey.
fn akeys_tx(object: &Object, dkey: &[u8], transaction: &Transaction) -> Result<usize> {
    let (mut anchor, limit) = (Anchor::Start, ListLimit::entries(100));
    let list = object.list_akeys(dkey, &mut anchor, limit, Access::Tx(transaction));
    Ok(list.wait()?.len())
}

fn listings_conflict_with_inserts(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"v")?;
    let transaction = open(store)?;
    assert_eq!(dkeys(&object, 10, Access::Tx(&transaction))?.len(), 1);
    put(&object, b"e", b"a", b"v")?;
    refused(transaction.commit().wait(), ErrorKind::TxRestart);
    let transaction = open(store)?;
    assert_eq!(akeys_tx(&object, b"d", &transaction)?, 1);
    put(&object, b"d", b"b", b"v")?;
    refused(transaction.commit().wait(), ErrorKind::TxRestart);
    let objects = objects(&store.container, 10, Access::Tx(&open(store)?));
    refused(objects, ErrorKind::NotSupported);
    Ok(())
}

fn a_restarted_transaction_discards_its_operations(store: &Store) -> Result<()> {
    let object = store.object()?;
    let transaction = open(store)?;
    get_tx(&object, b"d", &transaction)?;
    put_tx(&object, b"lost", b"v", &transaction)?;
    put(&object, b"d", b"a", b"new")?;
    refused(transaction.commit().wait(), ErrorKind::TxRestart);
    refused(get_tx(&object, b"d", &transaction), ErrorKind::NoPermission);
    transaction.restart()?;
    let seen = get_tx(&object, b"d", &transaction)?;
    assert_eq!(seen.as_deref(), Some(b"new".as_slice()));
    put_tx(&object, b"e", b"v", &transaction)?;
    transaction.commit().wait()?;
    assert_eq!(get(&object, b"lost", b"a")?, None);
    assert!(get(&object, b"e", b"a")?.is_some());
    Ok(())
}

/// Spurious conflicts are allowed, but not every time.
fn unrelated_transactions_do_not_conflict(store: &Store) -> Result<()> {
    let (object, other) = (store.object()?, store.object()?);
    let quiet = |round: u8| {
        let transaction = open(store)?;
        get_tx(&object, &[round, 1], &transaction)?;
        put_tx(&object, &[round, 2], b"v", &transaction)?;
        put(&other, &[round, 1], b"a", b"v")?;
        put(&object, &[round, 3], b"a", b"v")?;
        transaction.commit().wait()
    };
    let outcomes: Vec<_> = (0..8).map(quiet).collect();
    assert!(outcomes.iter().any(Result::is_ok), "unrelated writes conflict: {outcomes:?}");
    Ok(())
}

fn read_only_transactions_detect_conflicts(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"v")?;
    let both = [open(store)?, store.container.transaction_read_only()?];
    for (transaction, value) in both.into_iter().zip([b"w", b"x"]) {
        get_tx(&object, b"d", &transaction)?;
        put(&object, b"d", b"a", value)?;
        refused(transaction.commit().wait(), ErrorKind::TxRestart);
        transaction.restart()?;
        get_tx(&object, b"d", &transaction)?;
        transaction.commit().wait()?;
        assert_eq!(transaction.epoch(), None);
    }
    Ok(())
}

fn a_read_only_transaction_refuses_writes(store: &Store) -> Result<()> {
    let object = store.object()?;
    let transaction = store.container.transaction_read_only()?;
    refused(put_tx(&object, b"d", b"v", &transaction), ErrorKind::NoPermission);
    transaction.commit().wait()
}

fn a_transaction_ends_only_once(store: &Store) -> Result<()> {
    let object = store.object()?;
    let committed = open(store)?;
    refused(committed.restart(), ErrorKind::NoPermission);
    committed.commit().wait()?;
    refused(committed.commit().wait(), ErrorKind::Already);
    refused(committed.abort(), ErrorKind::NoPermission);
    refused(committed.restart(), ErrorKind::NoPermission);
    let aborted = open(store)?;
    aborted.abort()?;
    refused(aborted.abort(), ErrorKind::Already);
    refused(aborted.commit().wait(), ErrorKind::NoPermission);
    for over in [committed, aborted] {
        refused(put_tx(&object, b"d", b"v", &over), ErrorKind::NoPermission);
        refused(get_tx(&object, b"d", &over), ErrorKind::NoPermission);
    }
    Ok(())
}

fn a_transaction_rejects_other_containers(store: &Store) -> Result<()> {
    let info = store.pool.create_container(&Default::default()).wait()?;
    let other = store.pool.open_container(&info.uuid.to_string(), store.container.mode()).wait()?;
    let transaction = other.transaction()?;
    let object = store.object()?;
    refused(put_tx(&object, b"d", b"v", &transaction), ErrorKind::Invalid);
    refused(get_tx(&object, b"d", &transaction), ErrorKind::Invalid);
    Ok(())
}

fn an_empty_transaction_commits(store: &Store) -> Result<()> {
    let transaction = open(store)?;
    transaction.commit().wait()?;
    assert_eq!(transaction.epoch(), None);
    Ok(())
}

/// Runs `work` in a transaction, and again after each conflict.
fn until_committed(store: &Store, work: impl Fn(&Transaction) -> Result<()>) -> Result<()> {
    let transaction = open(store)?;
    loop {
        work(&transaction)?;
        match transaction.commit().wait() {
            Err(error) if error.kind() == ErrorKind::TxRestart => transaction.restart()?,
            outcome => return outcome,
        }
    }
}

/// The number in a stored value; 0 without one.
fn number(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Reads all names in a transaction, and returns its proof.
pub(super) fn proof_of(store: &Store, object: &Object, names: &[Vec<u8>]) -> Result<Proof> {
    let transaction = open(store)?;
    names.iter().try_for_each(|name| get_tx(object, name, &transaction).map(drop))?;
    transaction.proof()
}

fn conditional_write_fails_after_a_change_of_its_reads(store: &Store) -> Result<()> {
    let object = store.object()?;
    let names: Vec<Vec<u8>> = (0..8).map(|number| format!("d{number}").into_bytes()).collect();
    put(&object, &names[0], b"a", b"old")?;
    let proof = proof_of(store, &object, &names[..7])?;
    let write_if = |value: &[u8], proof: &Proof| {
        let updates = [single(b"a", value)];
        let op = WriteOp::Update { dkey: &names[7], cond: Cond::NONE, updates: &updates };
        store.container.write_if(&[Write { oid: object.oid(), op }], proof).wait()
    };
    let unchanged: Vec<_> = (0..8_u8).map(|round| write_if(&[round], &proof)).collect();
    assert!(unchanged.iter().any(Result::is_ok), "nothing has changed: {unchanged:?}");
    // Missing keys were read, too.
    for changed in [&names[0], &names[6]] {
        let proof = proof_of(store, &object, &names[..7])?;
        put(&object, changed, b"a", b"new")?;
        refused(write_if(b"new", &proof), ErrorKind::TxRestart);
        assert!(get(&object, &names[7], b"a")?.is_some_and(|value| value != b"new"));
    }
    Ok(())
}

/// Checks versions of objects, for backends that report them.
fn a_version_holds_until_the_object_changes(store: &Store) -> Result<()> {
    let (object, other) = (store.object()?, store.object()?);
    let changes: [&dyn Fn() -> Result<()>; 6] = [
        &|| put(&object, b"d", b"a", b"new"),
        &|| put(&object, b"d", b"a", b"again"),
        &|| put(&object, b"d", b"b", b"another key"),
        &|| object.punch_akeys(b"d", &[b"b"], Cond::NONE, Access::Latest).wait(),
        &|| object.punch_dkey(b"d", Cond::NONE, Access::Latest).wait(),
        &|| put(&object, b"d", b"a", b"new"),
    ];
    let version = || store.container.object_version(object.oid()).wait();
    let holds = |version: &Proof| store.container.is_unchanged(version) == Some(true);
    for (number, change) in changes.into_iter().enumerate() {
        let Some(before) = version()? else { return Ok(()) };
        assert!(holds(&before) && holds(&before), "nothing has changed before {number}");
        get(&object, b"d", b"a")?;
        assert!(holds(&before), "a read does not change it");
        change()?;
        assert!(!holds(&before), "not seen: {number}");
    }
    let Some(before) = version()? else { return Ok(()) };
    object.punch(Cond::NONE, Access::Latest).wait()?;
    assert!(!holds(&before), "the object is gone");
    put(&other, b"d", b"a", b"1")
}

fn no_increment_is_lost(store: &Store) -> Result<()> {
    let object = store.object()?;
    let increment = |transaction: &Transaction| {
        let count = number(get_tx(&object, b"count", transaction)?);
        put_tx(&object, b"count", &(count + 1).to_ne_bytes(), transaction)
    };
    let work = || (0..50).try_for_each(|_| until_committed(store, increment));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|thread| thread.join());
        assert!(done.into_iter().all(|outcome| matches!(outcome, Ok(Ok(())))));
    });
    assert_eq!(number(get(&object, b"count", b"a")?), 200);
    Ok(())
}

/// Moves money between accounts; every reader of all accounts sees the same sum.
fn sums_do_not_change(store: &Store) -> Result<()> {
    const ACCOUNTS: u64 = 6;
    let object = store.object()?;
    let key = |account: u64| (account % ACCOUNTS).to_ne_bytes();
    (0..ACCOUNTS).try_for_each(|a| put(&object, &key(a), b"a", &100u64.to_ne_bytes()))?;
    let transfer = |step: u64, transaction: &Transaction| {
        let (from, to) = (key(step), key(step + 1 + step % (ACCOUNTS - 1)));
        let (poorer, richer) =
            (get_tx(&object, &from, transaction)?, get_tx(&object, &to, transaction)?);
        let moved = 1.min(number(poorer.clone()));
        put_tx(&object, &from, &(number(poorer) - moved).to_ne_bytes(), transaction)?;
        put_tx(&object, &to, &(number(richer) + moved).to_ne_bytes(), transaction)
    };
    let total = |transaction: &Transaction| {
        let all = (0..ACCOUNTS).map(|a| get_tx(&object, &key(a), transaction).map(number));
        all.sum::<Result<u64>>()
    };
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..3)
            .map(|thread: u64| {
                scope.spawn(move || {
                    (0..60)
                        .try_for_each(|s| until_committed(store, |tx| transfer(s * 7 + thread, tx)))
                })
            })
            .collect();
        while !movers.iter().all(|mover| mover.is_finished()) {
            let transaction = open(store)?;
            let sum = total(&transaction)?;
            if transaction.commit().wait().is_ok() {
                assert_eq!(sum, 100 * ACCOUNTS, "the sum of a committed read");
            }
        }
        let done = movers.into_iter().map(|mover| mover.join());
        assert!(done.into_iter().all(|outcome| matches!(outcome, Ok(Ok(())))));
        Ok(())
    })
}
