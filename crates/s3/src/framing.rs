//! Framing of bodies in signed chunks. This module detects a body that ends before its last chunk, which `s3s` accepts
//! as complete.

/// The header that says how the content of a request is signed.
pub(crate) const CONTENT_SHA256: &str = "x-amz-content-sha256";
/// Values of that header for bodies in chunks have this prefix.
const STREAMING: &str = "STREAMING-";
/// Most bytes of the line in front of a chunk.
const LINE_BYTES_MAX: usize = 128;
/// Most digits of the size of a chunk.
const SIZE_DIGITS_MAX: usize = 8;

/// Position in a body of chunks. A chunk is a line with its size in hexadecimal digits, its data and an end of line.
/// The last chunk is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Not a body in chunks.
    #[default]
    None,
    /// In the line in front of a chunk.
    Line(Vec<u8>),
    /// In a chunk: bytes to come, with those of the end of line.
    Data(u64),
    /// Behind the last chunk.
    Last,
}

impl Framing {
    /// The framing of a body, before its first byte.
    pub(crate) fn new(headers: &hyper::HeaderMap) -> Self {
        let kind = headers.get(CONTENT_SHA256).map(|value| value.as_bytes());
        match kind.is_some_and(|kind| kind.starts_with(STREAMING.as_bytes())) {
            true => Self::Line(Vec::new()),
            false => Self::None,
        }
    }

    /// Moves past the next bytes of the body.
    ///
    /// # Errors
    /// A reason if they are not chunks.
    pub(crate) fn advance(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some((first, rest)) = bytes.split_first() {
            match self {
                Self::None | Self::Last => return Ok(()),
                Self::Line(line) if *first == b'\n' => {
                    *self = after_line(line)?;
                    bytes = rest;
                }
                Self::Line(line) if line.len() == LINE_BYTES_MAX => {
                    return Err(format!("the line before a chunk exceeds {LINE_BYTES_MAX} bytes"));
                }
                Self::Line(line) => {
                    line.push(*first);
                    bytes = rest;
                }
                Self::Data(missing) => {
                    let passed = bytes.len().min(usize::try_from(*missing).unwrap_or(usize::MAX));
                    *missing -= passed as u64;
                    bytes = &bytes[passed..];
                    if *missing == 0 {
                        *self = Self::Line(Vec::new());
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    /// A reason if its last chunk is missing.
    pub(crate) fn check_end(&self) -> Result<(), String> {
        match self {
            Self::None | Self::Last => Ok(()),
            Self::Line(_) | Self::Data(_) => {
                Err("its last chunk, which is empty, is missing".into())
            }
        }
    }
}

/// The state after the line in front of a chunk, such as `400;chunk-signature=...`. An error if the size is invalid.
fn after_line(line: &[u8]) -> Result<Framing, String> {
    let digits = line.split(|byte| b";\r".contains(byte)).next().unwrap_or_default();
    let is_size =
        (1..=SIZE_DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_size);
    match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(0) => Ok(Framing::Last),
        // The data ends with a carriage return and a line feed.
        Some(size) => Ok(Framing::Data(size + 2)),
        None => Err(format!("{:?} is not the size of a chunk", String::from_utf8_lossy(line))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a body to the framing in pieces of this length, and checks that it may end.
    fn follow(body: &[u8], piece: usize) -> Result<(), String> {
        let mut framing = Framing::Line(Vec::new());
        body.chunks(piece).try_for_each(|bytes| framing.advance(bytes))?;
        framing.check_end()
    }

    #[test]
    fn body_ends_with_its_last_chunk() {
        let whole = b"a;chunk-signature=00\r\n0123456\r\n9\r\n3\r\nabc\r\n0;chunk-signature=11\r\nname:value\r\n\r\n";
        for piece in [1, 2, 7, 100] {
            assert_eq!(follow(whole, piece), Ok(()));
            for wrong in
                [&b""[..], b"3\r\nabc\r\n", b"3\r\nabc\r\n0", b"3\r\nab", b"4\r\nabc\r\n0\r\n"]
            {
                assert!(follow(wrong, piece).is_err(), "{}", wrong.escape_ascii());
            }
        }
        for wrong in
            [&b"+3\r\nabc\r\n0\r\n"[..], b"3x\r\nabc\r\n0\r\n", b"000000003\r\n", &[b'0'; 200]]
        {
            assert!(follow(wrong, 5).is_err(), "{}", wrong.escape_ascii());
        }
    }
}
