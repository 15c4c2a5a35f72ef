//! The manager in virtual time: what an existing plugin may rely on ([`parity`]), where kubelet
//! fails its users and this does not ([`holes`]), where handlers call ([`endpoints`]), what they
//! may listen to ([`streams`]), what programs are told ([`exec`]), what is only observed
//! ([`observe`]), what other names of a socket change ([`aliases`]), who waits in line ([`line`]),
//! what there are too few descriptors for ([`descriptors`]), what changes at run time
//! ([`replaced`]), and what holds in every order of events ([`simulation`]).

mod aliases;
mod descriptors;
mod endpoints;
mod exec;
mod holes;
mod line;
mod node;
mod observe;
mod parity;
mod replaced;
mod rng;
mod script;
mod simulation;
mod streams;
mod tree;
mod world;
