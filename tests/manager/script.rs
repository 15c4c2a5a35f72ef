//! A plugin that exists only in memory: its answers are a script, and it records what it receives.
//!
//! It implements just enough HTTP/2 to serve two unary methods and one stream to a client that
//! sends no dynamic table references, and does not use the crate's own framing.

use std::collections::BTreeMap;

use plugind::hpack::Decoder;
use plugind::proto::pluginregistration::{PluginInfo, RegistrationStatus, registration};
use plugind::proto::v1beta1::{Device, DevicePluginOptions, ListAndWatchResponse, device_plugin};
use prost::Message as _;

#[path = "../support/frames.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod frames;

use self::frames::{
    ACK, ANSWER, DATA, END_STREAM, HEADERS, LARGEST_FRAME, PING, PREFACE, SETTINGS,
};

/// The reaction of a plugin when one of its methods is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Replies with a good message.
    #[default]
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
#[derive(Clone, Debug, Default)]
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
pub(crate) const WATCH: &str = device_plugin::LIST_AND_WATCH;

/// The method that device plugins state their options by.
pub(crate) const OPTIONS: &str = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;

/// Returns a list of healthy devices; one whose ID ends in `!` is unhealthy.
pub(crate) fn device_list(ids: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let devices = ids.into_iter().map(|id| {
        let (id, health) = match id.as_ref().strip_suffix('!') {
            Some(id) => (id.to_owned(), "Unhealthy"),
            None => (id.as_ref().to_owned(), "Healthy"),
        };
        Device {
            id,
            health: health.to_owned(),
            topology: None,
        }
    });
    let devices = devices.collect();
    ListAndWatchResponse { devices }.encode_to_vec()
}

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
            ..Self::default()
        }
    }

    /// Returns a plugin of a CSI driver that does everything right.
    pub(crate) fn csi(name: &str) -> Self {
        Self::good("CSIPlugin", name)
    }

    /// Returns a device plugin of this resource that answers ListAndWatch with this.
    pub(crate) fn devices(resource: &str, list: Answer) -> Self {
        let options = DevicePluginOptions {
            pre_start_required: true,
            get_preferred_allocation_available: false,
        };
        let options = Answer::Octets(options.encode_to_vec());
        Self {
            services: [(OPTIONS, options), (WATCH, list)].into(),
            ..Self::good("DevicePlugin", resource).with_versions(&["v1beta1"])
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

/// The answer to other methods that are not among the services.
static UNKNOWN: Answer = Answer::Status(12, "unknown method");

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
            reaction.write.extend(frames::settings(&[]));
        }
        while let Some((head, payload)) = frames::take(&mut self.received) {
            let (stream, is_ack) = (head.stream, head.flags & ACK != 0);
            match head.kind {
                SETTINGS if !is_ack => {
                    reaction.write.extend(frames::frame(SETTINGS, ACK, 0, &[]));
                }
                PING if !is_ack => {
                    reaction.write.extend(frames::frame(PING, ACK, 0, &payload));
                }
                HEADERS => {
                    let path = self.path(&payload);
                    self.paths.insert(stream, path);
                }
                DATA => self.bodies.entry(stream).or_default().extend(&payload),
                _ => {}
            }
            if matches!(head.kind, HEADERS | DATA) && head.flags & END_STREAM != 0 {
                self.called(script, stream, &mut reaction);
            }
        }
        reaction
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
                None => (&UNKNOWN, Vec::new()),
            }
        };
        reaction.write.extend(match answer {
            Answer::Good => reply(stream, &good),
            Answer::Octets(octets) => reply(stream, octets),
            Answer::Status(code, message) => status(stream, *code, message),
            Answer::Silence => Vec::new(),
            Answer::Close => {
                reaction.close = true;
                Vec::new()
            }
            Answer::Stream(messages) => {
                self.open.push(stream);
                [frames::headers(stream, &ANSWER, 0), data(stream, messages)].concat()
            }
            Answer::Announce(octets) => {
                let prefix = [&[0][..], &octets.to_be_bytes()].concat();
                let announced = frames::frame(DATA, 0, stream, &prefix);
                [frames::headers(stream, &ANSWER, 0), announced].concat()
            }
        });
    }

    /// Returns more messages for every open stream, one behind the other.
    pub(crate) fn push(&self, messages: &[impl AsRef<[u8]>]) -> Vec<u8> {
        let open = self.open.iter();
        open.flat_map(|stream| data(*stream, messages)).collect()
    }

    /// Returns the beginning of a message of 4 MiB for every open stream.
    pub(crate) fn push_part(&self, part: &[u8]) -> Vec<u8> {
        let part = [&[0, 0, 0x40, 0, 0], part].concat();
        let open = self.open.iter();
        open.flat_map(|stream| content(*stream, &part)).collect()
    }

    /// Ends every open stream with this gRPC status.
    pub(crate) fn end(&mut self, code: u16) -> Vec<u8> {
        let open = std::mem::take(&mut self.open).into_iter();
        open.flat_map(|stream| trailers(stream, code)).collect()
    }
}

fn reply(stream: u32, message: &[u8]) -> Vec<u8> {
    let head = frames::headers(stream, &ANSWER, 0);
    [head, data(stream, &[message]), trailers(stream, 0)].concat()
}

/// Returns messages, one behind the other.
fn data(stream: u32, messages: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let messages = messages.iter();
    let messages: Vec<u8> = messages
        .flat_map(|it| frames::message(it.as_ref()))
        .collect();
    content(stream, &messages)
}

/// Returns content, in as many frames as it needs.
fn content(stream: u32, octets: &[u8]) -> Vec<u8> {
    let parts = octets.chunks(LARGEST_FRAME);
    parts
        .flat_map(|part| frames::frame(DATA, 0, stream, part))
        .collect()
}

fn trailers(stream: u32, code: u16) -> Vec<u8> {
    let code = code.to_string();
    frames::headers(stream, &[(b"grpc-status", code.as_bytes())], END_STREAM)
}

fn status(stream: u32, code: u16, message: &str) -> Vec<u8> {
    let code = code.to_string();
    let status = [
        (&b"grpc-status"[..], code.as_bytes()),
        (b"grpc-message", message.as_bytes()),
    ];
    frames::headers(stream, &[&ANSWER[..], &status].concat(), END_STREAM)
}
