//! The sources of the loop's events, and their tokens.

use mio::Token;

use crate::api::ClientId;
use crate::manager::ConnectionId;
use crate::registration::ClientId as RegistrationClientId;

/// A descriptor in the loop, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The inotify instance that watches the directories.
    Inotify,
    /// The descriptor that `PluginManager::wake_on` has added.
    Wake,
    /// A connection.
    Connection(ConnectionId),
    /// The peer process of a connection.
    PeerProcess(ConnectionId),
    /// A program: it has ended or has written to its standard error.
    Program,
    /// The mount table.
    Mounts,
    /// The socket of the API.
    ApiListener,
    /// A client of the API.
    ApiClient(ClientId),
    /// The socket on which device plugins register.
    RegistrationListener,
    /// The inotify instance that watches the directory of `kubelet.sock`.
    DevicePluginsDir,
    /// A client of `kubelet.sock`.
    RegistrationClient(RegistrationClientId),
}

impl Source {
    /// Returns the token of this source.
    ///
    /// Tokens fit in 32 bits on every machine, so they repeat after half a billion ids. So a client
    /// is found by comparing tokens, not by the id that [`Source::of`] returns.
    pub(super) fn token(self) -> Token {
        let (kind, id) = match self {
            Self::Inotify => (0, 0),
            Self::Wake => (0, 1),
            Self::Mounts => (0, 2),
            Self::ApiListener => (0, 3),
            Self::RegistrationListener => (0, 4),
            Self::DevicePluginsDir => (0, 5),
            Self::Program => (0, 6),
            Self::Connection(ConnectionId(id)) => (1, u64::from(id)),
            Self::PeerProcess(ConnectionId(id)) => (2, u64::from(id)),
            Self::ApiClient(ClientId(id)) => (3, id),
            Self::RegistrationClient(RegistrationClientId(id)) => (4, id),
        };
        Token(usize::try_from(id % IDS).unwrap_or_default() * KINDS + kind)
    }

    /// Returns the source of a token.
    pub(super) fn of(token: Token) -> Self {
        let id = (token.0 / KINDS) as u64;
        let conn = ConnectionId(u32::try_from(id).unwrap_or(u32::MAX));
        match (token.0 % KINDS, id) {
            (0, 0) => Self::Inotify,
            (0, 1) => Self::Wake,
            (0, 2) => Self::Mounts,
            (0, 3) => Self::ApiListener,
            (0, 4) => Self::RegistrationListener,
            (0, 5) => Self::DevicePluginsDir,
            (0, _) => Self::Program,
            (1, _) => Self::Connection(conn),
            (2, _) => Self::PeerProcess(conn),
            (3, _) => Self::ApiClient(ClientId(id)),
            (_, _) => Self::RegistrationClient(RegistrationClientId(id)),
        }
    }
}

/// The distance between the tokens of two successive ids: a power of two, at least the number of
/// kinds. The sources that exist only once are one kind.
const KINDS: usize = 8;

/// The number of ids whose tokens differ.
const IDS: u64 = (u32::MAX as u64 + 1) / KINDS as u64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_source_has_its_own_token_and_is_found_by_it() {
        let mut sources = vec![
            Source::Inotify,
            Source::Wake,
            Source::Mounts,
            Source::ApiListener,
            Source::RegistrationListener,
            Source::DevicePluginsDir,
            Source::Program,
        ];
        for id in [1, 2, 7, 8, 1 << 28, (1 << 29) - 1] {
            sources.push(Source::Connection(ConnectionId(id)));
            sources.push(Source::PeerProcess(ConnectionId(id)));
            sources.push(Source::ApiClient(ClientId(id.into())));
            let client = RegistrationClientId(id.into());
            sources.push(Source::RegistrationClient(client));
        }
        for source in &sources {
            assert_eq!(Source::of(source.token()), *source);
        }
        let tokens: BTreeSet<Token> = sources.iter().map(|source| source.token()).collect();
        assert_eq!(tokens.len(), sources.len());
    }

    #[test]
    fn a_token_fits_32_bits_and_keeps_the_kind_of_a_large_id() {
        for id in [(1 << 29) - 1, 1 << 29, 1 << 32, u64::MAX - 1, u64::MAX] {
            let client = Source::RegistrationClient(RegistrationClientId(id)).token();
            let api_client = Source::ApiClient(ClientId(id)).token();
            for token in [client, api_client] {
                assert!(u32::try_from(token.0).is_ok(), "{token:?}");
            }
            assert!(matches!(Source::of(client), Source::RegistrationClient(_)));
            assert!(matches!(Source::of(api_client), Source::ApiClient(_)));
        }
    }
}
