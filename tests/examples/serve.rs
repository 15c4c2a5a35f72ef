//! An HTTP/2 server that answers every request: for test suites that check a server against RFC
//! 9113.
//!
//! ```text
//! cargo run --example serve -- HOST:PORT
//! ```
//!
//! It prints the address on which it listens, uses HTTP/2 from the first octet on, without TLS, and
//! runs until it is killed: each connection has a thread, and each complete request is answered
//! with the status 200 and a line of text.

mod line;

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use plugind::http2::{Connection, Endpoint as _, ErrorCode, Event, HeadersError, StreamId, Taken};
use plugind::time::Time;

use self::line::Line;

fn main() -> io::Result<()> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(address)?;
    println!("{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(error) = serve(stream) {
                eprintln!("serve: {error}");
            }
        });
    }
    Ok(())
}

/// Serves one connection.
fn serve(stream: TcpStream) -> io::Result<()> {
    let mut line = Line::new(stream, Instant::now())?;
    let mut connection = Connection::server(line.now());
    let mut answers = Vec::new();
    while !connection.is_ended() || !connection.transmit().is_empty() {
        let now = line.now();
        connection.handle_timeout(now);
        while poll_event(&mut connection, &mut answers, now) {}
        answers.retain_mut(|answer: &mut Answer| !answer.send(&mut connection, now));
        line.turn(&mut connection, now + LONGEST_WAIT)?;
    }
    line.hang_up();
    Ok(())
}

/// Handles one event; a complete request becomes a pending answer. Returns whether there was one.
fn poll_event(connection: &mut Connection, answers: &mut Vec<Answer>, now: Time) -> bool {
    let Some(event) = connection.poll_event(now) else {
        return false;
    };
    let (stream, is_complete) = match event {
        Event::Request { stream, end_stream } => (stream, end_stream),
        Event::Data { stream, end_stream } => {
            let octets = connection.content().len();
            connection.consume(stream, octets, now);
            (stream, end_stream)
        }
        Event::Trailers { stream } => (stream, true),
        _ => return true,
    };
    if is_complete {
        answers.push(Answer {
            stream,
            has_begun: false,
            content: CONTENT,
        });
    }
    true
}

/// A pending answer.
struct Answer {
    stream: StreamId,
    /// Whether its headers are sent.
    has_begun: bool,
    /// The part of its content that is not sent yet.
    content: &'static [u8],
}

impl Answer {
    /// Sends what can be sent now. Returns whether the answer is complete.
    fn send(&mut self, connection: &mut Connection, now: Time) -> bool {
        if !self.has_begun {
            let head: [(&str, &[u8]); 2] = [(":status", b"200"), ("content-type", b"text/plain")];
            match connection.send_headers(self.stream, &head, false, now) {
                Ok(()) => self.has_begun = true,
                Err(HeadersError::Later) => return false,
                Err(HeadersError::TooLarge) => {
                    connection.reset(self.stream, ErrorCode::INTERNAL_ERROR, now);
                    return true;
                }
            }
        }
        match connection.send_data(self.stream, self.content, true, now) {
            Taken::All => true,
            Taken::Some(octets) => {
                self.content = &self.content[octets..];
                false
            }
        }
    }
}

/// The content of every answer.
const CONTENT: &[u8] = b"It works.\n";

/// The longest wait of a thread for a client: it may be long, because the connection's deadlines
/// end it.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
