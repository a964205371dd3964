//! Requests of clients: put an object with its checksum, or get an object.
use super::sign::{CONTENT, sha256, sign};
use super::{Checksum, Store};
use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use esker_types::{Error, ErrorKind, Result};
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request};
use jiff::Timestamp;

/// Content of an object, with the headers for its checksum.
#[derive(Clone, Default)]
pub(super) struct Content {
    headers: HeaderMap,
    body: Bytes,
}

impl Content {
    /// The body and headers of a request without content.
    pub(super) fn none() -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT, HeaderValue::from_static("UNSIGNED-PAYLOAD"));
        Self { headers, body: Bytes::new() }
    }

    /// The body and the headers of a put. The checksum is computed here, once for all objects with this content.
    pub(super) fn new(data: Bytes, checksum: Checksum) -> Result<Self> {
        let mut content = Self { body: data.clone(), ..Self::none() };
        let len = data.len();
        match checksum {
            Checksum::None => {}
            Checksum::Signed => {
                let crc = crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, &data) as u32;
                content.set(CONTENT, &sha256(&data))?;
                content.set("x-amz-checksum-crc32", &base64(&crc.to_be_bytes()))?;
            }
            Checksum::Trailer => {
                let crc = base64(&crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &data).to_be_bytes());
                content.set(CONTENT, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")?;
                content.set("content-encoding", "aws-chunked")?;
                content.set("x-amz-decoded-content-length", &len.to_string())?;
                content.set("x-amz-trailer", "x-amz-checksum-crc64nvme")?;
                let start = format!("{len:x}\r\n");
                let end = format!("\r\n0\r\nx-amz-checksum-crc64nvme:{crc}\r\n\r\n");
                content.body = [start.as_bytes(), &data, end.as_bytes()].concat().into();
            }
        }
        Ok(content)
    }

    /// Adds a header.
    fn set(&mut self, name: &'static str, value: &str) -> Result<()> {
        let value = HeaderValue::try_from(value).map_err(|error| wrong(&error))?;
        self.headers.insert(name, value);
        Ok(())
    }

    /// A signed request with this content; `path` follows the bucket.
    pub(super) fn request(
        &self,
        store: &Store,
        method: Method,
        path: &str,
    ) -> Result<Request<Full<Bytes>>> {
        let path = format!("/{}{path}", store.bucket);
        let mut headers = self.headers.clone();
        let host = HeaderValue::try_from(&store.address).map_err(|error| wrong(&error))?;
        headers.insert("host", host);
        if let Some(key) = &store.key {
            sign(key, &method, &path, &mut headers, Timestamp::now())
                .map_err(|error| wrong(&error))?;
        }
        let request =
            Request::builder().method(method).uri(path).body(Full::new(self.body.clone()));
        let mut request = request.map_err(|error| wrong(&error))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

#[cold]
fn wrong(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Invalid, format!("a request cannot be made: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_follows_its_content() {
        let content = Content::new(Bytes::from_static(b"123456789"), Checksum::Trailer).unwrap();
        let expected = "9\r\n123456789\r\n0\r\nx-amz-checksum-crc64nvme:rosUhgp5mIg=\r\n\r\n";
        assert_eq!(content.body, expected);
    }
}
