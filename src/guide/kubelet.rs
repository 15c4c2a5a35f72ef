//! The contract with plugins: which rules of kubelet's plugin manager hold here, and which of its
//! holes are closed.
//!
//! "kubelet" is `pkg/kubelet/pluginmanager` of Kubernetes 1.37, with the handlers that kubelet
//! gives to it. Each row has a number that is never reused. A comment that quotes a row links here
//! with that number, and the name of a test may begin with it: `pm7_...` holds row PM7.
//! `tests/tidy` checks that every number in a comment or a test name has a row, that every
//! quotation is in its row, and that every test that a row names exists. `make full ONLY=parity`
//! plays scenarios against kubelet's own code; [`differences`](super::differences) lists all
//! differences that it accepts.
//!
//! # Constants
//!
//! | row | what | kubelet | here |
//! |---|---|---|---|
//! | **C1** | directory | `/var/lib/kubelet/plugins_registry` | same: [`DEFAULT_PLUGINS_DIR`] |
//! | **C2** | mode of that directory, if it is created | 0750 | 0750 |
//! | **C3** | types | three built-in ones | the same three: [`DEFAULT_TYPES`] |
//! | **C4** | every socket is looked at | each 1 s | on a change; each 300 s: [`RESYNC_INTERVAL`] |
//! | **C5** | a directory that cannot be watched | given up | scanned each 1 s: [`SYSTEM_RETRY`] |
//! | **C6** | dial | 10 s | 10 s, up to the server's SETTINGS: [`DIAL_TIMEOUT`] |
//! | **C7** | GetInfo, after the dial | 1 s | 1 s: [`GET_INFO_TIMEOUT`] |
//! | **C8** | NotifyRegistrationStatus | 5 s | 5 s: [`NOTIFY_TIMEOUT`] |
//! | **C9** | first backoff, which doubles | 500 ms | 500 ms: [`BACKOFF`] |
//! | **C10** | longest backoff | 122 s | 122 s: [`BACKOFF`] |
//! | **C11** | backoff if connections are refused | as any other | 3 s at most: [`REDIAL`] |
//! | **C12** | a handler's answer | unlimited | 150 s: [`HANDLER_TIMEOUT`] |
//! | **C13** | NodeGetInfo of a CSI driver | 2 min | 2 min: [`HANDLER_CALL_TIMEOUT`] |
//! | **C14** | GetDevicePluginOptions | unlimited | 2 min: [`HANDLER_CALL_TIMEOUT`] |
//! | **C15** | devices kept after their stream ended | 5 min | 5 min: [`DEVICE_GRACE`] |
//! | **C16** | reply to GetInfo | 4 MiB | 64 KiB: [`MAX_GET_INFO_REPLY`] |
//! | **C17** | reply of a CSI driver | 4 MiB | 16 KiB: [`MAX_SMALL_MESSAGE`] |
//! | **C18** | any other reply to a handler | 4 MiB | 4 MiB: [`MAX_REPLY`] |
//! | **C19** | header list of a reply | 16 MiB | 64 KiB: [`MAX_HEADER_LIST`] |
//! | **C20** | sockets | unlimited | 2,048: [`MAX_SOCKETS`] |
//! | **C21** | levels of subdirectories | unlimited | 16: [`MAX_TREE_DEPTH`] |
//!
//! ```
//! use plugind::config;
//!
//! let seconds = |constant: std::time::Duration| constant.as_secs();
//! assert_eq!(config::DEFAULT_PLUGINS_DIR, "/var/lib/kubelet/plugins_registry"); // C1
//! assert_eq!(seconds(config::RESYNC_INTERVAL), 300); // C4
//! assert_eq!(seconds(config::SYSTEM_RETRY), 1); // C5
//! assert_eq!(seconds(config::DIAL_TIMEOUT), 10); // C6
//! assert_eq!(seconds(config::GET_INFO_TIMEOUT), 1); // C7
//! assert_eq!(seconds(config::NOTIFY_TIMEOUT), 5); // C8
//! assert_eq!(config::BACKOFF.first.as_millis(), 500); // C9
//! assert_eq!(seconds(config::BACKOFF.cap), 122); // C10
//! assert_eq!(seconds(config::REDIAL.cap), 3); // C11
//! assert_eq!(seconds(config::HANDLER_TIMEOUT), 150); // C12
//! assert_eq!(seconds(config::HANDLER_CALL_TIMEOUT), 120); // C13 and C14
//! assert_eq!(seconds(config::DEVICE_GRACE), 300); // C15
//! assert_eq!(config::MAX_GET_INFO_REPLY, 64 << 10); // C16
//! assert_eq!(config::MAX_SMALL_MESSAGE, 16 << 10); // C17
//! assert_eq!(config::MAX_REPLY, 4 << 20); // C18
//! assert_eq!(config::MAX_HEADER_LIST, 64 << 10); // C19
//! assert_eq!(config::MAX_SOCKETS, 2048); // C20
//! assert_eq!(config::MAX_TREE_DEPTH, 16); // C21
//! ```
//!
//! # Rules that are matched
//!
//! ## Which sockets count
//!
//! - **R1** The whole tree below the directory is watched. Each subdirectory has a watch of its
//!   own, which is set before the directory is listed.
//!   Tests: `a_directory_at_any_depth_gets_its_own_watch`,
//!   `sockets_that_existed_before_the_start_are_found`.
//! - **R2** Every socket counts, whatever its extension. Names that begin with a dot are ignored,
//!   and so are other files.
//!   Tests: `names_with_a_dot_are_ignored_at_the_start_and_later`,
//!   `other_files_are_ignored_and_may_replace_a_socket`.
//! - **R3** A symbolic link to a socket counts, under the path of the link.
//!   Test: `a_link_to_a_socket_counts_under_its_own_path`.
//! - **R4** A socket that is created or moved in is added; one that is removed is lost. The removal
//!   of an unknown path changes nothing.
//!   Tests: `a_socket_is_found_when_created_and_lost_when_removed`,
//!   `a_socket_that_is_moved_in_counts`.
//! - **R5** Another socket under a known path is a new generation: its predecessor is deregistered,
//!   then it is registered.
//!   Tests: `another_identity_at_a_known_path_is_found_again`,
//!   `pm7_pm18_a_second_add_leaves_one_entry_of_the_new_identity`.
//! - **R6** After a restart of the manager every socket that is found is registered, and its plugin
//!   notified, again.
//!   Test: `a_plugin_is_registered_again_after_our_restart`.
//!
//! ## Reconciling
//!
//! - **R7** Deregistrations come before registrations.
//!   Test: `unregistrations_come_before_registrations`.
//! - **R8** A socket has at most one operation at a time; operations on different sockets run side
//!   by side.
//!   Tests: `pm11_gm1_gm2_two_sockets_register_concurrently`,
//!   `pm12_gm8_a_second_register_on_the_same_socket_is_refused`.
//! - **R9** After a failure a socket is left alone for its backoff, without jitter.
//!   Tests: `delays_double_from_500_ms_to_2_m_2_s`,
//!   `a_delay_counts_from_the_failure_and_ends_with_a_success`.
//!
//! ## Registering
//!
//! - **R10** A refused connection is retried within the time for the dial, because a plugin binds
//!   its socket a moment before it listens. Here that holds for the first attempt on a socket;
//!   later attempts dial once and are close together instead (H2). Tests:
//!   `a_new_socket_is_dialed_with_doubling_pauses`,
//!   `a_socket_that_has_failed_before_is_dialed_once`.
//! - **R11** If GetInfo fails, the plugin is not notified.
//!   Test: `a_plugin_that_does_not_say_who_it_is_is_not_told_anything`.
//! - **R12** The handler is looked up by the exact type, before anything else is checked.
//!   Tests: `a_handler_is_found_by_the_exact_type`,
//!   `a_plugin_of_an_unknown_type_is_told_what_the_option_says`.
//! - **R13** An empty endpoint stands for the registration socket; any other is passed on
//!   unchanged.
//!   Test: `an_empty_endpoint_means_the_registration_socket`.
//! - **R14** A plugin that its handler does not validate is notified of that, with the handler's
//!   reason.
//!   Test: `a_plugin_that_is_refused_is_told_so_in_kubelet_s_words`.
//! - **R15** A plugin enters the actual state before its handler registers it, so that a removal in
//!   between becomes a deregistration.
//!   Test: `a_plugin_is_in_the_actual_world`.
//! - **R16** If the handler cannot register the plugin, the plugin leaves the actual state and is
//!   notified of the reason; the handler is not asked to deregister it. Here a registration that
//!   was given up after C12 may have taken hold, and is followed by a deregistration.
//!   Tests: `a_plugin_that_is_refused_is_told_so_in_kubelet_s_words`,
//!   `every_state_meets_every_event`.
//! - **R17** If a plugin cannot be notified of its registration, it leaves the actual state, is
//!   deregistered, and is tried again with backoff.
//!   Test: `pm23_a_plugin_that_cannot_be_told_is_deregistered`.
//! - **R18** GetInfo and NotifyRegistrationStatus share one connection. Here it stays open
//!   afterwards only if the peer process cannot be watched (H12).
//!   Test: `pm1_a_plugin_at_any_depth_is_validated_and_registered`.
//! - **R19** Plugins are notified of refusals in three sentences, which stand in
//!   [`Refusal::status_error`](crate::manager::Refusal::status_error) to the letter.
//!   Test: `a_refusal_is_worded_exactly_as_by_kubelet`.
//! - **R20** A deregistration leaves the actual state first and asks the handler then, with what
//!   was known at the registration. The plugin is not called.
//!   Test: `pm4_pm9_pm17_neither_world_has_what_was_removed`.
//!
//! ## The handlers
//!
//! - **R21** For one plugin name a handler is asked to validate, to register and to deregister, in
//!   this order. kubelet documents that and keeps it for each socket only (H17).
//!   Test: `whatever_happens_the_contract_is_kept`.
//! - **R22** A CSI version has an optional leading `v`, at least two numbers with dots in between,
//!   no leading zero in the first, and any text after them.
//!   Tests: `a_version_may_have_a_prefix_and_a_suffix`,
//!   `a_text_that_is_not_a_version_is_rejected`.
//! - **R23** Of a CSI driver's versions, what does not parse and what is above major version 1 is
//!   ignored; the highest of the rest must have major version 1.
//!   Tests: `csi1_versions_that_have_a_highest_of_major_one_are_accepted`,
//!   `csi2_versions_that_have_none_are_refused`.
//! - **R24** A CSI driver whose name is registered with an equal or higher version is refused.
//!   Test: `csi4_a_driver_whose_name_is_taken_needs_a_higher_version`.
//! - **R25** Registering a CSI driver calls NodeGetInfo, whose node id must not be empty. It is the
//!   only call to the endpoint, and is repeated if `--csi-node-info` says so (kubelet: if the
//!   `CSIDriver` object does).
//!   Tests: `a_driver_needs_a_node_id`, `a_driver_is_registered_with_all_that_it_says_of_the_node`.
//! - **R26** One of a device plugin's versions is `v1beta1`.
//!   Test: `the_one_version_must_be_among_those_that_are_listed`.
//! - **R27** A device plugin's name contains `/`, does not contain `kubernetes.io/`, does not begin
//!   with `requests.`, and is a qualified name with `requests.` in front of it.
//!   Tests: `names_of_extended_resources_are_accepted`, `every_other_name_breaks_one_rule`.
//! - **R28** The part after the `/` has at most 63 characters and matches
//!   `[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?`.
//!   Test: `every_other_name_breaks_one_rule`.
//! - **R29** Registering a device plugin calls GetDevicePluginOptions; then ListAndWatch is opened,
//!   and each of its messages replaces the whole set of devices.
//!   Test: `a_message_replaces_all_devices_and_returns_the_changes`.
//! - **R30** When that stream ends, all devices are unhealthy and are kept for C15. kubelet never
//!   opens it again; here it is opened again with backoff, unless the plugin answers UNIMPLEMENTED.
//!   Tests: `a_stream_that_ends_is_opened_again`,
//!   `a_plugin_without_a_list_is_not_asked_for_it_again`.
//! - **R31** The first service of a DRA driver's list that is known is the one to call; a list
//!   without one is refused.
//!   Tests: `dra2_a_known_service_is_chosen_whatever_else_is_listed`, `the_driver_s_order_decides`.
//! - **R32** An endpoint of a DRA driver is registered once; the second registration fails. Here
//!   that holds while the plugin that has the endpoint is up.
//!   Tests: `dra8_the_same_endpoint_is_refused`,
//!   `a_plugin_waits_for_its_endpoint_until_the_holder_is_down`.
//! - **R33** Of several endpoints of a DRA driver, the newest that is connected is used, and the
//!   older one is its fallback.
//!   Test: `the_newest_that_is_connected_is_used`.
//! - **R34** The health of a DRA driver's devices is asked for only if the driver lists that
//!   service, `v1` before `v1alpha1`, and UNIMPLEMENTED is final. A device that is not reported in
//!   the time that the driver names (30 s if none) is unknown, and then forgotten.
//!   Tests: `health_is_asked_for_only_when_it_is_listed`,
//!   `a_driver_that_does_not_serve_its_health_is_not_asked_again`,
//!   `health_that_is_not_reported_again_in_time_expires`.
//! - **R35** Handlers refuse in kubelet's words; a failed call reads as grpc-go prints it.
//!   Tests: `the_reason_why_there_is_no_version_has_kubelet_s_words`,
//!   `failed_calls_are_shown_as_grpc_go_shows_them`.
//! - **R36** An endpoint that begins with `@` is an abstract socket.
//!   Test: `an_endpoint_with_an_at_sign_is_an_abstract_socket`.
//!
//! ## Device plugins that register by `kubelet.sock`
//!
//! kubelet's device manager listens there (`pkg/kubelet/cm/devicemanager/plugin/v1beta1`).
//!
//! - **R37** The directory is created with mode 0750 if it is missing. At the start the sockets in
//!   it are removed, and links to sockets, but not in its subdirectories; then `kubelet.sock` is
//!   created, with mode 0600 (kubelet: with the rights that the umask leaves). Plugins that run
//!   register again.
//!   Tests: `rs3_the_start_removes_all_sockets_and_nothing_else`,
//!   `a_missing_directory_is_created_without_rights_for_others`.
//! - **R38** The call checks the version, then the name of the resource, then dials the endpoint,
//!   then calls GetDevicePluginOptions. What fails first is the reply, with the status UNKNOWN and
//!   kubelet's words (RS5 to RS8). kubelet appends the endpoint to the directory, whatever it
//!   contains; here it has to be a file name.
//!   Tests: `a_failure_has_its_code_and_kubelets_message`,
//!   `an_endpoint_that_is_not_a_file_name_is_rejected`.
//! - **R39** An endpoint that does not exist or refuses is dialed again until C6 is over.
//!   Test: `an_endpoint_that_listens_within_ten_seconds_is_soon_enough`.
//! - **R40** ListAndWatch is called once: at its end, whatever its status, the devices are
//!   unhealthy, and are kept for C15. To be used again, the plugin has to register again; until
//!   then it is shown as down, whether its process lives or not.
//!   Tests: `the_end_of_its_stream_makes_devices_unhealthy`,
//!   `a_plugin_whose_stream_has_ended_is_up_when_announced_again`.
//!
//! # Holes that are closed
//!
//! Each row begins with what happens with kubelet.
//!
//! - **H1** A new plugin waits out the backoff of its predecessor's stale socket, up to two minutes
//!   after a reboot. Backoff belongs to a socket's [`Identity`], so a new socket starts afresh.
//!   Test: `a_plugin_does_not_wait_out_its_predecessors_backoff`.
//! - **H2** A socket on which nothing listens costs a dial of 10 s each time, and is tried ever
//!   more rarely. Here a new one is dialed again for 10 s, after pauses that double from 5 µs, or
//!   from 10 ms if the socket existed when the daemon started, to 1 s. After that each attempt is
//!   one dial: after 0.5, 1 and 2 s, then every 3 s for the socket's first ten minutes, then after
//!   pauses that double again, from 6 s to 122 s. All such sockets together are dialed 20 times a
//!   second at most.
//!   Tests: `a_plugin_that_listens_late_is_met_within_three_seconds`,
//!   `a_dead_socket_is_dialed_again_after_10_ms_at_the_start`,
//!   `many_dead_sockets_are_dialed_20_times_a_second_together`.
//! - **H3** A plugin waits for the next tick. Readiness reconciles at once.
//!   Test: `a_plugin_is_registered_at_the_moment_it_is_found`.
//! - **H4** Each tick compares all sockets with all plugins. Work is proportional to what changed.
//!   Test: `one_more_plugin_is_the_work_of_one_however_many_there_are`.
//! - **H5** An event that is lost when inotify's queue overflows is lost for good. Everything is
//!   scanned and compared.
//!   Tests: `after_an_overflow_everything_is_scanned_and_compared`,
//!   `what_happens_while_the_queue_overflows_is_found_by_a_scan`.
//! - **H6** A directory that is removed and created again is not watched until the next start. It
//!   is created and watched again.
//!   Test: `a_directory_that_is_removed_is_made_again_and_watched_again`.
//! - **H7** A socket that is renamed stays registered under its old path, and a directory that is
//!   moved loses its watch. Both are followed.
//!   Tests: `a_socket_that_is_renamed_is_registered_under_its_new_path`,
//!   `sockets_are_found_again_in_a_directory_that_moved`.
//! - **H8** One directory that cannot be watched ends the scan; without inotify the plugin manager
//!   does not run, silently. Such a directory is reported and scanned each second.
//!   Tests: `a_directory_without_a_watch_is_scanned_on_the_tick`,
//!   `without_an_inotify_instance_plugins_come_on_the_tick`.
//! - **H9** A socket that is reported twice is deregistered and registered again. The same identity
//!   changes nothing.
//!   Test: `a_double_sighting_does_not_flap_a_registered_plugin`.
//! - **H10** A directory with a dot counts if it exists at the start and not later; a root that is
//!   a symbolic link is empty. R2 holds at all times, and roots are resolved.
//!   Tests: `names_with_a_dot_are_ignored_at_the_start_and_later`,
//!   `a_root_that_is_a_symbolic_link_is_resolved`.
//! - **H11** A refusal is repeated for ever, and the plugin is notified each time. A plugin that
//!   describes itself as before is notified once of a missing handler or a failed validation; after
//!   its first minute it is asked again at the longest backoff, or when the socket or the handlers
//!   change. A failed registration is tried again, and the plugin notified, with the ordinary
//!   backoff.
//!   Tests: `a_plugin_that_is_refused_is_told_once`,
//!   `what_could_not_be_registered_is_tried_with_backoff`.
//! - **H12** A killed plugin that leaves its socket behind stays registered, unnoticed. Its process
//!   is watched, or its connection where the kernel is older than Linux 6.5: the plugin is down,
//!   and is deregistered if [`OnDown`] asks for that.
//!   Tests: `a_plugin_whose_process_dies_is_down_at_once`,
//!   `each_plugin_of_a_process_is_watched_until_that_is_killed`.
//! - **H13** A predecessor that cleans up late removes its successor's socket. Only the removal of
//!   the registered identity counts.
//!   Test: `the_removal_of_a_path_concerns_what_is_registered_there`.
//! - **H14** The authority of the calls is a percent-encoded path, which servers on the h2 crate
//!   refuse. It is `localhost`.
//!   Test: `a_request_has_the_headers_that_servers_require`.
//! - **H15** A handler that never answers keeps its socket for ever. Every step has a deadline and
//!   can be cancelled.
//!   Test: `a_handler_that_never_answers_costs_only_its_plugin`.
//! - **H16** With two sockets of one name, the removal of the older one takes the newer
//!   registration along. Each socket is an instance of its own; the fallback is promoted. That the
//!   older one is deregistered when its own socket goes differs from the letter of kubelet's
//!   contract, by which only the removal of the newer socket does that.
//!   Tests: `the_older_sockets_removal_leaves_the_newer_registration`,
//!   `the_fallback_is_promoted_when_the_newest_goes`.
//! - **H17** Questions about one name are ordered for each socket only. They are ordered for each
//!   name; a question that stays open for 5 s lets the next socket of the name go ahead.
//!   Tests: `the_contract_is_kept_per_plugin_name_and_not_only_per_socket`,
//!   `an_open_question_holds_up_its_name_for_five_seconds`.
//! - **H18** A connection that died while the handler was at work fails the notification. A second
//!   one is dialed, within the same 5 s.
//!   Test: `a_plugin_is_told_by_a_second_connection_if_one_dies`.
//! - **H19** The log reports that sending an error failed although it was sent. Failures are typed
//!   and name what happened.
//!   Test: `a_failure_says_what_happened`.
//! - **H20** A socket path of more than 107 bytes fails with an obscure error. It is dialed
//!   through `/proc/self/fd`.
//!   Test: `a_path_that_fits_no_socket_address_is_connected_to`.
//! - **H21** A plugin that disappears while kubelet is not running is never deregistered. With
//!   `--state-file` it is.
//!   Test: `a_plugin_that_went_while_the_daemon_was_down_is_deregistered`.
//! - **H22** A plugin whose endpoint is not ready is refused; kubelet's tick hides that most of the
//!   time. The first call is repeated until 2 s after the socket was first seen.
//!   Test: `a_driver_that_is_ready_a_moment_later_is_told_once`.
//! - **H23** Two plugin managers on one directory notify every plugin twice. A second one does not
//!   start.
//!   Test: `a_second_daemon_on_one_directory_is_one_line_and_status_1`.
//! - **H24** Before 1.37, a resource that registers again keeps its older connection, too; when
//!   that ends, the newer plugin is disconnected. Here, as in 1.37, the end of the older plugin
//!   changes nothing, and the older one is used again when the newer one ends.
//!   Tests: `the_end_of_an_older_plugin_leaves_the_newer_one_healthy`,
//!   `the_end_of_the_newest_plugin_leaves_the_one_before_it`.
//! - **H25** After a registration that failed, the end of the plugin that was registered before is
//!   not noticed. A failure leaves that plugin as it was, unless both have one endpoint.
//!   Test: `the_end_of_a_plugin_is_noticed_after_a_failure`.
//!
//! # kubelet's own tests
//!
//! The names of our tests begin with the number. A missing number is a test about something that
//! does not exist here.
//!
//! Plugin manager:
//!
//! - **PM1** At depth 0, 1 and 2: exactly validate and register; after the stop exactly deregister.
//! - **PM2** An added plugin is listed and matches by its identity.
//! - **PM3** An empty path is refused in the actual state (`socket path is empty`). Here it is
//!   ignored when it is restored.
//! - **PM4** A removed plugin is neither listed nor matched.
//! - **PM5** Another identity under the same path does not match.
//! - **PM6** An added socket is listed and exists.
//! - **PM7** A second add keeps one entry, with the new identity.
//! - **PM8** An empty path is refused in the desired state (`socket path is empty`). Here it is
//!   ignored, with a line at debug level.
//! - **PM9** A removed socket is gone.
//! - **PM10** The metric: one entry in each state counts as one of each.
//! - **PM11** Two sockets register at the same time.
//! - **PM12** A second register is refused while the first runs on the socket.
//! - **PM13** Two sockets deregister at the same time.
//! - **PM14** A second deregister is refused while the first runs on the socket.
//! - **PM15** Empty states stay empty.
//! - **PM16** The actual state becomes exactly what is desired, with the same identity.
//! - **PM17** After a register and a removal the actual state is empty.
//! - **PM18** After a second add the one actual entry has the new identity.
//! - **PM19** A plugin is served ten times: one entry, and none after the stop.
//! - **PM20** Ten sockets with one plugin name are ten desired entries.
//! - **PM21** One path, created ten times with new names: one entry, newer each time.
//! - **PM22** Ten sockets that exist before the start are all found.
//! - **PM23** A notification that fails is an error of the registration.
//!
//! Goroutine map, here the table of operations:
//!
//! - **GM1** One operation runs.
//! - **GM2** Operations on two sockets run.
//! - **GM4** The same socket runs again after a success.
//! - **GM5** A success leaves no backoff.
//! - **GM6** An operation that dies frees its socket.
//! - **GM7** With backoff, the next one is refused until the delay has passed.
//! - **GM8** An operation is refused while another one runs on the socket.
//! - **GM9** The same, after a failure.
//! - **GM10** The second is refused, the third accepted once the first has ended.
//! - **GM11** The same with a failure: the third waits for the delay.
//! - **GM12** An empty table is idle.
//! - **GM13** A table whose operations failed is idle.
//! - **GM14** A table whose operations succeeded is idle.
//! - **GM15** A table whose operations ran out of time is idle.
//! - **GM16** A failed operation is not pending, although its backoff is remembered.
//!
//! Handlers:
//!
//! - **CSI1** Lists of versions that are accepted.
//! - **CSI2** Lists of versions that are refused.
//! - **CSI3** The store: absent, set, present, deleted, absent.
//! - **CSI4** A driver whose name is registered needs a higher version.
//! - **DM4** A resource that registers again through a second socket keeps its two devices.
//! - **DM5** The third socket of the resource replaces them by one.
//! - **DM6** A lost plugin's devices are unhealthy, kept, and dropped after the grace period.
//! - **DM8** Two lists arrive in order, each with exactly its devices.
//! - **DM11** Three connects of one name and socket leave one client; a failed one leaves nothing.
//! - **DRA1** A driver without services is refused.
//! - **DRA2** A list with a known service is accepted, and that service chosen.
//! - **DRA3** Plain version numbers are refused.
//! - **DRA4** A second endpoint of a driver is accepted.
//! - **DRA8** The same endpoint is refused; removing the older one leaves the newer one.
//! - **DRA9** A removed driver is not found.
//!
//! Registration by `kubelet.sock`. The tests from RS3 to RS14 run with kubelet's own registration
//! server, too:
//!
//! - **RS1** A path of the socket that is not absolute is refused. Here it is made absolute.
//! - **RS2** A server is started and stopped twice without an error.
//! - **RS3** At the start the sockets in the directory are removed, and links to sockets; other
//!   files and subdirectories stay. Then the server listens.
//! - **RS4** A resource registers by the sockets `x`, `x.new` and `x.third`: it has two devices,
//!   still two, then one.
//! - **RS5** Another version is refused: `requested API version "v1" is not supported by kubelet.
//!   Supported version is ["v1beta1"]`.
//! - **RS6** A name that is not one of an extended resource is refused: `the ResourceName "gpu" is
//!   invalid`.
//! - **RS7** An endpoint that cannot be dialed is refused: `failed to dial device plugin: context
//!   deadline exceeded`.
//! - **RS8** If GetDevicePluginOptions fails, the plugin is refused with `failed to get device
//!   plugin options: rpc error: code = Internal desc = ...`, and not called again.
//! - **RS9** If ListAndWatch fails at once, the plugin stays registered, without devices, and is
//!   not called again.
//! - **RS10** If ListAndWatch fails after a list, its devices stay and are unhealthy.
//! - **RS11** If the plugin is stopped, the same.
//! - **RS12** Devices that become unhealthy and healthy again are so at once.
//! - **RS13** After a restart of the manager plugins register again, with the same devices.
//! - **RS14** After its own restart a plugin registers again, with its new devices.
//! - **RS15** Three registrations of one name and socket leave one client.
//!
//! End to end:
//!
//! - **E1** A plugin is registered again after a restart of the manager.
//!   Test: `a_plugin_is_registered_again_after_our_restart`.
//! - **E2** A plugin is registered again after its own restart.
//!   Test: `a_plugin_is_registered_again_after_its_restart`.
//! - **E3** A plugin is registered after a GetInfo that failed.
//!   Test: `a_plugin_is_registered_after_its_get_info_failed`.
//! - **E4** A plugin is registered again after a notification that failed.
//!   Test: `a_plugin_is_deregistered_and_registered_again`.
//! - **E5** Registration and service share one socket.
//!   Test: `registration_and_service_may_have_one_common_socket`.
//!
//! # What a plugin does in its first second
//!
//! kubelet reaches a plugin half a second after it begins to listen (median), this program within a
//! millisecond. What a plugin does in its first second therefore happened before kubelet's first
//! call and happens after ours. R10, H11 and H22 are lenient in that time for this reason.
//!
//! [`Identity`]: crate::watch::Identity
//! [`BACKOFF`]: crate::config::BACKOFF
//! [`OnDown`]: crate::config::OnDown
//! [`DEFAULT_PLUGINS_DIR`]: crate::config::DEFAULT_PLUGINS_DIR
//! [`DEFAULT_TYPES`]: crate::config::DEFAULT_TYPES
//! [`DEVICE_GRACE`]: crate::config::DEVICE_GRACE
//! [`DIAL_TIMEOUT`]: crate::config::DIAL_TIMEOUT
//! [`GET_INFO_TIMEOUT`]: crate::config::GET_INFO_TIMEOUT
//! [`HANDLER_CALL_TIMEOUT`]: crate::config::HANDLER_CALL_TIMEOUT
//! [`HANDLER_TIMEOUT`]: crate::config::HANDLER_TIMEOUT
//! [`MAX_GET_INFO_REPLY`]: crate::config::MAX_GET_INFO_REPLY
//! [`MAX_HEADER_LIST`]: crate::config::MAX_HEADER_LIST
//! [`MAX_REPLY`]: crate::config::MAX_REPLY
//! [`MAX_SMALL_MESSAGE`]: crate::config::MAX_SMALL_MESSAGE
//! [`MAX_SOCKETS`]: crate::config::MAX_SOCKETS
//! [`MAX_TREE_DEPTH`]: crate::config::MAX_TREE_DEPTH
//! [`NOTIFY_TIMEOUT`]: crate::config::NOTIFY_TIMEOUT
//! [`REDIAL`]: crate::config::REDIAL
//! [`RESYNC_INTERVAL`]: crate::config::RESYNC_INTERVAL
//! [`SYSTEM_RETRY`]: crate::config::SYSTEM_RETRY
