//! HDF5 files: tensors as files, in place or exported, and import of datasets as tensors.
//!
//! [`Image`] is the file of a tensor: metadata, which are made when needed, followed by the bytes of the tensor's
//! Array. Chunks of complete rows are a contiguous dataset of HDF5. Other chunks are a chunked dataset whose chunks
//! follow each other (the "implicit" index of layout version 4). Both have the same order and distances as the Array.
//! [`Parts`] are files of one chunk each under a virtual dataset; [`write()`] and [`write_virtual`] write both kinds.
//! [`Source`] reads datasets of any file, by [`hdf5_reader`]. The written files follow the HDF5 File Format
//! Specification, version 3.0.
mod draft;
mod export;
mod groups;
mod heap;
mod image;
mod pack;
mod parts;
mod source;
mod source_bits;
mod source_find;
mod source_numbers;
mod source_types;
mod source_values;
mod types;
mod values;

pub use export::{Progress, write, write_to, write_virtual};
pub use image::Image;
pub use parts::Parts;
pub use source::Source;
pub use source_values::Remark;

use esker_types::{Error, ErrorKind};

/// An error about something that HDF5 cannot represent.
#[cold]
fn unsupported(text: String) -> Error {
    Error::new(ErrorKind::NotSupported, text)
}
