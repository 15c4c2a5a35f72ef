//! The boundary at which a panic of a handler ends.
//!
//! Pure. Where panics abort, as in the profile of the binary, the process ends at the panic, and
//! nothing here has an effect.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Reason;
use crate::escape;

/// A panic of a handler.
#[derive(Debug)]
pub(crate) struct Panicked(Option<String>);

/// Calls a handler, and returns its result, or an error if the handler panics: then it must not be
/// called again, because its state may be inconsistent.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    if cfg!(panic = "unwind") {
        catch_unwind(AssertUnwindSafe(call)).map_err(Panicked::new)
    } else {
        Ok(call())
    }
}

/// Drops a value of a handler. If that panics, too, only the rest of the value is leaked.
pub(crate) fn discard<T>(value: T) {
    if cfg!(panic = "unwind") {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            mem::forget(payload);
        }
    } else {
        drop(value);
    }
}

/// Returns the answer of a handler that was given up, in words for the plugin's author.
pub(crate) fn reason() -> Reason {
    Reason::new("the handler for plugins of this type has failed")
}

impl Panicked {
    fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        discard(payload);
        Self(text)
    }
}

/// Shows the message of the panic, escaped.
impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(text) => escape::text(text).fmt(f),
            None => f.write_str("the panic has no message"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn shown(call: impl FnOnce()) -> String {
        catch(call).expect_err("it panics").to_string()
    }

    #[test]
    fn a_panic_is_shown_by_its_message_if_that_is_text() {
        assert_eq!(shown(|| panic!("a\n")), "a\\n");
        assert_eq!(shown(|| panic!("{}", 1 + 1)), "2");
        assert_eq!(shown(|| panic_any(7)), "the panic has no message");
        assert_eq!(catch(|| 7).ok(), Some(7));
    }

    #[test]
    fn what_panics_when_it_is_dropped_goes_no_further() {
        assert_eq!(shown(|| panic_any(Bomb)), "the panic has no message");
        discard(Bomb);
    }
}
