//! A client of the API that sends anything gets responses that are valid HTTP/1.1, in order, and
//! the same ones however its octets are split.
//!
//! The responses are read with `httparse` and the dechunker below, and compared with what the
//! caller of the connection responded. An input is the number of repetitions, whether the client
//! reads only when it cannot write, the sizes of its pieces, and what it sends.

use plugind::api::{Call, Connection, ContentType, Method, Response, Status, route};
use plugind::config::API_OUTPUT;
use plugind::time::Time;

use super::input::Input;

/// Plays the octets in pieces of the size of a read, and in smaller ones.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let times = 1 + input.below(16);
    let reads_late = input.coin();
    let pieces = input.short();
    let octets = input.rest().repeat(times);
    let whole = Play::run(&[], &octets, false);
    let cut = Play::run(pieces, &octets, reads_late);
    assert_eq!(whole, cut, "the responses");
}

/// A connection, what its caller responds and what its client reads.
struct Play {
    connection: Connection,
    /// The responses of the caller.
    wanted: Vec<Wanted>,
    /// The number of items that the body in progress still needs.
    items: Option<usize>,
    read: Vec<u8>,
}

/// A response of the caller.
#[derive(Debug)]
struct Wanted {
    is_head: bool,
    status: u16,
    body: Vec<u8>,
}

/// A response as the client reads it.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    is_last: bool,
}

impl Play {
    /// Returns the responses to these octets in these pieces, or in pieces of [`READ`] octets.
    fn run(pieces: &[u8], octets: &[u8], reads_late: bool) -> Vec<Answer> {
        let mut play = Self {
            connection: Connection::new(Time::ZERO),
            wanted: Vec::new(),
            items: None,
            read: Vec::new(),
        };
        let mut sizes = pieces.iter().map(|size| 1 + usize::from(*size)).cycle();
        let mut size = || sizes.next().unwrap_or(READ);
        let mut rest = octets;
        while !rest.is_empty() && !play.connection.is_finished() {
            if play.connection.wants_input() {
                let (piece, behind) = rest.split_at(rest.len().min(size()));
                rest = behind;
                play.connection.receive(piece, Time::ZERO);
            }
            while play.serve() {}
            if !reads_late || !play.connection.wants_input() {
                play.read(READ_RATIO * size());
            }
        }
        play.connection.eof();
        while play.serve() || play.read(READ_RATIO * size()) {}
        assert!(
            play.connection.is_finished(),
            "the connection ends with its input"
        );
        play.answers()
    }

    /// Makes one step of a response. Returns whether there was anything to do.
    fn serve(&mut self) -> bool {
        let connection = &mut self.connection;
        if let Some(items) = &mut self.items {
            let room = connection.room();
            let render = &mut |out: &mut Vec<u8>| {
                let end = out.len() + room;
                while *items > 0 && out.len() < end {
                    out.extend_from_slice(ITEM);
                    *items -= 1;
                }
            };
            connection.send_body(render, Time::ZERO);
            if *items == 0 {
                connection.finish_body(Time::ZERO);
                self.items = None;
            }
            self.check_bounds();
            return room > 0;
        }
        let Some(request) = connection.poll_request(Time::ZERO) else {
            self.check_bounds();
            return false;
        };
        let is_head = request.method == Method::Head;
        let (status, body) = match respond(route(&request)) {
            Ok(items) => {
                if connection.begin_body(ContentType::Json, Time::ZERO) {
                    self.items = Some(items);
                }
                (200, ITEM.repeat(items))
            }
            Err(response) => {
                connection.respond(&response, Time::ZERO);
                (code(response.status), response.body)
            }
        };
        self.wanted.push(Wanted {
            is_head,
            status,
            body,
        });
        self.check_bounds();
        true
    }

    fn check_bounds(&self) {
        let (pending, memory) = (self.connection.pending().len(), self.connection.mem_used());
        assert!(pending <= API_OUTPUT + OVERSHOOT, "{pending} octets wait");
        assert!(memory <= 64 * 1024, "{memory} octets are held");
    }

    /// Reads at most this many octets. Returns whether there were any.
    fn read(&mut self, octets: usize) -> bool {
        let pending = self.connection.pending();
        let octets = pending.len().min(octets);
        self.read.extend_from_slice(&pending[..octets]);
        self.connection.sent(octets, Time::ZERO);
        octets > 0
    }

    /// Parses what was read: the responses of the caller, and at most one that refuses the rest.
    fn answers(&self) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::new();
        let mut rest = &self.read[..];
        let mut wanted = self.wanted.iter();
        while !rest.is_empty() {
            assert!(
                answers.iter().all(|answer| !answer.is_last),
                "a response follows the last"
            );
            let (answer, behind) = match wanted.next() {
                Some(wanted) => {
                    let (answer, behind) = parse(rest, wanted.is_head);
                    let body = if wanted.is_head {
                        &[][..]
                    } else {
                        &wanted.body
                    };
                    assert_eq!((answer.status, &*answer.body), (wanted.status, body));
                    (answer, behind)
                }
                None => parse_refusal(rest),
            };
            answers.push(answer);
            rest = behind;
        }
        assert!(wanted.next().is_none(), "a response was not written");
        answers
    }
}

/// Returns the number of items in the body for a call, or a response that is known at once.
fn respond(call: Result<Call, Response>) -> Result<usize, Response> {
    let text = |text: &str| Response::new(Status::Ok, ContentType::Text, text.into());
    match call? {
        Call::Plugins { state, .. } => Ok(if state.is_some() { 1 } else { 100 }),
        Call::Devices { name } => Ok(if name.is_some() { 2 } else { 100 }),
        Call::Watch { since } => Ok(since.map_or(3, |since| since.min(30) as usize)),
        Call::Metrics | Call::Events { .. } => Ok(0),
        Call::Change(_) => Err(Response::error(Status::Forbidden, "not you")),
        Call::Ready => Err(text(&"r".repeat(1000))),
        Call::Live => Err(text("")),
        Call::Status => Err(text("ok")),
    }
}

/// Parses the response at the beginning of these octets. Returns it with what follows.
fn parse(octets: &[u8], is_head: bool) -> (Answer, &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; 8];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(octets) {
        Ok(httparse::Status::Complete(length)) => length,
        other => panic!("{other:?}: {:?}", String::from_utf8_lossy(octets)),
    };
    let field = |name: &str| {
        let mut fields = head.headers.iter().filter(|field| field.name == name);
        let value = fields.next().map(|field| field.value);
        assert_eq!(fields.next(), None, "{name}");
        value
    };
    assert!(head.version == Some(1) && field("Content-Type").is_some());
    let status = head.code.expect("the head is complete");
    assert_eq!(field("Allow").is_some(), status == 405);
    let chunked = field("Transfer-Encoding");
    assert!(matches!(chunked, None | Some(b"chunked")));
    let body_length: Option<usize> = field("Content-Length")
        .map(|value| std::str::from_utf8(value).expect("ASCII"))
        .map(|value| value.parse().expect("a number"));
    assert!(chunked.is_none() || body_length.is_none());
    let is_last = match field("Connection") {
        Some(b"close") => true,
        Some(b"keep-alive") => false,
        other => panic!("Connection: {other:?}"),
    };
    let rest = &octets[length..];
    let (body, rest) = if is_head {
        (Vec::new(), rest)
    } else if chunked.is_some() {
        dechunk(rest)
    } else if let Some(length) = body_length {
        (rest[..length].to_vec(), &rest[length..])
    } else {
        assert!(is_last, "the length of the body is not known");
        (rest.to_vec(), &[][..])
    };
    let answer = Answer {
        status,
        body,
        is_last,
    };
    (answer, rest)
}

/// Parses the response to octets that are not a request: nothing follows it, and it has a body
/// unless they began like a request for a head.
fn parse_refusal(octets: &[u8]) -> (Answer, &[u8]) {
    let is_head = octets.ends_with(b"\r\n\r\n");
    let (answer, rest) = parse(octets, is_head);
    assert!(matches!(answer.status, 400 | 413 | 431 | 505), "{answer:?}");
    assert!(answer.is_last && rest.is_empty());
    assert!(
        is_head || answer.body.starts_with(b"{\"error\":\"") && answer.body.ends_with(b"\"}\n")
    );
    (answer, rest)
}

/// Reads a chunked body. Returns it with what follows.
fn dechunk(mut octets: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        let end = octets
            .iter()
            .position(|octet| *octet == b'\r')
            .expect("the size ends");
        let size = std::str::from_utf8(&octets[..end]).expect("ASCII");
        let size = usize::from_str_radix(size, 16).expect("hexadecimal digits");
        octets = octets[end..].strip_prefix(b"\r\n").expect("a line end");
        let (data, behind) = octets.split_at(size);
        body.extend_from_slice(data);
        octets = behind.strip_prefix(b"\r\n").expect("the end of a chunk");
        if size == 0 {
            return (body, octets);
        }
    }
}

/// Returns the number of a status.
fn code(status: Status) -> u16 {
    match status {
        Status::Ok => 200,
        Status::BadRequest => 400,
        Status::Forbidden => 403,
        Status::NotFound => 404,
        Status::MethodNotAllowed => 405,
        other => panic!("{other:?} is not a response to a valid request"),
    }
}

/// One item of a body that is sent in parts: a hundred of them are twice the output of a client.
const ITEM: &[u8] = &[b'i'; 333];

/// The octets of one read.
const READ: usize = 4096;

/// How many times as much the client reads at once as it writes. Responses are longer than
/// requests: reading them octet by octet would take most of the time.
const READ_RATIO: usize = 16;

/// The most output above the limit: a response is begun if there is room for one octet.
const OVERSHOOT: usize = 2 * 1024;
