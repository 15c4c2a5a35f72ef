//! What stays the same for scripts, programs and operators.
//!
//! A new patch version (0.1.1) changes none of what is listed here. A new minor version (0.2) may,
//! and [`changes`](super::changes) names it then.
//!
//! # Command line and exit codes
//!
//! Options keep their names and meanings. An exit code has one meaning, and further ones may be
//! added.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; `run`, `simulate`: stopped by a signal |
//! | | `probe`: the plugin would be registered; `doctor`: no warning and no problem |
//! | 1 | failed; `run`, `simulate`: cannot start or continue; `doctor`: a warning or a problem |
//! | | `probe`: a program of `--exec` or a directory cannot be used |
//! | | the daemon refuses or cannot do it, or its response is invalid or breaks off |
//! | 2 | wrong usage |
//! | 3 | no daemon listens on the socket; the followed one has stopped or was killed |
//! | 4 | the plugin, socket or resource does not exist (`wait` waits for it instead) |
//! | 5 | `probe`: the plugin would be refused; `list TYPE/NAME --state STATE`: another state |
//! | 6 | `probe`: not a plugin registration service |
//! | 7 | `probe`: no answer, or not in time |
//! | 8 | `probe`: the connection was closed before any data was received |
//! | 9 | `probe`: nothing listens at the plugin's endpoint |
//! | 75 | `with`: too few devices are free, or the plugin does not answer |
//! | 78 | `run`, `check-config`, `reload`: the configuration is not valid |
//! | 124 | `wait`: timed out, for whatever reason, a missing daemon included |
//! | 126, 127 | `with`: the command cannot be run; it does not exist |
//! | 137 | `simulate`: crashed, as requested by `--crash-after` |
//!
//! A closed standard output is not a failure. `list TYPE/NAME` and `describe` end with 0 for each
//! plugin that exists, registered or not.
//!
//! Tests: `every_option_that_a_help_text_lists_is_known`, `wrong_usage_is_one_line_and_status_2`,
//! `a_directory_that_cannot_be_used_is_one_line_and_status_1`,
//! `an_answer_that_is_wrong_or_breaks_off_is_status_1`, `wrong_usage_is_one_line_and_status_2`,
//! `without_a_daemon_the_status_is_3`, `a_followed_daemon_that_is_killed_is_status_3`,
//! `a_plugin_that_does_not_exist_is_status_4`,
//! `when_the_time_is_up_the_status_is_124`,
//! `a_closed_output_is_not_a_failure_and_a_full_one_is`.
//!
//! # The configuration
//!
//! Keys are the long options of `run`, and as stable; so are the variables `PLUGIND_*`. The syntax
//! of the file may become wider, never so that a valid file means something else. What a reload
//! applies at once stays so, and what needs a restart may be applied at once later. The output of
//! `check-config` is a configuration; its order and its comments may change.
//!
//! Tests: `a_file_has_the_options_of_the_command_line`,
//! `the_command_line_overrides_the_environment`,
//! `what_is_printed_is_a_configuration_that_means_the_same`,
//! `what_needs_a_restart_is_named_until_the_restart`.
//!
//! # JSON of the commands that ask a daemon
//!
//! `json` is one value, `jsonl` one in each line: plain ASCII, with sorted keys in camelCase.
//! Readers should ignore keys that they do not know. Tables and descriptions are not for scripts:
//! columns and labels may change in any version.
//!
//! | command | what is printed |
//! |---|---|
//! | `list -o json` | that of `GET /v1/plugins`: `kind`, `instance`, `generation`, `items` |
//! | `list -o jsonl` | a record per line |
//! | `devices -o json` | that of `GET /v1/devices`: `kind`, `instance`, `generation`, `items` |
//! | `devices -o jsonl` | a device per line |
//! | `describe -o json` | as `list`, and the `events` of the records |
//! | `events -o json` | `kind`, `generation`, `items`: the events of `GET /v1/events` |
//! | `events -o jsonl` | an event per line |
//! | `watch -o jsonl`, `list -w -o jsonl` | lines with `event`, `generation`, `record` |
//! | `status -o json` | that of `GET /v1/status` |
//!
//! A plugin that was removed is shown as it was last, with the state `Deleted`. `BOOKMARK` follows
//! the plugins that exist at the beginning, and has no record. `list -o name` prints `TYPE/NAME`,
//! or the socket of a plugin that is still unknown: what `describe` and `retry` accept, unless it
//! contains escapes.
//!
//! Tests: `each_command_shows_its_answer`, `json_has_the_event_and_the_last_known_record`,
//! `names_are_what_other_commands_accept`,
//! `json_lines_are_the_devices_in_ascii`.
//!
//! # The API
//!
//! The requests, the keys and the states that [`api`](super::api) describes keep their names, types
//! and meanings below `/v1/`. Keys, states, reasons and events of a watch may be added; readers
//! should ignore those that they do not know. Values of `message`, `detail`, `lastError` and
//! `problem`, and the bodies of errors, are text whose words may change. Generations of two
//! instances cannot be compared.
//!
//! Tests: `a_record_has_every_fact_that_is_known`, `a_record_has_what_its_handler_knows`,
//! `the_devices_of_the_current_plugins_are_listed_by_resource`, `each_path_is_a_call`,
//! `each_change_is_a_post`.
//!
//! # Metrics
//!
//! The names, types, labels and units that [`metrics`](super::metrics) lists stay. Values of labels
//! may be added, and bounds may change.
//!
//! Tests: `the_guide_explains_exactly_the_metrics_and_labels_that_exist`.
//!
//! # JSON of `plugind probe -o json`
//!
//! One object for a socket, an array of them for a directory, in plain ASCII. Readers should ignore
//! keys that they do not know.
//!
//! | key | what it holds |
//! |---|---|
//! | `socket` | the path |
//! | `plugin`, `endpoint`, `versions` | as in the API, if the plugin would be registered |
//! | `notification` | the text that a plugin would be notified of that would be refused |
//! | `steps` | events: `afterMicroseconds` since the start, `reason`, `message` |
//! | `outcome` | one word; the exit code stands for the same |
//! | `exitStatus` | the exit code |
//!
//! Outcomes: `WouldRegister`, `WouldRefuse`, `NotARegistrationService`, `Unreachable`,
//! `ClosedAtOnce`, `EndpointUnavailable`.
//! Test: `json_has_what_the_text_has`.
//!
//! # JSON of `plugind version -o json`
//!
//! One line with `version`, `commit` and `target`. The text has the same in three lines, the first
//! of which is that of `--version`. `commit` is `unknown` if the builder did not set it; it may end
//! with `-dirty`.
//!
//! Test: `the_version_names_commit_and_target_as_text_and_as_json`.
//!
//! # JSON of `plugind doctor -o json`
//!
//! One object in plain ASCII. Its `findings` is an array in the order of the checks; a key without
//! a value is left out.
//!
//! | key | what it holds |
//! |---|---|
//! | `level` | `ok`, `note`, `warning` or `problem`; the last two make the exit code 1 |
//! | `check` | `directory`, `trust`, `sockets`, `root-dir`, `kubelet` or `daemon` |
//! | `message` | what was found, as text |
//! | `remedy` | what helps, as text |
//! | `paths`, `count` | the paths that the finding concerns, the first eight; the number of all |
//!
//! The words of `message` and `remedy` may change, and checks may be added.
//! Tests: `json_of_findings_leaves_out_what_is_empty_and_is_plain_ascii`,
//! `a_dead_socket_is_named_escaped_and_the_exit_status_is_1`.
//!
//! # Programs of `--exec`
//!
//! The actions are `add`, `re-add` and `del`, with the arguments, the environment and the line of
//! JSON that [`operator`](super::operator) describes. In the documentation of 0.1.0 the action
//! `re-add` is called `old`. Keys and variables may be added; programs should ignore those that
//! they do not know. The grammar of names and paths may become wider, never so wide that a text is
//! more than one word or an option. What `plugind-exec(7)` promises about order and repetition
//! stays.
//!
//! Tests: `the_program_receives_arguments_environment_and_input`,
//! `names_that_kubernetes_accepts_are_passed_on`,
//! `a_program_is_told_after_a_restart_of_a_known_plugin`,
//! `a_del_that_cannot_be_started_is_owed_over_a_restart`,
//! `programs_agree_with_the_plugins_after_each_kill`.
//!
//! # Links by name and the API socket
//!
//! `by-name/TYPE/NAME.sock` in the run directory is a symbolic link, and names are escaped as
//! [`operator`](super::operator) describes. The socket is `plugind.sock` in the run directory, with
//! mode 0660. Further files may be added to the run directory.
//! Tests: `safe_names_stand_for_themselves_and_others_are_encoded`,
//! `a_link_leads_to_the_newest_plugin_of_a_name`,
//! `the_default_socket_is_in_the_run_directory_and_is_removed`.
//!
//! # The log
//!
//! A line is a time (RFC 3339, UTC, milliseconds), a level and a text. A line about a socket begins
//! with the escaped path of the socket and a colon, one about a plugin with type and name. The
//! first line names version, process and options as `key=value`. Facts at the end of other lines
//! have the same form (`endpoint=`, `versions=`, `holder=`). The words of a text may change in any
//! version, except for what plugins are sent, which is kubelet's.
//!
//! With `--log-format json`, a line is an object with the texts `time`, `level` (`ERROR`, `WARN`,
//! `INFO`, `DEBUG` or `TRACE`), `target` and `message`, in plain ASCII. That of an event also has
//! `reason`, and `socket`, `type`, `name` and `attempt` (a number) if they are known. Keys may be
//! added, and targets may change in any version. With `journald`, a line is a priority in angle
//! brackets and the text.
//! Tests: `times_are_formatted_as_in_rfc_3339`,
//! `the_first_line_names_version_process_and_options`,
//! `the_subject_precedes_the_first_colon_and_space`,
//! `a_line_of_json_is_one_object_whatever_a_plugin_is_called`,
//! `the_journal_gets_priorities_and_no_time`.
//!
//! # The service manager
//!
//! The notifications and the names of passed sockets, which [`operator`](super::operator)
//! describes, stay, except for the words of the status. Units keep their names. What they allow may
//! be reduced by a new minor version, and the names of alerts and their expressions may change.
//! Tests: `readiness_status_reload_and_stop_are_notified_in_this_order`,
//! `signs_of_life_are_sent_when_they_are_asked_of_this_process`,
//! `a_socket_for_the_api_replaces_ours_and_stays_as_it_is`,
//! `a_socket_for_metrics_serves_them_whatever_its_family`.
//!
//! # The state file, upgrade and downgrade
//!
//! When the daemon ends, registered plugins stay registered; the next one registers each of them
//! again, whatever its version. The state file only adds which plugins disappeared in between. It
//! is JSON, begins with its format, and is valid until the next boot.
//!
//! - **Upgrade.** This version reads and writes format 2. A file of format 1, which 0.1.0 wrote,
//!   counts as one of an unknown format.
//! - A plugin that announced itself has the key `announced`. An older version takes it for one
//!   whose socket has gone, and deregisters it.
//! - Keys that are not known are skipped, and keys may be added. Journals (`FILE.journal-a`,
//!   `FILE.journal-b`), which 0.1.0 wrote beside the file, are not read: what was run in the last
//!   second before a SIGKILL of that version is run again.
//! - **Downgrade.** A file of an unknown format is reported and not used, and the start continues:
//!   a plugin that disappeared in between is not deregistered then. A version skips keys that it
//!   does not know.
//!   Tests: `a_foreign_or_stale_file_is_refused`,
//!   `a_state_file_that_is_torn_never_stops_the_start`.
//! - **A running binary** is replaced by another file of its name (`cp --remove-destination`). The
//!   daemon keeps the old file until it is restarted.
//!
//! # The library
//!
//! Documented items follow Cargo's rules for versions below 1.0: code that embeds 0.1.0 compiles
//! with any 0.1. Hidden items are public for this project's own tests, benchmarks and fuzz targets,
//! and may change with every version. The oldest Rust is the one in `Cargo.toml`; a patch version
//! does not raise it.
