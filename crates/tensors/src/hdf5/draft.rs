//! A file with one dataset, before the addresses of its parts are known.
use super::groups::groups;
use super::heap::Heap;
use super::pack::{ALIGNMENT, ObjectHeader, SUPERBLOCK_BYTES, dataspace, message, superblock};
use super::{types, values};
use crate::dtype::DataType;
use crate::messages::Attribute;
use esker_types::Result;
use std::collections::BTreeMap;

/// Body of the fill value message: version 3, and early allocation of the data.
const FILL_VALUE: [u8; 2] = [3, 9];

/// The dataset of a file, and the heap that its attributes and its layout refer to.
pub(super) struct Draft {
    path: Vec<String>,
    data_type: Vec<u8>,
    space: Vec<u8>,
    attributes: Vec<(String, Vec<u8>)>,
    pub(super) heap: Heap,
}

impl Draft {
    /// A dataset at `path`.
    ///
    /// # Errors
    /// [`esker_types::ErrorKind::NotSupported`] if HDF5 cannot represent its type or an attribute.
    pub(super) fn new(
        path: Vec<String>,
        of: &DataType,
        shape: &[u64],
        attributes: &BTreeMap<String, Attribute>,
    ) -> Result<Self> {
        let mut heap = Heap::new(SUPERBLOCK_BYTES);
        let attribute = |(name, value): (&String, &Attribute)| {
            Ok((name.clone(), values::encode(name, value, &mut heap)?))
        };
        let attributes = attributes.iter().map(attribute).collect::<Result<_>>()?;
        Ok(Self { path, data_type: types::encode(of)?, space: dataspace(shape), attributes, heap })
    }

    /// Encodes the object header of a dataset.
    fn header(&self, layout: &[u8]) -> Result<Vec<u8>> {
        let mut header = ObjectHeader::default();
        header.push(message::DATASPACE, &self.space, "the shape")?;
        header.push(message::DATATYPE, &self.data_type, "the type")?;
        header.push(message::FILL_VALUE, &FILL_VALUE, "the fill value")?;
        header.push(message::LAYOUT, layout, "the layout")?;
        for (name, attribute) in &self.attributes {
            header.push(message::ATTRIBUTE, attribute, &format!("the attribute {name:?}"))?;
        }
        Ok(header.bytes())
    }

    /// The bytes of the file before its data, which have `bytes` bytes. `layout` makes the layout message for an
    /// address of the data; its length must not depend on the address.
    pub(super) fn finish(mut self, bytes: u64, layout: impl Fn(u64) -> Vec<u8>) -> Result<Vec<u8>> {
        let heap = std::mem::replace(&mut self.heap, Heap::new(0)).bytes();
        let dataset = SUPERBLOCK_BYTES + heap.len() as u64;
        let after = dataset + self.header(&layout(0))?.len() as u64;
        let (groups, root) = groups(&self.path, dataset, after)?;
        let data = (after + groups.len() as u64).next_multiple_of(ALIGNMENT);
        let header = self.header(&layout(data))?;
        let mut file = [superblock(data + bytes, root), heap, header, groups].concat();
        file.resize(data as usize, 0);
        Ok(file)
    }
}
