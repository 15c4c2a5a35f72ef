//! Tells the compiler of a release build the commit that it builds, as `revision.sh` prints it.
//!
//! A debug build has none, so that no commit makes everything be compiled again.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SOURCE_REVISION");
    println!("cargo::rerun-if-changed=tests/static/revision.rs");
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    println!("cargo::rerun-if-changed=.git/logs/HEAD");
    println!("cargo::rerun-if-changed=.git/index");
    let printed = Command::new("tests/static/revision.sh").output();
    if let Ok(revision) = printed.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()) {
        println!("cargo::rustc-env=SOURCE_REVISION={}", revision.trim());
    }
}
