//! Times that are checked only where the machine has nothing else to do.

use std::env;
use std::time::Duration;

/// Fails if something took as long as the limit or longer, in `make full ONLY=timed`. `make test`
/// may run beside other work, which would be measured instead.
#[track_caller]
pub(crate) fn assert_faster(took: Duration, limit: Duration) {
    if is_timed() {
        assert!(took < limit, "{took:?} of {limit:?}");
    }
}

/// Returns whether times are checked.
pub(crate) fn is_timed() -> bool {
    env::var_os("TEST_TIMED").is_some()
}
