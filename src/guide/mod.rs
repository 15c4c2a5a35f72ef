//! How this project is meant to be understood and changed: documentation only, without code.
//!
//! Read in this order:
//!
//! 1. [`glossary`]: the words of the code.
//! 2. [`kubelet`]: the contract. Which rules of kubelet's plugin manager hold here, which of its
//!    holes are closed, and which test holds each of them; [`differences`] is what plugins notice.
//! 3. [`decisions`]: what was decided, why, and what was tried and given up.
//! 4. [`style`]: how code, tests and commits are written.
//! 5. [`testing`]: what each test suite is for, how to add to it, and how to replay a failure.
//! 6. [`stability`]: what stays the same for scripts and operators.
//! 7. [`operator`]: directories, mounts, locks, the log, descriptors and programs in detail.
//! 8. [`api`]: what the daemon's socket answers.
//! 9. [`metrics`]: the metrics, with their labels and bounds.
//! 10. [`log`]: every line of the log, with what it means and what to do.
//! 11. [`building`]: processors, reproducible builds, packages and images.
//! 12. [`handlers`]: which handler to choose in a program that embeds the plugin manager.
//! 13. [`changes`]: what has changed between versions.
//!
//! After that, `src/main.rs` shows the shape of the program on one screen, and the documentation of
//! most folders' `mod.rs` draws their data flow. The README explains how to use the program.

pub mod api;
pub mod building;
pub mod changes;
pub mod decisions;
pub mod differences;
pub mod glossary;
pub mod handlers;
pub mod kubelet;
pub mod log;
pub mod metrics;
pub mod operator;
pub mod stability;
pub mod style;
pub mod testing;
