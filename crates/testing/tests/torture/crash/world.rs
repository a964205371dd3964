//! The real pool: applies the operations of workers, and compares the result with the model.
use super::ops::{ACCOUNTS, BALANCE, CELLS, CHUNK, Content, Model, Op};
use esker::backend::NewContainer;
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_types::info::OpenMode;
use esker_types::ops::{Anchor, Cond, ListLimit, Sink, Source};
use esker_types::{ErrorKind, Extent, ObjectType, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A worker's containers and objects in a pool.
pub(crate) struct World {
    pool: Pool,
    slot: u64,
    own: Container,
    keys: Kv,
    cells: Array,
    shared: Container,
    accounts: Kv,
}

fn make_container(pool: &Pool, label: &str) -> Result<()> {
    let new = NewContainer::named(label);
    match pool.create_container(&new).wait() {
        Err(error) if error.kind() != ErrorKind::Exists => Err(error),
        _ => Ok(()),
    }
}

fn open_container(pool: &Pool, label: &str) -> Result<Container> {
    pool.open_container(label, OpenMode::ReadWrite).wait()
}

fn kv_of(container: &Container) -> Result<Kv> {
    container.kv(container.generate_oid(0, 1, ObjectType::KvHashed, None, 0)?)
}

fn array_of(container: &Container) -> Result<Array> {
    let oid = container.generate_oid(0, 2, ObjectType::ArrayAttr, None, 0)?;
    let shape = ArrayAttributes { cell_size: 1, chunk_size: CHUNK };
    container.open_array_with_attributes(oid, shape)
}

fn own_label(slot: u64) -> String {
    format!("own-{slot}")
}

fn number_of(value: Option<Vec<u8>>) -> u64 {
    value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn count_key(slot: u64) -> Vec<u8> {
    format!("count-{slot}").into_bytes()
}

/// Creates the containers of all workers and sets the balance of the accounts.
pub(crate) fn prepare(pool: &Pool, slots: u64) -> Result<()> {
    (0..slots).try_for_each(|slot| make_container(pool, &own_label(slot)))?;
    make_container(pool, "shared")?;
    let accounts = kv_of(&open_container(pool, "shared")?)?;
    for account in 0..ACCOUNTS {
        let (key, value) = (account.to_le_bytes(), BALANCE.to_le_bytes());
        accounts.put(&key, &value, Cond::NONE, Access::Latest).wait()?;
    }
    Ok(())
}

/// The sum of all accounts, which no process may change meanwhile.
pub(crate) fn balance(pool: &Pool) -> Result<u64> {
    let shared = open_container(pool, "shared")?;
    let accounts = kv_of(&shared)?;
    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += number_of(accounts.get(&account.to_le_bytes(), Access::Latest).wait()?);
    }
    Ok(sum)
}

/// Writes this many bytes into an array in a new container.
pub(crate) fn fill(pool: &Pool, bytes: u64) -> Result<()> {
    make_container(pool, "filling")?;
    let cells = array_of(&open_container(pool, "filling")?)?;
    let chunk = vec![7; CHUNK as usize - 256];
    for start in (0..bytes).step_by(CHUNK as usize) {
        let range = [Extent::new(start, chunk.len() as u64)];
        cells.write(&range, Source::One(&chunk), Access::Latest).wait()?;
    }
    Ok(())
}

/// Removes everything.
pub(crate) fn clear(pool: &Pool) -> Result<()> {
    for container in pool.containers().wait()? {
        pool.destroy_container(&container.uuid.to_string(), true).wait()?;
    }
    Ok(())
}

impl World {
    pub(crate) fn open(pool: &Pool, slot: u64) -> Result<Self> {
        let own = open_container(pool, &own_label(slot))?;
        let shared = open_container(pool, "shared")?;
        let (keys, cells, accounts) = (kv_of(&own)?, array_of(&own)?, kv_of(&shared)?);
        Ok(Self { pool: pool.clone(), slot, own, keys, cells, shared, accounts })
    }

    fn temporary_label(&self) -> String {
        format!("temporary-{}", self.slot)
    }

    /// Performs an operation.
    pub(crate) fn perform(&self, op: &Op) -> Result<()> {
        let now = Access::Latest;
        match op {
            Op::Put { key, value } => {
                self.keys.put(&key.to_le_bytes(), value, Cond::NONE, now).wait()
            }
            Op::Remove { key } => self.keys.remove(&key.to_le_bytes(), Cond::NONE, now).wait(),
            Op::Write { ranges, bytes } => self.cells.write(ranges, Source::One(bytes), now).wait(),
            Op::PunchCells { range } => self.cells.punch(&[*range], now).wait(),
            Op::PunchArray => self.cells.destroy(now).wait(),
            Op::Together { puts, remove, range, bytes } => {
                self.together(puts, *remove, *range, bytes)
            }
            Op::Transfer { from, to, amount } => self.transfer(*from, *to, *amount),
            Op::Snapshot { name } => self.snapshot(name),
            Op::MakeTemporary => make_container(&self.pool, &self.temporary_label()),
            Op::FillTemporary { key, value } => self.fill_temporary(*key, value),
            Op::DropTemporary => {
                match self.pool.destroy_container(&self.temporary_label(), false).wait() {
                    Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Removes a key, puts others and writes cells in one transaction.
    fn together(
        &self,
        puts: &[(u64, Arc<Vec<u8>>)],
        remove: u64,
        range: Extent,
        bytes: &[u8],
    ) -> Result<()> {
        let transaction = self.own.transaction()?;
        let access = Access::Tx(&transaction);
        self.keys.remove(&remove.to_le_bytes(), Cond::NONE, access).wait()?;
        for (key, value) in puts {
            self.keys.put(&key.to_le_bytes(), value, Cond::NONE, access).wait()?;
        }
        self.cells.write(&[range], Source::One(bytes), access).wait()?;
        transaction.commit().wait()
    }

    /// Moves an amount between two accounts and counts the transfer, in one transaction. Repeats it after conflicts.
    fn transfer(&self, from: u64, to: u64, amount: u64) -> Result<()> {
        let transaction = self.shared.transaction()?;
        loop {
            let access = Access::Tx(&transaction);
            let read = |key: &[u8]| self.accounts.get(key, access).wait().map(number_of);
            let (from, to) = (from.to_le_bytes(), to.to_le_bytes());
            let (first, second) = (read(&from)?, read(&to)?);
            let count = read(&count_key(self.slot))? + 1;
            let amount = amount.min(first);
            let write = |key: &[u8], value: u64| {
                self.accounts.put(key, &value.to_le_bytes(), Cond::NONE, access).wait()
            };
            write(&from, first - amount)?;
            write(&to, second + amount)?;
            write(&count_key(self.slot), count)?;
            match transaction.commit().wait() {
                Err(error) if error.kind() == ErrorKind::TxRestart => transaction.restart()?,
                other => return other,
            }
        }
    }

    /// Takes a snapshot, or destroys the oldest one if there are enough.
    fn snapshot(&self, name: &str) -> Result<()> {
        let known = self.own.snapshots().wait()?;
        match known.first() {
            Some(oldest) if Model::is_full_of_snapshots(known.len()) => {
                self.own.destroy_snapshot(oldest.epoch).wait()
            }
            _ => self.own.create_snapshot(name).wait().map(drop),
        }
    }

    fn fill_temporary(&self, key: u64, value: &[u8]) -> Result<()> {
        match open_container(&self.pool, &self.temporary_label()) {
            Ok(container) => {
                let keys = kv_of(&container)?;
                keys.put(&key.to_le_bytes(), value, Cond::NONE, Access::Latest).wait()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Describes the difference from the model; `None` if they are equal.
    pub(crate) fn differs_from(&self, model: &Model) -> Result<Option<String>> {
        if let Some(text) = self.content_differs(&model.now, Access::Latest)? {
            return Ok(Some(format!("now: {text}")));
        }
        let snapshots = self.own.snapshots().wait()?;
        let names: Vec<_> = snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
        let wanted: Vec<_> = model.snapshots.iter().map(|(name, _)| name.as_str()).collect();
        if names != wanted {
            return Ok(Some(format!("snapshots {names:?}, not {wanted:?}")));
        }
        for (snapshot, (name, content)) in snapshots.iter().zip(&model.snapshots) {
            let access = Access::Snapshot(snapshot.epoch);
            if let Some(text) = self.content_differs(content, access)? {
                return Ok(Some(format!("snapshot {name}: {text}")));
            }
        }
        let transfers = number_of(self.accounts.get(&count_key(self.slot), Access::Latest).wait()?);
        if transfers != model.transfers {
            return Ok(Some(format!("{transfers} transfers, not {}", model.transfers)));
        }
        self.temporary_differs(model)
    }

    /// Describes how the temporary container differs from the model; `None` if it does not.
    fn temporary_differs(&self, model: &Model) -> Result<Option<String>> {
        let found = match open_container(&self.pool, &self.temporary_label()) {
            Ok(container) => Some(container),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        match (found, &model.temporary) {
            (None, None) => Ok(None),
            (Some(container), Some(keys)) => {
                let text = keys_differ(&kv_of(&container)?, keys, Access::Latest)?;
                Ok(text.map(|text| format!("temporary container: {text}")))
            }
            (found, _) => Ok(Some(format!("temporary container exists: {}", found.is_some()))),
        }
    }

    /// Describes how keys or cells differ from the expected content; `None` if they do not.
    fn content_differs(&self, content: &Content, access: Access<'_>) -> Result<Option<String>> {
        if let Some(text) = keys_differ(&self.keys, &content.keys, access)? {
            return Ok(Some(text));
        }
        let mut cells = vec![0; CELLS as usize];
        let whole = [Extent::new(0, CELLS)];
        self.cells.read(&whole, Sink::One(&mut cells), access).wait()?;
        let wrong = cells.iter().zip(&content.cells).position(|(found, wanted)| found != wanted);
        if let Some(at) = wrong {
            let (found, wanted) = (cells[at], content.cells[at]);
            return Ok(Some(format!("cell {at} holds {found}, not {wanted}")));
        }
        let size = self.cells.size(access).wait()?;
        let wanted =
            content.cells.iter().rposition(|cell| *cell != 0).map_or(0, |at| at as u64 + 1);
        Ok((size != wanted).then(|| format!("array of {size} cells, not {wanted}")))
    }
}

/// Describes how the keys and values of a Key-Value differ from the expected ones; `None` if they do not.
fn keys_differ(
    kv: &Kv,
    wanted: &BTreeMap<u64, Arc<Vec<u8>>>,
    access: Access<'_>,
) -> Result<Option<String>> {
    let mut found = BTreeMap::new();
    let mut anchor = Anchor::Start;
    while !anchor.is_end() {
        for key in kv.list(&mut anchor, ListLimit::entries(7), access).wait()?.iter() {
            found.insert(number_of(Some(key.to_vec())), kv.get(key, access).wait()?);
        }
    }
    if !found.keys().eq(wanted.keys()) {
        let (found, wanted): (Vec<_>, Vec<_>) = (found.keys().collect(), wanted.keys().collect());
        return Ok(Some(format!("keys {found:?}, not {wanted:?}")));
    }
    let wrong = found.iter().find(|(key, value)| value.as_ref() != wanted.get(key).map(|v| &**v));
    Ok(wrong.map(|(key, value)| {
        let (len, wanted) = (value.as_ref().map(Vec::len), wanted.get(key).map(|v| v.len()));
        format!("key {key}: {len:?} bytes, expected {wanted:?}, or other content")
    }))
}
