//! Settings of TCP sockets.
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Probes without an answer after which the kernel takes a peer for lost.
const PROBES: u32 = 3;

/// Has the kernel end a connection after `time` if the machine of the peer does not answer any more: it lost its power or
/// its network, and no process there could close the connection. A process that is only stopped keeps it, as its kernel
/// answers, unless so much data waits for that process that its kernel accepts no more.
pub fn detect_lost_peer(socket: impl AsFd, time: Duration) -> std::io::Result<()> {
    let socket = socket.as_fd();
    let interval = time / (PROBES + 1);
    sockopt::set_tcp_keepidle(socket, interval)?;
    sockopt::set_tcp_keepintvl(socket, interval)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    // Probes are sent only while no data waits for an answer of the peer.
    sockopt::set_tcp_user_timeout(socket, u32::try_from(time.as_millis()).unwrap_or(u32::MAX))?;
    Ok(sockopt::set_socket_keepalive(socket, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn kernel_looks_for_lost_peers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        detect_lost_peer(&socket, Duration::from_secs(60)).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(15));
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(15));
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), PROBES);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 60_000);
    }
}
