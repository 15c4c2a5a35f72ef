//! Small changes to octets: what a fuzzer does, without feedback.

use crate::rng::Rng;

/// Returns one of these inputs, changed in a few places.
pub(crate) fn of(kept: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.pick(kept).cloned().unwrap_or_default();
    for _ in 0..=rng.below(0..4) {
        mutate(&mut bytes, kept, rng);
    }
    bytes.truncate(LONGEST);
    bytes
}

fn mutate(bytes: &mut Vec<u8>, kept: &[Vec<u8>], rng: &mut Rng) {
    let at = place(bytes.len(), rng);
    let end = at + place(bytes.len() - at, rng);
    match rng.below(0..8) {
        0 => bytes.insert(at, octet(rng)),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.extend_from_within(at..end),
        3 => bytes.truncate(at),
        4 => {
            let other = rng.pick(kept).map(Vec::as_slice).unwrap_or_default();
            let from = place(other.len(), rng);
            bytes.splice(at..end, other[from..].iter().copied());
        }
        choice => {
            if let Some(old) = bytes.get_mut(at) {
                *old = match choice {
                    5 => *old ^ (1 << rng.below(0..8)),
                    _ => octet(rng),
                };
            }
        }
    }
}

/// Returns a position in this many octets, or behind them.
fn place(length: usize, rng: &mut Rng) -> usize {
    let end = length as u64 + 1;
    usize::try_from(rng.below(0..end)).expect("at most a length")
}

/// Returns any octet; those at the ends of their range more often.
fn octet(rng: &mut Rng) -> u8 {
    let any = rng.next().to_le_bytes()[0];
    *rng.pick(&[any, any, any, 0, 1, 0x7f, 0x80, 0xff])
        .unwrap_or(&any)
}

/// The maximum length of a mutation (octets).
const LONGEST: usize = 4096;
