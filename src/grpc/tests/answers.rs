//! Responses that are gRPC or not, and the result of a call that receives them.

use super::{PATH, Server, code, message, outcome, reply, status, trailers};
use crate::grpc::{CallError, Code, NotGrpc, ProtocolError};
use crate::http2::testing::{self as wire, Endpoint as _, ONE};
use crate::time::Time;

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
        let (mut server, call) = Server::with_call();
        let mut outcomes = server.send(&answer[..cut]);
        outcomes.extend(server.send(&answer[cut..]));
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
    let no_message = CallError::Protocol(ProtocolError::NoMessage);
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
    let no_status = Err(CallError::Protocol(ProtocolError::NoStatus));
    let no_trailers = wire::data(ONE, &message(b"x"), true);
    assert_eq!(outcome(&[wire::ok(ONE), no_trailers]), no_status);
    let other_trailers = trailers(&[("a", "b")]);
    assert_eq!(
        outcome(&[wire::ok(ONE), reply(b"x"), other_trailers]),
        no_status
    );
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    assert_eq!(outcome(&[wire::headers(ONE, &fields, true)]), no_status);
    assert_eq!(
        CallError::Protocol(ProtocolError::NoStatus).code(),
        Code::Unknown
    );
}

#[test]
fn a_status_is_read_from_its_digits() {
    let table: [(&[&str], Code); 10] = [
        (&["5"], Code::NotFound),
        (&["16"], Code::Unauthenticated),
        (&["17"], Code::Unknown),
        (&["0005"], Code::NotFound),
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
fn any_grpc_message_is_decoded() {
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
fn details_are_split_on_commas_and_decoded() {
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
            panic!("the status is an error");
        };
        assert_eq!(status.code, Code::FailedPrecondition);
        assert_eq!(status.details, expected, "{values:?}");
    }
}

#[test]
fn the_message_of_a_status_is_escaped_when_displayed() {
    let error = status(Code::Internal, "\u{1b}[2Jdone\n");
    assert_eq!(
        error.to_string(),
        "the peer returned INTERNAL: \\u{1b}[2Jdone\\n"
    );
}

#[test]
fn a_successful_unary_call_has_exactly_one_message() {
    let end = trailers(&[("grpc-status", "0")]);
    let none = [wire::ok(ONE), end.clone()];
    assert_eq!(
        outcome(&none),
        Err(CallError::Protocol(ProtocolError::NoMessage))
    );
    let two = [wire::ok(ONE), reply(b"a"), reply(b"b")];
    assert_eq!(
        outcome(&two),
        Err(CallError::Protocol(ProtocolError::SecondMessage))
    );
    assert_eq!(
        CallError::Protocol(ProtocolError::NoMessage).code(),
        Code::Internal
    );
}

#[test]
fn an_error_status_counts_whatever_came_before() {
    let half = wire::data(ONE, b"\0\0\0\0\x09half", false);
    let answer = [wire::ok(ONE), half, trailers(&[("grpc-status", "10")])];
    assert_eq!(code(&answer), Code::Aborted);
}

#[test]
fn a_response_that_ends_inside_a_message_is_an_error() {
    let cut = Err(CallError::Protocol(ProtocolError::CutMessage));
    for half in [&b"\0\0"[..], b"\0\0\0\0\x09half"] {
        let ends = [wire::ok(ONE), wire::data(ONE, half, true)];
        assert_eq!(outcome(&ends), cut);
        let half = wire::data(ONE, half, false);
        let answer = [wire::ok(ONE), half, trailers(&[("grpc-status", "0")])];
        assert_eq!(outcome(&answer), cut);
    }
    assert_eq!(
        CallError::Protocol(ProtocolError::CutMessage).code(),
        Code::Internal
    );
}

#[test]
fn a_message_above_the_limit_is_refused_on_its_prefix() {
    let (mut server, _) = Server::with_call();
    let prefix = wire::data(ONE, b"\0\0\0\0\x65", false);
    let outcomes = server.send(&[wire::ok(ONE), prefix].concat());
    let too_large = CallError::TooLarge {
        announced: 101,
        limit: 100,
    };
    assert_eq!(too_large.code(), Code::ResourceExhausted);
    assert_eq!(outcomes[0].1, Err(too_large));
    assert_eq!(server.receive(), ["RST_STREAM 1 CANCEL"]);
}

#[test]
fn a_compressed_message_is_an_error() {
    let compressed = wire::data(ONE, b"\x01\0\0\0\0", false);
    assert_eq!(code(&[wire::ok(ONE), compressed]), Code::Internal);
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
fn trailers_before_the_whole_request_reset_without_an_error() {
    let mut server = Server::connected(&[(4, 10)]);
    let call = server.start_call(&[7; 100]);
    assert_eq!(server.receive(), ["HEADERS 1", "DATA 1 10"]);
    let end = [(":status", "200"), ("grpc-status", "7")];
    let outcomes = server.send(&wire::headers(ONE, &end, true));
    assert_eq!(outcomes, [(call, Err(status(Code::PermissionDenied, "")))]);
    assert_eq!(server.receive(), ["RST_STREAM 1 NO_ERROR"]);
    assert!(server.send(&wire::window_update(ONE, 100)).is_empty());
    assert!(server.receive().is_empty());
}

#[test]
fn a_reply_above_the_window_does_not_deadlock() {
    let mut server = Server::connected(&[]);
    let deadline = Time::from_millis(1000);
    let call = server
        .client
        .unary(PATH, b"", 1_000_000, deadline, server.now);
    server.receive();
    server.send(&wire::ok(ONE));
    let (mut stream, mut connection) = (65_535_usize, 65_535_usize);
    let content = vec![7; 500_000];
    for piece in message(&content).chunks(16_384) {
        assert!(
            stream >= piece.len() && connection >= piece.len(),
            "the windows were updated"
        );
        stream -= piece.len();
        connection -= piece.len();
        server.send(&wire::data(ONE, piece, false));
        for line in server.receive() {
            let words: Vec<&str> = line.split(' ').collect();
            let increment: usize = words[2].parse().expect("a number");
            if words[1] == "0" {
                connection += increment;
            } else {
                stream += increment;
            }
        }
    }
    let outcomes = server.send(&trailers(&[("grpc-status", "0")]));
    assert_eq!(outcomes, [(call, Ok(content))]);
    assert!(server.client.mem_used() < 64 * 1024);
}
