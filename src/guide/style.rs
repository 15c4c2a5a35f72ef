//! How code, tests and commits are written here. The first table is held by machines; the lists
//! after it only by readers.
//!
//! # What machines hold
//!
//! | rule | held by |
//! |---|---|
//! | only `daemon` names files, descriptors, clocks, threads and their packages | `tests/tidy` |
//! | only one module reads the time of day | `tests/tidy` |
//! | a layer names only layers below it; the list is in `may_name` | `tests/tidy` |
//! | unsafe code only in the modules of a list, each block with its reason | `tests/tidy`, clippy |
//! | less than 500 lines of code in one file, tests not counted | `tests/tidy` |
//! | each module opens with its documentation | `tests/tidy` |
//! | comments fit in 100 columns | `tests/tidy` |
//! | nothing unfinished, nothing ignored outside of `make full`, no sleeps | `tests/tidy` |
//! | paths of one machine do not occur | `tests/tidy` |
//! | the top level has no further entries | `tests/tidy` |
//! | what ships does not depend on an async runtime | `tests/tidy` |
//! | rows of kubelet's rules, their tests and their quotations agree | `tests/tidy` |
//! | every line of the log is explained in [`log`](super::log), and nothing else | `tests/tidy` |
//! | the manual and the completions are those of the help texts | `tests/tidy/manual` |
//! | every help text fits 80 columns, and each option of it is known | tests of `cli` |
//! | the generated messages are those of `proto/` | `tests/tidy/proto.rs` |
//! | format, lints (clippy's `pedantic`), documentation of all public items | `make lint` |
//! | the oldest Rust of `Cargo.toml` compiles everything | `make check` |
//! | it passes the tests | `make full ONLY=msrv` |
//! | the binary is static, hardened, and not above 1,500,000 octets | `make static` |
//! | one commit gives the same files in every directory | `make full ONLY=reproducible` |
//! | more than 95 % of the lines of each protocol folder run | `make full ONLY=coverage` |
//! | the tests find mistakes planted at each `// mutation: WHAT` | `make full ONLY=mistakes` |
//!
//! # Code
//!
//! - A file is one noun, read from the top: module documentation, public type, its methods,
//!   helpers, constants, tests. A function fits a screen; its parent branches, the leaf computes.
//! - The verbs of a machine: `handle_input`, `handle_timeout(now)`, `poll_output`, `poll_timeout`;
//!   for bytes `recv_buf`, `received`, `transmit`, `sent`.
//! - A state is named after what it waits for (`AskingInfo`), an event is in the past tense
//!   (`Connected`), a command in the imperative (`Dial`). Data of one state lives in that state.
//! - Numbers that name things are types, and are never reused.
//! - A peer, the file system and the clock never cause a panic. `expect` states why a local
//!   invariant holds. An expected outcome of an attempt is a value, not an error.
//! - A limit for everything that a peer can make grow; all limits are in [`config`](crate::config),
//!   each with its reason, and with kubelet's value if that differs.
//! - Errors are small enums, one for each layer; text is made at the last step outward, and text of
//!   a plugin is escaped there ([`escape`](crate::escape)).
//! - One log line for each change of state, at the place where the effect is queued, with the
//!   socket and the attempt in front: trace for events, debug for steps, info for plugins that come
//!   and go, warn where an operator has to act.
//! - A new dependency is weighed in octets of the static binary, and the commit names them.
//!
//! # Language
//!
//! - Plain English. Things have the name that RFC 9113, RFC 7541, gRPC, kubelet or Rust gives them.
//!   One word has one meaning ([`glossary`](super::glossary)).
//! - Sentences are about roles: the plugin, the server, the caller, the handler, the kernel.
//! - The documentation of a function begins with a verb in the third person and states what it
//!   returns. A comment states why, and describes the code, not its history.
//! - A sentence of a specification that is obeyed is quoted above the code, with its section. A
//!   rule of kubelet is quoted with its row of [`kubelet`](super::kubelet).
//! - What is sent to plugins has kubelet's words. Errors: what happened to what, why, and what
//!   helps; facts for scripts stand at the end as `key=value`.
//!
//! # Tests
//!
//! - The name of a test is a sentence about behaviour. A row of the guide may stand in front of it.
//! - A fix has a test that fails without it. A test that cannot fail is not kept.
//! - Tests of the core write out a timeline, silence included. Tests with real sockets wait for an
//!   event, with a bound.
//! - Tests change settings of the machine only in namespaces of their own. What a machine cannot
//!   run is reported as skipped, with the reason ([`testing`](super::testing)).
//!
//! # Commits
//!
//! - Small, and green. The subject names area, verb and object:
//!   `http2: accept header lists of 64 KiB`. The body states why, with the measurement if there is
//!   one.
//! - The page [`differences`](super::differences), the rows of [`kubelet`](super::kubelet) and the
//!   README change with the code.
