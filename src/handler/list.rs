//! Lists of devices: decoding, limits, and the reasons for rejecting a list.

use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};

use crate::budget::OverBudget;
use crate::config::{MAX_DEVICES, MAX_REPLY};

/// Decodes a message that is a list of at most [`MAX_DEVICES`] devices.
///
/// An empty entry costs the sender two octets and the receiver about a hundred, so the entries are
/// counted before they are decoded.
pub(super) fn decode<M: Message + Default>(message: &[u8]) -> Result<M, Unlistable> {
    let listed = count_fields(message).map_err(|_| Unlistable::Undecodable)?;
    if listed > MAX_DEVICES {
        return Err(Unlistable::TooMany { listed });
    }
    M::decode(message).map_err(|_| Unlistable::Undecodable)
}

/// Returns the number of top-level fields of a message.
fn count_fields(mut message: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message)?;
        skip_field(wire_type, tag, &mut message, DecodeContext::default())?;
        count += 1;
    }
    Ok(count)
}

/// Sorts a list by key. Of several entries with one key, only the last is kept.
pub(super) fn sort_and_dedup<T, K: Ord>(list: &mut Vec<T>, key: impl Fn(&T) -> &K) {
    list.sort_by(|one, other| key(one).cmp(key(other)));
    list.dedup_by(|next, kept| {
        let is_same = key(next) == key(kept);
        if is_same {
            std::mem::swap(next, kept);
        }
        is_same
    });
}

/// The reason why a list of devices is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlistable {
    /// The message cannot be decoded.
    #[error("cannot decode the list of devices")]
    Undecodable,
    /// The list has more than [`MAX_DEVICES`] devices; for a DRA driver, those that are known from
    /// its earlier reports count, too.
    #[error("too many devices devices={listed} limit={MAX_DEVICES}")]
    TooMany {
        /// The number of devices.
        listed: usize,
    },
    /// The message is larger than [`MAX_REPLY`].
    #[error("the list is too large octets={octets} limit={MAX_REPLY}")]
    TooLarge {
        /// The length of the message in octets.
        octets: u32,
    },
    /// The list would exceed the memory budget, which all plugins share.
    #[error("{OverBudget}")]
    OverBudget,
}

impl Unlistable {
    /// Returns the consequence for the devices, and the remedy.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Undecodable => {
                "none of its devices can be used until a list is accepted; update or repair the \
                 plugin"
            }
            Self::TooMany { .. } | Self::TooLarge { .. } => {
                "the previous list stays in force; make the plugin list fewer devices"
            }
            Self::OverBudget => "the previous list stays in force; allow more with --memory-budget",
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::v1beta1::{Device, ListAndWatchResponse};

    #[test]
    fn the_fields_of_a_message_are_counted_without_reading_them() {
        let devices = vec![Device::default(); 5];
        let message = ListAndWatchResponse { devices }.encode_to_vec();
        assert_eq!(message.len(), 10);
        assert_eq!(count_fields(&message), Ok(5));
        assert_eq!(count_fields(&[]), Ok(0));
        assert!(count_fields(&[0x0a, 9]).is_err(), "it is cut");
        assert!(count_fields(&[0x0c]).is_err(), "no group was begun");
    }
}
