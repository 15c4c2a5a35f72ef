//! What is built from the source, for which processors, and what the packages contain.
//!
//! # The static binary
//!
//! `make static` builds one file without dependencies, of at most 1,500,000 octets, and checks it.
//!
//! | processor | `TARGET` | tested |
//! |---|---|---|
//! | x86_64 | `x86_64` (default) | on the machine itself |
//! | 64-bit ARM | `aarch64` | with `qemu-user` |
//! | 32-bit ARMv7 with floating point | `armv7` | with `qemu-user`, also after 2038 |
//!
//! `make static TARGET=aarch64` builds `target/static/aarch64/plugind`; `make full ONLY=static
//! TARGET=aarch64` runs the tests of the binary with it. One x86_64 machine with the compiler of
//! Debian 12 builds all three; the compiler of Debian 13 builds the one for x86_64 as well.
//! `.ci/with-tools` adds the architectures `arm64` and `armhf` to `dpkg` for musl. Other processors
//! are not tested.
//!
//! With rustup, these two commands give an equivalent file for x86_64, which is 0.5 MB larger
//! because rustup's standard library can print backtraces:
//!
//! ```text
//! rustup target add x86_64-unknown-linux-musl
//! cargo build --release --locked --target x86_64-unknown-linux-musl
//! ```
//!
//! One commit gives the same octets in every directory, with the same compiler: `make full
//! ONLY=reproducible` compares two builds. `plugind version` names the commit.
//!
//! # Packages and images
//!
//! `make dist` writes an archive, a Debian package and a container image for each processor, and
//! `SHA256SUMS`, to `target/dist`. Archive and package contain the binary, the manual pages
//! (`src/dist/man`), completions for bash, zsh and fish, the units of systemd, alert rules for
//! Prometheus, a dashboard for Grafana (`plugind.dashboard.json`), the README and the pages of this
//! guide that it links to.
//!
//! The Debian package does not enable the service, because it must not run beside a kubelet on the
//! same directory. An upgrade restarts the service if it runs, and every plugin stays registered. A
//! purge also removes `/run/plugind`, `/var/lib/plugind` and the files of the daemon in `/run/cdi`.
//! `make full ONLY=dist` tries this in a bare Debian 12.
//!
//! Without the package, copy the static file to `/usr/local/bin`, and `src/dist/plugind.service` to
//! `/etc/systemd/system`; a new file takes effect with `systemctl restart plugind`. To uninstall,
//! stop the service and remove both.
//!
//! The image contains only the binary, whose command is `run`; `podman load -i` and `docker load
//! -i` read it. It needs `/var/lib/kubelet` and `/run/plugind` of the machine. Options follow the
//! name of the image and `run`, and `podman exec CONTAINER /plugind list` asks the daemon in it.
//!
//! # Kernels
//!
//! Tested on Linux 6.18, also without what older kernels lack; [`operator`](super::operator) lists
//! the features and what happens without them. Only `--exec` requires Linux 5.3. `/proc` should be
//! mounted.
