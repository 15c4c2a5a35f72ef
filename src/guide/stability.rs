//! What stays the same for scripts, programs and operators.
//!
//! A new patch version (0.1.1) changes none of what is listed here. A new minor version (0.2) may,
//! and the README's section "Changes" names it then.
//!
//! # Command line and exit codes
//!
//! Options keep their names and meanings. The exit codes are those of the README's table; a code
//! has one meaning, and further ones may be added.
//! Tests: `every_option_that_a_help_text_lists_is_known`, `wrong_usage_is_one_line_and_status_2`,
//! `a_directory_that_cannot_be_used_is_one_line_and_status_1`.
//!
//! # JSON of `plugind probe -o json`
//!
//! One object for a socket, an array of them for a directory, in plain ASCII. Readers should ignore
//! keys that they do not know. A step that was not reached is missing; one that failed has `error`.
//!
//! | key | what it holds |
//! |---|---|
//! | `socket` | the path |
//! | `file` | `kind`, `symbolic_link`, `uid`, `gid`, `mode` (octal, as text) |
//! | `connect` | `pid`, `uid`, `name` of the peer process, if they are known |
//! | `http2` | the server's settings: `header_table_size`, `max_frame_size` and further ones |
//! | `get_info` | `type`, `name`, `endpoint`, `supported_versions`, as the plugin reports them |
//! | `verdict` | `accepted`, `decided`; of a refusal also `told`, the text for the plugin |
//! | `endpoint` | `path`, if it is not the registration socket; `error` if it does not answer |
//! | `not_checked` | what only a registration would show, as text; missing if it is empty |
//! | `outcome` | one word; the exit code stands for the same |
//! | `exit_status` | the exit code |
//!
//! Each step also has `took_us`, its duration in microseconds. Outcomes: `would_register`,
//! `would_refuse`, `not_a_registration_service`, `unreachable`, `closed_at_once`,
//! `endpoint_unavailable`.
//! Tests: `json_has_what_the_ladder_has`, `json_is_plain_ascii_and_says_the_same`.
//!
//! # Programs of `--exec`
//!
//! The actions are `add`, `re-add` and `del`, with the arguments, the environment and the line of
//! JSON that [`operator`](super::operator) describes. In the documentation of 0.1.0 the action
//! `re-add` is called `old`. Keys and variables may be added; programs should ignore those that
//! they do not know. The grammar of names and paths may become wider, never so wide that a text is
//! more than one word or an option. The guarantees about order and repetition hold over restarts
//! with `--state-file`.
//!
//! Tests: `the_program_learns_everything_from_arguments_environment_and_standard_input`,
//! `names_that_kubernetes_accepts_are_passed_on`,
//! `a_program_is_told_after_a_restart_that_it_may_know_the_plugin`,
//! `a_del_that_cannot_be_started_is_owed_over_a_restart_until_it_has_run`.
//!
//! # The log
//!
//! A line is a time (RFC 3339, UTC, milliseconds), a level and a text. A line about a socket begins
//! with the escaped path of the socket and a colon, one about a plugin with type and name. The
//! first line names version, process and options as `key=value`. Facts at the end of other lines
//! have the same form (`endpoint=`, `versions=`, `holder=`). The words of a text may change in any
//! version, except for what plugins are sent, which is kubelet's.
//! Tests: `moments_are_shown_as_rfc_3339_has_them`,
//! `the_first_line_names_version_process_and_options`,
//! `the_subject_is_what_comes_before_the_first_colon_however_the_line_is_put_together`.
//!
//! # The state file, upgrade and downgrade
//!
//! When the daemon ends, registered plugins stay registered; the next one registers each of them
//! again, whatever its version. The state file only adds which plugins disappeared in between. It
//! is JSON, begins with its format, and is valid until the next boot.
//!
//! - **Upgrade.** This version writes format 2 and reads formats 1 and 2. In a file of format 1 the
//!   birth time of a socket means nothing, so its sockets are compared by device and inode.
//!   Tests: `a_state_file_of_the_first_format_is_compared_by_device_and_inode_only`,
//!   `what_was_restored_by_inode_only_is_saved_as_such`.
//! - **Downgrade.** A file of an unknown format is reported and not used, and the start continues:
//!   a plugin that disappeared in between is not deregistered then. A version skips keys that it
//!   does not know.
//!   Tests: `a_foreign_or_stale_file_is_refused`,
//!   `a_state_file_that_is_torn_or_that_others_may_write_never_stops_the_start`.
//! - **A running binary** is replaced by another file of its name (`cp --remove-destination`). The
//!   daemon keeps the old file until it is restarted.
//!
//! # The library
//!
//! Documented items follow Cargo's rules for versions below 1.0: code that embeds 0.1.0 compiles
//! with any 0.1. Hidden items are public for this project's own tests, benchmarks and fuzz targets,
//! and may change with every version. The oldest Rust is the one in `Cargo.toml`; a patch version
//! does not raise it.
