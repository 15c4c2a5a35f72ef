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
    /// A program, by the number of its effect: it has ended or has written to its standard error.
    Program(u64),
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
    /// A client of `kubelet.sock`. Its id is not zero, which would make the token of the mount
    /// table.
    RegistrationClient(RegistrationClientId),
}

impl Source {
    /// Returns the token of this source.
    ///
    /// Tokens fit in 32 bits on every machine, so they repeat after half a billion ids. So a
    /// program or a client is found by comparing tokens, not by the id that [`Source::of`] returns.
    pub(super) fn token(self) -> Token {
        let (kind, id) = match self {
            Self::Inotify => (0, 0),
            Self::Wake => (1, 0),
            Self::Connection(ConnectionId(id)) => (2, u64::from(id)),
            Self::PeerProcess(ConnectionId(id)) => (3, u64::from(id)),
            Self::Program(id) => (4, id),
            Self::Mounts => (5, 0),
            Self::ApiListener => (6, 0),
            Self::ApiClient(ClientId(id)) => (7, id),
            Self::RegistrationListener => (6, 1),
            Self::DevicePluginsDir => (6, 2),
            Self::RegistrationClient(RegistrationClientId(id)) => (5, id),
        };
        let short = match id {
            0 => 0,
            id => (id - 1) % (IDS - 1) + 1,
        };
        Token(usize::try_from(short).unwrap_or_default() * KINDS + kind)
    }

    /// Returns the source of a token.
    pub(super) fn of(token: Token) -> Self {
        let id = (token.0 / KINDS) as u64;
        match token.0 % KINDS {
            0 => Self::Inotify,
            1 => Self::Wake,
            2 => Self::Connection(connection_id(id)),
            3 => Self::PeerProcess(connection_id(id)),
            4 => Self::Program(id),
            5 if id == 0 => Self::Mounts,
            5 => Self::RegistrationClient(RegistrationClientId(id)),
            6 if id == 0 => Self::ApiListener,
            6 if id == 1 => Self::RegistrationListener,
            6 => Self::DevicePluginsDir,
            _ => Self::ApiClient(ClientId(id)),
        }
    }
}

fn connection_id(id: u64) -> ConnectionId {
    ConnectionId(u32::try_from(id).unwrap_or(u32::MAX))
}

/// The distance between the tokens of two successive ids: a power of two, at least the number
/// of kinds.
const KINDS: usize = 8;

/// The number of ids whose tokens differ. The id 0 does not share its token with any other id, so
/// that some kinds can use it for a source that exists only once.
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
        ];
        for id in [1, 2, 7, 8, 1 << 28, (1 << 29) - 1] {
            sources.push(Source::Connection(ConnectionId(id)));
            sources.push(Source::PeerProcess(ConnectionId(id)));
            sources.push(Source::Program(id.into()));
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
            let program = Source::Program(id).token();
            let client = Source::RegistrationClient(RegistrationClientId(id)).token();
            let api_client = Source::ApiClient(ClientId(id)).token();
            for token in [program, client, api_client] {
                assert!(u32::try_from(token.0).is_ok(), "{token:?}");
            }
            assert!(matches!(Source::of(program), Source::Program(_)));
            assert!(matches!(Source::of(client), Source::RegistrationClient(_)));
            assert!(matches!(Source::of(api_client), Source::ApiClient(_)));
        }
    }
}
