//! Task of a connection: polls the provider when the network wakes it, and reads the TCP connection, whose end means
//! that the peer has died.
//!
//! A provider without a descriptor to wait for, shared memory for example, cannot wake a task. Then the peer *rings*:
//! it sends one byte over TCP with the number of pieces that it has sent.
use crate::fabric::stream::Shared;
use esker_types::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a connection without users waits for the peer to end it, too.
pub const LINGER: Duration = Duration::from_secs(2);

/// Number of polls without progress before the thread sleeps between polls. This concerns operations whose completion
/// the provider cannot signal.
const AWAKE: u32 = 100;

/// Length of a sleep between polls.
const NAP: Duration = Duration::from_millis(1);

/// Polls of the provider after the end of the connection, for pieces that have arrived before.
const LAST_POLLS: u32 = 4;

/// Pieces that a peer may ring for before they arrive. A peer that rings for more breaks the protocol.
const RUNG_MAX: u64 = 1 << 16;

/// Event that a connection waits for.
enum Next {
    /// No event: there is more to do.
    Nothing,
    /// A short sleep: there may be more to do, but polls have been without progress for long.
    Time,
    /// The network, or a short sleep: the provider has not accepted every operation.
    Soon,
    /// The network.
    Network,
    /// The connection has ended.
    End,
}

/// The task of one connection.
struct Driver<W> {
    shared: Arc<Shared>,
    /// Descriptor of the provider; `None` if it has none, and the peer rings.
    descriptor: Option<AsyncFd<OwnedFd>>,
    /// TCP connection by which the peer is rung.
    to: W,
    /// Pieces that the peer has rung for.
    rung: u64,
    /// Polls without progress since the last progress.
    in_vain: u32,
    /// Time at which a connection without users is closed.
    deadline: Option<Instant>,
}

/// Starts the task of a connection. It rings the peer by `to`; the end of `from` means that the peer has died.
///
/// # Errors
/// `Io` if the descriptor of the network cannot be waited for.
pub(crate) fn start(
    shared: Arc<Shared>,
    from: impl AsyncRead + Unpin + Send + 'static,
    to: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<()> {
    let descriptor = shared.state().flow.endpoint().descriptor()?;
    let driver = Driver { shared, descriptor, to, rung: 0, in_vain: 0, deadline: None };
    tokio::spawn(driver.run(from));
    Ok(())
}

impl<W: AsyncWrite + Unpin> Driver<W> {
    /// Body of a connection's task: sends and receives pieces until the connection ends. Then it delivers the pieces
    /// that have already arrived, and wakes the reader and the writer.
    async fn run(mut self, mut from: impl AsyncRead + Unpin) {
        let why = self.drive(&mut from).await.err();
        let mut state = self.shared.state();
        // Pieces that arrived before the end are still delivered.
        for _ in 0..LAST_POLLS {
            state.progress();
        }
        state.flow.end(why);
        state.wake_all();
    }

    /// Runs until the connection ends. Fails if it did not end in good order.
    async fn drive(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Result<()> {
        let descriptor = self.descriptor.take();
        let mut ready: Option<AsyncFdReadyGuard<'_, OwnedFd>> = None;
        let mut rings = [0; 64];
        loop {
            let next = self.make_progress(descriptor.is_some());
            self.ring().await?;
            let is_told = matches!(next, Next::Network | Next::Soon);
            // All that the descriptor announced was handled, so its next readiness is a new one.
            if let Some(mut ready) = ready.take().filter(|_| is_told) {
                ready.clear_ready();
            }
            let pause = pin!(pause(&next, self.deadline));
            tokio::select! {
                biased;
                read = from.read(&mut rings) => match read {
                    Ok(count @ 1..) => self.count_rings(&rings[..count])?,
                    // The peer has ended the TCP connection, or it failed.
                    _ => return Ok(()),
                },
                ended = pause => if ended { return Ok(()) },
                () = self.shared.wake.notified() => {}
                guard = readable(descriptor.as_ref()), if is_told => ready = Some(guard?),
            }
        }
    }

    /// Makes progress, and returns the event to wait for next. Without a descriptor, the driver polls until it has
    /// received the pieces that the peer has rung for and has sent its own.
    fn make_progress(&mut self, has_descriptor: bool) -> Next {
        let mut state = self.shared.state();
        let has_worked = state.progress();
        let (is_over, is_left) = (state.flow.over().is_some(), state.flow.is_left());
        let has_parted = is_left && state.flow.is_closed() && state.flow.has_ended();
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let next = match has_descriptor {
            _ if is_over || has_parted || is_late => Next::End,
            _ if has_worked => Next::Nothing,
            true if !state.flow.may_wait() => Next::Nothing,
            true if state.flow.is_refused() => Next::Soon,
            true => Next::Network,
            // Such providers find their peer only while both are polled.
            false if state.flow.pieces() == 0 => Next::Nothing,
            false if self.rung > state.flow.pieces() || !state.flow.is_sent() => Next::Nothing,
            false if state.flow.is_refused() => Next::Soon,
            false => Next::Network,
        };
        drop(state);
        if is_left {
            self.deadline.get_or_insert_with(|| Instant::now() + LINGER);
        }
        self.nap_if_idle(next, has_worked)
    }

    /// Replaces the next poll by a short sleep after many polls without progress. `has_worked` is true if the last poll
    /// made progress.
    fn nap_if_idle(&mut self, next: Next, has_worked: bool) -> Next {
        match next {
            Next::Nothing if !has_worked => self.in_vain += 1,
            _ => self.in_vain = 0,
        }
        match next {
            Next::Nothing if self.in_vain > AWAKE => Next::Time,
            other => other,
        }
    }

    /// If the peer waits on the TCP connection and not on the fabric, writes to that connection how many pieces were
    /// sent, which wakes the peer.
    async fn ring(&mut self) -> Result<()> {
        let mut sent = self.shared.state().flow.take_sent();
        while self.shared.rings && sent > 0 {
            let count = u8::try_from(sent).unwrap_or(u8::MAX);
            let rung = async {
                self.to.write_all(&[count]).await?;
                self.to.flush().await
            };
            rung.await.map_err(|error| Error::io("ringing a peer of the fabric", &error))?;
            sent -= u64::from(count);
        }
        Ok(())
    }

    /// Counts the bytes that the peer sent on the stream to announce messages on the fabric. Fails if the peer
    /// announced far more than it sent.
    fn count_rings(&mut self, rings: &[u8]) -> Result<()> {
        self.rung += rings.iter().copied().map(u64::from).sum::<u64>();
        match self.rung.saturating_sub(self.shared.state().flow.pieces()) <= RUNG_MAX {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Corrupt,
                "a peer rang for messages of the fabric that it did not send; the connection is closed",
            )),
        }
    }
}

/// Waits until the descriptor of the network is readable.
async fn readable(descriptor: Option<&AsyncFd<OwnedFd>>) -> Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match descriptor {
        Some(descriptor) => {
            descriptor.readable().await.map_err(|error| Error::io("waiting for the fabric", &error))
        }
        None => std::future::pending().await,
    }
}

/// Waits for the event `next`, but no longer than `deadline`. True if the connection has ended, or the deadline has
/// passed.
async fn pause(next: &Next, deadline: Option<Instant>) -> bool {
    let rest = async {
        match next {
            Next::Nothing => tokio::task::yield_now().await,
            Next::Time | Next::Soon => sleep(NAP).await,
            Next::Network => std::future::pending().await,
            Next::End => return true,
        }
        false
    };
    match deadline {
        None => rest.await,
        Some(deadline) => tokio::select! {
            biased;
            () = sleep_until(deadline) => true,
            ended = rest => ended,
        },
    }
}
