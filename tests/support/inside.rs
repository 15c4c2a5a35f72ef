//! A test in a user namespace and a mount namespace of its own.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::any::type_name;
use std::env;
use std::path::Path;
use std::process::Command;

use super::skip::{NO_NAMESPACES, skip};

/// Runs the test with this name in namespaces of its own: there, a shell runs `prepare`, and then
/// this binary, which runs the same test; that one calls this function again, which runs `body`.
#[track_caller]
pub(crate) fn inside(test: &str, prepare: &str, body: impl FnOnce()) {
    if is_inside(test) {
        return body();
    }
    let is_without_proc = env::var("TEST_WITHOUT").as_deref() == Ok("Proc");
    assert!(!is_without_proc, "namespaces are made through /proc");
    if !run("true") {
        skip(NO_NAMESPACES);
    } else if !run(prepare) {
        skip(&format!("a user namespace does not allow {prepare:?}"));
    } else {
        let output = namespaces(&format!("{prepare} && exec \"$0\" \"$@\""))
            .arg(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(INSIDE, test)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("1 passed"), "no such test: {said}");
        print!("{said}"); // The test may print a measurement.
    }
}

/// Does the same with the test in which the closure `body` is written.
#[track_caller]
pub(crate) fn within<F: FnOnce()>(prepare: &str, body: F) {
    inside(test_of::<F>(), prepare, body);
}

/// Returns the test in which a closure is written: `kernel::bare::a_state_file_is_written`.
pub(crate) fn test_of<F: FnOnce()>() -> &'static str {
    let path = type_name::<F>().strip_suffix("::{{closure}}");
    let (_crate, test) = path
        .and_then(|path| path.split_once("::"))
        .expect("a closure");
    test
}

/// Runs a command on a directory, such as `mount -t tmpfs none`.
#[track_caller]
pub(crate) fn run_on(dir: &Path, command: &str) {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().unwrap());
    assert!(command.args(words).arg(dir).status().unwrap().success());
}

/// Mounts an empty file system on a directory.
#[track_caller]
pub(crate) fn cover(dir: &Path) {
    run_on(dir, "mount -t tmpfs none");
}

/// Unmounts it, although files of it may be open.
#[track_caller]
pub(crate) fn uncover(dir: &Path) {
    run_on(dir, "umount --lazy");
}

/// Returns whether this is the run of the test in its namespaces.
pub(crate) fn is_inside(test: &str) -> bool {
    env::var(INSIDE).as_deref() == Ok(test)
}

/// Returns whether a shell in namespaces of its own can run this script.
pub(crate) fn run(script: &str) -> bool {
    let output = namespaces(script).output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns a command that runs a shell script in namespaces of its own.
pub(crate) fn namespaces(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command
}

/// The environment variable that names the test for which the namespaces were made.
const INSIDE: &str = "TEST_INSIDE";
