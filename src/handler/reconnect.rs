//! A stream or a connection that is opened again after a pause whenever it ends.
//!
//! ```text
//!            ended                 pause over
//!  Open --------------> Pausing --------------> Open
//!    |                                           ^
//!    +--------- a connection was cut ------------+
//! ```
//!
//! The pause doubles each time, up to a cap. If the stream or connection was open for as long as
//! the next pause would be, that pause is the shortest one again.
//!
//! A connection that was up and breaks is dialed again at once, as gRPC does: the plugin may have
//! been restarted in place. If the connection breaks once more, a pause follows, unless the
//! connection was up for at least the shortest pause.

use std::time::Duration;

use super::{Context, EffectId, EndpointRequest};
use crate::config::BACKOFF;
use crate::time::Time;

/// A stream or connection that is kept open, or the pause before it is opened again.
#[derive(Debug)]
pub(super) struct Reconnect {
    /// The request for the stream or connection.
    request: EndpointRequest,
    state: State,
    /// The time at which the stream or connection was last opened.
    since: Time,
    /// The length of the next pause.
    pause: Duration,
    /// The time since which the server has been answering on the connection.
    pub(super) up_since: Option<Time>,
    /// Whether a connection that was up may be dialed again without a pause.
    may_skip_pause: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open(EffectId),
    Pausing(EffectId),
}

impl Reconnect {
    /// Opens the requested stream or connection for the first time.
    pub(super) fn open(request: EndpointRequest, context: &mut Context<'_>) -> Self {
        Self {
            state: State::Open(context.request(request.clone(), None)),
            request,
            since: context.now(),
            pause: BACKOFF.first,
            up_since: None,
            may_skip_pause: true,
        }
    }

    /// Returns the pending effect: the open stream or connection, or the timer of the pause.
    pub(super) fn effect(&self) -> EffectId {
        match self.state {
            State::Open(id) | State::Pausing(id) => id,
        }
    }

    /// Handles the end of the stream or connection, which is cancelled if it has not ended: opens
    /// it again, at once if [`Reconnect::take_immediate_redial`] allows that, else after a pause.
    /// Has no effect during a pause.
    pub(super) fn handle_interruption(&mut self, context: &mut Context<'_>) {
        if matches!(self.state, State::Pausing(_)) {
            return;
        }
        context.cancel(self.effect());
        if self.take_immediate_redial(context.now()) {
            return self.open_again(context);
        }
        if context.now().saturating_since(self.since) >= self.pause {
            self.pause = BACKOFF.first;
        }
        self.state = State::Pausing(context.set_timer(self.pause));
        self.pause = BACKOFF.next_pause(Some(self.pause));
    }

    /// Opens the stream or connection again when the pause is over.
    pub(super) fn resume(&mut self, context: &mut Context<'_>) {
        if matches!(self.state, State::Pausing(_)) {
            self.open_again(context);
        }
    }

    fn open_again(&mut self, context: &mut Context<'_>) {
        self.state = State::Open(context.request(self.request.clone(), None));
        self.since = context.now();
    }

    /// Returns whether a connection that was up has broken and may be dialed again at once. Records
    /// that the connection is down.
    fn take_immediate_redial(&mut self, now: Time) -> bool {
        let Some(since) = self.up_since.take() else {
            return false;
        };
        self.may_skip_pause |= now.saturating_since(since) >= BACKOFF.first;
        std::mem::take(&mut self.may_skip_pause)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::handler::{Effect, EffectIds};

    /// Returns the lengths of the pauses if each connection is interrupted after `lasted`.
    fn pauses(lasted: Duration) -> Vec<u128> {
        let (mut ids, mut effects) = (EffectIds::default(), Vec::new());
        let mut now = Time::ZERO;
        let mut act = |now, act: &mut dyn FnMut(&mut Context<'_>)| {
            act(&mut Context::new(now, None, &mut ids, &mut effects));
            effects.pop()
        };
        let mut reconnect = None;
        let request = EndpointRequest::Connection(Path::new("/p/a.sock").into());
        act(now, &mut |context| {
            reconnect = Some(Reconnect::open(request.clone(), context));
        });
        let mut reconnect = reconnect.expect("it was opened");
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += lasted;
            let effect = act(now, &mut |context| reconnect.handle_interruption(context));
            let Some(Effect::SetTimer { at, .. }) = effect else {
                panic!("a pause")
            };
            pauses.push(at.saturating_since(now).as_millis());
            now = at;
            act(now, &mut |context| reconnect.resume(context));
        }
        pauses
    }

    #[test]
    fn the_pause_doubles_if_the_stream_never_lasts() {
        let doubled = [
            500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000,
        ];
        assert_eq!(pauses(Duration::ZERO), doubled);
    }

    /// Returns the pauses before a connection is dialed again, if it breaks each time after
    /// `lasted`.
    fn pauses_of_connection(lasted: Duration) -> Vec<u128> {
        let (mut ids, mut effects) = (EffectIds::default(), Vec::new());
        let mut now = Time::ZERO;
        let mut context = Context::new(now, None, &mut ids, &mut effects);
        let request = EndpointRequest::Connection(Path::new("/p/a.sock").into());
        let mut connection = Reconnect::open(request, &mut context);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let mut context = Context::new(now, None, &mut ids, &mut effects);
            connection.up_since = Some(context.now());
            let cut = now + lasted;
            context = Context::new(cut, None, &mut ids, &mut effects);
            connection.handle_interruption(&mut context);
            now = match effects.last() {
                Some(Effect::SetTimer { at, .. }) => *at,
                _ => cut,
            };
            connection.resume(&mut Context::new(now, None, &mut ids, &mut effects));
            pauses.push(now.saturating_since(cut).as_millis());
        }
        pauses
    }

    #[test]
    fn a_connection_that_is_cut_is_dialed_again_at_once() {
        let short = Duration::from_millis(1);
        let doubled = [0, 500, 1000, 2000, 4000, 8000];
        assert_eq!(pauses_of_connection(short), doubled);
        assert_eq!(pauses_of_connection(Duration::from_secs(1)), [0; 6]);
    }

    #[test]
    fn the_pause_is_short_after_a_stream_that_lasted() {
        assert_eq!(pauses(Duration::from_secs(1)), [500; 10]);
        let hours = pauses(Duration::from_secs(10_000));
        assert!(hours.iter().all(|pause| *pause == 500));
    }
}
