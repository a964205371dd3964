//! Connections: HTTP, with TLS or without, each served by a thread, as many at a time as the caller allows.
use crate::admission::{Admission, Places};
use crate::configuration::Region;
use crate::document::Document;
use crate::framing::Framing;
use crate::front::Front;
use crate::guard::{Guard, Known};
use crate::host::Domain;
use crate::keys::Keys;
use crate::limits::{
    CONNECTIONS, DRAIN_SECONDS, HANDSHAKE_SECONDS, IDLE_SECONDS, READ_AHEAD_BYTES, XML_BYTES_MAX,
};
use crate::metered::{Begun, Held, Metered};
use crate::metrics::Metrics;
use crate::resign::{resign, resign_url};
use crate::service::Service;
use crate::signature;
use crate::sums::Etags;
use crate::timed::{Patience, Timed};
use esker::Pool;
use esker::types::{Error, ErrorKind, Result, check_label};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError, S3Error, S3ErrorCode, S3Result};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Answer to operations that are not offered.
const NOT_IMPLEMENTED: hyper::StatusCode = hyper::StatusCode::NOT_IMPLEMENTED;

/// The header with the number of a request, which the log has, too.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// Wait before the next accept after a failed one.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Options of the server.
pub struct Options {
    /// Connections that are served at a time once they have authenticated; others wait.
    pub connections: usize,
    /// The domain below which a bucket may also be part of the host's name.
    pub domain: Option<String>,
    /// Serve TLS.
    pub tls: Option<Tls>,
    /// Log each request.
    pub log_requests: bool,
    /// Checksum algorithm of ETags.
    pub etags: Etags,
    /// Longest time that a client may be idle within a request or a reply, or before the next request.
    pub idle: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS,
            domain: None,
            tls: None,
            log_requests: false,
            etags: Etags::default(),
            idle: Duration::from_secs(IDLE_SECONDS),
        }
    }
}

/// A certificate, and the key that proves it.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// Reads a chain of certificates and its private key: files in PEM.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if they cannot be read or do not belong together.
    pub fn read(certificates: &Path, key: &Path) -> Result<Self> {
        let wrong = |path: &Path, why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Invalid, format!("{}: {why}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(|found| found.collect::<std::result::Result<Vec<_>, _>>())
            .map_err(|error| wrong(certificates, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| wrong(certificates, &error))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Serves a pool to clients that speak S3. Clones share it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    s3: S3Service,
    options: Options,
    keys: Arc<Keys>,
    places: Places,
    metrics: Arc<Metrics>,
    is_draining: AtomicBool,
    /// The number of the last request.
    last: AtomicU64,
}

/// Rule for names of buckets: they are labels of containers.
struct Labels;

impl NameValidation for Labels {
    fn validate_bucket_name(&self, name: &str) -> bool {
        check_label(name).is_ok()
    }
}

impl Server {
    /// A server for a pool, for the holders of these keys.
    #[must_use]
    pub fn new(pool: Pool, keys: Keys, options: Options) -> Self {
        let keys = Arc::new(keys);
        let guard = Guard(Arc::clone(&keys));
        let metrics = Arc::<Metrics>::default();
        let service = Service::new(pool, Arc::clone(&metrics), options.etags);
        let mut config = S3Config::default();
        config.xml_max_body_size = XML_BYTES_MAX;
        let config = Arc::new(StaticConfigProvider::new(Arc::new(config)));
        let builder = || {
            let mut builder = S3ServiceBuilder::new(service.clone());
            builder.set_auth(guard.clone());
            builder.set_access(guard.clone());
            builder.set_validation(Labels);
            builder.set_config(config.clone());
            if let Some(domain) = &options.domain {
                builder.set_host(Domain(domain.clone()));
            }
            builder
        };
        let mut front = builder();
        front.set_route(Front(builder().build()));
        let places = Places::new(options.connections);
        let (last, is_draining) = (AtomicU64::new(0), AtomicBool::new(false));
        let s3 = front.build();
        Self(Arc::new(Inner { s3, options, keys, places, metrics, is_draining, last }))
    }

    /// The metrics, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let most = self.0.options.connections;
        let served = most.saturating_sub(self.0.places.free());
        self.0.metrics.page(served as u64, most as u64, !self.is_ready())
    }

    /// True until the server is told to end.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.is_draining.load(Ordering::Relaxed)
    }

    /// Accepts and serves connections until `stop` is ready. Then finishes the requests in progress, for a limited
    /// time.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let connections = GracefulShutdown::new();
        let (_serving, end) = watch::channel(());
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&listener) => accepted,
                () = &mut stop => break,
            };
            let Some((stream, place)) = accepted else { continue };
            self.0.metrics.connections.add(1);
            let (watcher, end) = (connections.watcher(), end.clone());
            if let Err(error) = self.attend(stream, watcher, end, place) {
                tracing::warn!(%error, "a connection gets no thread");
            }
        }
        drop(listener);
        self.0.is_draining.store(true, Ordering::Relaxed);
        let drained =
            tokio::time::timeout(Duration::from_secs(DRAIN_SECONDS), connections.shutdown());
        if drained.await.is_err() {
            tracing::warn!("requests that took too long were cut off");
        }
    }

    /// Accepts the next connection, once a slot is free. `None` after an error: then waits a moment, because the next
    /// attempt would likely fail too.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, Admission)> {
        let place = self.0.places.next().await?;
        match listener.accept().await {
            Ok((stream, _)) => Some((stream, place)),
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                None
            }
        }
    }

    /// Serves a connection on a thread of its own, where operations of the store may block. So the processor that has
    /// received bytes in its cache also checksums and stores them, and no other thread has to be woken. `watcher` ends
    /// it after its current request, `end` at once.
    fn attend(
        &self,
        stream: TcpStream,
        watcher: Watcher,
        end: watch::Receiver<()>,
        place: Admission,
    ) -> std::io::Result<()> {
        let (server, stream) = (self.clone(), stream.into_std()?);
        let thread = std::thread::Builder::new().name("s3".to_owned());
        thread.spawn(move || {
            if let Err(error) = server.serve_here(stream, watcher, end, place) {
                tracing::warn!(%error, "a connection was not served");
            }
        })?;
        Ok(())
    }

    /// Serves a connection until it ends, or the sender of `end` is dropped.
    fn serve_here(
        &self,
        stream: std::net::TcpStream,
        watcher: Watcher,
        mut end: watch::Receiver<()>,
        place: Admission,
    ) -> std::io::Result<()> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(async {
            let stream = TcpStream::from_std(stream)?;
            tokio::select! {
                () = self.shake_hands(stream, watcher, &place) => {}
                () = place.expire(Duration::from_secs(HANDSHAKE_SECONDS)) => {
                    tracing::info!("a connection without a right signature was dropped");
                }
                _ = end.changed() => {}
            }
            Ok(())
        })
    }

    /// Begins TLS, if the server has a certificate, and serves the connection.
    async fn shake_hands(&self, stream: TcpStream, watcher: Watcher, place: &Admission) {
        let _ = stream.set_nodelay(true);
        let Some(Tls(tls)) = &self.0.options.tls else {
            return self.serve_connection(stream, watcher, place).await;
        };
        let begun = tokio::time::timeout(self.0.options.idle, tls.accept(stream)).await;
        if let Ok(Ok(stream)) = begun {
            self.serve_connection(stream, watcher, place).await;
        }
    }

    /// Serves a connection until it is closed, or idle for too long.
    async fn serve_connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        watcher: Watcher,
        place: &Admission,
    ) {
        let serve = service_fn(|request| self.answer(request, place));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // A client may close its sending side and still wait for the answer.
            .half_close(true)
            .header_read_timeout(self.0.options.idle)
            .max_buf_size(READ_AHEAD_BYTES)
            .serve_connection(TokioIo::new(Timed::new(stream, self.0.options.idle)), serve);
        // An error is ignored, since the client is gone.
        let _ = watcher.watch(connection).await;
    }

    /// Refuses requests that `s3s` would accept, or would refuse for a wrong reason. Signs requests again that `s3s`
    /// cannot read.
    fn check(&self, request: &mut Request<Incoming>) -> S3Result<()> {
        if is_form(request) {
            let why = "forms of browsers are not offered here";
            return Err(S3Error::with_message(S3ErrorCode::NotImplemented, why));
        }
        let (method, uri) = (request.method().clone(), request.uri().clone());
        signature::check(&uri, request.headers())?;
        if let Some(region) = signature::region(&uri, request.headers()) {
            request.extensions_mut().insert(Region(region));
        }
        if let Some(url) = resign_url(&method, &uri, request.headers(), &self.0.keys)? {
            *request.uri_mut() = url;
        }
        resign(&method, &uri, request.headers_mut(), &self.0.keys)
    }

    /// Checks a request, and passes it to `s3s`, which calls the operation. Returns an error reply if the request or
    /// its body is refused.
    async fn call(
        &self,
        mut request: Request<Incoming>,
    ) -> std::result::Result<Response<Body>, HttpError> {
        let (asks, is_empty) =
            (request.headers().contains_key(EXPECT), request.body().is_end_stream());
        let (held, begun, document) = (Held::default(), Begun::default(), Document::default());
        request.extensions_mut().insert(held.clone());
        request.extensions_mut().insert(document.clone());
        let answered = match self.check(&mut request) {
            Err(error) => refuse(error),
            Ok(()) => {
                let patience = Patience::new(self.0.options.idle);
                let framing = Framing::new(request.headers());
                let (document, begun) = (document.clone(), begun.clone());
                let metered = |body| Metered { body, held, patience, framing, document, begun };
                self.0.s3.call(request.map(|body| Body::http_body(metered(body)))).await
            }
        };
        let mut response = match document.take_fault() {
            Some(error) => refuse(error)?,
            None => answered?,
        };
        // The client was not told to send its body, so client and server may disagree about the next bytes on the
        // connection. botocore then takes an answer for another one, or sends its next request where the body is
        // expected.
        if asks && (is_empty || !begun.get()) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Answers a request, and logs it.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        place: &Admission,
    ) -> std::result::Result<Response<Body>, HttpError> {
        let (begin, known) = (Instant::now(), Known::default());
        let id = format!("{:016X}", self.0.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        request.extensions_mut().insert(known.clone());
        request.extensions_mut().insert(place.clone());
        let mut response = self.call(request).await?;
        if response.status() == hyper::StatusCode::OK
            && response.headers().contains_key(CONTENT_RANGE)
        {
            // `s3s` sets this status for a get only, not for a head.
            *response.status_mut() = hyper::StatusCode::PARTIAL_CONTENT;
        }
        let status = response.status().as_u16();
        if status >= 400 {
            name_request(&mut response, &id);
        }
        if response.status().is_server_error() && response.status() != NOT_IMPLEMENTED {
            tracing::error!(id, %method, path, status, error = text_of(&response), "failed");
        }
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        let (who, took) = (known.get(), begin.elapsed());
        let operation = who.map(|who| who.operation.as_str());
        if operation == Some("GetObjectAttributes") {
            bare_etag(&mut response);
        }
        self.0.metrics.answered(operation, response.status(), took);
        if self.0.options.log_requests {
            let access_key = who.map(|who| who.access_key.as_str());
            let microseconds = took.as_micros() as u64;
            tracing::info!(id, %method, path, operation, access_key, status, microseconds, "request");
        }
        Ok(response)
    }
}

/// The body of an answer if it is text in memory, as that of an error is.
fn text_of(response: &Response<Body>) -> Option<String> {
    String::from_utf8(response.body().bytes()?.to_vec()).ok()
}

/// The message to add to the XML of an error that has none; `None` if it needs none. A client shows it to its user.
fn missing_message(error: &str) -> Option<&'static str> {
    let has_code = |code: &str| error.contains(&format!("<Code>{code}</Code>"));
    match error.contains("<Message>") {
        false if has_code("SignatureDoesNotMatch") => Some(
            "the signature does not match the request: check the secret of the access key, and sign what is sent",
        ),
        false if has_code("InvalidAccessKeyId") => {
            Some("the server does not know the access key: use one of its file of keys (--keys)")
        }
        _ => None,
    }
}

/// Adds the request id to the XML of an error reply, as S3 does, and a message if `s3s` gave none.
fn name_request(response: &mut Response<Body>, id: &str) {
    let text = text_of(response);
    if let Some(error) = text.as_deref().and_then(|text| text.strip_suffix("</Error>")) {
        let message = missing_message(error)
            .map_or_else(String::new, |message| format!("<Message>{message}</Message>"));
        let named = format!("{error}{message}<RequestId>{id}</RequestId></Error>");
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(named);
    }
}

/// Removes the quotes of the ETag in the XML of `GetObjectAttributes`, where S3 has none.
fn bare_etag(response: &mut Response<Body>) {
    let Some(bytes) = response.body().bytes() else { return };
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    let bare = text.replace("<ETag>\"", "<ETag>").replace("\"</ETag>", "</ETag>");
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(bare);
}

/// True for a form of a browser, which has its signature in its body.
fn is_form(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    request.method() == Method::POST
        && kind.is_some_and(|kind| {
            kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
        })
}

/// The error reply for `error`.
fn refuse(error: S3Error) -> std::result::Result<Response<Body>, HttpError> {
    error.to_http_response().map_err(|error| HttpError::new(Box::new(error)))
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod refusals;
