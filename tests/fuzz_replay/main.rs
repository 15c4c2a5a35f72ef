//! Replays the fuzzing corpus, and twenty thousand mutations of it.
//!
//! The targets are those that `fuzz/` runs for hours. Here they run for seconds, without a fuzzer,
//! from a seed. An input that fails is written to a file, and the panic message says how to replay
//! it alone:
//!
//! ```text
//! TEST_FUZZ_INPUT=fuzz/corpus/frames/0123abcd cargo test --test fuzz_replay
//! ```
//!
//! The name of the file's folder is the name of the target.

mod mutation;
#[path = "../manager/rng.rs"]
#[allow(dead_code)] // Other tests use more of it.
mod rng;
#[path = "../support/skip.rs"]
mod skip;
pub mod targets;

use std::path::{Path, PathBuf};
use std::{env, fs, panic};

use rng::Rng;
use skip::skip;
use targets::{Check, TARGETS};

#[test]
fn what_was_kept_passes() {
    if let Some(alone) = env::var_os("TEST_FUZZ_INPUT") {
        return play_alone(Path::new(&alone));
    }
    if is_packaged() {
        return;
    }
    for (name, check) in TARGETS {
        for (path, bytes) in corpus(name) {
            let passes = panic::catch_unwind(|| check(&bytes)).is_ok();
            assert!(passes, "{}", advice(name, &path));
        }
    }
}

#[test]
fn mutations_of_what_was_kept_pass() {
    if env::var_os("TEST_FUZZ_INPUT").is_some() || is_packaged() {
        return;
    }
    for (seed, (name, check)) in (1..).zip(TARGETS) {
        let kept: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, bytes)| bytes).collect();
        let mut rng = Rng::new(seed);
        for _ in 0..MUTATIONS / TARGETS.len() {
            play_mutation(name, check, &mutation::of(&kept, &mut rng));
        }
    }
}

#[test]
fn every_target_has_a_corpus_and_a_program() {
    if is_packaged() {
        return;
    }
    let targets: Vec<&str> = TARGETS.map(|(name, _)| name).to_vec();
    for (folder, what) in [("fuzz/corpus", "corpus"), ("fuzz/fuzz_targets", "program")] {
        let mut there: Vec<String> = entries(Path::new(folder))
            .iter()
            .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
            .collect();
        let mut wanted = targets.clone();
        there.sort();
        wanted.sort_unstable();
        assert_eq!(there, wanted, "a {what} for each target");
    }
}

/// Returns whether the source is that of the published package, which has no corpus; reports the
/// running test as skipped if so.
fn is_packaged() -> bool {
    let packaged = !Path::new("fuzz").exists();
    if packaged {
        skip("the fuzzing corpus is not in this copy of the source");
    }
    packaged
}

/// Replays one input, which may panic.
fn play_alone(path: &Path) {
    let folder = path.parent().and_then(Path::file_name);
    let mut targets = TARGETS.iter();
    let target = targets.find(|(name, _)| folder.is_some_and(|folder| folder == *name));
    let (_, check) = target.expect("the file is in a folder with a target's name");
    check(&fs::read(path).expect("the file can be read"));
}

/// Runs a mutation, and writes it to a file if it fails.
fn play_mutation(name: &str, check: Check, bytes: &[u8]) {
    if panic::catch_unwind(|| check(bytes)).is_ok() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let path = folder.join("found");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, bytes));
    written.expect("the failed input can be written");
    panic!("{}", advice(name, &path));
}

/// Returns instructions to replay an input.
fn advice(name: &str, path: &Path) -> String {
    let path = path.display();
    format!(
        "{name} fails on {path}; again:\n  \
         TEST_FUZZ_INPUT={path} cargo test --test fuzz_replay\n  \
         cargo fuzz run -s none {name} {path}"
    )
}

/// Returns the corpus of a target, in an order that does not depend on the machine.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).expect("an input of the corpus can be read");
        (path, bytes)
    };
    let paths = entries(&Path::new("fuzz/corpus").join(name));
    assert!(!paths.is_empty(), "the corpus of {name} is empty");
    paths.into_iter().map(read).collect()
}

/// Returns the entries of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

/// The number of mutations, of all targets together: about ten seconds of them.
const MUTATIONS: usize = 20_000;
