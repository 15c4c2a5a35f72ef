//! Our header compression against the `h2` crate's, in both directions.
//!
//! `h2` shows its header compression only through a connection, so one end of each connection here
//! is `h2` and the other is frames made by hand.

use crate::support::frames::{
    ACK, CONTINUATION, END_HEADERS, END_STREAM, Frame, HEADERS, PREFACE, SETTINGS,
};
use http::{HeaderName, HeaderValue, Request};
use plugind::hpack::{Decoder, Encoder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

#[tokio::test]
async fn h2_decodes_the_requests_that_we_encode() {
    let mut random = Random(1);
    let sent: Vec<Fields> = (0..50).map(|_| random.request()).collect();
    assert_eq!(
        read_by_h2(&sent).await,
        sent.iter().map(sorted).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn h2_decodes_values_of_every_length_around_a_boundary() {
    let lengths = [0, 1, 126, 127, 128, 254, 255, 256, 5000, 16_000];
    let request = |length: usize| {
        let mut fields = pseudo_fields();
        fields.push((b"user-agent".to_vec(), vec![b'a'; length]));
        fields
    };
    let sent: Vec<Fields> = lengths.map(request).to_vec();
    assert_eq!(
        read_by_h2(&sent).await,
        sent.iter().map(sorted).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn we_decode_the_requests_that_h2_encodes() {
    let mut random = Random(2);
    let sent: Vec<Fields> = (0..100).map(|_| random.request()).collect();
    let mut peer = Peer::new(&[]).await;
    peer.is_sent(&sent).await;
    assert!(peer.decoder.mem_used() > 0, "h2 used its dynamic table");
    assert!(peer.decoder.mem_used() <= 2 * DEFAULT_TABLE);
}

#[tokio::test]
async fn we_decode_what_h2_encodes_into_a_table_of_any_size() {
    for (seed, table_size) in [(3, 0), (4, 1), (5, 64), (6, 200), (7, 1000)] {
        let mut random = Random(seed);
        let sent: Vec<Fields> = (0..40).map(|_| random.request()).collect();
        let mut peer = Peer::new(&[(HEADER_TABLE_SIZE, table_size)]).await;
        peer.is_sent(&sent).await;
        assert!(
            peer.first_block[0] >> 5 == 0b001,
            "h2 says that it uses {table_size} octets and no more"
        );
    }
}

#[tokio::test]
async fn we_follow_a_table_that_shrinks_and_grows_between_requests() {
    let mut random = Random(8);
    let mut peer = Peer::new(&[]).await;
    for table_size in [4096, 100, 2000, 0, 4096, 300] {
        peer.settings(&[(HEADER_TABLE_SIZE, table_size)]).await;
        let sent: Vec<Fields> = (0..10).map(|_| random.request()).collect();
        peer.is_sent(&sent).await;
    }
}

/// Sends requests with these fields, encoded by us, to an `h2` server. Returns the fields that the
/// server read, sorted.
async fn read_by_h2(requests: &[Fields]) -> Vec<Fields> {
    let (mut ours, theirs) = duplex(1 << 20);
    let mut octets = PREFACE.to_vec();
    octets.extend(Frame::settings(&[]).octets());
    for (stream, fields) in (1..).step_by(2).zip(requests) {
        let mut block = Vec::new();
        let mut encoder = Encoder::begin(&mut block);
        for (name, value) in fields {
            encoder.field(name, value);
        }
        octets.extend(Frame::new(HEADERS, END_STREAM | END_HEADERS, stream, block).octets());
    }
    ours.write_all(&octets).await.unwrap();
    let mut server = h2::server::handshake(theirs).await.unwrap();
    let mut read = Vec::new();
    while read.len() < requests.len() {
        // The answer is dropped, and with it the stream: this test is only about headers.
        let (request, _) = server.accept().await.unwrap().unwrap();
        read.push(fields_of(&request));
    }
    read
}

/// The peer of an `h2` client: reads frames and sends only what a test asks for.
struct Peer {
    client: h2::client::SendRequest<bytes::Bytes>,
    io: DuplexStream,
    unread: Vec<u8>,
    decoder: Decoder,
    /// The first header block that was received.
    first_block: Vec<u8>,
}

impl Peer {
    /// Returns the peer of a client that has received and acknowledged these settings.
    async fn new(settings: &[(u16, u32)]) -> Self {
        let (io, theirs) = duplex(1 << 20);
        let (client, connection) = h2::client::handshake(theirs).await.unwrap();
        tokio::spawn(connection);
        let mut peer = Self {
            client,
            io,
            unread: Vec::new(),
            decoder: Decoder::new(DEFAULT_TABLE),
            first_block: Vec::new(),
        };
        let mut preface = [0; PREFACE.len()];
        peer.io.read_exact(&mut preface).await.unwrap();
        peer.settings(settings).await;
        peer
    }

    /// Sends settings and waits until they are acknowledged, and so in effect.
    async fn settings(&mut self, settings: &[(u16, u32)]) {
        let octets = Frame::settings(settings).octets();
        self.io.write_all(&octets).await.unwrap();
        loop {
            let frame = self.frame().await;
            if frame.kind == SETTINGS && frame.has(ACK) {
                return;
            }
        }
    }

    /// Has the client send requests with these fields, and asserts that we decode each.
    async fn is_sent(&mut self, requests: &[Fields]) {
        for fields in requests {
            let (_, _) = self.client.send_request(request(fields), true).unwrap();
            let block = self.header_block().await;
            if self.first_block.is_empty() {
                self.first_block.clone_from(&block);
            }
            let mut decoded = Fields::new();
            self.decoder
                .decode(&block, &mut |name, value| {
                    decoded.push((name.to_vec(), value.to_vec()));
                })
                .unwrap();
            assert_eq!(sorted(&decoded), sorted(fields));
        }
    }

    /// Returns the next complete header block.
    async fn header_block(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        loop {
            let frame = self.frame().await;
            if frame.kind == HEADERS || frame.kind == CONTINUATION {
                block.extend(&frame.payload);
                if frame.has(END_HEADERS) {
                    return block;
                }
            }
        }
    }

    async fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = Frame::take(&mut self.unread) {
                return frame;
            }
            assert!(
                self.io.read_buf(&mut self.unread).await.unwrap() > 0,
                "end of stream"
            );
        }
    }
}

/// A generator of numbers that are the same in every run: xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// Returns the fields of a request: some that every request has, some repeated, some new.
    fn request(&mut self) -> Fields {
        let mut fields = pseudo_fields();
        for _ in 0..self.below(12) {
            let name = match self.below(3) {
                0 => STATIC_NAMES[self.below(STATIC_NAMES.len())].to_owned(),
                1 => format!("x-{}", self.below(20)),
                _ => format!("x-{:x}", self.next()),
            };
            let value = match self.below(3) {
                0 => b"again".to_vec(),
                1 => self.below(1000).to_string().into_bytes(),
                _ => (0..self.below(120)).map(|_| self.visible()).collect(),
            };
            fields.push((name.into_bytes(), value));
        }
        fields
    }

    /// Returns an octet that is allowed anywhere in a field value.
    fn visible(&mut self) -> u8 {
        match u8::try_from(0x21 + self.below(0xdf)).unwrap() {
            0x7f => b'~',
            octet => octet,
        }
    }
}

/// Names of the static table that do not concern the connection or the length of the body.
const STATIC_NAMES: [&str; 10] = [
    "accept",
    "age",
    "cache-control",
    "content-type",
    "date",
    "etag",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
];

/// RFC 9113 §6.5.2.
const HEADER_TABLE_SIZE: u16 = 0x1;

/// The table size until a setting changes it (RFC 9113 §6.5.2).
const DEFAULT_TABLE: usize = 4096;

fn pseudo_fields() -> Fields {
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/pluginregistration.Registration/GetInfo"),
        (":authority", "localhost"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec()
}

/// Returns a request with these fields, the first four of which are its pseudo-header fields.
fn request(fields: &Fields) -> Request<()> {
    let mut request = Request::post("http://localhost/pluginregistration.Registration/GetInfo")
        .body(())
        .unwrap();
    for (name, value) in &fields[4..] {
        let name = HeaderName::from_bytes(name).unwrap();
        let mut header = HeaderValue::from_bytes(value).unwrap();
        // h2 sends a sensitive value as a literal that must never be indexed.
        header.set_sensitive(value.len() % 7 == 3);
        request.headers_mut().append(name, header);
    }
    request
}

/// Returns the fields of a request as `h2` read it, sorted.
fn fields_of<T>(request: &Request<T>) -> Fields {
    let uri = request.uri();
    let mut fields: Fields = vec![
        (b":method".into(), request.method().as_str().into()),
        (b":scheme".into(), uri.scheme_str().unwrap().into()),
        (b":path".into(), uri.path().into()),
        (
            b":authority".into(),
            uri.authority().unwrap().as_str().into(),
        ),
    ];
    for (name, value) in request.headers() {
        fields.push((name.as_str().into(), value.as_bytes().into()));
    }
    sorted(&fields)
}

/// Returns the fields sorted by name: their order in a request is up to `h2`.
fn sorted(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    fields.sort_unstable();
    fields
}
