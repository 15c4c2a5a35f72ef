//! The headers of a gRPC request, as the client sends them, the encoding of `grpc-timeout` among
//! them, and the checks of received headers.

use std::time::Duration;

use super::error::NotGrpc;
use crate::http2::{Encoded, Encoder, Fields};

/// Writes the headers of a call of the method at `path`, with `timeout` if the time is limited, in
/// the form that all gRPC servers accept.
///
/// grpc-js and tonic refuse an `:authority` that is empty or a path; C-core and grpc-js refuse a
/// request without `:authority`. C-core refuses a `:scheme` of `unix`.
pub(super) fn write_request(path: &[u8], timeout: Option<Duration>, block: &mut Encoder<'_>) {
    block.push_encoded(&PSEUDO_HEADERS).field(":path", path);
    if let Some(timeout) = timeout {
        block.field("grpc-timeout", Timeout::at_least(timeout).as_bytes());
    }
    block.push_encoded(&REGULAR);
}

/// Checks that the headers of a response are those of gRPC.
pub(super) fn check_response(status: u16, fields: &Fields) -> Result<(), NotGrpc> {
    if status != 200 {
        return Err(NotGrpc::HttpStatus(status));
    }
    let content_type = fields.get(b"content-type").unwrap_or_default();
    if is_grpc(content_type) {
        return Ok(());
    }
    let kept = content_type.len().min(KEPT_CONTENT_TYPE);
    Err(NotGrpc::ContentType(content_type[..kept].to_vec()))
}

/// Returns whether a content type is gRPC: "application/grpc" alone, with a "+" and the encoding of
/// the messages, or with parameters.
pub(super) fn is_grpc(content_type: &[u8]) -> bool {
    matches!(
        content_type.strip_prefix(CONTENT_TYPE),
        Some([] | [b'+' | b';', ..])
    )
}

/// A value of `grpc-timeout`: the time that the server has for a call, as encoded on the wire.
///
/// gRPC: "Timeout → "grpc-timeout" TimeoutValue TimeoutUnit; TimeoutValue → {positive integer as
/// ASCII string of at most 8 digits}". grpc-go resets the stream of a call with nine digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Timeout {
    /// The digits, right-aligned, followed by the unit.
    octets: [u8; DIGITS + 1],
    /// The offset at which the digits begin.
    begin: usize,
}

impl Timeout {
    /// Returns the least value that is not shorter than `duration`, in the finest unit in which it
    /// fits, so that the server does not give up before the client. The value is never 0, because
    /// gRPC requires a positive integer.
    fn at_least(duration: Duration) -> Self {
        let largest = 99_999_999; // Eight digits.
        let (mut value, mut letter) = (largest, b'H');
        for (unit, its_letter) in UNITS {
            // A duration of 2^64 nanoseconds or more (584 years) becomes the largest value.
            match u64::try_from(duration.as_nanos().max(1)) {
                Ok(nanos) if nanos.div_ceil(unit) <= largest => {
                    (value, letter) = (nanos.div_ceil(unit), its_letter);
                    break;
                }
                _ => {}
            }
        }
        let mut octets = [letter; DIGITS + 1];
        let mut begin = DIGITS;
        while value > 0 && begin > 0 {
            begin -= 1;
            octets[begin] = DECIMAL[(value % 10) as usize];
            value /= 10;
        }
        Self { octets, begin }
    }

    /// Returns the encoded value.
    fn as_bytes(&self) -> &[u8] {
        &self.octets[self.begin..]
    }
}

/// Parses a value of `grpc-timeout`; returns `None` if it is invalid.
pub(super) fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (&unit, digits) = value.split_last()?;
    if !(1..=DIGITS).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let &(nanos, _) = UNITS.iter().find(|&&(_, letter)| letter == unit)?;
    let number = digits
        .iter()
        .fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(Duration::from_nanos(nanos.saturating_mul(number)))
}

/// The content type of gRPC requests and responses.
pub(super) const CONTENT_TYPE: &[u8] = b"application/grpc";

/// The fields before `:path` in a request.
static PSEUDO_HEADERS: Encoded = Encoded::new(&[
    (":method", b"POST"),
    (":scheme", b"http"),
    (":authority", b"localhost"),
]);

/// The fields after `grpc-timeout`.
static REGULAR: Encoded = Encoded::new(&[
    ("te", b"trailers"),
    ("content-type", CONTENT_TYPE),
    ("user-agent", USER_AGENT.as_bytes()),
]);

/// The name and version of this client.
const USER_AGENT: &str = concat!("plugind/", env!("CARGO_PKG_VERSION"));

/// The maximum number of octets that are kept of a content type that is not gRPC.
const KEPT_CONTENT_TYPE: usize = 64;

/// The largest number of digits in a value of `grpc-timeout`.
const DIGITS: usize = 8;

/// The decimal digits.
const DECIMAL: &[u8; 10] = b"0123456789";

/// The units of `grpc-timeout`, finest first: the number of nanoseconds in each, and its letter.
const UNITS: [(u64, u8); 6] = [
    (1, b'n'),
    (1_000, b'u'),
    (1_000_000, b'm'),
    (1_000_000_000, b'S'),
    (60_000_000_000, b'M'),
    (3_600_000_000_000, b'H'),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(duration: Duration) -> String {
        String::from_utf8(Timeout::at_least(duration).as_bytes().to_vec()).expect("ASCII")
    }

    #[test]
    fn valid_timeouts_are_parsed_and_others_rejected() {
        let table = [
            ("1n", Some(Duration::from_nanos(1))),
            ("20u", Some(Duration::from_micros(20))),
            ("100m", Some(Duration::from_millis(100))),
            ("0S", Some(Duration::ZERO)),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999H", Some(Duration::from_nanos(u64::MAX))),
            ("123456789n", None),
            ("", None),
            ("5", None),
            ("S", None),
            ("5s", None),
            ("-5S", None),
            ("5 S", None),
        ];
        for (value, expected) in table {
            assert_eq!(parse_timeout(value.as_bytes()), expected, "{value:?}");
        }
    }

    #[test]
    fn a_timeout_has_at_most_eight_digits_and_is_rounded_up() {
        let table = [
            (Duration::ZERO, "1n"),
            (Duration::from_nanos(1), "1n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_nanos(100_000_001), "100001u"),
            (Duration::from_secs(1), "1000000u"),
            (Duration::from_secs(5), "5000000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(120), "120000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(100_000_000), "1666667M"),
            (Duration::from_secs(60 * 100_000_000), "1666667H"),
            (Duration::MAX, "99999999H"),
        ];
        for (duration, expected) in table {
            assert_eq!(encoded(duration), expected, "{duration:?}");
        }
    }
}
