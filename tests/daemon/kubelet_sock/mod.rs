//! Device plugins that announce themselves to the built binary, as they do with kubelet.

mod crowds;
mod directory;
mod endpoints;
mod mounts;
mod node;
mod restarts;
mod start;
mod views;

older_kernels! {
    without_so_peerpidfd: PeerPidfd [];
    without_birth_times: BirthTimes [];
    without_openat2: Openat2 [];
    without_pidfd_open: PidfdOpen [];
    without_statx: Statx [];
    where_a_filter_denies_what_it_does_not_know: Denied [];
    without_inotify: Inotify [
        "directory::a_kubelet_sock_that_is_removed_is_created_again_at_once":
            "plugind simulate --legacy watches kubelet.sock by inotify",
        "restarts::a_plugin_that_comes_back_after_a_restart_is_not_deregistered":
            "plugind simulate --legacy watches kubelet.sock by inotify",
        "views::a_plugin_is_shown_in_lists_links_and_metrics":
            "plugind simulate --legacy watches kubelet.sock by inotify",
        "views::nothing_happens_while_a_plugin_is_registered":
            "plugind simulate --legacy watches kubelet.sock by inotify",
    ];
    without_proc: Proc [
        "endpoints::a_link_to_a_socket_in_the_directory_is_an_endpoint":
            "where a link leads is read from /proc",
        "crowds::clients_that_say_nothing_keep_no_plugin_out":
            "descriptors are counted in /proc",
        "crowds::thousands_of_registrations_take_no_memory":
            "memory is read from /proc",
        "mounts::a_directory_above_that_is_mounted_over_is_created":
            "namespaces are made through /proc",
        "mounts::a_directory_that_is_mounted_over_has_a_kubelet_sock":
            "namespaces are made through /proc",
        "restarts::a_plugin_that_comes_back_after_a_restart_is_not_deregistered":
            "the state file is not used without a boot ID",
        "start::a_missing_directory_is_created":
            "such a path is bound through /proc",
        "views::nothing_happens_while_a_plugin_is_registered":
            "wakeups are counted in /proc",
    ];
}
