//! Fields of messages, which are written by hand.

/// Returns a field whose value is text or a message.
pub(crate) fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let mut bytes = vec![number << 3 | 2];
    let mut left = value.len();
    while left > 127 {
        bytes.push((left & 127 | 128) as u8);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend(value);
    bytes
}
