//! Recorded octets of real servers, fed to a client in memory in parts of every size: how the
//! octets were split must not make a difference.

use plugind::grpc::{Client, Code, Event};
use plugind::http2::Endpoint as _;
use plugind::proto::pluginregistration::registration;
use plugind::time::Time;
use prost::Message as _;

use super::{h2_plugin, info};
use crate::support::caller::{Caller, Outcome};
use crate::support::frames::{END_STREAM, Frame, HEADERS};
use crate::support::server::{Call, Server};
use crate::support::tonic_plugin::Plugin;

/// The outcome of feeding a server's octets to a client.
#[derive(Debug, PartialEq, Eq)]
struct Replay {
    outcomes: Vec<Outcome>,
    sent: Vec<u8>,
}

impl Replay {
    /// Feeds these parts in order to a client that calls `GetInfo`.
    fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::run(parts, false)
    }

    /// Feeds these octets in one part, and then ends the connection.
    fn to_the_end(octets: &[u8]) -> Self {
        Self::run([octets], true)
    }

    fn run<'a>(parts: impl IntoIterator<Item = &'a [u8]>, ends: bool) -> Self {
        let now = Time::ZERO;
        let mut client = Client::new(now);
        client.unary(
            registration::GET_INFO,
            &[],
            1 << 20,
            Time::from_millis(1000),
            now,
        );
        let mut replay = Self {
            outcomes: Vec::new(),
            sent: Vec::new(),
        };
        replay.settle(&mut client);
        for part in parts {
            let mut rest = part;
            while !rest.is_empty() {
                let count = client.receive_from(rest, now);
                assert!(count > 0, "nothing to send and no room to receive");
                rest = &rest[count..];
                replay.settle(&mut client);
            }
        }
        if ends {
            client.eof(now);
            replay.settle(&mut client);
        }
        replay
    }

    /// Takes everything that the client has to send, and its events.
    fn settle(&mut self, client: &mut Client) {
        while let Some(Event::Finished { result, .. }) = client.poll_event(Time::ZERO) {
            self.outcomes.push(result);
        }
        let count = client.transmit().len();
        self.sent.extend_from_slice(client.transmit());
        client.sent(count, Time::ZERO);
    }
}

/// Returns what the server sends in the course of one `GetInfo`.
fn recorded(server: &Server) -> Vec<u8> {
    let mut caller = Caller::connect(server.socket());
    let _ = caller.get_info();
    caller.received.concat()
}

/// Returns what real servers send: replies, a status behind headers, a status alone, many frames.
fn recordings() -> Vec<Vec<u8>> {
    let unavailable = tonic::Status::unavailable("not now: 100 %");
    [
        h2_plugin(),
        Plugin::answering(Ok(info())).serve(),
        Plugin::answering(Err(unavailable)).serve(),
        Server::h2(|call: Call| call.fail(7, "no%20way")),
    ]
    .iter()
    .map(recorded)
    .collect()
}

#[test]
fn a_reply_split_at_any_octet_is_the_same_reply() {
    for octets in recordings() {
        let whole = Replay::of([&*octets]);
        assert_eq!(whole.outcomes.len(), 1);
        for at in 0..=octets.len() {
            let (head, tail) = octets.split_at(at);
            assert_eq!(Replay::of([head, tail]), whole, "split at {at}");
        }
    }
}

#[test]
fn a_reply_in_parts_of_any_size_is_the_same_reply() {
    for octets in recordings() {
        let whole = Replay::of([&*octets]);
        for size in 1..octets.len() {
            assert_eq!(Replay::of(octets.chunks(size)), whole, "parts of {size}");
        }
    }
}

#[test]
fn a_large_reply_octet_by_octet_is_the_same_reply() {
    let large = vec![7; 200_000];
    let server = Server::h2({
        let large = large.clone();
        move |call: Call| call.reply(&large)
    });
    let mut caller = Caller::connect(server.socket());
    let reply = caller.unary(registration::GET_INFO, &()).unwrap();
    assert!(reply == large);
    let octets = caller.received.concat();
    let whole = Replay::of([&*octets]);
    assert!(whole.outcomes == [Ok(large)]);
    for size in [1, 7, 1000, 16_384] {
        assert!(Replay::of(octets.chunks(size)) == whole, "parts of {size}");
    }
}

#[test]
fn a_reply_cut_off_at_any_octet_is_unavailable() {
    let octets = recorded(&h2_plugin());
    let trailers_end = trailers_end(&octets);
    for at in 0..octets.len() {
        let outcomes = Replay::to_the_end(&octets[..at]).outcomes;
        let codes: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().map_err(plugind::grpc::CallError::code))
            .collect();
        if at < trailers_end {
            assert_eq!(codes, [Err(Code::Unavailable)], "cut at {at}");
        } else {
            assert_eq!(codes, [Ok(&info().encode_to_vec())], "cut at {at}");
        }
    }
}

/// Returns the position where the call's last frame ends.
fn trailers_end(octets: &[u8]) -> usize {
    let mut rest = octets.to_vec();
    let mut end = 0;
    while let Some(frame) = Frame::take(&mut rest) {
        if frame.kind == HEADERS && frame.has(END_STREAM) {
            end = octets.len() - rest.len();
        }
    }
    end
}
