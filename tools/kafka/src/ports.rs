//! Free loopback ports.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Finds `count` different free ports. Another process may take one before the caller does.
pub(crate) fn free(count: usize) -> io::Result<Vec<u16>> {
    // Bound until all are found, so that no port comes twice.
    let mut held = Vec::with_capacity(count);
    while held.len() < count {
        held.push(bind_any()?);
    }
    held.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}

pub(crate) fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whether something listens.
pub(crate) fn answers(port: u16) -> bool {
    TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1)).is_ok()
}

/// Prefers a port that the system does not give to outgoing connections: while a node is down, such a connection
/// could take its port, or even connect to itself.
fn bind_any() -> io::Result<TcpListener> {
    let end = first_ephemeral().unwrap_or(LOWEST);
    if end > LOWEST {
        for _ in 0..100 {
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, fastrand::u16(LOWEST..end))) {
                return Ok(listener);
            }
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

fn first_ephemeral() -> Option<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_ascii_whitespace().next()?.parse().ok()
}

/// Above the ports that services are usually configured with.
const LOWEST: u16 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_free() {
        let ports = free(20).unwrap();
        let mut unique = ports.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 20);
    }

    #[test]
    fn a_port_with_a_listener_answers_and_is_not_free() {
        let listener = bind_any().unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(answers(port) && !is_free(port));
    }
}
