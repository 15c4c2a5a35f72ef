//! A non-blocking connection to a peer: a plugin, a client of `kubelet.sock`, or one of the API.
//!
//! The connection does not have buffers: bytes are read into, and written from, those of an
//! [`Endpoint`] or of the caller.

use std::io::{self, Read as _, Write as _};

use mio::event::Event;
use mio::net::UnixStream;
use nix::sys::socket::{getsockopt, sockopt};

use crate::http2::Endpoint;
use crate::manager::Process;
use crate::time::Time;

/// A connected socket, and what the loop has reported about it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    /// Whether there may be something to read: the loop reports readiness only when it changes.
    pub(super) is_readable: bool,
    /// Whether the loop has reported that the peer will not send more.
    is_ending: bool,
    /// Whether writing has failed. Data that the peer sent before it closed the connection may
    /// still have to be read.
    is_broken: bool,
}

/// The result of an attempt to move bytes.
#[derive(Debug)]
pub(super) enum Transfer {
    /// This many bytes were moved, at least one.
    Bytes(usize),
    /// Nothing was moved: there is nothing to move, no room for it, or a write has failed before.
    Nothing,
    /// Nothing was moved, and nothing can be until the loop reports readiness.
    WouldBlock,
    /// The peer has closed the connection, or the connection broke.
    Closed(Option<io::Error>),
}

impl Transfer {
    /// Returns whether there may be more to do without another report of the loop.
    fn is_progress(&self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Closed(_))
    }
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            is_readable: false,
            is_ending: false,
            is_broken: false,
        }
    }

    /// Records an event that the loop has reported.
    pub(super) fn record_event(&mut self, event: &Event) {
        let is_ending = event.is_read_closed() || event.is_error();
        self.is_ending |= is_ending;
        self.is_readable |= event.is_readable() || is_ending;
    }

    /// Writes once and reads once. Returns whether there may be more to do without another report
    /// of the loop.
    pub(super) fn pump(&mut self, end: &mut (impl Endpoint + ?Sized), now: Time) -> bool {
        let is_written = self.write_from(end, now).is_progress();
        self.read_into(end, usize::MAX, now).is_progress() || is_written
    }

    /// Writes pending output of the endpoint once.
    ///
    /// A failed write does not end the connection: reading returns the end, after all data that the
    /// peer has sent.
    #[inline] // Most calls are in the daemon's loop.
    pub(super) fn write_from(&mut self, end: &mut (impl Endpoint + ?Sized), now: Time) -> Transfer {
        let bytes = end.transmit();
        if bytes.is_empty() || self.is_broken {
            return Transfer::Nothing;
        }
        let moved = self.write(bytes);
        if let Transfer::Bytes(n) = moved {
            end.sent(n, now);
        }
        moved
    }

    /// Reads once, at most `most` bytes, and passes the data or the end of the connection to the
    /// endpoint.
    #[inline] // Most calls are in the daemon's loop.
    pub(super) fn read_into(
        &mut self,
        end: &mut (impl Endpoint + ?Sized),
        most: usize,
        now: Time,
    ) -> Transfer {
        if !self.is_readable {
            return Transfer::Nothing;
        }
        let room = end.recv_buf();
        let most = most.min(room.len());
        let moved = match most {
            // The endpoint accepts no input until its output is written, so on a broken connection
            // it never will.
            0 if !self.is_broken => Transfer::Nothing,
            0 => Transfer::Closed(None),
            _ => self.read(&mut room[..most]),
        };
        match moved {
            Transfer::Bytes(n) => end.received(n, now),
            Transfer::Closed(_) => end.eof(now),
            Transfer::Nothing | Transfer::WouldBlock => {}
        }
        moved
    }

    /// Reads once. `buffer` must not be empty.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Transfer {
        match self.stream.read(buffer) {
            Ok(0) => Transfer::Closed(None),
            Ok(n) => {
                // epoll(7): "the condition that the read/write I/O space is exhausted can also be
                // detected by checking the amount of data read from [...] the target file
                // descriptor." If the loop has reported the end, the end is still to be read. A
                // read also returns fewer bytes if the peer passes descriptors or sends urgent
                // data, which neither gRPC nor a client of the API does: bytes after these are read
                // when the peer sends more.
                let is_exhausted = n < buffer.len() && !self.is_ending && !self.is_broken;
                self.is_readable = !is_exhausted;
                Transfer::Bytes(n)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.read(buffer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                if self.is_broken {
                    Transfer::Closed(None)
                } else {
                    Transfer::WouldBlock
                }
            }
            Err(error) => Transfer::Closed(Some(error)),
        }
    }

    /// Writes once. `bytes` must not be empty.
    ///
    /// After a failed write, the connection is still read to its end, because the answer to an
    /// earlier write may be unread.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Transfer {
        match self.stream.write(bytes) {
            Ok(n) => Transfer::Bytes(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.write(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Transfer::WouldBlock,
            Err(error) => {
                self.is_broken = true;
                self.is_readable = true;
                Transfer::Closed(Some(error))
            }
        }
    }

    /// Writes the final bytes, if that is possible at once, and closes the connection.
    ///
    /// Data that the loop has reported is read first: if a Unix socket is closed with unread bytes,
    /// the peer receives an error instead of an end of file.
    pub(super) fn hang_up(mut self, final_bytes: &[u8]) {
        // More than the few small frames that are usually unread.
        let mut rest = [0; 256];
        for _ in 0..FINAL_READS {
            if !self.is_readable || !matches!(self.read(&mut rest), Transfer::Bytes(_)) {
                break;
            }
        }
        if !final_bytes.is_empty() {
            let _ = self.write(final_bytes);
        }
    }
}

/// Returns the peer process: the one that called `listen`, or `connect` for an accepted connection.
pub(super) fn peer_process(stream: &UnixStream) -> Option<Process> {
    let peer = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    let pid = match u32::try_from(peer.pid()) {
        Ok(pid) if pid > 0 => Some(pid),
        _ => None, // The process is in a PID namespace that is not visible here.
    };
    let uid = peer.uid();
    Some(Process { pid, uid })
}

/// The maximum number of reads while hanging up: 16 KiB in all, more than a well-behaved peer has
/// sent.
const FINAL_READS: usize = 64;

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream as StdStream};

    use super::*;
    use crate::grpc::{Client, Event, Incoming, Server};

    /// Returns both ends of a connection, ours first.
    fn pair() -> (Connection, StdStream) {
        let (ours, theirs) = StdStream::pair().unwrap();
        (connection(ours), theirs)
    }

    fn connection(stream: StdStream) -> Connection {
        stream.set_nonblocking(true).unwrap();
        Connection::new(UnixStream::from_std(stream))
    }

    #[test]
    fn a_call_between_two_pumped_ends_is_answered() {
        let now = Time::ZERO;
        let (mut ours, theirs) = pair();
        let mut theirs = connection(theirs);
        let mut client = Client::new(now);
        let mut server = Server::new(&["/a.B/C"], 1 << 20, now);
        // More than the buffer of a socket holds.
        let large = vec![7; 1 << 20];
        client.unary("/a.B/C", &large, 1 << 20, Time::from_millis(1), now);
        let mut result = None;
        while result.is_none() {
            let mut is_progress = ours.pump(&mut client, now);
            theirs.is_readable = true;
            is_progress |= theirs.pump(&mut server, now);
            ours.is_readable = true;
            while let Some(Incoming::Called { call, message, .. }) = server.poll_event(now) {
                server.reply(call, &message, now);
            }
            if let Some(Event::Finished { result: reply, .. }) = client.poll_event(now) {
                result = Some(reply);
            }
            assert!(is_progress || result.is_some(), "both ends wait");
        }
        assert_eq!(result, Some(Ok(large)));

        drop(ours);
        theirs.is_readable = true;
        while theirs.pump(&mut server, now) && !server.is_closed() {
            while server.poll_event(now).is_some() {}
        }
        assert!(server.is_closed());
    }

    #[test]
    fn a_connection_knows_its_peer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let peer = peer_process(&UnixStream::connect(&path).unwrap()).unwrap();
        assert_eq!(peer.pid, Some(std::process::id()));
    }

    #[test]
    fn data_that_a_peer_sent_before_it_closed_is_read() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(b"last words").unwrap();
        drop(theirs);
        assert!(matches!(ours.write(b"hello"), Transfer::Closed(Some(_))));
        assert!(ours.is_broken && ours.is_readable);
        let mut buffer = [0; 64];
        assert!(matches!(ours.read(&mut buffer), Transfer::Bytes(10)));
        assert!(matches!(ours.read(&mut buffer), Transfer::Closed(_)));
    }

    #[test]
    fn what_fits_is_written_and_the_rest_waits_for_the_peer_to_read() {
        let (mut ours, mut theirs) = pair();
        let octets: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
        let (mut rest, mut heard) = (&octets[..], Vec::new());
        let mut waits = 0;
        while heard.len() < octets.len() {
            if !rest.is_empty() {
                match ours.write(rest) {
                    Transfer::Bytes(n) => rest = &rest[n..],
                    Transfer::Nothing | Transfer::WouldBlock => waits += 1,
                    Transfer::Closed(error) => panic!("{error:?}"),
                }
            }
            let mut buffer = [0; 10_000];
            let n = theirs.read(&mut buffer).unwrap();
            heard.extend_from_slice(&buffer[..n]);
        }
        assert!(heard == octets && !ours.is_broken);
        assert!(waits > 0, "a megabyte does not fit");
    }

    #[test]
    fn a_connection_is_readable_until_a_read_exhausts_it() {
        let (mut ours, mut theirs) = pair();
        ours.is_readable = true;
        assert!(matches!(ours.read(&mut [0; 8]), Transfer::WouldBlock));
        assert!(!ours.is_readable);
        theirs.write_all(b"123456").unwrap();
        ours.is_readable = true;
        assert!(matches!(ours.read(&mut [0; 4]), Transfer::Bytes(4)));
        assert!(ours.is_readable, "the buffer was full: there may be more");
        assert!(matches!(ours.read(&mut [0; 4]), Transfer::Bytes(2)));
        assert!(!ours.is_readable);
    }

    #[test]
    fn an_end_that_came_with_the_last_bytes_is_read_after_them() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(b"last words").unwrap();
        drop(theirs);
        ours.is_readable = true;
        ours.is_ending = true;
        assert!(matches!(ours.read(&mut [0; 64]), Transfer::Bytes(10)));
        assert!(ours.is_readable);
        assert!(matches!(ours.read(&mut [0; 64]), Transfer::Closed(None)));
    }

    #[test]
    fn a_peer_receives_the_final_bytes_and_an_end_of_file() {
        for unread in [0, 10, 256, 2560] {
            let (mut ours, mut theirs) = pair();
            theirs.write_all(&vec![0; unread]).unwrap();
            ours.is_readable = true;
            ours.hang_up(b"bye");
            let mut heard = String::new();
            theirs.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "bye");
        }
    }
}
