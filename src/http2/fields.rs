//! Header fields: what is kept of a decoded block, and whether the block is well formed.
//!
//! [`Fields`] keeps all names and values of a block in one buffer, which the next block reuses.
//! However much a block decodes to, no more is kept than the limits allow. [`Section`] applies the
//! rules of RFC 9113 §8.2 and §8.3 to the block as a whole. Which rules apply depends on the
//! purpose of the block, which only the stream knows.

use smallvec::SmallVec;

use super::KEPT_OCTETS;
use super::error::{Malformed, StreamError};
use crate::budget::{grow_capacity, spilled_octets};
use crate::config;

/// The fields of one header block, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Fields {
    /// Names and values, one after the other.
    octets: Vec<u8>,
    /// The offsets at which each name and the value after it end.
    ends: SmallVec<[(usize, usize); 4]>,
}

impl Fields {
    /// Returns all fields, as name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        begins
            .zip(&self.ends)
            .map(|(begin, &(middle, end))| (&self.octets[begin..middle], &self.octets[middle..end]))
    }

    /// Returns the values of all fields with this name.
    pub fn get_all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let matching = self.iter().filter(move |(other, _)| *other == name);
        matching.map(|(_, value)| value)
    }

    /// Returns the value of the first field with this name.
    pub fn get<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// Removes all fields, and reserves memory for what a block of `block` octets is likely to
    /// decode to.
    pub(super) fn clear_for_block(&mut self, block: usize) {
        self.octets.clear();
        self.ends.clear();
        let likely = (2 * block).clamp(LIKELY_OCTETS, config::MAX_HEADER_LIST);
        self.octets.reserve(likely);
    }

    /// Drops the fields if names and values take more than [`KEPT_OCTETS`] of memory; called only
    /// when the last event with fields was processed.
    pub(super) fn drop_if_large(&mut self) {
        if self.octets.capacity() > KEPT_OCTETS {
            *self = Self::default();
        }
    }

    /// Appends a field.
    fn push(&mut self, name: &[u8], value: &[u8]) {
        let size = self.octets.len() + name.len() + value.len();
        grow_capacity(&mut self.octets, size, config::MAX_HEADER_LIST);
        self.octets.extend_from_slice(name);
        let middle = self.octets.len();
        self.octets.extend_from_slice(value);
        self.ends.push((middle, self.octets.len()));
    }

    /// Returns the number of octets of memory held.
    pub(super) fn mem_used(&self) -> usize {
        self.octets.capacity() + spilled_octets(&self.ends)
    }
}

/// The properties of a block, collected field by field while it is decoded.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// The size of the list as RFC 9113 counts it, including fields that are not kept.
    pub(super) size: usize,
    /// The number of fields, including those that are not kept.
    count: usize,
    /// The breach of a limit, or else the first breach of a rule.
    error: Option<StreamError>,
    /// Whether a regular field, not a pseudo-header, was seen.
    regular: bool,
    /// The pseudo-headers that were seen: one bit for each.
    pseudo: u8,
    /// The value of `:status`.
    status: Option<u16>,
    /// Whether `:method` is CONNECT.
    is_connect: bool,
    /// The value of `content-length`, if the block has one.
    pub(super) content_length: Option<u64>,
}

impl Section {
    /// Counts the next field, and checks and keeps it while the list is within the limits.
    pub(super) fn add_field(&mut self, name: &[u8], value: &[u8], fields: &mut Fields) {
        // RFC 9113 §6.5.2: "The value is based on the uncompressed size of field lines, including
        // the length of the name and value in units of octets plus an overhead of 32 octets for
        // each field line."
        self.size = self.size.saturating_add(name.len() + value.len() + 32);
        self.count += 1;
        if self.size > config::MAX_HEADER_LIST {
            self.error = Some(StreamError::HeaderListTooLarge);
            return;
        }
        if self.count > config::MAX_FIELDS {
            self.error = Some(StreamError::TooManyFields);
            return;
        }
        let checked = if name.first() == Some(&b':') {
            self.add_pseudo_header(name, value)
        } else {
            self.add_regular_field(name, value)
        };
        if let (None, Err(malformed)) = (self.error, checked) {
            self.error = Some(malformed.into());
        }
        fields.push(name, value);
    }

    /// Checks the limits and rules for all header blocks.
    fn check_common_rules(&self) -> Result<(), StreamError> {
        match self.error {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Checks the rules for the headers of a response; returns its status.
    pub(super) fn check_response(&self) -> Result<u16, StreamError> {
        self.check_common_rules()?;
        // RFC 9113 §8.3: "Pseudo-header fields defined for requests MUST NOT appear in responses".
        if self.pseudo & !STATUS != 0 {
            return Err(Malformed::PseudoHeader.into());
        }
        // RFC 9113 §8.3.2: "a single :status pseudo-header field is defined [...]. This
        // pseudo-header field MUST be included in all responses".
        Ok(self.status.ok_or(Malformed::Status)?)
    }

    /// Checks the rules for the headers of a request.
    ///
    /// RFC 9113 §8.3.1: "All HTTP/2 requests MUST include exactly one valid value for the
    /// ":method", ":scheme", and ":path" pseudo-header fields, unless they are CONNECT requests".
    /// For those, §8.5: "The ":scheme" and ":path" pseudo-header fields MUST be omitted."
    pub(super) fn check_request(&self) -> Result<(), StreamError> {
        self.check_common_rules()?;
        let required = if self.is_connect {
            METHOD | AUTHORITY
        } else {
            METHOD | SCHEME | PATH
        };
        if self.pseudo & !(required | AUTHORITY) != 0 {
            return Err(Malformed::PseudoHeader.into());
        }
        if self.pseudo & required != required {
            return Err(Malformed::Request.into());
        }
        Ok(())
    }

    /// Checks the rules for trailers.
    ///
    /// RFC 9113 §8.1: "Trailers MUST NOT include pseudo-header fields."
    pub(super) fn check_trailers(&self) -> Result<(), StreamError> {
        self.check_common_rules()?;
        if self.pseudo != 0 {
            return Err(Malformed::PseudoHeader.into());
        }
        Ok(())
    }

    /// Checks a pseudo-header.
    ///
    /// RFC 9113 §8.3: "Endpoints MUST treat a request or response that contains undefined or
    /// invalid pseudo-header fields as malformed. All pseudo-header fields MUST appear in a field
    /// block before all regular field lines. [...] The same pseudo-header field name MUST NOT
    /// appear more than once in a field block."
    fn add_pseudo_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        let bit = match name {
            b":status" => STATUS,
            b":method" => METHOD,
            b":scheme" => SCHEME,
            b":path" => PATH,
            b":authority" => AUTHORITY,
            _ => return Err(Malformed::PseudoHeader),
        };
        if self.regular || self.pseudo & bit != 0 {
            return Err(Malformed::PseudoHeader);
        }
        self.pseudo |= bit;
        for octet in value {
            if !matches!(octet, b'!'..=b'~' | 0x80..) {
                return Err(Malformed::FieldValue);
            }
        }
        match bit {
            STATUS => self.status = Some(parse_status(value).ok_or(Malformed::Status)?),
            METHOD => self.is_connect = value == b"CONNECT",
            // RFC 9113 §8.3.1: "This pseudo-header field MUST NOT be empty for "http" or "https"
            // URIs".
            PATH if value.is_empty() => return Err(Malformed::Request),
            _ => {}
        }
        Ok(())
    }

    /// Checks a regular field.
    fn add_regular_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        self.regular = true;
        if name.is_empty() || !name.iter().all(|&octet| IN_NAMES[usize::from(octet)]) {
            return Err(Malformed::FieldName);
        }
        // RFC 9113 §8.2.1: "A field value MUST NOT contain the zero value (ASCII NUL, 0x00), line
        // feed (ASCII LF, 0x0a), or carriage return (ASCII CR, 0x0d) at any position." It also
        // forbids leading and trailing spaces. These are harmless and accepted: the status next to
        // a `grpc-message` that ends in a space must not be lost.
        if value.iter().any(|octet| matches!(octet, 0 | b'\n' | b'\r')) {
            return Err(Malformed::FieldValue);
        }
        // RFC 9113 §8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing
        // connection-specific header fields. [...] Any message containing connection-specific
        // header fields MUST be treated as malformed."
        if CONNECTION_FIELDS.contains(&name) || (name == b"te" && value != b"trailers") {
            return Err(Malformed::ConnectionField);
        }
        if name == b"content-length" {
            let length = parse_number(value).ok_or(Malformed::ContentLength)?;
            if self.content_length.is_some_and(|other| other != length) {
                return Err(Malformed::ContentLength);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }
}

// A bit for each of the defined pseudo-headers (RFC 9113 §8.3.1, §8.3.2).
const STATUS: u8 = 1;
const METHOD: u8 = 1 << 1;
const SCHEME: u8 = 1 << 2;
const PATH: u8 = 1 << 3;
const AUTHORITY: u8 = 1 << 4;

/// Parses a status code: three digits, the first of them not 0 (RFC 9110 §15).
fn parse_status(value: &[u8]) -> Option<u16> {
    let [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] = value else {
        return None;
    };
    let mut status = 0;
    for digit in value {
        status = 10 * status + u16::from(digit - b'0');
    }
    Some(status)
}

/// Parses a decimal number that consists of digits only.
fn parse_number(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    let has_sign = digits.starts_with('+');
    digits.parse().ok().filter(|_| !has_sign)
}

/// For each octet, whether a field name may contain it: the characters of a token (RFC 9110 §5.6.2)
/// without upper case.
///
/// RFC 9113 §8.2.1 requires less; but in every version of HTTP, a field name is a token.
static IN_NAMES: [bool; 256] = {
    let octets = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz";
    let mut table = [false; 256];
    let mut index = 0;
    while index < octets.len() {
        table[octets[index] as usize] = true;
        index += 1;
    }
    table
};

/// RFC 9113 §8.2.2: "This includes the Connection header field and those listed as having
/// connection-specific semantics" in RFC 9110 §7.6.1.
const CONNECTION_FIELDS: [&[u8]; 5] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"transfer-encoding",
    b"upgrade",
];

/// A typical size of the fields in a header block of a gRPC server (octets).
const LIKELY_OCTETS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    type Field<'a> = (&'a str, &'a [u8]);

    fn section(block: &[Field<'_>]) -> (Section, Fields) {
        let (mut section, mut fields) = (Section::default(), Fields::default());
        for (name, value) in block {
            section.add_field(name.as_bytes(), value, &mut fields);
        }
        (section, fields)
    }

    fn response_status(block: &[Field<'_>]) -> Result<u16, StreamError> {
        section(block).0.check_response()
    }

    #[test]
    fn a_response_has_exactly_one_status_of_three_digits_in_front() {
        assert_eq!(
            response_status(&[(":status", b"200"), ("a", b"b")]),
            Ok(200)
        );
        let malformed: [(&[Field<'_>], Malformed); 11] = [
            (&[], Malformed::Status),
            (&[("a", b"b")], Malformed::Status),
            (&[(":status", b"20")], Malformed::Status),
            (&[(":status", b"2000")], Malformed::Status),
            (&[(":status", b"2x0")], Malformed::Status),
            (&[(":status", b"099")], Malformed::Status),
            (&[(":status", b"")], Malformed::Status),
            (&[("a", b"b"), (":status", b"200")], Malformed::PseudoHeader),
            (
                &[(":status", b"200"), (":status", b"200")],
                Malformed::PseudoHeader,
            ),
            (
                &[(":status", b"200"), (":path", b"/")],
                Malformed::PseudoHeader,
            ),
            (
                &[(":status", b"200"), (":other", b"")],
                Malformed::PseudoHeader,
            ),
        ];
        for (block, expected) in malformed {
            assert_eq!(response_status(block), Err(expected.into()), "{block:?}");
        }
    }

    #[test]
    fn a_request_has_its_method_scheme_and_path_once_each() {
        let request = |block: &[Field<'_>]| section(block).0.check_request();
        let post: [Field<'_>; 4] = [
            (":method", b"POST"),
            (":scheme", b"http"),
            (":path", b"/a.B/C"),
            (":authority", b"localhost"),
        ];
        assert_eq!(request(&post), Ok(()));
        assert_eq!(request(&post[..3]), Ok(()));
        for missing in 0..3 {
            let mut block = post.to_vec();
            block.remove(missing);
            assert_eq!(request(&block), Err(Malformed::Request.into()), "{missing}");
        }
        for index in 0..4 {
            let twice = [&post[..], &post[index..=index]].concat();
            assert_eq!(request(&twice), Err(Malformed::PseudoHeader.into()));
        }
        for field in [(":status", &b"200"[..]), (":protocol", b"websocket")] {
            let block = [&post[..], &[field]].concat();
            assert_eq!(request(&block), Err(Malformed::PseudoHeader.into()));
        }
        let late = [&post[1..], &[("a", &b"b"[..]), post[0]]].concat();
        assert_eq!(request(&late), Err(Malformed::PseudoHeader.into()));
        let no_path = [post[0], post[1], (":path", b"")];
        assert_eq!(request(&no_path), Err(Malformed::Request.into()));
        let cut = [post[0], post[1], (":path", b"/a\r\nb")];
        assert_eq!(request(&cut), Err(Malformed::FieldValue.into()));
    }

    #[test]
    fn a_connect_request_has_an_authority() {
        let request = |block: &[Field<'_>]| section(block).0.check_request();
        let connect: [Field<'_>; 2] = [(":method", b"CONNECT"), (":authority", b"a:1")];
        assert_eq!(request(&connect), Ok(()));
        assert_eq!(request(&connect[..1]), Err(Malformed::Request.into()));
        let with_path = [connect[0], connect[1], (":path", b"/")];
        assert_eq!(request(&with_path), Err(Malformed::PseudoHeader.into()));
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        assert_eq!(section(&[("grpc-status", b"0")]).0.check_trailers(), Ok(()));
        assert_eq!(
            section(&[(":status", b"200")]).0.check_trailers(),
            Err(Malformed::PseudoHeader.into())
        );
    }

    #[test]
    fn a_name_is_a_lower_case_token_and_a_value_has_no_nul_cr_or_lf() {
        let malformed: [(&str, &[u8], Malformed); 11] = [
            ("Upper", b"", Malformed::FieldName),
            ("", b"", Malformed::FieldName),
            ("a b", b"", Malformed::FieldName),
            ("a:b", b"", Malformed::FieldName),
            ("a\0", b"", Malformed::FieldName),
            ("n\u{e4}me", b"", Malformed::FieldName),
            ("a", b"\0", Malformed::FieldValue),
            ("a", b"x\ry", Malformed::FieldValue),
            ("a", b"x\ny", Malformed::FieldValue),
            ("connection", b"close", Malformed::ConnectionField),
            ("te", b"gzip", Malformed::ConnectionField),
        ];
        for (name, value, expected) in malformed {
            let block = [(":status", &b"200"[..]), (name, value)];
            assert_eq!(response_status(&block), Err(expected.into()), "{name:?}");
            assert_eq!(
                section(&block[1..]).0.check_trailers(),
                Err(expected.into())
            );
        }
    }

    #[test]
    fn values_may_be_non_ascii_and_end_in_a_space() {
        let block = [
            (":status", &b"200"[..]),
            ("grpc-message", b"caf\xc3\xa9 \xff "),
        ];
        assert_eq!(response_status(&block), Ok(200));
        assert_eq!(section(&block).1.get(b"grpc-message"), Some(block[1].1));
    }

    #[test]
    fn content_length_is_one_number() {
        let length = |values: &[&'static [u8]]| {
            let mut block = vec![(":status", &b"200"[..])];
            block.extend(values.iter().map(|value| ("content-length", *value)));
            let section = section(&block).0;
            section
                .check_common_rules()
                .map(|()| section.content_length)
        };
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&[b"12"]), Ok(Some(12)));
        assert_eq!(length(&[b"12", b"12"]), Ok(Some(12)));
        for wrong in [
            &[&b""[..]][..],
            &[b"-1"],
            &[b"1", b"2"],
            &[b"18446744073709551616"],
        ] {
            assert_eq!(
                length(wrong),
                Err(Malformed::ContentLength.into()),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_block_is_kept_up_to_the_limit_and_counted_beyond_it() {
        let (mut section, mut fields) = (Section::default(), Fields::default());
        section.add_field(b":status", b"200", &mut fields);
        let value = [b'v'; 4000];
        for _ in 0..16 {
            section.add_field(b"a", &value, &mut fields);
            assert_eq!(section.check_common_rules(), Ok(()));
        }
        section.add_field(b"a", &value, &mut fields);
        assert_eq!(
            section.check_common_rules(),
            Err(StreamError::HeaderListTooLarge)
        );
        assert!(section.size <= config::MAX_DECODED_HEADERS);
        for _ in 0..16_000 {
            section.add_field(b"a", &value, &mut fields);
        }
        assert!(section.size > config::MAX_DECODED_HEADERS);
        let kept = fields.mem_used();
        assert!(kept < config::MAX_HEADER_LIST + 1024, "{kept} octets");
        assert_eq!(fields.iter().count(), 17);
    }

    #[test]
    fn the_memory_of_fields_is_that_of_octets_and_of_many_ends() {
        let mut fields = Fields::default();
        assert_eq!(fields.mem_used(), 0);
        fields.clear_for_block(0);
        let end = 2 * size_of::<usize>();
        assert_eq!(fields.mem_used(), LIKELY_OCTETS);
        fields.push(&[b'a'; LIKELY_OCTETS], b"b");
        let grown = 2 * LIKELY_OCTETS;
        assert_eq!(fields.mem_used(), grown);
        for _ in 0..4 {
            fields.push(b"a", b"b");
        }
        assert_eq!(fields.mem_used(), grown + 8 * end);
    }

    #[test]
    fn the_257th_field_is_one_too_many() {
        let (mut section, mut fields) = (Section::default(), Fields::default());
        for _ in 0..256 {
            section.add_field(b"a", b"b", &mut fields);
        }
        assert_eq!(section.check_common_rules(), Ok(()));
        section.add_field(b"a", b"b", &mut fields);
        assert_eq!(
            section.check_common_rules(),
            Err(StreamError::TooManyFields)
        );
    }

    #[test]
    fn the_memory_of_a_large_header_list_is_freed() {
        for (value, is_kept) in [(100, true), (20_000, false)] {
            let (mut section, mut fields) = (Section::default(), Fields::default());
            fields.clear_for_block(value);
            section.add_field(b"a", &vec![b'v'; value], &mut fields);
            fields.drop_if_large();
            assert_eq!(fields.mem_used() > 0, is_kept, "{value} octets");
        }
    }

    #[test]
    fn fields_are_found_by_name_in_their_order() {
        let (_, fields) = section(&[("a", b"1"), ("b", b""), ("a", b"2")]);
        assert!(fields.get_all(b"a").eq([b"1", b"2"]));
        assert_eq!(fields.get(b"b"), Some(&b""[..]));
        assert_eq!(fields.get(b"c"), None);
        assert_eq!(fields.iter().count(), 3);
    }
}
