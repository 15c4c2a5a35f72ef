//! The padding that DATA and HEADERS may have (RFC 9113 §6.1, §6.2).

use super::head::{Head, flag};
use crate::http2::error::Violation;

/// Returns the payload without its padding.
///
/// "If the length of the padding is the length of the frame payload or greater, the recipient MUST
/// treat this as a connection error of type PROTOCOL_ERROR."
pub(super) fn strip(head: Head, payload: &[u8]) -> Result<&[u8], Violation> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload
        .split_first()
        .ok_or(Violation::FrameLength(head.kind))?;
    rest.len()
        .checked_sub(usize::from(padding))
        .and_then(|length| rest.get(..length))
        .ok_or(Violation::Padding(head.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frame_type::FrameType;

    fn strip_padded(payload: &[u8]) -> Result<&[u8], Violation> {
        strip(
            Head::new(FrameType::Data, flag::PADDED, 1, payload.len()),
            payload,
        )
    }

    #[test]
    fn padding_may_be_all_there_is_but_not_more() {
        assert_eq!(strip_padded(b"\x02hi\0\0"), Ok(&b"hi"[..]));
        assert_eq!(strip_padded(b"\x00hi"), Ok(&b"hi"[..]));
        assert_eq!(strip_padded(b"\x02\0\0"), Ok(&b""[..]));
        assert_eq!(
            strip_padded(b"\x03\0\0"),
            Err(Violation::Padding(FrameType::Data))
        );
        assert_eq!(
            strip_padded(b""),
            Err(Violation::FrameLength(FrameType::Data))
        );
    }
}
