//! Writes JSON.

use std::path::Path;

use crate::escape;

/// A document that is being written. Commas follow from what is there already.
#[derive(Debug)]
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    /// Begins an object or an array, with its bracket.
    pub(crate) fn open(&mut self, bracket: u8) {
        self.separate();
        self.0.push(bracket);
    }

    /// Ends an object or an array, with its bracket.
    pub(crate) fn close(&mut self, bracket: u8) {
        self.0.push(bracket);
    }

    /// Writes the key of the next value.
    pub(crate) fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.0.push(b':');
        self
    }

    /// Writes text.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        escape::json_string(text, self.0);
    }

    /// Writes a path; octets that are not UTF-8 become replacement characters.
    pub(crate) fn path(&mut self, path: &Path) {
        self.text(&path.to_string_lossy());
    }

    /// Writes a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.raw(number.to_string().as_bytes());
    }

    /// Writes `true` or `false`.
    pub(crate) fn boolean(&mut self, value: bool) {
        self.raw(if value { b"true" } else { b"false" });
    }

    /// Writes an array of texts.
    pub(crate) fn texts(&mut self, texts: &[String]) {
        self.open(b'[');
        for text in texts {
            self.text(text);
        }
        self.close(b']');
    }

    /// Writes a value that is JSON already.
    pub(crate) fn raw(&mut self, json: &[u8]) {
        self.separate();
        self.0.extend_from_slice(json);
    }

    /// Writes a comma, except before the first value of an object, an array or a line.
    pub(crate) fn separate(&mut self) {
        let is_first = matches!(
            self.0.last(),
            None | Some(b'{' | b'[' | b':' | b',' | b'\n')
        );
        if !is_first {
            self.0.push(b',');
        }
    }
}
