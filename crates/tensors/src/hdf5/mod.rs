//! Files of HDF5: a tensor as one, without a copy or written out, and tensors made of their datasets.
//!
//! [`Image`] is the file of a tensor: metadata, which are made on the spot, and behind them the bytes of the tensor's Array
//! as they are. Chunks of whole rows are a contiguous dataset of HDF5, others a chunked one whose chunks follow each other
//! (the "implicit" index of layout version 4): both have the same order and distances as the Array. [`Parts`] are files of
//! one chunk each under a virtual dataset, [`write`] and [`write_virtual`] write both, and [`Source`] reads datasets of any file. What is written is described in the
//! HDF5 File Format Specification, version 3.0; [`hdf5_reader`] reads.
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

/// An error about something that HDF5 cannot say.
#[cold]
fn unsupported(text: String) -> Error {
    Error::new(ErrorKind::NotSupported, text)
}
