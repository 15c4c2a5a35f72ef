//! Devices for containers: the files that runtimes read, and the devices that commands hold.

mod cdi;
mod with;
