//! The API of the built binary: its socket, its clients, and what they see and change.

mod changes;
mod clients;
mod devices;
mod embedded;
pub(crate) mod node;
mod socket;
mod transcript;
