//! What only a real kernel can show: directories that are moved, removed and covered by others;
//! roots that are added and removed at run time; inotify that overflows, runs out of watches, or is
//! not available; processes that are killed.
//!
//! Limits and mounts belong to the whole machine, so the tests that change them run in namespaces
//! of their own ([`inside`]): they need no privileges and disturb nothing else. Where the system
//! does not allow that, they are reported as skipped.

mod aliases;
mod bare;
mod crowds;
mod directories;
mod exchange;
pub(crate) mod limits;
mod links;
mod locks;
mod mounts;
mod moves;
mod processes;
mod roots;
mod stalled;

older_kernels! {
    without_so_peerpidfd: PeerPidfd [];
    without_birth_times: BirthTimes [];
    without_openat2: Openat2 [
        "stalled::a_link_to_a_mount_that_does_not_answer_is_ignored":
            "no link is followed beside such a mount",
        "stalled::an_endpoint_on_a_dead_mount_is_refused_with_that_reason":
            "a link is refused whatever it leads to",
    ];
    without_pidfd_open: PidfdOpen [];
    without_statx: Statx [];
    where_a_filter_denies_what_it_does_not_know: Denied [
        "stalled::a_link_to_a_mount_that_does_not_answer_is_ignored":
            "no link is followed beside such a mount",
        "stalled::an_endpoint_on_a_dead_mount_is_refused_with_that_reason":
            "a link is refused whatever it leads to",
    ];
}
