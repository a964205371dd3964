//! A tensor as many HDF5 files: one for each chunk, and one with a virtual dataset over them.
use super::draft::Draft;
use super::groups::path;
use super::pack::sealed;
use crate::grid::Grid;
use crate::slab::Slab;
use crate::store::Tensor;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Name of the dataset in the file of a chunk.
const CHUNK: &str = "chunk";

/// The files of a tensor.
#[derive(Clone, Debug)]
pub struct Parts {
    tensor: Tensor,
}

impl Parts {
    /// The files of a tensor.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if it has no dimensions: a virtual dataset needs one.
    pub fn new(tensor: &Tensor) -> Result<Self> {
        if tensor.grid().shape().is_empty() {
            let text =
                "a tensor without dimensions has no virtual dataset: export it without --virtual";
            return Err(Error::new(ErrorKind::NotSupported, text));
        }
        Ok(Self { tensor: tensor.clone() })
    }

    /// The number of chunks, each of which has a file.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self.tensor.grid().bytes() {
            0 => 0,
            _ => self.tensor.grid().chunk_count(),
        }
    }

    /// Name of the file of a chunk.
    #[must_use]
    pub fn name(chunk: u64) -> String {
        format!("{chunk}.h5")
    }

    /// The bytes of the file of a chunk: those of its elements that are inside the tensor.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub fn chunk(&self, chunk: u64) -> Result<Vec<u8>> {
        let (tensor, slabs) = (&self.tensor, self.tensor.grid().chunk_slabs(chunk));
        let shape: Vec<u64> = slabs.iter().map(|slab| slab.count).collect();
        let bytes = tensor.bytes_of(&slabs)?;
        let draft = Draft::new(vec![CHUNK.into()], tensor.data_type(), &shape, &BTreeMap::new())?;
        // A layout of version 3, contiguous.
        let mut file = draft.finish(bytes as u64, |data| {
            [&[3, 1][..], &data.to_le_bytes(), &(bytes as u64).to_le_bytes()].concat()
        })?;
        let start = file.len();
        file.resize(start + bytes, 0);
        tensor.read(&slabs, &mut file[start..])?;
        Ok(file)
    }

    /// The bytes of the file with the virtual dataset. The files of the chunks are in `directory`, relative to this
    /// file.
    ///
    /// # Errors
    /// The errors of [`super::Image::new`].
    pub fn index(&self, directory: &str) -> Result<Vec<u8>> {
        let (tensor, grid) = (&self.tensor, self.tensor.grid());
        let path = path(tensor.name());
        let mut draft = Draft::new(path, tensor.data_type(), grid.shape(), tensor.attributes())?;
        let reference = draft.heap.push(&self.mapping(grid, directory));
        // Version 4, virtual.
        let layout =
            [&[4, 3][..], &reference.collection.to_le_bytes(), &reference.number.to_le_bytes()]
                .concat();
        draft.finish(0, |_| layout.clone())
    }

    /// Encodes the mapping of the virtual dataset to the files of the chunks, which are in `directory`.
    fn mapping(&self, grid: &Grid, directory: &str) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(self.count().to_le_bytes());
        // The library would read % as the start of a number.
        let directory = directory.replace('%', "%%");
        for chunk in 0..self.count() {
            bytes.extend(format!("{directory}/{}\0{CHUNK}\0", Self::name(chunk)).bytes());
            // Selects all of the source: type and version only.
            bytes.extend([3u32, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
            bytes.extend(hyperslab(&grid.chunk_slabs(chunk)));
        }
        sealed(bytes)
    }
}

/// Encodes a selection in the form of HDF5. The slabs have no gaps.
fn hyperslab(slabs: &[Slab]) -> Vec<u8> {
    // Type and version; the selection is regular.
    let mut bytes = [2u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
    bytes.push(1);
    bytes.extend((4 + 32 * slabs.len() as u32).to_le_bytes());
    bytes.extend((slabs.len() as u32).to_le_bytes());
    for slab in slabs {
        // One block: start, stride, number of blocks, length of a block.
        let words = [slab.start, slab.count, 1, slab.count];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    bytes
}
