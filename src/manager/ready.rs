//! Retries of calls whose endpoint is not ready: gRPC's wait-for-ready.
//!
//! Pure. Plugins are called within a millisecond of listening on their registration sockets, and
//! many serve their endpoints a moment later.

use std::time::Duration;

use super::links::EffectCall;
use crate::config::READY_RETRY_INITIAL;
use crate::grpc::Code;
use crate::handler::{Call, CallFailure, DialError};
use crate::time::Time;

/// A call that is retried if its endpoint is not ready.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) effect: EffectCall,
    pub(super) call: Call,
    /// The time of the last retry.
    until: Time,
    /// The length of the next pause.
    pause: Duration,
}

impl Retry {
    pub(super) fn new(effect: EffectCall, call: Call, until: Time) -> Self {
        Self {
            effect,
            call,
            until,
            pause: READY_RETRY_INITIAL,
        }
    }

    /// Returns the time of the next retry after this failure, or `None` if the failure is final.
    pub(super) fn after(&mut self, failure: &CallFailure, now: Time) -> Option<Time> {
        if !is_not_ready(failure) || self.until <= now {
            return None;
        }
        let at = (now + self.pause).min(self.until);
        self.pause *= 2;
        (at < self.effect.deadline).then_some(at)
    }
}

/// Returns whether a call failed in a way that may pass once its plugin is ready, or once there are
/// descriptors.
fn is_not_ready(failure: &CallFailure) -> bool {
    match failure {
        CallFailure::Dial(error) => {
            matches!(
                error,
                DialError::Gone | DialError::Refused | DialError::Busy | DialError::NoDescriptors
            )
        }
        CallFailure::Call(error) => error.code() == Code::Unavailable,
    }
}
