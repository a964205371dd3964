//! Admission of a client: TLS if the engine requires it, the handshake, a slot among the clients, and the switch to the
//! fabric if the client asks for it.
use crate::connection;
use crate::handshakes::Slot;
use crate::life::Phase;
use crate::limits::CLIENTS_MAX;
use crate::{Engine, HANDSHAKE_TIMEOUT, Shared};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::fabric::Frames;
use esker_wire::frame::{Announced, Kind, Limits, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncRead, AsyncWrite, join, split};

/// Addresses of a connection: the client's, for the log, and the engine's.
pub(crate) struct Ends<'a> {
    pub(crate) address: &'a str,
    /// Address of the engine to which the client connected, for the endpoint on the fabric; `None` if it is not known.
    pub(crate) local: Option<IpAddr>,
}

impl Engine {
    /// Admits a client and serves it, over TLS if the engine requires that. `from` and `to` are the two directions of
    /// its connection. Over TLS, the secret is derived for this TLS session, so that a proof cannot be relayed to
    /// another.
    pub(crate) async fn serve_in(
        &self,
        slot: Slot,
        ends: Ends<'_>,
        from: impl AsyncRead + Unpin + Send + 'static,
        to: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<()> {
        let secret = &self.0.secret;
        let Some(tls) = self.0.tls.get() else {
            return self.serve_if_authentic(slot, ends, (from, to), secret).await;
        };
        let secured = self.in_time(&slot, tls.accept(join(from, to))).await;
        let bound = secured.and_then(|(stream, binding)| Ok((stream, secret.bound_to(&binding)?)));
        let (stream, secret) = bound.map_err(|error| self.count_refusal(ends.address, error))?;
        self.serve_if_authentic(slot, ends, split(stream), &secret).await
    }

    /// Serves a client that proves knowledge of `secret`. Its `slot` is free for another handshake once it is admitted.
    async fn serve_if_authentic(
        &self,
        slot: Slot,
        Ends { address, local }: Ends<'_>,
        (from, to): (
            impl AsyncRead + Unpin + Send + 'static,
            impl AsyncWrite + Unpin + Send + 'static,
        ),
        secret: &Secret,
    ) -> Result<()> {
        let Shared { uuid, metrics, life, spare, .. } = &*self.0;
        let (mut from, mut to) = (Receiver::with_spare(from, spare.clone()), Sender::new(to));
        let nonce = esker_os::random_bytes()?;
        let shaken = handshake::accept(&mut from, &mut to, secret, *uuid, nonce);
        let shaken = self.in_time(&slot, shaken).await;
        let client = shaken.map_err(|error| self.count_refusal(address, error))?;
        let most = self.0.clients_max.load(Ordering::Relaxed);
        let Some(_connected) = life.connect(most) else {
            let error = rejection_error(life.phase(), most);
            self.reject(&mut from, &mut to, &error).await;
            return Err(self.count_refusal(address, error));
        };
        drop(slot);
        metrics.connections.add(1);
        tracing::info!(address, client, "a client connected");
        let served = self.serve_authenticated(local, from, to).await;
        self.note_end(address, client, &served);
        served
    }

    /// Serves an authenticated client: over this connection, or over the fabric if the client's first request asks for
    /// that.
    async fn serve_authenticated(
        &self,
        local: Option<IpAddr>,
        mut from: Receiver<impl AsyncRead + Unpin + Send + 'static>,
        to: Sender<impl AsyncWrite + Unpin + Send + 'static>,
    ) -> Result<()> {
        let first = tokio::select! {
            biased;
            first = from.announced(Limits::AUTHENTICATED) => first?,
            () = self.0.life.reached(Phase::Draining) => None,
        };
        match first {
            // The fabric would carry in plain text what TLS encrypts.
            Some(offer) if offer.kind() == Kind::Fabric && self.0.tls.get().is_none() => {
                let (from, to) = self.meet(offer, local, from, to).await?;
                connection::serve(&self.0, None, from, to).await
            }
            first => connection::serve(&self.0, first, from, to).await,
        }
    }

    /// Moves a client to the fabric. `offer` is its first frame, with the address of its endpoint. Returns both
    /// directions of the new connection.
    async fn meet(
        &self,
        offer: Announced,
        local: Option<IpAddr>,
        mut from: Receiver<impl AsyncRead + Unpin + Send + 'static>,
        to: Sender<impl AsyncWrite + Unpin + Send + 'static>,
    ) -> Result<Frames> {
        let met = async {
            let _share = self.0.memory.take(offer.memory()).await;
            let offer = from.rest(offer).await?;
            esker_wire::fabric::accept(&offer, from, to, local).await
        };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, met).await.map_err(|_| fabric_timeout_error())?
    }

    /// Tells an authenticated client why it is not served, and ends its connection.
    async fn reject(
        &self,
        from: &mut Receiver<impl AsyncRead + Unpin>,
        to: &mut Sender<impl AsyncWrite + Unpin>,
        why: &Error,
    ) {
        let notified = async {
            to.send(&connection::goodbye(why.message().to_owned().into())).await?;
            to.finish().await
        };
        // A client that does not receive the message has gone.
        if let Ok(Ok(())) = tokio::time::timeout(HANDSHAKE_TIMEOUT, notified).await {
            connection::linger(&self.0, from.discard()).await;
        }
    }

    /// Counts and logs the refusal of a connection, and hands its error back.
    fn count_refusal(&self, address: &str, error: Error) -> Error {
        self.0.metrics.refuse(error.kind());
        tracing::warn!(address, %error, "refused a connection");
        error
    }

    /// Logs the end of a connection. A peer that sent what is not the protocol is counted.
    fn note_end(&self, address: &str, client: u64, served: &Result<()>) {
        match served {
            Ok(()) => tracing::info!(address, client, "a client disconnected"),
            Err(error) => {
                if error.kind() == ErrorKind::Corrupt {
                    self.0.metrics.malformed.add(1);
                }
                tracing::warn!(address, client, %error, "a connection ended");
            }
        }
    }

    /// Runs a step of the handshake until it ends, times out or must free its slot.
    async fn in_time<T>(&self, slot: &Slot, step: impl Future<Output = Result<T>>) -> Result<T> {
        let ended = |kind, why| Err(Error::new(kind, why));
        tokio::select! {
            biased;
            done = step => done,
            () = tokio::time::sleep_until(slot.since() + HANDSHAKE_TIMEOUT) => {
                ended(ErrorKind::TimedOut, "a client did not finish the handshake in time")
            }
            () = slot.must_leave() => {
                ended(ErrorKind::Busy, "a client did not finish the handshake while many others waited")
            }
            () = self.0.life.reached(Phase::Draining) => {
                ended(ErrorKind::Canceled, "the engine accepts no clients any more: it drains")
            }
        }
    }
}

/// The error of a client that is not served: `most` clients are connected, or the engine drains.
#[cold]
fn rejection_error(phase: Phase, most: u64) -> Error {
    if phase != Phase::Ready {
        return Error::new(ErrorKind::Canceled, connection::STOPPED);
    }
    let why = format!(
        "its engine serves {most} clients, as many as it may: end some, or raise its limit of open files (ulimit -n) \
         if that is below {CLIENTS_MAX}"
    );
    Error::new(ErrorKind::Overflow, why)
}

#[cold]
fn fabric_timeout_error() -> Error {
    Error::new(ErrorKind::TimedOut, "a client did not come to the fabric in time")
}
