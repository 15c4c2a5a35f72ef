//! What each test suite is for, how to add to it, and how to replay a failure.
//!
//! `make test` runs everything that needs no further program; its last line counts what the machine
//! could not run. Each test binary links the whole crate, so there are few, and a suite is a module
//! of one. A whole binary: `cargo test --test manager`; a suite: `cargo test --test daemon api::`.
//!
//! | binary | suites | what they hold |
//! |---|---|---|
//! | `--lib` | tests in `src/` | one module: cases, each state with each event, limits |
//! | `manager` | `parity`, `simulation`, ... | the core in virtual time: rows, holes, any order |
//! | | `handlers` | the built-in handlers behind a real manager, in virtual time |
//! | `fuzz_replay` | | the fuzz targets on their corpus and on 20,000 seeded mutations |
//! | `allocation_bounds` | | memory for what is only announced, and for large lists |
//! | `library` | `integration` | [`PluginManager`](crate::daemon::PluginManager) in a loop |
//! | | `kernel` | moves, mounts, limits, killed processes, links by name |
//! | | `exec`, `flood` | programs that hang or flood; a plugin that never stops sending |
//! | | `examples` | the example programs |
//! | `daemon` | `binary`, `log`, ... | the built binary, as users meet it |
//! | | `api` | its API: the socket, its clients, and what they change |
//! | | `kubelet_sock` | its `kubelet.sock`: clients, directory, crowds |
//! | | `device_plugins` | plugins in Go and Python: on `kubelet.sock`, and a DRA driver |
//! | | `commands`, `doctor`, `probe`, `simulate` | the other commands |
//! | | `configuration` | its file, the environment, and reloads |
//! | | `service` | the daemon under a service manager; log formats and unit files |
//! | | `crashes` | programs agree with plugins after each SIGKILL |
//! | | `soak` | descriptors and memory after 10,000 plugins |
//! | `tidy` | `proto`, `manual`, ... | rules of the source; what is generated is current |
//!
//! What takes long, or needs more than a compiler, is a part of `make full`, which `make` lists;
//! its tests are ignored otherwise, with the part as the reason. `make full ONLY=sim` runs one
//! part. `ONLY=mistakes` plants 51 mistakes, which the simulation or a fuzz target must find;
//! `ONLY=static TARGET=armv7` tests another processor's binary with qemu-user. With an emulator,
//! the suites of older kernels are not run, which filter system calls; what else is not run there
//! is a list with reasons in `tests/static/test.sh`.
//!
//! # Adding a test
//!
//! - **A rule of kubelet**: a row in [`kubelet`](super::kubelet), a test in
//!   `tests/manager/parity.rs` or `tests/manager/handlers`, and a scenario in
//!   `tests/parity/scenarios.rs`: `same` if plugins and handlers see the same with both, `differs`
//!   with the first cell of the row in [`differences`](super::differences) if not.
//! - **A hole of kubelet**: an H row, and a test in `tests/manager/beyond_kubelet.rs`.
//! - **A state or an event of an operation**: the drawing in `src/manager/operation/mod.rs`, and
//!   the table of `every_state_meets_every_event`.
//! - **A line of HTTP/2 or gRPC**: `src/http2/connection/tests/` or `src/grpc/tests/`, where the
//!   file is the topic: settings, flow, streams, headers, closing, limits, hostile peers.
//! - **An order of events that must never happen**: the oracle in `tests/manager/simulation/`, or
//!   `tests/manager/restored.rs` for what follows a restart.
//! - **A fault of the node**: `FAULTS` in `tests/manager/simulation/faults.rs`, with a weight, and
//!   its end in `recover`.
//! - **A command or an option**: its help text, and `make generate`, which writes `src/dist/man/`
//!   and `src/dist/completions/` again. What is not generated stands in the templates (`*.in`).
//! - **A line of the log at info and above, or an event**: an entry in [`log`](super::log), and
//!   `make generate`. A failure of `tests/tidy` names the line that lacks one.
//! - **A mistake that went unnoticed**: a test that notices it, the comment `// mutation: WHAT`
//!   above the statement, and an entry with the wrong one in `tests/tools/mistakes/list.rs`.
//! - **A fuzz target**: a function in `tests/fuzz_replay/targets/`, a line in its `TARGETS`, a
//!   program in `fuzz/fuzz_targets/`, an entry in `fuzz/Cargo.toml`, and a first input in
//!   `fuzz/corpus/`.
//! - **A gRPC stack, or what one can do**: a program in `tests/peers/stacks`, which
//!   `tests/tools/stacks.sh` builds, or a case in `tests/interop/cases.rs`.
//! - **An attack of a neighbour**: a `Row` in `tests/neighbours/`, with what the attack did before.
//! - **A plugin that misbehaves**: `tests/manager/script.rs` in virtual time,
//!   `tests/support/plugin.rs` on real sockets, or an option of `plugind simulate`.
//! - **A feature of the kernel that may be missing**: a variant of `Without` in
//!   `tests/support/without.rs`, and a row in the suites that run again without it. A test that
//!   does not apply there is listed with its reason, and must fail there, unless it needs a
//!   namespace that the machine does not allow. A test for which something else is expected there
//!   asks `lacks`.
//!
//! # Every gRPC stack
//!
//! `make full ONLY=interop` builds a small plugin on each stack whose tools the machine has
//! (`tests/peers/stacks`), and plays each case: as a server beside the daemon, and as a client that
//! calls `plugind simulate`. The daemon is in strict mode, in its sandbox. The other stacks are
//! reported as skipped. With all tools it printed this, with a row for each stack:
//!
//! | case | grpc-go | connect-go | grpcio | grpc.aio | grpc-js | grpc-java | tonic | simulate |
//! |---|---|---|---|---|---|---|---|---|
//! | `device`: register, break a device, shut down | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `csi`: Probe and NodeGetInfo | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `dra`: health of devices | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `announce`: Register on `kubelet.sock` | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `many`: 10,000 devices | ok | ok | ok | ok | ok | ok | ok | - |
//! | `restart`: the server starts again | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `kill`: SIGKILL, and a start | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `age`: the connection is closed each second | ok | - | ok | ok | ok | ok | ok | - |
//! | `age-grace`: GOAWAY with a stream open | ok | - | ok | ok | ok | ok | ok | - |
//! | `pings`: the server pings each second | ok | ok | ok | ok | ok | ok | ok | - |
//! | `policy`: the server allows no pings | ok | - | ok | ok | - | ok | - | - |
//! | `windows-small`, 10,000 devices | ok | ok | ok | ok | - | ok | ok | - |
//! | `windows-large`, 10,000 devices | ok | ok | ok | ok | ok | ok | ok | - |
//! | `no-table`: a header table of 0 octets | ok | ok | ok | ok | - | - | - | - |
//! | `one-stream` at a time | ok | ok | ok | ok | ok | ok | ok | - |
//! | `metadata`: 20 KiB in each response | ok | ok | ok | ok | ok | ok | ok | - |
//! | `compressed`: responses, if allowed | ok | ok | ok | ok | ok | ok | - | - |
//! | `details`: GetInfo fails with details first | ok | ok | ok | ok | ok | ok | ok | ok |
//! | `client`: unary calls and a stream | ok | ok | ok | ok | ok | ok | ok | - |
//!
//! `-`: the stack has no such setting. grpc-go's old compressor does not ask whether it may, so its
//! plugin is refused with that reason; kubelet cannot read its responses either. A server whose
//! windows are smaller than a request resets the first call, which is on its way before the
//! server's SETTINGS arrive (RFC 9113 section 6.9.2 allows that): Go's with 1 octet per stream.
//!
//! The same command calls `simulate` and `kubelet.sock` with curl, and `simulate` with grpcurl and
//! 2,000 times with h2load, where they are found. Its last line counts what was skipped. With
//! `TEST_HPACK_STORIES=DIR`, a directory of HPACK stories (the format of `hpack-test-case`), it
//! decodes them: 478 stories of 14 encoders with 47,142 blocks decode to their fields.
//! `make full ONLY=h2spec` passes 144 of 144 cases as a server and 57 of 57 as a client.
//!
//! # Replaying
//!
//! | what failed | how to run it alone |
//! |---|---|
//! | a seed of the simulation | `SEED=n cargo test --test manager simulation -- --nocapture` |
//! | a kept input or a mutation | `TEST_FUZZ_INPUT=FILE cargo test --test fuzz_replay` |
//! | an input that the fuzzer found | `cargo fuzz run -s none TARGET FILE` |
//! | a suite of a built binary | `TEST_BINARY=$PWD/FILE cargo test --test daemon` |
//! | a suite with an emulator | the same with `target/static/armv7/emulated/plugind` |
//!
//! The folder of an input is the name of its target. A failure prints the line to run. An input
//! that failed is put into `fuzz/corpus/TARGET` with the fix, and is replayed from then on.
//!
//! # Fuzzing
//!
//! ```text
//! make fuzz                                            # every target, 30 s each
//! make fuzz FUZZ_SECONDS=28800 TARGET=client_script    # one target for a night
//! make fuzz FUZZ_SECONDS=0 FUZZ_RUNS=10000000 TARGET=api_requests
//! ```
//!
//! It requires `cargo fuzz` and a C++ compiler; the stable toolchain is sufficient (`-s none`: no
//! sanitizer, because the core has no unsafe code). New inputs are collected in
//! `fuzz/target/found/TARGET`, where the next run continues; an input that fails is written to
//! `fuzz/artifacts/TARGET`. To keep what a long run has found, and no more than that:
//!
//! ```text
//! cargo fuzz cmin -s none TARGET fuzz/target/found/TARGET -- -use_counters=0
//! ```
//!
//! At length, with short inputs and without counters, each target of a parser or an encoder
//! (`frames`, `grpc_message`, `grpc_status`, `hpack_decode`, `hpack_encode`, `huffman`) had
//! 100,000,000 executions, and each other target 10,000,000. They found two faults of the targets
//! themselves, and none of the daemon.
//!
//! # Mutation testing
//!
//! `make full ONLY=mutants SHARD=0/400` tries 1 of 400 parts of what cargo-mutants can change, with
//! the tests in `src/` and the quick suites. Of 8,867 mutants, 613 were drawn at random, in
//! proportion to the folders (at least 12 of each), and ran against the tests that reach them.
//! "Case added" counts those that were missed first; "open" those that not every suite that reaches
//! them has tried.
//!
//! | folder | drawn | do not compile | caught | case added | no effect | missed | open |
//! |---|---|---|---|---|---|---|---|
//! | `api` | 51 | 2 | 40 | 3 | 0 | 6 | 0 |
//! | `cli` | 60 | 3 | 55 | 2 | 0 | 0 | 0 |
//! | `config` | 12 | 3 | 1 | 7 | 1 | 0 | 0 |
//! | `daemon` | 128 | 25 | 70 | 12 | 2 | 4 | 15 |
//! | `grpc`, `hpack`, `http2` | 110 | 14 | 91 | 2 | 2 | 0 | 1 |
//! | `handler` | 36 | 10 | 20 | 5 | 1 | 0 | 0 |
//! | `manager` | 119 | 28 | 82 | 5 | 2 | 1 | 1 |
//! | `registration`, `simulate` | 24 | 6 | 17 | 0 | 1 | 0 | 0 |
//! | `watch` | 48 | 6 | 38 | 3 | 1 | 0 | 0 |
//! | files of `src/` itself, `json` | 25 | 3 | 21 | 0 | 0 | 0 | 1 |
//!
//! Of 495 that are decided, 474 are caught (95.8 %); each added case failed with its mutant.
//! Without effect: capacities (`Fields::push`, `Block::make_room`, `Limiter::forget_some`, the
//! piece of a state file), checks of invariants, a fallback that is the same value, and shortcuts.
//! Missed in `api`: the detail of an event, its length with an endpoint, an event as long as its
//! share, two terms of the number of series, and a full output. Missed elsewhere: the operations of
//! a status, links in the way of others or of other programs, a client that is ready for one of
//! two reasons, and a connection that is aborted before it is accepted.
//!
//! # Skipped tests
//!
//! A test that the machine cannot run calls `skip` of `tests/support/skip.rs` with the reason and
//! returns. With `CI=true`, a skipped test is a failure on machines that allow user namespaces,
//! unless the reason is a program that is not installed, a device that cannot be opened, a limit of
//! open files that is too low or a file that is not in the package.
