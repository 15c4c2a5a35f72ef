//! The status of a call: a code, a message for humans, and details for programs.
//!
//! The module parses `grpc-status` and the related fields, and maps responses that are not gRPC (an
//! HTTP status, a reset stream) to the code that the gRPC specification assigns. Parsing never
//! fails: an invalid code becomes `Unknown`, never `Ok`.

use std::fmt;

use super::binary;
use crate::config;
use crate::escape;
use crate::http2::{ErrorCode, Fields};

/// The result of a call as one of the seventeen codes of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // gRPC defines the meaning; docs would only repeat the names.
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

/// Every code with its name in the gRPC specification, ordered by number.
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
    /// Parses a `grpc-status` value, which consists of decimal digits only.
    ///
    /// A value that is invalid or above 16 is `Unknown`.
    pub fn parse(value: &[u8]) -> Self {
        let mut digits = value;
        while let [b'0', _, ..] = digits {
            digits = &digits[1..];
        }
        let number = match digits {
            [digit @ b'0'..=b'9'] => digit - b'0',
            [b'1', digit @ b'0'..=b'6'] => 10 + digit - b'0',
            _ => return Self::Unknown,
        };
        CODES[usize::from(number)].0
    }

    /// Parses the code in the trailers of a response, or in a Trailers-Only response; returns
    /// `None` without a `grpc-status`.
    pub(super) fn from_fields(fields: &Fields) -> Option<Self> {
        let mut values = fields.get_all(b"grpc-status");
        let first = values.next()?;
        // Two different values are contradictory.
        Some(if values.all(|other| other == first) {
            Self::parse(first)
        } else {
            Self::Unknown
        })
    }

    /// Returns the code for a response with an HTTP status and without a `grpc-status`.
    ///
    /// The mapping is that of gRPC's "HTTP to gRPC Status Code Mapping".
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

    /// Returns the code for a stream that the peer reset.
    ///
    /// The mapping is that of gRPC's "HTTP2 Transport Mapping", section "Errors".
    pub fn from_reset(code: ErrorCode) -> Self {
        match code {
            ErrorCode::REFUSED_STREAM => Self::Unavailable,
            ErrorCode::CANCEL => Self::Cancelled,
            ErrorCode::ENHANCE_YOUR_CALM => Self::ResourceExhausted,
            ErrorCode::INADEQUATE_SECURITY => Self::PermissionDenied,
            _ => Self::Internal,
        }
    }

    /// Returns the number as encoded in `grpc-status`.
    pub(super) fn encode(self) -> String {
        (self as u8).to_string()
    }

    /// Returns the name as gRPC spells it: `DEADLINE_EXCEEDED`.
    pub fn name(self) -> &'static str {
        CODES[self as usize].1
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The status with which a server ends a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The message of the server: decoded, truncated at a limit, not yet escaped (`Display` escapes
    /// it).
    pub message: String,
    /// Details for programs: a `google.rpc.Status` as octets. Empty if they are missing, not
    /// base64, or too large to be kept.
    pub details: Vec<u8>,
}

impl Status {
    /// Returns the status for success.
    pub fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    /// Returns a status with a message, which is truncated at a limit when it is sent.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// Returns the message as encoded in `grpc-message`, truncated at a limit.
    ///
    /// "Percent-Encoded → 1*(Percent-Byte-Unencoded / Percent-Byte-Encoded);
    /// Percent-Byte-Unencoded → 1*( %x20-%x24 / %x26-%x7E )".
    pub(super) fn encode_message(&self) -> Vec<u8> {
        let kept = self.message.len().min(config::MAX_REASON);
        let mut encoded = Vec::new();
        for &octet in &self.message.as_bytes()[..kept] {
            if matches!(octet, b' '..=b'$' | b'&'..=b'~') {
                encoded.push(octet);
            } else {
                encoded.extend(format!("%{octet:02X}").bytes());
            }
        }
        encoded
    }

    /// Returns the details as encoded in `grpc-status-details-bin`; empty if there are none, or if
    /// they exceed the limit.
    pub(super) fn encode_details(&self) -> Vec<u8> {
        if self.details.len() > config::MAX_REASON {
            return Vec::new();
        }
        binary::encode(&self.details)
    }

    /// Parses the status in the trailers of a response, or in a Trailers-Only response; returns
    /// `None` without a `grpc-status`.
    pub fn from_fields(fields: &Fields) -> Option<Self> {
        let code = Code::from_fields(fields)?;
        let message = fields.get(b"grpc-message").map(decode_message);
        let mut details = binary::decode_values(fields, DETAILS.as_bytes());
        Some(Self {
            code,
            message: message.unwrap_or_default(),
            details: details
                .find(|details| (1..=config::MAX_REASON).contains(&details.len()))
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

/// Decodes the percent-encoding of a `grpc-message`, and truncates the message at a limit.
///
/// "When decoding invalid values, implementations MUST NOT error or throw away the message": a `%`
/// without two hexadecimal digits after it is kept, and invalid UTF-8 is replaced.
fn decode_message(encoded: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(encoded.len().min(config::MAX_REASON));
    let mut rest = encoded;
    while let [first, tail @ ..] = rest {
        if bytes.len() == config::MAX_REASON {
            break;
        }
        match (first, tail) {
            (b'%', [high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                bytes.push((hex_value(*high) << 4) | hex_value(*low));
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

/// Returns the value of a hexadecimal digit.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

/// The name of the field with the details of a status.
pub(super) const DETAILS: &str = "grpc-status-details-bin";
