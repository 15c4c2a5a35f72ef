//! One HTTP/2 request: for test suites that check a client against RFC 9113.
//!
//! ```text
//! cargo run --example request -- TIMEOUT STAY TARGET
//! ```
//!
//! The answer may take TIMEOUT seconds, and the connection is kept for STAY seconds behind it.
//! TARGET is `HOST:PORT`, with or without `http://` in front and a path behind. HTTP/2 starts with
//! the first octet, without TLS. Each event is a line of the output; the exit status is 0 if the
//! whole answer was received.

mod line;

use std::error::Error;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use std::{env, process};

use plugind::http2::{Connection, Endpoint as _, ErrorCode, Event};
use plugind::time::Time;

use self::line::{GOAWAY_GRACE, Line};

fn main() {
    match ask() {
        Ok(true) => {}
        Ok(false) => process::exit(1),
        Err(error) => {
            eprintln!("request: {error}");
            process::exit(2);
        }
    }
}

/// Makes the request. Returns whether the whole answer was received.
fn ask() -> Result<bool, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: request TIMEOUT STAY TARGET");
    let timeout = Duration::from_secs(next()?.parse()?);
    let stay = Duration::from_secs(next()?.parse()?);
    let target = next()?;
    let target = target.strip_prefix("http://").unwrap_or(&target);
    let (address, path) = target.split_once('/').unwrap_or((target, ""));

    let start = Instant::now();
    let mut line = Line::new(TcpStream::connect(address)?, start)?;
    let mut connection = Connection::client(line.now());
    let path = format!("/{path}");
    let fields: [(&str, &[u8]); 4] = [
        (":method", b"GET"),
        (":scheme", b"http"),
        (":path", path.as_bytes()),
        (":authority", address.as_bytes()),
    ];
    let stream = connection.open(&fields, true, line.now())?;
    let (mut until, mut is_leaving, mut is_answered) = (Time::ZERO + timeout, false, false);
    loop {
        let now = line.now();
        connection.handle_timeout(now);
        while let Some(event) = connection.poll_event(now) {
            println!("{event:?}");
            let end = match event {
                Event::Response { end_stream, .. } => end_stream,
                Event::Data { stream, end_stream } => {
                    let octets = connection.content().len();
                    connection.consume(stream, octets, now);
                    end_stream
                }
                event => matches!(event, Event::Trailers { .. }),
            };
            if end {
                is_answered = true;
                until = now + stay;
            }
        }
        if connection.is_ended() && connection.transmit().is_empty() {
            break;
        }
        if now >= until {
            if is_leaving {
                break;
            }
            connection.reset(stream, ErrorCode::CANCEL, now);
            connection.shutdown(now);
            is_leaving = true;
            until = now + GOAWAY_GRACE;
        }
        line.turn(&mut connection, until)?;
    }
    line.hang_up();
    Ok(is_answered)
}
