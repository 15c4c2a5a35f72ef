//! Nothing is allocated in proportion to what a peer merely announces.
//!
//! The allocator counts, so nothing can be missed: neither what is held, nor what was needed only
//! for a moment. Each announcement is of kilobytes, megabytes or more, in a few octets.

#![allow(unsafe_code)] // An allocator is unsafe.

#[path = "support/frames.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod frames;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use frames::{ANSWER, DATA, END_HEADERS, GOAWAY, HEADERS};
use plugind::config::MAX_DEVICES;
use plugind::grpc::{Client, Event, Incoming, Server};
use plugind::handler::device::Devices;
use plugind::hpack::Decoder;
use plugind::http2::{Connection, Endpoint as _, Event as Http2Event};
use plugind::proto::v1beta1::{Device, ListAndWatchResponse};
use plugind::time::Time;
use prost::Message as _;

/// Announcements in header blocks that begin with `:status: 200`.
const BLOCKS: [(&str, &[u8]); 4] = [
    ("a field of 256 MiB", b"\x88\x40\x01a\x7f\x80\xff\xff\x7f"),
    ("a coded field", b"\x88\x40\x01a\xff\x80\xff\xff\x7f"),
    ("a name of 256 MiB", b"\x88\x40\x7f\x80\xff\xff\x7f"),
    ("16 EiB content", b"\x88\x0f\x0d\x1418446744073709551615"),
];

/// A description of an announcement, and its octets.
type Announcement = (&'static str, fn() -> Vec<u8>);

/// The announcements that either side may make, in whole frames or in parts of one.
const ANNOUNCEMENTS: [Announcement; 5] = [
    ("a frame of 16 KiB", || head(16_384, DATA, 1)),
    ("a frame of 16 MiB", || head(0xff_ffff, DATA, 1)),
    ("headers of 16 KiB", || head(16_384, HEADERS, 1)),
    ("a GOAWAY of 16 KiB", || head(16_384, GOAWAY, 0)),
    ("settings as large as they can be", || {
        let (most, window, frame) = (u32::MAX, 0x7fff_ffff, 0xff_ffff);
        let values = [(1, most), (3, most), (4, window), (5, frame), (6, most)];
        frames::settings(&values)
    }),
];

/// The announced lengths of messages: the limit of most programs, and ours.
const MESSAGES: [u32; 2] = [4 << 20, 16 << 20];

#[test]
fn a_client_allocates_nothing_for_what_a_server_announces() {
    let head = frames::headers(1, &ANSWER, 0);
    let answers = MESSAGES.map(|length| ("a message", [&head[..], &message(length)].concat()));
    for (what, octets) in announcements().chain(answers) {
        let mut client = Client::new(Time::ZERO);
        client.unary("/a.B/C", b"", LIMIT, Time::from_millis(1000), Time::ZERO);
        let octets = [frames::settings(&[]), octets].concat();
        let peak = peak_of(|| {
            assert_eq!(client.receive_from(&octets, Time::ZERO), octets.len());
            while let Some(Event::Finished { .. } | Event::Message { .. }) =
                client.poll_event(Time::ZERO)
            {}
        });
        assert!(peak < BOUND, "{what}: {peak} octets");
        assert!(client.mem_used() < BOUND, "{what}: {}", client.mem_used());
    }
}

#[test]
fn a_server_allocates_nothing_for_what_a_client_announces() {
    let requests = MESSAGES.map(|length| ("a message", message(length)));
    for (what, octets) in announcements().chain(requests) {
        let mut server = Server::new(&["/a.B/C"], LIMIT, Time::ZERO);
        let octets = [
            frames::greeting(),
            // The timeout never expires.
            frames::call(1, "/a.B/C", b"application/grpc", b"99999999H"),
            octets,
        ];
        let octets = octets.concat();
        let peak = peak_of(|| {
            assert_eq!(server.receive_from(&octets, Time::ZERO), octets.len());
            while let Some(Incoming::Called { .. } | Incoming::Ended { .. }) =
                server.poll_event(Time::ZERO)
            {}
        });
        assert!(peak < BOUND, "{what}: {peak} octets");
        assert!(server.mem_used() < BOUND, "{what}: {}", server.mem_used());
    }
}

#[test]
fn a_decoder_allocates_nothing_for_what_a_block_announces() {
    let resized: (_, &[u8]) = ("a table of 4 KiB", b"\x3f\xe1\x1f\x88");
    for (what, block) in BLOCKS.into_iter().chain([resized]) {
        let mut decoder = Decoder::new(4096);
        let peak = peak_of(|| _ = decoder.decode(block, &mut |_, _| {}));
        assert!(peak < 256, "{what}: {peak} octets");
    }
}

/// A message of 4 MiB arrives in pieces: the memory held for it doubles as it grows, and is freed
/// with the message.
#[test]
fn what_comes_is_held_and_no_more_than_twice() {
    let mut client = Client::new(Time::ZERO);
    client.server_streaming("/a.B/C", b"", LIMIT, None, Time::ZERO);
    let mut say = |mut octets: &[u8]| loop {
        let later = &octets[client.receive_from(octets, Time::ZERO)..];
        let event = client.poll_event(Time::ZERO);
        client.sent(client.transmit().len(), Time::ZERO);
        if later.is_empty() {
            break (event, client.mem_used());
        }
        assert_eq!(event, None);
        octets = later;
    };
    say(&frames::settings(&[]));
    say(&frames::headers(1, &ANSWER, 0));
    say(&message(4 << 20));
    let mut came = 0;
    while came < 4 << 20 {
        let piece = vec![7; 1000.min((4 << 20) - came)];
        let (event, held) = say(&frames::frame(DATA, 0, 1, &piece));
        came += piece.len();
        assert!(held <= 2 * came + BOUND, "{held} of {came} octets");
        assert_eq!(event.is_some(), came == 4 << 20);
    }
    let (_, held) = say(b"");
    assert!(held < BOUND, "{held} octets");
}

/// `mem_used` is asserted everywhere: here it is compared with the allocator's count.
#[test]
fn the_memory_that_a_connection_says_it_holds_is_what_it_holds() {
    let before = LIVE.get();
    let mut connection = Connection::client(Time::ZERO);
    let now = Time::ZERO;
    let opened = connection.open(&[(":method", b"POST"), (":path", b"/")], true, now);
    assert!(opened.is_ok());
    let mut octets = frames::settings(&[]);
    // An entry for the table, fields, and half of a frame.
    octets.extend(block(b"\x88\x40\x04name\x05value\x40\x04more\x05value"));
    octets.extend(&frames::frame(DATA, 0, 1, &[7; 500])[..300]);
    assert_eq!(connection.receive_from(&octets, now), octets.len());
    let event = connection.poll_event(now);
    assert!(matches!(event, Some(Http2Event::Response { .. })));
    let held = LIVE.get() - before - i64::try_from(octets.capacity()).expect("few");
    assert_eq!(i64::try_from(connection.mem_used()), Ok(held));
}

#[test]
fn the_memory_that_a_server_says_it_holds_is_what_it_holds() {
    let mut octets = frames::greeting();
    for stream in 0..64 {
        let stream = 2 * stream + 1;
        octets.extend(frames::call(stream, "/a.B/C", b"application/grpc", b""));
        let half_of_it = &frames::message(&[b'm'; 64])[..28];
        octets.extend(frames::frame(DATA, 0, stream, half_of_it));
    }
    let before = LIVE.get();
    let mut server = Server::new(&["/a.B/C"], LIMIT, Time::ZERO);
    let mut rest = &octets[..];
    while !rest.is_empty() {
        rest = &rest[server.receive_from(rest, Time::ZERO)..];
        assert_eq!(server.poll_event(Time::ZERO), None);
    }
    let held = LIVE.get() - before;
    let counted = i64::try_from(server.mem_used()).expect("little");
    assert!((counted - held).abs() < 512, "{counted} of {held} octets");
}

/// A block of 64 KiB is held once while it arrives; beside it are its fields, and each field while
/// it is decoded.
#[test]
fn the_largest_header_blocks_cost_a_multiple_of_their_size() {
    // A literal that Huffman codes expand most: five bits for each `0`.
    let codes = vec![0; 65_000];
    let value = [b"\x88\x00\x01x\xff\xe9\xfa\x03", &codes[..]].concat();
    let field = [&b"\x00\x01x\x7f\x81\x07"[..], &[b'v'; 1024]].concat();
    let many = [b"\x88", &field.repeat(61)[..]].concat();
    for (what, block) in [("a Huffman-coded field", value), ("many fields", many)] {
        let mut client = Client::new(Time::ZERO);
        client.unary("/a.B/C", b"", LIMIT, Time::from_millis(1000), Time::ZERO);
        let mut octets = frames::settings(&[]);
        octets.extend(frames::fragments(1, &block));
        let peak = peak_of(|| {
            let mut rest = &octets[..];
            while !rest.is_empty() {
                rest = &rest[client.receive_from(rest, Time::ZERO)..];
                while let Some(Event::Finished { .. }) = client.poll_event(Time::ZERO) {}
            }
        });

        assert!(block.len() > 60_000 && block.len() <= 64 << 10, "{what}");
        assert!(peak < 5 * block.len(), "{what}: {peak} octets");
        let held = client.mem_used();
        assert!(held < 32 << 10, "{what}: {held} octets");
    }
}

/// A list takes 40 octets for each device, besides its ID and its NUMA nodes. While it is read,
/// there are at most 256 octets for each device besides the message, however short that is.
#[test]
fn a_list_of_devices_takes_no_more_than_its_bound() {
    let ids: [&dyn Fn(usize) -> String; 3] = [
        &|n| format!("dev-{n}"),
        &|n| format!("{n:08x}-0000-4000-8000-00000000{n:04x}"),
        &|_| String::new(),
    ];
    for id in ids {
        let device = |n| Device {
            id: id(n * 7919 % MAX_DEVICES),
            health: "Healthy".to_owned(),
            topology: None,
        };
        let devices = (0..MAX_DEVICES).map(device).collect();
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        let mut list = Devices::default();
        let before = LIVE.get();
        let peak = peak_of(|| list = Devices::from_message(&message).unwrap());
        let held = usize::try_from(LIVE.get() - before).unwrap();
        assert_eq!(held, list.mem_used());
        assert!(held <= message.len() + 40 * list.len());
        let most = message.len() + 256 * MAX_DEVICES;
        assert!(peak <= most, "{peak} octets for {}", message.len());
    }
}

/// Returns everything that either side may announce.
fn announcements() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let frames = ANNOUNCEMENTS.map(|(what, octets)| (what, octets()));
    let blocks = BLOCKS.map(|(what, octets)| (what, block(octets)));
    frames.into_iter().chain(blocks)
}

/// Returns the header of a frame with a payload of this length, none of which is sent.
fn head(length: u32, kind: u8, stream: u32) -> Vec<u8> {
    let [_, l1, l2, l3] = length.to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    vec![l1, l2, l3, kind, 0, s1, s2, s3, s4]
}

/// Returns a HEADERS frame with a complete header block on stream 1.
fn block(octets: &[u8]) -> Vec<u8> {
    frames::frame(HEADERS, END_HEADERS, 1, octets)
}

/// Returns the prefix of a message that is not sent itself.
fn message(length: u32) -> Vec<u8> {
    let [l1, l2, l3, l4] = length.to_be_bytes();
    frames::frame(DATA, 0, 1, &[0, l1, l2, l3, l4])
}

/// Returns the most octets that were allocated at the same time, beyond those before `work`.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap_or_default()
}

/// An allocator that passes every call on, and counts per thread.
struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller gives the same guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, octets: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(octets, layout) }
    }
}

/// Counts octets that are allocated and freed.
fn count(allocated: usize, freed: usize) {
    let by = |octets| i64::try_from(octets).unwrap_or(i64::MAX);
    LIVE.set(LIVE.get() + by(allocated) - by(freed));
    PEAK.set(PEAK.get().max(LIVE.get()));
}

thread_local! {
    /// The allocated octets; negative if this thread freed more than it allocated.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    /// The maximum of `LIVE`.
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest message that is accepted (octets).
const LIMIT: usize = 16 << 20;

/// The most that an announcement may cost: the buffers that any peer costs (octets).
const BOUND: usize = 8 * 1024;
