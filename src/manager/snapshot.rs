//! The state that a restart needs, encoded for the state file.
//!
//! Pure. A snapshot is taken at one moment and encoded in pieces, because thousands of plugins are
//! more than one turn of the loop may take. It is never longer than what is read back
//! ([`MAX_STATE_FILE`]): each of [`MAX_SOCKETS`] plugins has a share of that, and those that need
//! more are encoded last and left out when the file is full. No honest plugin needs more, so a
//! plugin with a very long description never costs another one its place.

use std::sync::Arc;

use super::Manager;
use super::registered::Compared;
use super::saved_state::{FORMAT, NO_SOCKET, SavedPlugin};
use crate::config::{MAX_SOCKETS, MAX_STATE_FILE};
use crate::handler::Plugin;
use crate::json::Writer;
use crate::watch::Identity;

/// The plugins that a restart needs, as they were at one moment.
#[derive(Debug)]
pub struct Snapshot {
    boot: String,
    /// The number of the first journal entry that it does not contain, if there is a journal.
    journal: Option<u64>,
    section: Section,
    /// The plugins that have gone and have yet to be deregistered.
    owed: Vec<Arc<Plugin>>,
    plugins: Vec<Saved>,
    /// The plugins that need more than their share.
    large: Vec<Saved>,
    /// Whether the list that is being encoded has an entry.
    is_begun: bool,
    /// The length of the encoded part, and its limit (octets).
    len: usize,
    limit: usize,
    left_out: usize,
}

/// A registered plugin, its socket, and how that socket is recognised after a restart.
#[derive(Debug)]
struct Saved {
    plugin: Arc<Plugin>,
    identity: Identity,
    compared: Compared,
}

/// The part of the file that is encoded next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Head,
    Owed,
    Plugins,
    Large,
    End,
}

impl Manager {
    /// Returns what a restart in this boot needs: the plugins that handlers know, those that were
    /// registered before the last restart and have not been registered again yet, and those that
    /// handlers have yet to deregister.
    pub fn snapshot(&self, boot: &str) -> Snapshot {
        let saved = self.sockets.iter().filter_map(|socket| {
            let (plugin, identity, compared) = socket.saved()?;
            let plugin = plugin.clone();
            Some(Saved {
                plugin,
                identity,
                compared,
            })
        });
        let owed = self.host.owed().cloned().collect();
        Snapshot::new(boot, owed, saved.collect(), MAX_LEN)
    }
}

impl Snapshot {
    fn new(boot: &str, owed: Vec<Arc<Plugin>>, plugins: Vec<Saved>, limit: usize) -> Self {
        Self {
            boot: boot.to_owned(),
            journal: None,
            section: Section::Head,
            owed,
            plugins,
            large: Vec::new(),
            is_begun: false,
            len: 0,
            limit,
            left_out: 0,
        }
    }

    /// Sets the number of the next journal entry: the snapshot contains all before it.
    pub fn set_journal(&mut self, next: u64) {
        self.journal = Some(next);
    }

    /// Encodes the next piece of about `octets`, or as much as takes the same work, which may be
    /// nothing yet. Returns `None` at the end.
    pub fn encode_next(&mut self, octets: usize) -> Option<Vec<u8>> {
        if self.section == Section::End {
            return None;
        }
        let mut piece = Vec::new();
        let mut steps = 0;
        while piece.len() < octets && steps < octets / LEAST && self.section != Section::End {
            self.step(&mut piece);
            steps += 1;
        }
        Some(piece)
    }

    /// Encodes the rest.
    pub fn encode(mut self) -> Vec<u8> {
        self.encode_next(usize::MAX).unwrap_or_default()
    }

    /// Returns the number of plugins left out so far: there was no room, or a path is not UTF-8.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Encodes one entry, or starts the next section.
    fn step(&mut self, piece: &mut Vec<u8>) {
        match self.section {
            Section::Head => {
                let mut head = Vec::new();
                let mut json = Writer(&mut head);
                json.open(b'{');
                json.key("format").text(FORMAT);
                json.key("boot").text(&self.boot);
                if let Some(next) = self.journal {
                    json.key("journal").number(next);
                }
                self.begin(piece, &head, "owed", Section::Owed);
            }
            Section::Owed => match self.owed.pop() {
                Some(plugin) => {
                    self.add(piece, &Saved::owed(plugin));
                }
                None => self.begin(piece, b"]", "plugins", Section::Plugins),
            },
            Section::Plugins => match self.plugins.pop() {
                Some(saved) if saved.is_larger_than(self.share()) => self.large.push(saved),
                Some(saved) => {
                    self.add(piece, &saved);
                }
                None => self.section = Section::Large,
            },
            Section::Large => self.add_large(piece),
            Section::End => {}
        }
    }

    /// Encodes one of the plugins that need more than their share, or the end of the file.
    fn add_large(&mut self, piece: &mut Vec<u8>) {
        let Some(saved) = self.large.pop() else {
            piece.extend_from_slice(END);
            self.section = Section::End;
            return;
        };
        if !self.add(piece, &saved) {
            // Searching for one that fits would be unbounded work.
            self.left_out += self.large.drain(..).count();
        }
    }

    /// Ends the previous part, and begins a list.
    fn begin(&mut self, piece: &mut Vec<u8>, before: &[u8], list: &str, section: Section) {
        let start = piece.len();
        for part in [before, b",\n\"", list.as_bytes(), b"\":["] {
            piece.extend_from_slice(part);
        }
        self.len += piece.len() - start;
        self.section = section;
        self.is_begun = false;
    }

    /// Returns the room that every plugin is guaranteed (octets).
    fn share(&self) -> usize {
        self.limit / MAX_SOCKETS
    }

    /// Encodes a plugin if there is room for it. Returns whether there was.
    fn add(&mut self, piece: &mut Vec<u8>, saved: &Saved) -> bool {
        let encoded = SavedPlugin::of(&saved.plugin, saved.identity, saved.compared);
        let encoded = encoded.map(|saved| {
            let mut encoded = Vec::new();
            saved.write(&mut Writer(&mut encoded));
            encoded
        });
        let separator: &[u8] = if self.is_begun { b",\n" } else { b"\n" };
        let room = self.limit.saturating_sub(self.len);
        let Some(encoded) = encoded.filter(|it| separator.len() + it.len() <= room) else {
            self.left_out += 1;
            return false;
        };
        piece.extend_from_slice(separator);
        piece.extend_from_slice(&encoded);
        self.len += separator.len() + encoded.len();
        self.is_begun = true;
        true
    }
}

impl Saved {
    /// Returns the entry of a plugin whose socket has gone.
    fn owed(plugin: Arc<Plugin>) -> Self {
        Self {
            plugin,
            identity: NO_SOCKET,
            compared: Compared::Identity,
        }
    }

    /// Returns whether it may take more than its share when it is encoded.
    fn is_larger_than(&self, share: usize) -> bool {
        let plugin = &self.plugin;
        let versions = plugin.versions.iter().map(|it| it.len() + QUOTES);
        let paths = plugin.endpoint.as_os_str().len() + plugin.socket.as_os_str().len();
        let text = plugin.kind.len() + plugin.name.len() + paths + versions.sum::<usize>();
        text * LONGEST_ESCAPE + FIELDS > share
    }
}

/// The maximum length of the head, the ends of the lists and the separators (octets).
const FRAME: usize = 4096;

/// The maximum length of everything but the end (octets).
const MAX_LEN: usize = MAX_STATE_FILE - FRAME;

/// The end of the file.
const END: &[u8] = b"\n]}\n";

/// The maximum length of one octet of text when it is encoded: `\u0001`.
const LONGEST_ESCAPE: usize = 6;

/// The approximate minimum length of an encoded plugin, which is also what a step without output
/// counts for (octets).
const LEAST: usize = 256;

/// The maximum length of the field names and the numbers, with the separator before the next plugin
/// (octets).
const FIELDS: usize = 256;

/// The overhead of a text in a list (octets).
const QUOTES: usize = 3;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::manager::SavedState;

    const BOOT: &str = "0a1b-2c3d";

    /// Returns a plugin whose encoded form consists mostly of this much text.
    fn plugin(name: &str, text: usize) -> Arc<Plugin> {
        Arc::new(Plugin {
            kind: "CSIPlugin".into(),
            name: name.into(),
            endpoint: Path::new("/p/a.sock").into(),
            versions: vec!["\u{1}".repeat(text)],
            socket: Path::new(&format!("/r/{name}.sock")).into(),
        })
    }

    fn saved(name: &str, text: usize) -> Saved {
        let identity = Identity {
            device: 1,
            inode: 2,
            btime: (3, 4),
        };
        Saved {
            plugin: plugin(name, text),
            identity,
            compared: Compared::Identity,
        }
    }

    fn decode(content: &[u8]) -> SavedState {
        SavedState::decode(content, BOOT).expect("it was just encoded")
    }

    #[test]
    fn what_is_encoded_in_small_pieces_is_what_is_encoded_as_a_whole() {
        let snapshot = || {
            let plugins = ["b", "c", "d"].map(|name| saved(name, 10)).into();
            Snapshot::new(BOOT, vec![plugin("a", 10)], plugins, MAX_LEN)
        };
        let whole = snapshot().encode();
        let (mut pieces, mut snapshot) = (Vec::new(), snapshot());
        let mut count = 0;
        while let Some(piece) = snapshot.encode_next(LEAST) {
            pieces.extend(piece);
            count += 1;
        }
        assert!(count > 4, "{count} pieces");
        assert_eq!(pieces, whole);
        assert_eq!(decode(&whole).len(), 3);
    }

    #[test]
    fn nothing_to_save_is_a_file_without_plugins() {
        let nothing = Snapshot::new(BOOT, Vec::new(), Vec::new(), MAX_LEN).encode();
        assert!(decode(&nothing).is_empty());
    }

    #[test]
    fn what_is_encoded_is_never_longer_than_what_is_read() {
        let plugins: Vec<_> = (0..40).map(|n| saved(&format!("{n}"), LARGE)).collect();
        let mut snapshot = Snapshot::new(BOOT, Vec::new(), plugins, LIMIT);
        let content = snapshot.encode_next(usize::MAX).expect("it is all of it");
        assert!(content.len() <= LIMIT + END.len(), "{}", content.len());
        let left_out = snapshot.left_out();
        assert!((10..30).contains(&left_out), "{left_out} of 40");
        assert_eq!(decode(&content).len(), 40 - left_out);
        assert!(MAX_LEN + END.len() <= MAX_STATE_FILE);
    }

    #[test]
    fn plugins_of_usual_size_are_saved_whatever_the_others_need() {
        let large = (0..40).map(|n| saved(&format!("large-{n}"), LARGE));
        let usual = (0..100).map(|n| saved(&format!("usual-{n}"), 100));
        let plugins = usual.chain(large).collect();
        let mut snapshot = Snapshot::new(BOOT, Vec::new(), plugins, LIMIT);
        let content = snapshot.encode_next(usize::MAX).expect("it is all of it");
        let content = String::from_utf8(content).expect("JSON is UTF-8");
        assert_eq!(content.matches("\"usual-").count(), 100);
        assert!(snapshot.left_out() >= 10);
    }

    /// The maximum length of a file in these tests (octets): 2 KiB for each socket.
    const LIMIT: usize = 2048 * MAX_SOCKETS;

    /// The length of the text of a plugin of which only few fit into such a file (octets). It grows
    /// sixfold when it is encoded.
    const LARGE: usize = 25 * 1024;

    #[test]
    fn a_plugin_with_the_longest_paths_and_a_usual_name_has_its_share() {
        let path = |c: &str| Path::new(&c.repeat(107)).into();
        let honest = Plugin {
            kind: "DevicePlugin".into(),
            name: "n".repeat(253),
            endpoint: path("e"),
            versions: vec!["v1beta1.DRAPlugin".into(), "v1.DRAPlugin".into()],
            socket: path("s"),
        };
        let honest = Saved::owed(Arc::new(honest));
        assert!(!honest.is_larger_than(MAX_LEN / MAX_SOCKETS));
    }
}
