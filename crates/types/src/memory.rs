//! Memory of a size that a user or a stored value names.
use crate::{Error, ErrorKind, Result};

/// This many zeros, for bytes to be read into.
///
/// # Errors
/// `NoMemory` if the process cannot have them, as under a limit of memory: the usual ways to allocate end it then.
pub fn zeros(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    resize(&mut bytes, len)?;
    Ok(bytes)
}

/// Room for this many bytes.
///
/// # Errors
/// As [`zeros`].
pub fn room(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reserve(&mut bytes, len)?;
    Ok(bytes)
}

/// Makes `bytes` this long, with zeros behind what is there.
///
/// # Errors
/// As [`zeros`].
pub fn resize(bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    reserve(bytes, len)?;
    bytes.resize(len, 0);
    Ok(())
}

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
