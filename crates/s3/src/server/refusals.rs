//! Requests with a valid signature, most of which the server refuses: because parts are unsigned, or ask for what is
//! not offered.
use super::fuzz::{ACCESS, Door, SECRET, UNSIGNED, mac, sha256, status};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request to send, whose methods sign it.
#[derive(Clone)]
struct Ask {
    date: String,
    method: &'static str,
    path: &'static str,
    query: &'static str,
    /// Headers in addition to `host`, `x-amz-date` and `x-amz-content-sha256`, which are signed.
    signed: Vec<(&'static str, String)>,
    /// Headers that are added after the request was signed.
    added: Vec<(&'static str, String)>,
    /// Names that are signed in addition to those of the sent headers.
    absent: Vec<&'static str>,
    content: String,
    service: &'static str,
    region: &'static str,
    /// The date is in `Date`, not in `x-amz-date`.
    by_date: Option<String>,
    algorithm: &'static str,
    /// Seconds for which a presigned URL is valid.
    seconds: u64,
    body: Vec<u8>,
}

impl Ask {
    /// A request at the current time, without a body and without further headers.
    fn new(method: &'static str, path: &'static str, query: &'static str) -> Self {
        Self {
            date: now(),
            method,
            path,
            query,
            signed: Vec::new(),
            added: Vec::new(),
            absent: Vec::new(),
            content: UNSIGNED.to_owned(),
            service: "s3",
            region: "us-east-1",
            by_date: None,
            algorithm: ALGORITHM,
            seconds: 60,
            body: Vec::new(),
        }
    }

    /// Adds a header that the signature covers.
    fn signed(mut self, name: &'static str, value: &str) -> Self {
        self.signed.push((name, value.to_owned()));
        self
    }

    /// Adds a header that the signature does not cover.
    fn added(mut self, name: &'static str, value: &str) -> Self {
        self.added.push((name, value.to_owned()));
        self
    }

    /// The scope of the credential: date, region and service, as the signature of AWS defines it.
    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", &self.date[..8], self.region, self.service)
    }

    /// The signing key for the date, region and service of the request.
    fn key(&self) -> Vec<u8> {
        let steps = [&self.date[..8], self.region, self.service, "aws4_request"];
        steps.iter().fold(format!("AWS4{SECRET}").into_bytes(), |key, step| mac(&key, step))
    }

    /// The signature over the request with this query, these headers and this hash of the content.
    fn signature(&self, query: &str, headers: &[(&str, String)], content: &str) -> String {
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let request = [self.method, self.path, query, &lines, &names.join(";"), content].join("\n");
        let text = [ALGORITHM, &self.date, &self.scope(), &sha256(request.as_bytes())].join("\n");
        crate::sums::hex(&mac(&self.key(), &text))
    }

    /// The request, with its signature in a header.
    fn by_header(&self) -> Vec<u8> {
        let mut headers = self.signed.clone();
        headers.extend([
            ("host", "door".to_owned()),
            ("x-amz-content-sha256", self.content.clone()),
            match &self.by_date {
                None => ("x-amz-date", self.date.clone()),
                Some(date) => ("date", date.clone()),
            },
        ]);
        headers.sort();
        let signature = self.signature(self.query, &headers, &self.content);
        let names = headers.iter().map(|(name, _)| *name).chain(self.absent.iter().copied());
        let names = names.collect::<Vec<_>>().join(";");
        let (algorithm, scope) = (self.algorithm, self.scope());
        let authorization = format!(
            "{algorithm} Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={signature}"
        );
        headers.push(("authorization", authorization));
        self.text(self.query, &headers)
    }

    /// The request, with its signature in its query: a presigned URL.
    fn by_query(&self) -> Vec<u8> {
        let mut headers = self.signed.clone();
        headers.push(("host", "door".to_owned()));
        headers.sort();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("%3B");
        let credential = format!("{ACCESS}/{}", self.scope()).replace('/', "%2F");
        let (algorithm, date, seconds) = (self.algorithm, &self.date, self.seconds);
        let query = format!(
            "X-Amz-Algorithm={algorithm}&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires={seconds}\
             &X-Amz-SignedHeaders={names}{}",
            if self.query.is_empty() { String::new() } else { format!("&{}", self.query) }
        );
        let signature = self.signature(&query, &headers, UNSIGNED);
        self.text(&format!("{query}&X-Amz-Signature={signature}"), &headers)
    }

    /// The bytes of the request, with all headers and the body.
    fn text(&self, query: &str, headers: &[(&str, String)]) -> Vec<u8> {
        let mark = if query.is_empty() { "" } else { "?" };
        let mut text = format!("{} {}{mark}{query} HTTP/1.1\r\n", self.method, self.path);
        let length = ("content-length", self.body.len().to_string());
        for (name, value) in headers.iter().chain(&self.added).chain([&length]) {
            text += &format!("{name}: {value}\r\n");
        }
        [text.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// The current time in the form of signatures.
fn now() -> String {
    stamp(std::time::SystemTime::now())
}

/// A time in the form of signatures: `YYYYMMDDThhmmssZ`.
fn stamp(time: std::time::SystemTime) -> String {
    let mut text = Vec::new();
    let time = s3s::dto::Timestamp::from(time);
    time.format(s3s::dto::TimestampFormat::DateTime, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap().replace(['-', ':'], "");
    format!("{}Z", text.split(['.', 'Z']).next().unwrap())
}

/// Sends a request, and fails unless the answer has this status and contains this text, such as the code of an error.
fn expect(door: &Door, sent: &[u8], wanted: (u16, &str)) {
    let answer = door.ask(sent);
    let text = answer.escape_ascii().to_string();
    assert_eq!(status(&answer), Some(wanted.0), "{} gets {text}", sent.escape_ascii());
    assert!(text.contains(wanted.1), "{} gets {text}, not {}", sent.escape_ascii(), wanted.1);
}

const OK: (u16, &str) = (200, "");
const DENIED: (u16, &str) = (403, "AccessDenied");

#[test]
fn headers_that_are_not_signed_are_refused() {
    let door = Door::new("s3-unsigned-headers");
    let put = || Ask::new("PUT", "/b/new", "");
    expect(&door, &put().by_query(), OK);
    expect(&door, &put().by_header(), OK);
    for (name, value) in [
        ("x-amz-copy-source", "b/k"),
        ("x-amz-meta-owner", "somebody"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-acl", "private"),
        ("x-amz-content-sha256", UNSIGNED),
        ("x-amz-anything", "1"),
        ("X-AMZ-Storage-Class", "STANDARD"),
    ] {
        expect(&door, &put().added(name, value).by_query(), DENIED);
        // A request that is signed by a header always has this one, and signs it.
        if name != "x-amz-content-sha256" {
            expect(&door, &put().added(name, value).by_header(), DENIED);
        }
    }
    expect(&door, &put().signed("x-amz-meta-owner", "me").by_query(), OK);
    expect(&door, &put().added("content-type", "text/plain").by_query(), OK);
    let twice = put().signed("x-amz-meta-a", "1").added("x-amz-meta-a", "2");
    expect(&door, &twice.by_query(), (403, "SignatureDoesNotMatch"));
    let copy = Ask::new("PUT", "/b/copy", "").signed("x-amz-copy-source", "b/k");
    expect(&door, &copy.by_query(), OK);
    door.check();
}

#[test]
fn headers_that_are_signed_must_be_sent() {
    let door = Door::new("s3-absent-headers");
    let get = Ask { absent: vec!["x-amz-copy-source"], ..Ask::new("GET", "/b/k", "") };
    expect(&door, &get.by_header(), (403, "SignatureDoesNotMatch"));
    let get = Ask { absent: vec!["Host"], ..Ask::new("GET", "/b/k", "") };
    expect(&door, &get.by_header(), (403, "SignatureDoesNotMatch"));
    door.check();
}

#[test]
fn presigned_url_is_valid_for_at_most_seven_days() {
    let door = Door::new("s3-presigned-seconds");
    for (seconds, wanted) in [
        (600, OK),
        (604_800, OK),
        (604_801, (400, "AuthorizationQueryParametersError")),
        (1_000_000_000, (400, "AuthorizationQueryParametersError")),
        (u64::MAX, (400, "AuthorizationQueryParametersError")),
        (0, (400, "AuthorizationQueryParametersError")),
    ] {
        let get = Ask { seconds, ..Ask::new("GET", "/b/k", "") };
        expect(&door, &get.by_query(), wanted);
    }
}

/// The SDK for JavaScript signs the URL of a put before it has the body, so it writes the checksum of an empty one.
#[test]
fn headers_may_be_in_the_query_of_presigned_urls() {
    let door = Door::new("s3-presigned-headers");
    let put = |query: &'static str| {
        let body = b"content".to_vec();
        Ask { query, body, ..Ask::new("PUT", "/b/new", "") }.by_query()
    };
    let unknown =
        "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject";
    expect(&door, &put(unknown), OK);
    expect(&door, &put("x-amz-checksum-crc32=kXjVsA%3D%3D"), (400, "BadDigest"));
    expect(&door, &put("x-amz-meta-owner=me&x-amz-storage-class=STANDARD"), OK);
    let get = Ask { query: "x-amz-checksum-mode=ENABLED", ..Ask::new("GET", "/b/new", "") };
    expect(&door, &get.by_query(), (200, "x-amz-meta-owner: me"));
    expect(&door, &put("x-amz-storage-class=GLACIER"), (400, "InvalidStorageClass"));
    expect(&door, &put("x-amz-acl=public-read"), (501, "NotImplemented"));
    expect(&door, &put("x-amz-trailer=x-amz-checksum-crc32"), (501, "NotImplemented"));
    expect(&door, &put("x-amz-meta-a=1&x-amz-meta-a=2"), (400, "InvalidArgument"));
    let unsigned = Ask::new("PUT", "/b/new", "x-amz-meta-owner=me");
    expect(&door, &unsigned.by_header(), (501, "NotImplemented"));
    door.check();
}

/// Headers that a client may send although nothing depends on them, as S3 accepts them.
#[test]
fn needless_headers_of_clients_are_accepted() {
    let door = Door::new("s3-needless-headers");
    let get = || Ask::new("GET", "/b/k", "");
    expect(&door, &get().signed("x-amz-checksum-crc32", "AAAAAA==").by_header(), OK);
    let wrong = get().signed("x-amz-checksum-crc32", "kXjVsA==");
    expect(&door, &wrong.by_header(), (400, "BadDigest"));
    let begin = |directive| {
        Ask::new("POST", "/b/new", "uploads=").signed("x-amz-metadata-directive", directive)
    };
    expect(&door, &begin("REPLACE").by_header(), OK);
    expect(&door, &begin("COPY").by_header(), (400, "InvalidArgument"));
}

#[test]
fn other_services_and_algorithms_are_refused() {
    let door = Door::new("s3-scopes");
    let malformed = (400, "AuthorizationHeaderMalformed");
    for service in ["sts", "iam", ""] {
        let get = Ask { service, ..Ask::new("GET", "/b/k", "") };
        expect(&door, &get.by_header(), malformed);
        expect(&door, &get.by_query(), malformed);
    }
    for algorithm in ["AWS4-HMAC-SHA1", "aws4-hmac-sha256", "NONE"] {
        let get = Ask { algorithm, ..Ask::new("GET", "/b/k", "") };
        expect(&door, &get.by_header(), malformed);
        expect(&door, &get.by_query(), malformed);
    }
}

#[test]
fn weak_and_double_signatures_are_refused() {
    let door = Door::new("s3-double");
    let old = "GET /b/k?AWSAccess%4BeyId=ESKER&Expires=9999999999&Signature=AAAA HTTP/1.1\r\nhost: door\r\n\r\n";
    expect(&door, old.as_bytes(), DENIED);
    let old = "GET /b/k HTTP/1.1\r\nhost: door\r\nauthorization: AWS ESKER:AAAA\r\n\r\n";
    expect(&door, old.as_bytes(), DENIED);
    let get = Ask::new("GET", "/b/k", "");
    let both = get.clone().added("authorization", "AWS4-HMAC-SHA256 Credential=a");
    expect(&door, &both.by_query(), (400, "InvalidArgument"));
    expect(&door, &both.by_header(), (400, "AuthorizationHeaderMalformed"));
    let token = get.signed("x-amz-security-token", "anything");
    expect(&door, &token.by_header(), (400, "InvalidToken"));
    expect(&door, b"GET /b/k HTTP/1.1\r\nhost: door\r\n\r\n", DENIED);
    expect(&door, b"PUT /b?renameObject HTTP/1.1\r\nhost: door\r\n\r\n", DENIED);
}

/// The last chunk of a body in chunks is empty, and marks the end.
#[test]
fn stream_without_its_last_chunk_is_refused() {
    let door = Door::new("s3-last-chunk");
    let unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let put = |content: &str, body: &[u8]| {
        let put = Ask {
            content: content.to_owned(),
            body: body.to_vec(),
            ..Ask::new("PUT", "/b/new", "")
        };
        put.signed("x-amz-decoded-content-length", "7")
    };
    let trailing = |body| put(unsigned, body).signed("x-amz-trailer", "x-amz-checksum-crc32");
    let whole = b"7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:kXjVsA==\r\n\r\n";
    let answer = door.ask(&trailing(whole).by_header());
    let refused = (400, "IncompleteBody");
    // The body is complete, even if its checksum is wrong.
    assert!(!answer.windows(14).any(|part| part == b"IncompleteBody"), "{}", answer.escape_ascii());
    expect(&door, &trailing(b"7\r\ncontent\r\n").by_header(), refused);
    expect(&door, &trailing(b"7\r\ncontent\r\n0").by_header(), refused);
    expect(&door, &trailing(b"").by_header(), refused);
    expect(&door, &signed_chunks(true).by_header(), OK);
    expect(&door, &signed_chunks(false).by_header(), refused);
}

/// A server that ignored the parameters would take these for plain operations on `k` or on the bucket.
#[test]
fn operations_that_are_not_offered_change_nothing() {
    let door = Door::new("s3-not-offered");
    let refused = (501, "NotImplemented");
    for (method, path, query) in [
        ("DELETE", "/b/k", "annotation=&annotationName=a"),
        ("PUT", "/b/k", "annotation=&annotationName=a"),
        ("GET", "/b/k", "annotation=&annotationName=a"),
        ("PUT", "/b/k", "encryption="),
        ("PUT", "/b/k", "renameObject="),
        ("PUT", "/b/k", "partNumber=1"),
        ("DELETE", "/b/k", "next-year="),
        ("HEAD", "/b/k", "tagging="),
        ("DELETE", "/b", "metadataConfiguration="),
        ("POST", "/b", "metadataConfiguration="),
        ("PUT", "/new", "abac="),
        ("GET", "/b", "list-type=3"),
    ] {
        let wanted = if method == "HEAD" { (501, "") } else { refused };
        expect(&door, &Ask::new(method, path, query).by_header(), wanted);
    }
    expect(&door, &Ask::new("HEAD", "/new", "").by_header(), (404, ""));
    let twice = Ask::new("DELETE", "/b/k", "versionId=null&versionId=null");
    expect(&door, &twice.by_header(), (400, "InvalidArgument"));
    door.check();
}

#[test]
fn conditions_are_checked_or_refused() {
    let door = Door::new("s3-conditions");
    let failed = (412, "PreconditionFailed");
    let copy = Ask::new("PUT", "/b/k", "").signed("x-amz-copy-source", "b/other");
    expect(&door, &Ask::new("PUT", "/b/other", "").by_header(), OK);
    expect(&door, &copy.clone().added("if-none-match", "*").by_header(), failed);
    expect(&door, &copy.clone().added("if-match", "\"other\"").by_header(), failed);
    let twice = copy.clone().added("if-match", "*").added("if-match", "\"other\"");
    expect(&door, &twice.by_header(), (400, "InvalidArgument"));
    let refused = (501, "NotImplemented");
    expect(&door, &copy.added("if-modified-since", "x").by_header(), refused);
    expect(&door, &Ask::new("PUT", "/b/d/", "").by_header(), OK);
    for (method, path) in [("PUT", "/b/d/"), ("DELETE", "/b/d/"), ("DELETE", "/b/k")] {
        let condition =
            if method == "DELETE" && path == "/b/d/" { "if-match" } else { "if-none-match" };
        expect(&door, &Ask::new(method, path, "").added(condition, "*").by_header(), refused);
    }
    let body = "<Delete><Object><Key>k</Key><Size>1</Size></Object></Delete>";
    let delete = Ask { body: body.into(), ..Ask::new("POST", "/b", "delete=") };
    expect(&door, &delete.by_header(), (200, "NotImplemented"));
    let part = Ask::new("GET", "/b/k", "").added("range", "bytes=0-1");
    expect(&door, &part.clone().added("if-range", "\"other\"").by_header(), (200, "content"));
    let etag = "\"9a0364b9e99bb480dd25e1f0284c8555\"";
    expect(&door, &part.added("if-range", etag).by_header(), (206, "co"));
    door.check();
}

/// The text between two others in an answer.
fn between(answer: &[u8], first: &str, last: &str) -> String {
    let text = String::from_utf8_lossy(answer).into_owned();
    text.split(first).nth(1).and_then(|rest| rest.split(last).next()).unwrap_or_default().to_owned()
}

/// CRC32 of `content`.
const CRC: &str = "/sUwqQ==";

#[test]
fn claims_about_a_completed_upload_are_verified() {
    let door = Door::new("s3-completion");
    let (right, wrong) = (CRC, "AAAAAA==");
    let composite = composite_of(right);
    for (part, whole, kind, size, wanted) in [
        (right, right, "FULL_OBJECT", "7", OK),
        (right, right, "", "", OK),
        (right, &composite, "COMPOSITE", "7", OK),
        (right, &format!("{composite}-1"), "", "", OK),
        ("", "", "", "7", OK),
        (right, wrong, "FULL_OBJECT", "7", (400, "BadDigest")),
        (right, wrong, "", "7", (400, "BadDigest")),
        (right, right, "COMPOSITE", "7", (400, "BadDigest")),
        (right, &composite, "FULL_OBJECT", "7", (400, "BadDigest")),
        (right, &format!("{composite}-2"), "", "7", (400, "BadDigest")),
        (right, right, "OTHER", "7", (400, "InvalidRequest")),
        (right, right, "", "8", (400, "InvalidRequest")),
        (wrong, right, "", "7", (400, "InvalidPart")),
    ] {
        let begun = door.ask(&Ask::new("POST", "/b/new", "uploads=").by_header());
        let id = between(&begun, "<UploadId>", "</UploadId>");
        let place = format!("partNumber=1&uploadId={id}").leak();
        let put = Ask { body: b"content".to_vec(), ..Ask::new("PUT", "/b/new", place) };
        let put = door.ask(&put.signed("x-amz-checksum-crc32", right).by_header());
        let etag = between(&put, "etag: ", "\r");
        let sum = match part {
            "" => String::new(),
            part => format!("<ChecksumCRC32>{part}</ChecksumCRC32>"),
        };
        let body = format!(
            "<CompleteMultipartUpload><Part>{sum}<PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let path = format!("uploadId={id}").leak();
        let mut ask = Ask { body: body.into_bytes(), ..Ask::new("POST", "/b/new", path) };
        for (name, value) in [
            ("x-amz-checksum-crc32", whole),
            ("x-amz-checksum-type", kind),
            ("x-amz-mp-object-size", size),
        ] {
            if !value.is_empty() {
                ask = ask.signed(name, value);
            }
        }
        expect(&door, &ask.by_header(), wanted);
    }
}

/// The CRC32 of the CRC32 of a single part.
fn composite_of(checksum: &str) -> String {
    use s3s::crypto::{Checksum as _, Crc32};
    let mut crc = Crc32::new();
    crc.update(&base64_simd::STANDARD.decode_to_vec(checksum).unwrap());
    base64_simd::STANDARD.encode_to_string(crc.finalize())
}

#[test]
fn xml_body_must_match_its_checksums() {
    let door = Door::new("s3-xml");
    let body = b"<Delete><Object><Key>other</Key></Object></Delete>".to_vec();
    let delete = || Ask { body: body.clone(), ..Ask::new("POST", "/b", "delete=") };
    let bad = (400, "BadDigest");
    expect(&door, &delete().by_header(), OK);
    expect(&door, &delete().added("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==").by_header(), bad);
    expect(&door, &delete().added("content-md5", "x").by_header(), (400, "InvalidDigest"));
    expect(&door, &delete().signed("x-amz-checksum-crc32", CRC).by_header(), bad);
    let long = Ask { body: vec![b' '; 5 << 20], ..delete() };
    expect(&door, &long.by_header(), (400, "MaxMessageLengthExceeded"));
    door.check();
}

#[test]
fn control_characters_that_xml_cannot_represent_are_refused() {
    let door = Door::new("s3-control");
    let refused = (400, "InvalidArgument");
    for path in ["/b/a%01", "/b/%1B%5B2J", "/b/a%0D", "/b/%EF%BF%BF"] {
        expect(&door, &Ask::new("PUT", path, "").by_header(), refused);
    }
    expect(&door, &Ask::new("PUT", "/b/a%0Ab", "").by_header(), OK);
    for query in ["prefix=%01", "delimiter=%01", "list-type=2&start-after=%02", "marker=%0D"] {
        expect(&door, &Ask::new("GET", "/b", query).by_header(), refused);
    }
    expect(&door, &Ask::new("GET", "/", "prefix=%01").by_header(), refused);
    let tag = Ask::new("PUT", "/b/tag", "").signed("x-amz-tagging", "a=%01");
    expect(&door, &tag.by_header(), (400, "InvalidTag"));
    let body = b"<Delete><Object><Key>a&#1;</Key></Object></Delete>".to_vec();
    let delete = Ask { body, ..Ask::new("POST", "/b", "delete=") };
    expect(&door, &delete.by_header(), (400, "MalformedXML"));
}

#[test]
fn ranges_are_answered_or_ignored() {
    let door = Door::new("s3-ranges");
    expect(&door, &Ask::new("PUT", "/b/empty", "").by_header(), OK);
    let get = |key, range| Ask::new("GET", key, "").added("range", range).by_header();
    for (key, range, wanted) in [
        ("/b/empty", "bytes=-1", (416, "InvalidRange")),
        ("/b/empty", "bytes=0-", (416, "InvalidRange")),
        ("/b/k", "bytes=7-", (416, "InvalidRange")),
        ("/b/k", "bytes=-3", (206, "bytes 4-6/7")),
        ("/b/k", "bytes=5-99999999999999999999", (206, "bytes 5-6/7")),
        ("/b/k", "pages=0-1", (200, "content")),
        ("/b/k", "bytes=5-2", (200, "content")),
        ("/b/k", "bytes=0-1,4-5", (200, "content")),
    ] {
        expect(&door, &get(key, range), wanted);
    }
    let signed = Ask::new("GET", "/b/k", "").signed("range", "bytes=5-2");
    expect(&door, &signed.by_header(), OK);
}

/// Every container is the source of copies, whatever its label is.
#[test]
fn copy_source_may_be_any_bucket() {
    let door = Door::new("s3-copies");
    for bucket in ["/my_run", "/Run1", "/ab", "/run:1", "/end-"] {
        expect(&door, &Ask::new("PUT", bucket, "").by_header(), OK);
        let key = |key: &str| &*format!("{bucket}/{key}").leak();
        let put = Ask { body: b"content".to_vec(), ..Ask::new("PUT", key("a"), "") };
        expect(&door, &put.by_header(), OK);
        let copy = Ask::new("PUT", key("b"), "").signed("x-amz-copy-source", key("a"));
        expect(&door, &copy.by_header(), OK);
        expect(&door, &Ask::new("GET", key("b"), "").by_header(), (200, "content"));
    }
    let point = "arn:aws:s3:us-east-1:123456789012:accesspoint/point/object/k";
    let copy = Ask::new("PUT", "/b/new", "").signed("x-amz-copy-source", point);
    expect(&door, &copy.by_header(), (501, "NotImplemented"));
}

#[test]
fn error_for_wrong_signature_names_the_remedy() {
    let door = Door::new("s3-remedies");
    let get = Ask::new("GET", "/b/k", "");
    let wrong = altered(&get, "Signature=", "Signature=0");
    expect(&door, &wrong, (403, "check the secret of the access key"));
    let unknown = altered(&get, ACCESS, "NOBODY");
    expect(&door, &unknown, (403, "use one of its file of keys"));
}

/// Regions are names that client and server agree on; other servers accept these.
#[test]
fn every_region_is_accepted() {
    let door = Door::new("s3-regions");
    let wrong = (403, "SignatureDoesNotMatch");
    for region in ["us-east-1", "US", "RegionOne", "my_region", "a.b"] {
        let get = Ask { region, ..Ask::new("GET", "/b/k", "partNumber=1") };
        expect(&door, &get.by_header(), (200, "content"));
        let other = altered(&get, &format!("/{region}/s3/"), "/Other/s3/");
        expect(&door, &other, wrong);
        expect(&door, &altered(&get, "partNumber=1", "partNumber=2"), wrong);
        expect(&door, &altered(&get, "Signature=", "Signature=0"), wrong);
        expect(&door, &altered(&get, ACCESS, "NOBODY"), (403, "InvalidAccessKeyId"));
        let put = Ask { region, body: b"content".to_vec(), ..Ask::new("PUT", "/b/a%2Bb%20c", "") };
        let put = put.signed("x-amz-meta-text", "a b");
        expect(&door, &put.by_header(), OK);
        expect(&door, &altered(&put, "a b", "a c"), wrong);
        let get = Ask { region, ..Ask::new("GET", "/b/a%2Bb%20c", "") };
        expect(&door, &get.by_query(), (200, "content"));
        expect(&door, &put.by_query(), OK);
        let url = |from: &str, to: &str| {
            String::from_utf8(put.by_query()).unwrap().replacen(from, to, 1).into_bytes()
        };
        expect(&door, &url("a b", "a c"), wrong);
        expect(&door, &url("a%2Bb", "a%2Bc"), wrong);
        expect(&door, &url("Expires=60", "Expires=600"), wrong);
        expect(&door, &url(&format!("%2F{region}%2F"), "%2FOther%2F"), wrong);
        let old = Ask { date: "20200101T000000Z".to_owned(), ..get };
        expect(&door, &old.by_query(), (403, "AccessDenied"));
    }
    let get = Ask { region: "US", ..Ask::new("GET", "/b/k", "") };
    let text = String::from_utf8(get.by_query()).unwrap();
    let twice = text.replacen("X-Amz-Date", "X-Amz-Date=1&X-Amz-Date", 1);
    expect(&door, twice.as_bytes(), wrong);
    let chunks = Ask { region: "US", ..signed_chunks(true) };
    expect(&door, &chunks.by_header(), (501, "NotImplemented"));
    door.check();
}

/// A request signed by a header, in which `from` was replaced by `to` after the signature.
fn altered(ask: &Ask, from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(ask.by_header()).unwrap().replacen(from, to, 1).into_bytes()
}

/// No change of a request whose signature is verified here, not by `s3s`, is served without that signature.
#[test]
fn fuzz_regions() {
    let door = Door::new("s3-fuzz-regions");
    let get = Ask { region: "RegionOne", seconds: 3600, ..Ask::new("GET", "/b/k", "") };
    let seeds = [get.by_header(), get.by_query()];
    let signatures = seeds.each_ref().map(|seed| {
        let text = String::from_utf8(seed.clone()).unwrap();
        text.split("Signature=").nth(1).unwrap().as_bytes()[..64].to_vec()
    });
    esker_testing::fuzz("s3-regions", &seeds, |sent| {
        let answer = door.ask(sent);
        let is_served = status(&answer).is_some_and(|status| status < 400);
        let has_signature = sent.windows(64).any(|part| signatures.iter().any(|one| part == one));
        assert!(!is_served || has_signature, "{}", sent.escape_ascii());
    });
    door.check();
}

#[test]
fn requests_may_be_signed_with_date() {
    let door = Door::new("s3-date");
    let at = |time: std::time::SystemTime| {
        let (date, mut by_date) = (stamp(time), Vec::new());
        s3s::dto::Timestamp::from(time)
            .format(s3s::dto::TimestampFormat::HttpDate, &mut by_date)
            .unwrap();
        let by_date = Some(String::from_utf8(by_date).unwrap());
        Ask { date, by_date, ..Ask::new("GET", "/b/k", "") }
    };
    let now = std::time::SystemTime::now();
    expect(&door, &at(now).by_header(), (200, "content"));
    let old = at(now - std::time::Duration::from_secs(3600));
    expect(&door, &old.by_header(), (403, "RequestTimeTooSkewed"));
    let later = at(now).by_date.unwrap();
    let moved = altered(&old, &old.by_date.clone().unwrap(), &later);
    expect(&door, &moved, (403, "SignatureDoesNotMatch"));
}

#[test]
fn error_reply_has_the_request_id() {
    let door = Door::new("s3-request-id");
    let missing = Ask::new("GET", "/b/missing", "").by_header();
    expect(&door, &missing, (404, "<RequestId>0000000000000003</RequestId></Error>"));
    expect(&door, &Ask::new("HEAD", "/b/missing", "").by_header(), (404, ""));
}

/// Silent connections do not block clients with a key.
#[test]
fn silent_connections_do_not_block_signed_requests() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let door = Door::with("s3-silent", super::Options { connections: 1, ..Default::default() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let server = door.server.clone();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let served =
        runtime.spawn(async move { server.serve(listener, async { drop(ended.await) }).await });
    let silent: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut known = TcpStream::connect(address).unwrap();
    let get = Ask::new("GET", "/b/k", "").added("connection", "close");
    known.write_all(&get.by_header()).unwrap();
    let mut answer = Vec::new();
    known.read_to_end(&mut answer).unwrap();
    assert_eq!(status(&answer), Some(200), "{}", answer.escape_ascii());
    drop((silent, end));
    runtime.block_on(served).unwrap();
}

/// A put of `content` as one signed chunk. `has_end` adds the empty chunk that ends the body.
fn signed_chunks(has_end: bool) -> Ask {
    let content = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let put = Ask { content: content.to_owned(), ..Ask::new("PUT", "/b/new", "") };
    let put = put.signed("x-amz-decoded-content-length", "7");
    let request = String::from_utf8(put.by_header()).unwrap();
    let seed = request.split("Signature=").nth(1).unwrap()[..64].to_owned();
    let chunk = |previous: &str, data: &[u8]| {
        let parts = [
            "AWS4-HMAC-SHA256-PAYLOAD",
            &put.date,
            &put.scope(),
            previous,
            &sha256(b""),
            &sha256(data),
        ];
        crate::sums::hex(&mac(&put.key(), &parts.join("\n")))
    };
    let first = chunk(&seed, b"content");
    let mut body = format!("7;chunk-signature={first}\r\ncontent\r\n");
    if has_end {
        body += &format!("0;chunk-signature={}\r\n\r\n", chunk(&first, b""));
    }
    Ask { body: body.into_bytes(), ..put.clone() }
}

#[test]
fn headers_of_other_operations_are_refused() {
    let door = Door::new("s3-other-headers");
    let refused = (501, "NotImplemented");
    let put = || Ask { body: b"other".to_vec(), ..Ask::new("PUT", "/b/k", "") };
    let copy = || Ask::new("PUT", "/b/k", "").signed("x-amz-copy-source", "b/other");
    expect(&door, &Ask { body: b"o".to_vec(), ..Ask::new("PUT", "/b/other", "") }.by_header(), OK);
    for (ask, name, value, wanted) in [
        (put(), "x-amz-mp-object-size", "5", refused),
        (put(), "x-amz-if-match-size", "99", refused),
        (put(), "x-amz-max-parts", "1", refused),
        (put(), "x-amz-storage-class", "NONSENSE", (400, "InvalidStorageClass")),
        (put(), "x-amz-sdk-checksum-algorithm", "SHA256", (400, "InvalidRequest")),
        (put(), "if-match", "W/\"9a0364b9e99bb480dd25e1f0284c8555\"", (412, "PreconditionFailed")),
        (copy(), "x-amz-copy-source-range", "bytes=0-0", refused),
        (copy(), "x-amz-checksum-crc32", "AAAAAA==", refused),
        (copy(), "content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", refused),
        (copy(), "x-amz-metadata-directive", "NONSENSE", (400, "InvalidArgument")),
        (copy(), "x-amz-tagging-directive", "X", (400, "InvalidArgument")),
    ] {
        expect(&door, &ask.signed(name, value).by_header(), wanted);
    }
    let other = put().signed("x-amz-checksum-crc32", CRC);
    let other = other.signed("x-amz-sdk-checksum-algorithm", "SHA256");
    expect(&door, &other.by_header(), (400, "InvalidRequest"));
    door.check();
    let named = Ask { body: b"content".to_vec(), ..Ask::new("PUT", "/b/k", "") };
    let named = named.signed("x-amz-checksum-crc32", CRC);
    expect(&door, &named.signed("x-amz-sdk-checksum-algorithm", "CRC32").by_header(), OK);
}

#[test]
fn copy_gets_the_checksum_that_the_request_names() {
    let door = Door::new("s3-copy-checksum");
    let copy = Ask::new("PUT", "/b/copy", "").signed("x-amz-copy-source", "b/k");
    let copy = copy.signed("x-amz-checksum-algorithm", "CRC32");
    let wanted = format!("<ChecksumCRC32>{CRC}</ChecksumCRC32>");
    expect(&door, &copy.by_header(), (200, &wanted));
    let head = Ask::new("HEAD", "/b/copy", "").signed("x-amz-checksum-mode", "ENABLED");
    expect(&door, &head.by_header(), (200, &format!("x-amz-checksum-crc32: {CRC}")));
}

#[test]
fn body_other_than_the_signed_one_is_refused() {
    let door = Door::new("s3-unverified-bodies");
    let wrong = sha256(b"other");
    let mismatch = (400, "XAmzContentSHA256Mismatch");
    let xml = b"<Delete><Object><Key>k</Key></Object></Delete>".to_vec();
    for ask in [
        Ask { body: b"changed".to_vec(), ..Ask::new("PUT", "/b/k", "") },
        Ask { body: xml, ..Ask::new("POST", "/b", "delete=") },
    ] {
        let right = Ask { content: sha256(&ask.body), ..ask.clone() };
        expect(&door, &Ask { content: wrong.clone(), ..ask }.by_header(), mismatch);
        door.check();
        expect(&door, &right.by_header(), OK);
        let put = Ask { body: b"content".to_vec(), ..Ask::new("PUT", "/b/k", "") };
        expect(&door, &put.by_header(), OK);
    }
    let chunks = signed_chunks(true).by_header();
    let other =
        String::from_utf8(chunks).unwrap().replacen("\r\ncontent\r\n", "\r\nCONTENT\r\n", 1);
    expect(&door, other.as_bytes(), (403, "SignatureDoesNotMatch"));
    door.check();
}

/// A second completion succeeds like the first one if it names the same parts. Otherwise the upload does not exist any
/// more.
#[test]
fn completed_upload_is_gone_for_other_parts() {
    let door = Door::new("s3-completed-twice");
    let begun = door.ask(&Ask::new("POST", "/b/new", "uploads=").by_header());
    let id = between(&begun, "<UploadId>", "</UploadId>");
    let part = Ask {
        body: b"content".to_vec(),
        ..Ask::new("PUT", "/b/new", format!("partNumber=1&uploadId={id}").leak())
    };
    let etag = between(&door.ask(&part.by_header()), "etag: ", "\r");
    let complete = |etag: &str| {
        let body = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let query = format!("uploadId={id}").leak();
        Ask { body: body.into_bytes(), ..Ask::new("POST", "/b/new", query) }.by_header()
    };
    let other = "\"00000000000000000000000000000000\"";
    expect(&door, &complete(other), (400, "InvalidPart"));
    expect(&door, &complete(&etag), OK);
    expect(&door, &complete(&etag), OK);
    expect(&door, &complete(other), (404, "NoSuchUpload"));
}

/// A client whose reply was lost repeats its completion. The claims in it are verified as those of the first one.
#[test]
fn claims_of_a_repeated_completion_are_verified() {
    let door = Door::new("s3-completed-claims");
    let begun = door.ask(&Ask::new("POST", "/b/new", "uploads=").by_header());
    let id = between(&begun, "<UploadId>", "</UploadId>");
    let query = format!("partNumber=1&uploadId={id}").leak();
    let part = Ask { body: b"content".to_vec(), ..Ask::new("PUT", "/b/new", query) };
    expect(&door, &part.signed("x-amz-checksum-crc32", CRC).by_header(), OK);
    let query: &str = format!("uploadId={id}").leak();
    let complete = |number: u32, sum: &str| {
        let body = format!(
            "<CompleteMultipartUpload><Part><ChecksumCRC32>{sum}</ChecksumCRC32><PartNumber>{number}</PartNumber>\
             </Part></CompleteMultipartUpload>"
        );
        Ask { body: body.into_bytes(), ..Ask::new("POST", "/b/new", query) }
    };
    let whole = |sum: &str, kind: &str| {
        let ask = complete(1, CRC).signed("x-amz-checksum-crc32", sum);
        ask.signed("x-amz-checksum-type", kind).by_header()
    };
    for _ in 0..2 {
        expect(&door, &whole(CRC, "FULL_OBJECT"), OK);
    }
    let (gone, bad) = ((404, "NoSuchUpload"), (400, "BadDigest"));
    expect(&door, &complete(1, CRC).by_header(), OK);
    expect(&door, &complete(2, CRC).by_header(), gone);
    expect(&door, &complete(1, "AAAAAA==").by_header(), gone);
    expect(&door, &whole("AAAAAA==", "FULL_OBJECT"), bad);
    expect(&door, &whole(CRC, "COMPOSITE"), bad);
    let other = complete(1, CRC).signed("x-amz-checksum-crc32c", "AAAAAA==");
    expect(&door, &other.by_header(), bad);
}

#[test]
fn directory_does_not_take_the_content_of_a_copy() {
    let door = Door::new("s3-directory-copies");
    let copy = |from: &str| Ask::new("PUT", "/b/d/", "").signed("x-amz-copy-source", from);
    expect(&door, &copy("b/k").by_header(), (400, "InvalidArgument"));
    expect(&door, &Ask::new("HEAD", "/b/d/", "").by_header(), (404, ""));
    expect(&door, &Ask::new("PUT", "/b/empty", "").by_header(), OK);
    let summed = copy("b/empty").signed("x-amz-checksum-algorithm", "CRC32");
    expect(&door, &summed.by_header(), (501, "NotImplemented"));
    expect(&door, &copy("b/empty").by_header(), OK);
    expect(&door, &Ask::new("HEAD", "/b/d/", "").by_header(), OK);
}

/// With `Transfer-Encoding: chunked`, a request has no `Content-Length`.
#[test]
fn announced_length_of_content_in_chunks_is_verified() {
    let door = Door::new("s3-decoded-length");
    let put = |length: &str| {
        let content = "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned();
        let ask = Ask { content, ..Ask::new("PUT", "/b/new", "") };
        let ask = ask.signed("x-amz-decoded-content-length", length);
        let ask = ask.signed("x-amz-trailer", "x-amz-checksum-crc32");
        let head = String::from_utf8(ask.by_header()).unwrap();
        let head = head.replace("content-length: 0", "transfer-encoding: chunked");
        let body = format!("7\r\ncontent\r\n0\r\nx-amz-checksum-crc32:{CRC}\r\n\r\n");
        format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes()
    };
    expect(&door, &put("8"), (400, "IncompleteBody"));
    expect(&door, &put("7"), OK);
}

#[test]
fn configuration_of_a_new_bucket_is_obeyed_or_refused() {
    let door = Door::new("s3-configurations");
    let create = |region: &'static str, elements: &str| {
        let xml = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
        let body =
            format!("<CreateBucketConfiguration {xml}>{elements}</CreateBucketConfiguration>");
        Ask { region, body: body.into_bytes(), ..Ask::new("PUT", "/new", "") }.by_header()
    };
    let location = "<LocationConstraint>eu-west-1</LocationConstraint>";
    let illegal = (400, "IllegalLocationConstraintException");
    expect(&door, &create("us-east-1", location), illegal);
    expect(&door, &create("RegionOne", location), illegal);
    let tags = "<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>";
    let directory = "<Location><Name>use1-az4</Name><Type>AvailabilityZone</Type></Location>";
    let refused = (501, "NotImplemented");
    for other in [tags, directory, "<Bucket><Type>Directory</Type></Bucket>"] {
        expect(&door, &create("eu-west-1", &format!("{location}{other}")), refused);
    }
    expect(&door, &Ask::new("HEAD", "/new", "").by_header(), (404, ""));
    expect(&door, &create("eu-west-1", location), OK);
    expect(&door, &Ask::new("DELETE", "/new", "").by_header(), (204, ""));
    let location = "<LocationConstraint>RegionOne</LocationConstraint>";
    expect(&door, &create("RegionOne", location), OK);
    expect(&door, &Ask::new("DELETE", "/new", "").by_header(), (204, ""));
    expect(&door, &create("us-east-1", ""), OK);
}
