//! What a server says about a call: a code, a message for humans, and details for programs.
//!
//! Pure. Reads `grpc-status` and what stands beside it, and maps what is no gRPC answer (an HTTP
//! status, a reset stream) to the code that the gRPC specification gives it. Reading never fails:
//! whatever a peer sends becomes some status, and never `Ok` by accident.

use std::fmt;

use super::binary;
use crate::config;
use crate::escape;
use crate::http2::{ErrorCode, Fields};

/// How a call ended, in gRPC's seventeen codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // Their meaning is gRPC's, and a sentence each would only repeat the name.
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// Every code with its name on the wire's other side, in the order of their numbers.
const CODES: [(Code, &str); 17] = [
    (Code::Ok, "OK"),
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

impl Code {
    /// The code of a `grpc-status` value: decimal digits, nothing else.
    ///
    /// What cannot be read, and what is above 16, is `Unknown`.
    pub fn parse(value: &[u8]) -> Self {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let number = value.iter().fold(0_usize, |number, digit| {
            number
                .saturating_mul(10)
                .saturating_add(usize::from(digit.wrapping_sub(b'0')))
        });
        match CODES.get(number) {
            Some(&(code, _)) if digits => code,
            _ => Self::Unknown,
        }
    }

    /// Reads the code from the last fields of an answer; `None` when there is no `grpc-status`.
    pub(super) fn from_fields(fields: &Fields) -> Option<Self> {
        let mut values = fields.all(b"grpc-status");
        let first = values.next()?;
        // Two values that differ say nothing.
        Some(if values.all(|other| other == first) {
            Self::parse(first)
        } else {
            Self::Unknown
        })
    }

    /// The code for an answer that has an HTTP status and no `grpc-status`.
    ///
    /// The table of gRPC's "HTTP to gRPC Status Code Mapping".
    pub fn from_http_status(status: u16) -> Self {
        match status {
            400 => Self::Internal,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::Unimplemented,
            429 | 502 | 503 | 504 => Self::Unavailable,
            _ => Self::Unknown,
        }
    }

    /// The code for a stream that the peer reset.
    ///
    /// The table of gRPC's "HTTP2 Transport Mapping", section "Errors".
    pub fn from_reset(code: ErrorCode) -> Self {
        match code {
            ErrorCode::REFUSED_STREAM => Self::Unavailable,
            ErrorCode::CANCEL => Self::Cancelled,
            ErrorCode::ENHANCE_YOUR_CALM => Self::ResourceExhausted,
            ErrorCode::INADEQUATE_SECURITY => Self::PermissionDenied,
            _ => Self::Internal,
        }
    }

    /// The number as `grpc-status` carries it.
    pub(super) fn number(self) -> String {
        (self as u8).to_string()
    }

    /// The name as gRPC writes it: `DEADLINE_EXCEEDED`.
    pub fn name(self) -> &'static str {
        CODES[self as usize].1
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the server said at the end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// How the call ended.
    pub code: Code,
    /// Why, in the server's words: decoded, cut at a bound, not yet escaped (`Display` does that).
    pub message: String,
    /// Why, for programs: a `google.rpc.Status` as octets, or nothing where there is none, where it
    /// is no base64, and where it is too large to be kept.
    pub details: Vec<u8>,
}

impl Status {
    /// Success.
    pub fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    /// A status with a message, which is cut at a bound when it is sent.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// The message as `grpc-message` carries it.
    ///
    /// "Percent-Encoded → 1*(Percent-Byte-Unencoded / Percent-Byte-Encoded);
    /// Percent-Byte-Unencoded → 1*( %x20-%x24 / %x26-%x7E )".
    pub(super) fn encode_message(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        for &octet in self
            .message
            .as_bytes()
            .iter()
            .take(config::MAX_STATUS_MESSAGE)
        {
            if matches!(octet, b' '..=b'~') && octet != b'%' {
                encoded.push(octet);
            } else {
                encoded.extend([
                    b'%',
                    HEX[usize::from(octet >> 4)],
                    HEX[usize::from(octet & 15)],
                ]);
            }
        }
        encoded
    }

    /// The details as `grpc-status-details-bin` carries them; nothing when there are none, or more
    /// than anybody would keep.
    pub(super) fn encode_details(&self) -> Vec<u8> {
        if self.details.len() > config::MAX_STATUS_DETAILS {
            return Vec::new();
        }
        binary::encode(&self.details)
    }

    /// Reads the status from the last fields of an answer; `None` when there is no `grpc-status`.
    pub fn from_fields(fields: &Fields) -> Option<Self> {
        let code = Code::from_fields(fields)?;
        let message = fields.get(b"grpc-message").map(decode_message);
        let mut details = binary::values(fields, DETAILS.as_bytes());
        Some(Self {
            code,
            message: message.unwrap_or_default(),
            details: details
                .find(|details| (1..=config::MAX_STATUS_DETAILS).contains(&details.len()))
                .unwrap_or_default(),
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "{}", self.code)
        } else {
            write!(f, "{}: {}", self.code, escape::text(&self.message))
        }
    }
}

/// Undoes the percent-encoding of a `grpc-message`.
///
/// "When decoding invalid values, implementations MUST NOT error or throw away the message": a `%`
/// that no two hexadecimal digits follow stays as it is, and what is no UTF-8 afterwards is
/// replaced.
fn decode_message(encoded: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(encoded.len().min(config::MAX_STATUS_MESSAGE));
    let mut rest = encoded;
    while let [first, tail @ ..] = rest {
        if bytes.len() == config::MAX_STATUS_MESSAGE {
            break;
        }
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if is_hex(*high) && is_hex(*low) => {
                bytes.push((hex(*high) << 4) | hex(*low));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the octet is a hexadecimal digit.
fn is_hex(octet: u8) -> bool {
    octet.is_ascii_hexdigit()
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// The hexadecimal digits.
const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// The field with a status' details.
pub(super) const DETAILS: &str = "grpc-status-details-bin";
