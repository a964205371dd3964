//! Fuzzing of the server: it must not panic, must keep on serving, and must serve nothing without a signature.
use super::*;
use crate::keys::Key;
use esker::types::info::OpenMode;
use ring::{digest, hmac};
use s3s::auth::SecretKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Runtime;

pub(super) const ACCESS: &str = "ESKER";
pub(super) const SECRET: &str = "a secret";
/// The hash of content that the signature does not cover.
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// Content in chunks that are not signed.
const CHUNKED: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// A server, with the bucket `b` that has the object `k`.
pub(super) struct Door {
    pub(super) server: Server,
    runtime: Runtime,
}

impl Door {
    /// A server with default options, over a pool in memory of this name.
    pub(super) fn new(name: &str) -> Self {
        Self::with(name, Options::default())
    }

    /// A server with these options, over a pool in memory of this name.
    pub(super) fn with(name: &str, options: Options) -> Self {
        let pool = Pool::connect(&format!("memory:{name}"), OpenMode::ReadWrite).unwrap();
        let key = Key { secret: SecretKey::from(SECRET), read_only: false };
        let server = Server::new(pool, Keys::from([(ACCESS.to_owned(), key)]), options);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let door = Self { server, runtime };
        for (method, path, body) in [("PUT", "/b", ""), ("PUT", "/b/k", "content")] {
            let answer = door.ask(&signed(method, path, "", UNSIGNED, body.as_bytes()));
            assert_eq!(status(&answer), Some(200), "{method} {path}");
        }
        door
    }

    /// Sends these bytes over a connection, and returns all that comes back.
    pub(super) fn ask(&self, sent: &[u8]) -> Vec<u8> {
        let (ours, theirs) = duplex(1 << 20);
        let watcher = GracefulShutdown::new();
        self.runtime.block_on(async {
            let place = self.server.0.places.next().await.unwrap();
            let served = self.server.serve_connection(theirs, watcher.watcher(), &place);
            let (mut from, mut to) = tokio::io::split(ours);
            let client = async {
                // A server that has answered may take no more.
                let _ = to.write_all(sent).await;
                let _ = to.shutdown().await;
                let mut answer = Vec::new();
                let _ = from.read_to_end(&mut answer).await;
                answer
            };
            tokio::join!(served, client).1
        })
    }

    /// Fails if the server does not serve any more, or if the object `k` has changed.
    pub(super) fn check(&self) {
        let answer = self.ask(&signed("GET", "/b/k", "", UNSIGNED, b""));
        assert_eq!(status(&answer), Some(200));
        assert!(answer.ends_with(b"content"), "{}", answer.escape_ascii());
    }
}

/// The status of the last answer. An answer `100 Continue` may precede it.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(answer);
    let mut found = text.split("HTTP/1.1 ").skip(1).filter_map(|rest| rest.get(..3)?.parse().ok());
    found.find(|status| *status != 100)
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    crate::sums::hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

pub(super) fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// A request that is signed with the key. The signature covers the body only by its hash `content`, such as
/// [`UNSIGNED`].
fn signed(method: &str, path: &str, query: &str, content: &str, body: &[u8]) -> Vec<u8> {
    let now = s3s::dto::Timestamp::from(std::time::SystemTime::now());
    let mut date = Vec::new();
    now.format(s3s::dto::TimestampFormat::DateTime, &mut date).unwrap();
    let date: String =
        date.iter().map(|byte| char::from(*byte)).filter(|c| !"-:".contains(*c)).collect();
    let date = format!("{}Z", date.split(['.', 'Z']).next().unwrap());
    let day = &date[..8];
    let names = "host;x-amz-content-sha256;x-amz-date";
    let headers = format!("host:door\nx-amz-content-sha256:{content}\nx-amz-date:{date}\n");
    let request = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{content}");
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(request.as_bytes()));
    let steps = [day, "us-east-1", "s3", "aws4_request", &text];
    let secret = format!("AWS4{SECRET}").into_bytes();
    let signature = crate::sums::hex(&steps.iter().fold(secret, |key, step| mac(&key, step)));
    let at = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let chunked = match content {
        CHUNKED => {
            "content-encoding: aws-chunked\r\nx-amz-decoded-content-length: 7\r\nx-amz-trailer: x-amz-checksum-crc32\r\n"
        }
        _ => "",
    };
    let head = format!(
        "{method} {at} HTTP/1.1\r\nhost: door\r\nx-amz-content-sha256: {content}\r\nx-amz-date: {date}\r\n{chunked}\
         authorization: AWS4-HMAC-SHA256 Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={signature}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Requests of many kinds without a valid signature.
fn unsigned() -> Vec<Vec<u8>> {
    let date = "20260101T000000Z";
    let credential = format!("{ACCESS}/20260101/us-east-1/s3/aws4_request");
    let digits = "0".repeat(64);
    let header = format!(
        "authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host;x-amz-date, Signature={digits}\r\nx-amz-date: {date}\r\n"
    );
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature={digits}"
    );
    let old = format!("AWSAccessKeyId={ACCESS}&Expires=9999999999&Signature=AAAA");
    [
        "GET / HTTP/1.1\r\nhost: door\r\n\r\n".to_owned(),
        "GET /b/k HTTP/1.1\r\nhost: door\r\nrange: bytes=0-3\r\n\r\n".to_owned(),
        format!("GET /b/k HTTP/1.1\r\nhost: door\r\n{header}\r\n"),
        format!("GET /b/k?{query} HTTP/1.1\r\nhost: door\r\n\r\n"),
        format!("GET /b/k?{old} HTTP/1.1\r\nhost: door\r\n\r\n"),
        format!("DELETE /b/k HTTP/1.1\r\nhost: door\r\n{header}x-amz-content-sha256: {UNSIGNED}\r\n\r\n"),
        format!("PUT /b/k HTTP/1.1\r\nhost: door\r\n{header}expect: 100-continue\r\ncontent-length: 3\r\n\r\nabc"),
        format!("PUT /b/k HTTP/1.1\r\nhost: door\r\n{header}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
        format!("POST /b?delete HTTP/1.1\r\nhost: door\r\n{header}content-length: 9\r\n\r\n<Delete/>"),
        "POST /b HTTP/1.1\r\nhost: door\r\ncontent-type: multipart/form-data; boundary=x\r\ncontent-length: 54\r\n\r\n--x\r\ncontent-disposition: form-data; name=\"key\"\r\n\r\nk\r\n".to_owned(),
        "OPTIONS * HTTP/1.0\r\n\r\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// No request without a valid signature gets a status below 400.
#[test]
fn fuzz_requests_without_a_key() {
    let door = Door::new("s3-fuzz-requests");
    esker_testing::fuzz("s3-requests", &unsigned(), |sent| {
        if let Some(status) = status(&door.ask(sent)) {
            assert!(status >= 400, "{status}");
        }
    });
    door.check();
}

/// A changed request is served only if it still contains the signature.
#[test]
fn fuzz_signatures() {
    let door = Door::new("s3-fuzz-signatures");
    let request = signed("GET", "/b/k", "", UNSIGNED, b"");
    let at = request.windows(10).position(|part| part == b"Signature=").unwrap() + 10;
    let signature = request[at..at + 64].to_vec();
    esker_testing::fuzz("s3-signatures", &[request], |sent| {
        let is_served = status(&door.ask(sent)).is_some_and(|status| status < 400);
        let has_signature = sent.to_ascii_lowercase().windows(64).any(|part| part == signature);
        assert!(!is_served || has_signature);
    });
    door.check();
}

/// Requests with valid bodies, as seeds: method, path, query, hash of the content and body.
const BODIES: [(&str, &str, &str, &str, &[u8]); 6] = [
    ("POST", "/b", "delete=", UNSIGNED, b"<Delete><Object><Key>other</Key></Object><Quiet>true</Quiet></Delete>"),
    ("PUT", "/b/other", "tagging=", UNSIGNED, b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"),
    ("POST", "/b/other", "uploadId=00000000000000000000000000000000", UNSIGNED, b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"e\"</ETag></Part></CompleteMultipartUpload>"),
    ("PUT", "/b/other", "", CHUNKED, b"7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:kXjVsA==\r\n\r\n"),
    ("PUT", "/b/other", "", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", b"7;chunk-signature=0000000000000000000000000000000000000000000000000000000000000000\r\ncontent\r\n0;chunk-signature=00\r\n\r\n"),
    ("PUT", "/c", "", UNSIGNED, b"<CreateBucketConfiguration><LocationConstraint>x</LocationConstraint></CreateBucketConfiguration>"),
];

/// Signed requests with changed bodies get an answer, and do not change other objects.
#[test]
fn fuzz_bodies_of_signed_requests() {
    let door = Door::new("s3-fuzz-bodies");
    for (number, (method, path, query, content, body)) in BODIES.into_iter().enumerate() {
        esker_testing::fuzz(&format!("s3-bodies-{number}"), &[body.to_vec()], |body| {
            // No body may change `k`.
            let answer = door.ask(&signed(method, path, query, content, body));
            assert!(status(&answer).is_some(), "{}", answer.escape_ascii());
        });
    }
    door.check();
}
