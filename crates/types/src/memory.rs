//! Allocation of sizes that come from a user or from stored data.
use crate::{Error, ErrorKind, Result};

/// Allocates `len` zeros, as a buffer for reads.
///
/// # Errors
/// `NoMemory` if the allocation fails, as under a memory limit. The standard ways to allocate would end the process.
pub fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    resize(&mut bytes, len)?;
    Ok(bytes)
}

/// An empty vector with capacity for `len` bytes.
///
/// # Errors
/// The errors of [`zeros`].
pub fn room(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, len)?;
    Ok(bytes)
}

/// Extends `bytes` with zeros to this length, or truncates them.
///
/// # Errors
/// The errors of [`zeros`].
pub fn resize(bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    reserve(bytes, len)?;
    bytes.resize(len, 0);
    Ok(())
}

/// Makes sure that `bytes` can grow to `len` bytes in total. `NoMemory` if that fails.
fn reserve(bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    bytes.try_reserve_exact(len.saturating_sub(bytes.len())).map_err(|_| {
        let text = format!(
            "there is no memory for {len} bytes: read or write fewer at a time, or raise the limit (`ulimit -v`, \
             cgroup)"
        );
        Error::new(ErrorKind::NoMemory, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_bytes_are_an_error() {
        assert_eq!(zeros(usize::MAX >> 1).unwrap_err().kind(), ErrorKind::NoMemory);
        assert_eq!(room(usize::MAX >> 1).unwrap_err().kind(), ErrorKind::NoMemory);
        assert_eq!(zeros(3).unwrap(), [0; 3]);
        let mut bytes = vec![1, 2];
        resize(&mut bytes, 3).unwrap();
        assert_eq!(bytes, [1, 2, 0]);
    }
}
