//! The tables that an index refers to: RFC 7541 §2.3, §4 and appendix A.
//!
//! The static table is fixed by the RFC; the dynamic table is filled by the peer and evicts its
//! oldest entries when it is full. All its names and values share one buffer, which is not
//! allocated before the first literal. A literal is assembled after the entries and, if it is
//! inserted, becomes an entry without being copied.
//!
//! ```text
//! octets: [ evicted | oldest entry | ... | newest entry | a literal that is being read ]
//! ```

use std::collections::VecDeque;

/// The two tables in one address space.
///
/// ```text
/// index   1 ... 61        62 ... 61 + n
///         static table    dynamic table, newest to oldest
/// ```
pub(super) struct Table {
    /// The names and values of the dynamic table, and of the literal that is being read.
    octets: Vec<u8>,
    /// The positions of the dynamic table's entries in `octets`, oldest first.
    entries: VecDeque<Place>,
    /// The sum of the entries' sizes.
    size: usize,
    /// The largest `size` allowed.
    max_size: usize,
}

impl Table {
    /// Returns a table with the static entries and room for `max_size` of dynamic ones.
    pub(super) const fn new(max_size: usize) -> Self {
        Self {
            octets: Vec::new(),
            entries: VecDeque::new(),
            size: 0,
            max_size,
        }
    }

    /// Returns the name and the value at `index`, or `None` if it is zero or beyond the end.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        // RFC 7541 §2.3.3: "The length of the static table is subtracted to find the index into the
        // dynamic table. Indices strictly greater than the sum of the lengths of both tables MUST
        // be treated as a decoding error." §6.1: "The index value of 0 is not used."
        let index = index.checked_sub(1)?;
        match index.checked_sub(STATIC.len()) {
            None => {
                let (name, value) = STATIC[index];
                Some((name.as_bytes(), value.as_bytes()))
            }
            Some(index) => Some(self.at(self.place(index)?)),
        }
    }

    /// Returns the name and the value at `place`.
    #[inline]
    pub(super) fn at(&self, place: Place) -> (&[u8], &[u8]) {
        let Place { begin, middle, end } = place;
        (&self.octets[begin..middle], &self.octets[middle..end])
    }

    /// Returns the buffer to which the name and then the value of a literal are appended. The
    /// caller ends the literal by [`insert`](Self::insert) or [`drop_literal`](Self::drop_literal).
    pub(super) fn literal_buf(&mut self) -> &mut Vec<u8> {
        if self.octets.capacity() == 0 {
            self.octets.reserve(128); // For the fields that a gRPC server usually adds.
        }
        &mut self.octets
    }

    /// Appends the name at `index` to a literal; returns `None` if `index` is zero or beyond the
    /// end.
    ///
    /// RFC 7541 §4.4: "A new entry can reference the name of an entry in the dynamic table that
    /// will be evicted when adding this new entry into the dynamic table. Implementations are
    /// cautioned to avoid deleting the referenced name if the referenced entry is evicted from the
    /// dynamic table prior to inserting the new entry." The literal has its own copy.
    pub(super) fn append_name(&mut self, index: usize) -> Option<()> {
        match index.checked_sub(1 + STATIC.len()) {
            None => {
                let (name, _) = STATIC[index.checked_sub(1)?];
                self.octets.extend_from_slice(name.as_bytes());
            }
            Some(index) => {
                let Place { begin, middle, .. } = self.place(index)?;
                self.octets.extend_from_within(begin..middle);
            }
        }
        Some(())
    }

    /// Adds the literal at `place`, the last one in the buffer, as the newest entry.
    pub(super) fn insert(&mut self, place: Place) {
        // RFC 7541 §4.4: "It is not an error to attempt to add an entry that is larger than the
        // maximum size; an attempt to add an entry larger than the maximum size causes the table to
        // be emptied of all existing entries". The octets of such a literal count as evicted.
        self.evict_down_to(self.max_size.saturating_sub(place.size()));
        if place.size() <= self.max_size {
            self.size += place.size();
            self.entries.push_back(place);
        }
        if self.evicted_octets() > self.octets.len() / 2 {
            self.compact();
        }
    }

    /// Drops the literal at `place`, the last one in the buffer.
    pub(super) fn drop_literal(&mut self, place: Place) {
        self.octets.truncate(place.begin);
    }

    /// Sets the size that the dynamic table may grow to, and evicts entries until it fits.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.evict_down_to(max_size);
    }

    /// Drops a literal that the block did not complete, and frees memory above `kept` octets that
    /// the entries do not need.
    pub(super) fn shrink(&mut self, kept: usize) {
        match self.entries.back() {
            Some(newest) => self.octets.truncate(newest.end),
            None => self.octets.clear(),
        }
        if self.octets.capacity() > kept {
            self.compact();
            self.octets.shrink_to(kept);
        }
    }

    /// Returns the number of octets of memory that the dynamic table holds.
    pub(super) fn mem_used(&self) -> usize {
        self.octets.capacity() + self.entries.capacity() * size_of::<Place>()
    }

    /// Returns the place of the entry with this index in the dynamic table; 0 is the newest entry.
    fn place(&self, index: usize) -> Option<Place> {
        let from_oldest = self.entries.len().checked_sub(index + 1)?;
        self.entries.get(from_oldest).copied()
    }

    fn evict_down_to(&mut self, size: usize) {
        // mutation: an entry of the dynamic table is evicted too early
        while self.size > size {
            let Some(oldest) = self.entries.pop_front() else {
                return;
            };
            self.size -= oldest.size();
        }
    }

    /// Returns the number of octets of evicted entries before the first entry.
    fn evicted_octets(&self) -> usize {
        match self.entries.front() {
            Some(oldest) => oldest.begin,
            None => self.octets.len(),
        }
    }

    /// Moves the entries to the front of the buffer. No literal may be in progress.
    fn compact(&mut self) {
        let evicted = self.evicted_octets();
        self.octets.drain(..evicted);
        for place in &mut self.entries {
            place.begin -= evicted;
            place.middle -= evicted;
            place.end -= evicted;
        }
    }

    /// Returns the entries of the dynamic table, newest first.
    #[cfg(test)]
    pub(super) fn dynamic_entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries.iter().rev().map(|place| self.at(*place))
    }

    /// Returns the size of the dynamic table.
    #[cfg(test)]
    pub(super) const fn size(&self) -> usize {
        self.size
    }
}

/// The position of a name, and of the value that follows it, in the table's buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The offset at which the name begins.
    pub(super) begin: usize,
    /// The offset at which the name ends and the value begins.
    pub(super) middle: usize,
    /// The offset at which the value ends.
    pub(super) end: usize,
}

impl Place {
    /// Returns the size of the entry.
    ///
    /// RFC 7541 §4.1: "The size of an entry is the sum of its name's length in octets (as defined
    /// in Section 5.2), its value's length in octets, and 32."
    fn size(self) -> usize {
        self.end - self.begin + ENTRY_OVERHEAD
    }
}

/// Returns the size of a field as the tables count it.
pub(super) const fn field_size(name: &[u8], value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_OVERHEAD
}

/// Returns the index of the first entry of the static table with this name, if there is one.
pub(super) const fn static_index(name: &[u8]) -> Option<usize> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let mut candidates = OF_LENGTH[name.len()];
    while candidates != 0 {
        let position = candidates.trailing_zeros() as usize;
        if is_same(STATIC[position].0.as_bytes(), name) {
            return Some(position + 1);
        }
        candidates &= candidates - 1;
    }
    None
}

/// Returns whether two names of the same length are equal; `==` cannot be used in a `const fn`.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut index = 0;
    while index < one.len() && index < other.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// For each name length, the entries of the static table with a name of that length, one bit per
/// entry.
///
/// This makes look-ups cheap: few entries have names of the same length.
static OF_LENGTH: [u64; LONGEST_NAME + 1] = {
    let mut entries = [0; LONGEST_NAME + 1];
    let mut position = 0;
    while position < STATIC.len() {
        entries[STATIC[position].0.len()] |= 1 << position;
        position += 1;
    }
    entries
};

/// The longest name in the static table: `access-control-allow-origin`.
const LONGEST_NAME: usize = 27;

/// The overhead that RFC 7541 §4.1 counts for each entry.
const ENTRY_OVERHEAD: usize = 32;

/// The static table: RFC 7541 appendix A. The first entry has the index 1.
#[rustfmt::skip]
static STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts an entry of this size whose name is one letter.
    fn insert(table: &mut Table, name: u8, size: usize) {
        let octets = table.literal_buf();
        let begin = octets.len();
        octets.push(name);
        octets.resize(begin + size - ENTRY_OVERHEAD, b'.');
        let (middle, end) = (begin + 1, octets.len());
        table.insert(Place { begin, middle, end });
    }

    fn names(table: &Table) -> String {
        table
            .dynamic_entries()
            .map(|(name, _)| char::from(name[0]))
            .collect()
    }

    #[test]
    fn the_static_table_is_that_of_appendix_a() {
        let table = Table::new(4096);
        let text = |index| {
            let (name, value) = table.get(index)?;
            Some((
                std::str::from_utf8(name).unwrap(),
                std::str::from_utf8(value).unwrap(),
            ))
        };
        assert_eq!(text(0), None);
        assert_eq!(text(1), Some((":authority", "")));
        assert_eq!(text(3), Some((":method", "POST")));
        assert_eq!(text(8), Some((":status", "200")));
        assert_eq!(text(16), Some(("accept-encoding", "gzip, deflate")));
        assert_eq!(text(31), Some(("content-type", "")));
        assert_eq!(text(58), Some(("user-agent", "")));
        assert_eq!(text(61), Some(("www-authenticate", "")));
        assert_eq!(text(62), None);
    }

    #[test]
    fn a_static_name_has_the_index_of_its_first_entry() {
        assert_eq!(static_index(b":method"), Some(2));
        assert_eq!(static_index(b"www-authenticate"), Some(61));
        assert_eq!(static_index(b"te"), None);
        assert_eq!(static_index(b""), None);
    }

    #[test]
    fn the_newest_entry_is_first_and_the_oldest_is_evicted() {
        let mut table = Table::new(100);
        insert(&mut table, b'a', 40);
        insert(&mut table, b'b', 40);
        assert_eq!(names(&table), "ba");
        assert_eq!(table.get(62).unwrap().0, b"b");
        insert(&mut table, b'c', 40);
        assert_eq!(names(&table), "cb");
        assert_eq!(table.size(), 80);
        assert_eq!(table.get(64), None);
    }

    #[test]
    fn an_entry_that_fits_exactly_takes_the_place_of_all_others() {
        let mut table = Table::new(100);
        insert(&mut table, b'a', 40);
        insert(&mut table, b'b', 100);
        assert_eq!(names(&table), "b");
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it_and_is_not_kept() {
        let mut table = Table::new(100);
        insert(&mut table, b'a', 40);
        insert(&mut table, b'b', 101);
        assert_eq!((names(&table), table.size()), (String::new(), 0));
        insert(&mut table, b'c', 40);
        assert_eq!(names(&table), "c");
    }

    #[test]
    fn a_smaller_table_keeps_the_newest_entries_that_fit() {
        let mut table = Table::new(100);
        insert(&mut table, b'a', 40);
        insert(&mut table, b'b', 40);
        table.set_max_size(79);
        assert_eq!(names(&table), "b");
        table.set_max_size(0);
        assert_eq!(names(&table), "");
        table.set_max_size(100);
        insert(&mut table, b'c', 40);
        assert_eq!(names(&table), "c");
    }

    #[test]
    fn entries_do_not_change_while_others_are_evicted() {
        let mut table = Table::new(3 * 40);
        for letter in (b'a'..=b'z').cycle().take(1000) {
            insert(&mut table, letter, 40);
            table.shrink(0);
            let (name, value) = table.get(62).expect("it was just inserted");
            assert_eq!((name, value), (&[letter][..], &b"......."[..]));
        }
        assert_eq!(names(&table), "lkj");
    }

    #[test]
    fn memory_is_0_at_first_and_then_bounded() {
        let mut table = Table::new(4096);
        assert_eq!(table.mem_used(), 0);
        for size in (33..5000).chain([33; 1000]) {
            insert(&mut table, b'a', size);
            table.shrink(4096);
            assert!(table.size() <= 4096);
            assert!(table.mem_used() <= 2 * 4096, "{} octets", table.mem_used());
        }
    }

    #[test]
    fn memory_stays_bounded_within_one_block() {
        let mut table = Table::new(4096);
        for _ in 0..1000 {
            let octets = table.literal_buf();
            let begin = octets.len();
            octets.resize(begin + 4000, b'.');
            let (middle, end) = (begin + 1, octets.len());
            table.drop_literal(Place { begin, middle, end });
        }
        assert!(table.mem_used() <= 2 * 4096, "{} octets", table.mem_used());
        for _ in 0..1000 {
            insert(&mut table, b'a', 4000);
        }
        assert!(table.mem_used() <= 8 * 4096, "{} octets", table.mem_used());
    }
}
