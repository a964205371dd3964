//! Bytes of HDF5's metadata: superblock, object headers and their messages.
use super::unsupported;
use esker_types::Result;
use hdf5_core::jenkins_lookup3;

/// The undefined address.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Bytes of the superblock.
pub(super) const SUPERBLOCK_BYTES: u64 = 48;

/// The data of a file start at a multiple of this: a page.
pub(super) const ALIGNMENT: u64 = 4096;

/// Types of messages in object headers.
pub(super) mod message {
    pub(crate) const DATASPACE: u8 = 1;
    pub(crate) const LINK_INFO: u8 = 2;
    pub(crate) const DATATYPE: u8 = 3;
    pub(crate) const FILL_VALUE: u8 = 5;
    pub(crate) const LINK: u8 = 6;
    pub(crate) const LAYOUT: u8 = 8;
    pub(crate) const GROUP_INFO: u8 = 10;
    pub(crate) const ATTRIBUTE: u8 = 12;
}

/// An object header of version 2, to which messages are appended.
#[derive(Default)]
pub(super) struct ObjectHeader {
    messages: Vec<u8>,
}

impl ObjectHeader {
    /// Appends a message of the type `kind`. `what` names its body in the error.
    ///
    /// # Errors
    /// [`esker_types::ErrorKind::NotSupported`] if the body has more than 65,535 bytes.
    pub(super) fn push(&mut self, kind: u8, body: &[u8], what: &str) -> Result<()> {
        let length = u16::try_from(body.len()).map_err(|_| {
            unsupported(format!(
                "{what} takes {} bytes in a file of HDF5, which has room for 65535: shorten it in a copy of the tensor",
                body.len()
            ))
        })?;
        self.messages.push(kind);
        self.messages.extend(length.to_le_bytes());
        self.messages.push(0);
        self.messages.extend(body);
        Ok(())
    }

    /// The bytes of the header, with its checksum.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // Flags: the size of the first block has four bytes.
        let mut bytes = b"OHDR\x02\x02".to_vec();
        bytes.extend((self.messages.len() as u32).to_le_bytes());
        bytes.extend(&self.messages);
        sealed(bytes)
    }
}

/// `bytes`, followed by their checksum as HDF5 computes it (Jenkins' lookup3).
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(jenkins_lookup3(&bytes).to_le_bytes());
    bytes
}

/// The superblock, version 2, of a file of `end` bytes whose root group is at `root`.
pub(super) fn superblock(end: u64, root: u64) -> Vec<u8> {
    let mut bytes = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00".to_vec();
    // Start of the file, extension of the superblock, end of the file, root group.
    for address in [0, NOWHERE, end, root] {
        bytes.extend(address.to_le_bytes());
    }
    sealed(bytes)
}

/// Encodes the HDF5 message that states the shape of a dataset, or that it is a scalar.
pub(super) fn dataspace(shape: &[u64]) -> Vec<u8> {
    let mut bytes = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    bytes.extend(shape.iter().flat_map(|length| length.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_library() {
        let bytes = superblock(0x1234, 48);
        assert_eq!(bytes.len() as u64, SUPERBLOCK_BYTES);
        assert_eq!(bytes[44..], jenkins_lookup3(&bytes[..44]).to_le_bytes());
        // An example from Bob Jenkins' tests.
        assert_eq!(jenkins_lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_by_name() {
        let error =
            ObjectHeader::default().push(12, &[0; 65536], "the attribute \"a\"").unwrap_err();
        assert!(error.message().contains("the attribute \"a\" takes 65536 bytes"), "{error}");
    }
}
