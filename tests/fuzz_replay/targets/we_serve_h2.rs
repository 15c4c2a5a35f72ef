//! Our server with the `h2` crate as its client, in memory: what one side sends as a whole, the
//! other side receives as a whole.
//!
//! An input is the client's settings, how much moves through the pipe at a time, and exchanges: the
//! request and the answer of each. Both sides are polled until neither has anything to do.

use std::collections::BTreeMap;

use plugind::http2::{Connection, ConnectionError, Endpoint as _, Event, StreamId, Taken};
use plugind::time::Time;

use super::CONNECTION_BOUND;
use super::h2_client::{self, Client};
use super::input::Input;
use super::listener::Listener;
use super::pipe::Pipe;

/// Plays exchanges.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.pick(&PIPES);
    let builder = h2_client::builder(&mut input);
    let mut exchanges = Vec::new();
    for _ in 0..=input.below(MOST_EXCHANGES) {
        exchanges.push(Exchange {
            request: vec![input.octet(); input.pick(&SIZES)],
            reply: vec![input.octet(); input.pick(&SIZES)],
            is_early: input.below(4) == 1,
        });
    }
    let octets = exchanges.iter().map(|e| e.request.len() + e.reply.len());
    let pipe = Pipe::new(size.max(octets.sum::<usize>() / MOST_TURNS));
    let asked = exchanges.iter().enumerate();
    let asked = asked.map(|(number, exchange)| (format!("/{number}"), exchange.request.clone()));
    let mut client = Client::new(&builder, pipe.clone(), asked.collect());
    let mut server = Server::new(pipe.clone(), exchanges);
    let mut still = 0;
    while still < 2 {
        let before = pipe.moved();
        client.work();
        server.work();
        still = if pipe.moved() == before { still + 1 } else { 0 };
    }
    server.check(&client);
}

/// A request and its answer.
struct Exchange {
    request: Vec<u8>,
    reply: Vec<u8>,
    /// Whether the answer is sent before the request is complete.
    is_early: bool,
}

/// Our side.
struct Server {
    connection: Connection,
    pipe: Pipe,
    listener: Listener,
    exchanges: Vec<Exchange>,
    calls: BTreeMap<StreamId, Call>,
}

/// An exchange in progress.
struct Call {
    number: usize,
    request: Vec<u8>,
    is_whole: bool,
    answered: Answered,
}

/// The progress of an answer.
#[derive(Clone, Copy)]
enum Answered {
    Nothing,
    /// The headers, and this many octets.
    Content(usize),
    /// Everything but the trailers.
    AllContent,
    Everything,
}

impl Server {
    fn new(pipe: Pipe, exchanges: Vec<Exchange>) -> Self {
        Self {
            connection: Connection::server(Time::ZERO),
            pipe,
            listener: Listener::server(),
            exchanges,
            calls: BTreeMap::new(),
        }
    }

    /// Reads, handles events, answers, and writes.
    fn work(&mut self) {
        self.pipe.read_into(&mut self.connection);
        while self.poll() {}
        for (stream, call) in &mut self.calls {
            let exchange = &self.exchanges[call.number];
            if call.is_whole || exchange.is_early {
                call.answer(*stream, &exchange.reply, &mut self.connection);
            }
        }
        self.pipe
            .write_from(&mut self.connection, &mut self.listener);
        assert!(self.connection.mem_used() <= CONNECTION_BOUND);
    }

    /// Handles an event. Returns whether there was one.
    fn poll(&mut self) -> bool {
        let Some(event) = self.connection.poll_event(Time::ZERO) else {
            return false;
        };
        match event {
            Event::Request { stream, end_stream } => {
                let path = self.connection.fields().get(b":path").expect("a path");
                let path = std::str::from_utf8(path).expect("our path");
                let call = Call {
                    number: number(path),
                    request: Vec::new(),
                    is_whole: end_stream,
                    answered: Answered::Nothing,
                };
                self.calls.insert(stream, call);
            }
            Event::Data { stream, end_stream } => {
                let call = self.calls.get_mut(&stream).expect("a request");
                let content = self.connection.content();
                call.request.extend(content);
                call.is_whole = end_stream;
                let octets = content.len();
                self.connection.consume(stream, octets, Time::ZERO);
            }
            Event::Closed(ConnectionError::GoAwayReceived(_)) => {}
            Event::GoAway { .. } => {}
            event => panic!("unexpected event: {event:?}"),
        }
        true
    }

    /// Compares what each side received with what the other sent.
    fn check(&self, client: &Client) {
        assert_eq!(client.asked().len(), self.exchanges.len());
        for asked in client.asked() {
            let exchange = &self.exchanges[number(&asked.path)];
            assert!(asked.reply == exchange.reply, "a reply is whole");
            assert_eq!(asked.status(), Some("0"));
        }
        assert_eq!(self.calls.len(), self.exchanges.len());
        for call in self.calls.values() {
            let exchange = &self.exchanges[call.number];
            assert!(call.is_whole);
            assert!(call.request == exchange.request, "a request is whole");
        }
    }
}

/// Returns the number of the exchange with this path.
fn number(path: &str) -> usize {
    path[1..].parse().expect("a number")
}

impl Call {
    /// Sends what can be sent of the answer.
    fn answer(&mut self, stream: StreamId, reply: &[u8], connection: &mut Connection) {
        let now = Time::ZERO;
        if let Answered::Nothing = self.answered {
            let head: [(&str, &[u8]); 1] = [(":status", b"200")];
            if connection.send_headers(stream, &head, false, now).is_ok() {
                self.answered = Answered::Content(0);
            }
        }
        if let Answered::Content(sent) = self.answered {
            self.answered = match connection.send_data(stream, &reply[sent..], false, now) {
                Taken::All => Answered::AllContent,
                Taken::Some(octets) => Answered::Content(sent + octets),
            };
        }
        if let Answered::AllContent = self.answered {
            let end: [(&str, &[u8]); 1] = [("grpc-status", b"0")];
            if connection.send_headers(stream, &end, true, now).is_ok() {
                self.answered = Answered::Everything;
            }
        }
    }
}

/// How much moves through the pipe at a time (octets).
const PIPES: [usize; 6] = [100_000, 1, 7, 9, 100, 1000];

/// The approximate number of turns of the two sides, however little moves at a time.
const MOST_TURNS: usize = 30;

/// The lengths of requests and replies: around the limits of frames, windows and buffers (octets).
const SIZES: [usize; 8] = [0, 1, 100, 1000, 1, 100, 16_384, 70_000];

/// The most exchanges.
const MOST_EXCHANGES: usize = 3;
