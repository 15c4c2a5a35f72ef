//! The manager in virtual time: what an existing plugin may rely on ([`parity`]), where kubelet
//! fails its users and this does not ([`holes`]), and what holds in every order of events
//! ([`simulation`]).

mod holes;
mod parity;
mod rng;
mod script;
mod simulation;
mod world;
