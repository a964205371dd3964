//! `esker bench s3`: objects by S3, beside the HTTP library.
use super::{JsonFile, OwnArgs, launcher};
use clap::Args;
use esker::types::{Error, ErrorKind, Result};
use esker_bench::plan::S3Plan;
use esker_bench::plan::s3::REGION;
use esker_bench::s3::{Key, Store};
use esker_cli::output::{Answer, with_spinner};
use esker_cli::units::Bytes;

const ABOUT: &str = "\
One process serves a temporary pool by S3, as `esker serve s3` does, once for each kind of ETag. The other processes are its \
clients. Each client puts and gets objects one after the other over one connection, and gets the objects of another client.

  put          sends no checksum
  put signed   signs the SHA-256 of the content and sends its CRC32 in a header, as boto3 does over HTTP
  put trailer  sends the CRC64 of the content after it, as the SDKs of AWS do over HTTPS

Clients compute these checksums before they are measured. The limit is the HTTP library alone, in the process that serves: it \
sends the same bytes from memory, and discards the bytes that it receives. The servers alternate in each round.

--peer measures another server of S3 in the same run, with the same clients. The bucket must not exist: the benchmark creates it, \
and removes it at the end. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY give the key, AWS_REGION [us-east-1] the region. Without a \
key, requests are not signed.

Examples:
  esker bench s3
  esker bench s3 --clients 1,2 --etag xxh3 --json s3.json
  AWS_ACCESS_KEY_ID=me AWS_SECRET_ACCESS_KEY=secret esker bench s3 --peer http://localhost:8333";

/// Measure PUT and GET by S3, beside the HTTP library that serves from memory
#[derive(Args)]
#[command(after_long_help = ABOUT)]
pub(crate) struct S3 {
    #[command(flatten)]
    own: OwnArgs,
    /// Size of an object
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    size: Bytes,
    /// Number of clients, or several numbers, separated by commas
    #[arg(long, value_name = "N", default_value = "1,2", value_delimiter = ',')]
    clients: Vec<u32>,
    /// Kind of ETags, as for `esker serve s3 --etag`, or several kinds separated by commas
    #[arg(long, value_name = "KIND", default_value = "md5,xxh3", value_delimiter = ',', value_parser = ["md5", "xxh3"])]
    etag: Vec<String>,
    /// Objects of each client in each phase [default: 256 MiB, at most 2000 objects]
    #[arg(long, value_name = "N")]
    ops: Option<u64>,
    /// Number of rounds of putting and getting; figures are over all rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Another server of S3 to measure in the same run, over HTTP
    #[arg(long, value_name = "URL")]
    peer: Option<String>,
    /// Name of the bucket that is made there
    #[arg(long, value_name = "NAME", default_value = "esker-bench", requires = "peer")]
    bucket: String,
    /// Compare what is got with what was put, in an unmeasured phase
    #[arg(long)]
    verify: bool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: JsonFile,
}

impl S3 {
    pub(crate) fn run(self) -> Result<Answer> {
        self.json.check()?;
        let plan = S3Plan {
            launcher: launcher("s3-worker")?,
            own: self.own.pool(),
            size_bytes: self.size.0,
            clients: self.clients,
            ops: self.ops,
            rounds: self.rounds,
            etags: self.etag,
            peer: self.peer.as_deref().map(|url| peer(url, self.bucket)).transpose()?,
            verify: self.verify,
            seed: self.seed,
        };
        let report = with_spinner(|note| plan.run(note))?;
        self.json.answer(&report)
    }
}

/// A server at `http://HOST[:PORT]`, with the key of the environment.
fn peer(url: &str, bucket: String) -> Result<Store> {
    let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '@']));
    let host = host.ok_or_else(|| {
        let message = format!("{url} is not the URL of a server: write http://HOST:PORT");
        Error::new(ErrorKind::Invalid, message)
    })?;
    let address = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let key = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY"));
    let region = variable("AWS_REGION").unwrap_or_else(|| REGION.to_owned());
    let key = key.map(|(access, secret)| Key { access, secret, region });
    Ok(Store { address, bucket, key })
}
