//! Extended attributes.
use crate::answer::{Answer, of_number};
use crate::inodes::ROOT;
use crate::served::Served;
use crate::unmount::SERVER_ATTRIBUTE;
use dfs::{IDENTITY_ATTRIBUTE, XattrMode};
use fuser::Errno;

/// Prefixes of the names that are stored. The kernel asks for others itself (access control lists), and caches the
/// refusal for all files.
const KEPT: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Linux: `XATTR_CREATE`.
const CREATE: i32 = 1;
/// Linux: `XATTR_REPLACE`.
const REPLACE: i32 = 2;

/// The reply to a program that asks for a value with a buffer of some size.
pub(crate) enum XattrReply {
    /// The buffer has zero bytes: the program asks for the size.
    Size(u32),
    Value(Vec<u8>),
}

impl XattrReply {
    /// The reply for a buffer of `room` bytes. Fails with `ERANGE` if the value does not fit in it.
    pub(crate) fn for_room(value: Vec<u8>, room: u32) -> Answer<Self> {
        match room as usize {
            0 => Ok(Self::Size(value.len() as u32)),
            room if value.len() > room => Err(Errno::ERANGE.into()),
            _ => Ok(Self::Value(value)),
        }
    }
}

impl Served {
    /// Value of an extended attribute. Two are not stored but computed: the process id of the server, on the root, and
    /// the identity of an entry.
    pub(crate) fn attribute(&self, number: u64, name: &[u8]) -> Answer<Vec<u8>> {
        if number == ROOT && name == SERVER_ATTRIBUTE.as_bytes() {
            return Ok(std::process::id().to_string().into_bytes());
        }
        if name == IDENTITY_ATTRIBUTE.as_bytes() {
            let identity = self.inode(number)?.node().identity().ok_or(Errno::ENODATA)?;
            return Ok(identity.into_bytes());
        }
        check_name(name)?;
        of_number(self.inode(number)?.node().get_xattr(name))
    }

    /// Sets an extended attribute. `flags` state whether it must be new or must exist.
    pub(crate) fn set_attribute(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Answer<()> {
        check_name(name)?;
        let mode = match flags {
            0 => XattrMode::Any,
            CREATE => XattrMode::Create,
            REPLACE => XattrMode::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        of_number(self.inode(number)?.node().set_xattr(name, value, mode))
    }

    pub(crate) fn remove_attribute(&self, number: u64, name: &[u8]) -> Answer<()> {
        check_name(name)?;
        of_number(self.inode(number)?.node().remove_xattr(name))
    }

    /// The names, each followed by a zero byte.
    pub(crate) fn attribute_names(&self, number: u64) -> Answer<Vec<u8>> {
        let names = of_number(self.inode(number)?.node().list_xattrs())?;
        Ok(names
            .into_iter()
            .flat_map(|mut name| {
                name.push(0);
                name
            })
            .collect())
    }
}

/// Refuses a name outside the namespaces that are stored.
fn check_name(name: &[u8]) -> Answer<()> {
    match KEPT.iter().any(|prefix| name.starts_with(prefix)) {
        true => Ok(()),
        false => Err(Errno::EOPNOTSUPP.into()),
    }
}
