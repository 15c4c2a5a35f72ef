//! A gRPC call over any stream of octets: the code around a client and a server that use neither
//! sockets nor clocks.
//!
//! `cargo run --example call` makes the call twice: over two queues in memory, and over a pair of
//! unix sockets. Only the stream differs.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use plugind::grpc::{CallError, Client, Event, Incoming, Server};
use plugind::http2::Endpoint;
use plugind::time::Time;

fn main() -> Result<(), Box<dyn Error>> {
    let (ours, theirs) = InMemory::pair();
    println!("in memory: {}", ask(ours, theirs, "memory")?);

    let (ours, theirs) = UnixStream::pair()?;
    for stream in [&ours, &theirs] {
        stream.set_read_timeout(Some(LONGEST_WAIT))?;
    }
    println!("over a socket: {}", ask(ours, theirs, "socket")?);
    Ok(())
}

/// Serves one end of a stream in a thread, and makes a call at the other end.
fn ask<S: Read + Write + Send + 'static>(
    ours: S,
    theirs: S,
    name: &str,
) -> Result<String, Box<dyn Error>> {
    let serving = thread::spawn(move || serve(theirs));
    let reply = call(ours, name.as_bytes())?;
    serving.join().expect("the server does not panic");
    Ok(String::from_utf8(reply)?)
}

/// Makes one call, as the client, and returns its reply.
fn call(mut stream: impl Read + Write, message: &[u8]) -> Result<Vec<u8>, CallError> {
    let start = Instant::now();
    let now = || Time::after_origin(start.elapsed());
    let mut client = Client::new(now());
    client.unary(GREET, message, LARGEST, now() + PATIENCE, now());
    loop {
        client.handle_timeout(now());
        if let Some(event) = client.poll_event(now()) {
            match event {
                Event::Finished { result, .. } => return result,
                // These are for calls with many replies.
                Event::Message { .. } | Event::Closed { .. } => {}
            }
        } else {
            exchange(&mut client, &mut stream, now);
        }
    }
}

/// Answers calls, as the server, until the client has disconnected.
fn serve(mut stream: impl Read + Write) {
    let start = Instant::now();
    let now = || Time::after_origin(start.elapsed());
    let mut server = Server::new(&[GREET], LARGEST, now());
    loop {
        server.handle_timeout(now());
        if let Some(incoming) = server.poll_event(now()) {
            match incoming {
                Incoming::Called { call, message, .. } => {
                    server.reply(call, &[b"hello, ", &*message].concat(), now());
                }
                // The answer was given at once, so there is nothing to stop.
                Incoming::Ended { .. } => {}
                Incoming::Closed(_) => return,
            }
        } else {
            exchange(&mut server, &mut stream, now);
        }
    }
}

/// Writes pending octets, or else reads: the same for both ends.
fn exchange(end: &mut impl Endpoint, stream: &mut (impl Read + Write), now: impl Fn() -> Time) {
    if end.transmit().is_empty() {
        match stream.read(end.recv_buf()) {
            Ok(octets @ 1..) => end.received(octets, now()),
            Err(error) if is_no_end(&error) => {}
            Ok(0) | Err(_) => end.eof(now()),
        }
    } else {
        match stream.write(end.transmit()) {
            Ok(octets) => end.sent(octets, now()),
            Err(error) if is_no_end(&error) => {}
            Err(_) => end.eof(now()),
        }
    }
}

/// Returns whether the stream is still usable after the error: only its timeout has expired.
fn is_no_end(error: &io::Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// One end of a stream in memory: two queues of pieces.
struct InMemory {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    /// The piece that is being read.
    piece: Vec<u8>,
}

impl InMemory {
    fn pair() -> (Self, Self) {
        let (to, from) = (channel(), channel());
        let end = |to, from| Self {
            to,
            from,
            piece: Vec::new(),
        };
        (end(to.0, from.1), end(from.0, to.1))
    }
}

impl Read for InMemory {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            self.piece = match self.from.recv_timeout(LONGEST_WAIT) {
                Ok(piece) => piece,
                Err(RecvTimeoutError::Timeout) => return Err(ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            };
        }
        let octets = self.piece.as_slice().read(room)?;
        self.piece.drain(..octets);
        Ok(octets)
    }
}

impl Write for InMemory {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let sent = self.to.send(octets.to_vec());
        sent.map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The method that is called.
const GREET: &str = "/hello.Greeter/Greet";

/// The maximum length of a message (octets).
const LARGEST: usize = 1024;

/// The time that the client waits for its reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest read before deadlines are checked: the most by which one can be late.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
