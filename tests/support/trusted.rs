//! A place for directories that strict mode trusts.

use tempfile::TempDir;

/// Returns a new directory that no other user can change. A copy of the source may lie below one
/// that others can change, such as `/tmp`.
pub(crate) fn trusted_dir() -> TempDir {
    let dir = tempfile::tempdir_in("/var/lib");
    dir.or_else(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")))
        .expect("a directory")
}
