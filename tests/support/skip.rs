//! Tests that this machine cannot run.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::{env, thread};

/// Reports that the running test is skipped for this reason; the test returns then.
///
/// `make test` counts what is skipped in its last line. A reason that ends with "is not installed",
/// "cannot be opened", "this process may have" or "is not in this copy of the source" is accepted
/// everywhere; any other one fails in CI on a machine that allows user namespaces.
pub(crate) fn skip(reason: &str) {
    let test = thread::current();
    let test = test.name().unwrap_or("a test");
    eprintln!("{test}: skipped: {reason}");
    let Some(list) = env::var_os(LIST) else {
        return;
    };
    // One write, because other tests append to the list at the same time.
    let line = format!("{test}\t{reason}\n");
    let list = File::options().append(true).create(true).open(list);
    let written = list.and_then(|mut list| list.write_all(line.as_bytes()));
    written.expect("the list of skipped tests can be written");
}

/// Returns whether the directories above every file belong to root or to this user, so that a
/// program can be trusted; reports the running test as skipped if not.
pub(crate) fn programs_can_be_trusted_or_skip() -> bool {
    let owner = fs::metadata("/").expect("a root directory").uid();
    let trusted = owner == 0 || owner == nix::unistd::Uid::effective().as_raw();
    if !trusted {
        skip("the root directory belongs to a user outside this user namespace");
    }
    trusted
}

/// Returns whether this process can become any user; reports the running test as skipped if not.
pub(crate) fn can_be_others_or_skip() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let is_able = nix::unistd::Uid::effective().is_root() && is_whole;
    if !is_able {
        skip("this process may have one user only");
    }
    is_able
}

/// Returns whether this user may mount a FUSE file system in a namespace; reports the running test
/// as skipped if not.
pub(crate) fn fuse_can_be_opened_or_skip() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    if device.is_err() {
        skip("/dev/fuse cannot be opened");
    }
    device.is_ok()
}

/// The reason why this machine cannot run tests that need a namespace.
pub(crate) const NO_NAMESPACES: &str = "user namespaces are not allowed";

/// The environment variable that names the file to which skipped tests are appended.
const LIST: &str = "TEST_SKIPPED";
