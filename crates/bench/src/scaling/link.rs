//! The bandwidth of a link: one TCP stream over the loopback device of this machine.
use esker_cli::units::mib_per_s;
use esker_types::{Error, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of one call.
const BLOCK: usize = 1 << 20;

/// MiB/s from one thread to another in about `duration`.
///
/// # Errors
/// If the system refuses sockets, or the stream breaks.
pub(super) fn loopback_mib_s(duration: Duration) -> Result<f64> {
    let failed = |error| Error::io("measuring a TCP stream on this machine", &error);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(&listener));
        let sent = send(address, duration);
        let received = receiver.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        sent.and(received).map_err(failed)
    })
}

fn send(address: std::net::SocketAddr, duration: Duration) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let (block, begun) = (vec![1; BLOCK], Instant::now());
    while begun.elapsed() < duration {
        stream.write_all(&block)?;
    }
    Ok(())
}

/// MiB/s until the sender closes the stream.
fn receive(listener: &TcpListener) -> std::io::Result<f64> {
    let (mut stream, _) = listener.accept()?;
    let (mut block, mut bytes, begun) = (vec![0; BLOCK], 0, Instant::now());
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(mib_per_s(bytes, begun.elapsed().as_secs_f64())),
            count => bytes += count as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_bandwidth_is_positive() {
        assert!(loopback_mib_s(Duration::from_millis(1)).unwrap() > 0.0);
    }
}
