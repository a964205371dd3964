//! iperf3 on loopback, if it is installed: a widely known measure of TCP.
use crate::errors::Doing;
use crate::measure::Tally;
use esker_types::{Error, ErrorKind, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Runs iperf3 for `seconds` over one connection. Returns none if it is not installed. One operation is a block of
/// `block_bytes`.
pub(super) fn measure(seconds: u32, block_bytes: u64) -> Result<Option<Tally>> {
    let port = free_port()?.to_string();
    let mut server = match serve(&port) {
        Ok(server) => server,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("running iperf3", &error)),
    };
    let (length, seconds) = (block_bytes.min(1 << 20).to_string(), seconds.to_string());
    let options = ["-c", "127.0.0.1", "-p", &port, "-t", &seconds, "-l", &length, "-J"];
    let report = Command::new("iperf3").args(options).stderr(Stdio::null()).output();
    // The server ends by itself after one test (`-1`), but not if the client failed.
    let _ = server.kill();
    let _ = server.wait();
    tally(&report.doing(|| "running iperf3")?.stdout, block_bytes).map(Some)
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).doing(|| "choosing a port for iperf3")
}

/// Starts a server and waits until it listens.
fn serve(port: &str) -> std::io::Result<Child> {
    let options = ["-s", "-1", "-B", "127.0.0.1", "-p", port, "--forceflush"];
    let mut command = Command::new("iperf3");
    let mut server = command.args(options).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let said = server.stdout.take().map(BufReader::new);
    let mut lines = said.into_iter().flat_map(BufRead::lines).map_while(std::io::Result::ok);
    match lines.any(|line| line.contains("listening")) {
        true => Ok(server),
        false => Err(std::io::Error::other("its server does not listen")),
    }
}

/// Bytes and seconds that the receiver counted, from a report of iperf3. Each block counts as one operation.
fn tally(report: &[u8], block_bytes: u64) -> Result<Tally> {
    let report: Value = serde_json::from_slice(report).unwrap_or_default();
    let received = &report["end"]["sum_received"];
    match (received["bytes"].as_u64(), received["seconds"].as_f64()) {
        (Some(bytes), Some(seconds)) => {
            Ok(Tally { ops: bytes / block_bytes.max(1), bytes, seconds, ..Tally::default() })
        }
        _ => {
            let why = report["error"].as_str().unwrap_or("its report has no figures");
            Err(Error::new(ErrorKind::Io, format!("iperf3: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_receiver() {
        let report = br#"{"end": {"sum_sent": {"bytes": 9, "seconds": 1.0},
                          "sum_received": {"bytes": 4096, "seconds": 2.0}}}"#;
        let found = tally(report, 1024).unwrap();
        assert_eq!((found.ops, found.bytes, found.seconds), (4, 4096, 2.0));
        let refused = tally(br#"{"error": "no route"}"#, 1024).unwrap_err();
        assert!(refused.message().contains("no route"), "{refused}");
    }
}
