//! The built binary: cargo's, or the one named by the environment variable `TEST_BINARY`, so
//! that the same tests can test the static one.

use std::ffi::OsString;

/// Returns the path of the binary to test.
pub(crate) fn binary() -> OsString {
    let named = std::env::var_os("TEST_BINARY");
    named.unwrap_or_else(|| env!("CARGO_BIN_EXE_plugind").into())
}
