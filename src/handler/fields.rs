//! The fields of an encoded message, read in place.
//!
//! Pure. A message that may be large is read without a copy of its parts. What is accepted is what
//! `prost` accepts: an unknown field of any type is skipped, a group only as deep as its limit.

// A large list has hundreds of thousands of fields: one call is enough for each.
#![allow(clippy::inline_always)]

/// The fields of a message, in the order in which they were sent. A malformed field is the last.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// The number of levels that a field may still have, its own included.
    levels: u32,
}

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// The number of the field in the definition of the message.
    pub(super) tag: u32,
    pub(super) value: Value<'a>,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// An integer of any type of variable length.
    Number(u64),
    /// A text, octets or a message.
    Octets(&'a [u8]),
    /// A value of a type that no message here has.
    Other,
}

/// The octets are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Fields<'a> {
    /// Returns the fields of a message that is itself the value of a field on level `level`; that
    /// of a message that was received is 0.
    pub(super) fn new(message: &'a [u8], level: u32) -> Self {
        Self {
            rest: message,
            levels: MAX_LEVELS - level,
        }
    }

    /// Returns the number of octets that are left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    // It is small enough as long as there is one of it.
    #[inline(never)]
    fn field(&mut self) -> Option<Field<'a>> {
        let (tag, wire_type) = self.key()?;
        let value = self.value(tag, wire_type)?;
        Some(Field { tag, value })
    }

    /// Returns a field's tag and wire type.
    #[inline(always)]
    fn key(&mut self) -> Option<(u32, u32)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let tag = key >> 3;
        (tag > 0).then_some((tag, key & 7))
    }

    #[inline(always)]
    fn value(&mut self, tag: u32, wire_type: u32) -> Option<Value<'a>> {
        if wire_type == LENGTH_DELIMITED {
            let octets = usize::try_from(self.varint()?).ok()?;
            return self.octets(octets).map(Value::Octets);
        }
        if wire_type == VARINT {
            return self.varint().map(Value::Number);
        }
        self.skip(tag, wire_type, self.levels)
            .map(|()| Value::Other)
    }

    /// Skips a value of any type.
    #[inline(never)]
    fn skip(&mut self, tag: u32, wire_type: u32, levels: u32) -> Option<()> {
        let inner = levels.checked_sub(1)?;
        match wire_type {
            VARINT => self.varint().map(|_| ()),
            LENGTH_DELIMITED => {
                let octets = usize::try_from(self.varint()?).ok()?;
                self.octets(octets).map(|_| ())
            }
            SIXTY_FOUR_BIT => self.octets(8).map(|_| ()),
            THIRTY_TWO_BIT => self.octets(4).map(|_| ()),
            START_GROUP => loop {
                let (inner_tag, inner_type) = self.key()?;
                if inner_type == END_GROUP {
                    break (inner_tag == tag).then_some(());
                }
                self.skip(inner_tag, inner_type, inner)?;
            },
            _ => None,
        }
    }

    #[inline(always)]
    fn octets(&mut self, octets: usize) -> Option<&'a [u8]> {
        let (octets, rest) = self.rest.split_at_checked(octets)?;
        self.rest = rest;
        Some(octets)
    }

    /// Reads an integer of 64 bits, which takes at most ten octets of seven bits each.
    #[inline(always)]
    fn varint(&mut self) -> Option<u64> {
        match self.rest.split_first() {
            Some((&octet, rest)) if octet < 0x80 => {
                self.rest = rest;
                Some(u64::from(octet))
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&octet, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(octet & 0x7f);
            number |= bits << shift;
            if octet < 0x80 {
                return (number >> shift == bits).then_some(number);
            }
        }
        None
    }
}

impl<'a> Value<'a> {
    /// Returns the octets of a text, octets or a message.
    pub(super) fn octets(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Octets(octets) => Ok(octets),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field().ok_or(Malformed);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Returns the number of fields on the first level of a message, or `None` if it is not a message.
///
/// An empty entry of a list costs the sender two octets and the receiver a hundred: a message that
/// may be large is counted before it is decoded.
pub(super) fn count_fields(message: &[u8]) -> Option<usize> {
    let mut fields = Fields::new(message, 0);
    let count = fields.try_fold(0, |count, field| field.map(|_| count + 1));
    count.ok()
}

// The wire types: how the end of a value is found.
const VARINT: u32 = 0;
const SIXTY_FOUR_BIT: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;
const START_GROUP: u32 = 3;
const END_GROUP: u32 = 4;
const THIRTY_TWO_BIT: u32 = 5;

/// The most levels of messages and groups in each other (`prost`: the same).
const MAX_LEVELS: u32 = 100;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::v1beta1::{Device, Empty, ListAndWatchResponse};

    #[test]
    fn the_fields_of_a_message_are_counted_without_reading_them() {
        let devices = vec![Device::default(); 5];
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        assert_eq!(message.len(), 10);
        assert_eq!(count_fields(&message), Some(5));
        assert_eq!(count_fields(&[]), Some(0));
        assert_eq!(count_fields(&[0x0a, 9]), None, "it is cut");
        assert_eq!(count_fields(&[0x0c]), None, "no group was begun");
    }

    #[test]
    fn each_field_has_its_tag_and_its_value() {
        let message = b"\x0a\x02ab\x10\xac\x02\x1dabcd\x21abcdefgh\x2b\x08\x01\x2c\xfa\x01\x00";
        let fields: Result<Vec<_>, _> = Fields::new(message, 0).collect();
        let expected = [
            (1, Value::Octets(b"ab")),
            (2, Value::Number(300)),
            (3, Value::Other),
            (4, Value::Other),
            (5, Value::Other),
            (31, Value::Octets(b"")),
        ];
        assert_eq!(
            fields,
            Ok(expected.map(|(tag, value)| Field { tag, value }).into())
        );
    }

    #[test]
    fn what_prost_skips_is_skipped_and_what_it_rejects_is_rejected() {
        let nested = |groups: usize| [vec![0x0b; groups], vec![0x0c; groups]].concat();
        let in_groups = |groups: usize, field: &[u8]| {
            [&vec![0x0b; groups], field, &vec![0x0c; groups]].concat()
        };
        let varint = |octets: &[u8]| [&[0x08], octets].concat();
        let nine = [0xff; 9];
        let messages = [
            vec![],
            varint(&[0]),
            varint(&[0x80]),
            varint(&[0x80, 0]),
            varint(&[&nine[..], &[0]].concat()),
            varint(&[&nine[..], &[1]].concat()),
            varint(&[&nine[..], &[2]].concat()),
            varint(&[&nine[..], &[0x81]].concat()),
            varint(&[&nine[..], &[0x80, 0]].concat()),
            b"\x00\x00".to_vec(),
            b"\x88\x00\x00".to_vec(),
            b"\xf8\xff\xff\xff\x0f\x00".to_vec(),
            b"\xf8\xff\xff\xff\x1f\x00".to_vec(),
            b"\x0e".to_vec(),
            b"\x0f".to_vec(),
            b"\x0c".to_vec(),
            b"\x0b".to_vec(),
            b"\x0b\x14".to_vec(),
            b"\x0b\x0c".to_vec(),
            b"\x0b\x10\x01\x0c".to_vec(),
            b"\x0a\x01".to_vec(),
            b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01".to_vec(),
            b"\x0dabc".to_vec(),
            b"\x09abcdefg".to_vec(),
            nested(99),
            nested(100),
            nested(101),
            in_groups(98, b"\x08\x01"),
            in_groups(99, b"\x08\x01"),
            in_groups(100, b"\x08\x01"),
        ];
        for message in messages {
            let is_accepted = Empty::decode(&*message).is_ok();
            let is_read = Fields::new(&message, 0).all(|field| field.is_ok());
            assert_eq!(is_read, is_accepted, "{message:x?}");
        }
    }

    #[test]
    fn a_malformed_field_is_the_last() {
        let mut fields = Fields::new(b"\x0a\x05a\x08\x01", 0);
        assert_eq!(fields.next(), Some(Err(Malformed)));
        assert_eq!(fields.next(), None);
    }
}
