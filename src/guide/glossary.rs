//! The words of the code, with one meaning each. Terms of HTTP/2, gRPC and kubelet are theirs.
//!
//! | word | meaning |
//! |---|---|
//! | socket | a registration socket that was found; [`Socket`] is all that is known about it |
//! | identity | which file a path leads to: device, inode, birth time ([`Identity`]) |
//! | found, lost | the watch reports a socket, or that it has gone |
//! | plugin | what a process reports in GetInfo, and through which socket ([`Plugin`]) |
//! | announced | by a call of Register on `kubelet.sock`, instead of a socket that is found |
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
//! | attempt | one try to register a socket's plugin, also in a dry run; counted for each socket |
//! | action, outcome | what a step of an operation asks for; how the operation ends |
//! | event | what an operator sees of a socket or plugin; the log is its text ([`PluginEvent`]) |
//! | failure, refusal | why an attempt failed ([`Failure`]); its plugin gets a [`Refusal`] |
//! | backoff | the pause after a failure; belongs to the identity ([`Backoff`]) |
//! | lock (of a name) | one operation at a time asks handlers about a plugin name (`names`) |
//! | permit, queue | of 16 for operations that wait for their plugin; sockets that wait for one |
//! | connection | descriptor (`daemon`), owner and client ([`ConnectionId`]), octets (`http2`) |
//! | budget, held | the limit on what is held of all plugins together; the octets that count |
//! | source of liveness | what reports a registered plugin's end: its process or a connection |
//! | down | registered, but its process has gone or it does not answer |
//! | claims | the permit, name, handler and deadline of a socket; applied after each of its steps |
//! | deadline, timer | when a state has to continue, and whose state it is ([`Timer`]) |
//! | restored, expected | a plugin from the state file; its socket, until it is found or lost |
//! | root | a directory that the user named, as the watch resolves it |
//! | scan, round | watch and read one directory; do so with all of them |
//! | doubt | a reason to examine a known path again |
//! | resync | a round every 300 s, as a safety net |
//! | turn (of the loop) | one pass of [`PluginManager::turn`](crate::daemon::PluginManager::turn) |
//! | pure, shell | without clock, descriptor and thread; `daemon`, which has them |
//! | peer | the process at the other end of a connection |
//! | record, state | what an operator sees of a socket ([`Record`]); its [`State`], in one word |
//! | generation | the count of events and changes of records, since the start |
//! | change | a difference of records that a reader has not seen (`changes`) |
//! | link by name | `by-name/TYPE/NAME.sock`, which leads to the endpoint in use |
//! | setting | an option of `run`: on the command line, in the environment or in the file |
//! | finding, remedy | a result of `doctor`, and what to do about it |
//!
//! [`Backoff`]: crate::backoff::Backoff
//! [`ConnectionId`]: crate::manager::ConnectionId
//! [`Effect`]: crate::handler::Effect
//! [`Failure`]: crate::manager::Failure
//! [`Identity`]: crate::watch::Identity
//! [`instances`]: crate::manager::Manager::instances
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
