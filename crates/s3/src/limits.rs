//! All limits of the S3 server.

/// Connections with a valid signature that are served at a time, each by a thread, unless the caller says otherwise;
/// others wait.
pub const CONNECTIONS: usize = 256;

/// Connections at a time that have not sent a request with a valid signature yet, each with a thread; others wait.
pub const UNAUTHENTICATED_MAX: usize = 64;

/// Seconds within which a connection must send a request with a valid signature.
pub const HANDSHAKE_SECONDS: u64 = 10;

/// Bytes that are read from or written to a file at a time. Per connection, at most twice as many are in memory.
pub const PIECE_BYTES: usize = 1 << 20;

/// Most bytes of a body that stay in memory until the object is published, in one transaction with the content. Then it
/// is in memory twice. Fewer than [`PIECE_BYTES`].
pub const SMALL_BYTES_MAX: u64 = 256 << 10;

/// Pieces of a file that are prepared for sending at a time if the pool is in memory. They are sent from there without
/// a copy.
pub const PIECES_IN_PLACE: usize = 2;

/// Most bytes of a chunk that a client signs: it is held in memory until its signature is verified.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// Most seconds for which a presigned URL is valid (S3): 7 days.
pub const PRESIGNED_SECONDS_MAX: u64 = 604_800;

/// Longest key in bytes (S3).
pub const KEY_BYTES_MAX: usize = 1024;

/// Most keys in one page of a listing (S3).
pub const LIST_KEYS_MAX: usize = 1000;

/// Most names of a directory that a listing reads at a time.
pub const LIST_WINDOW: usize = 1024;

/// Fewest names of a directory that a listing reads at a time, for pages of few keys.
pub const LIST_WINDOW_MIN: usize = 32;

/// Most runs of object IDs that a listing of a container without files keeps: in decimal order, 20 are read side by
/// side.
pub const LIST_RUNS: usize = 64;

/// Most objects that one request deletes (S3).
pub const DELETE_KEYS_MAX: usize = 1000;

/// Most bytes of an object that is put in one request, or of one part (S3): 5 GiB.
pub const PUT_BYTES_MAX: u64 = 5 << 30;

/// Fewest bytes of a part that is not the last (S3): 5 MiB.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Highest number of a part (S3).
pub const PARTS_MAX: i32 = 10_000;

/// Most bytes of the extended attribute that describes the parts of an object: sizes, and checksums if there is room.
pub const PARTS_BYTES_MAX: usize = 64 << 10;

/// Most bytes of user metadata, names and values (S3).
pub const METADATA_BYTES_MAX: usize = 2048;

/// Most tags of an object (S3).
pub const TAGS_MAX: usize = 10;

/// Most characters of a tag's name (S3).
pub const TAG_KEY_MAX: usize = 128;

/// Most characters of a tag's value (S3).
pub const TAG_VALUE_MAX: usize = 256;

/// Most bytes of the XML of a request.
pub const XML_BYTES_MAX: usize = 4 << 20;

/// Most bytes of the headers of a request, and of the data that is read ahead from a connection.
pub const READ_AHEAD_BYTES: usize = 512 << 10;

/// Default of the seconds within which a client sends the headers of a request, sends a further part of its body, or
/// receives a part of the answer.
pub const IDLE_SECONDS: u64 = 60;

/// Seconds after which the reply to a completion begins, although its parts are still copied: so neither the client nor
/// a proxy times out.
pub const COMPLETION_SECONDS: u64 = 10;

/// Seconds that requests in progress get when the server ends.
pub const DRAIN_SECONDS: u64 = 30;

/// Seconds after which a file that no finished put or part has published is removed, when a bucket is opened.
pub const LEFT_OVER_SECONDS: i64 = 3600;

/// Most buckets in a page of their list that a client asks for (S3).
pub const LIST_BUCKETS_MAX: usize = 10_000;

/// Seconds after which a change of a bucket, `GetBucketLocation` or `GetBucketVersioning` verifies again that the open
/// container has the bucket's name.
pub const BUCKET_NAME_SECONDS: u64 = 5;

/// Buckets that are open at a time; beyond that, idle ones are closed.
pub const BUCKETS_OPEN_MAX: usize = 256;

/// Most keys of a file of keys.
pub const ACCESS_KEYS_MAX: usize = 4096;

/// Attempts of a put whose directory others remove at the same time.
pub const RETRIES_MAX: usize = 100;
