//! The conclusions of a probe, as they are shown.
//!
//! Pure.

use crate::daemon::probe::Outcome;

/// A conclusion, as it is shown.
pub(super) struct Described {
    /// The exit status of the process.
    pub(super) status: u8,
    /// The name in JSON.
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    /// What may help, after the text.
    pub(super) advice: &'static str,
}

/// Returns how an outcome is shown.
pub(super) fn describe(outcome: Outcome) -> Described {
    let (status, name, text, advice) = match outcome {
        Outcome::WouldRegister => (0, "would_register", "the plugin would be registered", ""),
        Outcome::WouldRefuse => (5, "would_refuse", "the plugin would be refused", ""),
        Outcome::NotARegistrationService => (
            6,
            "not_a_registration_service",
            "this is not a plugin registration service",
            "; probe the socket in the plugins directory",
        ),
        Outcome::Unreachable => (
            7,
            "unreachable",
            "the plugin does not answer",
            "; check that it is running and listens on this socket",
        ),
        Outcome::ClosedAtOnce => (
            8,
            "closed_at_once",
            "the connection was closed before any data was received",
            "; configure the plugin to serve this socket without TLS",
        ),
        Outcome::EndpointUnavailable => (
            9,
            "endpoint_unavailable",
            "the plugin would be registered, but its endpoint does not answer",
            "; check that it listens there, and --map-path",
        ),
    };
    Described {
        status,
        name,
        text,
        advice,
    }
}
