//! The dynamic table of header compression as RFC 7541 §4 describes it: a list whose end is dropped
//! while it is too large.
//!
//! An input is a sequence of fields and of sizes for the table. They are encoded by hand, and the
//! decoder must decode the same fields.

use std::collections::VecDeque;

use plugind::hpack::Decoder;

use super::hpack_decode::{Fields, TABLE, fields};
use super::input::Input;
use super::wire;

/// A name and a value.
type Field = (Vec<u8>, Vec<u8>);

/// Plays a sequence.
pub(super) fn check(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut table = Table {
        entries: VecDeque::new(),
        limit: TABLE,
    };
    let mut decoder = Decoder::new(TABLE);
    for number in 0..MOST_BLOCKS {
        if input.is_empty() {
            return;
        }
        let mut block = Vec::new();
        let meant = table.encode(number, &mut input, &mut block);
        let read = fields(&mut decoder, &block);
        let Some(meant) = meant else {
            assert!(read.is_err(), "{block:02x?}");
            return;
        };
        assert_eq!(read, Ok(meant), "{block:02x?}");
    }
}

struct Table {
    /// The entries, the newest first.
    entries: VecDeque<Field>,
    limit: usize,
}

impl Table {
    /// Encodes a block. Returns its fields, or `None` if it breaks a rule.
    fn encode(&mut self, number: u8, input: &mut Input<'_>, block: &mut Vec<u8>) -> Option<Fields> {
        let mut meant = Fields::new();
        if input.below(4) == 0 {
            let limit = input.pick(&LIMITS);
            wire::integer(limit, 5, 0x20, block);
            if limit > TABLE {
                return None;
            }
            self.limit = limit;
            self.evict();
        }
        for _ in 0..input.below(8) {
            match input.below(4) {
                0 => {
                    let field = (vec![b'n', number], vec![number; input.pick(&LENGTHS)]);
                    block.push(0x40);
                    wire::string(&field.0, block);
                    wire::string(&field.1, block);
                    self.insert(&field);
                    meant.push(field);
                }
                1 => {
                    let (index, known) = self.pick(input);
                    wire::integer(index, 6, 0x40, block);
                    let value = vec![number; input.pick(&LENGTHS)];
                    wire::string(&value, block);
                    let field = (known?.0, value);
                    self.insert(&field);
                    meant.push(field);
                }
                2 => {
                    let (index, known) = self.pick(input);
                    wire::integer(index, 4, 0, block);
                    wire::string(b"v", block);
                    meant.push((known?.0, b"v".to_vec()));
                }
                _ => {
                    let (index, known) = self.pick(input);
                    wire::integer(index, 7, 0x80, block);
                    meant.push(known?);
                }
            }
        }
        Some(meant)
    }

    /// Returns one of the entries with its index, or the index behind the last one.
    fn pick(&self, input: &mut Input<'_>) -> (usize, Option<Field>) {
        let place = input.below(self.entries.len() + 1);
        (FIRST + place, self.entries.get(place).cloned())
    }

    fn insert(&mut self, field: &Field) {
        self.entries.push_front(field.clone());
        self.evict();
    }

    /// RFC 7541 §4.4: "entries are evicted from the end of the dynamic table until the size of the
    /// dynamic table is less than or equal to [the] maximum size"; an entry that is larger than
    /// that empties the table.
    fn evict(&mut self) {
        while self.entries.iter().map(size).sum::<usize>() > self.limit {
            self.entries.pop_back();
        }
    }
}

/// RFC 7541 §4.1: "The size of an entry is the sum of its name's length in octets, its value's
/// length in octets, and 32."
fn size((name, value): &Field) -> usize {
    name.len() + value.len() + 32
}

/// The index of the newest entry: the static table has 61.
const FIRST: usize = 62;

/// Sizes of the table: around one entry, and around the largest (octets).
const LIMITS: [usize; 10] = [0, 33, 34, 35, 100, 1000, TABLE - 1, TABLE, TABLE, TABLE + 1];

/// Lengths of values: the larger ones fill the table, exactly and with one octet more.
const LENGTHS: [usize; 8] = [
    0,
    1,
    32,
    1000,
    TABLE - 68,
    TABLE - 35,
    TABLE - 34,
    TABLE - 33,
];

/// The most blocks that are played: each has a number of its own in an octet.
const MOST_BLOCKS: u8 = 200;
