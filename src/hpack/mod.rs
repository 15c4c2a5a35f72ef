//! Header compression for HTTP/2: RFC 7541, both directions.
//!
//! The module is pure: octets in, fields out. It does not know frames or the meaning of fields:
//! upper case, the order of pseudo-headers and the limits on what is kept are up to the caller. The
//! caller also joins the fragments of a header block and limits their total size;
//! [`Decoder::decode`] takes one complete block.
//!
//! ```text
//! block -> Decoder: representation -> integer, string (-> huffman) -> table -> field(name, value)
//! fields -> Encoder: static name index or literal name, literal value -> block
//!              ^ Encoded: fields that are the same in every block
//! ```
//!
//! The decoder and the encoder differ in size on purpose. The decoder is complete, because the peer
//! chooses what it sends. The encoder is stateless: it adds nothing to the peer's dynamic table and
//! does not compress strings. A request of eight short fields would gain little from either, and a
//! table that both ends must keep in step is a source of errors.
//!
//! # Used alone
//!
//! A connection has one [`Decoder`] for its whole life and passes every block to it in the order of
//! arrival, including the blocks of cancelled streams: each may change the dynamic table that the
//! next one refers to. After an [`Error`], the decoder cannot be used again. An [`Encoder`] writes
//! one block.
//!
//! ```
//! use plugind::hpack::{Decoder, Encoder, Error};
//!
//! # fn main() -> Result<(), Error> {
//! let mut block = Vec::new();
//! Encoder::begin(&mut block)
//!     .field(":status", "200")
//!     .field("content-type", "application/grpc");
//!
//! // The SETTINGS_HEADER_TABLE_SIZE that this end advertises; 4096 if it advertises none.
//! let mut decoder = Decoder::new(4096);
//! let (mut fields, mut size) = (Vec::new(), 0);
//! decoder.decode(&block, &mut |name, value| {
//!     // One octet of a block can stand for a field of 4064 octets, the largest that fits in the
//!     // table, so fields are kept only up to a limit.
//!     size += name.len() + value.len();
//!     if size <= 16 * 1024 {
//!         fields.push((name.to_vec(), value.to_vec()));
//!     }
//! })?;
//! assert_eq!(fields[1], (b"content-type".to_vec(), b"application/grpc".to_vec()));
//!
//! // A peer may send any octets as a block.
//! assert_eq!(decoder.decode(b"\xff\x00", &mut |_, _| {}), Err(Error::Index));
//! # Ok(())
//! # }
//! ```

mod decoder;
mod encoded;
mod encoder;
mod huffman;
mod integer;
mod table;

#[cfg(test)]
mod rfc7541_appendix_c;

pub use decoder::Decoder;
pub use encoded::Encoded;
pub use encoder::Encoder;

/// A violation of RFC 7541 in a header block.
///
/// RFC 9113 §4.3: "A decoding error in a field block MUST be treated as a connection error (Section
/// 5.4.1) of type `COMPRESSION_ERROR`." The error is fatal: after any of these, the dynamic tables
/// of the two ends may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block ends inside a field, or a string length exceeds the rest of the block.
    #[error("field is truncated")]
    Truncated,
    /// An integer is encoded in more octets than are accepted.
    #[error("integer is too long")]
    IntegerTooLong,
    /// An index is zero, or beyond the end of the static and the dynamic table.
    #[error("reference to a table index that does not exist")]
    Index,
    /// A Huffman-coded string contains the end-of-string symbol.
    #[error("Huffman-coded string contains the end-of-string symbol")]
    HuffmanEos,
    /// A Huffman-coded string does not end in at most seven one-bits of padding.
    #[error("Huffman-coded string has invalid padding")]
    HuffmanPadding,
    /// A dynamic table size update follows the first field of the block.
    #[error("dynamic table size update after the first field")]
    LateSizeUpdate,
    /// A dynamic table size update exceeds the size that the decoder allows.
    #[error("dynamic table size update above the allowed size")]
    SizeUpdateAboveLimit,
}
