//! The limit on operations that wait for plugins to answer, and the queue of sockets that wait for
//! one of its permits.
//!
//! A new attempt begins only while fewer than [`SOFT_OPERATION_LIMIT`] permits are held, because
//! the process does not give back the memory that simultaneous operations have needed. Checks, and
//! operations that dial again, take a permit without waiting for one. An operation whose plugin
//! answers needs its permit only for a moment. An operation that has held its permit for
//! [`PERMIT_TIME`] while other sockets wait loses the permit and continues without one: from then
//! on it costs only a descriptor, and so does an operation that waits for a handler or for the lock
//! of a plugin name.
//!
//! Permits are granted in the order of arrival. Handlers are asked in another order: each plugin
//! name has a queue of its own (see `names`).
//!
//! A socket that exists and refuses connections is dialed every few seconds during its
//! [`REDIAL_PERIOD`](crate::config::REDIAL_PERIOD), because its plugin may begin to listen at any
//! moment. There may be thousands of such sockets, so attempts after the first one are spaced: the
//! next socket is dialed [`REDIAL_INTERVAL`] after the one before.

use std::collections::VecDeque;

use super::ids::SocketId;
use super::timers::{Scheduled, Timer, Timers};
use crate::config::{BACKOFF, PERMIT_TIME, REDIAL_INTERVAL, SOFT_OPERATION_LIMIT};
use crate::time::Time;

/// The permits, and the queue of sockets that wait for one.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The sockets whose operations hold a permit, and the time since which each holds it, sorted
    /// by that time.
    pub(super) held: Vec<(SocketId, Time)>,
    pub(super) queue: VecDeque<SocketId>,
    /// The time at which the next permit is due for release.
    pub(super) deadline: Scheduled,
    /// The time at which the next socket that has refused a connection may be dialed.
    next_redial: Time,
}

impl Limiter {
    /// Makes a permit available, by releasing those that are due if none is free. Returns false if
    /// that fails.
    pub(super) fn make_permit_available(&mut self, now: Time) -> bool {
        if self.held.len() >= SOFT_OPERATION_LIMIT {
            self.release_due(now);
        }
        self.held.len() < SOFT_OPERATION_LIMIT
    }

    /// Removes and returns sockets from the head of the queue: as many as there are free permits,
    /// but at most `room`. A socket that was removed without a free permit would be queued again at
    /// the end, and so lose its place.
    pub(super) fn dequeue_ready(&mut self, room: usize) -> impl ExactSizeIterator<Item = SocketId> {
        let free = SOFT_OPERATION_LIMIT.saturating_sub(self.held.len());
        let ready = free.min(room).min(self.queue.len());
        self.queue.drain(..ready)
    }

    /// Returns the time at which the next permit is due for release; `None` if the queue is empty
    /// or no permit is held.
    fn next_release(&self) -> Option<Time> {
        if self.queue.is_empty() {
            return None;
        }
        let (_, since) = self.held.first()?;
        Some(*since + PERMIT_TIME)
    }

    /// Releases every permit that was held for [`PERMIT_TIME`].
    fn release_due(&mut self, now: Time) {
        let is_due = |(_, since): &(SocketId, Time)| *since + PERMIT_TIME <= now;
        self.held.drain(..self.held.partition_point(is_due));
    }

    /// Schedules the next release of a permit if sockets are in the queue. Must be called after the
    /// queue has changed. Permits that are due are released first: a socket that is queued because
    /// descriptors run short has not tried to get one ([`Limiter::make_permit_available`]).
    pub(super) fn schedule_release(&mut self, now: Time, timers: &mut Timers) {
        // mutation: a permit that was held for long sets a deadline in the past
        if !self.queue.is_empty() {
            self.release_due(now);
        }
        let at = self.next_release();
        // The pending deadline may belong to a permit that was released early. It then fires with
        // nothing due, and `handle_timeout` schedules the next one.
        timers.set_or_keep_earlier(Timer::Limiter, &mut self.deadline, at);
    }

    /// Releases the permits that are due, and schedules the next release.
    pub(super) fn handle_timeout(&mut self, now: Time, timers: &mut Timers) {
        self.deadline = Scheduled::default();
        self.release_due(now);
        self.schedule_release(now, timers);
    }

    /// Reserves the next free time for dialing a socket that has refused a connection, and returns
    /// that time. If the socket is removed, its time is not given to another one. However many
    /// sockets are added and removed, none waits longer than the cap of [`BACKOFF`].
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
    fn limiter_holding(count: usize) -> Limiter {
        let mut limiter = Limiter::default();
        for n in 0..count {
            assert!(limiter.make_permit_available(Time::ZERO));
            let socket = SocketId(n.try_into().unwrap());
            limiter.held.push((socket, Time::ZERO));
        }
        limiter
    }

    /// Adds the socket whose ID is this character to the queue.
    fn enqueue(limiter: &mut Limiter, name: char) {
        limiter.queue.push_back(SocketId(name.into()));
    }

    /// Dequeues the ready sockets, and returns their characters.
    fn dequeue(limiter: &mut Limiter, room: usize) -> String {
        let ready = limiter.dequeue_ready(room);
        ready
            .map(|socket| char::from(u8::try_from(socket.0).unwrap()))
            .collect()
    }

    #[test]
    fn the_socket_that_came_first_gets_the_permit_that_comes_free() {
        let mut limiter = limiter_holding(SOFT_OPERATION_LIMIT);
        assert!(!limiter.make_permit_available(Time::ZERO));
        for name in ['c', 'a', 'b'] {
            enqueue(&mut limiter, name);
        }
        limiter.queue.retain(|it| *it != SocketId('a'.into()));
        assert_eq!(dequeue(&mut limiter, usize::MAX), "");
        limiter.held.retain(|(id, _)| *id != SocketId(0));
        assert_eq!(dequeue(&mut limiter, usize::MAX), "c");
        limiter.held.retain(|(id, _)| *id != SocketId(1));
        assert_eq!(dequeue(&mut limiter, usize::MAX), "b");
    }

    #[test]
    fn an_operation_that_waits_for_its_peer_passes_its_permit_on() {
        let mut limiter = limiter_holding(SOFT_OPERATION_LIMIT);
        assert_eq!(limiter.next_release(), None, "no socket waits");
        enqueue(&mut limiter, 'a');
        let at = Time::ZERO + PERMIT_TIME;
        assert_eq!(limiter.next_release(), Some(at));
        limiter.release_due(at);
        assert_eq!((limiter.held.len(), limiter.next_release()), (0, None));
        limiter.held.retain(|(id, _)| *id != SocketId(0));
        assert_eq!(dequeue(&mut limiter, usize::MAX), "a");
        let mut limiter = limiter_holding(SOFT_OPERATION_LIMIT);
        assert!(limiter.make_permit_available(at), "nothing is queued");
    }

    #[test]
    fn no_more_sockets_are_ready_than_there_is_room_for() {
        let mut limiter = limiter_holding(SOFT_OPERATION_LIMIT - 3);
        for name in ['a', 'b', 'c'] {
            enqueue(&mut limiter, name);
        }
        assert_eq!(dequeue(&mut limiter, 0), "");
        assert_eq!(dequeue(&mut limiter, 2), "ab");
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
