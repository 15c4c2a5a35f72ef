//! The Huffman code for strings: RFC 7541 §5.2 and appendix B.
//!
//! Decoding only: few strings that are sent are long enough to be worth compressing.
//!
//! The code is canonical: among the codes of one length, the numerical order is the order of the
//! symbols, and a longer code is greater than every shorter one if both are aligned to the left.
//! The lengths alone therefore define the whole table, and a code is found by comparing the next 32
//! bits with the last code of each length. There are 21 lengths, and all common printable symbols
//! have one of the first four: these are looked up by the next eight bits.
//!
//! ```text
//! bits     11111111000...   a window of 32, filled up with ones after the end of the string
//! lengths  5: 01001|11..  ...  10: 1111111100|11..   10 is the first not below the window
//! symbol   SYMBOLS[first symbol of length 10 + (1111111100 - first code of length 10)]
//! ```

use super::Error;

/// Decodes `input` and appends the result to `out`.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    // The shortest code has 5 bits. This memory is proportional to the octets received, not to an
    // announced length.
    out.reserve(input.len() * 8 / 5);
    let mut bits = Bits {
        buffer: u64::MAX,
        count: 0,
        octets: input,
    };
    while let Some(symbol) = bits.next_symbol() {
        out.push(symbol?);
    }
    // The rest is padding. RFC 7541 §5.2: "A padding strictly longer than 7 bits MUST be treated as
    // a decoding error. A padding not corresponding to the most significant bits of the code for
    // the EOS symbol MUST be treated as a decoding error."
    if bits.count < u8::BITS && bits.window() == u32::MAX {
        Ok(())
    } else {
        Err(Error::HuffmanPadding)
    }
}

/// A string of bits, read from its front.
struct Bits<'a> {
    /// The next bits, aligned to the left and followed by ones, as if the padding continued without
    /// end.
    buffer: u64,
    /// The number of bits of `buffer` that belong to the string.
    count: u32,
    /// The octets that are not yet in `buffer`.
    octets: &'a [u8],
}

impl Bits<'_> {
    /// Removes and returns the next symbol, or returns `None` if the rest is too short for one.
    fn next_symbol(&mut self) -> Option<Result<u8, Error>> {
        if self.count < LONGEST_CODE {
            self.refill();
        }
        let (bits, symbol) = SHORT[(self.window() >> (u32::BITS - SHORT_CODE)) as usize];
        if bits == 0 {
            return self.next_long_symbol();
        }
        self.remove_bits(bits.into())?;
        Some(Ok(symbol))
    }

    /// Removes and returns the next symbol, whose code is longer than `SHORT_CODE`.
    fn next_long_symbol(&mut self) -> Option<Result<u8, Error>> {
        if self.count <= SHORT_CODE {
            return None; // The rest is padding: it contains no whole code.
        }
        let window = self.window();
        // The last code of the greatest length is all ones, so at least one last code is not below
        // the window.
        let length = LENGTHS.iter().find(|length| window <= length.last)?;
        self.remove_bits(length.bits)?;
        // RFC 7541 §5.2: "A Huffman-encoded string literal containing the EOS symbol MUST be
        // treated as a decoding error."
        let symbol = SYMBOLS.get(length.index_of(window)).copied();
        Some(symbol.ok_or(Error::HuffmanEos))
    }

    /// Removes the next `bits` bits; returns `None` if fewer are left.
    fn remove_bits(&mut self, bits: u32) -> Option<()> {
        self.count = self.count.checked_sub(bits)?;
        self.buffer = !(!self.buffer << bits);
        Some(())
    }

    /// Moves four octets into `buffer`, or all that are left if they are fewer.
    fn refill(&mut self) {
        if let Some((four, rest)) = self.octets.split_first_chunk() {
            let four = u64::from(!u32::from_be_bytes(*four));
            self.buffer ^= four << (u64::BITS - u32::BITS - self.count);
            self.count += u32::BITS;
            self.octets = rest;
            return;
        }
        while let Some((&octet, rest)) = self.octets.split_first() {
            self.buffer ^= u64::from(!octet) << (u64::BITS - u8::BITS - self.count);
            self.count += u8::BITS;
            self.octets = rest;
        }
    }

    /// Returns the next 32 bits.
    fn window(&self) -> u32 {
        (self.buffer >> u32::BITS) as u32
    }
}

/// All codes of one length.
struct Length {
    /// The length in bits.
    bits: u32,
    /// The first code, aligned to the left and followed by zeros.
    first: u32,
    /// The last code, aligned to the left and followed by ones.
    last: u32,
    /// The index in `SYMBOLS` of the symbol with the first code.
    symbol: usize,
}

impl Length {
    /// Returns the index in `SYMBOLS` of the symbol whose code `window` starts with; `window` is
    /// between `first` and `last`.
    const fn index_of(&self, window: u32) -> usize {
        self.symbol + ((window - self.first) >> (u32::BITS - self.bits)) as usize
    }
}

/// The symbols in the order of their codes, without EOS, which has the last code.
static SYMBOLS: [u8; EOS] = build_symbols();

/// The lengths that occur among the codes, shortest first.
static LENGTHS: [Length; DISTINCT_LENGTHS] = build_lengths();

/// The length and the symbol of the code at the start of each value of the next `SHORT_CODE` bits;
/// (0, 0) if that code is longer.
static SHORT: [(u8, u8); 1 << SHORT_CODE] = build_short();

#[allow(clippy::cast_possible_truncation)] // a symbol below EOS is an octet
const fn build_symbols() -> [u8; EOS] {
    let mut symbols = [0; EOS];
    let mut filled = 0;
    let mut bits = 0;
    while bits < LONGEST_CODE {
        bits += 1;
        let mut symbol = 0;
        while symbol < EOS {
            if CODE_LENGTHS[symbol] as u32 == bits {
                symbols[filled] = symbol as u8;
                filled += 1;
            }
            symbol += 1;
        }
    }
    symbols
}

const fn build_lengths() -> [Length; DISTINCT_LENGTHS] {
    const UNFILLED: Length = Length {
        bits: 0,
        first: 0,
        last: 0,
        symbol: 0,
    };
    let mut lengths = [UNFILLED; DISTINCT_LENGTHS];
    let mut filled = 0;
    let mut symbol = 0;
    let mut first: u32 = 0;
    let mut bits = 0;
    while bits < LONGEST_CODE {
        bits += 1;
        let codes = count_codes_of_length(bits);
        if codes == 0 {
            continue;
        }
        let last = first + ((codes << (u32::BITS - bits)) - 1);
        lengths[filled] = Length {
            bits,
            first,
            last,
            symbol,
        };
        filled += 1;
        symbol += codes as usize;
        // Wraps after the last code of all, which is all ones.
        first = last.wrapping_add(1);
    }
    lengths
}

#[allow(clippy::cast_possible_truncation)] // no length is above 30
const fn build_short() -> [(u8, u8); 1 << SHORT_CODE] {
    let (symbols, lengths) = (build_symbols(), build_lengths());
    let mut short = [(0, 0); 1 << SHORT_CODE];
    let mut index = 0;
    let mut length = 0;
    while lengths[length].bits <= SHORT_CODE {
        let window = (index as u32) << (u32::BITS - SHORT_CODE);
        if window > lengths[length].last {
            length += 1;
            continue;
        }
        let symbol = symbols[lengths[length].index_of(window)];
        short[index] = (lengths[length].bits as u8, symbol);
        index += 1;
    }
    short
}

const fn count_codes_of_length(bits: u32) -> u32 {
    let mut codes = 0;
    let mut symbol = 0;
    while symbol < CODE_LENGTHS.len() {
        if CODE_LENGTHS[symbol] as u32 == bits {
            codes += 1;
        }
        symbol += 1;
    }
    codes
}

/// The end-of-string symbol, which follows the 256 octets. Padding is a prefix of its code; the
/// whole code must not be sent.
const EOS: usize = 256;

/// The maximum number of bits in a code that is looked up in `SHORT`: enough for all letters, all
/// digits and the punctuation that is common in header fields.
const SHORT_CODE: u32 = 8;

/// The number of bits in the longest code.
const LONGEST_CODE: u32 = 30;

/// The number of distinct lengths in `CODE_LENGTHS`.
const DISTINCT_LENGTHS: usize = 21;

/// The length in bits of the code of each symbol: RFC 7541 appendix B, sixteen octets in each row,
/// then EOS.
#[rustfmt::skip]
const CODE_LENGTHS: [u8; EOS + 1] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, // 0x00
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, // 0x10
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6, // 0x20
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10, // 0x30
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7, // 0x40
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6, // 0x50
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5, // 0x60
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28, // 0x70
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, // 0x80
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, // 0x90
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, // 0xa0
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, // 0xb0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, // 0xc0
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, // 0xd0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, // 0xe0
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, // 0xf0
    30,                                                             // EOS
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the code of `symbol`, aligned to the left and followed by zeros, and its length in
    /// bits.
    fn code(symbol: usize) -> (u32, u32) {
        let bits = u32::from(CODE_LENGTHS[symbol]);
        let length = LENGTHS.iter().find(|length| length.bits == bits).unwrap();
        let before = (0..symbol)
            .filter(|&other| CODE_LENGTHS[other] == CODE_LENGTHS[symbol])
            .count();
        let before = u32::try_from(before).unwrap();
        (length.first + (before << (u32::BITS - bits)), bits)
    }

    /// Encodes `symbols`, and fills up the last octet with `padding` bits.
    fn encode(symbols: &[usize], padding: char) -> Vec<u8> {
        let mut digits = String::new();
        for &symbol in symbols {
            let (code, bits) = code(symbol);
            digits.push_str(&format!("{code:032b}")[..bits as usize]);
        }
        while digits.len() % 8 != 0 {
            digits.push(padding);
        }
        digits
            .as_bytes()
            .chunks(8)
            .map(|octet| u8::from_str_radix(std::str::from_utf8(octet).unwrap(), 2).unwrap())
            .collect()
    }

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        decode(input, &mut out)?;
        Ok(out)
    }

    #[test]
    fn the_code_is_complete_and_no_code_is_the_prefix_of_another() {
        let mut codes: Vec<_> = (0..=EOS).map(code).collect();
        codes.sort_unstable();
        let mut next: u64 = 0;
        for (code, bits) in codes {
            assert_eq!(
                u64::from(code),
                next,
                "a gap or an overlap before a code of {bits} bits"
            );
            next += 1 << (u32::BITS - bits);
        }
        assert_eq!(next, 1 << u32::BITS);
    }

    /// The compiler evaluates these functions; calling them here makes them count in the coverage.
    #[test]
    fn the_tables_are_the_same_at_run_time() {
        assert_eq!(build_symbols(), SYMBOLS);
        assert_eq!(build_short(), SHORT);
        let first = |lengths: &[Length]| lengths.iter().map(|it| it.first).collect::<Vec<_>>();
        assert_eq!(first(&build_lengths()), first(&LENGTHS));
    }

    #[test]
    fn codes_are_those_of_appendix_b() {
        let spelled = |symbol| {
            let (code, bits) = code(symbol);
            (code >> (u32::BITS - bits), bits)
        };
        assert_eq!(spelled(0), (0x1ff8, 13));
        assert_eq!(spelled(usize::from(b'0')), (0x0, 5));
        assert_eq!(spelled(usize::from(b' ')), (0x14, 6));
        assert_eq!(spelled(usize::from(b'a')), (0x3, 5));
        assert_eq!(spelled(usize::from(b'z')), (0x7b, 7));
        assert_eq!(spelled(usize::from(b'\\')), (0x7_fff0, 19));
        assert_eq!(spelled(0xff), (0x3ff_ffee, 26));
        assert_eq!(spelled(b'\r'.into()), (0x3fff_fffd, 30));
        assert_eq!(spelled(EOS), (0x3fff_ffff, 30));
    }

    #[test]
    fn every_octet_is_decoded_alone_and_between_others() {
        for symbol in 0..EOS {
            let octet = u8::try_from(symbol).unwrap();
            assert_eq!(decoded(&encode(&[symbol], '1')), Ok(vec![octet]));
            let between = encode(&[usize::from(b'a'), symbol, 0xff, symbol], '1');
            assert_eq!(decoded(&between), Ok(vec![b'a', octet, 0xff, octet]));
        }
    }

    #[test]
    fn a_string_of_the_shortest_and_longest_codes_is_decoded() {
        let symbols: Vec<usize> = (0..1000).map(|i| usize::from(b"0\n"[i % 2])).collect();
        let octets: Vec<u8> = (0..1000).map(|i| b"0\n"[i % 2]).collect();
        assert_eq!(decoded(&encode(&symbols, '1')), Ok(octets));
    }

    #[test]
    fn no_octets_decode_to_the_empty_string() {
        assert_eq!(decoded(&[]), Ok(vec![]));
    }

    #[test]
    fn an_end_of_string_symbol_inside_the_string_is_an_error() {
        assert_eq!(decoded(&encode(&[EOS], '1')), Err(Error::HuffmanEos));
        let eos_first = encode(&[EOS, usize::from(b'a')], '1');
        assert_eq!(decoded(&eos_first), Err(Error::HuffmanEos));
    }

    #[test]
    fn padding_is_at_most_seven_bits_and_all_ones() {
        // "a" is 00011, which leaves three bits in its octet; eight times "0" fills five octets.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1110]), Err(Error::HuffmanPadding));
        assert_eq!(decoded(&[0b0001_1000]), Err(Error::HuffmanPadding));
        assert_eq!(decoded(&[0; 5]), Ok(b"00000000".to_vec()));
        // From 8 to 24 ones; the end-of-string symbol has 30.
        assert_eq!(decoded(&[0xff]), Err(Error::HuffmanPadding));
        assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(Error::HuffmanPadding));
        assert_eq!(decoded(&[0xff, 0xff, 0xff]), Err(Error::HuffmanPadding));
        // "b" is 100011, and "X" is 11111100; the two zeros that are left are not valid padding.
        assert_eq!(
            decoded(&[0b1000_1111, 0b1111_0000]),
            Err(Error::HuffmanPadding)
        );
    }
}
