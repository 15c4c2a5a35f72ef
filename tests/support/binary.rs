//! The built binary: cargo's, or the one that the environment variable `PLUGIND_BINARY` names, so
//! that the same tests try the static one.

use std::ffi::OsString;

/// The path of the binary to try.
pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("PLUGIND_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_plugind").into())
}
