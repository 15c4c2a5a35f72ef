//! A plugin that exists only in memory: its answers are a script, and it records what it receives.
//!
//! It implements just enough HTTP/2 to serve two unary methods and one stream to a client that
//! sends no dynamic table references, and does not use the crate's own framing.

#![allow(dead_code, reason = "each test needs a part of it")]

use std::collections::BTreeMap;

use plugind::hpack::Decoder;
use plugind::proto::pluginregistration::{PluginInfo, RegistrationStatus, registration};
use prost::Message as _;

/// The reaction of a plugin when one of its methods is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Replies with a good message.
    Good,
    /// Replies trailers-only with this gRPC status and message.
    Status(u16, &'static str),
    /// Replies with these octets as its message.
    Octets(Vec<u8>),
    /// Never replies.
    Silence,
    /// Closes the connection.
    Close,
    /// Sends these messages and leaves the stream open for more.
    Stream(Vec<Vec<u8>>),
    /// Announces a message of this many octets, and sends none of it.
    Announce(u32),
}

/// A plugin's script, and what the plugin has received.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) info: PluginInfo,
    pub(crate) get_info: Answer,
    pub(crate) notify: Answer,
    /// The user that its process runs as.
    pub(crate) uid: u32,
    /// The statuses that it received by NotifyRegistrationStatus.
    pub(crate) notified: Vec<RegistrationStatus>,
    /// The number of GetInfo calls that it received.
    pub(crate) asked: usize,
    /// The answers to other methods, by the method's path.
    pub(crate) services: BTreeMap<&'static str, Answer>,
    /// The other methods that were called, in order.
    pub(crate) called: Vec<String>,
    /// What is sent, instead of HTTP/2, after the first octets of a connection.
    pub(crate) babble: Option<Vec<u8>>,
}

/// The method whose stream every plugin leaves open, unless its services say otherwise.
pub(crate) const WATCH: &str = "/v1beta1.DevicePlugin/ListAndWatch";

impl Script {
    /// Returns a plugin that does not answer GetInfo.
    pub(crate) fn silent() -> Self {
        Self {
            get_info: Answer::Silence,
            ..Self::good("CSIPlugin", "silent")
        }
    }

    /// Returns a plugin that does everything right.
    pub(crate) fn good(kind: &str, name: &str) -> Self {
        Self {
            info: PluginInfo {
                r#type: kind.into(),
                name: name.into(),
                endpoint: String::new(),
                supported_versions: vec!["1.0.0".into()],
            },
            get_info: Answer::Good,
            notify: Answer::Good,
            uid: 0,
            notified: Vec::new(),
            asked: 0,
            services: BTreeMap::new(),
            called: Vec::new(),
            babble: None,
        }
    }

    /// Returns a server of these methods that is not a plugin itself.
    pub(crate) fn serving<const N: usize>(services: [(&'static str, Answer); N]) -> Self {
        Self {
            services: services.into(),
            ..Self::good("", "")
        }
    }

    /// Returns the plugin with another answer to GetInfo.
    pub(crate) fn with_get_info(self, get_info: Answer) -> Self {
        Self { get_info, ..self }
    }

    /// Returns the plugin with another answer to NotifyRegistrationStatus.
    pub(crate) fn with_notify(self, notify: Answer) -> Self {
        Self { notify, ..self }
    }

    /// Returns the plugin as the process of this user.
    pub(crate) fn with_uid(self, uid: u32) -> Self {
        Self { uid, ..self }
    }

    /// Returns the plugin with this endpoint.
    pub(crate) fn at(mut self, endpoint: &str) -> Self {
        endpoint.clone_into(&mut self.info.endpoint);
        self
    }

    /// Returns the plugin with these versions.
    pub(crate) fn with_versions(mut self, versions: &[&str]) -> Self {
        self.info.supported_versions = versions.iter().map(|&it| it.to_owned()).collect();
        self
    }

    /// Returns the last status that the plugin received: whether it is registered, and the error.
    pub(crate) fn last_notified(&self) -> Option<(bool, &str)> {
        self.notified
            .last()
            .map(|status| (status.plugin_registered, status.error.as_str()))
    }
}

/// The plugin's end of one connection.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    received: Vec<u8>,
    greeted: bool,
    decoder: Option<Decoder>,
    paths: BTreeMap<u32, String>,
    bodies: BTreeMap<u32, Vec<u8>>,
    /// The streams on which more messages may follow.
    open: Vec<u32>,
}

/// What a plugin does after it has read octets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaction {
    pub(crate) write: Vec<u8>,
    pub(crate) close: bool,
}

/// The answer to [`WATCH`] of a plugin whose services do not have it.
static OPEN: Answer = Answer::Stream(Vec::new());

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

impl Serving {
    /// Reads octets from the client, and returns the plugin's reaction.
    pub(crate) fn read(&mut self, script: &mut Script, bytes: &[u8]) -> Reaction {
        let mut reaction = Reaction::default();
        if let Some(babble) = &script.babble {
            reaction.write.clone_from(babble);
            reaction.close = true;
            return reaction;
        }
        self.received.extend_from_slice(bytes);
        if !self.greeted {
            if self.received.len() < PREFACE.len() {
                return reaction;
            }
            assert_eq!(&self.received[..PREFACE.len()], PREFACE);
            self.received.drain(..PREFACE.len());
            self.greeted = true;
            frame(&mut reaction.write, SETTINGS, 0, 0, &[]);
        }
        while let Some((kind, flags, stream, payload)) = self.next_frame() {
            match kind {
                SETTINGS if flags & ACK == 0 => frame(&mut reaction.write, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(&mut reaction.write, PING, ACK, 0, &payload),
                HEADERS => {
                    let path = self.path(&payload);
                    self.paths.insert(stream, path);
                }
                DATA => self
                    .bodies
                    .entry(stream)
                    .or_default()
                    .extend_from_slice(&payload),
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                self.called(script, stream, &mut reaction);
            }
        }
        reaction
    }

    fn next_frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.received.get(..9)?;
        let length =
            (usize::from(head[0]) << 16) | (usize::from(head[1]) << 8) | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.received.get(9..9 + length)?.to_vec();
        self.received.drain(..9 + length);
        Some((kind, flags, stream, payload))
    }

    fn path(&mut self, block: &[u8]) -> String {
        let mut path = String::new();
        let decoder = self.decoder.get_or_insert_with(|| Decoder::new(4096));
        let decoded = decoder.decode(block, &mut |name, value| {
            if name == b":path" {
                path = String::from_utf8_lossy(value).into_owned();
            }
        });
        assert!(decoded.is_ok(), "the client's header block can be decoded");
        path
    }

    fn called(&mut self, script: &mut Script, stream: u32, reaction: &mut Reaction) {
        let path = self.paths.remove(&stream).unwrap_or_default();
        let body = self.bodies.remove(&stream).unwrap_or_default();
        let (answer, good) = if path == registration::GET_INFO {
            script.asked += 1;
            (&script.get_info, script.info.encode_to_vec())
        } else if path == registration::NOTIFY_REGISTRATION_STATUS {
            let status = RegistrationStatus::decode(&body[5..]).expect("a good request");
            script.notified.push(status);
            (&script.notify, Vec::new())
        } else {
            script.called.push(path.clone());
            match script.services.get(path.as_str()) {
                Some(answer) => (answer, Vec::new()),
                None if path == WATCH => (&OPEN, Vec::new()),
                None => return status(&mut reaction.write, stream, 12, "unknown method"),
            }
        };
        match answer {
            Answer::Good => reply(&mut reaction.write, stream, &good),
            Answer::Octets(octets) => reply(&mut reaction.write, stream, octets),
            Answer::Status(code, message) => status(&mut reaction.write, stream, *code, message),
            Answer::Silence => {}
            Answer::Close => reaction.close = true,
            Answer::Stream(messages) => {
                head(&mut reaction.write, stream);
                for message in messages {
                    data(&mut reaction.write, stream, &with_prefix(message));
                }
                self.open.push(stream);
            }
            Answer::Announce(octets) => {
                head(&mut reaction.write, stream);
                let mut prefix = vec![0];
                prefix.extend_from_slice(&octets.to_be_bytes());
                frame(&mut reaction.write, DATA, 0, stream, &prefix);
            }
        }
    }

    /// Returns more messages for every open stream, one behind the other.
    pub(crate) fn push(&self, messages: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let mut out = Vec::new();
        let messages = messages.iter().flat_map(|it| with_prefix(it.as_ref()));
        let messages: Vec<u8> = messages.collect();
        for stream in &self.open {
            data(&mut out, *stream, &messages);
        }
        out
    }

    /// Returns the beginning of a message of 4 MiB for every open stream.
    pub(crate) fn push_part(&self, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let part = [&[0, 0, 0x40, 0, 0], part].concat();
        for stream in &self.open {
            for part in part.chunks(16_384) {
                frame(&mut out, DATA, 0, *stream, part);
            }
        }
        out
    }

    /// Ends every open stream with this gRPC status.
    pub(crate) fn end(&mut self, code: u16) -> Vec<u8> {
        let mut out = Vec::new();
        for stream in std::mem::take(&mut self.open) {
            trailers(&mut out, stream, code);
        }
        out
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len())
        .expect("a small frame")
        .to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a literal field with a literal name, never indexed.
fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0x10);
    for text in [name, value] {
        block.push(u8::try_from(text.len()).expect("a short text"));
        block.extend_from_slice(text.as_bytes());
    }
}

fn response_head() -> Vec<u8> {
    let mut block = vec![0x88];
    field(&mut block, "content-type", "application/grpc");
    block
}

fn head(out: &mut Vec<u8>, stream: u32) {
    frame(out, HEADERS, END_HEADERS, stream, &response_head());
}

fn reply(out: &mut Vec<u8>, stream: u32, message: &[u8]) {
    head(out, stream);
    data(out, stream, &with_prefix(message));
    trailers(out, stream, 0);
}

/// Appends content, in as many frames as it needs.
fn data(out: &mut Vec<u8>, stream: u32, content: &[u8]) {
    for part in content.chunks(16_384) {
        frame(out, DATA, 0, stream, part);
    }
}

fn with_prefix(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short reply");
    [&[0][..], &length.to_be_bytes(), message].concat()
}

fn trailers(out: &mut Vec<u8>, stream: u32, code: u16) {
    let mut block = Vec::new();
    field(&mut block, "grpc-status", &code.to_string());
    frame(out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
}

fn status(out: &mut Vec<u8>, stream: u32, code: u16, message: &str) {
    let mut block = response_head();
    field(&mut block, "grpc-status", &code.to_string());
    field(&mut block, "grpc-message", message);
    frame(out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
}
