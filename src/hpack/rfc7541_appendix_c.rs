//! The examples of RFC 7541 appendix C, decoded block by block; the dynamic table is checked after
//! each block.
//!
//! The integers of C.1 are tested in `integer`.

use super::{Decoder, Encoder};

/// One step of an example: a block as printed in the RFC, its fields, and the dynamic table after
/// the block, newest entry first.
struct Step<'a> {
    block: &'a str,
    fields: &'a [(&'a str, &'a str)],
    table: &'a [(&'a str, &'a str)],
    size: usize,
}

/// Decodes the blocks in order and checks the results. The table may grow to `max_table_size`.
fn check_steps(max_table_size: usize, steps: &[Step<'_>]) {
    let mut decoder = Decoder::new(max_table_size);
    for (number, step) in steps.iter().enumerate() {
        let mut fields = Vec::new();
        decoder
            .decode(&parse_hex(step.block), &mut |name, value| {
                fields.push((text(name), text(value)));
            })
            .unwrap_or_else(|error| panic!("step {number}: {error}"));
        assert_eq!(fields, owned(step.fields), "fields of step {number}");
        let table = decoder.table();
        let entries: Vec<_> = table
            .dynamic_entries()
            .map(|(name, value)| (text(name), text(value)))
            .collect();
        assert_eq!(entries, owned(step.table), "table after step {number}");
        assert_eq!(table.size(), step.size, "table size after step {number}");
    }
}

fn parse_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
        .collect()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    fields.iter().map(own).collect()
}

#[test]
fn c_2_1_literal_header_field_with_indexing() {
    let fields = [("custom-key", "custom-header")];
    check_steps(
        4096,
        &[Step {
            block: "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            fields: &fields,
            table: &fields,
            size: 55,
        }],
    );
}

#[test]
fn c_2_2_literal_header_field_without_indexing() {
    let block = "040c 2f73 616d 706c 652f 7061 7468";
    check_steps(
        4096,
        &[Step {
            block,
            fields: &[(":path", "/sample/path")],
            table: &[],
            size: 0,
        }],
    );
    let mut out = Vec::new();
    Encoder::begin(&mut out).field(":path", "/sample/path");
    assert_eq!(
        out,
        [parse_hex("20"), parse_hex(block)].concat(),
        "we encode it the same way"
    );
}

#[test]
fn c_2_3_literal_header_field_never_indexed() {
    check_steps(
        4096,
        &[Step {
            block: "1008 7061 7373 776f 7264 0673 6563 7265 74",
            fields: &[("password", "secret")],
            table: &[],
            size: 0,
        }],
    );
}

#[test]
fn c_2_4_indexed_header_field() {
    check_steps(
        4096,
        &[Step {
            block: "82",
            fields: &[(":method", "GET")],
            table: &[],
            size: 0,
        }],
    );
}

/// Checks the three requests that C.3 and C.4 encode in different blocks.
fn check_requests(blocks: [&str; 3]) {
    let first_table = [(":authority", "www.example.com")];
    let second_table = [("cache-control", "no-cache"), first_table[0]];
    let third_table = [
        ("custom-key", "custom-value"),
        second_table[0],
        second_table[1],
    ];
    check_steps(
        4096,
        &[
            Step {
                block: blocks[0],
                fields: &[
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":path", "/"),
                    (":authority", "www.example.com"),
                ],
                table: &first_table,
                size: 57,
            },
            Step {
                block: blocks[1],
                fields: &[
                    (":method", "GET"),
                    (":scheme", "http"),
                    (":path", "/"),
                    (":authority", "www.example.com"),
                    ("cache-control", "no-cache"),
                ],
                table: &second_table,
                size: 110,
            },
            Step {
                block: blocks[2],
                fields: &[
                    (":method", "GET"),
                    (":scheme", "https"),
                    (":path", "/index.html"),
                    (":authority", "www.example.com"),
                    ("custom-key", "custom-value"),
                ],
                table: &third_table,
                size: 164,
            },
        ],
    );
}

#[test]
fn c_3_requests_without_huffman_coding() {
    check_requests([
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ]);
}

#[test]
fn c_4_requests_with_huffman_coding() {
    check_requests([
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ]);
}

/// Checks the three responses that C.5 and C.6 encode in different blocks, with a table of 256
/// octets so that entries are evicted.
fn check_responses(blocks: [&str; 3]) {
    let location = ("location", "https://www.example.com");
    let date_21 = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let date_22 = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    let private = ("cache-control", "private");
    let cookie = (
        "set-cookie",
        "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    );
    let gzip = ("content-encoding", "gzip");
    check_steps(
        256,
        &[
            Step {
                block: blocks[0],
                fields: &[(":status", "302"), private, date_21, location],
                table: &[location, date_21, private, (":status", "302")],
                size: 222,
            },
            Step {
                block: blocks[1],
                fields: &[(":status", "307"), private, date_21, location],
                table: &[(":status", "307"), location, date_21, private],
                size: 222,
            },
            Step {
                block: blocks[2],
                fields: &[(":status", "200"), private, date_22, location, gzip, cookie],
                table: &[cookie, gzip, date_22],
                size: 215,
            },
        ],
    );
}

#[test]
fn c_5_responses_without_huffman_coding() {
    check_responses([
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ]);
}

#[test]
fn c_6_responses_with_huffman_coding() {
    check_responses([
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ]);
}
