//! A Key-Value for numbered values, each of which is derived from its number.
use esker::backend::NewContainer;
use esker::{Access, Container, Kv, Pool, Wait};
use esker_testing::Random;
use esker_types::info::OpenMode;
use esker_types::ops::Cond;
use esker_types::{ErrorKind, ObjectType, Result};

/// The Key-Value of container `label`, which is created if it does not exist.
pub(crate) fn kv(pool: &Pool, label: &str) -> Result<(Container, Kv)> {
    let new = NewContainer::named(label);
    match pool.create_container(&new).wait() {
        Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
        _ => {}
    }
    let container = pool.open_container(label, OpenMode::ReadWrite).wait()?;
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0)?;
    let kv = container.kv(oid)?;
    Ok((container, kv))
}

/// The value of `len` bytes that a number has.
pub(crate) fn value(number: u64, len: usize) -> Vec<u8> {
    Random::new(number, len as u64).bytes(len)
}

pub(crate) fn put(kv: &Kv, number: u64, len: usize) -> Result<()> {
    kv.put(&number.to_be_bytes(), &value(number, len), Cond::NONE, Access::Latest).wait()
}

pub(crate) fn remove(kv: &Kv, number: u64) -> Result<()> {
    kv.remove(&number.to_be_bytes(), Cond::NONE, Access::Latest).wait()
}

/// True if the value is correct, false if it is missing; panics if it is wrong.
pub(crate) fn is_there(kv: &Kv, number: u64, len: usize) -> Result<bool> {
    let found = kv.get(&number.to_be_bytes(), Access::Latest).wait()?;
    if let Some(found) = &found {
        let right = *found == value(number, len);
        assert!(
            right,
            "the value of {number} should have {len} bytes, found {} or other content",
            found.len()
        );
    }
    Ok(found.is_some())
}
