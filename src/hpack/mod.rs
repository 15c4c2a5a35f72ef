//! Header compression for HTTP/2: RFC 7541, both directions.
//!
//! Pure: octets in, fields out. It knows nothing of frames, and nothing of what a field means:
//! upper case, pseudo-header order and limits on what is kept are the caller's. The caller puts the
//! fragments of a header block together and limits their total size; [`Decoder::decode`] takes one
//! complete block.
//!
//! ```text
//! block -> Decoder: representation -> integer, string (-> huffman) -> table -> field(name, value)
//! fields -> Encoder: static name index or literal name, literal value -> block
//!              ^ Encoded: fields that are the same in every block
//! ```
//!
//! The two directions are of unequal size on purpose. The decoder is complete, because the peer
//! chooses what it sends. The encoder has no state at all: it adds nothing to the peer's dynamic
//! table and compresses no string, because a request of eight short fields has nothing to gain from
//! it and every table in two places has something to lose.
//!
//! # Taken alone
//!
//! A connection has one [`Decoder`] for as long as it lives, and gives it every block that comes,
//! in their order, also those that nobody wants any more: each may change the table that the next
//! one refers to. After an [`Error`] there is no next one. An [`Encoder`] lives for one block.
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
//! // What SETTINGS_HEADER_TABLE_SIZE lets the peer keep here: 4096, unless another value is sent.
//! let mut decoder = Decoder::new(4096);
//! let (mut fields, mut size) = (Vec::new(), 0);
//! decoder.decode(&block, &mut |name, value| {
//!     // One octet of a block can stand for 4096 of a field: so there is a limit, and what is
//!     // beyond it is not kept.
//!     size += name.len() + value.len();
//!     if size <= 16 * 1024 {
//!         fields.push((name.to_vec(), value.to_vec()));
//!     }
//! })?;
//! assert_eq!(fields[1], (b"content-type".to_vec(), b"application/grpc".to_vec()));
//!
//! // A block may be anything that a peer thinks of.
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

use std::fmt;

pub use decoder::Decoder;
pub use encoded::Encoded;
pub use encoder::Encoder;

/// How the peer broke RFC 7541 in a header block.
///
/// RFC 9113 §4.3: "A decoding error in a field block MUST be treated as a connection error (Section
/// 5.4.1) of type `COMPRESSION_ERROR`." There is no way on: after any of these the two dynamic
/// tables no longer agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The block ends inside a field, or a string claims to be longer than what is left of the
    /// block.
    Truncated,
    /// An integer is encoded in more octets than any honest value needs.
    IntegerTooLong,
    /// An index is zero or beyond the end of the static and the dynamic table.
    Index,
    /// A Huffman-coded string contains the end-of-string symbol.
    HuffmanEos,
    /// A Huffman-coded string ends in something else than at most seven one-bits.
    HuffmanPadding,
    /// A dynamic table size update comes after the first field of the block.
    LateSizeUpdate,
    /// A dynamic table size update asks for more than what we allow.
    SizeUpdateAboveLimit,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "header block ends inside a field",
            Self::IntegerTooLong => "integer in a header block is too long",
            Self::Index => "header block refers to an entry that no table has",
            Self::HuffmanEos => "Huffman-coded string contains the end-of-string symbol",
            Self::HuffmanPadding => "Huffman-coded string has wrong padding",
            Self::LateSizeUpdate => {
                "dynamic table size update after the first field of a header block"
            }
            Self::SizeUpdateAboveLimit => "dynamic table size update above the allowed size",
        })
    }
}

impl std::error::Error for Error {}
