//! The limit: the HTTP library, without anything behind it.
use bytes::Bytes;
use esker_s3::limits::READ_AHEAD_BYTES;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Answers all gets with the same bytes, and discards the content of puts.
pub(super) async fn serve(listener: TcpListener, content: Bytes) {
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
