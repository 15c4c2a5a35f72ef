//! The reasons why a list of devices is rejected.
//!
//! Pure.

use std::fmt;

use crate::budget::OverBudget;
use crate::config::{MAX_DEVICES, MAX_REPLY};

/// The reason why a list of devices is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlistable {
    /// The message is not a `ListAndWatchResponse`.
    Undecodable,
    /// The list has more than [`MAX_DEVICES`] devices.
    TooMany {
        /// The number of listed devices.
        listed: usize,
    },
    /// The message is larger than [`MAX_REPLY`].
    TooLarge {
        /// The length of the message in octets.
        octets: u32,
    },
    /// With the list, more would be held of all plugins than the memory budget allows.
    OverBudget,
}

impl fmt::Display for Unlistable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecodable => f.write_str("cannot decode the ListAndWatch message"),
            Self::TooMany { listed } => write!(
                f,
                "too many devices in the ListAndWatch message devices={listed} limit={MAX_DEVICES}"
            ),
            Self::TooLarge { octets } => write!(
                f,
                "the ListAndWatch message is too large octets={octets} limit={MAX_REPLY}"
            ),
            Self::OverBudget => OverBudget.fmt(f),
        }
    }
}

impl std::error::Error for Unlistable {}

impl Unlistable {
    /// Returns what becomes of the devices, and what can be done about it.
    pub(super) fn advice(&self) -> &'static str {
        match self {
            Self::Undecodable => {
                "none of its devices can be used until a list is accepted; make it send a v1beta1 \
                 ListAndWatchResponse"
            }
            Self::TooMany { .. } | Self::TooLarge { .. } => {
                "what it listed before stays in force; make it list fewer devices"
            }
            Self::OverBudget => {
                "what it listed before stays in force; allow more with --memory-budget"
            }
        }
    }
}
