//! What comes about in another process, waited for by asking again.

use std::time::{Duration, Instant};

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(Instant::now() < end, "timed out: {what}");
        std::thread::yield_now();
    }
}

/// How long to wait at most.
const PATIENCE: Duration = Duration::from_secs(60);
