//! The manager in virtual time: what an existing plugin may rely on ([`parity`]); failures of
//! kubelet that the manager avoids ([`beyond_kubelet`]); the events that operators see
//! ([`events`]); streams of handlers ([`streams`]); programs as handlers ([`exec`]); what is
//! [`measured`] and shown as [`metrics`]; the dry run ([`observe`]); plugins that announce
//! themselves ([`announced`]); too few descriptors ([`descriptors`]); handlers that change at run
//! time ([`replaced`]); what operators see and request ([`records`]); the built-in handlers
//! ([`handlers`]); and what holds in every order of events, restarts included ([`simulation`],
//! whose handlers ask for [`wanted`] effects).

mod announced;
mod beyond_kubelet;
mod descriptors;
mod events;
mod exec;
mod handlers;
mod measured;
mod metrics;
mod node;
mod observe;
mod parity;
mod records;
mod replaced;
mod restored;
mod rng;
mod script;
mod simulation;
mod streams;
mod tree;
mod wanted;
mod world;
