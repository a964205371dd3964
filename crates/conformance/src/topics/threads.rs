//! Many threads at once.
use super::store::{Store, checks, dkeys, get, put, run, single};
use super::{Make, Outcome};
use esker::{Access, Array, ArrayAttributes, Wait};
use esker_types::ops::{Cond, Fetch, Sink, Source};
use esker_types::{Extent, ObjectType, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Checks use by several threads.
///
/// # Panics
/// If the backend violates a requirement.
pub fn threads(make: Make<'_>) -> Outcome {
    run(
        "threads",
        &make(),
        checks![
            writers_do_not_affect_each_other,
            a_value_is_never_torn,
            akeys_of_one_update_appear_together,
            one_of_concurrent_inserts_succeeds,
            writers_share_an_array,
        ],
    )
}

const THREADS: u8 = 4;

/// Runs `work` on [`THREADS`] threads, passing each its number.
#[track_caller]
fn together(work: impl Fn(u8) -> Result<()> + Sync) {
    let work = &work;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Ok(())))), "{outcomes:?}");
}

fn writers_do_not_affect_each_other(store: &Store) -> Result<()> {
    let object = store.object()?;
    together(|thread| {
        for number in 0..100u8 {
            let key = [thread, number];
            put(&object, &key, b"a", &[number; 1500])?;
            assert_eq!(get(&object, &key, b"a")?, Some(vec![number; 1500]));
            if number % 3 == 0 {
                object.punch_dkey(&key, Cond::PUNCH, Access::Latest).wait()?;
            }
        }
        Ok(())
    });
    let left = usize::from(THREADS) * 66;
    assert_eq!(dkeys(&object, 50, Access::Latest)?.len(), left);
    Ok(())
}

fn a_value_is_never_torn(store: &Store) -> Result<()> {
    let object = store.object()?;
    let write = |fill: u8| put(&object, b"d", b"a", &vec![fill; 40_000]);
    write(0)?;
    together(|thread| {
        for round in 0..40u8 {
            match thread % 2 {
                0 => write(thread * 40 + round)?,
                _ => {
                    let value = get(&object, b"d", b"a")?.unwrap_or_default();
                    assert_eq!(value.len(), 40_000);
                    assert!(value.iter().all(|byte| *byte == value[0]), "a torn value");
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// Tells the other threads to end.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn akeys_of_one_update_appear_together(store: &Store) -> Result<()> {
    let object = store.object()?;
    let stop = AtomicBool::new(false);
    let write = |round: u8| {
        let value = [round];
        let updates = [single(b"a", &value), single(b"b", &value)];
        object.update(b"d", Cond::NONE, &updates, Access::Latest).wait()
    };
    let read = || -> Result<()> {
        let (mut first, mut second) = ([0], [0]);
        let mut fetches = [
            Fetch::single(b"a", Sink::One(&mut first)),
            Fetch::single(b"b", Sink::One(&mut second)),
        ];
        object.fetch(b"d", Cond::NONE, &mut fetches, Access::Latest).wait()?;
        assert_eq!(first, second, "torn update");
        Ok(())
    };
    together(|thread| {
        if thread == 0 {
            // Also if a write panics, because the readers would not end.
            let _stop = StopOnDrop(&stop);
            return (0..200).try_for_each(write);
        }
        while !stop.load(Ordering::Relaxed) {
            read()?;
        }
        Ok(())
    });
    Ok(())
}

fn one_of_concurrent_inserts_succeeds(store: &Store) -> Result<()> {
    let object = store.object()?;
    let wins = std::sync::Mutex::new(vec![0; 50]);
    together(|thread| {
        for number in 0..50u8 {
            let (key, value) = ([number], [thread]);
            let update = [single(b"a", &value)];
            let insert = object.update(&key, Cond::DKEY_INSERT, &update, Access::Latest);
            if insert.wait().is_ok() {
                let mut wins = wins.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                wins[usize::from(number)] += 1;
            }
        }
        Ok(())
    });
    let wins = wins.into_inner().unwrap_or_default();
    assert_eq!(wins, vec![1; 50], "each key is inserted by one thread");
    Ok(())
}

fn writers_share_an_array(store: &Store) -> Result<()> {
    let attributes = ArrayAttributes { cell_size: 4, chunk_size: 64 };
    let oid = store.oid(ObjectType::Array)?;
    let array = store.container.create_array(oid, attributes, Access::Latest).wait()?;
    together(|thread| {
        (0..50).try_for_each(|step| write_cells(&array, 4 * step + u64::from(thread), thread))
    });
    assert_eq!(array.size(Access::Latest).wait()?, 200 * 7);
    let mut bytes = vec![0; 200 * 7 * 4];
    let ranges = [Extent::new(0, 200 * 7)];
    array.read(&ranges, Sink::One(&mut bytes), Access::Latest).wait()?;
    for (index, cells) in bytes.chunks(7 * 4).enumerate() {
        let thread = index as u8 % THREADS;
        assert!(cells.iter().all(|byte| *byte == thread + 1), "block {index}");
    }
    Ok(())
}

/// Writes block number `block`. Blocks have 7 cells, so that many of them cross a chunk boundary.
fn write_cells(array: &Array, block: u64, thread: u8) -> Result<()> {
    let data = [thread + 1; 28];
    array.write(&[Extent::new(block * 7, 7)], Source::One(&data), Access::Latest).wait()
}
