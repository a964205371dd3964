//! A process that puts and gets objects, one after the other, over one connection to each server.
use super::request::Content;
use super::{ClientJob, Step, Store};
use crate::errors::{Doing, ensure_intact};
use crate::job::Slot;
use crate::measure::{Measured, Until, measure};
use crate::payload::Payload;
use crate::worker::Work;
use bytes::Bytes;
use esker_types::{Error, ErrorKind, Result};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Maximum bytes of a server's error message that are shown.
const ERROR_BYTES_MAX: usize = 4 << 10;

/// A client.
pub struct Client {
    job: ClientJob,
    payload: Payload,
    all: Bytes,
    connections: Vec<SendRequest<Full<Bytes>>>,
    runtime: Runtime,
}

impl Work for Client {
    type Job = ClientJob;
    type Step = Step;
    type Done = Measured;

    fn begin(job: ClientJob) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.doing(|| "starting a client")?;
        let payload = Payload::new(job.member.seed, job.size_bytes)?;
        let all = Bytes::copy_from_slice(payload.bytes());
        let connections = job.stores.iter().map(|store| runtime.block_on(connect(store)));
        let connections = connections.collect::<Result<_>>()?;
        Ok(Self { job, payload, all, connections, runtime })
    }

    fn take(&mut self, step: Step) -> Result<Measured> {
        let (own, neighbour) = (self.job.member.rank, self.job.member.neighbour());
        match step {
            Step::MakeBucket(store) => self.bucket(store, Method::PUT),
            Step::RemoveBucket(store) => self.bucket(store, Method::DELETE),
            Step::Put(store, round, checksum) => {
                let content = Content::new(self.content(own, round), checksum)?;
                self.each(store, Method::PUT, own, &content, None)
            }
            Step::Get(store) => self.get(store, neighbour, None),
            Step::Verify(store, round) => {
                self.get(store, neighbour, Some(self.content(neighbour, round)))
            }
            Step::Remove(store) => self.each(store, Method::DELETE, own, &Content::none(), None),
        }
    }
}

impl Client {
    /// The bytes that process `rank` puts in a round. All its objects of the round have the same content, so that
    /// generating it takes no time.
    fn content(&self, rank: u32, round: u32) -> Bytes {
        self.all.slice(self.payload.range(Slot { rank, round, op: 0 }))
    }

    /// Creates or removes the bucket on server number `store`, depending on `method`.
    fn bucket(&mut self, store: usize, method: Method) -> Result<Measured> {
        let request = Content::none().request(store_of(&self.job, store)?, method, "")?;
        let response = self.send(store, request)?;
        self.runtime.block_on(read_success(response, None)).map(|_| Measured::default())
    }

    /// Gets the objects of process `rank` from a server, and compares them with `expected` if given.
    fn get(&mut self, store: usize, rank: u32, expected: Option<Bytes>) -> Result<Measured> {
        self.each(store, Method::GET, rank, &Content::none(), expected)
    }

    /// Sends a request for each object of process `rank` to a server. Compares the answers with `expected` if given.
    fn each(
        &mut self,
        store: usize,
        method: Method,
        rank: u32,
        content: &Content,
        expected: Option<Bytes>,
    ) -> Result<Measured> {
        let server = store_of(&self.job, store)?;
        let requests = (0..self.job.ops)
            .map(|op| content.request(server, method.clone(), &format!("/bench/{rank}/{op}")));
        let mut requests = requests.collect::<Result<Vec<_>>>()?.into_iter();
        let is_get = method == Method::GET;
        let size = self.job.size_bytes;
        measure(Until::ops(self.job.ops), size, |_| {
            let Some(request) = requests.next() else { return Ok(()) };
            let response = self.send(store, request)?;
            let count = self.runtime.block_on(read_success(response, expected.as_ref()))?;
            match is_get && count != size {
                true => Err(connection_error(&format!("{count} bytes of {size} came"))),
                false => Ok(()),
            }
        })
    }

    /// Sends a request, over a new connection if the server has closed the last one, as some do after every answer.
    fn send(
        &mut self,
        store: usize,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>> {
        let server = store_of(&self.job, store)?;
        let connection = &mut self.connections[store];
        self.runtime.block_on(async {
            for _ in 0..2 {
                if connection.ready().await.is_err() {
                    *connection = connect(server).await?;
                    connection.ready().await.map_err(|error| connection_error(&error))?;
                }
                match connection.try_send_request(request).await {
                    Ok(response) => return Ok(response),
                    Err(mut error) => match error.take_message() {
                        Some(unsent) => request = unsent,
                        None => return Err(connection_error(&error.into_error())),
                    },
                }
            }
            Err(connection_error(&"it closes connections before it takes a request"))
        })
    }
}

/// Server number `store` of the job. Fails with `Invalid` if there is none.
fn store_of(job: &ClientJob, store: usize) -> Result<&Store> {
    let store = job.stores.get(store);
    store.ok_or_else(|| Error::new(ErrorKind::Invalid, "there is no such server"))
}

/// Opens a connection to a server.
async fn connect(store: &Store) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(&store.address).await;
    let stream = stream.doing(|| format!("connecting to {}", store.address))?;
    let _ = stream.set_nodelay(true);
    let (send, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| connection_error(&error))?;
    tokio::spawn(connection);
    Ok(send)
}

/// Reads the complete answer and checks that its status is a success. Returns its length.
async fn read_success(mut response: Response<Incoming>, expected: Option<&Bytes>) -> Result<u64> {
    if !response.status().is_success() {
        return Err(response_error(response).await);
    }
    let mut count = 0;
    while let Some(frame) = response.body_mut().frame().await {
        let frame = frame.map_err(|error| connection_error(&error))?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let right = expected.is_none_or(|all| all.get(count..count + data.len()) == Some(data));
        ensure_intact(right, || "an object that was got is not what was put")?;
        count += data.len();
    }
    Ok(count as u64)
}

/// Error with the status of an answer and the beginning of its body.
async fn response_error(response: Response<Incoming>) -> Error {
    let status: StatusCode = response.status();
    let body = Limited::new(response.into_body(), ERROR_BYTES_MAX).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body = String::from_utf8_lossy(&body);
    Error::new(ErrorKind::Io, format!("the server answered {status}: {body}"))
}

#[cold]
fn connection_error(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("talking to a server of objects: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Member;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    /// Accepts `connections` connections, answers one request over each, and closes it.
    fn answer_and_close(listener: &TcpListener, connections: usize) {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            let request = BufReader::new(stream.try_clone().unwrap()).lines();
            request.map_while(|line| line.ok().filter(|line| !line.is_empty())).for_each(drop);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
    }

    #[test]
    fn client_reconnects_after_server_closes_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || answer_and_close(&listener, 3));
        let stores = vec![Store { address, bucket: "den".into(), key: None }];
        let member = Member { procs: 1, seed: 1, ..Member::default() };
        let job = ClientJob { member, stores, size_bytes: 1, ops: 1 };
        let mut client = Client::begin(job).unwrap();
        for _ in 0..3 {
            client.bucket(0, Method::PUT).unwrap();
        }
        server.join().unwrap();
        assert!(client.bucket(0, Method::PUT).is_err() && client.bucket(1, Method::PUT).is_err());
    }
}
