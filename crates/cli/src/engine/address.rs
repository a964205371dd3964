//! Addresses: those on which an engine listens, and those by which clients reach it.
use esker::types::{Error, ErrorKind, Result};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use tokio::net::TcpListener;

/// The name of this machine for itself.
const LOCALHOST: &str = "localhost";

/// A host, by name or number, and a port; port 0 stands for any that is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("{text:?} is not an address: write HOST:PORT, or [HOST]:PORT for IPv6");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let port = port.parse().map_err(|_| wrong())?;
        match bare.unwrap_or(host) {
            "" => Err(wrong()),
            host if bare.is_none() && host.contains(':') => Err(wrong()),
            host => Ok(Self { host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    /// Returns an address of `host` with port 0: the kernel chooses a free port.
    pub(crate) fn any_port(host: &str) -> Self {
        Self { host: host.to_owned(), port: 0 }
    }

    /// A port of loopback.
    pub(crate) fn on_loopback(port: u16) -> Self {
        Self { host: LOCALHOST.to_owned(), port }
    }

    /// Returns this address with the port on which `listener` listens. Port 0 in this address let the kernel choose
    /// one.
    pub(crate) fn bound(&self, listener: &TcpListener) -> Result<Self> {
        let address = listener.local_addr().map_err(|error| Error::io("listening", &error))?;
        Ok(Self { host: self.host.clone(), port: address.port() })
    }

    /// Listens on this address. If the host is a name, this node may resolve it to a loopback address, which other
    /// nodes cannot reach. The engine then listens on all addresses of the node.
    pub(crate) async fn listen(&self) -> Result<TcpListener> {
        let bound = match self.host.parse::<IpAddr>() {
            Ok(number) => TcpListener::bind((number, self.port)).await,
            Err(_) if self.host == LOCALHOST => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await
            }
            Err(_) => self.listen_everywhere().await,
        };
        bound.map_err(|error| self.listen_error(&error))
    }

    #[cold]
    fn listen_error(&self, cause: &std::io::Error) -> Error {
        let error = Error::io(format_args!("listening on {self}"), cause);
        match cause.kind() {
            std::io::ErrorKind::AddrInUse => {
                let remedy = "end the program that uses the port, or choose another port";
                Error::new(error.kind(), format!("{}: {remedy}", error.message()))
            }
            _ => error,
        }
    }

    /// Listens on all addresses of this node: by IPv6 and IPv4, or by IPv4 alone on a node without IPv6.
    async fn listen_everywhere(&self) -> std::io::Result<TcpListener> {
        match TcpListener::bind((Ipv6Addr::UNSPECIFIED, self.port)).await {
            Ok(listener) => Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(error),
            Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.port)).await,
        }
    }
}

/// The address of a network interface of this node. If it has several, IPv4 is preferred.
///
/// # Errors
/// `NotFound` if there is no such interface, or if it has no address.
pub(crate) fn interface_address(name: &str) -> Result<IpAddr> {
    let failed = |error: nix::Error| Error::io("listing network interfaces", &error.into());
    let interfaces = nix::ifaddrs::getifaddrs().map_err(failed)?;
    let addresses: Vec<IpAddr> = interfaces
        .filter(|interface| interface.interface_name == name)
        .filter_map(|interface| interface.address.and_then(|address| ip_of(&address)))
        .collect();
    let first = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| {
        let message =
            format!("there is no network interface {name:?} with an address: `ip addr` lists them");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The IP address in a socket address. Link-local IPv6 addresses are left out: they need the name of their interface.
fn ip_of(address: &nix::sys::socket::SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    let six = || address.as_sockaddr_in6().map(|address| address.ip());
    four.or_else(|| six().filter(|six| !six.is_unicast_link_local()).map(IpAddr::V6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_displayed() {
        for (text, host, port) in
            [("n1:7000", "n1", 7000), ("10.0.0.1:0", "10.0.0.1", 0), ("[::1]:80", "::1", 80)]
        {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
        for wrong in ["", "n1", ":7", "n1:", "n1:70000", "::1:80", "[]:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn address_of_loopback_is_found_and_unknown_interface_is_not() {
        assert!(interface_address("lo").unwrap().is_loopback());
        assert_eq!(interface_address("none").unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn used_port_is_reported_with_its_remedy() {
        let address = Address::on_loopback(0);
        let listener = address.listen().await.unwrap();
        let error = address.bound(&listener).unwrap().listen().await.unwrap_err();
        assert!(error.message().contains("choose another port"), "{error}");
    }
}
