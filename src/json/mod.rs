//! JSON, read and written piece by piece (RFC 8259).
//!
//! Pure. Values are not kept in a tree: a document may be 64 MiB long. What is written is plain
//! ASCII, so that a terminal can show it.

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::Writer;
