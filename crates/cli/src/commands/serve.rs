//! `esker serve`: servers for programs that speak another protocol.
use super::engine::parse_metrics;
use crate::args::PoolArg;
use crate::engine::{Address, Signals, log_to, web};
use crate::output::Answer;
use clap::{Args, Subcommand, ValueEnum};
use esker::Pool;
use esker::types::info::OpenMode;
use esker::types::{Error, Result};
use esker_s3::{Etags, Keys, Options, Server, Tls, limits};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;

/// Serve a pool to programs that speak another protocol
#[derive(Subcommand)]
pub(crate) enum ServeCommand {
    S3(Box<S3>),
}

const ABOUT: &str = "\
Serve a pool to programs that speak S3

Buckets are the containers of the pool that hold files (`esker cont create --type posix`, or a client makes them), and keys are \
the paths of files: what a client puts, `esker fs`, `esker run` and Python see, and the other way round. Of other containers, \
clients read Arrays and the values of Key-Values, whose keys are object IDs.

Nothing is served without a key. The file of keys has an access key and its secret on each line, and the word read-only if its \
holder may change nothing; nobody but its owner may read it (mode 0600). --new-key makes such a file with a random key.

When clients can connect, the command prints one line of JSON with its address, and logs to standard error. It ends on SIGTERM \
and SIGINT, after it has completed the requests that it has received.";

/// Serve a pool to programs that speak S3
#[derive(Args)]
#[command(long_about = ABOUT, after_long_help = "Examples:
  esker serve s3 tank --keys s3.keys --new-key
  esker serve s3 tank --keys s3.keys --listen n1:9000 --tls-certificate n1.pem --tls-key n1.key
  esker serve s3 tank --keys s3.keys --read-only --log s3.log --log-requests

  export AWS_ENDPOINT_URL=http://localhost:9000 AWS_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=$(cut -d ' ' -f 1 s3.keys) AWS_SECRET_ACCESS_KEY=$(cut -d ' ' -f 2 s3.keys)
  aws s3 mb s3://home
  aws s3 cp field.grib s3://home/run1/field.grib
  esker fs ls tank/home:/run1")]
pub(crate) struct S3 {
    #[command(flatten)]
    pool: PoolArg,
    /// File of keys
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// Make the file of keys first, with a random key
    #[arg(long)]
    new_key: bool,
    /// Address to listen on; port 0: any free port. A host name: all addresses of this node
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9000")]
    listen: Address,
    /// Serve TLS, with this chain of certificates (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Domain below which a bucket may also be part of the host's name: BUCKET.DOMAIN
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Connections that are served at a time; others wait
    #[arg(long, value_name = "N", default_value_t = limits::CONNECTIONS as u16, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Disconnect a client that neither sends nor receives data for this time
    #[arg(long, value_name = "SECONDS", default_value_t = limits::IDLE_SECONDS as u32, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    idle: u32,
    /// Serve /metrics, for Prometheus, and /health over HTTP; PORT alone: on this machine only
    #[arg(long, value_name = "[HOST:]PORT", value_parser = parse_metrics)]
    metrics: Option<Address>,
    /// Checksum that is the ETag of an object
    #[arg(long, value_name = "KIND", default_value = "md5")]
    etag: EtagArg,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Append the log to this file [default: standard error]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Log each request
    #[arg(long)]
    log_requests: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum EtagArg {
    /// Its MD5, as S3 has it; computing it takes longer than all else of a put
    Md5,
    /// Its XXH3, which no client can take for an MD5: puts are several times faster
    Xxh3,
}

impl From<EtagArg> for Etags {
    fn from(etag: EtagArg) -> Self {
        match etag {
            EtagArg::Md5 => Self::Md5,
            EtagArg::Xxh3 => Self::Xxh3,
        }
    }
}

/// Line that the command prints once clients can connect.
#[derive(Serialize)]
struct Ready {
    /// URL that clients connect to.
    url: String,
    pid: u32,
    /// Address of its metrics.
    metrics: Option<String>,
}

impl ServeCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match self {
            Self::S3(s3) => s3.run(),
        }
    }
}

impl S3 {
    fn run(self) -> Result<Answer> {
        log_to(self.log.as_deref())?;
        let served = self.serve();
        // Without a file of the log, the command prints the error where the log would.
        if let (Err(error), Some(_)) = (&served, &self.log) {
            tracing::error!(%error, "failed");
        }
        served.map(|()| Answer::new(serde_json::Value::Null, ""))
    }

    /// Serves S3 until a signal.
    fn serve(&self) -> Result<()> {
        esker_os::keep_freed();
        if self.new_key {
            Keys::create(&self.keys)?;
        }
        let keys = Keys::read(&self.keys)?;
        let mode = if self.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let pool = self.pool.open(mode)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("starting the server", &error))?;
        runtime.block_on(self.serve_pool(pool, keys))
    }

    /// Serves the containers of `pool` over S3, and the metrics if they are wanted, until a signal ends the command.
    async fn serve_pool(&self, pool: Pool, keys: Keys) -> Result<()> {
        let mut signals = Signals::new()?;
        let listener = self.listen.listen().await?;
        let url = self.url(&listener)?;
        let watch = match &self.metrics {
            Some(at) => Some((at, at.listen().await?)),
            None => None,
        };
        let metrics = watch.as_ref().map(|(at, listener)| at.bound(listener)).transpose()?;
        let metrics = metrics.map(|at| at.to_string());
        let count = keys.count();
        let server = Server::new(pool, keys, self.options()?);
        let watched = server.clone();
        let watching = watch.map(|(_, listener)| tokio::spawn(web::serve(listener, watched)));
        tracing::info!(url, keys = count, connections = self.connections, metrics, "ready");
        print_ready(&Ready { url, pid: std::process::id(), metrics });
        let stop = async {
            let why = signals.first().await;
            tracing::info!(why, "ending");
        };
        server.serve(listener, stop).await;
        if let Some(watching) = watching {
            watching.abort();
        }
        Ok(())
    }

    /// Options of the server.
    fn options(&self) -> Result<Options> {
        let files = self.tls_certificate.as_ref().zip(self.tls_key.as_ref());
        Ok(Options {
            connections: self.connections.into(),
            domain: self.domain.clone(),
            tls: files.map(|(certificates, key)| Tls::read(certificates, key)).transpose()?,
            log_requests: self.log_requests,
            etags: self.etag.into(),
            idle: Duration::from_secs(self.idle.into()),
        })
    }

    fn url(&self, listener: &TcpListener) -> Result<String> {
        let scheme = if self.tls_key.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.listen.bound(listener)?))
    }
}

/// Tells the process that started the server that it is ready. The server also serves if that process has gone.
fn print_ready(ready: &Ready) {
    let line = serde_json::to_string(ready).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
