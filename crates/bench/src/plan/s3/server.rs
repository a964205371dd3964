//! The process that serves: a pool, once for each kind of ETag, and memory. Memory is the limit: the HTTP library,
//! without anything behind it.
use super::{Addresses, ServeJob};
use crate::runtime::{self, listen};
use crate::worker::Work;
use bytes::Bytes;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_s3::limits::READ_AHEAD_BYTES;
use esker_s3::{Etags, Keys, Options, Server};
use esker_types::Result;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::future::pending;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Servers that run as long as this value.
pub struct Servers {
    addresses: Addresses,
    _runtime: Runtime,
}

impl Work for Servers {
    type Job = ServeJob;
    type Step = ();
    type Done = Addresses;

    fn begin(job: ServeJob) -> Result<Self> {
        esker_os::keep_freed();
        let pool = Pool::connect(&job.pool, OpenMode::ReadWrite)?;
        let runtime = runtime::start(None)?;
        let (listener, memory) = listen(&runtime)?;
        let content = vec![0x5a; job.size_bytes as usize];
        runtime.spawn(serve_memory(listener, Bytes::from(content)));
        let mut doors = Vec::new();
        for etags in &job.etags {
            let options = Options { etags: etags.parse::<Etags>()?, ..Options::default() };
            let server = Server::new(pool.clone(), Keys::read(&job.keys)?, options);
            let (listener, address) = listen(&runtime)?;
            runtime.spawn(async move { server.serve(listener, pending()).await });
            doors.push(address);
        }
        Ok(Self { addresses: Addresses { memory, doors }, _runtime: runtime })
    }

    /// Answers the main process with the addresses of the servers.
    fn take(&mut self, (): ()) -> Result<Addresses> {
        Ok(self.addresses.clone())
    }
}

/// Answers all gets with the same bytes, and discards the content of puts.
async fn serve_memory(listener: TcpListener, content: Bytes) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let content = content.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, content.clone()));
            let mut server = http1::Builder::new();
            server.half_close(true).max_buf_size(READ_AHEAD_BYTES);
            // The client reports errors of its connection.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

/// Serves a request without storing anything.
async fn answer(
    request: Request<Incoming>,
    content: Bytes,
) -> hyper::Result<Response<Full<Bytes>>> {
    let is_get = request.method() == Method::GET;
    let mut body = request.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    let content = if is_get { content } else { Bytes::new() };
    Ok(Response::new(Full::new(content)))
}
