//! The buffer for lines that standard error does not take yet: keeps as many as fit while the
//! reader does not keep up, and counts the others.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;

use super::sink::Sink;
use crate::config::{LOG_BUFFER, LOG_BUFFER_OF_PEERS, LOG_RETRY_INITIAL, LOG_RETRY_MAX};
use crate::time::Time;

/// Whole lines, the first of which may have been written in part.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// The number of lines that were dropped and not reported.
    lost: u64,
    /// Whether the last byte that was written is in the middle of a line.
    is_line_open: bool,
    /// Whether the last attempt to write failed for a reason other than lack of room.
    is_broken: bool,
    /// The time of the next attempt to write, and the pause before it.
    retry: Option<(Time, Duration)>,
}

/// The origin of a line, which determines how much of the buffer the line may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A line that a peer causes.
    Peer,
    /// A line of the daemon about itself.
    Daemon,
}

impl Buffer {
    /// Returns the buffer, to which one line is to be added, and the position where the line
    /// begins.
    ///
    /// The caller ends the line with [`Buffer::end_line`] or [`Buffer::take_back`].
    pub(super) fn begin_line(&mut self) -> (&mut Vec<u8>, usize) {
        if self.bytes.is_empty() && self.is_line_open {
            self.bytes.push(b'\n'); // The rest of the line was lost.
        }
        let start = self.bytes.len();
        (&mut self.bytes, start)
    }

    /// Removes what was added since [`Buffer::begin_line`].
    pub(super) fn take_back(&mut self, start: usize) {
        self.bytes.truncate(start);
    }

    /// Writes the lines in the buffer. If they cannot all be written, the new line is kept if it
    /// fits.
    pub(super) fn end_line<F: AsFd>(
        &mut self,
        start: usize,
        origin: Origin,
        sink: &Sink<F>,
        now: Time,
    ) {
        let gone = self.flush(sink, now);
        let room = match origin {
            Origin::Peer => LOG_BUFFER_OF_PEERS,
            Origin::Daemon => LOG_BUFFER,
        };
        if self.bytes.len() > room && gone <= start {
            self.bytes.truncate(start - gone);
            self.lost += 1;
        }
    }

    /// Writes as much as there is room for. Returns how many bytes have left the buffer, written or
    /// lost.
    pub(super) fn flush<F: AsFd>(&mut self, sink: &Sink<F>, now: Time) -> usize {
        let mut written = 0;
        self.is_broken = false;
        while written < self.bytes.len() {
            match sink.write(&self.bytes[written..]) {
                Ok(n) if n > 0 => written += n,
                Ok(_) | Err(Errno::EAGAIN) => break,
                Err(_) => {
                    self.is_broken = true;
                    break;
                }
            }
        }
        if let Some(last) = written.checked_sub(1) {
            self.is_line_open = self.bytes[last] != b'\n';
        }
        self.bytes.drain(..written);
        if self.is_broken {
            // The reader has closed its end, or the disk is full: there is nothing to wait for.
            return written + self.lose_all();
        }
        let is_stalled = !self.bytes.is_empty();
        self.retry = is_stalled.then(|| self.next_retry(written > 0, now));
        if !is_stalled {
            self.bytes.shrink_to(KEPT);
        }
        written
    }

    /// Returns when to call [`Buffer::flush`] even if nothing more is logged.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.retry.map(|(at, _)| at)
    }

    /// Returns how many lines were lost, once there is room to report that.
    pub(super) fn take_lost(&mut self) -> Option<u64> {
        let is_due = self.lost > 0 && self.bytes.is_empty() && !self.is_broken;
        is_due.then(|| std::mem::take(&mut self.lost))
    }

    fn next_retry(&self, has_moved: bool, now: Time) -> (Time, Duration) {
        match self.retry {
            Some(retry @ (at, _)) if !has_moved && now < at => retry,
            Some((_, pause)) if !has_moved => {
                let pause = (pause * 2).min(LOG_RETRY_MAX);
                (now + pause, pause)
            }
            _ => (now + LOG_RETRY_INITIAL, LOG_RETRY_INITIAL),
        }
    }

    /// Drops all lines. Returns how many bytes they had.
    fn lose_all(&mut self) -> usize {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').count();
        self.lost += lines as u64;
        self.retry = None;
        std::mem::take(&mut self.bytes).len()
    }
}

/// The capacity that an empty buffer keeps (bytes): more than a usual line.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use super::*;

    fn pipe() -> (File, Sink<OwnedFd>) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        (reader.into(), Sink::new(writer))
    }

    fn add(buffer: &mut Buffer, line: &[u8], origin: Origin, sink: &Sink<OwnedFd>, now: Time) {
        let (bytes, start) = buffer.begin_line();
        bytes.extend_from_slice(line);
        buffer.end_line(start, origin, sink, now);
    }

    /// Fills the pipe and the part of the buffer that is for lines of peers. Returns how many lines
    /// that took, of 100 bytes each.
    fn fill(buffer: &mut Buffer, sink: &Sink<OwnedFd>) -> usize {
        let mut line = [b'x'; 100];
        line[99] = b'\n';
        let mut lines = 0;
        while buffer.lost == 0 {
            add(buffer, &line, Origin::Peer, sink, Time::ZERO);
            lines += 1;
        }
        lines - 1
    }

    /// Reads from the pipe, and writes the buffer to it, until the buffer is empty. Returns what
    /// was read.
    fn drain(buffer: &mut Buffer, reader: &mut File, sink: &Sink<OwnedFd>) -> String {
        let mut all = Vec::new();
        let mut part = vec![0; 65_536];
        while !buffer.bytes.is_empty() {
            let n = reader.read(&mut part).unwrap();
            all.extend_from_slice(&part[..n]);
            buffer.flush(sink, Time::ZERO);
        }
        let n = reader.read(&mut part).unwrap();
        all.extend_from_slice(&part[..n]);
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn a_full_pipe_is_followed_by_a_full_buffer_and_then_lines_are_counted_and_dropped() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        let kept = fill(&mut buffer, &sink);
        assert!(buffer.bytes.len() <= LOG_BUFFER_OF_PEERS);
        assert!(buffer.bytes.len() > LOG_BUFFER_OF_PEERS - 200);
        add(&mut buffer, b"lost\n", Origin::Peer, &sink, Time::ZERO);
        let mut long = vec![b'y'; 200];
        long.push(b'\n');
        add(&mut buffer, &long, Origin::Daemon, &sink, Time::ZERO);
        assert_eq!(buffer.take_lost(), None, "the report does not fit");
        let text = drain(&mut buffer, &mut reader, &sink);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), kept + 1 + 1);
        assert_eq!(lines[kept], "lost", "a shorter line still fits");
        assert!(
            lines[kept + 1].starts_with("yyy"),
            "the last room is for the daemon"
        );
        assert_eq!(buffer.take_lost(), Some(1));
        assert_eq!(buffer.take_lost(), None);
    }

    #[test]
    fn what_waits_is_written_again_after_a_pause_that_doubles_and_never_when_nothing_waits() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        assert_eq!(buffer.poll_timeout(), None);
        fill(&mut buffer, &sink);
        let mut now = buffer.poll_timeout().unwrap();
        assert_eq!(now, Time::ZERO + LOG_RETRY_INITIAL);
        let mut pause = LOG_RETRY_INITIAL;
        for _ in 0..10 {
            buffer.flush(&sink, now);
            pause = (pause * 2).min(LOG_RETRY_MAX);
            let next = buffer.poll_timeout().unwrap();
            assert_eq!(next, now + pause);
            add(&mut buffer, &vec![b'x'; 60_000], Origin::Peer, &sink, now);
            assert_eq!(
                buffer.poll_timeout(),
                Some(next),
                "a line does not delay it"
            );
            now = next;
        }
        drain(&mut buffer, &mut reader, &sink);
        assert_eq!(buffer.poll_timeout(), None);
        assert!(buffer.bytes.capacity() <= KEPT, "memory is given back");
    }

    #[test]
    fn lines_without_a_reader_are_counted_and_nothing_waits_for_one() {
        let (reader, sink) = pipe();
        drop(reader);
        let mut buffer = Buffer::default();
        for count in 1..=3 {
            add(&mut buffer, b"line\n", Origin::Daemon, &sink, Time::ZERO);
            assert_eq!((buffer.lost, buffer.poll_timeout()), (count, None));
            assert_eq!(buffer.take_lost(), None, "the report would be lost, too");
        }
    }

    #[test]
    fn a_line_after_half_a_line_begins_at_the_left() {
        let (mut reader, sink) = pipe();
        let mut buffer = Buffer::default();
        let (bytes, start) = buffer.begin_line();
        bytes.extend_from_slice(b"half");
        buffer.end_line(start, Origin::Peer, &sink, Time::ZERO);
        add(&mut buffer, b"next\n", Origin::Peer, &sink, Time::ZERO);
        drop(sink);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "half\nnext\n");
    }
}
