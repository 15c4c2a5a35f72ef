//! JSON, written piece by piece (RFC 8259).
//!
//! Pure. What is written is plain
//! ASCII, so that a terminal can show it.

mod writer;

pub(crate) use writer::Writer;
