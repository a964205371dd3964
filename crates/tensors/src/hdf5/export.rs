//! Export of tensors to HDF5 files.
use super::{Image, Parts};
use crate::store::Tensor;
use esker_os::whole::{self, WholeFile};
use esker_types::{Error, ErrorKind, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 32 << 20;

/// Callback with the number of written bytes and the total.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Writes the file of a tensor to `to`, in pieces. Errors call the file `name`.
///
/// # Errors
/// The errors of [`Image::new`]; [`ErrorKind::Io`].
pub fn write_to(
    tensor: &Tensor,
    to: &mut dyn Write,
    name: &str,
    progress: Progress<'_>,
) -> Result<()> {
    let image = Image::new(tensor)?;
    write_image(&image, to, name, progress)
}

/// Writes a tensor to a file.
///
/// # Errors
/// The errors of [`write_to`]. If HDF5 cannot represent the tensor, an existing file is not changed.
pub fn write(tensor: &Tensor, path: &Path, progress: Progress<'_>) -> Result<()> {
    let (image, name) = (Image::new(tensor)?, path.display().to_string());
    let mut file = WholeFile::create(path)?;
    write_image(&image, &mut file, &name, progress)?;
    file.finish()
}

/// Writes the image of an HDF5 file to `to`, piece by piece.
fn write_image(
    image: &Image,
    to: &mut dyn Write,
    name: &str,
    progress: Progress<'_>,
) -> Result<()> {
    let failed = |error| Error::io(format!("writing {name}"), &error);
    let (mut at, mut buffer, total) = (0, Vec::new(), image.bytes());
    while at < total {
        buffer.resize(PIECE_BYTES.min(total - at) as usize, 0);
        image.read(at, &mut buffer)?;
        to.write_all(&buffer).map_err(failed)?;
        at += buffer.len() as u64;
        progress(at, total);
    }
    to.flush().map_err(failed)
}

/// Writes a file for each chunk to the directory PATH.chunks, then the file with the virtual dataset over them to
/// `path`. Returns the number of chunks.
///
/// # Errors
/// The errors of [`Parts::new`] and [`write()`]; [`ErrorKind::Invalid`] if the file name is not UTF-8. If HDF5 cannot
/// represent the tensor, existing files are not changed.
pub fn write_virtual(tensor: &Tensor, path: &Path, progress: Progress<'_>) -> Result<u64> {
    let parts = Parts::new(tensor)?;
    let directory = chunk_directory(path)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    // Made before any file is written, so that files of an earlier export are not changed if HDF5 cannot represent the
    // tensor.
    let index = parts.index(&name)?;
    let failed = |error| Error::io(format!("making the directory {}", directory.display()), &error);
    std::fs::create_dir_all(&directory).map_err(failed)?;
    let total = tensor.grid().bytes();
    for chunk in 0..parts.count() {
        whole::write(&directory.join(Parts::name(chunk)), &parts.chunk(chunk)?)?;
        progress(total.min((chunk + 1) * tensor.grid().chunk_bytes()), total);
    }
    whole::write(path, &index)?;
    Ok(parts.count())
}

/// PATH.chunks. An HDF5 file refers to it by its name in UTF-8.
fn chunk_directory(path: &Path) -> Result<PathBuf> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(path.with_file_name(format!("{name}.chunks"))),
        None => {
            let text = format!("{} has no name in UTF-8: choose another", path.display());
            Err(Error::new(ErrorKind::Invalid, text))
        }
    }
}
