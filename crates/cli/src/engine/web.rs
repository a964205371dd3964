//! HTTP server for the metrics and health of an engine or an S3 server: it answers GET of two paths.
use esker_engine::Engine;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Number of connections that are served at a time; others wait.
const CONNECTIONS_MAX: usize = 8;

/// Most bytes of a request.
const REQUEST_BYTES_MAX: u64 = 8 << 10;

/// How long a client may take for its request and the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait after a failed accept before the next.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A server whose metrics and health are served.
pub(crate) trait Watched: Clone + Send + Sync + 'static {
    /// The metrics of the engine, in the text format of Prometheus.
    fn metrics(&self) -> String;
    /// False once it is ending.
    fn is_ready(&self) -> bool;
}

impl Watched for Engine {
    fn metrics(&self) -> String {
        self.metrics()
    }

    fn is_ready(&self) -> bool {
        self.health().is_ready()
    }
}

impl Watched for esker_s3::Server {
    fn metrics(&self) -> String {
        self.metrics()
    }

    fn is_ready(&self) -> bool {
        self.is_ready()
    }
}

/// Response to a request.
struct Page {
    status: &'static str,
    kind: &'static str,
    text: String,
}

/// Answers all requests until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, served: impl Watched) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let served = served.clone();
        tokio::spawn(async move {
            // Errors of slow or closed connections are ignored: they concern the client only.
            let _ = tokio::time::timeout(TIMEOUT, answer(stream, &served)).await;
            drop(permit);
        });
    }
}

/// Answers one request, and closes the connection.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    served: &impl Watched,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let first = request(&mut stream).await?;
    let Page { status, kind, text } = page(&first, served);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a request and returns its first line. The other lines are read too: the client may wait until they are.
async fn request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<String> {
    let mut lines = stream.take(REQUEST_BYTES_MAX).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
    Ok(first)
}

/// Returns the page that answers a request, of which `request` is the first line.
fn page(request: &str, served: &impl Watched) -> Page {
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let text = |status, text: &str| Page { status, kind: "text/plain", text: text.to_owned() };
    match (method, path.split('?').next().unwrap_or_default()) {
        ("GET", "/metrics") => {
            Page { status: "200 OK", kind: "text/plain; version=0.0.4", text: served.metrics() }
        }
        ("GET", "/health") if served.is_ready() => text("200 OK", "ready\n"),
        ("GET", "/health") => text("503 Service Unavailable", "draining\n"),
        ("GET", _) => text("404 Not Found", "there are /metrics and /health\n"),
        _ => text("405 Method Not Allowed", "only GET is answered\n"),
    }
}
