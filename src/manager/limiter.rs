//! The limit on operations that wait for plugins to answer, and the queue of sockets that wait for
//! one of its permits.
//!
//! At most [`SOFT_OPERATION_LIMIT`] new attempts call their plugins at a time, because the process
//! does not give back the memory that simultaneous operations have needed. Checks and redials
//! count, but do not wait. An operation needs its permit only for a moment if its plugin answers.
//! An operation that has waited for its peer for [`PERMIT_TIME`] passes its permit on to the next
//! socket and continues without one: from then on it costs only a descriptor, and so does an
//! operation that waits for a handler, for a program or for the lock of a plugin name.
//!
//! Permits are granted in the order of arrival. The order in which handlers are asked is another
//! queue, by arrival for each name (`names`).
//!
//! A socket that exists and refuses connections is dialled every few seconds, because its plugin
//! may begin to listen at any moment. There may be thousands of such sockets, so each dial after
//! the first attempt has a time of its own, at least [`REDIAL_INTERVAL`] after the one before it.

use std::collections::VecDeque;

use super::ids::SocketId;
use super::timers::{Scheduled, Timer, Timers};
use crate::config::{BACKOFF, PERMIT_TIME, REDIAL_INTERVAL, SOFT_OPERATION_LIMIT};
use crate::time::Time;

/// The permits, and the queue of sockets that wait for one.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The sockets whose operations hold a permit, and the time at which each got it.
    pub(super) held: Vec<(SocketId, Time)>,
    pub(super) queue: VecDeque<SocketId>,
    /// The time at which a permit should be released.
    pub(super) deadline: Scheduled,
    /// The time at which the next socket that has refused a connection may be dialled.
    next_redial: Time,
}

impl Limiter {
    /// Returns whether a permit is free. If none is, first releases those that were held for long
    /// enough.
    pub(super) fn is_any_free(&mut self, now: Time) -> bool {
        if self.held.len() >= SOFT_OPERATION_LIMIT {
            self.release_slow(now);
        }
        self.held.len() < SOFT_OPERATION_LIMIT
    }

    /// Removes and returns the sockets at the head of the queue: as many as there are free permits,
    /// but at most `room`.
    ///
    /// More of them would lose their places: a socket that finds no free permit is queued again at
    /// the end.
    pub(super) fn dequeue_ready(&mut self, room: usize) -> impl Iterator<Item = SocketId> {
        let free = SOFT_OPERATION_LIMIT.saturating_sub(self.held.len());
        let ready = free.min(room).min(self.queue.len());
        self.queue.drain(..ready)
    }

    /// Returns when the next operation has had its permit for long enough; `None` if the queue is
    /// empty.
    fn next_release(&self) -> Option<Time> {
        if self.queue.is_empty() {
            return None;
        }
        let since = self.held.iter().map(|(_, since)| *since).min();
        since.map(|since| since + PERMIT_TIME)
    }

    /// Releases every permit that an operation has held for long enough.
    fn release_slow(&mut self, now: Time) {
        self.held.retain(|(_, since)| now < *since + PERMIT_TIME);
    }

    /// Schedules the release of a permit if sockets are in the queue. To be called after the queue
    /// has changed. Permits that were held for long enough are released now: while descriptors run
    /// short, sockets queue up although permits are free.
    pub(super) fn schedule(&mut self, now: Time, timers: &mut Timers) {
        // mutation: a permit that was held for long sets a deadline in the past
        if !self.queue.is_empty() {
            self.release_slow(now);
        }
        let at = self.next_release();
        // The pending deadline may belong to a permit that was released early. It then fires with
        // nothing due, and `handle_timeout` schedules the next one.
        timers.set_or_keep_earlier(Timer::Limiter, &mut self.deadline, at);
    }

    /// Releases the permits that are due, and schedules the next release.
    pub(super) fn handle_timeout(&mut self, now: Time, timers: &mut Timers) {
        self.deadline = Scheduled::default();
        self.release_slow(now);
        self.schedule(now, timers);
    }

    /// Reserves the next free time for dialling a socket that has refused a connection, and returns
    /// it. The time of a socket that is removed is not given to another one. However many sockets
    /// come and go, none waits longer than the cap of [`BACKOFF`].
    pub(super) fn reserve_redial(&mut self, now: Time) -> Time {
        let at = self.next_redial.clamp(now, now + BACKOFF.cap);
        self.next_redial = at + REDIAL_INTERVAL;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a limiter with that number of held permits.
    fn held(count: usize) -> Limiter {
        let mut limiter = Limiter::default();
        for n in 0..count {
            assert!(limiter.is_any_free(Time::ZERO));
            let socket = SocketId(n.try_into().unwrap());
            limiter.held.push((socket, Time::ZERO));
        }
        limiter
    }

    /// Adds the socket whose number is this character to the queue.
    fn enqueue(limiter: &mut Limiter, name: char) {
        limiter.queue.push_back(SocketId(name.into()));
    }

    /// Dequeues the ready sockets, and returns their characters.
    fn ready(limiter: &mut Limiter, room: usize) -> String {
        let ready = limiter.dequeue_ready(room);
        ready
            .map(|socket| char::from(u8::try_from(socket.0).unwrap()))
            .collect()
    }

    #[test]
    fn the_socket_that_came_first_gets_the_permit_that_comes_free() {
        let mut limiter = held(SOFT_OPERATION_LIMIT);
        assert!(!limiter.is_any_free(Time::ZERO));
        for name in ['c', 'a', 'b'] {
            enqueue(&mut limiter, name);
        }
        limiter.queue.retain(|it| *it != SocketId('a'.into()));
        assert_eq!(ready(&mut limiter, usize::MAX), "");
        limiter.held.retain(|(id, _)| *id != SocketId(0));
        assert_eq!(ready(&mut limiter, usize::MAX), "c");
        limiter.held.retain(|(id, _)| *id != SocketId(1));
        assert_eq!(ready(&mut limiter, usize::MAX), "b");
    }

    #[test]
    fn an_operation_that_waits_for_its_peer_passes_its_permit_on() {
        let mut limiter = held(SOFT_OPERATION_LIMIT);
        assert_eq!(limiter.next_release(), None, "none is wanted");
        enqueue(&mut limiter, 'a');
        let at = Time::ZERO + PERMIT_TIME;
        assert_eq!(limiter.next_release(), Some(at));
        limiter.release_slow(at);
        assert_eq!((limiter.held.len(), limiter.next_release()), (0, None));
        limiter.held.retain(|(id, _)| *id != SocketId(0));
        assert_eq!(ready(&mut limiter, usize::MAX), "a");
    }

    #[test]
    fn no_more_sockets_are_ready_than_there_is_room_for() {
        let mut limiter = held(SOFT_OPERATION_LIMIT - 3);
        for name in ['a', 'b', 'c'] {
            enqueue(&mut limiter, name);
        }
        assert_eq!(ready(&mut limiter, 0), "");
        assert_eq!(ready(&mut limiter, 2), "ab");
    }

    #[test]
    fn redials_are_one_interval_apart_and_none_is_in_the_past() {
        let mut limiter = Limiter::default();
        let mut now = Time::from_millis(1000);
        assert_eq!(limiter.reserve_redial(now), now);
        assert_eq!(limiter.reserve_redial(now), now + REDIAL_INTERVAL);
        now += 10 * REDIAL_INTERVAL;
        assert_eq!(limiter.reserve_redial(now), now);
        for _ in 0..10_000 {
            assert!(limiter.reserve_redial(now) <= now + BACKOFF.cap);
        }
    }
}
