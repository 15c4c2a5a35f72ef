//! One unary call with an arbitrary answer.

use plugind::grpc::{CallError, Client, Event};
use plugind::http2::Endpoint as _;
use plugind::time::Time;

use super::{CONNECTION_BOUND, wire};

/// Returns the outcome of a call that accepts `limit` octets when its server sends `answer` after
/// its SETTINGS, in pieces of these sizes, and closes the connection.
pub(super) fn outcome(limit: usize, answer: &[u8], pieces: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut client = Client::new(Time::ZERO);
    let mut ended = Vec::new();
    let deadline = Time::from_millis(1000);
    let call = client.unary("/a.B/C", b"request", limit, deadline, Time::ZERO);
    feed(&mut client, &wire::settings(&[]), &mut ended);
    let mut rest = answer;
    for size in pieces.iter().cycle().take(answer.len()) {
        let (piece, behind) = rest.split_at(rest.len().min(1 + usize::from(*size)));
        feed(&mut client, piece, &mut ended);
        rest = behind;
    }
    feed(&mut client, rest, &mut ended);
    client.eof(Time::ZERO);
    ended.extend(client.poll_event(Time::ZERO));
    assert_eq!(ended.len(), 1, "a call ends once");
    let Some(Event::Finished {
        call: finished,
        result,
    }) = ended.pop()
    else {
        panic!("a call ends");
    };
    assert_eq!(finished, call);
    result
}

/// Feeds octets to the client, which also writes and emits events as it reads.
fn feed(client: &mut Client, mut octets: &[u8], ended: &mut Vec<Event>) {
    loop {
        let count = client.receive_from(octets, Time::ZERO);
        if count == 0 {
            return;
        }
        octets = &octets[count..];
        while let Some(event) = client.poll_event(Time::ZERO) {
            ended.push(event);
        }
        client.sent(client.transmit().len(), Time::ZERO);
        assert!(client.mem_used() <= CONNECTION_BOUND);
    }
}
