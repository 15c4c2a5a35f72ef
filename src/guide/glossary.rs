//! The words of the code, with one meaning each.
//!
//! | word | meaning |
//! |---|---|
//! | socket | a registration socket that was found; [`Socket`] is all that is known about it |
//! | identity | which file a path leads to: device, inode, birth time ([`Identity`]) |
//! | key | the path under which a socket is known |
//! | found, lost | the watch reports a socket, or that it has gone |
//! | plugin | what a process reports in GetInfo, and through which socket ([`Plugin`]) |
//! | announced | by a call of Register on `kubelet.sock`, instead of a socket that is found |
//! | superseded, withdrawn | announced again meanwhile; an announcement that has ended |
//! | type, name, versions | as in GetInfo; the type is called `kind` in code, `type` is a keyword |
//! | endpoint | the socket of the plugin's own service, often the registration socket |
//! | instance | one of several registered plugins with one type and name ([`instances`]) |
//! | current, promoted | the newest instance; an older one that becomes the newest again |
//! | resource | the name of a device plugin, by which pods request its devices |
//! | handler | does the work for plugins of some types ([`PluginHandler`]) |
//! | question, answer | validate, register or deregister; yes or a [`Reason`], at once or later |
//! | ticket | names a question whose answer is pending ([`Ticket`]) |
//! | effect | a call, stream, timer or program that a handler asks for ([`Effect`]) |
//! | owner, detached | the plugin that an effect ends with; an effect that ends with none |
//! | owed | a deregistration that was not carried out yet, and survives a restart |
//! | desired, actual | the sockets that exist; the plugins that handlers know |
//! | operation | the state machine of one registration, check or deregistration (`operation`) |
//! | attempt | one run of an operation; its number is never reused ([`AttemptId`]) |
//! | command, outcome | what a step of an operation asks for; how the operation ends |
//! | event | what an operator sees of a socket or plugin; the log is its text ([`PluginEvent`]) |
//! | refusal | why a plugin is not accepted: the plugin is notified ([`Refusal`]) |
//! | failure | why an attempt failed, refusals included ([`Failure`]) |
//! | backoff | the pause after a failure; belongs to the identity ([`Backoff`]) |
//! | retry (of a dial) | dialled again after short, doubling pauses (`operation`) |
//! | name, lock (`names`) | one operation at a time asks handlers about a plugin name |
//! | permit (`limiter`) | one of few for operations that wait for their plugin |
//! | queue | sockets that wait for a permit, by arrival; directories take turns |
//! | connection | known by a number ([`ConnectionId`]) |
//! | budget, held | the limit on what is held of all plugins together; the octets that count |
//! | source of liveness | what reports a registered plugin's end ([`LivenessSource`]) |
//! | down | registered, but its process has gone or it does not answer |
//! | must deregister | registered; deregistered next although its socket exists |
//! | claims | the permit, name, handler and deadline of a socket; applied after each of its steps |
//! | dirty | a socket to examine before the manager is at rest |
//! | deadline, timer | when a state has to continue, and whose state it is ([`Timer`]) |
//! | snapshot, saved state | what is written to the state file; what is read from it |
//! | expected | the socket of a restored plugin, until the watch has found or lost it |
//! | replay | apply an entry to what the state file holds, after a restart |
//! | restored | registered before a restart, and not registered again yet |
//! | root | a directory that the user named, as the watch resolves it |
//! | part | a root without its subdirectories, or a directory right below it; has a quota |
//! | round | a scan of all directories: after lost events, on request, at each resync |
//! | rescan | the wait until all were read and compared, at the start or on request |
//! | leaving | a directory that was removed, while its plugins are deregistered |
//! | scan, list, examine | watch and read a directory; its next piece; stat one path |
//! | doubt | a reason to examine a known path again |
//! | tick, resync | each second for what cannot be watched; all, each 300 s |
//! | turn (of the loop) | one pass of [`PluginManager::turn`](crate::daemon::PluginManager::turn) |
//! | pure, shell | a folder without clock, descriptor and thread; `daemon`, which has them |
//! | peer | the process at the other end of a connection |
//! | record, state | what an operator sees of a socket ([`Record`]); its [`State`], in one word |
//! | generation | the count of events and changes of records, since the start |
//! | instance (of the daemon) | one start of it; generations of two instances cannot be compared |
//! | change (of a record) | the latest difference that a reader has not seen (`changes`) |
//! | measurement, counter | a fact for the metrics; the sum of such facts (`api`) |
//! | series, labels | one number of a metric; what distinguishes it from others of that metric |
//! | link by name | `by-name/TYPE/NAME.sock`, which leads to the endpoint in use |
//! | client, request, response | those of the API; what a request asks for is a `Call` (`api`) |
//! | client (`registration`) | a connection to `kubelet.sock`; its call is one of Register |
//! | change (of the daemon) | what a client may have done: retry, rescan, reload, forget |
//! | setting | an option in the configuration file or the environment |
//! | reload | read the configuration again, and apply what has changed |
//! | service manager | systemd, or another program that is notified and passes sockets in |
//! | finding, remedy | a result of `doctor`, and what to do about it |
//! | preface | the first octets of an HTTP/2 connection (RFC 9113 §3.4) |
//! | other protocol | what a peer that does not speak HTTP/2 sends instead |
//! | final bytes | the last ones of a connection, with its GOAWAY |
//!
//! [`AttemptId`]: crate::manager::AttemptId
//! [`Backoff`]: crate::backoff::Backoff
//! [`ConnectionId`]: crate::manager::ConnectionId
//! [`Effect`]: crate::handler::Effect
//! [`Failure`]: crate::manager::Failure
//! [`Identity`]: crate::watch::Identity
//! [`instances`]: crate::manager::Manager::instances
//! [`LivenessSource`]: crate::manager::LivenessSource
//! [`Plugin`]: crate::handler::Plugin
//! [`PluginEvent`]: crate::manager::PluginEvent
//! [`PluginHandler`]: crate::handler::PluginHandler
//! [`Reason`]: crate::handler::Reason
//! [`Record`]: crate::manager::Record
//! [`Refusal`]: crate::manager::Refusal
//! [`Socket`]: crate::manager::Socket
//! [`State`]: crate::manager::State
//! [`Ticket`]: crate::handler::Ticket
//! [`Timer`]: crate::manager::Timer
