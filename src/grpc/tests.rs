//! What gRPC asks of a client, from the server's side of the wire.

mod hostile;
mod limits;
mod retry;
mod server;
mod streaming;

use super::{Broken, CallError, CallId, Client, Code, Event, NotGrpc, Retry, Status};
use crate::http2::testing::{self as wire, ONE, THREE};
use crate::http2::{ConnectionError, ErrorCode, Malformed, Preamble, StreamError};
use crate::time::Time;

/// The path of the calls that are made here.
const PATH: &str = "/pluginregistration.Registration/GetInfo";

/// A client, and the server it talks to.
struct Server {
    client: Client,
    now: Time,
}

type Outcomes = Vec<(CallId, Result<Vec<u8>, CallError>)>;

impl Server {
    /// A server that has greeted the client.
    fn greeted(settings: &[(u16, u32)]) -> Self {
        let mut server = Self {
            client: Client::new(Time::ZERO),
            now: Time::ZERO,
        };
        assert!(server.say(&wire::settings(settings)).is_empty());
        server.hear();
        server
    }

    /// A server that has got one request, on stream 1.
    fn asked() -> (Self, CallId) {
        let mut server = Self::greeted(&[]);
        let call = server.ask(b"request");
        assert_eq!(server.hear(), ["HEADERS 1", "DATA 1 12 end"]);
        (server, call)
    }

    /// Lets the client make a call with a reply of at most 100 octets, within a second.
    fn ask(&mut self, message: &[u8]) -> CallId {
        let deadline = self.now + std::time::Duration::from_secs(1);
        self.client.unary(PATH, message, 100, deadline, self.now)
    }

    /// Says something; answers what becomes of the calls.
    fn say(&mut self, mut octets: &[u8]) -> Outcomes {
        let mut outcomes = Vec::new();
        loop {
            octets = &octets[self.feed(octets)..];
            outcomes.extend(self.outcomes());
            if octets.is_empty() || self.client.recv_buf().is_empty() {
                return outcomes;
            }
        }
    }

    /// Says as much as the client has room for; answers how much that is.
    fn feed(&mut self, octets: &[u8]) -> usize {
        let room = self.client.recv_buf();
        let n = room.len().min(octets.len());
        room[..n].copy_from_slice(&octets[..n]);
        self.client.received(n, self.now);
        n
    }

    fn hear(&mut self) -> Vec<String> {
        let octets = self.client.transmit().to_vec();
        self.client.sent(octets.len(), self.now);
        wire::heard(&octets)
    }

    fn wait(&mut self, millis: u64) -> Outcomes {
        self.now += std::time::Duration::from_millis(millis);
        self.client.handle_timeout(self.now);
        self.outcomes()
    }

    fn outcomes(&mut self) -> Outcomes {
        let mut outcomes = Vec::new();
        while let Some(Event::Finished { call, result }) = self.client.poll_event(self.now) {
            outcomes.push((call, result));
        }
        outcomes
    }
}

/// A message with its prefix.
fn message(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short");
    [&[0][..], &length.to_be_bytes(), content].concat()
}

fn reply(content: &[u8]) -> Vec<u8> {
    wire::data(ONE, &message(content), false)
}

fn trailers(fields: &[(&str, &str)]) -> Vec<u8> {
    wire::headers(ONE, fields, true)
}

/// What becomes of a call that is answered like this.
fn outcome(answer: &[Vec<u8>]) -> Result<Vec<u8>, CallError> {
    let (mut server, call) = Server::asked();
    let mut outcomes = server.say(&answer.concat());
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    let (ended, result) = outcomes.remove(0);
    assert_eq!(ended, call);
    result
}

fn code(answer: &[Vec<u8>]) -> Code {
    outcome(answer).expect_err("it is no success").code()
}

fn status(code: Code, message: &str) -> CallError {
    CallError::Status(Status::new(code, message))
}

#[test]
fn a_request_pleases_every_server() {
    let mut client = Client::new(Time::ZERO);
    let deadline = Time::from_millis(1000);
    client.unary(PATH, b"", 100, deadline, Time::ZERO);
    let octets = client.transmit();
    assert_eq!(
        wire::heard(octets),
        ["preface", "SETTINGS of 2", "HEADERS 1", "DATA 1 5 end"]
    );
    let block = &octets[24 + 9 + 12 + 9..octets.len() - 9 - 5];
    let mut fields = Vec::new();
    crate::hpack::Decoder::new(4096)
        .decode(block, &mut |name, value| {
            let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).expect("ASCII");
            fields.push((text(name), text(value)));
        })
        .expect("it decodes");
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
    assert_eq!(
        fields,
        [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", PATH),
            (":authority", "localhost"),
            ("grpc-timeout", "1000000u"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", concat!("plugind/", env!("CARGO_PKG_VERSION"))),
        ]
    );
}

#[test]
fn a_reply_is_the_message_between_headers_and_trailers() {
    let answer = [
        wire::ok(ONE),
        reply(b"info"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(outcome(&answer), Ok(b"info".to_vec()));
    let empty = [wire::ok(ONE), reply(b""), trailers(&[("grpc-status", "0")])];
    assert_eq!(outcome(&empty), Ok(vec![]));
}

#[test]
fn a_reply_is_the_same_wherever_it_is_cut() {
    let answer = [
        wire::settings(&[]),
        wire::ok(ONE),
        reply(b"a reply"),
        trailers(&[("grpc-status", "0")]),
    ]
    .concat();
    for cut in 0..=answer.len() {
        let (mut server, call) = Server::asked();
        let mut outcomes = server.say(&answer[..cut]);
        outcomes.extend(server.say(&answer[cut..]));
        assert_eq!(outcomes, [(call, Ok(b"a reply".to_vec()))], "cut at {cut}");
    }
}

#[test]
fn a_message_may_come_in_any_number_of_frames() {
    let mut answer = vec![wire::ok(ONE)];
    answer.extend(
        message(b"octets")
            .chunks(1)
            .map(|octet| wire::data(ONE, octet, false)),
    );
    answer.push(trailers(&[("grpc-status", "0")]));
    assert_eq!(outcome(&answer), Ok(b"octets".to_vec()));
}

#[test]
fn content_types_of_grpc_are_accepted_and_others_are_not() {
    let answer = |content_type: &str| {
        let fields = [(":status", "200"), ("content-type", content_type)];
        let head = wire::headers(ONE, &fields, false);
        outcome(&[head, reply(b""), trailers(&[("grpc-status", "0")])])
    };
    for fine in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc;charset=utf-8",
    ] {
        assert_eq!(answer(fine), Ok(vec![]), "{fine}");
    }
    for other in [
        "",
        "text/html",
        "application/grpcx",
        "application/grp",
        "Application/gRPC",
    ] {
        let error = CallError::NotGrpc(NotGrpc::ContentType(other.into()));
        assert_eq!(error.code(), Code::Unknown);
        assert_eq!(answer(other), Err(error));
    }
}

#[test]
fn an_http_status_without_a_grpc_status_has_a_code() {
    let table = [
        ("400", Code::Internal),
        ("401", Code::Unauthenticated),
        ("403", Code::PermissionDenied),
        ("404", Code::Unimplemented),
        ("429", Code::Unavailable),
        ("502", Code::Unavailable),
        ("503", Code::Unavailable),
        ("504", Code::Unavailable),
        ("415", Code::Unknown),
        ("431", Code::Unknown),
        ("500", Code::Unknown),
        ("204", Code::Unknown),
    ];
    for (status, expected) in table {
        for end_stream in [false, true] {
            let head = wire::headers(ONE, &[(":status", status)], end_stream);
            assert_eq!(code(&[head]), expected, "{status}");
        }
    }
}

#[test]
fn an_answer_may_be_trailers_only() {
    let fields = [
        (":status", "200"),
        ("content-type", "application/grpc"),
        ("grpc-status", "12"),
        ("grpc-message", "unknown%20method"),
    ];
    let error = status(Code::Unimplemented, "unknown method");
    assert_eq!(outcome(&[wire::headers(ONE, &fields, true)]), Err(error));
    let ok = [(":status", "200"), ("grpc-status", "0")];
    let no_message = CallError::Broken(Broken::NoMessage);
    assert_eq!(outcome(&[wire::headers(ONE, &ok, true)]), Err(no_message));
    let unavailable = [(":status", "503"), ("grpc-status", "8")];
    let answer = [wire::headers(ONE, &unavailable, true)];
    assert_eq!(code(&answer), Code::ResourceExhausted);
}

#[test]
fn a_status_in_headers_that_are_not_the_last_does_not_count() {
    let fields = [
        (":status", "200"),
        ("content-type", "application/grpc"),
        ("grpc-status", "13"),
    ];
    let head = wire::headers(ONE, &fields, false);
    let answer = [head, reply(b"fine"), trailers(&[("grpc-status", "0")])];
    assert_eq!(outcome(&answer), Ok(b"fine".to_vec()));
}

#[test]
fn an_answer_without_a_status_is_never_ok() {
    let no_status = Err(CallError::Broken(Broken::NoStatus));
    let no_trailers = wire::data(ONE, &message(b"x"), true);
    assert_eq!(outcome(&[wire::ok(ONE), no_trailers]), no_status);
    let other_trailers = trailers(&[("a", "b")]);
    assert_eq!(
        outcome(&[wire::ok(ONE), reply(b"x"), other_trailers]),
        no_status
    );
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    assert_eq!(outcome(&[wire::headers(ONE, &fields, true)]), no_status);
    assert_eq!(CallError::Broken(Broken::NoStatus).code(), Code::Unknown);
}

#[test]
fn a_status_is_read_from_its_digits() {
    let table: [(&[&str], Code); 9] = [
        (&["5"], Code::NotFound),
        (&["16"], Code::Unauthenticated),
        (&["17"], Code::Unknown),
        (&["-1"], Code::Unknown),
        (&["5x"], Code::Unknown),
        (&[""], Code::Unknown),
        (&["99999999999999999999999"], Code::Unknown),
        (&["5", "5"], Code::NotFound),
        (&["0", "5"], Code::Unknown),
    ];
    for (values, expected) in table {
        let fields: Vec<_> = values.iter().map(|value| ("grpc-status", *value)).collect();
        let answer = [wire::ok(ONE), reply(b""), trailers(&fields)];
        assert_eq!(code(&answer), expected, "{values:?}");
    }
}

#[test]
fn a_message_is_decoded_and_never_fails() {
    let long = "x".repeat(5000);
    let table = [
        ("plain text", "plain text"),
        ("50%25 of %E2%82%AC", "50% of \u{20ac}"),
        ("%zz 100% %4", "%zz 100% %4"),
        ("%ff%FE", "\u{fffd}\u{fffd}"),
        ("%0d%0a%1b[2J", "\r\n\u{1b}[2J"),
        (&long, &long[..1024]),
        ("", ""),
    ];
    for (encoded, expected) in table {
        let end = trailers(&[("grpc-status", "2"), ("grpc-message", encoded)]);
        let result = outcome(&[wire::ok(ONE), end]);
        assert_eq!(result, Err(status(Code::Unknown, expected)), "{encoded}");
    }
}

#[test]
fn details_are_decoded_padded_or_not_split_on_commas_and_dropped_when_they_are_no_base64() {
    let most = "QUJD".repeat(1023 / 3) + "QQ";
    let beyond = "QUJD".repeat(1023 / 3) + "QUI";
    let table: [(&[&str], &[u8]); 10] = [
        (&[], b""),
        (&["Zm9vYg=="], b"foob"),
        (&["Zm9vYg"], b"foob"),
        (&["Zm9vYg,Zm9v"], b"foob"),
        (&["?,Zm9v"], b"foo"),
        (&["Zm9vY", "Zm9v"], b"foo"),
        (&["no base64"], b""),
        (&[""], b""),
        (&[&most], &[&b"ABC".repeat(341)[..], b"A"].concat()),
        (&[&beyond], b""),
    ];
    for (values, expected) in table {
        let details = values.iter().map(|it| ("grpc-status-details-bin", *it));
        let fields = [("grpc-status", "9")].into_iter().chain(details);
        let end = trailers(&fields.collect::<Vec<_>>());
        let Err(CallError::Status(status)) = outcome(&[wire::ok(ONE), end]) else {
            panic!("the server says no");
        };
        assert_eq!(status.code, Code::FailedPrecondition);
        assert_eq!(status.details, expected, "{values:?}");
    }
}

#[test]
fn what_a_server_says_is_escaped_when_it_is_shown() {
    let error = status(Code::Internal, "\u{1b}[2Jdone\n");
    assert_eq!(
        error.to_string(),
        "the peer answered INTERNAL: \\u{1b}[2Jdone\\n"
    );
}

#[test]
fn a_successful_unary_call_has_exactly_one_message() {
    let end = trailers(&[("grpc-status", "0")]);
    let none = [wire::ok(ONE), end.clone()];
    assert_eq!(outcome(&none), Err(CallError::Broken(Broken::NoMessage)));
    let two = [wire::ok(ONE), reply(b"a"), reply(b"b")];
    assert_eq!(outcome(&two), Err(CallError::Broken(Broken::SecondMessage)));
    assert_eq!(CallError::Broken(Broken::NoMessage).code(), Code::Internal);
}

#[test]
fn an_error_status_counts_whatever_came_before() {
    let half = wire::data(ONE, b"\0\0\0\0\x09half", false);
    let answer = [wire::ok(ONE), half, trailers(&[("grpc-status", "10")])];
    assert_eq!(code(&answer), Code::Aborted);
}

#[test]
fn an_answer_that_ends_inside_a_message_is_broken() {
    let cut = Err(CallError::Broken(Broken::CutMessage));
    for half in [&b"\0\0"[..], b"\0\0\0\0\x09half"] {
        let ends = [wire::ok(ONE), wire::data(ONE, half, true)];
        assert_eq!(outcome(&ends), cut);
        let half = wire::data(ONE, half, false);
        let answer = [wire::ok(ONE), half, trailers(&[("grpc-status", "0")])];
        assert_eq!(outcome(&answer), cut);
    }
    assert_eq!(CallError::Broken(Broken::CutMessage).code(), Code::Internal);
}

#[test]
fn a_message_above_the_limit_is_refused_on_its_prefix() {
    let (mut server, _) = Server::asked();
    let prefix = wire::data(ONE, b"\0\0\0\0\x65", false);
    let outcomes = server.say(&[wire::ok(ONE), prefix].concat());
    let too_large = CallError::TooLarge {
        announced: 101,
        limit: 100,
    };
    assert_eq!(too_large.code(), Code::ResourceExhausted);
    assert_eq!(outcomes[0].1, Err(too_large));
    assert_eq!(server.hear(), ["RST_STREAM 1 CANCEL"]);
}

#[test]
fn a_compressed_message_is_broken() {
    let compressed = wire::data(ONE, b"\x01\0\0\0\0", false);
    assert_eq!(code(&[wire::ok(ONE), compressed]), Code::Internal);
}

#[test]
fn a_deadline_resets_the_stream() {
    let (mut server, call) = Server::asked();
    assert_eq!(server.client.poll_timeout(), Some(Time::from_millis(1000)));
    assert!(server.wait(999).is_empty());
    assert_eq!(server.wait(1), [(call, Err(CallError::DeadlineExceeded))]);
    assert_eq!(server.hear(), ["RST_STREAM 1 CANCEL"]);
    assert_eq!(server.client.poll_timeout(), None);
    let late = [
        wire::ok(ONE),
        reply(b"late"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert!(server.say(&late.concat()).is_empty());
}

#[test]
fn a_deadline_holds_regardless_of_progress() {
    let (mut server, call) = Server::asked();
    server.say(&wire::ok(ONE));
    for octet in message(&[7; 90]).chunks(1) {
        if let [(ended, result)] = &server.wait(20)[..] {
            assert_eq!((*ended, result), (call, &Err(CallError::DeadlineExceeded)));
            return;
        }
        server.say(&wire::data(ONE, octet, false));
    }
    panic!("the call has ended at its deadline");
}

#[test]
fn a_call_whose_deadline_has_passed_is_not_made() {
    let mut server = Server::greeted(&[]);
    let call = server.client.unary(PATH, b"", 100, server.now, server.now);
    assert_eq!(
        server.outcomes(),
        [(call, Err(CallError::DeadlineExceeded))]
    );
    assert!(server.hear().is_empty());
}

#[test]
fn a_reset_has_a_code() {
    let table = [
        (0, Code::Internal),
        (1, Code::Internal),
        (2, Code::Internal),
        (3, Code::Internal),
        (4, Code::Internal),
        (6, Code::Internal),
        (7, Code::Unavailable),
        (8, Code::Cancelled),
        (9, Code::Internal),
        (11, Code::ResourceExhausted),
        (12, Code::PermissionDenied),
        (0xffff, Code::Internal),
    ];
    for (number, expected) in table {
        let answer = [wire::ok(ONE), wire::reset(ONE, number)];
        assert_eq!(code(&answer), expected, "{number}");
    }
    let answer = [wire::ok(ONE), reply(b"x"), wire::reset(ONE, 0)];
    assert_eq!(
        code(&answer),
        Code::Internal,
        "before trailers it is no noise"
    );
}

#[test]
fn a_reset_after_the_trailers_does_not_void_the_reply() {
    let answer = [
        wire::ok(ONE),
        reply(b"fine"),
        trailers(&[("grpc-status", "0")]),
        wire::reset(ONE, 0),
        wire::reset(ONE, 8),
    ];
    assert_eq!(outcome(&answer), Ok(b"fine".to_vec()));
}

#[test]
fn a_server_that_breaks_the_stream_is_told_apart_from_one_that_says_no() {
    let error = CallError::Stream(StreamError::Malformed(Malformed::Status));
    assert_eq!(error.code(), Code::Internal);
    assert_eq!(outcome(&[wire::headers(ONE, &[], false)]), Err(error));
    let early = wire::headers(ONE, &[(":status", "103")], false);
    assert_eq!(code(&vec![early; 9]), Code::Internal);
}

#[test]
fn trailers_before_the_request_is_sent_end_it_without_an_error() {
    let mut server = Server::greeted(&[(4, 10)]);
    let call = server.ask(&[7; 100]);
    assert_eq!(server.hear(), ["HEADERS 1", "DATA 1 10"]);
    let end = [(":status", "200"), ("grpc-status", "7")];
    let outcomes = server.say(&wire::headers(ONE, &end, true));
    assert_eq!(outcomes, [(call, Err(status(Code::PermissionDenied, "")))]);
    assert_eq!(server.hear(), ["RST_STREAM 1 NO_ERROR"]);
    assert!(server.say(&wire::window_update(ONE, 100)).is_empty());
    assert!(server.hear().is_empty());
}

#[test]
fn a_large_request_goes_out_as_the_server_reads_it() {
    let mut server = Server::greeted(&[]);
    let call = server.ask(&vec![7; 200_000]);
    let mut sent = 0;
    loop {
        let heard = server.hear();
        let Some(last) = heard.last() else {
            break;
        };
        for line in heard.iter().filter(|line| line.starts_with("DATA")) {
            sent += line
                .split(' ')
                .nth(2)
                .map_or(0, |octets| octets.parse().expect("a number"));
        }
        if last.ends_with("end") {
            break;
        }
        server.say(&wire::window_update(0, 20_000));
        server.say(&wire::window_update(ONE, 20_000));
    }
    assert_eq!(sent, 200_005);
    let answer = [
        wire::ok(ONE),
        reply(b"x"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(server.say(&answer.concat()), [(call, Ok(b"x".to_vec()))]);
}

#[test]
fn a_reply_above_the_window_does_not_deadlock() {
    let mut server = Server::greeted(&[]);
    let deadline = Time::from_millis(1000);
    let call = server
        .client
        .unary(PATH, b"", 1_000_000, deadline, server.now);
    server.hear();
    server.say(&wire::ok(ONE));
    let (mut stream, mut connection) = (65_535_usize, 65_535_usize);
    let content = vec![7; 500_000];
    for piece in message(&content).chunks(16_384) {
        assert!(
            stream >= piece.len() && connection >= piece.len(),
            "credit has come"
        );
        stream -= piece.len();
        connection -= piece.len();
        server.say(&wire::data(ONE, piece, false));
        for line in server.hear() {
            let words: Vec<&str> = line.split(' ').collect();
            let increment: usize = words[2].parse().expect("a number");
            match words[1] {
                "0" => connection += increment,
                _ => stream += increment,
            }
        }
    }
    let outcomes = server.say(&trailers(&[("grpc-status", "0")]));
    assert_eq!(outcomes, [(call, Ok(content))]);
    assert!(server.client.mem_used() < 64 * 1024);
}

#[test]
fn a_request_goes_on_when_the_server_changes_the_initial_window() {
    let mut server = Server::greeted(&[(4, 0)]);
    server.ask(b"x");
    assert_eq!(server.hear(), ["HEADERS 1"]);
    server.say(&wire::settings(&[(4, 100)]));
    assert_eq!(server.hear(), ["SETTINGS ack", "DATA 1 6 end"]);
}

#[test]
fn a_call_in_every_state_meets_every_end() {
    type End = fn(&mut Server, CallId);
    let ends: [(End, Code); 6] = [
        (
            |server, _| {
                server.now += std::time::Duration::from_secs(1);
                server.client.handle_timeout(server.now);
            },
            Code::DeadlineExceeded,
        ),
        (
            |server, call| server.client.cancel(call, server.now),
            Code::Cancelled,
        ),
        (|server, _| server.client.close(server.now), Code::Cancelled),
        (|server, _| server.client.eof(server.now), Code::Unavailable),
        (
            |server, _| _ = server.feed(&wire::goaway(0, 0, b"")),
            Code::Unavailable,
        ),
        (
            |server, _| _ = server.feed(&wire::data(THREE, b"x", false)),
            Code::Unavailable,
        ),
    ];
    for (end, expected) in ends {
        let mut waiting = Server::greeted(&[(3, 0)]);
        let call = waiting.ask(b"");
        let (mut awaiting_head, _) = Server::asked();
        let (mut awaiting_reply, _) = Server::asked();
        awaiting_reply.say(&wire::ok(ONE));
        for server in [&mut waiting, &mut awaiting_head, &mut awaiting_reply] {
            end(server, call);
            let outcomes = server.outcomes();
            let [(ended, Err(error))] = &outcomes[..] else {
                panic!("one call has failed: {outcomes:?}");
            };
            assert_eq!((*ended, error.code()), (call, expected));
            assert!(server.wait(100_000).is_empty(), "a call ends once");
        }
    }
}

#[test]
fn calls_wait_for_a_stream_under_their_deadlines() {
    let mut server = Server::greeted(&[(3, 1)]);
    let first = server.ask(b"");
    let second = server.ask(b"");
    assert_eq!(server.hear(), ["HEADERS 1", "DATA 1 5 end"]);
    let end = wire::headers(ONE, &[(":status", "200"), ("grpc-status", "5")], true);
    assert_eq!(server.say(&end), [(first, Err(status(Code::NotFound, "")))]);
    assert_eq!(server.hear(), ["HEADERS 3", "DATA 3 5 end"]);

    let third = server.ask(b"");
    let ended = server.wait(1000);
    let exceeded = || Err(CallError::DeadlineExceeded);
    assert_eq!(ended, [(second, exceeded()), (third, exceeded())]);
    assert_eq!(server.hear(), ["RST_STREAM 3 CANCEL"]);
}

#[test]
fn calls_are_told_apart_and_may_end_in_any_order() {
    let mut server = Server::greeted(&[]);
    let (first, second) = (server.ask(b""), server.ask(b""));
    let answer = |stream| {
        let end = [(":status", "200"), ("grpc-status", "5")];
        wire::headers(stream, &end, true)
    };
    let not_found = || Err(status(Code::NotFound, ""));
    assert_eq!(server.say(&answer(THREE)), [(second, not_found())]);
    assert_eq!(server.say(&answer(ONE)), [(first, not_found())]);
    assert_ne!(server.ask(b""), first);
}

#[test]
fn a_cancelled_call_resets_its_stream() {
    let (mut server, call) = Server::asked();
    server.client.cancel(call, server.now);
    server.client.cancel(call, server.now);
    assert_eq!(server.outcomes(), [(call, Err(CallError::Cancelled))]);
    assert_eq!(server.hear(), ["RST_STREAM 1 CANCEL"]);
}

#[test]
fn a_call_runs_on_through_a_graceful_goaway() {
    let (mut server, call) = Server::asked();
    assert!(!server.client.is_closed());
    assert!(server.say(&wire::goaway(0x7fff_ffff, 0, b"")).is_empty());
    assert!(server.client.is_closed());
    assert!(server.say(&wire::goaway(ONE, 0, b"")).is_empty());
    let answer = [
        wire::ok(ONE),
        reply(b"x"),
        trailers(&[("grpc-status", "0")]),
    ];
    assert_eq!(server.say(&answer.concat()), [(call, Ok(b"x".to_vec()))]);

    let late = server.ask(b"");
    let outcomes = server.outcomes();
    assert_eq!(outcomes[0].0, late);
    let error = outcomes[0].1.as_ref().expect_err("no call can be made");
    assert_eq!(
        (error.code(), error.retry()),
        (Code::Unavailable, Retry::Freely)
    );
}

#[test]
fn calls_end_with_their_connection() {
    let mut server = Server::greeted(&[]);
    let written = server.ask(b"");
    server.hear();
    let queued = server.ask(b"");
    server.client.eof(server.now);
    let error = ConnectionError::Eof {
        inside_frame: false,
    };
    let lost = |written| CallError::Connection {
        error: error.clone(),
        written,
    };
    let outcomes = server.outcomes();
    assert_eq!(
        outcomes,
        [(written, Err(lost(true))), (queued, Err(lost(false)))]
    );
    assert_eq!(lost(true).code(), Code::Unavailable);
    assert_eq!(
        (lost(true).retry(), lost(false).retry()),
        (Retry::Not, Retry::Freely)
    );
    assert!(server.client.is_closed());
    assert!(server.client.transmit().is_empty());
    assert_eq!(server.client.poll_timeout(), None);
}

#[test]
fn a_peer_that_speaks_no_http2_is_told_in_the_calls_error() {
    let mut client = Client::new(Time::ZERO);
    client.unary(PATH, b"", 100, Time::from_millis(1000), Time::ZERO);
    let mut server = Server {
        client,
        now: Time::ZERO,
    };
    let outcomes = server.say(b"HTTP/1.0 501 Unsupported method\r\n\r\n");
    let error = ConnectionError::NotHttp2(Preamble::Http1(Some(501)));
    let lost = CallError::Connection {
        error,
        written: false,
    };
    assert_eq!(outcomes[0].1, Err(lost));
}

#[test]
fn a_violation_ends_all_calls_and_says_goodbye() {
    let (mut server, _) = Server::asked();
    let outcomes = server.say(&wire::data(THREE, b"x", false));
    let error = outcomes[0].1.as_ref().expect_err("the connection is lost");
    assert_eq!(
        error.to_string(),
        "the peer broke HTTP/2 (PROTOCOL_ERROR): DATA on stream 3, which is not open"
    );
    assert_eq!(server.hear(), ["GOAWAY 0 PROTOCOL_ERROR"]);
}

#[test]
fn closing_cancels_all_calls_and_says_goodbye() {
    let (mut server, call) = Server::asked();
    server.client.close(server.now);
    assert_eq!(server.outcomes(), [(call, Err(CallError::Cancelled))]);
    assert!(server.client.is_closed());
    assert_eq!(server.hear(), ["RST_STREAM 1 CANCEL", "GOAWAY 0 NO_ERROR"]);
}

#[test]
fn a_refusal_to_go_on_is_no_answer() {
    let error = outcome(&[wire::reset(ONE, 11)]).expect_err("it is reset");
    assert_eq!(error, CallError::Reset(ErrorCode::ENHANCE_YOUR_CALM));
    assert!(!error.may_retry());
}
