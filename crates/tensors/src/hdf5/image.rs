//! The HDF5 file of a tensor. Its data are the tensor's Array.
use super::draft::Draft;
use super::groups::path;
use super::pack::NOWHERE;
use crate::grid::Grid;
use crate::store::Tensor;
use esker_types::{Error, ErrorKind, Result};

/// The HDF5 file that represents a tensor: one dataset with the name and the attributes of the tensor.
///
/// Only its metadata are in memory. The rest are the bytes of the tensor's Array, in their order. Nothing is converted,
/// and any part of the file can be read without the others.
#[derive(Clone, Debug)]
pub struct Image {
    tensor: Tensor,
    head: Vec<u8>,
    bytes: u64,
}

impl Image {
    /// The HDF5 file that shows a tensor. Only its head is made now; its data is read from the tensor.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if HDF5 cannot represent its type or an attribute, which the message names.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        let grid = tensor.grid();
        let path = path(tensor.name());
        let draft = Draft::new(path, tensor.data_type(), grid.shape(), tensor.attributes())?;
        let bytes =
            if grid.is_flat() { grid.bytes() } else { grid.chunk_count() * grid.chunk_bytes() };
        let head = draft.finish(bytes, |data| layout(grid, data))?;
        Ok(Self { tensor: tensor.clone(), head, bytes })
    }

    /// The tensor that it represents.
    #[must_use]
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.head.len() as u64 + self.bytes
    }

    /// Fills `buffer` with the bytes of the file, starting at `at`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] beyond the end of the file; the errors of [`Tensor::read`].
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        if at.checked_add(buffer.len() as u64).is_none_or(|end| end > self.bytes()) {
            let text =
                format!("{} bytes at {at} are not in a file of {}", buffer.len(), self.bytes());
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let head = self.head.get(at as usize..).unwrap_or_default();
        let own = head.len().min(buffer.len());
        let (first, rest) = buffer.split_at_mut(own);
        first.copy_from_slice(&head[..own]);
        if rest.is_empty() {
            return Ok(());
        }
        let start = (at + own as u64) - self.head.len() as u64;
        self.tensor.read_bytes(start, rest)
    }
}

/// The layout message: contiguous, or chunks that follow each other, both starting at the address `data`.
fn layout(grid: &Grid, data: u64) -> Vec<u8> {
    if grid.is_flat() {
        // Version 3, contiguous.
        let data = if grid.bytes() == 0 { NOWHERE } else { data };
        return [&[3, 1][..], &data.to_le_bytes(), &grid.bytes().to_le_bytes()].concat();
    }
    let lengths: Vec<u64> = grid.chunks().iter().copied().chain([grid.item()]).collect();
    // Lengths have as many bytes as the longest one needs. The library refuses another number.
    let longest = lengths.iter().max().map_or(1, |longest| longest.ilog2() / 8 + 1);
    // Version 4, no flags; the last length is the size of an element.
    let mut bytes = vec![4, 2, 0, lengths.len() as u8, longest as u8];
    for length in lengths {
        bytes.extend(&length.to_le_bytes()[..longest as usize]);
    }
    // The implicit index.
    bytes.push(2);
    bytes.extend(data.to_le_bytes());
    bytes
}
