//! The manager in virtual time: what an existing plugin may rely on ([`parity`]), where kubelet
//! fails its users and this does not ([`holes`]), what handlers may listen to ([`streams`]), and
//! what holds in every order of events ([`simulation`]).

mod holes;
mod node;
mod parity;
mod rng;
mod script;
mod simulation;
mod streams;
mod tree;
mod world;
