//! The server to connect to.

use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::line::Stream;

/// The address of a server.
#[derive(Debug)]
pub(super) enum Target {
    /// A host and a port.
    Network(String),
    /// The path of a socket.
    Socket(String),
}

impl Target {
    /// Parses a target, and the path of the request if there is one.
    pub(super) fn parse(words: &str) -> (Self, String) {
        let words = words.strip_prefix("http://").unwrap_or(words);
        if !words.contains(':') {
            return (Self::Socket(words.to_owned()), "/".to_owned());
        }
        let (address, path) = words.split_at(words.find('/').unwrap_or(words.len()));
        let path = if path.is_empty() { "/" } else { path };
        (Self::Network(address.to_owned()), path.to_owned())
    }

    /// Returns the value of `:authority`.
    pub(super) fn authority(&self) -> &str {
        match self {
            Self::Network(address) => address,
            Self::Socket(_) => "localhost",
        }
    }

    /// Connects to the server.
    pub(super) fn connect(&self, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let address = match self {
            Self::Socket(path) => return Ok(Box::new(UnixStream::connect(path)?)),
            Self::Network(address) => address,
        };
        let mut refused = io::Error::from(io::ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Box::new(stream));
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}
