//! Metadata of pools and containers, and the numbers containers hand out.
use super::{Container, each};
use crate::commit::Change;
use crate::io::txn::Txn;
use crate::keys::{Key, Table};
use crate::pool::State;
use esker_types::info::ContainerId;
use esker_types::{Error, ErrorKind, Result};

impl State {
    /// First of `count` consecutive numbers nobody else gets.
    pub fn allocate_oids(&self, container: &Container, count: u64) -> Result<u64> {
        self.targets[0].change(|change| {
            container.check_alive(self)?;
            let first = next_oid(change.txn(), container.id())?;
            let next = first.checked_add(count).ok_or_else(|| {
                Error::new(
                    ErrorKind::Overflow,
                    "the container has no object ids left: make another one",
                )
            })?;
            put_next_oid(change, container.id(), next)?;
            Ok(first)
        })
    }

    /// Number the next allocation would begin with.
    pub fn next_oid(&self, container: &Container) -> Result<u64> {
        next_oid(&*self.targets[0].read()?, container.id())
    }

    /// Value of a piece of metadata of a container, or of the pool.
    pub fn get_metadata(
        &self,
        container: Option<ContainerId>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let txn = self.targets[0].read()?;
        Ok(txn.get(&key(container.unwrap_or(POOL), name))?.map(<[u8]>::to_vec))
    }

    /// Sets or removes metadata, all or nothing.
    pub fn set_metadata(
        &self,
        container: Option<ContainerId>,
        changes: &[(&str, Option<&[u8]>)],
    ) -> Result<()> {
        self.targets[0].change(|change| {
            for (name, value) in changes {
                let key = key(container.unwrap_or(POOL), name);
                match value {
                    Some(value) => {
                        change.check_room()?;
                        change.put(&key, value)?;
                    }
                    None => {
                        change.delete(&key)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Names of the metadata that begin with `prefix`, sorted.
    pub fn list_metadata(
        &self,
        container: Option<ContainerId>,
        prefix: &str,
    ) -> Result<Vec<String>> {
        let txn = self.targets[0].read()?;
        let scope = Key::container(Table::Attribute, container.unwrap_or(POOL));
        let mut names = Vec::new();
        each(&txn, &scope.clone().push(prefix.as_bytes()), |key, _| {
            names.push(String::from_utf8_lossy(&key[scope.len()..]).into_owned());
            Ok(())
        })?;
        Ok(names)
    }
}

/// Stands for the pool where metadata belongs to no container.
const POOL: ContainerId = ContainerId(0);

/// Key of a piece of metadata.
pub(super) fn key(container: ContainerId, name: &str) -> Key {
    Key::container(Table::Attribute, container).push(name.as_bytes())
}

fn oid_key(container: ContainerId) -> Key {
    Key::container(Table::Oid, container)
}

fn next_oid(txn: &Txn, container: ContainerId) -> Result<u64> {
    let value = txn.get(&oid_key(container))?;
    Ok(value.and_then(|value| value.try_into().ok()).map_or(0, u64::from_le_bytes))
}

/// Sets the number the next allocation begins with.
pub(super) fn put_next_oid(
    change: &mut Change<'_>,
    container: ContainerId,
    next: u64,
) -> Result<()> {
    change.put(&oid_key(container), &next.to_le_bytes())
}
