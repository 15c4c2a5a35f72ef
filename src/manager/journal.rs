//! The journal: which programs were started since the state file was written.
//!
//! Pure: octets in and out; the daemon appends an entry to a file before it starts a program, and
//! reads the file at its next start. A plugin whose `add` has run is deregistered after a restart
//! although no version of the state file has it, if the entry of that `add` is found.
//!
//! Entries are numbered, and a version of the state file names the first that it does not contain.
//! The others are replayed in order on what the state file holds ([`Manager::replay`]).
//!
//! An entry is a line that begins with a newline, not one that ends with it: what is left of an
//! entry that was not written completely does not spoil the next one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Manager;
use super::ids::SocketId;
use super::saved_state::{NO_SOCKET, SavedPlugin};
use super::socket::Socket;
use crate::escape;
use crate::handler::{EffectId, Plugin, Run};

/// A program that was about to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Entries with higher numbers are later ones; 0 until the entry is encoded.
    pub number: u64,
    /// One of [`ACTIONS`].
    action: &'static str,
    plugin: SavedPlugin,
}

/// An entry as a line of the journal.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    number: u64,
    boot: String,
    action: String,
    plugin: T,
}

impl JournalEntry {
    /// Returns whether the program must not be started without the entry. Only `add` makes a
    /// plugin known to the program. What else is run is about a plugin that an earlier entry or the
    /// state file has: without an entry, it is run once more after a restart.
    pub fn is_required(&self) -> bool {
        self.action == ADD
    }

    /// Encodes the entry with this number, in the boot of that name.
    pub fn encode(&self, number: u64, boot: &str) -> Vec<u8> {
        let mut line = vec![b'\n'];
        let entry = Line {
            number,
            boot: boot.to_owned(),
            action: self.action.to_owned(),
            plugin: &self.plugin,
        };
        escape::json(&entry, &mut line);
        line
    }

    /// Decodes a journal. Returns the entries of this boot that begin with the number `first`, in
    /// order, and the number of lines that are not entries.
    pub fn decode(content: &[u8], boot: &str, first: u64) -> (Vec<Self>, usize) {
        let (mut entries, mut damaged) = (Vec::new(), 0);
        for line in content.split(|octet| *octet == b'\n') {
            match Self::read(line) {
                Some((entry, of)) if of == boot && entry.number >= first => entries.push(entry),
                Some(_) => {}
                None => damaged += usize::from(!line.is_empty()),
            }
        }
        (entries, damaged)
    }

    /// Reads a line: the entry, and the name of its boot. Keys that are not known are skipped.
    fn read(line: &[u8]) -> Option<(Self, String)> {
        let line: Line<SavedPlugin> = serde_json::from_slice(line).ok()?;
        let action = ACTIONS.iter().find(|action| **action == line.action)?;
        let entry = Self {
            number: line.number,
            action,
            plugin: line.plugin,
        };
        Some((entry, line.boot))
    }
}

impl Manager {
    /// Returns the journal entry of a program that is to be started, or `None` if the program is
    /// not run to register or deregister a plugin.
    pub fn journal_entry(&self, id: EffectId) -> Option<JournalEntry> {
        let Run { plugin, action } = self.host.run(id)?;
        let socket = self.sockets.at(&plugin.socket);
        let saved = socket.and_then(Socket::saved);
        // A socket that is not known is never found: the plugin is deregistered after a restart.
        let saved = saved.filter(|(saved, ..)| *saved == plugin);
        let (_, identity, is_announced) = saved.unwrap_or((plugin, NO_SOCKET, false));
        let plugin = SavedPlugin::of(plugin, identity, is_announced)?;
        Some(JournalEntry {
            number: 0,
            action,
            plugin,
        })
    }

    /// Replays an entry of the journal. To be called after [`Manager::restore`], for each entry in
    /// order, and before any socket is found.
    ///
    /// A plugin whose `add` or `re-add` was started is a restored one. For one name, that program
    /// is started after an earlier `del` has run, so nothing else is owed for the name. A `del` may
    /// not have ended: it is owed.
    pub fn replay(&mut self, entry: JournalEntry) {
        let JournalEntry { action, plugin, .. } = entry;
        let (plugin, identity, is_announced) = plugin.into_plugin();
        let is_del = action == DEL;
        let before = self.sockets.at(&plugin.socket).filter(|socket| {
            let registered = socket.registered();
            registered.is_some_and(|it| !is_del || it.plugin == plugin)
        });
        let before = before.map(|socket| socket.id);
        let before = before.and_then(|id| self.take_restored(id));
        if is_del {
            self.host.forget_resumed(&|owed| *owed == *plugin);
            self.host.resume(plugin);
            return;
        }
        self.host.forget_resumed(&|owed| owed.key() == plugin.key());
        if let Some(before) = before.filter(|before| before.key() != plugin.key()) {
            self.host.resume(before);
        }
        self.restore_plugin(plugin, identity, is_announced);
    }

    /// Removes a restored plugin whose socket has been neither found nor lost.
    fn take_restored(&mut self, id: SocketId) -> Option<Arc<Plugin>> {
        let mut taken = None;
        self.with_socket(id, |socket, context| {
            taken = socket.take_registered(context);
            None
        });
        let taken = taken?;
        self.sockets.restored -= usize::from(!taken.is_restored_announced());
        Some(taken.plugin)
    }
}

/// The actions of programs.
const ACTIONS: [&str; 3] = [ADD, "re-add", DEL];

/// The action that registers a plugin that the program does not know.
const ADD: &str = "add";

/// The action that deregisters a plugin.
const DEL: &str = "del";

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "0a1b";

    fn entry(number: u64, action: &'static str, name: &str) -> JournalEntry {
        let plugin = format!(
            r#"{{"socket":"/r/{name}.sock","device":1,"inode":2,"born":[3,4],"type":"CSIPlugin",
            "name":"{name}","endpoint":"/p/a.sock","versions":["1.0.0"]}}"#
        );
        let plugin = serde_json::from_str(&plugin).expect("it is valid");
        JournalEntry {
            number,
            action,
            plugin,
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_in_order() {
        let mut content = Vec::new();
        let entries = [
            entry(7, ADD, "a"),
            entry(8, "re-add", "a"),
            entry(9, DEL, "a"),
        ];
        for entry in &entries {
            content.extend(entry.encode(entry.number, BOOT));
        }
        for first in [0, 7, 8, 9, 10] {
            let expected = entries.iter().filter(|it| it.number >= first);
            let expected = expected.cloned().collect();
            assert_eq!(JournalEntry::decode(&content, BOOT, first), (expected, 0));
        }
        assert_eq!(JournalEntry::decode(b"", BOOT, 0), (Vec::new(), 0));
    }

    #[test]
    fn an_entry_that_is_torn_anywhere_spoils_no_other() {
        let torn = entry(1, ADD, "torn").encode(1, BOOT);
        let next = entry(2, DEL, "next").encode(2, BOOT);
        for length in 2..torn.len() {
            let content = [&torn[..length], &next].concat();
            let (entries, damaged) = JournalEntry::decode(&content, BOOT, 0);
            assert_eq!(entries, [entry(2, DEL, "next")], "{length}");
            assert_eq!(damaged, 1, "{length}");
        }
    }

    #[test]
    fn what_is_not_an_entry_is_counted_and_an_entry_of_another_boot_is_not() {
        let valid = String::from_utf8(entry(1, ADD, "a").encode(1, BOOT)).unwrap();
        for garbage in [
            "\n\0\0\0".to_owned(),
            "\n{}".to_owned(),
            format!("{valid}}}"),
            valid.replace("\"add\"", "\"jump\""),
            valid.replace("\"inode\"", "\"node\""),
            valid.replace("\"number\":1", "\"number\":-1"),
        ] {
            let content = format!("{garbage}{valid}");
            let (entries, damaged) = JournalEntry::decode(content.as_bytes(), BOOT, 0);
            assert_eq!((entries.len(), damaged), (1, 1), "{garbage:?}");
        }
        let decoded = JournalEntry::decode(valid.as_bytes(), "another boot", 0);
        assert_eq!(decoded, (Vec::new(), 0));
    }

    #[test]
    fn keys_that_are_not_known_are_skipped() {
        let line = String::from_utf8(entry(1, DEL, "a").encode(1, BOOT)).unwrap();
        let line = line.replacen('{', r#"{"since":[{"x":1}],"#, 1);
        let (entries, damaged) = JournalEntry::decode(line.as_bytes(), BOOT, 0);
        assert_eq!((entries.len(), damaged), (1, 0));
    }
}
