//! The end of a gRPC answer: for any fields, the status is the one that gRPC defines.
//!
//! An input is fields, and whether there is content before them; the expected status is derived a
//! second time.

use plugind::grpc::{CallError, Code, ProtocolError, Status};
use plugind::http2::{Malformed, StreamError};

use super::input::Input;
use super::{answer, wire};

/// Plays an answer that ends with these fields.
pub fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let has_content = input.coin();
    let mut fields = Vec::new();
    while !input.is_empty() && fields.len() < MOST_FIELDS {
        fields.push((input.pick(&NAMES), input.short()));
    }
    let mut answer = Vec::new();
    if has_content {
        answer.extend(wire::headers(1, &wire::ANSWER, 0));
        answer.extend(wire::frame(wire::DATA, 0, 1, b"\0\0\0\0\x02hi"));
        answer.extend(wire::headers(1, &fields, wire::END_STREAM));
    } else {
        let fields = [&wire::ANSWER[..], &fields].concat();
        answer.extend(wire::headers(1, &fields, wire::END_STREAM));
    }
    let outcome = answer::outcome(MOST_FIELDS, &answer, &[]);
    assert_eq!(outcome, expected(&fields, has_content));
    if let Err(error) = outcome {
        let shown = error.to_string();
        assert!(shown.chars().all(|c| !c.is_control()), "{shown:?}");
    }
}

/// Returns the expected outcome of an answer with this end.
fn expected(fields: &[(&[u8], &[u8])], has_content: bool) -> Result<Vec<u8>, CallError> {
    let is_malformed = |(_, value): &(&[u8], &[u8])| value.iter().any(|o| b"\0\r\n".contains(o));
    if fields.iter().any(is_malformed) {
        let error = StreamError::Malformed(Malformed::FieldValue);
        return Err(CallError::Stream(error));
    }
    let values = |wanted: &[u8]| -> Vec<&[u8]> {
        let wanted = fields.iter().filter(|(name, _)| *name == wanted);
        wanted.map(|(_, value)| *value).collect()
    };
    let statuses = values(b"grpc-status");
    let code = match &statuses[..] {
        [] => return Err(CallError::Protocol(ProtocolError::NoStatus)),
        [first, others @ ..] if others.iter().all(|other| other == first) => code(first),
        _ => Code::Unknown,
    };
    if code != Code::Ok {
        let message = values(b"grpc-message")
            .first()
            .map_or_else(String::new, |m| text(m));
        let details = values(b"grpc-status-details-bin");
        let details = details
            .iter()
            .flat_map(|list| list.split(|&octet| octet == b','));
        let mut details = details.filter_map(binary);
        let details = details.find(|details| (1..=KEPT).contains(&details.len()));
        return Err(CallError::Status(Status {
            details: details.unwrap_or_default(),
            ..Status::new(code, message)
        }));
    }
    if has_content {
        Ok(b"hi".to_vec())
    } else {
        Err(CallError::Protocol(ProtocolError::NoMessage))
    }
}

/// Returns the code of a value.
fn code(value: &[u8]) -> Code {
    let digits = std::str::from_utf8(value).ok();
    let digits = digits.filter(|it| it.bytes().all(|octet| octet.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse::<usize>().ok());
    let code = number.and_then(|number| CODES.get(number));
    code.copied().unwrap_or(Code::Unknown)
}

/// Returns the text of a percent-encoded message, up to the limit.
fn text(encoded: &[u8]) -> String {
    let mut pieces = encoded.split(|&octet| octet == b'%');
    let mut octets = pieces.next().unwrap_or_default().to_vec();
    for piece in pieces {
        if let Some(octet) = hexadecimal(piece) {
            octets.push(octet);
            octets.extend(&piece[2..]);
        } else {
            octets.push(b'%');
            octets.extend(piece);
        }
    }
    octets.truncate(KEPT);
    String::from_utf8_lossy(&octets).into_owned()
}

/// Decodes a value in base64, bit by bit.
fn binary(value: &[u8]) -> Option<Vec<u8>> {
    let value = std::str::from_utf8(value).ok()?;
    let digits = value.trim_end_matches('=');
    let fits = match value.len() - digits.len() {
        0 => digits.len() % 4 != 1,
        padding => padding < 3 && value.len() % 4 == 0,
    };
    let bits = |digit| Some(format!("{:06b}", BASE64.find(digit)?));
    let bits: String = digits.chars().map(bits).collect::<Option<_>>()?;
    let octet = |bits| u8::from_str_radix(std::str::from_utf8(bits).ok()?, 2).ok();
    let octets = bits.as_bytes().chunks_exact(8).map(octet);
    octets.collect::<Option<_>>().filter(|_| fits)
}

/// Decodes the first two hexadecimal digits.
fn hexadecimal(piece: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(piece.get(..2)?).ok()?;
    let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The names of fields, the important ones more often.
const NAMES: [&[u8]; 6] = [
    b"grpc-status",
    b"grpc-message",
    b"grpc-status",
    b"grpc-message",
    b"grpc-status-details-bin",
    b"date",
];

/// The codes by their numbers.
const CODES: [Code; 17] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

/// The most fields at the end of an answer: within the limit on a header list.
const MOST_FIELDS: usize = 20;

/// The digits of base64.
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The limit on the kept part of a message, and of details (octets).
const KEPT: usize = 1024;
