//! The manager in virtual time: what an existing plugin may rely on ([`parity`]), and what holds in
//! every order of events ([`simulation`]).

mod parity;
mod rng;
mod script;
mod simulation;
mod world;
