//! Descriptions of tensors.
use crate::code::Code;
use crate::stores::failure::{Failure, Result};
use crate::stores::milliseconds;
use esker::types::Uuid;
use esker_tensors::limits::DIMENSIONS_MAX;
use esker_tensors::{DataType, Listed, Put, Tensor};

/// `esker_tensor_info_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TensorInfo {
    /// The UUID as text, with a NUL.
    pub uuid: [u8; 40],
    /// The type of the elements in the form of numpy's `dtype.str`, with a NUL.
    pub dtype: [u8; 64],
    /// The name, with a NUL; empty if the tensor has none.
    pub name: [u8; 1008],
    /// Bytes of an element.
    pub item: u64,
    /// Bytes of all elements.
    pub bytes: u64,
    /// Time of its commit, in milliseconds since 1970.
    pub committed_ms: u64,
    /// Number of attributes; 0 in lists.
    pub attributes: u32,
    /// Members of the type, if it is structured.
    pub members: u32,
    /// Dimensions.
    pub ndim: u32,
    /// Unused.
    pub padding: u32,
    /// The shape.
    pub shape: [u64; DIMENSIONS_MAX],
    /// The shape of a chunk; zeros in lists.
    pub chunks: [u64; DIMENSIONS_MAX],
}

impl TensorInfo {
    /// The description of an open tensor for C.
    pub(super) fn from_tensor(tensor: &Tensor) -> Result<Self> {
        let (grid, uuid) = (tensor.grid(), tensor.uuid());
        let mut info = Self::new(uuid, tensor.name(), tensor.data_type(), grid.shape())?;
        info.chunks = lengths(grid.chunks());
        info.bytes = grid.bytes();
        info.attributes = tensor.attributes().len() as u32;
        info.committed_ms = milliseconds(tensor.committed());
        Ok(info)
    }

    /// The description of a tensor that is being written.
    pub(super) fn from_put(put: &Put) -> Result<Self> {
        let grid = put.grid();
        let mut info = Self::new(put.uuid(), None, put.data_type()?, grid.shape())?;
        info.chunks = lengths(grid.chunks());
        info.bytes = grid.bytes();
        Ok(info)
    }

    /// The description of a tensor of a list.
    pub(super) fn from_listed(listed: &Listed) -> Result<Self> {
        let name = listed.name.as_deref();
        let mut info = Self::new(listed.uuid, name, &listed.data_type, &listed.shape)?;
        info.bytes = listed.bytes;
        info.committed_ms = milliseconds(listed.committed);
        Ok(info)
    }

    fn new(uuid: Uuid, name: Option<&str>, data_type: &DataType, shape: &[u64]) -> Result<Self> {
        Ok(Self {
            uuid: text(&uuid.to_string())?,
            dtype: text(&data_type.code)?,
            name: text(name.unwrap_or_default())?,
            item: data_type.size()?,
            bytes: 0,
            committed_ms: 0,
            attributes: 0,
            members: data_type.fields.len() as u32,
            ndim: shape.len() as u32,
            padding: 0,
            shape: lengths(shape),
            chunks: [0; DIMENSIONS_MAX],
        })
    }
}

/// Copies a text to an array of `N` bytes that ends with a zero byte. `OVERFLOW` if it does not fit.
fn text<const N: usize>(text: &str) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match bytes.get_mut(..text.len()) {
        Some(room) if text.len() < N => {
            room.copy_from_slice(text.as_bytes());
            Ok(bytes)
        }
        _ => {
            let text =
                format!("{text:?} is longer than the {} bytes of esker_tensor_info_t", N - 1);
            Err(Failure::new(Code::OVERFLOW, text))
        }
    }
}

/// Lengths of all dimensions, followed by zeros.
fn lengths(shape: &[u64]) -> [u64; DIMENSIONS_MAX] {
    let mut lengths = [0; DIMENSIONS_MAX];
    lengths.iter_mut().zip(shape).for_each(|(to, from)| *to = *from);
    lengths
}
